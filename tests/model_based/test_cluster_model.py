"""A cluster of the real machines over a bad wire, with crashes, against a dictionary (design section 7).

Hypothesis draws what `chaos/sim_actions.py` and `chaos/sim_trouble.py` list, in any order and with any arguments; after each step
the machines' invariants and what callers may rely on are checked, and at the end that everything comes to rest with nothing left
over (LIVE-1). The simulator (`chaos/simulator.py`) plays the same actions from a seed, deeper; here are a few of its seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from pinfold.chaos.mutants import planted
from pinfold.chaos.sim_actions import arguments
from pinfold.chaos.sim_end import finish
from pinfold.chaos.sim_model import Run
from pinfold.chaos.sim_play import BadLine, scenario
from pinfold.chaos.sim_run import Failure, Step, steps_of
from pinfold.chaos.sim_shape import shape_of
from pinfold.chaos.sim_trouble import ACTIONS
from pinfold.chaos.simulator import plan, simulate, story_of
from pinfold.core.errors import InvariantViolation
from tests.story import Story, replay, unparse


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
        """Run `what`; a failure tells how to see it again without Hypothesis, and what to paste into tests/scenarios."""
        try:
            return what()
        except Exception as error:
            command = plan(self.seed, profile="mixed").command(self.done)
            note(f"REPRODUCE: {command}")
            note(scenario(self.seed, "mixed", self.done, ["Found by the cluster model.", str(error)]))
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


# ---- what a failure prints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "seed"), [("evicts_ignore_pins", 0), ("aborts_keep_the_epoch", 0), ("unknown_copies_stay", 1)]
)
def test_the_scenario_of_a_failure_breaks_alike_and_is_told_to_its_end_without_the_fault(mutant: str, seed: int) -> None:
    with planted(mutant):
        failure = plan(seed, profile="mixed", steps=120).play()
        assert isinstance(failure, Failure)
        text = scenario(seed, "mixed", failure.steps, [str(failure.error)])
        with pytest.raises(InvariantViolation) as again:
            replay(text)
    assert str(again.value) == str(failure.error)
    assert unparse(replay(text)) == text


def test_a_failing_model_prints_its_scenario() -> None:
    """From the notes that Hypothesis prints below a failure, pasted as they are: it breaks with the fault, and not without."""
    few = settings(TestCluster.settings, max_examples=20, stateful_step_count=40)
    with planted("evicts_ignore_pins"):
        with pytest.raises(InvariantViolation, match="USE-1") as failed:
            run_state_machine_as_test(Cluster, settings=few)
        notes = "\n".join(failed.value.__notes__)
        assert len(re.findall("^REPRODUCE: pinfold simulate ", notes, re.MULTILINE)) == 1
        text = re.search(r"^# Found by the cluster model\.\n.*?^at rest\n", notes, re.MULTILINE | re.DOTALL)
        assert text is not None
        with pytest.raises(InvariantViolation, match="USE-1"):
            replay(text[0])
    assert unparse(replay(text[0])) == text[0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("fly node=1", "knows no 'fly'"),
        ("wait", "wait takes pause=N, not"),
        ("wait pause=7", "wait: pause is 100 to 2499, not 7"),
        ("wait pause=x", "pause is 100 to 2499"),
        ("wait 300", "wait takes pause=N"),
    ],
)
def test_a_line_that_is_no_action_is_refused_in_a_sentence(line: str, why: str) -> None:
    story = Story()
    story.do(["simulate", "0", "calm"])
    with pytest.raises(BadLine, match=why):
        story.do(line.split())
    with pytest.raises(BadLine, match="there is no profile 'windy'"):
        Story().do(["simulate", "0", "windy"])


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
