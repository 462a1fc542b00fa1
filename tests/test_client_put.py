"""`PutGroup`: one writer, chunks, the end of a write; and every way in which it goes wrong."""

from typing import Any

import pytest

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.calls import Done, Failed, GetGroup, PutDone, PutGroup
from pinfold.core.client_put import chunk_end
from pinfold.core.errors import Refusal
from pinfold.core.ids import HoldId, NodeName, Reason, Tier
from tests.client_cluster import FakeCluster, run_to_quiet
from tests.client_world import COPY, NODE, Script, hold_of, manifest_of, pinned, put_of, route_of

PUT = put_of("p", blocks=3)
G = PUT.spec.group
N1 = NodeName("n1")


def begun(op: PutGroup = PUT, **changes: Any) -> tuple[Script, c.Command]:
    """A script in which the Create has been sent."""
    s = Script(**changes)
    s.call("x", op)
    s.open()
    return s, s.body(c.Create)


def created(s: Script, create: c.Command) -> None:
    s.answer(create, a.Created(G, COPY, N1, NODE, hold_of(create), 5, 5))


def written(s: Script) -> r.Write:
    write: r.Write = s.take(r.Write)
    s.step(r.Written(N1, write.token, write.copy, write.blocks))
    return write


def ended(s: Script) -> None:
    end = s.take(r.EndWrite)
    assert end.manifest == manifest_of(PUT)
    s.step(r.WriteEnded(N1, end.token, end.copy, end.manifest))


def awaited(s: Script, outcome: str = "readable", revision: int = 9) -> None:
    query = s.take(c.Await)
    assert (query.want, query.group) == ("readable", G)
    s.tell(query.token, a.Awaited(G, outcome, 1, 5, Reason.NONE), revision=revision)


def undone(s: Script) -> None:
    """The writing was given up: the node was told, and the PIN released."""
    aborts = [m for _, m in s.sent if isinstance(m, r.AbortWrite)]
    unpins = [m for _, m in s.sent if isinstance(m, c.Command) and isinstance(m.body, c.Unpin)]
    assert (len(aborts), len(unpins)) == (1, 1)
    s.step(r.WriteAborted(N1, aborts[0].token, COPY))
    s.answer(unpins[0], a.Released(G, unpins[0].body.hold, 8))
    assert not s.client.state.holds
    assert not s.client.state.exchanges
    s.sent.clear()


def test_create_write_end_await_unpin() -> None:
    s, create = begun(put_of("p", blocks=3, node=N1, tier=Tier.SSD, request="r"))
    assert (create.body.node, create.body.tier, create.body.request) == (N1, Tier.SSD, "r")
    assert create.body.write_ms == 10_000
    created(s, create)
    write = written(s)
    assert (write.copy, write.blocks, write.checksums, write.data) == (COPY, (0, 1, 2), PUT.checksums, PUT.data)
    ended(s)
    awaited(s)
    assert s.replies["x"] == Done(PutDone(G, COPY, None, True), 1, 9)
    unpin = s.body(c.Unpin)
    s.answer(unpin, a.Released(G, unpin.body.hold, 10))
    assert not s.client.state.holds
    assert s.none_sent(r.AbortWrite)


def test_a_pin_that_is_kept_is_the_callers() -> None:
    s, create = begun(put_of("p", blocks=3, keep_pin=True))
    created(s, create)
    written(s)
    ended(s)
    awaited(s)
    assert s.replies["x"].value.hold == hold_of(create)
    assert s.none_sent(c.Unpin)


def test_chunks_are_filled_up_to_the_limit_and_pipelined() -> None:
    s, create = begun(write_chunk_bytes=8, write_window=1)
    created(s, create)
    assert s.sent[-1][1].blocks == (0, 1)
    written(s)
    assert s.none_sent(r.EndWrite)
    assert written(s).blocks == (2,)
    ended(s)


def test_where_a_chunk_ends() -> None:
    assert chunk_end((4, 4, 4), 0, 8, 99) == 2
    assert chunk_end((4, 4, 4), 2, 8, 99) == 3
    assert chunk_end((400, 4), 0, 8, 99) == 1
    assert chunk_end((1,) * 10, 3, 8, 2) == 5


def test_payloads_may_be_left_out() -> None:
    s, create = begun(PutGroup(PUT.spec, PUT.checksums))
    created(s, create)
    assert written(s).data == ()


def test_lengths_that_differ_are_refused_before_anything_is_sent() -> None:
    s = Script()
    s.call("x", PutGroup(PUT.spec, (1, 2)))
    assert s.failed("x") == "BadRequest"
    assert not s.sent


def test_a_group_that_exists_is_not_written() -> None:
    s, create = begun()
    s.answer(create, a.Exists(G, route_of(PUT), hold_of(create), 6))
    assert s.replies["x"].value == PutDone(G, COPY, None, False)
    assert s.body(c.Unpin).body.hold == hold_of(create)


