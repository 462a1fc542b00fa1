"""The client's session: opened at first need, renewed while it is needed, over when the directory says so (or is silent for
too long). What had a number then may or may not have happened; what had none goes on in the next session.

Expiry is counted by the directory's clock alone. Ours only decides when to renew, and when an idle session is not worth asking
for (rule 7).
"""

from __future__ import annotations

from . import answers as a
from . import client_wire as wire
from . import commands as c
from .client_holds import forget, release
from .client_state import BACKGROUND, Exchange, Numbered, Session, SessionPhase
from .client_wire import DIRECTORY, News, Turn
from .errors import Refusal
from .ids import HoldId
from .records import evolve


def needed(turn: Turn) -> bool:
    """Whether the lease has to be renewed."""
    state = turn.state
    return bool(
        turn.config.keep_session or state.session.resumed or state.calls or state.numbers or state.releases or state.holds
    )


def forget_if_lapsed(turn: Turn) -> None:
    """An idle session that was not renewed may be over; it has nothing, so that a new one is as good."""
    state, session = turn.state, turn.state.session
    idle = not (state.numbers or state.holds or state.releases or session.resumed or turn.config.keep_session)
    if session.phase is SessionPhase.OPEN and idle and turn.now - session.renewed_at >= session.lease_ms * 2 // 3:
        state.session = Session(opening=session.opening + 1)


def open_session(turn: Turn) -> None:
    state, config = turn.state, turn.config
    leaving = bool(config.session_name) and any(exchange.slot == "bye" for exchange in state.exchanges.values())
    if state.session.phase is SessionPhase.NONE and not leaving:
        state.session = evolve(state.session, phase=SessionPhase.OPENING)
        token = f"{config.boot}.session.{state.session.opening}"
        message = c.OpenSession(config.client, token, config.session_name, config.lease_ms)
        wire.ask(turn, BACKGROUND, "open", DIRECTORY, message)


def stop_opening(turn: Turn) -> None:
    turn.state.session = evolve(turn.state.session, phase=SessionPhase.NONE)


def opened(turn: Turn, exchange: Exchange, answer: a.QueryAnswer) -> None:
    """The answer to `OpenSession`."""
    state = turn.state
    if isinstance(answer, a.SessionOpened):
        lease = answer.lease_ms
        state.session = Session(
            SessionPhase.OPEN, state.session.opening, answer.session, lease,
            exchange.started, exchange.started + lease // 3,
            # Without a name it can only be our own opening, repeated: there is nothing in it that we don't know.
            answer.resumed and bool(turn.config.session_name),
        )  # fmt: skip
        state.next_sequence = answer.next_sequence
        lose(turn, tuple(hold for hold in state.holds if hold.session != answer.session))
        still = [body for body in state.releases if body.hold.session == answer.session]
        state.releases.clear()
        state.releases.extend(still)
        turn.count("sessions_opened")
    elif isinstance(answer, a.Refused):
        state.session = Session(opening=state.session.opening + 1)
        if answer.refusal.reason == "SessionEnded":
            return  # this token's session has been and gone; the next pump opens one with a new token
        lose(turn, tuple(state.holds))
        state.releases.clear()
        waiting = list(state.queue)
        state.queue.clear()
        for item in [item for item in waiting if item.owner != BACKGROUND]:
            turn.update(state.calls[item.owner], queued=False)
            turn.news.append(News(item.owner, item.slot, answer.refusal, definite=True))


