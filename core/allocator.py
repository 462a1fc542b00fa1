"""Slots of one tier: who may have memory, and never two at once.

Laws:

1. A slot is free, taken or quarantined; `take` hands out free ones only, lowest first, and all or nothing.
2. A slot becomes free by `give` alone, which its caller uses when the byte work says that nobody touches it (USE-1).
3. A quarantined slot counts as used until it is given back (rule 6).

A slot is room for one block. Tiers that name files by copy id count in the same slots, so that one equation (CAP-1) holds for
all tiers. Free slots are the bits of one integer: a value, so a state is copied without copying it, and two allocators with
the same slots free are equal whatever happened before. Slots of a group need not be adjacent: free space is usable space.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from .errors import InvariantViolation

WINDOW: Final = (1 << 64) - 1


@define
class Slots:
    """One tier's slots. `used` and `quarantined` are derived from the bits and kept beside them because they are asked often."""

    capacity: int
    free: int
    """Bit `i` set: slot `i` is free."""
    used: int = 0
    """Slots taken, quarantined ones among them (CAP-1: recounted by `node_invariants.used_is_recount`)."""
    quarantined: int = 0

    @property
    def room(self) -> int:
        """Free slots."""
        return self.capacity - self.used


def new_slots(capacity: int) -> Slots:
    """All of `capacity` slots free."""
    return Slots(capacity, (1 << capacity) - 1)


def take(slots: Slots, count: int) -> tuple[Slots, tuple[int, ...]] | None:
    """The `count` lowest free slots, or None when there are fewer: a group is never given part of its room."""
    if count > slots.room:
        return None
    free = slots.free
    taken: list[int] = []
    while len(taken) < count:
        # each operation on `free` costs its length: look at a window from the lowest free slot, and clear it at once
        low = (free & -free).bit_length() - 1
        window = free >> low & WINDOW
        cleared = 0
        while window and len(taken) < count:
            bit = window & -window
            taken.append(low + bit.bit_length() - 1)
            cleared |= bit
            window ^= bit
        free ^= cleared << low
    return Slots(slots.capacity, free, slots.used + count, slots.quarantined), tuple(taken)


def give(slots: Slots, back: tuple[int, ...]) -> Slots:
    """`back` is free again. Raises `InvariantViolation` (USE-1) for a slot that was free already or never was."""
    return Slots(
        slots.capacity, slots.free | _taken_mask(slots, back), slots.used - len(back), slots.quarantined
    )


def quarantine(slots: Slots, bad: tuple[int, ...]) -> Slots:
    """`bad` stays taken and is counted as quarantined: a late writer to it can't be ruled out."""
    _taken_mask(slots, bad)
    return Slots(slots.capacity, slots.free, slots.used, slots.quarantined + len(bad))


def lift(slots: Slots, clean: tuple[int, ...]) -> Slots:
    """Quarantined slots become free."""
    freed = give(slots, clean)
    return Slots(freed.capacity, freed.free, freed.used, freed.quarantined - len(clean))


def _taken_mask(slots: Slots, numbers: tuple[int, ...]) -> int:
    low = min(numbers, default=0)
    mask = 0
    for number in numbers:
        if low < 0 or number >= slots.capacity or mask >> number - low & 1:
            raise InvariantViolation("USE-1", f"slot {number} is given back but is no taken slot")
        mask |= 1 << number - low
    if slots.free >> low & mask:
        raise InvariantViolation("USE-1", f"of slots {numbers} one is given back but was free")
    return mask << low
