"""`GetGroup` and `ReadRoute`: routes that are stale, nodes that are lost, groups that move; and never a hold left behind."""

from typing import Any

import pytest

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.breaker import BreakerLimits
from pinfold.core.calls import Do, Done, GetGroup, ReadRoute
from pinfold.core.client_state import Degradation
from pinfold.core.errors import Refusal
from pinfold.core.ids import NO_COPY, CopyId, GroupId, MovePolicy, NodeName, Peer, Reason
from tests.client_world import NODE, Script, blocks_of, hold_of, pinned, put_of, route_of

PUT = put_of("g", blocks=3)
G = PUT.spec.group


def begun(op: GetGroup | None = None, **changes: Any) -> tuple[Script, c.Command]:
    """A script in which the first Pin has been sent."""
    s = Script(**changes)
    s.call("x", op or GetGroup(G))
    s.open()
    return s, s.body(c.Pin)


def released(s: Script) -> None:
    """Answer the Unpin that must have been sent; then nothing is held any more."""
    unpin = s.body(c.Unpin)
    s.answer(unpin, a.Released(G, unpin.body.hold, 7))
    assert not s.client.state.holds
    assert not s.client.state.releases


def test_pin_read_unpin() -> None:
    s, pin = begun()
    assert pin.body == c.Pin(G)
    s.answer(pin, pinned(pin, PUT))
    read = s.take(r.Read)
    assert read.blocks == (0, 1, 2)
    s.step(blocks_of(read, PUT))
    got = s.replies["x"].value
    assert (got.blocks, got.checksums, got.data, got.hold) == ((0, 1, 2), PUT.checksums, PUT.data, None)
    released(s)


def test_a_pin_that_is_kept_is_the_callers() -> None:
    s, pin = begun(GetGroup(G, keep_pin=True))
    s.answer(pin, pinned(pin, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert s.replies["x"].value.hold == hold_of(pin)
    assert list(s.client.state.holds) == [hold_of(pin)]
    assert s.none_sent(c.Unpin)


def test_only_the_blocks_that_are_asked_for_are_read_in_their_order() -> None:
    s, pin = begun(GetGroup(G, blocks=(2, 0)))
    s.answer(pin, pinned(pin, PUT))
    read = s.take(r.Read)
    assert read.blocks == (2, 0)
    s.step(blocks_of(read, PUT))
    assert s.replies["x"].value.data == (PUT.data[2], PUT.data[0])


def test_chunks_are_pipelined_and_put_together_in_order() -> None:
    s, pin = begun(read_chunk_bytes=4, read_window=2)
    s.answer(pin, pinned(pin, PUT))
    first, second = s.take(r.Read), s.take(r.Read)
    assert (first.blocks, second.blocks) == ((0,), (1,))
    assert s.none_sent(r.Read)
    s.step(blocks_of(second, PUT))
    third = s.take(r.Read)
    s.step(blocks_of(third, PUT))
    s.step(blocks_of(first, PUT))
    assert s.replies["x"].value.data == PUT.data


def test_payloads_may_be_left_out() -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT))
    read = s.take(r.Read)
    s.step(r.Blocks(NodeName("n1"), read.token, read.copy, read.blocks, PUT.checksums, 1, ()))
    assert s.replies["x"].value.data == ()


@pytest.mark.parametrize("reason", ["StaleCopy", "Freeing", "NotVerified", "Corrupt", "TierFailed"])
def test_a_stale_route_releases_the_pin_and_asks_the_directory_again(reason: str) -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT))
    assert G in s.client.state.routes
    s.deny(s.take(r.Read), reason)
    assert G not in s.client.state.routes
    released(s)
    s.pass_ms(50)
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT, copy=CopyId(0, 8, 0)))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert s.replies["x"].value.route.copy == CopyId(0, 8, 0)


def test_stale_routes_cost_a_bounded_number_of_attempts() -> None:
    s, pin = begun(route_attempts=3)
    for attempt in range(3):
        assert pin.body.copy == NO_COPY
        s.answer(pin, pinned(pin, PUT))
        s.deny(s.take(r.Read), "StaleCopy")
        if attempt < 2:
            unpin = s.body(c.Unpin)
            pin = s.body(c.Pin)
            s.answer(unpin, a.Released(G, unpin.body.hold, 7))
    assert s.failed("x") == "AttemptsUsed"
    assert s.replies["x"].definite is True
    released(s)


def test_a_cached_route_names_its_copy_and_a_stale_one_is_dropped() -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    released(s)
    s.call("y", GetGroup(G))
    pin = s.body(c.Pin)
    assert pin.body.copy == CopyId(0, 5, 0)
    s.refuse(pin, "StaleCopy")
    again = s.body(c.Pin)
    assert again.body.copy == NO_COPY
    assert G not in s.client.state.routes


