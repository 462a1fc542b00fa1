"""A medium that is smaller than it was said to be (a disk that others fill, a quota): told, and lifted as writes succeed.

What is short counts at the directory as quarantine does, so that eviction makes room that is really there. A write that fails for
room shows that the tier held no more than it held besides; one that succeeds shows that there was room for it. Between the
two the truth is somewhere, so each success takes its own slots off: a medium that has grown is used again in full, and one
that has not costs a failed write now and then.
"""

from __future__ import annotations

from .ids import Tier
from .node_state import Work, place_of
from .node_turn import Turn


def fell_short(turn: Turn, work: Work) -> None:
    """Byte work has found no room in its tier's medium."""
    state = turn.state
    slots = state.slots.get(work.tier)
    if slots is not None:
        others = slots.used - _size(turn, work)
        _set(turn, work.tier, max(state.short.get(work.tier, 0), slots.capacity - others))


def had_room(turn: Turn, work: Work) -> None:
    """Byte work has found room in its tier's medium."""
    short = turn.state.short.get(work.tier, 0)
    if short:
        slots = turn.state.slots[work.tier]
        _set(turn, work.tier, min(short - (len(work.blocks) or _size(turn, work)), slots.room))


def _size(turn: Turn, work: Work) -> int:
    copy = turn.state.copies.get(work.copy)
    place = place_of(copy, work.tier) if copy is not None else None
    return len(place.slots) if place is not None else 0


def _set(turn: Turn, tier: Tier, short: int) -> None:
    """Of all that the directory may use, the largest group is always left, or nobody would ever try again."""
    state, config = turn.state, turn.config
    elsewhere = sum([count for other, count in state.short.items() if other is not tier])
    kept = max(0, min(short, config.capacity - config.group_slots - elsewhere))
    if kept != state.short.get(tier, 0):
        turn.heartbeat = True
        if kept:
            state.short[tier] = kept
        else:
            del state.short[tier]
