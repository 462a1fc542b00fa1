"""`PutGroup`: become the one writer, write, end, and wait until the directory knows.

    create --Created--> write --all Written--> end --WriteEnded--> await --readable--> Done(created)
      ^ |  --Exists---> Done                                        ^
      | |  --Joined-----------------------------------------------> await --readable--> (pin) --> Done(not created)
      | '--NoSpace----> pause --> create, under a new number: the old one was answered
      '--- node lost, or the other writer gave up: each costs one of `put_attempts`

Whatever goes wrong after `Created`: the node is told `AbortWrite` and the PIN is released.
"""

from __future__ import annotations

from typing import Final

from . import answers as a
from . import client_wire as wire
from . import commands as c
from . import requests as r
from .calls import Done, PutDone, PutGroup
from .client_numbers import submit
from .client_state import CallRecord
from .client_steps import await_end, finish, give_up, let_go, refusal_of, sleep
from .client_wire import News, Turn
from .errors import Refusal
from .ids import NO_COPY, CopyId, HoldId, Peer, manifest_hash
from .records import evolve

LATER: Final = frozenset({"NoSpace", "NodeNotReady", "TooManyHolds", "Leaving"})
"""The directory's refusals of a `Create` or `Pin` that time may cure; the deadline bounds it."""

LOST: Final = frozenset({"Unreachable", "BreakerOpen", "StaleCopy", "Freeing", "TierFailed", "NotVerified"})
"""This copy will not be finished; another one may."""


def start(turn: Turn, record: CallRecord) -> None:
    op = _op(record)
    if len(op.checksums) != len(op.spec.sizes) or len(op.data) not in (0, len(op.spec.sizes)):
        give_up(turn, record, Refusal("BadRequest", "sizes, checksums and data must have equal lengths"))
    else:
        create(turn, record)


def _op(record: CallRecord) -> PutGroup:
    assert isinstance(record.op, PutGroup)
    return record.op


def create(turn: Turn, record: CallRecord) -> None:
    op = _op(record)
    record = turn.update(record, step="create", sleep_until=0)
    write_ms = max(1, record.deadline - turn.now)
    submit(turn, record.call, "create", c.Create(op.spec, op.node, op.tier, op.request, write_ms))


def hear(turn: Turn, record: CallRecord, news: News) -> None:
    """Something that this call waited for has come."""
    answer = news.answer
    if isinstance(answer, r.Written):
        _fill(turn, turn.update(record, unknown_until=0))
    elif isinstance(answer, a.Created):
        record = turn.update(
            record, step="write", hold=answer.hold, writing=answer.address, copy=answer.copy,
            cursor=0, waits=0, unknown_until=turn.now + turn.config.reserve_wait_ms,
        )  # fmt: skip
        _fill(turn, record)
    elif isinstance(answer, r.WriteEnded):
        _ended(turn, record, answer)
    elif isinstance(answer, a.Awaited):
        _awaited(turn, record, answer, news)
    elif isinstance(answer, a.Exists | a.Pinned):
        _done(turn, turn.update(record, hold=answer.hold), answer.route.copy, False, news)
    elif isinstance(answer, a.Joined):
        _joined(turn, record, answer)
    else:
        _refused(turn, record, news, refusal_of(answer))


# ---- writing -------------------------------------------------------------------------------------------------


def chunk_end(sizes: tuple[int, ...], start: int, bytes_max: int, blocks_max: int) -> int:
    """The end of a chunk that starts at block `start`: at least one block, otherwise within both limits."""
    end, total = start + 1, sizes[start]
    while end < min(len(sizes), start + blocks_max) and total + sizes[end] <= bytes_max:
        total += sizes[end]
        end += 1
    return end


def _fill(turn: Turn, record: CallRecord) -> None:
    """Keep `write_window` chunks on their way; when all are written, end the write."""
    op, config = _op(record), turn.config
    sizes, node, copy = op.spec.sizes, record.writing, record.copy
    assert node is not None
    assert copy is not None
    if record.cursor >= len(sizes) and not record.tokens:
        manifest = manifest_hash(op.spec.key.layout, sizes, op.checksums)
        turn.update(record, step="end", unsure=True)
        wire.ask(turn, record.call, "end", node, r.EndWrite(config.client, turn.token(), copy, manifest))
        return
    while record.cursor < len(sizes) and len(record.tokens) < config.write_window and not turn.news:
        start, end = record.cursor, chunk_end(sizes, record.cursor, config.write_chunk_bytes, config.chunk_blocks_max)
        turn.update(record, cursor=end)
        checksums, data = op.checksums[start:end], op.data[start:end]
        message = r.Write(config.client, turn.token(), copy, tuple(range(start, end)), checksums, data)
        wire.ask(turn, record.call, "write", node, message)
        record = turn.state.calls[record.call]