def test_a_node_that_does_not_answer_costs_an_attempt_and_the_pin_is_released() -> None:
    s, pin = begun(node_attempts=2, route_attempts=1)
    s.answer(pin, pinned(pin, PUT))
    for _ in range(2):
        s.take(r.Read)
        s.pass_ms(1_100)
    assert s.failed("x") == "Unreachable"
    released(s)


def test_a_node_with_an_open_breaker_is_not_asked() -> None:
    s, pin = begun(node_attempts=1, route_attempts=1, breaker=BreakerLimits(failures=1, pause_ms=60_000))
    s.answer(pin, pinned(pin, PUT))
    s.take(r.Read)
    s.pass_ms(1_100)
    assert s.failed("x") == "Unreachable"
    s.call("y", GetGroup(G))
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT))
    assert s.failed("y") == "BreakerOpen"
    assert s.none_sent(r.Read)


def test_an_overloaded_node_is_asked_again_without_costing_an_attempt() -> None:
    s, pin = begun(route_attempts=1)
    s.answer(pin, pinned(pin, PUT))
    for _ in range(2):
        s.deny(s.take(r.Read), "Overloaded")
        s.pass_ms(100)
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["x"], Done)


@pytest.mark.parametrize(
    "wrong",
    [
        {"copy": CopyId(0, 99, 0)},
        {"blocks": (0, 1)},
        {"checksums": (1, 2)},
        {"data": (b"only one",)},
    ],
    ids=["copy", "blocks", "checksums", "data"],
)
def test_an_answer_with_other_blocks_than_were_asked_for_is_never_given_to_the_caller(wrong: dict[str, Any]) -> None:
    s, pin = begun(route_attempts=1)
    s.answer(pin, pinned(pin, PUT))
    answer = blocks_of(s.take(r.Read), PUT)
    for name, value in wrong.items():
        setattr(answer, name, value)
    s.step(answer)
    assert s.failed("x") == "AttemptsUsed"
    released(s)


def test_checksums_are_compared_with_the_records_manifest_when_the_layout_is_given() -> None:
    s, pin = begun(GetGroup(G, layout=PUT.spec.key.layout), route_attempts=1)
    s.answer(pin, pinned(pin, PUT))
    answer = blocks_of(s.take(r.Read), PUT)
    answer.checksums = (1, 2, 4)
    s.step(answer)
    assert "ManifestMismatch" in s.replies["x"].refusal.detail
    s.call("y", GetGroup(G, layout=PUT.spec.key.layout))
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["y"], Done)


# ---- while it moves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [MovePolicy.WAIT, MovePolicy.TARGET])
def test_a_patient_reader_waits_until_the_move_is_over_and_pins_again(policy: MovePolicy) -> None:
    s, pin = begun(GetGroup(G, policy))
    s.refuse(pin, "MoveInProgress")
    query = s.take(c.Await)
    assert (query.want, query.group) == ("settled", G)
    s.tell(query.token, a.Awaited(G, "settled", 1, 9, Reason.NONE), revision=9)
    s.pass_ms(30)
    again = s.body(c.Pin)
    assert again.sequence == 2  # it was answered: another intent, another number
    s.answer(again, pinned(again, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["x"], Done)


def test_a_patient_reader_waits_for_the_writer_an_impatient_one_does_not() -> None:
    s, pin = begun(GetGroup(G, MovePolicy.WAIT))
    s.refuse(pin, "NotSealed")
    assert s.take(c.Await).want == "readable"
    s, pin = begun()
    s.refuse(pin, "NotSealed")
    assert s.failed("x") == "NotSealed"


def test_the_deadline_ends_the_waiting() -> None:
    s = Script()
    s.call("x", GetGroup(G, MovePolicy.WAIT), timeout_ms=500)
    s.open()
    s.refuse(s.body(c.Pin), "MoveInProgress")
    s.pass_ms(500)
    assert s.failed("x") == "DeadlineReached"
    assert s.replies["x"].definite is True


def test_a_group_in_a_store_is_brought_to_the_near_node_first() -> None:
    s, pin = begun(GetGroup(G, near=NodeName("n1")))
    s.answer(pin, pinned(pin, PUT, address=Peer("")))
    released_first = s.body(c.Unpin)
    move = s.body(c.Move)
    assert released_first.sequence < move.sequence
    assert move.body == c.Move(G, NodeName("n1"))
    s.answer(released_first, a.Released(G, hold_of(pin), 7))
    s.answer(move, a.MoveAccepted(G, CopyId(0, 8, 0), 8, False, 8))
    query = s.take(c.Await)
    assert (query.want, query.copy) == ("settled", CopyId(0, 8, 0))
    s.tell(query.token, a.Awaited(G, "settled", 1, 9, Reason.NONE), revision=9)
    s.pass_ms(30)
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT, copy=CopyId(0, 8, 0)))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["x"], Done)


