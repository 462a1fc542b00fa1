"""Where a new copy goes: pure functions over what is known of each node.

A policy only chooses among nodes that can take the copy (`can_take`); chance comes in as a number, so that
the same directory chooses the same node in every world (DET-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define

from .ids import NodeName

_MASK = (1 << 64) - 1


@define
class PlaceView:
    """One node. `capacity` and `used` in slots; `locality` (larger is nearer) and `cost` (compute + move +
    wait, smaller is better) in the caller's units. `alive`: its lease holds; `ready`: it has told its first
    full inventory."""

    node: NodeName
    capacity: int
    used: int = 0
    moves_in_flight: int = 0
    locality: int = 0
    cost: int = 0
    alive: bool = True
    ready: bool = True
    draining: bool = False

    @property
    def fill(self) -> int:
        """The share in use, in parts per million; a node without capacity is full."""
        return self.used * 1_000_000 // self.capacity if self.capacity > 0 else 1_000_000

    def can_take(self, need_slots: int) -> bool:
        return self.alive and self.ready and not self.draining and self.used + need_slots <= self.capacity


def splitmix64(number: int) -> int:
    """64 well-mixed bits of `number` (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


Placement = Callable[[list[PlaceView], int, Sequence[NodeName]], PlaceView]
"""`(views, number, prefer) -> one of views`; `views` is not empty, in order of names, and each can take the
copy."""


def _load(view: PlaceView) -> tuple[int, int, NodeName]:
    """Least loaded first: by share, since nodes differ in size; then by moves under way; then by name."""
    return (view.fill, view.moves_in_flight, view.node)


def round_robin(views: list[PlaceView], number: int, prefer: Sequence[NodeName]) -> PlaceView:
    """Each in turn; `number` is a counter that the caller raises with each placement."""
    return views[number % len(views)]


def least_loaded(views: list[PlaceView], number: int, prefer: Sequence[NodeName]) -> PlaceView:
    return min(views, key=_load)


def power_of_two(views: list[PlaceView], number: int, prefer: Sequence[NodeName]) -> PlaceView:
    """The less loaded of two different nodes drawn by `number` (a revision, say), so that many who look at
    the same stale fill do not all choose the same node."""
    if len(views) == 1:
        return views[0]
    bits = splitmix64(number)
    first = (bits >> 32) % len(views)
    second = (bits & 0xFFFF_FFFF) % (len(views) - 1)
    if second >= first:
        second += 1
    return min(views[first], views[second], key=_load)


def locality(views: list[PlaceView], number: int, prefer: Sequence[NodeName]) -> PlaceView:
    """The first of `prefer` (the parent's node, the request's node) that has room, then the nearest, then the
    least loaded."""
    for node in prefer:
        for view in views:
            if view.node == node:
                return view
    return min(views, key=lambda view: (-view.locality, *_load(view)))


def cost(views: list[PlaceView], number: int, prefer: Sequence[NodeName]) -> PlaceView:
    """The cheapest, then the least loaded."""
    return min(views, key=lambda view: (view.cost, *_load(view)))


PLACEMENTS: Final[dict[str, Placement]] = {
    "round_robin": round_robin,
    "least_loaded": least_loaded,
    "power_of_two": power_of_two,
    "locality": locality,
    "cost": cost,
}
"""The policies by the names that configuration uses."""


def place(
    views: Iterable[PlaceView],
    need_slots: int,
    policy: Placement,
    wish: NodeName | None = None,
    number: int = 0,
    prefer: Sequence[NodeName] = (),
) -> NodeName | None:
    """The node for a copy of `need_slots`; None: nobody has room. A `wish` ("" or None: no wish) is granted
    if it has room.

    `number` is what the policy turns by (a counter, a revision); `prefer` are nodes to be near to, the
    nearest first.
    """
    fit = [view for view in views if view.can_take(need_slots)]
    if not fit:
        return None
    if wish:
        for view in fit:
            if view.node == wish:
                return wish
    if len(fit) > 1:
        fit.sort(key=lambda view: view.node)
    return policy(fit, number, prefer).node
