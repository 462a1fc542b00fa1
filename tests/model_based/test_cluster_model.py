"""A cluster of the real machines over a bad wire, with crashes, against a dictionary (design section 7).

Hypothesis draws what `chaos/sim_actions.py` and `chaos/sim_trouble.py` list, in any order and with any arguments; after each step
the machines' invariants and what callers may rely on are checked, and at the end that everything comes to rest with nothing left
over (LIVE-1). The simulator (`chaos/simulator.py`) plays the same actions from a seed, deeper; here are a few of its seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pinfold.chaos.sim_actions import arguments
from pinfold.chaos.sim_end import finish
from pinfold.chaos.sim_model import Run
from pinfold.chaos.sim_run import Step, steps_of
from pinfold.chaos.sim_shape import shape_of
from pinfold.chaos.sim_trouble import ACTIONS
from pinfold.chaos.simulator import plan, simulate, story_of


class _Cluster(RuleBasedStateMachine):
    """The rules are made below, one for each action."""

    seed = 0

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.seed = seed
        self.done: list[Step] = []
        self.run = Run(shape_of(seed))
        self.guarded(self.run.start)
        for name, args in steps_of(seed, 7):
            self.act(name, args)

    def guarded(self, what: Callable[[], Any]) -> Any:
        """Run `what`; a failure tells how to see it again without Hypothesis."""
        try:
            return what()
        except Exception:
            note(f"REPRODUCE: {plan(self.seed, profile='mixed').command(self.done)}")
            raise

    def act(self, name: str, args: tuple[int, ...]) -> None:
        self.done.append((name, args))
        self.guarded(lambda: ACTIONS[name](self.run, *args))

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.guarded(lambda: finish(self.run))


def _rule_of(name: str) -> Any:
    pools = arguments(ACTIONS[name])

    def body(self: _Cluster, **args: int) -> None:
        self.act(name, tuple(args[key] for key in pools))

    body.__name__ = name
    return rule(**{key: st.sampled_from(pool) for key, pool in pools.items()})(body)


Cluster = type("Cluster", (_Cluster,), {name: _rule_of(name) for name in ACTIONS})

TestCluster = Cluster.TestCase
# Without shrinking: a run takes long for that, and the seeded driver shrinks a list of actions faster (`--shrink`).
TestCluster.settings = settings(
    max_examples=max(1, settings().max_examples * 2 // 5), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)


# ---- the seeded driver -------------------------------------------------------------------------------------------


def comes_to_rest(seed: int, steps: int) -> None:
    outcome = simulate(seed, steps=steps, profile="mixed")
    if outcome.code:
        pytest.fail("\n".join(story_of(outcome)), pytrace=False)


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_comes_to_rest(seed: int) -> None:
    comes_to_rest(seed, 150)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_many_seeds_come_to_rest(seed: int) -> None:
    comes_to_rest(seed, 600)
