"""Breadth first over a world: every state once, the shortest way to what is wrong, and whether rest can be reached from all.

`explore` knows nothing of directories: it takes anything with `initial`, `successors`, `check`, `why_not_quiescent` and `shown`.
The graph of steps that are no faults is kept, so that LIVE-1 can be decided: once faults stop, from every state a quiescent one
can be reached.

Of a state are kept: its key in one dictionary, its number, the number of its parent, and those of the states that follow, in flat
arrays.
"""

from __future__ import annotations

import gc
import re
import time
from array import array
from collections.abc import Callable
from enum import IntEnum
from itertools import islice, pairwise
from typing import Any, Final, Protocol

from attrs import define, field

from ..core.errors import InvariantViolation

Key = Any
"""A state as the world tells it apart from others: hashable."""
Shown = tuple[int, ...]
"""A state as people and tools are shown it."""
Label = tuple[tuple[Any, ...], Any]
"""`(what happened, what it let out)`."""
NOTHING: Label = ((), ())

NUMBER: Final = r"(?<![a-zA-Z\d])\d+"
"""Of a label's words: a number that is no part of a name."""
TIMES: Final = 4
"""How often the same steps in a row are a livelock: more messages of one kind are seldom under way at once."""


class Explorable(Protocol):
    @property
    def trying(self) -> Label:
        """The label of the step that is being computed or checked."""
        ...

    @trying.setter
    def trying(self, label: Label) -> None: ...

    def initial(self) -> Key: ...

    def successors(self, state: Key, /) -> list[tuple[Key, bool, Label]]: ...

    def check(self, state: Key, /) -> None: ...

    def why_not_quiescent(self, state: Key, /) -> str: ...

    def shown(self, state: Key, /) -> Shown: ...

    def told(self, label: Label, /) -> str:
        """What happened, in words."""
        ...


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
    path: list[tuple[Shown, Label]] = field(factory=list)
    """`(state, label of the step that leaves it)`."""
    end: Shown = ()
    loop: list[Label] = field(factory=list)
    at: int = 0


@define
class _Graph:
    """What is kept: the states in the order in which they were found, how each was first reached, and the steps that are no
    faults: those from `n` lead to `targets[starts[n]:starts[n + 1]]`."""

    numbers: dict[Key, int] = field(factory=dict)
    parents: array[int] = field(factory=lambda: array("I"))
    starts: array[int] = field(factory=lambda: array("I"))
    targets: array[int] = field(factory=lambda: array("I"))

    def state(self, number: int) -> Key:
        return next(islice(self.numbers, number, None))

    def way(self, at: int) -> list[Key]:
        """The shortest way to a state, that state included."""
        way = [at]
        while way[-1]:
            way.append(self.parents[way[-1]])
        wanted = set(way)
        return [state for number, state in enumerate(islice(self.numbers, at + 1)) if number in wanted]


