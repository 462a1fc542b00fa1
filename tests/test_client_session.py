"""The client's session: opened, renewed, lost, closed."""


from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core.calls import CloseSessionOp, Do, Done, Failed
from pinfold.core.errors import Refusal
from pinfold.core.ids import GroupId, SessionId
from tests.client_world import Script, hold_of, pinned, put_of

G = GroupId(b"g" * 16)
PUT = put_of("p")
P = PUT.spec.group


def referred(command: c.Command, group: GroupId = G) -> a.Referred:
    return a.Referred(group, hold_of(command), 3)


def test_the_opening_is_repeated_with_the_same_token() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    first = s.take(c.OpenSession)
    s.pass_ms(2_000)
    assert s.take(c.OpenSession) == first


def test_nobody_wants_the_session_any_more_so_that_the_opening_stops() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)), timeout_ms=100)
    s.pass_ms(5_000)
    s.sent.clear()
    assert s.alarm is None
    assert s.none_sent(c.OpenSession)


def test_the_session_is_renewed_while_there_are_holds_and_only_then() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open(lease_ms=9_000)
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.pass_ms(3_000)
    keep = s.take(c.KeepAlive)
    s.tell(keep.token, a.KeptAlive(SessionId(7), 9_000, ()))
    s.pass_ms(3_000)
    keep = s.take(c.KeepAlive)
    s.tell(keep.token, a.KeptAlive(SessionId(7), 9_000, ()))
    s.call("y", Do(c.Unref(hold_of(command))))
    s.answer(s.body(c.Unref), a.Released(G, hold_of(command), 4))
    s.pass_ms(20_000)
    assert s.none_sent(c.KeepAlive)
    assert s.alarm is None


def test_an_idle_session_that_was_not_renewed_is_not_used_again() -> None:
    s = Script()
    s.call("x", Do(c.ReleaseRequest("r")))
    s.open(session=7, lease_ms=9_000)
    s.answer(s.body(c.ReleaseRequest), a.RequestReleased("r", 0, 2))
    s.pass_ms(7_000)
    s.call("y", Do(c.ReleaseRequest("r")))
    s.open(session=8)
    command = s.body(c.ReleaseRequest)
    assert (command.session, command.sequence) == (8, 1)


def test_lost_holds_are_told_by_the_renewal() -> None:
    s = Script()
    s.call("x", Do(c.Pin(P)))
    s.open()
    command = s.body(c.Pin)
    s.answer(command, pinned(command, PUT))
    s.pass_ms(3_000)
    s.tell(s.take(c.KeepAlive).token, a.KeptAlive(SessionId(7), 9_000, (hold_of(command),)))
    assert s.client.state.lost_holds == (hold_of(command),)
    assert not s.client.state.holds


def test_an_ended_session_fails_what_had_a_number_and_the_rest_goes_on_in_the_next() -> None:
    s = Script(window=1)
    s.call("held", Do(c.Ref(G)))
    s.open(session=7)
    held = s.body(c.Ref)
    s.answer(held, referred(held))
    s.call("x", Do(c.Ref(G)))
    s.call("y", Do(c.Ref(G)))
    s.refuse(s.body(c.Ref), "SessionEnded")
    assert s.replies["x"] == Failed(Refusal("SessionEnded"), definite=False)
    assert s.client.state.lost_holds == (hold_of(held),)
    s.open(session=8)
    command = s.body(c.Ref)
    assert (command.session, command.sequence) == (8, 1)
    s.answer(command, referred(command))
    assert isinstance(s.replies["y"], Done)


def test_a_deposed_directory_cannot_end_a_session_that_its_successor_has_opened() -> None:
    """It answers what needs no commit, and does not know the session: the number is said again, and so is the KeepAlive."""
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.tell(s.take(c.OpenSession).token, a.SessionOpened(SessionId(7), 1, 9_000, False), term=2)
    s.refuse(s.body(c.Ref), "SessionEnded")
    assert "x" not in s.replies
    s.pass_ms(4_000)
    s.tell(s.take(c.KeepAlive).token, a.Refused(Refusal("SessionEnded"), 1))
    assert s.client.state.session.session == 7
    s.pass_ms(4_000)
    assert s.take(c.KeepAlive).session == 7
    command = s.body(c.Ref)
    s.answer(command, referred(command), term=2)
    assert isinstance(s.replies["x"], Done)


def test_a_deposed_directory_cannot_resume_a_session_as_it_was_before_its_successor() -> None:
    """It would give away numbers that have been used since."""
    s = Script(session_name="job")
    s.call("x", Do(c.Ref(G)))
    s.tell(s.take(c.OpenSession).token, a.SessionOpened(SessionId(7), 5, 9_000, True), term=2)
    s.answer(s.body(c.Ref), a.Refused(Refusal("SessionEnded"), 9), term=2)
    s.call("y", Do(c.Ref(G)))
    opening = s.take(c.OpenSession)
    s.tell(opening.token, a.SessionOpened(SessionId(7), 3, 9_000, True), term=1)
    assert s.client.state.session.session != 7
    s.pass_ms(4_000)
    again = s.take(c.OpenSession)
    assert again.token == opening.token
    s.tell(again.token, a.SessionOpened(SessionId(8), 1, 9_000, False), term=2)
    assert s.body(c.Ref).sequence == 1


def test_the_next_session_is_opened_with_another_token() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    first = s.take(c.OpenSession)
    s.tell(first.token, a.SessionOpened(SessionId(7), 1, 9_000, False))
    s.refuse(s.body(c.Ref), "SessionEnded")
    s.call("y", Do(c.Ref(G)))
    assert s.take(c.OpenSession).token != first.token


def test_an_opening_that_is_refused_fails_the_calls_that_need_it() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.tell(s.take(c.OpenSession).token, a.Refused(Refusal("TooLarge"), 1))
    assert s.replies["x"] == Failed(Refusal("TooLarge"), definite=True)


def test_closing_ends_the_session_and_what_is_held() -> None:
    s = Script()
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.call("bye", CloseSessionOp())
    s.call("late", Do(c.Ref(G)))
    assert s.failed("late") == "SessionEnded"
    s.tell(s.take(c.CloseSession).token, a.SessionClosed(SessionId(7), 1))
    assert s.replies["bye"].value == a.SessionClosed(SessionId(7), 1)
    assert s.client.state.lost_holds == (hold_of(command),)
    assert s.alarm is None


def test_closing_without_a_session_is_done_at_once() -> None:
    s = Script()
    s.call("bye", CloseSessionOp())
    assert s.replies["bye"].value == a.SessionClosed(SessionId(0), 0)
    assert not s.sent


def test_a_close_that_is_not_answered_ends_by_its_deadline() -> None:
    s = Script(background_ms=1_000)
    s.call("x", Do(c.Ref(G)))
    s.open()
    command = s.body(c.Ref)
    s.answer(command, referred(command))
    s.call("bye", CloseSessionOp(), timeout_ms=500)
    s.pass_ms(500)
    assert s.failed("bye") == "DeadlineReached"
    assert s.replies["bye"].definite is False
    s.pass_ms(5_000)
    assert s.alarm is None