def test_a_put_that_joined_waits_for_the_other_writer() -> None:
    s, create = begun()
    s.answer(create, a.Joined(G, COPY, 6))
    awaited(s)
    assert s.replies["x"].value == PutDone(G, COPY, None, False)
    assert not s.client.state.holds


def test_a_put_that_joined_and_wants_a_pin_pins() -> None:
    s, create = begun(put_of("p", blocks=3, keep_pin=True))
    s.answer(create, a.Joined(G, COPY, 6))
    awaited(s)
    pin = s.body(c.Pin)
    s.answer(pin, pinned(pin, PUT))
    assert s.replies["x"].value == PutDone(G, COPY, hold_of(pin), False)


def test_a_put_that_joined_creates_when_the_other_writer_gave_up() -> None:
    s, create = begun()
    s.answer(create, a.Joined(G, COPY, 6))
    awaited(s, "gone")
    s.pass_ms(50)
    again = s.body(c.Create)
    assert again.sequence == 2
    created(s, again)
    written(s)
    ended(s)
    awaited(s, revision=10)
    assert s.replies["x"].value.created


def test_whoever_does_not_want_to_wait_for_another_writer_is_told() -> None:
    s, create = begun(wait_joined=False)
    s.answer(create, a.Joined(G, COPY, 6))
    assert (s.failed("x"), s.replies["x"].refusal.holder) == ("NotSealed", str(COPY))


def test_no_space_is_tried_again_later_under_a_new_number() -> None:
    s, create = begun()
    s.refuse(create, "NoSpace", retry_after_ms=500)
    s.pass_ms(450)
    assert s.none_sent(c.Create)
    s.pass_ms(100)
    again = s.body(c.Create)
    assert (create.sequence, again.sequence) == (1, 2)


def test_no_space_until_the_deadline_surely_did_not_happen() -> None:
    s = Script()
    s.call("x", PUT, timeout_ms=1_000)
    s.open()
    s.refuse(s.body(c.Create), "NoSpace", retry_after_ms=5_000)
    s.pass_ms(1_000)
    assert s.failed("x") == "DeadlineReached"
    assert s.replies["x"].definite is True


def test_a_node_that_has_not_heard_of_the_copy_yet_is_written_to_again() -> None:
    s, create = begun()
    created(s, create)
    for _ in range(3):
        s.deny(s.take(r.Write), "StaleCopy")
        s.pass_ms(200)
    written(s)
    ended(s)
    awaited(s)
    assert s.replies["x"].value.created


def test_a_node_that_could_not_make_the_copy_is_not_written_to_again() -> None:
    s, create = begun(put_attempts=1)
    created(s, create)
    s.deny(s.take(r.Write), "StaleCopy", guard="not_failed")
    assert s.failed("x") == "AttemptsUsed"
    undone(s)


def test_a_node_that_never_hears_of_the_copy_costs_an_attempt() -> None:
    s, create = begun(reserve_wait_ms=100, put_attempts=1)
    created(s, create)
    s.deny(s.take(r.Write), "StaleCopy")
    s.pass_ms(200)
    s.deny(s.take(r.Write), "StaleCopy")
    assert s.failed("x") == "AttemptsUsed"
    undone(s)


def test_a_copy_that_is_lost_while_written_is_given_up_and_the_put_starts_again() -> None:
    s, create = begun(write_chunk_bytes=4, write_window=1)
    created(s, create)
    written(s)
    s.deny(s.take(r.Write), "StaleCopy")
    undone(s)
    s.pass_ms(50)
    s.answer(s.body(c.Create), a.Joined(G, COPY, 6))  # the old write has not ended yet
    awaited(s, "gone")
    s.pass_ms(50)
    assert s.body(c.Create).sequence == 4


def test_a_silent_node_costs_an_attempt_each_and_they_are_bounded() -> None:
    s = Script(put_attempts=2, node_attempts=1)
    s.call("x", PUT, timeout_ms=30_000)
    s.open()
    for attempt in range(2):
        created(s, s.body(c.Create))
        s.take(r.Write)
        s.pass_ms(1_050)
        assert ("x" in s.replies) == (attempt == 1)
    assert s.failed("x") == "AttemptsUsed"


@pytest.mark.parametrize("reason", ["ManifestMismatch", "BadRequest", "NoSpace"])
def test_a_write_that_is_refused_for_good_is_given_up(reason: str) -> None:
    s, create = begun()
    created(s, create)
    s.deny(s.take(r.Write), reason)
    assert s.replies["x"] == Failed(Refusal(reason), definite=True)
    undone(s)


