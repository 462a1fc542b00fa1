"""State sets of TLC and of the real machines, equal in both directions; labelled edges too where the slice says so.

The machines are enumerated breadth first. Two worlds with the same projection are taken for one: that this loses nothing is
itself tested, by taking all steps of a sample of the worlds that were met again in another shape (`again`) and comparing
their edges.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tlc
from attrs import define, field
from slices import Slice
from steps import Steps
from values import States
from world import Projection, View, World, first

Edge = tuple[View, str, View]


@define
class Found:
    """What the machines can reach. `again`: how many worlds of a known projection were expanded once more."""

    states: dict[View, None] = field(factory=dict)
    edges: dict[Edge, None] = field(factory=dict)
    labels: dict[str, int] = field(factory=dict)
    steps: int = 0
    again: int = 0
    seconds: float = 0.0
    differences: list[str] = field(factory=list)


def enumerate_machines(one: Slice, states: States, sample_every: int = 50) -> Found:
    """All reachable projections of the machines' states, and the edges between them if asked for."""
    begun = time.monotonic()
    projection = Projection(one, states)
    steps = Steps(projection)
    found = Found()
    world = first(one)
    found.states[projection.view(world)] = None
    front = [world]
    successors: dict[View, frozenset[tuple[str, View]]] = {}
    samples: list[tuple[View, World]] = []
    while front:
        following: list[World] = []
        for world in front:
            here = projection.view(world)
            out: dict[tuple[str, View], World] = {}
            for label, after in steps.of(world):
                found.steps += 1
                there = projection.view(after)
                if there != here:
                    out[(label, there)] = after
            for (label, there), after in out.items():
                found.labels[label] = found.labels.get(label, 0) + 1
                if one.edges:
                    found.edges[(here, label, there)] = None
                if there not in found.states:
                    found.states[there] = None
                    following.append(after)
                elif found.steps % sample_every == 0:
                    samples.append((there, after))
            successors[here] = frozenset(out)
        front = following
    for here, world in samples:
        found.again += 1
        taken = [(label, projection.view(after)) for label, after in steps.of(world)]
        out_again = frozenset([(label, view) for label, view in taken if view != here])
        if out_again != successors[here]:
            one_way = {label for label, _ in out_again - successors[here]}
            other = {label for label, _ in successors[here] - out_again}
            found.differences.append(f"two worlds of one projection part: {sorted(one_way)} against {sorted(other)}")
    found.seconds = time.monotonic() - begun
    return found


@define
class Compared:
    """The result of one slice."""

    slice: str
    states: int
    tlc_states: int
    edges: int
    tlc_edges: int
    steps: int
    again: int
    machine_seconds: float
    tlc_seconds: float
    labels: dict[str, int]
    differences: list[str]


def compare(one: Slice, folder: Path) -> Compared:
    """Enumerate both sides at once, and compare."""
    states = States()
    tlc.lay_out(folder, **{f"{one.name}__tla": one.module(), f"{one.name}__cfg": one.settings("INVARIANT Safe", ACTIONS)})
    dump = ("-dump", "dot,actionlabels", "graph") if one.edges else ("-dump", "states")
    with ThreadPoolExecutor(1) as other_core:
        running = other_core.submit(tlc.run, folder, one.name, *dump)
        found = enumerate_machines(one, states)
        verdict = running.result()
    differences = list(found.differences)
    if verdict.violated:
        differences.append(f"TLC: {verdict.violated} is violated in slice {one.name}")
    edges: dict[Edge, None] = {}
    if one.edges:
        texts, arrows = tlc.drawn(folder / "graph.dot")
        views = {name: of_texts(states, text) for name, text in texts.items()}
        edges = {(views[a], label, views[b]): None for a, label, b in arrows if views[a] != views[b]}
        reached = dict.fromkeys(views.values())
    else:
        reached = {of_texts(states, text): None for text in tlc.dumped(folder / "states.dump")}
    differences += told(states, "state", found.states, reached)
    if one.edges:
        differences += told(states, "edge", found.edges, edges)
    return Compared(
        one.name, len(found.states), len(reached), len(found.edges), len(edges), found.steps, found.again, found.seconds,
        verdict.seconds, found.labels, differences,
    )  # fmt: skip


ACTIONS = "PROPERTIES EPOCH1 COPY3 INV1 NUMBER1 USE2 USE3"


def of_texts(states: States, text: dict[str, str]) -> View:
    return states.of_text(text["dir"], text["node"], text["msgs"], text["left"])


def told(states: States, what: str, machines: dict[Any, None], model: dict[Any, None]) -> list[str]:
    """The first differences, as people can read them."""
    lines = []
    for side, here, there in (("the machines", machines, model), ("the model", model, machines)):
        missing = [thing for thing in here if thing not in there]
        if missing:
            lines.append(f"{len(missing)} {what}s of {side} alone, the first:\n{describe(states, missing[0])}")
    return lines


def describe(states: States, thing: Any) -> str:
    """A state, or an edge as what it changes."""
    if isinstance(thing[1], str):
        before, label, after = thing
        return f"  {label}\n{describe(states, before)}\n  ->\n{difference(states, before, after)}"
    dir_, node, msgs, left = thing
    lines = [f"    dir   {states.parts.items[dir_]}", f"    node  {states.parts.items[node]}"]
    lines += [f"    msg   {states.messages.items[number]}" for number in sorted(msgs)]
    return "\n".join([*lines, f"    left  {states.parts.items[left]}"])


def difference(states: States, before: View, after: View) -> str:
    lines = []
    for part, a, b in (("dir", before[0], after[0]), ("node", before[1], after[1]), ("left", before[3], after[3])):
        if a != b:
            lines.append(f"    {part}  {states.parts.items[b]}")
    lines += [f"    sent {states.messages.items[number]}" for number in sorted(after[2] - before[2])]
    return "\n".join(lines)
