"""The calls of one step: `Do`, `Ask`, `AskNode`, `CloseSessionOp`."""

from __future__ import annotations

from . import answers as a
from . import client_numbers as numbers
from . import client_wire as wire
from . import commands as c
from . import requests as r
from .calls import Ask, AskNode, CloseSessionOp, Do, Done
from .client_session import abandon_session, session_over
from .client_state import CallRecord, SessionPhase
from .client_steps import finish, give_up, refusal_of
from .client_wire import DIRECTORY, News, Turn
from .errors import Refusal
from .ids import SessionId
from .records import evolve


def start(turn: Turn, record: CallRecord) -> None:
    op = record.op
    if isinstance(op, Do):
        items = op.body.items if isinstance(op.body, c.Batch) else (op.body,)
        if not items or any(isinstance(item, c.Cancel) for item in items):
            give_up(turn, record, Refusal("BadRequest", "an empty batch, or a Cancel, which is the machine's own"))
        elif _was_lost(turn, op.body):
            give_up(turn, record, Refusal("HoldLost", "a renewal of the session has told so"))
        else:
            numbers.submit(turn, turn.update(record, step="do").call, "do", op.body)
    elif isinstance(op, Ask):
        _ask(turn, turn.update(record, step="ask"), op.query)
    elif isinstance(op, AskNode):
        record = turn.update(record, step="ask")
        message = evolve(op.request, client=turn.config.client, token=turn.token())
        wire.ask(turn, record.call, "ask", op.target, message)
    else:
        assert isinstance(op, CloseSessionOp)
        _close(turn, record)


def _was_lost(turn: Turn, body: c.Body | c.Batch) -> bool:
    """Whether this gives back a hold of this session that was heard to be lost: the machine has given it back already."""
    if not isinstance(body, c.Unpin | c.Unref) or body.hold in turn.state.holds:
        return False
    return body.hold.session == turn.state.session.session and body.hold in turn.state.lost_holds


def _ask(turn: Turn, record: CallRecord, query: c.Query) -> None:
    config = turn.config
    if isinstance(query, c.Await):
        slice_ms = min(config.await_slice_ms, _await_until(record, query) - turn.now)
        query = evolve(query, client=config.client, token=turn.token(), timeout_ms=max(1, slice_ms))
        wire.ask(turn, record.call, "await", DIRECTORY, query, extra_ms=query.timeout_ms)
        return
    query = evolve(query, client=config.client, token=turn.token())
    if isinstance(query, c.Explain) and query.session == 0:
        query = evolve(query, session=turn.state.session.session)
    wire.ask(turn, record.call, "ask", DIRECTORY, query)


def _await_until(record: CallRecord, query: c.Await) -> int:
    """When an `Await` answers `timeout`. Without a time of its own: early enough for the answer to come before the deadline."""
    length = query.timeout_ms or (record.deadline - record.started) * 9 // 10
    return record.started + length


def _close(turn: Turn, record: CallRecord) -> None:
    session = turn.state.session
    if session.phase is not SessionPhase.OPEN:
        # One that is just being opened has nothing; left alone it ends with its lease.
        session_over(turn, Refusal("SessionEnded", "closed by the caller"))
        finish(turn, record, Done(a.SessionClosed(SessionId(0), 0)))
        return
    turn.state.session = evolve(session, phase=SessionPhase.CLOSING)
    record = turn.update(record, step="close", unsure=True)
    message = c.CloseSession(turn.config.client, turn.token(), session.session)
    wire.ask(turn, record.call, "close", DIRECTORY, message)


def hear(turn: Turn, record: CallRecord, news: News) -> None:
    """The answer."""
    op, answer = record.op, news.answer
    if isinstance(op, CloseSessionOp):
        _closed(turn, record, news)
    elif isinstance(answer, Refusal | a.Refused | r.NodeRefused):
        give_up(turn, record, refusal_of(answer), news.definite)
    elif isinstance(op, Ask) and isinstance(op.query, c.Await) and isinstance(answer, a.Awaited):
        if answer.outcome == "timeout" and turn.now < _await_until(record, op.query):
            _ask(turn, record, op.query)
        else:
            finish(turn, record, Done(answer, news.term, news.revision))
    else:
        finish(turn, record, Done(answer, news.term, news.revision))


def _closed(turn: Turn, record: CallRecord, news: News) -> None:
    answer = news.answer
    session = turn.state.session.session
    if isinstance(answer, a.SessionClosed):
        session_over(turn, Refusal("SessionEnded", "closed by the caller"))
        finish(turn, record, Done(answer, news.term, news.revision))
    elif refusal_of(answer).reason == "SessionEnded":
        session_over(turn, refusal_of(answer))
        finish(turn, record, Done(a.SessionClosed(session, 0), news.term, news.revision))
    else:
        record = turn.update(record, unsure=False)
        end_closing(turn)
        give_up(turn, record, refusal_of(answer), news.definite)


def end_closing(turn: Turn) -> None:
    """A close that was not answered in time: the session is given up here, and ends there by its lease at the latest."""
    if turn.state.session.phase is SessionPhase.CLOSING:
        abandon_session(turn)
