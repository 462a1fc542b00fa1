"""The actions of the cluster model from a seeded driver: no Hypothesis, many seeds, deep runs.

    python -m tests.model_based.random_cluster --seeds 0-199 --steps 300
    python -m tests.model_based.random_cluster --seeds 17 --steps 300 --shrink --story 40

A run that ends well prints nothing. One that does not prints one `REPRODUCE:` line; `--shrink` looks for a shorter list of
actions that fails in the same way, `--digest` prints a checksum of everything that happened (DET-1).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from attrs import define, evolve

from pinfold.chaos.sim_actions import ACTIONS, CALLS, FAULTS, Action, arguments
from pinfold.chaos.sim_end import finish
from pinfold.chaos.sim_model import GROUPS, Run
from pinfold.chaos.sim_shape import Chance, shape_of
from pinfold.chaos.sim_world import FACTS
from pinfold.core.errors import InvariantViolation

Step = tuple[str, tuple[int, ...]]
COMMAND = "python -m tests.model_based.random_cluster"
TROUBLE = (0, 1, 2, 6)
"""Each fourth seed has no faults but the wire's; for the others, how often their weight counts."""


Wheel = list[tuple[str, dict[str, range]]]
"""Actions, each as often as its weight, with what its arguments may be."""


def wheel_of(weights: Mapping[Action, int], **pools: range) -> Wheel:
    """`pools`: narrower ranges for the arguments of that name."""
    return [
        (action.__name__, {name: pools.get(name, pool) for name, pool in arguments(action).items()})
        for action, weight in weights.items()
        for _ in range(weight)
    ]


_WHEELS = [wheel_of(CALLS | {action: weight * trouble for action, weight in FAULTS.items()}) for trouble in TROUBLE]


@define
class Failure:
    """One run that went wrong."""

    seed: int
    steps: list[Step]
    """What had been done when it did."""
    error: Exception
    run: Run

    @property
    def kind(self) -> str:
        return f"{type(self.error).__name__} {getattr(self.error, 'invariant', '')}"

    def reproduce(self) -> str:
        actions = json.dumps(self.steps, separators=(",", ":"))
        return f"REPRODUCE: {COMMAND} --seeds {self.seed} --actions '{actions}'"


def steps_of(seed: int, count: int, wheel: Wheel | None = None) -> list[Step]:
    """The actions that a seed stands for."""
    chance = Chance(seed)
    wheel = wheel or _WHEELS[seed % len(_WHEELS)]
    steps: list[Step] = [("put", (group % 2, group, 3, 0, 3)) for group in range(GROUPS)]
    steps.append(("wait", (300,)))
    for _ in range(count - len(steps)):
        name, pools = chance.pick(wheel)
        steps.append((name, tuple(pool.start + chance.below(len(pool)) for pool in pools.values())))
    return steps


def play(seed: int, steps: Sequence[Step], *, story: int = 0, **changes: Any) -> Run | Failure:
    """One run from its beginning to rest. `changes`: what is otherwise in the seed's cluster."""
    run = Run(evolve(shape_of(seed), **changes))
    done: list[Step] = []
    try:
        for name, args in steps:
            done.append((name, args))
            if story:
                run.world.story.append((run.world.now, "*", (name, args)))
            ACTIONS[name](run, *args)
        finish(run)
    except Exception as error:  # noqa: BLE001  whatever it is, the reader needs the way to see it again
        return Failure(seed, done, error, run)
    return run


def digest(run: Run) -> str:
    """A checksum of all that happened: who was told what when, and what everybody knew at the end."""
    world = run.world
    assert world.directory is not None
    state = world.directory.state
    told = repr((world.mark, world.steps, world.now, run.answers, state.meta, state.counters, world.wire.counters.as_dict()))
    facts = repr([getattr(state, name) for name in FACTS])
    nodes = repr([member.machine.state for member in world.nodes()])
    return blake2b((told + facts + nodes).encode(), digest_size=16).hexdigest()


def shrink(failure: Failure) -> Failure:
    """A shorter list of actions with the same kind of end: pieces are left out, large ones first."""
    best = failure
    size = max(1, len(best.steps) // 2)
    while size:
        at = 0
        while at < len(best.steps):
            outcome = play(best.seed, best.steps[:at] + best.steps[at + size :], story=1)
            if isinstance(outcome, Failure) and outcome.kind == best.kind:
                best = outcome
            else:
                at += size
        size //= 2
    return best


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_seeds, default=range(20), metavar="FROM-TO")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--actions", type=json.loads, help="play these actions instead of the seed's own")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--story", type=int, default=0, help="print the last events of a failing run")
    parser.add_argument("--digest", action="store_true")
    options = parser.parse_args(argv)
    failed = 0
    for seed in options.seeds:
        steps = steps_of(seed, options.steps) if options.actions is None else options.actions
        outcome = play(seed, steps, story=options.story)
        if isinstance(outcome, Failure):
            failed += 1
            tell(shrink(outcome) if options.shrink else outcome, options.story)
        elif options.digest:
            print(seed, digest(outcome))
    return 1 if failed else 0


def tell(failure: Failure, story: int) -> None:
    """The story (on demand), what was wrong, and the one line that shows it again."""
    for now, who, event in list(failure.run.world.story)[-story:] if story else ():
        print(f"{now:>7} {who:<14} {event}", file=sys.stderr)
    print(f"seed {failure.seed}, action {len(failure.steps)}: {failure.kind}: {failure.error}", file=sys.stderr)
    if not isinstance(failure.error, InvariantViolation):
        import traceback

        traceback.print_exception(failure.error)
    print(failure.reproduce(), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
