"""Sessions and exactly-once: a command's number is looked at here before its body is (rule 1)."""

from __future__ import annotations

from . import effects, ends, holds, leases
from .answers import Answered, KeptAlive, QueryAnswer, Refused, SessionClosed, SessionOpened, Told
from .commands import CloseSession, Command, KeepAlive, OpenSession
from .effects import Reply
from .errors import Refusal
from .ids import Peer, Reason, SessionId, State
from .state import DirectoryState, Session
from .turn import Turn


def told(turn: Turn, client: Peer, token: str, answer: QueryAnswer) -> None:
    """Answer a query or session call."""
    meta = turn.state.meta
    turn.reply.append(Reply(client, Told(meta.shard, meta.term, turn.revision, token, answer)))


def open_session(turn: Turn, event: OpenSession) -> None:
    """Open, or resume by name; the same token gives the same session."""
    state, config = turn.state, turn.config
    refusal = _refuse_open(turn, event)
    if refusal is not None:
        told(turn, event.client, event.token, Refused(refusal, turn.revision))
        return
    known = state.tokens.get(event.token)
    if known is None and event.name:
        known = state.named.get(event.name)
    if known is not None:
        session = state.sessions[known]
        resumed = Session(known, session.name, event.client, event.token, event.lease_ms)
        if resumed != session:
            state.tokens.pop(session.token, None)
            state.tokens[event.token] = known
            state.sessions[known] = resumed
            turn.persist.append((effects.SESSIONS, known, resumed))
        leases.renew_session(turn, known)
        turn.wake(turn.now + event.lease_ms)
        applied, _ = state.progress[known]
        told(turn, event.client, event.token, SessionOpened(known, applied + 1, event.lease_ms, True))
        return
    if len(state.sessions) >= config.sessions_max:
        told(
            turn,
            event.client,
            event.token,
            Refused(Refusal("Overloaded", f"{config.sessions_max} sessions", guard="sessions_max"), turn.revision),
        )
        return
    number = SessionId(turn.next_revision())
    session = Session(number, event.name, event.client, event.token, event.lease_ms)
    enter(turn.state, session, 0, 1)
    leases.renew_session(turn, number)
    turn.wake(turn.now + event.lease_ms)
    turn.persist.append((effects.SESSIONS, number, session))
    told(turn, event.client, event.token, SessionOpened(number, 1, event.lease_ms, False))


def enter(state: DirectoryState, session: Session, applied: int, low: int) -> None:
    """Put a session into the tables (a new one, or one that was loaded)."""
    state.sessions[session.id] = session
    state.tokens[session.token] = session.id
    if session.name:
        state.named[session.name] = session.id
    state.progress[session.id] = (applied, low)


def _refuse_open(turn: Turn, event: OpenSession) -> Refusal | None:
    config = turn.config
    if not config.session_lease_ms_min <= event.lease_ms <= config.session_lease_ms_max:
        return Refusal(
            "BadRequest",
            f"a session's lease is {config.session_lease_ms_min} to {config.session_lease_ms_max} ms, not {event.lease_ms}",
            guard="session_lease_ms",
        )
    if not event.token or len(event.token) > config.name_chars_max or len(event.name) > config.name_chars_max:
        return Refusal(
            "BadRequest",
            f"a session needs a token; token and name have at most {config.name_chars_max} characters",
            guard="name_chars_max",
        )
    return None


def keep_alive(turn: Turn, event: KeepAlive) -> None:
    session = turn.state.sessions.get(event.session)
    if session is None:
        told(turn, event.client, event.token, Refused(Refusal("SessionEnded", "", guard="session_live"), turn.revision))
        return
    leases.renew_session(turn, session.id)
    told(turn, event.client, event.token, KeptAlive(session.id, session.lease_ms, holds.heard_of_losses(turn, session.id)))


def close_session(turn: Turn, event: CloseSession) -> None:
    """Idempotent: a session that is not there is closed."""
    released = 0
    if event.session in turn.state.sessions:
        released = end_session(turn, event.session)
    told(turn, event.client, event.token, SessionClosed(event.session, released))


def end_session(turn: Turn, number: SessionId) -> int:
    """Close or expire: its holds and answers go, and what it was writing is given up (rule 3). Returns the holds released."""
    state = turn.state
    turn.next_revision()
    session = state.sessions.pop(number)
    state.tokens.pop(session.token, None)
    if session.name and state.named.get(session.name) == number:
        del state.named[session.name]
    applied, low = state.progress.pop(number)
    for sequence in range(low, applied + 1):
        if state.answers.pop((number, sequence), None) is not None:
            turn.persist.append((effects.ANSWERS, (number, sequence), None))
    state.session_due.pop(number, None)
    leases.lift_session(turn, number)
    turn.persist.append((effects.SESSIONS, number, None))
    released = holds.release_session(turn, number)
    for group_id in tuple(state.unsettled):
        group = state.groups[group_id]
        if group.state is State.WRITING and group.writer == number:
            ends.end_incoming(turn, group, group.target, Reason.SESSION_ENDED)
    turn.count("sessions_ended")
    return released


def admit(turn: Turn, command: Command) -> Refusal | Answered | None:
    """None: the body may be applied now. An `Answered` is replayed; a refusal leaves the number unused. Any of them renews."""
    state = turn.state
    number = command.session
    if number not in state.sessions:
        return Refusal("SessionEnded", "", guard="session_live")
    leases.renew_session(turn, number)
    applied, _ = state.progress[number]
    sequence = command.sequence
    if sequence <= applied:
        stored = state.answers.get((number, sequence))
        if stored is None:
            return Refusal("AlreadyDone", f"number {sequence} was answered and acknowledged", guard="acknowledged")
        return stored
    # A lower `low` than one already heard is no contradiction: a repeated earlier number may carry the newer one.
    if not 1 <= command.low <= sequence:
        return Refusal("BadRequest", f"low is {command.low}: not between 1 and number {sequence}", guard="low")
    if sequence >= command.low + turn.config.window:
        return Refusal(
            "WindowFull", f"{turn.config.window} unanswered numbers", guard="window", retry_after_ms=turn.config.retry_after_ms
        )
    if sequence != applied + 1:
        return Refusal("Early", f"number {applied + 1} comes first", guard="in_order", retry_after_ms=turn.config.retry_after_ms)
    return None


def record(turn: Turn, command: Command, answered: Answered) -> None:
    """Store the answer in the commit of its effect, and drop the answers that the caller has."""
    state = turn.state
    number = command.session
    _, low = state.progress[number]
    acknowledged = max(low, command.low)
    for sequence in range(low, acknowledged):
        if state.answers.pop((number, sequence), None) is not None:
            turn.persist.append((effects.ANSWERS, (number, sequence), None))
    key = (number, command.sequence)
    state.answers[key] = answered
    state.progress[number] = (command.sequence, acknowledged)
    turn.persist.append((effects.ANSWERS, key, answered))
