"""What `pinfold replay` must count: a cache of block groups in a few dozen plain lines, sharing no code with
pinfold.

Used by tests/test_reference_cache.py, which says how it is known to be right, and by the tests of the replay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

Prefix = tuple[int, int]
"""A group's key: `(last hash id, number of blocks)`."""


class ReferenceCache:
    """One cache, LRU among leaves. `capacity` in slots of one block, None: unbounded; marks in per mille of it.

    `hit_blocks` counts blocks in the leading run of groups that were there when a request came; `blocks` counts all. The
    parent of a group that is there is there too: leaves go first, and what is pinned is the beginning of a prompt. So there
    is always a leaf to evict if there is anything, and behind the first missing group of a prompt all are missing.
    """

    def __init__(self, capacity: int | None = None, high: int = 950, low: int = 900) -> None:
        self.capacity, self.high, self.low = capacity, high, low
        self.present: OrderedDict[Prefix, Prefix | None] = OrderedDict()  # key -> parent, the longest untouched first
        self.children: dict[Prefix, int] = {}
        self.pinned: set[Prefix] = set()
        self.used = self.blocks = self.hit_blocks = self.evictions = self.skipped = 0

    def request(self, hash_ids: Sequence[int], group_blocks: int) -> int:
        """Serve one request and return its hit blocks."""
        runs = [hash_ids[at : at + group_blocks] for at in range(0, len(hash_ids), group_blocks)]
        keys = [(run[-1], len(run)) for run in runs]
        parents: list[Prefix | None] = [None, *keys]
        hits = next((n for n, key in enumerate(keys) if key not in self.present), len(keys))
        for key in keys[:hits]:
            self._touch(key)
        for key, parent in zip(keys[hits:], parents[hits:], strict=False):
            if not self._put(key, parent):
                self.skipped += len(keys) - keys.index(key)
                break
        self.pinned.clear()
        self._relieve()  # the pins that end here may have been all that kept it above its high mark
        hit_blocks = sum(size for _, size in keys[:hits])
        self.blocks += len(hash_ids)
        self.hit_blocks += hit_blocks
        return hit_blocks

    def _touch(self, key: Prefix) -> None:
        self.present.move_to_end(key)
        self.pinned.add(key)

    def _put(self, key: Prefix, parent: Prefix | None) -> bool:
        """Create a group, making room first; False if there is none."""
        size = key[1]
        if self.capacity is not None and self.used + size > self.capacity:
            if size <= self.capacity:
                self._evict(min(self.low * self.capacity // 1000, self.capacity - size))
            if self.used + size > self.capacity:
                return False
        self.present[key] = parent
        self.children[key] = 0
        if parent is not None:
            self.children[parent] += 1
        self.used += size
        self._touch(key)
        self._relieve()
        return True

    def _relieve(self) -> None:
        """Above the high mark, evict down to the low one."""
        if self.capacity is not None and self.used * 1000 > self.high * self.capacity:
            self._evict(self.low * self.capacity // 1000)

    def _evict(self, target: int) -> None:
        """Let unpinned leaves go, the longest untouched first, until `used` is at most `target` or there is none.

        One walk does it: a parent that has become a leaf is next if its place was passed already, and is come to otherwise.
        """
        places = {key: place for place, key in enumerate(self.present)}
        for key in list(self.present):
            at: Prefix | None = key
            while at is not None and self._may_go(at) and places[at] <= places[key]:
                if self.used <= target:
                    return
                at = self._drop(at)

    def _may_go(self, key: Prefix) -> bool:
        return key in self.present and key not in self.pinned and self.children[key] == 0

    def _drop(self, key: Prefix) -> Prefix | None:
        """Let a leaf go, and return its parent."""
        parent = self.present.pop(key)
        del self.children[key]
        if parent is not None:
            self.children[parent] -= 1
        self.used -= key[1]
        self.evictions += 1
        return parent


def replay(
    chains: Iterable[Sequence[int]], group_blocks: int, capacity: int | None = None, high: int = 950, low: int = 900
) -> ReferenceCache:
    """Serve the requests' hash ids in order and return the cache with its counts."""
    cache = ReferenceCache(capacity, high, low)
    for hash_ids in chains:
        cache.request(hash_ids, group_blocks)
    return cache
