"""Steps that calls share: how one ends, lets go, pauses, waits at the directory."""

from __future__ import annotations

from typing import Any

from . import answers as a
from . import client_wire as wire
from . import commands as c
from . import requests as r
from .calls import CallId, Done, Failed, GetGroup, ReadRoute
from .client_holds import abort_write, release
from .client_numbers import gives_back, leave, unqueue, will_happen
from .client_routes import degrade
from .client_state import CallRecord
from .client_wire import DIRECTORY, Turn
from .errors import Refusal
from .ids import CopyId, GroupId


def let_go(turn: Turn, record: CallRecord) -> CallRecord:
    """Give back all that the call has and waits for: exchanges, its place in the queue, its number, its write, its hold."""
    for token in record.tokens:
        wire.drop(turn, turn.state.exchanges[token])
    if record.queued:
        unqueue(turn, record.call)
    if record.sequence:
        # What only gives back is what the caller wanted, late or not.
        leave(turn, record.sequence, cancelled=not gives_back(turn.state.numbers[record.sequence].body))
    if record.writing is not None and record.copy is not None:
        abort_write(turn, record.writing, record.copy)
    if record.hold is not None:
        release(turn, record.hold)
    return turn.update(
        record, tokens=(), queued=False, sequence=0, writing=None, copy=None, hold=None, sleep_until=0, parts=()
    )


def finish(turn: Turn, record: CallRecord, outcome: Done | Failed) -> None:
    """The call's one answer (ANSWER-1)."""
    let_go(turn, record)
    del turn.state.calls[record.call]
    turn.reply(record.call, outcome)
    if isinstance(outcome, Failed):
        turn.count(f"failed.{outcome.refusal.reason}")


def give_up(turn: Turn, record: CallRecord, refusal: Refusal, definite: bool | None = None) -> None:
    """End the call with a failure, as the configured degradation has it."""
    if definite is None:
        definite = refusal.info.definite
    finish(turn, record, failure(turn, record.op, refusal, definite and not record.unsure))


def failure(turn: Turn, op: Any, refusal: Refusal, definite: bool) -> Failed:
    return degrade(turn.config.degradation, refusal, definite, isinstance(op, GetGroup | ReadRoute))


def expire(turn: Turn, record: CallRecord) -> None:
    """The deadline. If no number is out, and no write, surely nothing has happened."""
    give_up(turn, record, Refusal("DeadlineReached", f"in step {record.step}"), not will_happen(turn, record))


def cancel(turn: Turn, call: CallId) -> None:
    """The caller has lost interest. It is told at once; what may have happened is undone in the background."""
    record = turn.state.calls.get(call)
    if record is None:
        return  # its answer is on the way
    if will_happen(turn, record):
        refusal = Refusal("DeadlineReached", f"cancelled by the caller in step {record.step}; it may have happened")
        finish(turn, record, Failed(refusal, definite=False))
    else:
        finish(turn, record, Failed(Refusal("Cancelled"), definite=True))


def sleep(turn: Turn, record: CallRecord, after_ms: int = 0) -> None:
    """Pause at least `after_ms`; pauses in a row grow."""
    until = turn.now + max(after_ms, turn.backoff(record.waits))
    turn.update(record, step="pause", waits=record.waits + 1, sleep_until=until)


def await_end(turn: Turn, record: CallRecord, want: str, group: GroupId, copy: CopyId) -> None:
    """Ask the directory to tell when; in slices, so that a lost answer costs one slice at most."""
    slice_ms = max(1, min(turn.config.await_slice_ms, record.deadline - turn.now))
    message = c.Await(turn.config.client, turn.token(), want, group, copy, timeout_ms=slice_ms)
    wire.ask(turn, record.call, "await", DIRECTORY, message, extra_ms=slice_ms)


def refusal_of(answer: Any) -> Refusal:
    """The refusal in an answer; an answer that makes no sense here is one, too."""
    if isinstance(answer, Refusal):
        return answer
    if isinstance(answer, a.Refused | r.NodeRefused):
        return answer.refusal
    return Refusal("BadRequest", f"an answer that was not asked for: {type(answer).__name__}")
