"""A cluster of the real machines over a bad wire, with crashes, against a dictionary (design section 7).

Hypothesis draws what `chaos/sim_actions.py` lists, in any order and with any arguments; after each step the machines' invariants
and what callers may rely on are checked, and at the end that everything comes to rest with nothing left over (LIVE-1).
The seeded driver (`random_cluster.py`) plays the same actions, deeper; here are a few of its seeds, and that a seed is a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pinfold.chaos.sim_actions import ACTIONS, arguments
from pinfold.chaos.sim_end import finish
from pinfold.chaos.sim_model import Run
from pinfold.chaos.sim_shape import shape_of
from tests.model_based.random_cluster import COMMAND, Failure, Step, digest, play, steps_of, tell


class _Cluster(RuleBasedStateMachine):
    """The rules are made below, one for each action."""

    seed = 0

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.seed = seed
        self.done: list[Step] = []
        self.run = self.guarded(lambda: Run(shape_of(seed)))
        for name, args in steps_of(seed, 7):
            self.act(name, args)

    def guarded(self, what: Callable[[], Any]) -> Any:
        """Run `what`; a failure tells how to see it again without Hypothesis."""
        try:
            return what()
        except Exception:
            actions = json.dumps(self.done, separators=(",", ":"))
            note(f"REPRODUCE: {COMMAND} --seeds {self.seed} --actions '{actions}'")
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


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_comes_to_rest(seed: int) -> None:
    outcome = play(seed, steps_of(seed, 150))
    if isinstance(outcome, Failure):
        tell(outcome, story=40)
        pytest.fail(str(outcome.error), pytrace=False)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_many_seeds_come_to_rest(seed: int) -> None:
    outcome = play(seed, steps_of(seed, 600))
    if isinstance(outcome, Failure):
        tell(outcome, story=0)
        pytest.fail(str(outcome.error), pytrace=False)


def test_a_seed_is_a_run_whatever_the_hash_seed() -> None:
    """DET-1: who was told what when, and what all know at the end, is the same under another hash seed."""
    command = [sys.executable, "-m", "tests.model_based.random_cluster", "--seeds", "1-4", "--steps", "120", "--digest"]
    told = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True, timeout=120
        ).stdout
        for hash_seed in ("1", "4242")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 4
    mine = [play(seed, steps_of(seed, 120)) for seed in (1, 2)]
    assert [f"{seed} {digest(run)}" for seed, run in enumerate(mine, 1) if isinstance(run, Run)] == told[0].splitlines()[:2]
