"""What a failing state machine prints can be pasted into tests/scenarios: it fails there with the fault, and is told without."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from pinfold.chaos.mutants import planted
from pinfold.core import client_steps
from pinfold.core.errors import InvariantViolation
from tests.model_based.models import MODELS
from tests.model_based.told import Told
from tests.story import Story, replay, unparse

FEW = settings(max_examples=60, stateful_step_count=40, phases=(Phase.generate,))


def printed(machine: type[Told]) -> str:
    """The transcript in the notes below a failure, as it stands there."""
    with pytest.raises((AssertionError, InvariantViolation)) as failed:
        run_state_machine_as_test(machine, settings=FEW)
    notes = "\n".join(failed.value.__notes__)
    assert len(re.findall("^REPRODUCE: ", notes, re.MULTILINE)) == 1
    found = re.search(r"^# Found by the \w+ model\.\n.*?^at rest\n", notes + "\n", re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def test_a_failing_node_prints_its_transcript() -> None:
    with planted("free_ignores_guards"):
        text = printed(MODELS["node"])
        with pytest.raises((AssertionError, InvariantViolation)):
            replay(text)
    assert unparse(replay(text)) == text


def test_a_failing_client_prints_its_transcript() -> None:
    """The fault: a get that is over does not give its PIN back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_steps, "release", lambda turn, hold: None)
        text = printed(MODELS["client"])
        with pytest.raises((AssertionError, InvariantViolation)):
            replay(text)
    assert unparse(replay(text)) == text


@pytest.mark.parametrize("name", MODELS)
def test_a_transcript_is_played_rule_by_rule(name: str) -> None:
    story = Story()
    story.do(["model", name])
    steps: dict[str, list[str]] = {
        "node": ["put blocks=2 tier=DRAM", "read_wanted number=0", "complete_all", "late_order number=0 incarnation=-1", "rest"],
        "client": ["begin window=3 mode=RECOMPUTE optimistic=true seed=7", "locate groups=a,c", "deliver numbers=0,5", "rest"],
    }
    for line in steps[name]:
        story.do(line.split())
    assert story.take() == ["at rest"]
    machine: Any = story.world.machine
    assert machine.steps[: len(steps[name]) - 1] == steps[name][:-1]


def test_a_rule_whose_precondition_does_not_hold_does_nothing() -> None:
    story = Story()
    for line in ("model node", "let number=3", "free number=0", "rest"):
        story.do(line.split())
    assert story.take() == ["at rest"]
