"""The client machine's queries, limits, rates, breakers, routes and degradation."""

import pytest

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.breaker import BreakerLimits
from pinfold.core.calls import Ask, AskNode, Do, Done, Failed, GetGroup
from pinfold.core.client import Client
from pinfold.core.client_state import Degradation
from pinfold.core.errors import Refusal
from pinfold.core.events import PeerUnreachable
from pinfold.core.ids import CopyId, GroupId, HoldId, MovePolicy, NodeName, Peer, Reason
from tests.client_world import CLIENT, DIRECTORY, NODE, Script, hold_of, pinned, put_of, route_of

G = GroupId(b"g" * 16)
PUT = put_of("p")
P = PUT.spec.group


def referred(command: c.Command, group: GroupId = G) -> a.Referred:
    return a.Referred(group, hold_of(command), 3)


# ---- queries ---------------------------------------------------------------------------------------------------


def test_a_query_is_filled_in_asked_and_answered() -> None:
    s = Script()
    s.call("q", Ask(c.Locate(Peer(""), "", (P,))))
    query = s.take(c.Locate)
    assert (query.client, query.groups) == (CLIENT, (P,))
    answer = a.Located((route_of(PUT),), GroupId(b""), -1)
    s.tell(query.token, answer, revision=5)
    assert s.replies["q"] == Done(answer, 1, 5)
    assert s.client.state.routes[P].route == route_of(PUT)


def test_an_answer_older_than_one_that_was_used_is_asked_again() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.call("q", Ask(c.Locate(Peer(""), "", (P,))))
    query = s.take(c.Locate)
    s.answer(command, a.Referred(G, hold_of(command), revision=10))
    s.tell(query.token, a.Located((), P, -1), revision=9)
    assert "q" not in s.replies
    s.pass_ms(100)
    again = s.take(c.Locate)
    s.tell(again.token, a.Located((), P, -1), revision=10)
    assert s.replies["q"].revision == 10


def test_an_older_term_is_older_whatever_its_revision() -> None:
    s = Script()
    s.call("p", Ask(c.Status(Peer(""), "")))
    status = a.StatusReport((), 0, 0, 0, 0, "store", ())
    s.tell(s.take(c.Status).token, status, revision=5, term=3)
    s.call("q", Ask(c.Status(Peer(""), "")))
    s.tell(s.take(c.Status).token, status, revision=50, term=2)
    assert "q" not in s.replies
    assert s.client.state.counters["old_answers"] == 1


def test_a_query_that_is_not_answered_fails_definitely_for_it_changes_nothing() -> None:
    s = Script()
    s.call("q", Ask(c.Status(Peer(""), "")), timeout_ms=400)
    s.pass_ms(400)
    assert s.failed("q") == "DeadlineReached"
    assert s.replies["q"].definite is True


def test_an_await_is_asked_in_slices_until_it_ends() -> None:
    s = Script(await_slice_ms=1_000)
    s.call("w", Ask(c.Await(Peer(""), "", "readable", G)), timeout_ms=10_000)
    timeout = a.Awaited(G, "timeout", 0, 0, Reason.NONE)
    for _ in range(3):
        query = s.take(c.Await)
        assert query.timeout_ms == 1_000
        s.pass_ms(1_000)
        s.tell(query.token, timeout)
    query = s.take(c.Await)
    s.tell(query.token, a.Awaited(G, "readable", 1, 2, Reason.NONE))
    assert s.replies["w"].value.outcome == "readable"


def test_an_await_with_a_time_of_its_own_answers_timeout_and_does_not_fail() -> None:
    s = Script()
    s.call("w", Ask(c.Await(Peer(""), "", "gone", G, timeout_ms=500)))
    query = s.take(c.Await)
    assert query.timeout_ms == 500
    s.pass_ms(500)
    s.tell(query.token, a.Awaited(G, "timeout", 0, 0, Reason.NONE))
    assert s.replies["w"].value.outcome == "timeout"