def explore(
    world: Explorable,
    *,
    states_max: int = 1_000_000,
    seconds_max: float = 0.0,
    progress: Callable[[int, int, int], None] | None = None,
) -> Found:
    """Explore until everything was seen, something is wrong, or a limit is reached. Now and then `progress` is told of the
    states, of those to go on from, and of the depth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _explore(world, states_max, seconds_max, progress)
    finally:
        if was_on:
            gc.enable()


def _explore(world: Explorable, states_max: int, seconds_max: float, progress: Callable[[int, int, int], None] | None) -> Found:
    found = Found()
    graph = _Graph()
    begun = time.perf_counter()
    try:
        first = world.initial()
        graph.numbers[first] = 0
        graph.parents.append(0)
        _search(world, graph, found, states_max, begun + seconds_max if seconds_max else 0.0, progress)
    except InvariantViolation as error:  # the explorer's verdict: this is the one place whose job it is
        _wrong(world, graph, found, Outcome.SAFETY, str(error), error.invariant)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        if not world.trying[0]:
            raise
        _wrong(world, graph, found, Outcome.SAFETY, f"a machine broke: {type(error).__name__}: {error}", "")
    found.states = len(graph.numbers)
    if found.outcome is Outcome.FINE and found.complete:
        _rest(world, graph, found)
    elif found.outcome is Outcome.FINE:
        found.outcome = Outcome.INCOMPLETE
        _growing(world, graph, found)
    found.seconds = time.perf_counter() - begun
    return found


def _search(
    world: Explorable, graph: _Graph, found: Found, states_max: int, until: float,
    progress: Callable[[int, int, int], None] | None,
) -> None:
    numbers, add_parent, add_start, add_target = graph.numbers, graph.parents.append, graph.starts.append, graph.targets.append
    successors, check = world.successors, world.check
    level: list[Key] = list(numbers)
    at = 0
    while level:
        onward: list[Key] = []
        for state in level:
            if len(numbers) > states_max or (until and not at & 255 and time.perf_counter() > until):
                found.limit = f"{states_max} states" if len(numbers) > states_max else "time"
                return
            if progress is not None and not at & 1023:
                progress(len(numbers), len(numbers) - at, found.depth)
            found.at = at
            add_start(len(graph.targets))
            way_on = False
            next_steps = successors(state)
            found.transitions += len(next_steps)
            for after, fault, label in next_steps:
                number = numbers.get(after)
                if number is None:
                    number = numbers[after] = len(numbers)
                    onward.append(after)
                    add_parent(at)
                    world.trying = label
                    check(after)
                if not fault and number != at:
                    way_on = True
                    add_target(number)
            world.trying = NOTHING
            if not way_on:
                why = world.why_not_quiescent(state)
                if why:
                    found.outcome, found.what, found.invariant = Outcome.DEADLOCK, f"nothing can happen any more: {why}", "LIVE-1"
                    _trace(world, graph, found, at)
                    return
            at += 1
        level = onward
        if level:
            found.depth += 1
    add_start(len(graph.targets))
    found.complete = True


def _wrong(world: Explorable, graph: _Graph, found: Found, outcome: Outcome, what: str, invariant: str) -> None:
    found.outcome, found.what, found.invariant = outcome, what, invariant
    label = world.trying
    if graph.numbers:
        _trace(world, graph, found, found.at)
        found.path.append((world.shown(graph.state(found.at)), label))
    else:
        found.path = [((), label)]
    found.end = ()


def _trace(world: Explorable, graph: _Graph, found: Found, at: int) -> None:
    """The shortest way to a state, with the labels found again."""
    states = graph.way(at)
    found.path = [(world.shown(one), _step(world, one, other)[0]) for one, other in pairwise(states)]
    found.end = world.shown(states[-1])


def _step(world: Explorable, one: Key, other: Key) -> tuple[Label, bool]:
    """`(label, is it a fault)` of the first step between two states."""
    return next((label, fault) for after, fault, label in world.successors(one) if after == other)


# ---- worlds without an end -----------------------------------------------------------------------------------


def _growing(world: Explorable, graph: _Graph, found: Found) -> None:
    """Why the limit may have been reached: on the way to the last state, the same steps come again and again without a fault, and
    differ in numbers only. That is a livelock; the states differ, so that no search comes to its end."""
    states = graph.way(len(graph.numbers) - 1)
    steps = [_step(world, one, other) for one, other in pairwise(states)]
    bare = ["" if fault else re.sub(NUMBER, "N", world.told(label)) for label, fault in steps]
    for length in range(1, len(bare) // TIMES + 1):
        tail = bare[-length * TIMES :]
        if all(tail) and tail == tail[:length] * TIMES:
            found.loop = [label for label, _ in steps[-length:]]
            found.what = "a livelock that grows, where only numbers change: " + "; ".join(tail[:length])
            return


# ---- LIVE-1 --------------------------------------------------------------------------------------------------


def _rest(world: Explorable, graph: _Graph, found: Found) -> None:
    """Which states can come to rest: those at rest, and those from which a step leads to such a one. What is left never can."""
    reaches = bytearray(len(graph.numbers))
    why_not = world.why_not_quiescent
    for number, state in enumerate(graph.numbers):
        if not why_not(state):
            reaches[number] = 1
    found.quiescent = sum(reaches)
    _sweep(graph, reaches)
    trapped = reaches.find(0)
    if trapped < 0:
        return
    found.outcome, found.invariant = Outcome.LIVENESS, "LIVE-1"
    found.what = f"rest can't be reached any more: {why_not(graph.state(trapped))}"
    _trace(world, graph, found, trapped)
    _lasso(world, graph, found, trapped)


def _sweep(graph: _Graph, reaches: bytearray) -> None:
    """Again and again over the states that are left, the last found first, until no more are reached: most steps lead to states
    that were found later, so that few rounds do."""
    starts, targets = graph.starts, graph.targets
    left = array("I", [number for number in range(len(reaches) - 1, -1, -1) if not reaches[number]])
    while True:
        still = array("I")
        for number in left:
            for index in range(starts[number], starts[number + 1]):
                if reaches[targets[index]]:
                    reaches[number] = 1
                    break
            else:
                still.append(number)
        if len(still) in (0, len(left)):
            return
        left = still


def _lasso(world: Explorable, graph: _Graph, found: Found, at: int) -> None:
    """From a state that can't come to rest: on, without faults, until a state comes again."""
    way: list[Label] = []
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(way)
        onward = [(after, label) for after, fault, label in world.successors(graph.state(at)) if not fault]
        step = next((one for one in onward if graph.numbers[one[0]] != at), None)
        if step is None:
            return
        at = graph.numbers[step[0]]
        way.append(step[1])
    found.loop = way[seen[at] :]
