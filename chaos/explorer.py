"""Breadth first over a world: every state once, the shortest way to what is wrong, and whether rest can be reached from all.

`explore` knows nothing of directories: it takes anything with `initial`, `successors`, `check` and `why_not_quiescent`. The
graph of steps that are no faults is kept, so that LIVE-1 can be decided: once faults stop, from every state a quiescent one can
be reached.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Any, Protocol

from attrs import define, field

from ..core.errors import InvariantViolation

State = tuple[int, ...]
Label = tuple[tuple[Any, ...], Any]
"""`(what happened, what it let out)`."""
NOTHING: Label = ((), ())


class Explorable(Protocol):
    @property
    def trying(self) -> Label:
        """The label of the step that is being computed or checked."""
        ...

    @trying.setter
    def trying(self, label: Label) -> None: ...

    def initial(self) -> State: ...

    def successors(self, state: State) -> list[tuple[State, bool, Label]]: ...

    def check(self, state: State) -> None: ...

    def why_not_quiescent(self, state: State) -> str: ...


class Outcome(IntEnum):
    """The verdict, as an exit code."""

    FINE = 0
    INCOMPLETE = 3
    DEADLOCK = 11
    SAFETY = 12
    LIVENESS = 13


@define
class Found:
    """What an exploration came to. `path`: labels of the shortest way; `loop`: where it then goes round for ever (liveness)."""

    outcome: Outcome = Outcome.FINE
    what: str = ""
    invariant: str = ""
    states: int = 0
    transitions: int = 0
    depth: int = 0
    quiescent: int = 0
    seconds: float = 0.0
    complete: bool = False
    limit: str = ""
    path: list[tuple[State, Label]] = field(factory=list)
    """`(state, label of the step that leaves it)`."""
    end: State = ()
    loop: list[Label] = field(factory=list)
    at: int = 0


@define
class _Graph:
    """What is kept: the states, how each was first reached, and the steps that are no faults."""

    states: list[State] = field(factory=list)
    numbers: dict[State, int] = field(factory=dict)
    parents: array[int] = field(factory=lambda: array("l"))
    sources: array[int] = field(factory=lambda: array("L"))
    targets: array[int] = field(factory=lambda: array("L"))


def explore(
    world: Explorable,
    *,
    states_max: int = 1_000_000,
    seconds_max: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Explore until everything was seen, something is wrong, or a limit is reached."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _explore(world, states_max, seconds_max, progress)
    finally:
        if was_on:
            gc.enable()


def _explore(world: Explorable, states_max: int, seconds_max: float, progress: Callable[[int, int], None] | None) -> Found:
    found = Found()
    graph = _Graph()
    begun = time.perf_counter()
    try:
        first = world.initial()
        graph.states.append(first)
        graph.numbers[first] = 0
        graph.parents.append(-1)
        _search(world, graph, found, states_max, begun + seconds_max if seconds_max else 0.0, progress)
    except InvariantViolation as error:  # the explorer's verdict: this is the one place whose job it is
        _wrong(world, graph, found, Outcome.SAFETY, str(error), error.invariant)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        if not world.trying[0]:
            raise
        _wrong(world, graph, found, Outcome.SAFETY, f"a machine broke: {type(error).__name__}: {error}", "")
    found.states = len(graph.states)
    if found.outcome is Outcome.FINE and found.complete:
        _rest(world, graph, found)
    elif found.outcome is Outcome.FINE:
        found.outcome = Outcome.INCOMPLETE
    found.seconds = time.perf_counter() - begun
    return found


def _search(
    world: Explorable, graph: _Graph, found: Found, states_max: int, until: float, progress: Callable[[int, int], None] | None
) -> None:
    states, numbers, parents = graph.states, graph.numbers, graph.parents
    sources, targets = graph.sources, graph.targets
    successors, check = world.successors, world.check
    at, level_end = 0, 1
    while at < len(states):
        if at == level_end:
            found.depth += 1
            level_end = len(states)
            if progress is not None:
                progress(len(states), found.depth)
        if len(states) > states_max or (until and not at & 255 and time.perf_counter() > until):
            found.limit = f"{states_max} states" if len(states) > states_max else "time"
            return
        found.at = at
        way_on = False
        for after, fault, label in successors(states[at]):
            found.transitions += 1
            number = numbers.get(after)
            if number is None:
                number = numbers[after] = len(states)
                states.append(after)
                parents.append(at)
                world.trying = label
                check(after)
            if not fault and number != at:
                way_on = True
                sources.append(at)
                targets.append(number)
        world.trying = NOTHING
        if not way_on:
            why = world.why_not_quiescent(states[at])
            if why:
                found.outcome, found.what, found.invariant = Outcome.DEADLOCK, f"nothing can happen any more: {why}", "LIVE-1"
                _trace(world, graph, found, at)
                return
        at += 1
    found.complete = True


def _wrong(world: Explorable, graph: _Graph, found: Found, outcome: Outcome, what: str, invariant: str) -> None:
    found.outcome, found.what, found.invariant = outcome, what, invariant
    label = world.trying
    if graph.states:
        _trace(world, graph, found, found.at)
        found.path.append((graph.states[found.at], label))
    else:
        found.path = [((), label)]
    found.end = ()


def _trace(world: Explorable, graph: _Graph, found: Found, at: int) -> None:
    """The shortest way to a state, with the labels found again."""
    way = [at]
    while graph.parents[way[-1]] >= 0:
        way.append(graph.parents[way[-1]])
    way.reverse()
    states = [graph.states[number] for number in way]
    found.path = [(one, _label(world, one, other)) for one, other in pairwise(states)]
    found.end = graph.states[at]


def _label(world: Explorable, one: State, other: State) -> Label:
    return next(label for after, _, label in world.successors(one) if after == other)


# ---- LIVE-1 --------------------------------------------------------------------------------------------------


def _rest(world: Explorable, graph: _Graph, found: Found) -> None:
    """Backward from the quiescent states; what is left can never come to rest."""
    count = len(graph.states)
    reaches = bytearray(count)
    work = [number for number, state in enumerate(graph.states) if not world.why_not_quiescent(state)]
    found.quiescent = len(work)
    for number in work:
        reaches[number] = 1
    starts, sources = _backward(graph, count)
    while work:
        number = work.pop()
        for index in range(starts[number], starts[number + 1]):
            source = sources[index]
            if not reaches[source]:
                reaches[source] = 1
                work.append(source)
    trapped = reaches.find(0)
    if trapped < 0:
        return
    found.outcome, found.invariant = Outcome.LIVENESS, "LIVE-1"
    found.what = f"rest can't be reached any more: {world.why_not_quiescent(graph.states[trapped])}"
    _trace(world, graph, found, trapped)
    _lasso(world, graph, found, trapped)


def _backward(graph: _Graph, count: int) -> tuple[array[int], array[int]]:
    """The edges by target: those into `n` are `sources[starts[n]:starts[n + 1]]`."""
    starts = array("L", bytes(array("L").itemsize * (count + 1)))
    for target in graph.targets:
        starts[target + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    fill = array("L", starts)
    sources = array("L", bytes(array("L").itemsize * len(graph.targets)))
    for source, target in zip(graph.sources, graph.targets, strict=True):
        sources[fill[target]] = source
        fill[target] += 1
    return starts, sources


def _lasso(world: Explorable, graph: _Graph, found: Found, at: int) -> None:
    """From a state that can't come to rest: on, without faults, until a state comes again."""
    way: list[Label] = []
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(way)
        onward = [(after, label) for after, fault, label in world.successors(graph.states[at]) if not fault]
        step = next((one for one in onward if graph.numbers[one[0]] != at), None)
        if step is None:
            return
        at = graph.numbers[step[0]]
        way.append(step[1])
    found.loop = way[seen[at] :]