def renew(turn: Turn) -> None:
    """Send a `KeepAlive`, unless one is on its way."""
    state = turn.state
    lease = state.session.lease_ms
    state.session = evolve(state.session, renew_at=turn.now + max(1, lease // 3))
    if not any(exchange.slot == "keep" for exchange in state.exchanges.values()):
        message = c.KeepAlive(turn.config.client, turn.token(), state.session.session)
        wire.ask(turn, BACKGROUND, "keep", DIRECTORY, message, give_up=turn.now + turn.config.background_ms)


def kept(turn: Turn, exchange: Exchange, answer: a.QueryAnswer) -> None:
    """The answer to `KeepAlive`; holds that were lost are told here."""
    state = turn.state
    if isinstance(answer, a.KeptAlive) and answer.session == state.session.session:
        third = max(1, answer.lease_ms // 3)
        state.session = evolve(
            state.session, lease_ms=answer.lease_ms, renewed_at=exchange.started, renew_at=exchange.started + third
        )
        for hold in answer.lost:
            release(turn, hold)  # the directory keeps a lost hold until it is told that we have heard
        forget(turn, answer.lost)
        lose(turn, answer.lost)
    elif isinstance(answer, a.Refused) and exchange.message.session == state.session.session:
        session_over(turn, answer.refusal)


def lose(turn: Turn, lost: tuple[HoldId, ...]) -> None:
    known = frozenset(turn.state.lost_holds)
    new = tuple(hold for hold in lost if hold not in known)
    for hold in lost:  # one that was heard to be lost may have come after that, with a late answer
        turn.state.holds.pop(hold, None)
    turn.state.lost_holds = (*turn.state.lost_holds, *new)[-turn.config.lost_holds_max :]


def session_over(turn: Turn, refusal: Refusal) -> None:
    """The session and with it all holds are gone. What had a number may or may not have happened; what had none goes on in
    the next session."""
    state = turn.state
    if state.session.session:
        turn.count("sessions_ended")
    lose(turn, tuple(state.holds))
    state.releases.clear()
    for number in _end_numbers(turn, refusal):
        _end(turn, number, refusal, definite=False)
    for call, record in list(state.calls.items()):
        if record.hold is not None:
            turn.update(record, hold=None)
            turn.news.append(News(call, "session", refusal, definite=False))


def session_out_of_step(turn: Turn, conflict: Numbered) -> None:
    """An answer that cannot be ours: another process has resumed the session by its name and uses its numbers. Resume it
    anew to learn the next unused one. Our holds stay, and releases that may not have arrived are said again; what the
    answer brought is the other's."""
    refusal = Refusal("SequenceConflict", f"number {conflict.sequence} was used for another command")
    turn.count("sequence_conflicts")
    for number in _end_numbers(turn, refusal):
        if number.owner == BACKGROUND and isinstance(number.body, c.Unpin | c.Unref):
            turn.state.releases.append(number.body)
        _end(turn, number, refusal, definite=number is conflict)


def _end(turn: Turn, number: Numbered, refusal: Refusal, definite: bool) -> None:
    if number.owner != BACKGROUND:
        turn.update(turn.state.calls[number.owner], sequence=0)
        turn.news.append(News(number.owner, number.slot, refusal, definite))


def _end_numbers(turn: Turn, refusal: Refusal) -> list[Numbered]:
    """Forget the session; its unanswered numbers are returned."""
    state = turn.state
    numbers = list(state.numbers.values())
    state.numbers.clear()
    for exchange in [e for e in state.exchanges.values() if e.slot in ("open", "keep", "close")]:
        wire.drop(turn, exchange)
        if exchange.owner != BACKGROUND:
            turn.news.append(News(exchange.owner, exchange.slot, refusal))
    state.session = Session(opening=state.session.opening + 1)
    return numbers


def abandon_session(turn: Turn) -> None:
    """A number without an answer for too long blocks all later ones. Give the session up: its lease ends its holds.

    A named session would be resumed instead, with holds in it that nobody here knows any more. So it is said good-bye to until
    that is answered, and not opened before (`open_session`).
    """
    session = turn.state.session.session
    session_over(turn, Refusal("SessionEnded", "given up: the directory does not answer"))
    message = c.CloseSession(turn.config.client, turn.token(), session)
    give_up = 0 if turn.config.session_name else turn.now + turn.config.background_ms
    wire.ask(turn, BACKGROUND, "bye", DIRECTORY, message, give_up=give_up)
