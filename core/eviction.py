"""Which groups go first: pure functions over a small record, so that the directory, a node and a test agree
on the victim.

A policy is a scoring function; the smallest score goes first and the group id breaks ties. `pick_victims`
applies it to the leaves of the prefix tree first: a group is of use only while its parents are there, so a
parent that goes before its children wastes them. That is a preference, never a guard (design section 5):
where no leaf is left, parents go too. Held groups are not candidates; leaving them out is the caller's duty,
since only the record knows its holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from attrs import define

from .ids import GroupId


@define
class Candidate:
    """One group that may go.

    `size` in slots. `last_touch` rises strictly with each access in one directory, so that it orders accesses
    even within one millisecond; `created` is a revision. `ttl_ms` counts from the last access, 0: never.
    `recompute_cost`, `priority`, `migration_cost` and `locality` are in whatever units `Weights` was made
    for. `children` are readable groups whose parent this is, candidates or not.
    """

    group: GroupId
    size: int
    last_touch: int
    last_access_ms: int = 0
    accesses: int = 0
    created: int = 0
    ttl_ms: int = 0
    recompute_cost: int = 0
    priority: int = 0
    migration_cost: int = 0
    locality: int = 0
    children: int = 0
    parent: GroupId | None = None


@define
class Weights:
    """What one unit of each part is worth in the `cost` score.

    The defaults read as milliseconds: a group of one more slot, or one unit cheaper to recompute, goes as if
    it had not been touched for one more second; a unit of priority keeps it for a minute. Ratios alone
    matter.
    """

    size: int = 1_000
    coldness: int = 1
    migration_cost: int = 1_000
    recompute_cost: int = 1_000
    priority: int = 60_000
    locality: int = 1_000


Score = tuple[int, ...]
"""Smaller goes first. All scores of one policy have the same length."""

Policy = Callable[[Candidate, int, Weights], Score]
"""`(candidate, now_ms, weights) -> Score`; looks at nothing else."""


def lru(candidate: Candidate, now_ms: int, weights: Weights) -> Score:
    """The longest untouched first."""
    return (candidate.last_touch,)


def lfu(candidate: Candidate, now_ms: int, weights: Weights) -> Score:
    """The least often used first, the longest untouched among equals."""
    return (candidate.accesses, candidate.last_touch)


def fifo(candidate: Candidate, now_ms: int, weights: Weights) -> Score:
    """The first created first."""
    return (candidate.created, candidate.last_touch)


def ttl(candidate: Candidate, now_ms: int, weights: Weights) -> Score:
    """What has outlived its time first, then the longest untouched."""
    expired = 0 < candidate.ttl_ms <= now_ms - candidate.last_access_ms
    return (0 if expired else 1, candidate.last_touch)


def cost(candidate: Candidate, now_ms: int, weights: Weights) -> Score:
    """The highest eviction score first (`eviction_score`), the longest untouched among equals."""
    return (-eviction_score(candidate, now_ms, weights), candidate.last_touch)


def eviction_score(candidate: Candidate, now_ms: int, weights: Weights) -> int:
    """How much is gained by letting it go: size + coldness + migration cost - recompute cost - priority -
    locality.

    Coldness is the time since the last access in ms, and never below 0: a clock that a restart has set back
    is not heat.
    """
    return (
        weights.size * candidate.size
        + weights.coldness * max(0, now_ms - candidate.last_access_ms)
        + weights.migration_cost * candidate.migration_cost
        - weights.recompute_cost * candidate.recompute_cost
        - weights.priority * candidate.priority
        - weights.locality * candidate.locality
    )


POLICIES: Final[dict[str, Policy]] = {"lru": lru, "lfu": lfu, "fifo": fifo, "ttl": ttl, "cost": cost}
"""The policies by the names that configuration uses."""


def pick_victims(
    candidates: Iterable[Candidate], need_slots: int, policy: Policy, weights: Weights, now_ms: int
) -> list[GroupId]:
    """Groups to give up, in order, until `need_slots` are free or nobody is left; none if `need_slots` <= 0.

    Exactly: repeat, the smallest score among those without children now. When one goes its parent, if a
    candidate, has one child less and may be next. Only while nobody is without children does the smallest
    score of all go. Each group is a candidate once. O(n log n); equal input gives equal output in whatever
    order it comes.
    """
    if need_slots <= 0:
        return []
    waiting = {candidate.group: candidate for candidate in candidates}
    children = {group: candidate.children for group, candidate in waiting.items()}
    leaves = [(policy(candidate, now_ms, weights), group) for group, candidate in waiting.items() if candidate.children <= 0]
    heapify(leaves)
    inner: list[tuple[Score, GroupId]] | None = None
    victims: list[GroupId] = []
    while need_slots > 0 and waiting:
        if leaves:
            group = heappop(leaves)[1]
        else:
            # Made only when needed: as a rule the leaves suffice. Nobody joins it later (a count of children
            # never rises here), and those that became leaves or went meanwhile are passed over.
            if inner is None:
                inner = [(policy(candidate, now_ms, weights), group) for group, candidate in waiting.items()]
                heapify(inner)
            group = heappop(inner)[1]
            if group not in waiting:
                continue
        victim = waiting.pop(group)
        victims.append(group)
        need_slots -= victim.size
        parent = victim.parent
        if parent is not None and parent in waiting:
            children[parent] -= 1
            if children[parent] == 0:
                heappush(leaves, (policy(waiting[parent], now_ms, weights), parent))
    return victims


@define
class Watermarks:
    """When eviction starts (`high`) and where it stops (`low`), in per mille of a capacity; 0 <= low <= high
    <= 1000."""

    high: int = 950
    low: int = 900

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1000:
            raise ValueError(f"watermarks need 0 <= low <= high <= 1000 per mille, got low={self.low} high={self.high}")


def to_free(used: int, capacity: int, needed: int, marks: Watermarks) -> int:
    """Slots to give up so that `needed` more fit, 0 when nothing has to go.

    Nothing goes while `used` is at or below the high mark and `needed` fits. Otherwise down to the low mark,
    or further if `needed` wants more. What is larger than the whole capacity never fits, so nothing goes for
    its sake.
    """
    fits = used + needed <= capacity or needed > capacity
    if fits and used * 1000 <= marks.high * capacity:
        return 0
    above_low = used - marks.low * capacity // 1000
    missing = 0 if fits else used + needed - capacity
    return max(0, above_low, missing)
