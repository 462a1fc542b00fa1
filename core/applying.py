"""Command bodies: from each kind of body to the function that applies it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import commands, creating, ends, holds, membership, migration, reading
from .answers import BatchAnswer, CommandCancelled, ItemAnswer, Refused
from .commands import Batch, Body
from .errors import Refusal
from .ids import HoldId, HoldKind, SessionId
from .turn import Turn


def apply(turn: Turn, session: SessionId, hold: HoldId, body: Body) -> ItemAnswer:
    """One command body: an answer, and its change; or a refusal, and none."""
    answer = _BODIES[type(body)](turn, session, hold, body)
    if type(answer) is Refused:
        turn.count(f"refused_{answer.refusal.reason}")
    return answer


_BODIES: Final[dict[type, Callable[[Turn, SessionId, HoldId, Any], ItemAnswer]]] = {
    commands.Create: creating.create,
    commands.Pin: reading.pin,
    commands.PinPrefix: reading.pin_prefix,
    commands.Unpin: lambda turn, session, hold, body: holds.release(turn, session, body.hold, HoldKind.PIN),
    commands.Ref: reading.ref,
    commands.Unref: lambda turn, session, hold, body: holds.release(turn, session, body.hold, HoldKind.REF),
    commands.Move: lambda turn, session, hold, body: migration.move(turn, body),
    commands.CancelMove: lambda turn, session, hold, body: migration.cancel(turn, body),
    commands.Replicate: lambda turn, session, hold, body: migration.replicate(turn, body),
    commands.DropReplica: lambda turn, session, hold, body: migration.drop_replica(turn, body),
    commands.Evict: lambda turn, session, hold, body: ends.evict_command(turn, body),
    commands.ReleaseRequest: lambda turn, session, hold, body: holds.release_request(turn, session, body.request),
    commands.Drain: lambda turn, session, hold, body: membership.drain(turn, body),
    commands.Cancel: lambda turn, session, hold, body: CommandCancelled(turn.revision),
}


def apply_batch(turn: Turn, session: SessionId, first: HoldId, batch: Batch) -> BatchAnswer | Refused:
    """One number, one commit; items in order, each with its own answer. Hold ordinals rise over the whole batch."""
    if len(batch.items) > turn.config.batch_items:
        return Refused(
            Refusal("TooLarge", f"a batch has at most {turn.config.batch_items} items", guard="batch_items"), turn.revision
        )
    answers = []
    ordinal = 0
    for body in batch.items:
        answers.append(apply(turn, session, HoldId(first.session, first.sequence, ordinal), body))
        ordinal += len(body.groups) if type(body) is commands.PinPrefix else 1
    return BatchAnswer(tuple(answers), turn.revision)
