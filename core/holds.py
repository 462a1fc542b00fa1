"""Holds: taken and released by numbered commands, each ends exactly once (HOLD-1, HOLD-2)."""

from __future__ import annotations

from itertools import islice

from . import effects
from .answers import Refused, Released, RequestReleased
from .errors import Refusal
from .ids import CopyId, GroupId, HoldId, HoldKind, SessionId
from .ledger import count_in, drop_from, uncount
from .state import DirectoryState, Hold
from .turn import Turn


def take(turn: Turn, hold_id: HoldId, kind: HoldKind, group: GroupId, copy: CopyId, request: str) -> None:
    """A new live hold. The caller has checked the row's guards and `room_for_hold`."""
    hold = Hold(hold_id, kind, group, copy, request)
    enter(turn.state, hold)
    if turn.holders is not None:
        turn.took(hold)
    turn.persist.append((effects.HOLDS, hold_id, hold))


def enter(state: DirectoryState, hold: Hold) -> None:
    """Put a hold (new, or loaded) into the table, the counts and the indexes."""
    session = SessionId(hold.id.session)
    state.holds[hold.id] = hold
    if hold.lost:
        state.lost.setdefault(session, {})[hold.id] = None
    else:
        count_in(state, hold)
    held = state.held.get(session)
    if held is None:
        state.held[session] = {hold.id: None}
    else:
        held[hold.id] = None
    if hold.request:
        state.requested.setdefault((session, hold.request), {})[hold.id] = None


def full(turn: Turn, session: SessionId) -> Refusal | None:
    """The named limit on one session's holds."""
    if len(turn.state.held.get(session, ())) >= turn.config.session_holds_max:
        return Refusal("TooManyHolds", f"{turn.config.session_holds_max} holds in session {session}", guard="session_holds_max")
    return None


def drop(turn: Turn, hold: Hold) -> None:
    """End a hold for good: out of the counts (unless it was lost before), indexes and store."""
    state = turn.state
    session = SessionId(hold.id.session)
    del state.holds[hold.id]
    if hold.lost:
        drop_from(state.lost, session, hold.id)
    else:
        uncount(turn, hold)
    drop_from(state.held, session, hold.id)
    if hold.request:
        drop_from(state.requested, (session, hold.request), hold.id)
    turn.persist.append((effects.HOLDS, hold.id, None))


def release(turn: Turn, session: SessionId, hold_id: HoldId, kind: HoldKind) -> Released | Refused:
    """Unpin or Unref. Never clamped: an ended hold is `AlreadyDone`, one that never was `UnknownHold`, a lost one says so."""
    state = turn.state
    hold = state.holds.get(hold_id)
    if hold is None:
        return Refused(_missing(turn, session, hold_id), turn.revision)
    if hold_id.session != session:
        return Refused(
            Refusal("UnknownHold", "the hold belongs to another session", guard="own_hold", holder=str(hold_id)), turn.revision
        )
    if hold.kind is not kind:
        return Refused(Refusal("BadRequest", f"{hold_id} is a {hold.kind.name}", guard="hold_kind"), turn.revision)
    turn.next_revision()
    drop(turn, hold)
    if hold.lost:
        return Refused(Refusal("HoldLost", "", guard="hold_live", holder=str(hold_id)), turn.revision)
    return Released(hold.group, hold_id, turn.revision)


def _missing(turn: Turn, session: SessionId, hold_id: HoldId) -> Refusal:
    """A hold that is not there: its number tells whether it has ended or never was."""
    applied, _ = turn.state.progress.get(session, (0, 0))
    if hold_id.session == session and 1 <= hold_id.sequence <= applied:
        return Refusal("AlreadyDone", "", guard="hold_live", holder=str(hold_id))
    return Refusal("UnknownHold", "", guard="hold_live", holder=str(hold_id))


def release_request(turn: Turn, session: SessionId, request: str) -> RequestReleased:
    """End every hold of one request of this session, used or not (they are not only those that were read)."""
    state = turn.state
    holds = tuple(state.requested.get((session, request), ()))
    if holds:
        turn.next_revision()
    for hold_id in holds:
        drop(turn, state.holds[hold_id])
    return RequestReleased(request, len(holds), turn.revision)


def release_session(turn: Turn, session: SessionId) -> int:
    """End every hold of a session that has ended (HOLD-2). Returns how many were live."""
    state = turn.state
    live = 0
    for hold_id in tuple(state.held.get(session, ())):
        hold = state.holds[hold_id]
        live += not hold.lost
        drop(turn, hold)
    return live


def heard_of_losses(turn: Turn, session: SessionId) -> tuple[HoldId, ...]:
    """Tell the holder which holds were lost. Their records stay until it releases them or its session ends."""
    return tuple(islice(turn.state.lost.get(session, ()), turn.config.lost_told_max))