def test_a_write_that_never_ends_may_have_ended_after_all() -> None:
    s = Script()
    s.call("x", PUT, timeout_ms=500)
    s.open()
    created(s, s.body(c.Create))
    written(s)
    s.take(r.EndWrite)
    s.pass_ms(500)
    assert (s.failed("x"), s.replies["x"].definite) == ("DeadlineReached", False)
    undone(s)


def test_a_node_lost_while_the_write_ends_leaves_the_outcome_unknown() -> None:
    s, create = begun(put_attempts=1, node_attempts=1)
    created(s, create)
    written(s)
    s.take(r.EndWrite)
    s.pass_ms(1_050)
    assert (s.failed("x"), s.replies["x"].definite) == ("AttemptsUsed", False)


def test_a_write_that_ended_and_whose_group_is_gone_is_written_again() -> None:
    s, create = begun()
    created(s, create)
    written(s)
    ended(s)
    awaited(s, "gone")
    s.pass_ms(50)
    assert s.body(c.Create).sequence > 1


def test_the_wait_for_readable_goes_on_after_a_slice() -> None:
    s, create = begun()
    created(s, create)
    written(s)
    ended(s)
    awaited(s, "timeout")
    awaited(s, "readable", revision=10)
    assert s.replies["x"].value.created


def test_a_cancelled_create_that_had_happened_is_undone() -> None:
    s, create = begun()
    s.cancel("x")
    s.sent.clear()
    created(s, create)
    undone(s)


def test_a_cancel_while_writing_undoes_it() -> None:
    s, create = begun()
    created(s, create)
    s.cancel("x")
    assert (s.failed("x"), s.replies["x"].definite) == ("DeadlineReached", False)
    undone(s)


def test_the_end_of_the_session_ends_the_put_and_the_node_is_told() -> None:
    s, create = begun()
    created(s, create)
    s.pass_ms(3_000)
    s.sent = [item for item in s.sent if not isinstance(item[1], r.Write)]
    s.tell(s.take(c.KeepAlive).token, a.Refused(Refusal("SessionEnded"), 9), revision=9)
    assert (s.failed("x"), s.replies["x"].definite) == ("SessionEnded", False)
    s.take(r.AbortWrite)
    assert not s.client.state.holds


# ---- every failure path gives everything back --------------------------------------------------------------------


def story(event: str, at: int, keep_pin: bool) -> tuple[Script, FakeCluster, list[HoldId]]:
    """Put a group, then get it; at the `at`-th message something happens; then the world is healthy until all is quiet."""
    s, cluster = Script(node_attempts=2), FakeCluster()
    s.call("put", put_of("p", blocks=3, keep_pin=keep_pin), timeout_ms=20_000)
    delivered, got = 0, False
    for _ in range(2_000):
        if not s.sent:
            if "put" in s.replies and not got:
                got = True
                s.call("get", GetGroup(G, keep_pin=keep_pin), timeout_ms=20_000)
                continue
            if "get" in s.replies or s.alarm is None:
                break
            s.pass_ms(max(1, s.alarm - s.now))
            continue
        target, message = s.sent.pop(0)
        delivered += 1
        hit = delivered == at
        if hit and event == "lose message":
            continue
        answers = cluster.receive(target, message)
        if hit and event == "lose answer":
            continue
        if hit and event == "end session":
            for session in list(cluster.sessions):
                cluster.end(session)
        if hit and event == "evict":
            cluster.evict(G)
        cluster.node_down = event == "node down" and at <= delivered < at + 4
        for answer in answers:
            s.step(answer)
            if hit and event == "twice":
                s.step(answer)
        if hit and event == "cancel":
            s.cancel("put")
            s.cancel("get")
    run_to_quiet(s, cluster)
    s.pass_ms(s.client.state.session.lease_ms // 3)  # the next renewal tells of what was lost
    run_to_quiet(s, cluster)
    values = [reply.value for reply in s.replies.values() if isinstance(reply, Done)]
    return s, cluster, [value.hold for value in values if value.hold is not None]


EVENTS = ["lose message", "lose answer", "twice", "cancel", "end session", "evict", "node down"]


@pytest.mark.parametrize("keep_pin", [False, True])
@pytest.mark.parametrize("event", EVENTS)
def test_whatever_happens_at_whatever_moment_nothing_is_left_behind(event: str, keep_pin: bool) -> None:
    for at in range(1, 16):
        s, cluster, kept = story(event, at, keep_pin)
        assert sorted(s.replies) == ["get", "put"], (event, at)
        live = [hold for hold in kept if hold not in s.client.state.lost_holds]
        assert sorted(cluster.holds) == sorted(live), (event, at)
        assert sorted(s.client.state.holds) == sorted(live), (event, at)
        writing = [copy for copy, record in cluster.copies.items() if record.sealed is None and not record.over]
        assert writing == [], (event, at)
        if event in ("lose message", "lose answer", "twice", "node down"):
            assert all(isinstance(reply, Done) for reply in s.replies.values()), (event, at)
