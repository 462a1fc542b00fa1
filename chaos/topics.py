"""What a world has really gone through: faults that were taken, and what machines were seen in.

A world's file says what may happen; only this says that it did, in some state that was reached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..core.ids import Role, State
from ..core.reports import Condition
from .directory_site import DirectorySite
from .heard import LOST_ANSWER
from .node_site import NodeSite
from .possible import HELD, LAST_WORDS
from .world import World

Happened = tuple[str, bool]
"""`(what, was it a fault)`."""


def _fault(world: World, *whats: str) -> bool:
    return any((what, True) in world.possible.happened for what in whats)


def _directory(world: World, seen: Callable[[DirectorySite], bool]) -> bool:
    return any(site.machine is not None and seen(site) for site in world.parties.directories.items)


def _node(world: World, seen: Callable[[NodeSite], bool]) -> bool:
    return any(site.machine is not None and seen(site) for site in world.parties.nodes.items)


def _state(site: Any) -> Any:
    return site.machine.state


def _returned(world: World) -> bool:
    """Some boot has had two incarnations."""
    incarnations: dict[str, set[int]] = {}
    for site in world.parties.directories.items:
        if site.machine is not None:
            for node in site.machine.state.nodes.values():
                incarnations.setdefault(node.boot, set()).add(node.incarnation)
    return any(len(seen) > 1 for seen in incarnations.values())


def _defers_a_free(site: NodeSite) -> bool:
    state = _state(site)
    freeing = {copy_id for copy_id, copy in state.copies.items() if copy.condition is Condition.FREEING}
    return any(guard.copy in freeing for guard in state.guards.values())


def _has_role(role: Role) -> Callable[[DirectorySite], bool]:
    return lambda site: any(copy.role is role for copies in _state(site).copies.values() for copy in copies)


def _is_remote(site: DirectorySite) -> bool:
    return any(group.state in (State.REMOTE, State.MIGRATING_IN) for group in _state(site).groups.values())


_OWN: Final = ("due lease over", "due session over")
"""What has a fault of its own, and is no early timer."""

TOPICS: Final[dict[str, Callable[[World], bool]]] = {
    "loss": lambda w: _fault(w, "drop", LOST_ANSWER),
    "duplication": lambda w: _fault(w, "duplicate"),
    "reordering": lambda w: any(len(set(messages)) > 1 for messages in w.possible.under_way.items),
    "crash of a node": lambda w: _fault(w, "crash node"),
    "crash of the directory": lambda w: _fault(w, "crash directory"),
    "crash of a client": lambda w: _fault(w, "client dies"),
    "crash between persist and send": lambda w: _fault(w, LAST_WORDS),
    "unsynced writes lost": lambda w: _fault(w, "crash in a commit that did not happen", HELD),
    "commit outcome unknown": lambda w: _fault(w, "crash after the commit"),
    "restart": lambda w: ("restart", False) in w.possible.happened,
    "lapse": lambda w: _fault(w, "due lease over"),
    "return in the same boot": lambda w: _fault(w, "due lease over") and _returned(w),
    "a deposed directory still sending": lambda w: _directory(w, lambda site: site.deposed) and w.possible.deposed_spoke,
    "session expiry": lambda w: _fault(w, "due session over"),
    "readers inside": lambda w: _node(w, lambda site: bool(_state(site).guards)),
    "pipelined commits": lambda w: _directory(w, lambda site: len(site.held) > 1),
    "deferred frees": lambda w: _node(w, _defers_a_free),
    "two groups sharing capacity": lambda w: len(w.cast.groups) > 1 and _directory(w, lambda site: bool(_state(site).pressure)),
    "replicas": lambda w: _directory(w, _has_role(Role.REPLICA)),
    "REMOTE states": lambda w: _directory(w, _is_remote),
    "node-local instances": lambda w: _node(w, lambda site: bool(_state(site).moves)),
    "early timers": lambda w: any(fault and what.startswith("due ") and what not in _OWN for what, fault in w.possible.happened),
    "byte work fails": lambda w: any(fault and what == "work" for what, fault in w.possible.happened),
}
"""What the explorer is for, and how to see that a world has been there."""

def topics_of(world: World) -> list[str]:
    """What an exploration of this world has gone through, as far as it came."""
    return [name for name, seen in TOPICS.items() if seen(world)]