def _ended(turn: Turn, record: CallRecord, answer: r.WriteEnded) -> None:
    op = _op(record)
    if answer.manifest != manifest_hash(op.spec.key.layout, op.spec.sizes, op.checksums):
        _again(turn, record, Refusal("ManifestMismatch", f"{answer.node} sealed other bytes"))
        return
    record = turn.update(record, step="await")
    await_end(turn, record, "readable", op.spec.group, answer.copy)


# ---- waiting until it is readable ------------------------------------------------------------------------------


def _joined(turn: Turn, record: CallRecord, answer: a.Joined) -> None:
    if not turn.config.wait_joined:
        give_up(turn, record, Refusal("NotSealed", "somebody else is writing it", holder=str(answer.copy)))
        return
    record = turn.update(record, step="join", copy=answer.copy)
    await_end(turn, record, "readable", answer.group, answer.copy)


def _awaited(turn: Turn, record: CallRecord, answer: a.Awaited, news: News) -> None:
    op = _op(record)
    ours = record.step == "await"
    if answer.outcome == "timeout":
        await_end(turn, record, "readable", op.spec.group, record.copy or NO_COPY)
    elif answer.outcome != "readable":
        _again(turn, record, Refusal("Unreadable", f"the write has ended: {answer.reason.name}"))
    elif ours:
        assert record.copy is not None
        _done(turn, record, record.copy, True, news)
    elif op.keep_pin:
        _pin(turn, record)
    else:
        _done(turn, record, record.copy or NO_COPY, False, news)


def _pin(turn: Turn, record: CallRecord) -> None:
    op = _op(record)
    record = turn.update(record, step="pin", sleep_until=0, copy=None)
    submit(turn, record.call, "pin", c.Pin(op.spec.group, request=op.request))


def _done(turn: Turn, record: CallRecord, copy: CopyId, created: bool, news: News) -> None:
    op = _op(record)
    hold: HoldId | None = None
    record = turn.update(record, writing=None)
    if op.keep_pin:
        hold = record.hold
        record = turn.update(record, hold=None)
    done = PutDone(op.spec.group, copy, hold, created)
    finish(turn, record, Done(done, news.term, news.revision))


# ---- when it does not go straight ------------------------------------------------------------------------------


def _refused(turn: Turn, record: CallRecord, news: News, refusal: Refusal) -> None:
    reason = refusal.reason
    if record.step in ("write", "end") and news.slot != "session":
        unheard = reason == "StaleCopy" and refusal.guard != "not_failed"
        if unheard and turn.now < record.unknown_until and record.writing is not None:
            _repeat(turn, record, record.writing, news)
        elif reason in LOST or reason == "Incomplete":
            _again(turn, record, refusal)
        else:
            give_up(turn, turn.update(record, unsure=record.unsure and not _settles(refusal)), refusal)
    elif record.step == "pin" and reason in ("Unreadable", "UnknownGroup", "NotSealed"):
        _again(turn, record, refusal)
    elif record.step in ("create", "pin") and reason in LATER:
        sleep(turn, record, refusal.retry_after_ms)
    else:
        give_up(turn, record, refusal, news.definite)


def _repeat(turn: Turn, record: CallRecord, node: Peer, news: News) -> None:
    """The node does not know the copy yet: the directory's order is slower than its answer to us was. Write again."""
    pause = turn.backoff(record.waits)
    record = turn.update(record, waits=record.waits + 1)
    message = evolve(news.message, token=turn.token())
    wire.ask(turn, record.call, news.slot, node, message, after_ms=pause)


def _again(turn: Turn, record: CallRecord, refusal: Refusal) -> None:
    """End this attempt and start over as a new `Create`. While the old write has not ended at the directory, that is answered
    `Joined`, and waiting for its end is just right."""
    unsure = record.unsure and not _settles(refusal)
    record = turn.update(let_go(turn, record), unsure=unsure)
    if record.attempt + 1 >= turn.config.put_attempts:
        give_up(turn, record, Refusal("AttemptsUsed", f"{record.attempt + 1} writes, the last: {refusal}"))
    else:
        turn.count("puts_started_again")
        sleep(turn, turn.update(record, attempt=record.attempt + 1))


def _settles(refusal: Refusal) -> bool:
    """Whether this says for sure that the write which was being ended did not become readable. Silence says nothing."""
    return refusal.info.definite and refusal.reason not in ("Unreachable", "BreakerOpen")


def wake(turn: Turn, record: CallRecord) -> None:
    """The pause is over."""
    create(turn, record)
