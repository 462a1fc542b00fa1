"""How things end: writes given up, moves aborted, evictions, losses."""

from __future__ import annotations

from . import table
from .answers import EvictAccepted, ItemAnswer, Refused
from .commands import Evict
from .errors import Refusal
from .ids import CopyId, Reason, Role
from .ledger import NO_COPIES, copy_in, facts, happen
from .rows import NOWHERE
from .state import Copy, Group
from .table import On
from .turn import Turn


def evict_command(turn: Turn, body: Evict) -> ItemAnswer:
    state = turn.state
    group = state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    refusal = evict(turn, group, Reason.EVICTED, body.expected_epoch)
    if refusal is None:
        turn.count("evictions_asked")
        return EvictAccepted(group.id, False, turn.revision, turn.revision)
    if body.wait and refusal.reason in ("Pinned", "Referenced"):
        if not group.leaving:
            happen(turn, group, On.LEAVE, NOWHERE, facts(turn, group, NOWHERE))
        return EvictAccepted(group.id, True, group.epoch, turn.revision)
    return Refused(refusal, turn.revision)


def evict(turn: Turn, group: Group, reason: Reason, expected_epoch: int = 0) -> Refusal | None:
    """Give the group up: no authoritative copy from this commit on, bytes go when nobody is at them."""
    state = turn.state
    stay = sum(1 for copy in state.copies.get(group.id, NO_COPIES) if not copy.absent or copy.id in state.pinned)
    return happen(
        turn, group, On.EVICT, NOWHERE, facts(turn, group, NOWHERE, others=stay, reason=reason, wanted_epoch=expected_epoch)
    )


def end_incoming(turn: Turn, group: Group, copy_id: CopyId, reason: Reason, gone: bool = False) -> Refusal | None:
    """An INCOMING copy will not come: a write is over, a move aborts, a replica fails."""
    copy = copy_in(turn.state.copies.get(group.id, NO_COPIES), copy_id)
    if copy is None:
        return Refusal("StaleReport", f"{copy_id} is not in the record", guard="listed")
    moving = group.state in table.MOVING and copy_id == group.target
    refusal = happen(turn, group, On.ENDED, copy, facts(turn, group, copy, reason=reason, gone=gone))
    if refusal is None and moving:
        turn.count("moves_aborted")
        turn.count(f"moves_aborted_{reason.name.lower()}")
    return refusal


def gone(turn: Turn, group: Group, copy: Copy, reason: Reason) -> Refusal | None:
    """A copy is not there any more (Freed, lost, counted absence, absence limit)."""
    if copy.role is Role.INCOMING:
        return end_incoming(turn, group, copy.id, reason, gone=True)
    lost = copy.role is Role.AUTHORITATIVE
    refusal = happen(turn, group, On.GONE, copy, facts(turn, group, copy, reason=reason, gone=True))
    if refusal is None and lost:
        turn.count("authorities_lost")
        after = turn.state.groups[group.id]
        if group.target != after.target and group.state in table.MOVING:
            turn.count("moves_aborted")
    return refusal