def test_a_group_in_a_store_and_no_node_to_bring_it_to() -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT, address=Peer("")))
    assert s.failed("x") == "Unreadable"
    released(s)


# ---- deadlines, cancels, sessions --------------------------------------------------------------------------------


def test_a_cancelled_read_releases_its_pin() -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT))
    s.cancel("x")
    assert s.failed("x") == "Cancelled"
    assert not s.client.state.exchanges
    released(s)


def test_a_pin_that_arrives_after_the_cancel_is_released() -> None:
    s, pin = begun()
    s.cancel("x")
    assert s.failed("x") == "DeadlineReached"
    s.answer(s.body(c.Cancel), pinned(pin, PUT))
    released(s)


def test_the_end_of_the_session_fails_a_read_that_has_a_pin() -> None:
    s, pin = begun()
    s.answer(pin, pinned(pin, PUT))
    s.pass_ms(3_000)
    s.tell(s.take(c.KeepAlive).token, a.Refused(Refusal("SessionEnded"), 9), revision=9)
    assert s.failed("x") == "SessionEnded"
    assert not s.client.state.holds
    s.pass_ms(100)
    assert s.none_sent(c.Unpin)


# ---- without a pin ---------------------------------------------------------------------------------------------


def cached(**changes: Any) -> Script:
    """A script that has read the group once, with everything released."""
    s, pin = begun(**changes)
    s.answer(pin, pinned(pin, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    released(s)
    s.replies.clear()
    s.sent.clear()
    return s


def test_an_optimistic_read_needs_no_pin_and_a_stale_route_costs_one_attempt() -> None:
    s = cached(optimistic_reads=True)
    s.call("y", GetGroup(G))
    assert s.none_sent(c.Pin)
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["y"], Done)
    s.call("z", GetGroup(G))
    s.deny(s.take(r.Read), "StaleCopy")
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["z"], Done)


SHY = BreakerLimits(failures=1, pause_ms=60_000)


def without_directory(s: Script) -> None:
    """Let one query time out, so that the directory's breaker opens."""
    s.call("silence", Do(c.ReleaseRequest("r")), timeout_ms=400)
    s.pass_ms(400)
    s.sent.clear()


def test_local_only_reads_by_the_cached_route_at_the_near_node() -> None:
    s = cached(degradation=Degradation.LOCAL_ONLY, near=NodeName("n1"), breaker=SHY)
    without_directory(s)
    s.call("y", GetGroup(G))
    s.step(blocks_of(s.take(r.Read), PUT))
    assert s.replies["y"].value.data == PUT.data


@pytest.mark.parametrize(
    ("near", "op"),
    [("n2", GetGroup(G)), ("n1", GetGroup(GroupId(b"unknown." * 2))), ("n1", GetGroup(G, keep_pin=True))],
    ids=["other node", "unknown", "pin wanted"],
)
def test_local_only_refuses_what_is_not_there(near: str, op: GetGroup) -> None:
    s = cached(degradation=Degradation.LOCAL_ONLY, near=NodeName(near), breaker=SHY)
    without_directory(s)
    s.call("y", op)
    assert s.failed("y") == "Degraded"
    s.call("z", Do(c.Evict(G)))
    assert s.failed("z") == "Degraded"


def test_local_only_stops_waiting_for_a_pin_when_the_directory_goes_silent() -> None:
    s = cached(degradation=Degradation.LOCAL_ONLY, near=NodeName("n1"), breaker=SHY)
    s.call("y", GetGroup(G))
    pin = s.body(c.Pin)
    s.pass_ms(300)
    s.step(blocks_of(s.take(r.Read), PUT))
    assert isinstance(s.replies["y"], Done)
    s.answer(pin, pinned(pin, PUT))  # it had happened after all
    released(s)


def test_a_route_is_read_without_asking_the_directory() -> None:
    s = Script()
    s.call("x", ReadRoute(route_of(PUT), (1,)))
    assert [target for target, _ in s.sent] == [NODE]
    s.step(blocks_of(s.take(r.Read), PUT))
    assert s.replies["x"].value.data == (PUT.data[1],)
    s.call("y", ReadRoute(route_of(PUT)))
    s.deny(s.take(r.Read), "StaleCopy")
    assert s.failed("y") == "StaleCopy"
    s.call("z", ReadRoute(route_of(PUT, address=Peer(""))))
    assert s.failed("z") == "Unreadable"