def test_a_question_to_a_node() -> None:
    s = Script()
    s.call("n", AskNode(NODE, r.NodeStat(Peer(""), "")))
    stat = s.take(r.NodeStat)
    answer = r.NodeStatus(NodeName("n1"), stat.token, "b", 1, 1, 1, (), 0, (), ())
    s.step(answer)
    assert s.replies["n"] == Done(answer)


# ---- limits, rates, breakers -----------------------------------------------------------------------------------


def test_at_the_limit_of_calls_a_call_is_refused_but_not_one_that_gives_back() -> None:
    s = Script(calls_max=2)
    for call in range(3):
        s.call(call, Do(c.Ref(G)))
    assert s.replies[2] == Failed(Refusal("Overloaded", guard="calls_max"), definite=True)
    s.call("back", Do(c.Unref(HoldId(1, 1, 0))))
    assert "back" not in s.replies


def test_at_the_limit_of_the_queue_or_of_holds_a_command_is_refused() -> None:
    s = Script(queue_max=1)
    s.call(1, Do(c.Ref(G)))
    s.call(2, Do(c.Ref(G)))
    assert s.replies[2].refusal.guard == "queue_max"
    s = Script(holds_max=1)
    s.call(1, Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.call(2, Do(c.Ref(G)))
    assert s.replies[2].refusal.guard == "holds_max"


def test_the_rate_limit_refuses_and_says_when_to_come_again() -> None:
    s = Script(calls_per_s=10, calls_burst=2)
    for call in range(3):
        s.call(call, Do(c.Ref(G)))
    assert s.replies[2] == Failed(Refusal("RateLimited", retry_after_ms=100), definite=True)
    s.pass_ms(100)
    s.call("later", Do(c.Ref(G)))
    assert "later" not in s.replies


def test_a_call_id_in_use_is_the_callers_bug() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    with pytest.raises(ValueError, match="in use"):
        s.call("x", Do(c.Ref(G)))


@pytest.mark.parametrize("body", [c.Cancel(), c.Batch(()), c.Batch((c.Cancel(),))])
def test_a_cancel_is_the_machines_own_and_an_empty_batch_is_nothing(body: c.Body | c.Batch) -> None:
    s = Script()
    s.call("x", Do(body))
    assert s.failed("x") == "BadRequest"


BREAKER = BreakerLimits(failures=3, pause_ms=500, spacing_ms=1, probe_ms=300)


def test_a_silent_directory_opens_its_breaker_and_new_calls_are_refused_at_once() -> None:
    s = Script(breaker=BREAKER)
    s.call("x", Do(c.Ref(G)), timeout_ms=60_000)
    while not s.client.state.counters.get("breakers_opened"):
        s.pass_ms(50)
    s.call("y", Do(c.Ref(G)))
    reply = s.replies["y"]
    assert (reply.refusal.reason, reply.definite) == ("BreakerOpen", True)
    assert 0 < reply.refusal.retry_after_ms <= 500
    s.sent.clear()
    s.pass_ms(400)
    assert not s.sent
    s.pass_ms(200)
    s.open()  # the probe
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    assert isinstance(s.replies["x"], Done)
    assert not s.client.state.breakers


@pytest.mark.parametrize("patient", [True, False])
def test_what_gives_back_is_taken_while_the_breaker_is_open_and_sent_when_it_lets_it_through(patient: bool) -> None:
    """A caller that is done with a hold must be able to say so. Whether it waits or not, the release is not forgotten."""
    s = Script(breaker=BREAKER)
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    hold = hold_of(command)
    for _ in range(3):
        s.step(PeerUnreachable(DIRECTORY))
        s.pass_ms(5)
    s.call("y", Do(c.Ref(G)))
    assert s.failed("y") == "BreakerOpen"
    s.sent.clear()
    s.call("z", Do(c.Unref(hold)), timeout_ms=60_000 if patient else 100)
    assert s.none_sent(c.Command)
    s.pass_ms(150)
    assert ("z" in s.replies) is not patient
    s.pass_ms(1_000)
    release = s.body(c.Unref)
    assert release.body == c.Unref(hold)
    s.answer(release, a.Released(G, hold, 4))
    assert isinstance(s.replies["z"], Done if patient else Failed)
    assert not s.client.state.holds


def test_the_wires_word_counts_as_a_failure_and_is_no_proof() -> None:
    s = Script(breaker=BREAKER)
    s.call("x", Do(c.Ref(G)))
    for _ in range(3):
        s.step(PeerUnreachable(DIRECTORY))
        s.pass_ms(5)
    s.call("y", Do(c.Ref(G)))
    assert s.failed("y") == "BreakerOpen"
    s.pass_ms(1_000)
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    assert isinstance(s.replies["x"], Done)


def test_the_next_address_of_a_directory_is_tried_when_one_does_not_answer() -> None:
    s = Script()
    two = (DIRECTORY, Peer("directory/other"))
    s.client = Client(s.client.config.__class__(CLIENT, two, "boot"))
    s.call("x", Do(c.Ref(G)))
    s.pass_ms(1_000)
    assert [target for target, _ in s.sent][:2] == list(two)


def test_retries_of_all_calls_together_stay_within_the_budget() -> None:
    s = Script(retries_per_s=1, retries_burst=5, breaker=BreakerLimits(failures=10**6))
    for call in range(10):
        s.call(call, Do(c.Ref(G)), timeout_ms=60_000)
    s.open()
    s.pass_ms(10_000)
    refs = [m for _, m in s.sent if isinstance(m, c.Command)]
    assert 10 + 10 <= len(refs) <= 10 + 5 + 10 + 1
    assert s.client.state.counters["retries"] <= 16


@pytest.mark.parametrize(
    ("mode", "reason", "action"),
    [
        (Degradation.ERROR, "BreakerOpen", ""),
        (Degradation.RECOMPUTE, "BreakerOpen", "recompute"),
        (Degradation.REFUSE, "Degraded", "refuse"),
        (Degradation.LOCAL_ONLY, "Degraded", ""),
    ],
)
def test_degradation_is_a_policy(mode: Degradation, reason: str, action: str) -> None:
    s = Script(breaker=BREAKER, degradation=mode)
    s.call("x", Do(c.Ref(G)), timeout_ms=60_000)
    while not s.client.state.counters.get("breakers_opened"):
        s.pass_ms(50)
    s.call("y", GetGroup(G))
    assert (s.failed("y"), s.replies["y"].action) == (reason, action)


def test_recompute_is_advised_where_the_group_moves_and_the_caller_prefers_it() -> None:
    s = Script()
    s.call("x", GetGroup(G, MovePolicy.RECOMPUTE))
    s.open()
    s.refuse(s.body(c.Pin), "Recompute")
    assert (s.failed("x"), s.replies["x"].action) == ("Recompute", "recompute")


def test_routes_are_bounded_and_the_least_recently_used_goes() -> None:
    s = Script(routes_max=2)
    puts = [put_of(name) for name in ("a", "b", "c")]
    for index, put in enumerate(puts):
        s.call(index, Do(c.Pin(put.spec.group)))
        if index == 0:
            s.open()
        command = s.body(c.Pin)
        s.answer(command, pinned(command, put))
    assert list(s.client.state.routes) == [put.spec.group for put in puts[1:]]


def test_an_older_route_does_not_replace_a_newer_one() -> None:
    s = Script()
    for call in (1, 2):
        s.call(call, Do(c.Pin(P)))
    s.open()
    first, second = s.body(c.Pin), s.body(c.Pin)
    newer, older = route_of(PUT, CopyId(0, 9, 0)), route_of(PUT, CopyId(0, 5, 0))
    s.answer(second, a.Pinned(P, newer, hold_of(second), 9))
    s.answer(first, a.Pinned(P, older, hold_of(first), 5))
    assert s.client.state.routes[P].route == newer


def test_a_copy_of_the_machine_goes_its_own_way() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    other = s.client.copy()
    assert other.state == s.client.state
    s.open()
    assert other.state != s.client.state
    assert not other.state.session.session
