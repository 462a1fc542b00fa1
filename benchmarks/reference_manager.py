"""The least that an unproven cache manager can do: the yardstick of step_rate.py.

An ordered dictionary, a free list, reference counts and LRU eviction; no owner, no durability, no epoch, no
refusal worth the name, one thread. What a proven directory costs is said as a share of this, measured in the
same run.

A put cycle is allocate + insert + seal of one group, evicting the longest untouched unreferenced one when no
slot is free. A get cycle is lookup + reference, then unreference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from time import perf_counter

SLOT, REFS = 0, 1
WRITING = -1
"""In place of the count of references: not sealed yet, so nobody may read or evict it."""


class ReferenceManager:
    """Keeps up to `slots` groups of one slot each, by key, the longest untouched first."""

    def __init__(self, slots: int) -> None:
        self.free = list(range(slots))
        self.groups: OrderedDict[bytes, list[int]] = OrderedDict()

    def put(self, keys: Sequence[bytes]) -> list[int]:
        """Take a slot for each new key and return the slots, -1 for a key that is there. Raises `MemoryError`
        if all are in use; what was taken before stays taken."""
        groups, free, slots = self.groups, self.free, []
        for key in keys:
            if key in groups:
                slots.append(-1)
                continue
            slot = free.pop() if free else self.evict()
            groups[key] = [slot, WRITING]
            slots.append(slot)
        return slots

    def seal(self, keys: Sequence[bytes]) -> None:
        """The bytes are there; from now on it may be read and evicted."""
        groups = self.groups
        for key in keys:
            groups[key][REFS] = 0

    def get(self, keys: Sequence[bytes]) -> list[int]:
        """Reference each key and return the slots, up to the first that is not there or not sealed."""
        groups, slots = self.groups, []
        touch = groups.move_to_end
        for key in keys:
            group = groups.get(key)
            if group is None or group[REFS] < 0:
                break
            group[REFS] += 1
            touch(key)
            slots.append(group[SLOT])
        return slots

    def unref(self, keys: Sequence[bytes]) -> None:
        """End one reference of each key."""
        groups = self.groups
        for key in keys:
            groups[key][REFS] -= 1

    def evict(self) -> int:
        """The slot of the longest untouched group that nobody uses; the group is gone. Those in use on the
        way count as touched: they were, by whoever uses them."""
        groups = self.groups
        for _ in range(len(groups)):
            key, group = groups.popitem(last=False)
            if group[REFS] == 0:
                return group[SLOT]
            groups[key] = group
        raise MemoryError("every group is in use")


def put_cycles_per_s(batch: int, seconds: float = 0.5, slots: int = 16_384, evicting: bool = False) -> float:
    """Put cycles a second, `batch` keys a call, of keys that are not there, into free slots; with `evicting`
    into a full manager, so that each put evicts."""
    names = count()
    done, spent = 0, 0.0
    manager = ReferenceManager(slots)
    while spent < seconds:
        # Keys are made outside of what is measured: both sides of the comparison are handed ready ones.
        keys = [next(names).to_bytes(16, "big") for _ in range(slots)]
        batches = [keys[at : at + batch] for at in range(0, slots, batch)]
        if not evicting:
            manager = ReferenceManager(slots)
        elif not manager.groups:
            manager.put(keys)
            manager.seal(keys)
            continue
        begin = perf_counter()
        for part in batches:
            manager.put(part)
            manager.seal(part)
        spent += perf_counter() - begin
        done += slots
    return done / spent


def get_cycles_per_s(batch: int, seconds: float = 0.5, slots: int = 16_384) -> float:
    """Get cycles a second, `batch` keys a call, all of them hits."""
    manager = ReferenceManager(slots)
    fill = [number.to_bytes(16, "big") for number in range(slots)]
    manager.put(fill)
    manager.seal(fill)
    batches = [fill[at : at + batch] for at in range(0, slots, batch)]
    done, spent = 0, 0.0
    while spent < seconds:
        begin = perf_counter()
        for keys in batches:
            manager.get(keys)
            manager.unref(keys)
        spent += perf_counter() - begin
        done += slots
    return done / spent


if __name__ == "__main__":
    for size in (1, 32, 256):
        rates = (put_cycles_per_s(size), put_cycles_per_s(size, evicting=True), get_cycles_per_s(size))
        put, evicting_put, get = (f"{rate / 1e6:.2f}" for rate in rates)
        print(f"batch {size:>3}: {put} M put cycles/s ({evicting_put} evicting), {get} M get cycles/s")
