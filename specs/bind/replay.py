"""Walks that TLC takes at random through the model, taken again by the real machines, state by state.

A walk gives states, not actions: at each one, every step that the machines can take is taken, and one of them must end in the
walk's next state.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import tlc
from attrs import define, field
from equality import describe, difference
from slices import Slice
from steps import Steps
from values import States
from world import Projection, View, first


@define
class Replayed:
    """`labels`: how often the machines took which action."""

    walks: int = 0
    steps: int = 0
    seconds: float = 0.0
    labels: dict[str, int] = field(factory=dict)
    differences: list[str] = field(factory=list)


def replay(one: Slice, folder: Path, walks: int, depth: int, seed: int) -> Replayed:
    """Let TLC walk, and follow."""
    begun = time.monotonic()
    tlc.lay_out(folder, **{f"{one.name}__tla": one.module(), f"{one.name}__cfg": one.settings("INVARIANT Safe")})
    tlc.run(folder, one.name, "-simulate", f"file=walk,num={walks}", "-depth", str(depth), "-seed", str(seed))
    result = Replayed()
    for path in sorted(folder.glob("walk_*")):
        result.walks += 1
        follow(one, path, result)
    result.seconds = time.monotonic() - begun
    return result


def follow(one: Slice, path: Path, result: Replayed) -> None:
    """One walk."""
    states = States()
    projection = Projection(one, states)
    steps = Steps(projection)
    world = first(one)
    for at, there in enumerate(walked(states, path), 1):
        here = projection.view(world)
        if there == here:
            continue
        found = next(((label, after) for label, after in steps.of(world) if projection.view(after) == there), None)
        if found is None:
            change = f"{describe(states, here)}\n  ->\n{difference(states, here, there)}"
            result.differences.append(f"{path.name}: the machines can't take step {at}\n{change}")
            return
        label, world = found
        result.steps += 1
        result.labels[label] = result.labels.get(label, 0) + 1


def walked(states: States, path: Path) -> Iterator[View]:
    """The states of one walk."""
    for text in re.split(r"^STATE_\d+ == *$", path.read_text(), flags=re.MULTILINE)[1:]:
        found = tlc.variables(text.split("\n====")[0].strip())
        yield states.of_text(found["dir"], found["node"], found["msgs"], found["left"])
