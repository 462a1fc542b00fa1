"""What the cluster model has found, each as the shortest story that shows it (`pinfold simulate`, chaos/simulator.py)."""

import pytest

from pinfold.backends.memory import Fault
from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.calls import Do, GetGroup, GotGroup
from pinfold.core.driver import TermEnded
from pinfold.core.effects import ReleaseInstance
from pinfold.core.ids import NO_COPY, HoldId, SessionId, State
from pinfold.core.reports import Freed, Sealed
from pinfold.core.requests import Read
from pinfold.embedded import EmbeddedCluster, EmbeddedConfig
from tests.client_world import Script, blocks_of, hold_of, pinned, put_of
from tests.directory_world import CLIENT, MANIFEST, N1, N2, OTHER_MANIFEST, World, id_of
from tests.node_world import NodeWorld, copy_id

PUT = put_of("g")
GROUP = PUT.spec.group


# ---- the directory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_LOST, Fault.UNKNOWN_DONE])
def test_a_start_that_died_after_its_claim_does_not_keep_the_next_one_out(fault: Fault) -> None:
    """The term it claimed at the store is in no record: the next start chose it again, and was fenced by its own past."""
    cluster = EmbeddedCluster(EmbeddedConfig())
    cluster.settle()
    cluster.crash_directory()
    cluster.store.inject(fault)
    with pytest.raises(TermEnded):
        cluster.start_directory()
    cluster.crash_directory()
    cluster.start_directory()
    assert cluster.state.meta.term == cluster.store.term == 3
    cluster.advance(5_000)
    cluster.check()
    assert cluster.findings() == []


def test_who_waits_for_a_copy_is_not_told_of_what_was_written_in_its_place() -> None:
    """A node whose lease had lapsed sealed a copy that did not count any more; its writer was told that it was readable,
    because the group was: with somebody else's bytes."""
    world = World(N1, N2)
    old = world.create("A", N1).copy
    world.step(c.Await(CLIENT, "old", "readable", id_of("A"), old, timeout_ms=60_000))
    world.lapse(N1)
    new = world.create("A", N2).copy
    world.step(c.Await(CLIENT, "late", "readable", id_of("A"), old, timeout_ms=60_000))
    assert [reply.message.answer.outcome for reply in world.ready.reply] == ["gone"]
    world.step(c.Await(CLIENT, "new", "readable", id_of("A"), new, timeout_ms=60_000))
    assert world.ready.reply == ()
    world.report(N1, Sealed(old, MANIFEST))
    world.sealed(new, OTHER_MANIFEST)
    assert world.is_in("A", State.LOCAL)
    assert [(reply.message.token, reply.message.answer.outcome) for reply in world.ready.reply] == [("new", "readable")]


# ---- the client --------------------------------------------------------------------------------------------------


def kept_by(script: Script, *, call: str = "get") -> HoldId:
    """A PIN that a caller was given."""
    script.call(call, Do(c.Pin(GROUP, request="r")))
    command = script.body(c.Pin)
    script.answer(command, pinned(command, PUT))
    return hold_of(command)


def renew(script: Script, *lost: HoldId) -> None:
    keep = script.take(c.KeepAlive)
    script.tell(keep.token, a.KeptAlive(keep.session, 9_000, lost))


def opened(**changes: object) -> Script:
    script = Script(**changes)
    script.call("first", Do(c.Evict(GROUP)))
    script.open()
    script.refuse(script.body(c.Evict), "UnknownGroup")
    return script


def test_a_hold_that_was_heard_to_be_lost_is_given_back() -> None:
    """The directory keeps a lost hold until it is told; the client forgot it, so each loss stayed for the session's life."""
    script = opened()
    hold = kept_by(script)
    script.pass_ms(3_500)
    renew(script, hold)
    release = script.body(c.Unpin)
    assert release.body == c.Unpin(hold)
    script.refuse(release, "HoldLost")
    script.call("late", Do(c.Unpin(hold)))
    assert script.failed("late") == "HoldLost"
    assert script.none_sent(c.Unpin)
    assert not script.client.state.holds


