"""The client machine: numbers, deadlines, cancels. Each test is a story told by `Script`."""

import pickle

import pytest

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.breaker import BreakerLimits
from pinfold.core.calls import Do, Done, Failed
from pinfold.core.errors import Refusal
from pinfold.core.ids import GroupId, HoldId, NodeName, SessionId, Tier
from tests.client_world import CLIENT, COPY, Script, hold_of, put_of, route_of

G = GroupId(b"g" * 16)
PUT = put_of("p")
P = PUT.spec.group


def referred(command: c.Command, group: GroupId = G) -> a.Referred:
    return a.Referred(group, hold_of(command), 3)


# ---- exactly once ----------------------------------------------------------------------------------------------


def test_the_first_command_opens_a_session_and_is_number_one() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open(session=7)
    command = s.body(c.Ref)
    assert (command.client, command.session, command.sequence, command.low) == (CLIENT, 7, 1, 1)
    s.answer(command, referred(command))
    assert s.replies["x"] == Done(referred(command), 1, 3)
    assert list(s.client.state.holds) == [hold_of(command)]


def test_numbers_are_given_in_the_order_of_the_calls_and_low_is_the_lowest_unanswered() -> None:
    s = Script()
    for call in range(4):
        s.call(call, Do(c.Ref(G)))
    s.open()
    commands = [s.body(c.Ref) for _ in range(4)]
    assert [command.sequence for command in commands] == [1, 2, 3, 4]
    s.answer(commands[1], referred(commands[1]))
    s.answer(commands[0], referred(commands[0]))
    s.call("next", Do(c.Unpin(HoldId(7, 9, 0))))
    unpin = s.body(c.Unpin)
    assert (unpin.sequence, unpin.low) == (5, 3)


def test_not_more_than_the_window_is_in_flight() -> None:
    s = Script(window=2)
    for call in range(4):
        s.call(call, Do(c.Ref(G)))
    s.open()
    first = s.body(c.Ref)
    assert s.body(c.Ref).sequence == 2
    assert s.none_sent(c.Ref)
    s.answer(first, referred(first))
    assert s.body(c.Ref).sequence == 3


def test_a_number_is_repeated_with_the_same_body_until_it_is_answered() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)), timeout_ms=60_000)
    s.open()
    first = s.body(c.Ref)
    s.pass_ms(5_000)
    again = [s.body(c.Ref) for _ in range(3)]
    assert [(command.sequence, command.body) for command in again] == [(1, first.body)] * 3
    s.answer(first, referred(first))
    s.sent.clear()
    s.pass_ms(1_000)
    assert s.none_sent(c.Ref)


@pytest.mark.parametrize("reason", ["Early", "WindowFull", "Overloaded"])
def test_a_refusal_at_the_door_repeats_the_same_number(reason: str) -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    s.refuse(s.body(c.Ref), reason, retry_after_ms=700)
    s.pass_ms(650)
    assert s.none_sent(c.Ref)
    s.pass_ms(100)
    again = s.body(c.Ref)
    assert again.sequence == 1
    s.answer(again, referred(again))
    assert isinstance(s.replies["x"], Done)


def test_a_number_that_came_early_follows_its_predecessor_without_a_pause() -> None:
    s = Script()
    for call in (1, 2):
        s.call(call, Do(c.Ref(G)))
    s.open()
    first, second = s.body(c.Ref), s.body(c.Ref)
    s.refuse(second, "Early", retry_after_ms=5_000)
    s.answer(first, referred(first))
    assert s.body(c.Ref).sequence == 2


def test_an_answer_that_comes_twice_is_told_once() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    for _ in range(3):
        s.answer(command, referred(command))
    assert list(s.replies) == ["x"]


def test_a_stale_low_is_repeated_and_not_told() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    s.refuse(s.body(c.Ref), "BadRequest", guard="low")
    s.pass_ms(100)
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    assert isinstance(s.replies["x"], Done)


def test_a_refusal_is_an_answer() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    s.refuse(s.body(c.Ref), "UnknownGroup")
    assert s.replies["x"] == Failed(Refusal("UnknownGroup"), definite=True)


def test_a_number_that_may_not_have_been_used_up_is_ended_by_a_cancel() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.refuse(command, "TooLarge")
    assert s.failed("x") == "TooLarge"
    cancel = s.body(c.Cancel)
    assert cancel.sequence == command.sequence
    s.refuse(cancel, "TooLarge")  # it was used up: the same answer again
    assert not s.client.state.numbers


def test_an_answer_for_another_group_is_a_conflict_and_the_named_session_is_resumed_anew() -> None:
    s = Script(session_name="engine")
    s.call("x", Do(c.Ref(G)))
    s.call("y", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command, GroupId(b"other" + b"." * 11)))
    assert s.replies["x"] == Failed(Refusal("SequenceConflict", "number 1 was used for another command"), definite=True)
    assert s.replies["y"] == Failed(s.replies["x"].refusal, definite=False)
    s.call("z", Do(c.Ref(G)))
    opening = s.take(c.OpenSession)
    assert opening.name == "engine"
    s.tell(opening.token, a.SessionOpened(SessionId(7), 9, 9_000, True))
    assert s.body(c.Ref).sequence == 9


