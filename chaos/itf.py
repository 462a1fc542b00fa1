"""A counterexample as a trace in Apalache's Informal Trace Format (ADR-015), for model checkers' viewers and trace tools.

One state an entry, projected: what the directory's record says, what nodes have, clients, stores, messages under way and what is
left of the fault budgets. `action` is the step that led there. Integers are `#bigint`, maps `#map`, sets `#set`, as the format
asks.
"""

from __future__ import annotations

from typing import Any, Final

from ..core.state import DirectoryState
from .explorer import Found
from .play import line_of
from .words import message
from .world import DIR, NODES, OLD, STORE, State, World
from .world_file import FAULTS

VARS: Final = ("action", "directory", "deposed", "nodes", "stores", "clients", "network", "budgets")
DESCRIPTION: Final = "https://apalache-mc.org/docs/adr/015adr-trace.html"


def trace(world: World, found: Found) -> dict[str, Any]:
    """The whole document; of a liveness violation with `loop`, the state that follows the last one again."""
    steps: list[tuple[str, State]] = []
    action = "begin"
    for state, label in found.path:
        if state:
            steps.append((action, state))
        action = line_of(world.cast, label[0], state[world.fixed :]) if label[0] else "begin"
    meta: dict[str, Any] = {
        "format": "ITF", "format-description": DESCRIPTION, "source": f"specs/worlds/{world.file.name}.toml",
        "description": f"{found.outcome.name}: {found.what.splitlines()[0]}", "status": "violation", "invariant": found.invariant,
    }  # fmt: skip
    document: dict[str, Any] = {"#meta": meta, "params": [], "vars": list(VARS)}
    if found.end:
        steps.append((action, found.end))
    else:
        meta["breaks"] = action  # the step after the last state
    if found.loop:
        document["loop"] = _round(world, found.end, steps)
    document["states"] = [
        {"#meta": {"index": at}, "action": said, **_state(world, state)} for at, (said, state) in enumerate(steps)
    ]
    return document


def _round(world: World, state: State, steps: list[tuple[str, State]]) -> int:
    """On from a state that can't come to rest, until a state comes again: its index."""
    begun = len(steps) - 1
    seen = {state: begun}
    while True:
        onward = [(after, label) for after, fault, label in world.successors(state) if not fault and after != state]
        after, label = onward[0]
        if after in seen:
            return seen[after]
        seen[after] = len(steps)
        steps.append((line_of(world.cast, label[0], state[world.fixed :]), after))
        state = after


# ---- values --------------------------------------------------------------------------------------------------


def _int(number: int) -> dict[str, str]:
    return {"#bigint": str(number)}


def _map(pairs: dict[str, Any]) -> dict[str, Any]:
    return {"#map": [[key, pairs[key]] for key in sorted(pairs)]}


def _set(values: set[str]) -> dict[str, Any]:
    return {"#set": sorted(values)}


# ---- a state -------------------------------------------------------------------------------------------------


def _state(world: World, state: State) -> dict[str, Any]:
    parties, cast = world.parties, world.cast
    site = parties.directories.items[state[DIR]]
    record = site.asleep if site.machine is None else site.machine.state
    cells = parties.stores.items[state[STORE]]
    letters = [cast.messages.items[number] for number in state[world.fixed :]]
    budgets = parties.budgets.items[state[world.budget]]
    return {
        "directory": _directory(world, record, site.machine is not None),
        "deposed": state[OLD] != parties.nobody,
        "nodes": _map({name: _node(world, state[NODES + at]) for at, name in enumerate(cast.nodes)}),
        "stores": _set({f"{place} c0.{revision}.{ordinal}" for place, revision, ordinal, _ in cells}),
        "clients": _map({name: _client(world, state[world.clients + at]) for at, name in enumerate(cast.clients)}),
        "network": sorted(f"{one.target} {message(cast, one.body)}" for one in letters),
        "budgets": _map({fault: _int(left) for fault, left in zip(FAULTS, budgets, strict=True)}),
    }


def _directory(world: World, record: DirectoryState | None, up: bool) -> dict[str, Any]:
    assert record is not None  # what a directory that is down would load
    groups: dict[str, Any] = {}
    for at, spec in enumerate(world.cast.specs):
        group = record.groups.get(spec.group)
        if group is not None:
            copies = {
                str(one.id): {"role": one.role.name, "at": str(one.node), "absent": one.absent}
                for one in record.copies[spec.group]
            }
            groups[world.cast.groups[at]] = {"state": group.state.name, "epoch": _int(group.epoch), "copies": _map(copies)}
    return {
        "up": up, "term": _int(record.meta.term), "revision": _int(record.meta.revision), "groups": _map(groups),
        "holds": _set({str(hold) for hold in record.holds}),
    }  # fmt: skip


def _node(world: World, number: int) -> dict[str, Any]:
    site = world.parties.nodes.items[number]
    if site.machine is None:
        return {"up": False, "boot": _int(site.boot), "term": _int(0), "incarnation": _int(0), "copies": _map({}), "works": []}
    state = site.machine.state
    link = state.links[0]
    return {
        "up": True, "boot": _int(site.boot), "term": _int(link.term), "incarnation": _int(link.incarnation),
        "copies": _map({str(copy_id): copy.condition.name for copy_id, copy in state.copies.items()}),
        "works": [f"{type(work).__name__} {work.job}" for work in site.works],
    }  # fmt: skip


def _client(world: World, number: int) -> dict[str, Any]:
    site = world.parties.actors.items[number]
    return {
        "alive": site.alive, "line": _int(site.line), "waits": bool(site.asked) or site.request is not None,
        "holds": _set({str(held.hold) for held in site.holds}),
    }  # fmt: skip
