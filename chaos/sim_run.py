"""A simulated run from its seed: which actions it stands for, playing them, how it failed, a shorter list that fails alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve

from .sim_actions import CALLS, Action, arguments, drain, evict, get, put, release
from .sim_end import finish
from .sim_model import GROUPS, Run
from .sim_profiles import PROFILES, Profile
from .sim_shape import Chance, Shape, shape_of
from .sim_trouble import ACTIONS, CUT, LATE, LOST, REPEATED, SHOWS

Step = tuple[str, tuple[int, ...]]
Wheel = list[tuple[str, dict[str, range]]]
"""Actions, each as often as its weight, with what its arguments may be."""

TROUBLE: Final = (0, 1, 2, 6)
"""For profiles that go by the seed: how often the weights of faults count."""

FIRST: Final = 7
"""With how many actions each run begins: its groups are put."""

EXTRA_MAX: Final = 1_000
"""How many actions more a run goes on for its profile's promises."""


def wheel_of(weights: Mapping[Action, int], **pools: range) -> Wheel:
    """`pools`: narrower ranges for the arguments of that name."""
    wheel: Wheel = []
    for action, weight in weights.items():
        known = {name: pools.get(name, pool) for name, pool in arguments(action).items()}
        wheel += [(action.__name__, known)] * weight
    return wheel


def wheel_for(seed: int, profile: Profile) -> Wheel:
    """What callers do, and the profile's faults."""
    times = TROUBLE[seed % len(TROUBLE)] if profile.by_seed else 1
    return wheel_of(CALLS | {action: weight * times for action, weight in profile.faults.items()})


def wheel_towards(names: Sequence[str]) -> Wheel:
    """What callers do, and such faults as count under one of `names`. Nodes are not drained but taken back, and there is much
    writing and reading, so that there is something to go wrong, and it is noticed."""
    calls: dict[Action, int] = CALLS | {put: 30, get: 30, evict: 15, release: 25, drain: 0}
    faults = {action: 20 for action, shown in SHOWS.items() if not set(shown).isdisjoint(names)}
    return wheel_of(calls | faults) + wheel_of({drain: 4}, flag=range(1))


@define
class Dice:
    """The actions that a seed stands for, one after the other."""

    chance: Chance
    wheel: Wheel

    def step(self) -> Step:
        name, pools = self.chance.pick(self.wheel)
        return name, tuple(pool.start + self.chance.below(len(pool)) for pool in pools.values())


def first_steps() -> list[Step]:
    """What every run begins with."""
    steps: list[Step] = [("put", (group % 2, group, 3, 0, 3)) for group in range(GROUPS)]
    return [*steps, ("wait", (300,))]


def steps_of(seed: int, count: int, wheel: Wheel | None = None) -> list[Step]:
    """The first `count` actions that a seed stands for, of the profile `mixed` or from a wheel of one's own."""
    dice = Dice(Chance(seed), wheel or wheel_for(seed, PROFILES["mixed"]))
    return [*first_steps(), *(dice.step() for _ in range(count - FIRST))]


@define
class Failure:
    """One run that went wrong. `steps`: what had been done when it did."""

    seed: int
    steps: list[Step]
    error: Exception
    run: Run

    @property
    def kind(self) -> str:
        return f"{type(self.error).__name__} {getattr(self.error, 'invariant', '')}"


def play(seed: int, steps: Sequence[Step], **changes: Any) -> Run | Failure:
    """One run from its beginning to rest. `changes`: what is otherwise in the seed's cluster."""
    return drive(seed, evolve(shape_of(seed), **changes), lambda run: iter(steps))


def drive(seed: int, shape: Shape, actions: Callable[[Run], Any], tail: int | None = 400) -> Run | Failure:
    """One run from its beginning to rest. `actions(run)` gives its actions, one when the one before has been done."""
    run = Run(shape, tail)
    done: list[Step] = []
    try:
        run.start()
        for name, args in actions(run):
            done.append((name, args))
            run.world.trace.event(run.world.now, "*", f"{name} {' '.join(map(str, args))}")
            ACTIONS[name](run, *args)
        run.faults = faults_of(run)
        finish(run)
    except Exception as error:  # noqa: BLE001  whatever it is, the reader needs the way to see it again
        return Failure(seed, done, error, run)
    return run


def faults_of(run: Run) -> dict[str, int]:
    """What has gone wrong so far, by name, and how often."""
    wire = run.world.wire
    met = {LOST: wire.counters.lost, REPEATED: wire.counters.duplicated, LATE: wire.held_back, CUT: wire.counters.cut}
    return {**{name: count for name, count in met.items() if count}, **dict(sorted(run.world.counts.by_name.items()))}


def missing(run: Run, profile: Profile) -> list[str]:
    """Promises of the profile that nothing has kept so far."""
    met = faults_of(run)
    return [name for name in profile.promises if name not in met]


def shrink(failure: Failure, again: Callable[[Sequence[Step]], Run | Failure]) -> Failure:
    """A shorter list of actions with the same kind of end: pieces are left out, large ones first. `again` plays a list."""
    best = failure
    size = max(1, len(best.steps) // 2)
    while size:
        at = 0
        while at < len(best.steps):
            outcome = again(best.steps[:at] + best.steps[at + size :])
            if isinstance(outcome, Failure) and outcome.kind == best.kind:
                best = outcome
            else:
                at += size
        size //= 2
    return best