# ---- deadlines and cancels -------------------------------------------------------------------------------------


def test_at_the_deadline_the_caller_is_told_and_the_number_is_cancelled_until_answered() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)), timeout_ms=100)
    s.open()
    command = s.body(c.Ref)
    s.pass_ms(100)
    assert s.failed("x") == "DeadlineReached"
    assert s.replies["x"].definite is False
    for _ in range(3):
        cancel = s.body(c.Cancel)
        assert cancel.sequence == command.sequence
        s.pass_ms(3_000)
    s.answer(cancel, a.CommandCancelled(9))
    assert not s.client.state.numbers
    assert not s.client.state.holds


def test_a_cancelled_command_that_took_a_hold_gives_it_back() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.cancel("x")
    assert s.failed("x") == "DeadlineReached"
    cancel = s.body(c.Cancel)
    s.answer(cancel, referred(command))
    unref = s.body(c.Unref)
    assert unref.body == c.Unref(hold_of(command))
    assert unref.sequence == 2
    s.answer(unref, a.Released(G, hold_of(command), 4))
    assert not s.client.state.holds


def test_every_hold_of_a_cancelled_batch_is_given_back() -> None:
    s = Script()
    body = c.Batch((c.Ref(G), c.Evict(G), c.Pin(P), c.PinPrefix((P,))))
    s.call("x", Do(body))
    s.open()
    command = s.body(c.Batch)
    s.cancel("x")
    items = (
        referred(command),
        a.Refused(Refusal("Referenced"), 3),
        a.Pinned(P, route_of(PUT), hold_of(command, 2), 3),
        a.PrefixPinned((route_of(PUT),), (hold_of(command, 3),), 3),
    )
    s.answer(command, a.BatchAnswer(items, 3))
    assert s.body(c.Unref).body == c.Unref(hold_of(command))
    assert [s.body(c.Unpin).body.hold for _ in range(2)] == [hold_of(command, 2), hold_of(command, 3)]


def test_cancelled_before_it_had_a_number_means_that_it_surely_did_not_happen() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.cancel("x")
    assert s.replies["x"] == Failed(Refusal("Cancelled"), definite=True)
    s.open()
    assert s.none_sent(c.Ref)
    assert s.none_sent(c.Cancel)


def test_the_deadline_of_what_had_no_number_is_definite() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)), timeout_ms=50)
    s.pass_ms(50)
    assert s.failed("x") == "DeadlineReached"
    assert s.replies["x"].definite is True


def test_a_release_goes_on_after_its_deadline() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.call("y", Do(c.Unref(hold_of(command))), timeout_ms=50)
    s.pass_ms(2_000)
    assert s.failed("y") == "DeadlineReached"
    unref = [s.body(c.Unref) for _ in range(2)][-1]
    s.answer(unref, a.Released(G, hold_of(command), 4))
    assert not s.client.state.holds


def test_a_release_without_a_number_goes_on_too() -> None:
    s = Script(window=1)
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.call("y", Do(c.Ref(G)))
    s.call("z", Do(c.Unref(hold_of(command))), timeout_ms=50)
    s.pass_ms(50)
    assert (s.failed("z"), s.replies["z"].definite) == ("DeadlineReached", False)
    second = s.body(c.Ref)
    s.answer(second, referred(second))
    assert s.body(c.Unref).body.hold == hold_of(command)


def test_cancelling_what_has_been_answered_changes_nothing() -> None:
    s = Script()
    s.cancel("never")
    assert not s.replies


def test_a_number_without_an_answer_for_too_long_ends_the_session() -> None:
    s = Script(background_ms=5_000, breaker=BreakerLimits(failures=10**6))
    s.call("x", Do(c.Ref(G)), timeout_ms=100)
    s.open()
    s.pass_ms(100)
    s.sent.clear()
    s.pass_ms(8_000)
    s.take(c.CloseSession)
    assert not s.client.state.numbers
    s.call("y", Do(c.Ref(G)))
    s.take(c.OpenSession)


@pytest.mark.parametrize(
    "answer",
    [
        r.CopiesListed(NodeName("n1"), "1", (), False),
        r.Guarded(NodeName("n1"), "1", COPY, 3, Tier.DRAM, (0,)),
        r.LetGo(NodeName("n1"), "1", 3),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_an_answer_to_what_was_never_asked_is_dropped(answer: r.NodeAnswer) -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    before = pickle.dumps(s.client.state)
    s.sent.clear()
    s.step(answer)
    assert (s.sent, s.replies) == ([], {})
    assert pickle.dumps(s.client.state) == before