def test_a_loss_that_is_heard_before_its_hold_is_not_kept_over_the_session() -> None:
    script = opened()
    script.call("pin", Do(c.Pin(GROUP)), 60_000)
    command = script.body(c.Pin)
    script.pass_ms(3_500)
    renew(script, hold_of(command))
    script.answer(command, pinned(command, PUT))
    assert hold_of(command) in script.client.state.holds
    script.call("end", Do(c.Evict(GROUP)))
    script.refuse(script.body(c.Evict), "SessionEnded")
    assert not script.client.state.holds


def test_an_idle_session_with_something_to_give_back_is_not_forgotten() -> None:
    """The renewal that told of the loss came so late that the session counted as idle: what was to be said was dropped."""
    script = opened()
    hold = kept_by(script)
    script.pass_ms(3_500)
    keep = script.take(c.KeepAlive)
    script.now += 7_000
    script.tell(keep.token, a.KeptAlive(keep.session, 9_000, (hold,)))
    assert script.body(c.Unpin).session == 7


def test_a_call_whose_request_is_released_goes_on_without_its_hold() -> None:
    script = opened()
    script.call("get", GetGroup(GROUP, request="r", keep_pin=True))
    command = script.body(c.Pin)
    script.answer(command, pinned(command, PUT))
    read = script.take(Read)
    script.call("over", Do(c.ReleaseRequest("r")))
    release = script.body(c.ReleaseRequest)
    script.answer(release, a.RequestReleased("r", 1, 8))
    script.step(blocks_of(read, PUT))
    got = script.replies["get"].value
    assert isinstance(got, GotGroup)
    assert got.hold is None


def test_holds_without_a_request_belong_to_no_request() -> None:
    """The directory does not know a request without a name: it released nothing, and the client forgot what it had."""
    script = opened()
    script.call("pin", Do(c.Pin(GROUP)))
    command = script.body(c.Pin)
    script.answer(command, pinned(command, PUT))
    script.call("over", Do(c.ReleaseRequest("")))
    script.answer(script.body(c.ReleaseRequest), a.RequestReleased("", 0, 8))
    assert hold_of(command) in script.client.state.holds


def test_a_named_session_that_was_given_up_is_closed_before_its_name_is_used_again() -> None:
    """It would be resumed, with holds in it that nobody here knows any more."""
    script = opened(session_name="s", background_ms=2_000)
    hold = kept_by(script)
    script.call("back", Do(c.Unpin(hold)), 500)
    script.pass_ms(4_000)
    assert not script.client.state.holds
    bye = script.take(c.CloseSession)
    script.tell("unknown", a.SessionClosed(SessionId(1), 0))  # any word of the directory closes the breaker
    script.call("next", Do(c.Evict(GROUP)))
    script.pass_ms(3_000)
    assert script.none_sent(c.OpenSession)
    assert not script.none_sent(c.CloseSession)
    script.tell(bye.token, a.SessionClosed(SessionId(7), 1))
    script.take(c.OpenSession)


def test_no_copy_means_the_group() -> None:
    world = World(N1, N2)
    copy = world.put("A", N1)
    world.moved("A", N2)
    for token, wanted, outcome in (("group", NO_COPY, "readable"), ("copy", copy, "gone")):
        world.step(c.Await(CLIENT, token, "readable", id_of("A"), wanted))
        assert [reply.message.answer.outcome for reply in world.ready.reply] == [outcome]


# ---- the node ----------------------------------------------------------------------------------------------------


def test_a_release_that_is_being_tried_again_asks_for_no_tick() -> None:
    """The instant of the next try stayed in the past while the try ran: the node asked for one Tick after the other."""
    node = NodeWorld()
    node.register()
    node.put(copy_id(1), "A")
    node.order(orders.Free(copy_id(1)))
    node.fail(node.work(ReleaseInstance))
    assert node.ready.alarm is not None
    node.now = node.ready.alarm
    node.tick()
    slow = node.work(ReleaseInstance)
    assert node.ready.alarm > node.now
    node.tick(60_000)
    assert node.running(ReleaseInstance) == [slow]
    assert node.ready.alarm > node.now
    node.complete(slow)
    assert Freed(copy_id(1)) in node.facts()
