"""Holds: counted from records, each ends exactly once (rule 2, HOLD-1, HOLD-2)."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core.answers import EvictAccepted, PrefixPinned, Refused, Released, RequestReleased
from pinfold.core.ids import HoldId, HoldKind, Reason, Role, State

from .directory_world import CLIENT, N1, N2, World, id_of


@pytest.fixture
def world() -> World:
    return World()


# ---- ends ----------------------------------------------------------------------------------------------------


def test_a_second_release_is_already_done_and_one_that_never_was_is_unknown(world: World) -> None:
    world.put("A")
    hold = world.pin("A")
    assert isinstance(world.do(c.Unpin(hold)), Released)
    assert world.refused(c.Unpin(hold), "AlreadyDone").holder == str(hold)
    next_number = world.sequences[world.session] + 1
    for never in (HoldId(world.session, next_number, 0), HoldId(world.session, next_number + 5, 0), HoldId(777, 1, 0)):
        world.refused(c.Unpin(never), "UnknownHold")
    assert world.state.pinned == {}


def test_already_done_is_known_without_memory_of_ended_holds_also_after_a_restart(world: World) -> None:
    world.put("A")
    hold = world.pin("A")
    world.do(c.Unpin(hold))
    world.restart()
    world.refused(c.Unpin(hold), "AlreadyDone")


def test_one_release_never_takes_anothers_hold(world: World) -> None:
    world.put("A")
    other = world.open()
    mine, theirs = world.pin("A"), world.pin("A", other)
    assert world.refused(c.Unpin(theirs), "UnknownHold").guard == "own_hold"
    world.do(c.Unpin(mine))
    world.refused(c.Unpin(mine), "AlreadyDone")
    assert list(world.state.holds) == [theirs]


def test_a_pin_is_not_released_as_a_ref_nor_a_ref_as_a_pin(world: World) -> None:
    world.put("A")
    pin, ref = world.pin("A"), world.ref("A")
    assert world.refused(c.Unref(pin), "BadRequest").guard == "hold_kind"
    world.refused(c.Unpin(ref), "BadRequest")
    assert {hold.kind for hold in world.state.holds.values()} == {HoldKind.PIN, HoldKind.REF}


def test_release_request_ends_all_holds_of_one_request_and_no_others(world: World) -> None:
    for name in "ABC":
        world.put(name)
    other = world.open()
    world.do(c.PinPrefix((id_of("A"), id_of("B"), id_of("C")), request="r"))
    world.do(c.Ref(id_of("A"), request="r"))
    keep = [world.pin("A", request="s"), world.pin("B"), world.pin("C", other, request="r")]
    answer = world.do(c.ReleaseRequest("r"))
    assert isinstance(answer, RequestReleased)
    assert answer.released == 4
    assert list(world.state.holds) == keep
    again = world.do(c.ReleaseRequest("r"))
    assert again.released == 0


# ---- what a hold keeps ---------------------------------------------------------------------------------------


def test_a_pinned_group_is_not_evicted_and_the_refusal_names_the_holder(world: World) -> None:
    copy = world.put("A")
    hold = world.pin("A")
    refusal = world.refused(c.Evict(id_of("A")), "Pinned")
    assert refusal.holder == f"{hold} on {copy}"
    assert (refusal.row, refusal.guard) == ("LOCAL/EVICT", "unpinned")


@pytest.mark.parametrize("kind", ["Pinned", "Referenced"])
def test_an_eviction_in_a_batch_meets_the_guards_that_it_meets_alone(world: World, kind: str) -> None:
    """A batch is no way round a hold: the held group is refused as alone, its copy stays, and the others go."""
    held, free = world.put("A"), world.put("B")
    world.pin("A") if kind == "Pinned" else world.ref("A")
    alone = world.refused(c.Evict(id_of("A")), kind)
    refused, evicted = world.do(c.Batch((c.Evict(id_of("A")), c.Evict(id_of("B"))))).items
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.refusal.guard) == (alone.reason, alone.guard)
    assert isinstance(evicted, EvictAccepted)
    assert (world.role(held), world.role(free)) == (Role.AUTHORITATIVE, Role.FREEING)


def test_a_refusal_names_a_holder_that_came_in_the_same_step(world: World) -> None:
    """Who stands in the way was looked up by the first refusal of a batch: a hold that is taken after that is found too."""
    world.put("A")
    there = world.put("B")
    world.pin("A")
    batch = world.do(c.Batch((c.Evict(id_of("A")), c.Pin(id_of("B")), c.Evict(id_of("B")))))
    _, pinned, refused = batch.items
    assert isinstance(refused, Refused)
    assert refused.refusal.holder == f"{pinned.hold} on {there}"


def test_a_referenced_group_is_not_evicted_but_may_move(world: World) -> None:
    world.put("A")
    ref = world.ref("A")
    assert world.refused(c.Evict(id_of("A")), "Referenced").holder == str(ref)
    move = world.moved("A")
    assert world.role(move) is Role.AUTHORITATIVE
    world.refused(c.Evict(id_of("A")), "Referenced")


def test_the_last_readable_copy_of_a_referenced_group_is_not_given_up(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A")
    world.ref("A")
    world.lapse(N1)
    assert world.copy(copy).absent
    refusal = world.refused(c.DropReplica(id_of("A"), replica), "LastReadable")
    assert refusal.guard == "not_last_readable"
    world.register(N1, "b1")
    assert not isinstance(world.do(c.DropReplica(id_of("A"), replica)), Refused)


def test_a_waiting_evict_refuses_new_holds_and_goes_with_the_last_old_one(world: World) -> None:
    copy = world.put("A")
    pin, ref = world.pin("A"), world.ref("A")
    answer = world.do(c.Evict(id_of("A"), wait=True))
    assert isinstance(answer, EvictAccepted)
    assert answer.waiting
    for body in (c.Pin(id_of("A")), c.Ref(id_of("A")), c.Create(world.group("A").spec), c.Move(id_of("A"), N2)):
        assert world.refused(body, "Leaving").guard == "not_leaving"
    assert world.do(c.PinPrefix((id_of("A"),))).holds == ()
    world.do(c.Unpin(pin))
    world.tick()
    assert world.is_in("A", State.LOCAL)
    world.do(c.Unref(ref))
    assert world.ready.alarm == world.now, "the last hold asks for a Tick at once"
    world.tick()
    assert world.role(copy) is Role.FREEING


def test_a_waiting_evict_survives_a_restart(world: World) -> None:
    world.put("A")
    pin = world.pin("A")
    world.do(c.Evict(id_of("A"), wait=True))
    world.restart()
    world.refused(c.Pin(id_of("A")), "Leaving")
    world.do(c.Unpin(pin))
    world.tick()
    assert world.is_in("A", State.EVICTING)


@pytest.mark.parametrize("ending", ["commit", "abort", "promotion"])
def test_a_waiting_evict_is_not_forgotten_when_a_move_of_the_group_ends(world: World, ending: str) -> None:
    """An accepted request must not vanish with another decision about the same group."""
    world = World(N1, N2, "n3")  # type: ignore[arg-type]
    world.put("A")
    if ending == "promotion":
        world.replica("A", "n3")  # type: ignore[arg-type]
    ref = world.ref("A")
    move = world.move("A")
    assert world.do(c.Evict(id_of("A"), wait=True)).waiting
    if ending == "commit":
        world.done(move)
    elif ending == "abort":
        world.failed(move)
    else:
        world.lost(world.group("A").source)
    assert world.is_in("A", State.LOCAL)
    world.refused(c.Ref(id_of("A")), "Leaving")
    world.do(c.Unref(ref))
    world.tick()
    assert world.is_in("A", State.EVICTING)


# ---- loss ----------------------------------------------------------------------------------------------------


def test_a_hold_that_was_lost_says_so_once(world: World) -> None:
    copy = world.put("A")
    hold = world.pin("A")
    world.lost(copy)
    assert world.state.holds[hold].lost
    assert world.ask(c.KeepAlive(CLIENT, "k", world.session)).lost == (hold,)
    world.restart()
    assert world.ask(c.KeepAlive(CLIENT, "k", world.session)).lost == (hold,)
    refusal = world.refused(c.Unpin(hold), "HoldLost")
    assert (refusal.holder, refusal.guard) == (str(hold), "hold_live")
    world.refused(c.Unpin(hold), "AlreadyDone")
    assert world.ask(c.KeepAlive(CLIENT, "k", world.session)).lost == ()


def test_a_lost_hold_keeps_nothing_and_counts_for_nothing(world: World) -> None:
    copy = world.put("A")
    world.pin("A")
    world.lost(copy)
    world.tick()
    assert not world.state.groups
    assert not world.state.pinned


def test_a_lost_hold_ends_with_its_session_or_its_request(world: World) -> None:
    copy, other = world.put("A"), world.open()
    world.pin("A", request="r")
    world.pin("A", other)
    world.lost(copy)
    assert world.do(c.ReleaseRequest("r")).released == 1
    world.ask(c.CloseSession(CLIENT, "c", other))
    assert not world.state.holds


def test_a_pin_on_a_replica_outlives_the_loss_of_the_authoritative_copy(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A")
    hold = world.do(c.Pin(id_of("A"), replica)).hold
    world.lost(copy)
    assert world.role(replica) is Role.AUTHORITATIVE
    assert not world.state.holds[hold].lost


def test_refs_end_as_lost_with_the_last_copy(world: World) -> None:
    copy = world.put("A")
    ref = world.ref("A")
    world.lost(copy)
    assert world.group("A").reason is Reason.LOST
    world.refused(c.Unref(ref), "HoldLost")


# ---- prefixes ------------------------------------------------------------------------------------------------


def test_pin_prefix_pins_the_longest_readable_run_from_the_front(world: World) -> None:
    for name in "ABD":
        world.put(name)
    answer = world.do(c.PinPrefix(tuple(id_of(name) for name in "ABCD"), request="r"))
    assert isinstance(answer, PrefixPinned)
    assert [route.group for route in answer.routes] == [id_of("A"), id_of("B")]
    assert [hold.ordinal for hold in answer.holds] == [0, 1]
    assert len(world.state.requested[world.session, "r"]) == 2


def test_pin_prefix_of_nothing_readable_is_an_empty_run(world: World) -> None:
    world.create("A")
    answer = world.do(c.PinPrefix((id_of("A"),)))
    assert answer.routes == answer.holds == ()


def test_a_pin_on_a_copy_that_is_not_readable_is_stale(world: World) -> None:
    copy = world.put("A")
    world.moved("A")
    assert world.refused(c.Pin(id_of("A"), copy), "StaleCopy").guard == "copy_is_readable"
    world.refused(c.Pin(id_of("A"), world.put("B")), "StaleCopy")
