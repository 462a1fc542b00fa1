"""The simulator as a check: whole clusters of the shipped machines, each from one seed."""

from __future__ import annotations

from tests.model_based import test_mutants_die as model
from tests.mutants.deaths import Death, line_of, oracle_of
from tests.mutants.record import Mutant

DRIVER = "seeds"
SEEDS = 24
STEPS = 150
DIET = "diet "
"""A seed whose actions are those of the mutant's own diet."""


def points() -> list[str]:
    return [f"seed {seed}" for seed in range(SEEDS)] + [f"{DIET}{seed}" for seed in range(SEEDS)]


def first(mutant: Mutant) -> list[str]:
    """Where a diet leads to the fault, its seeds go first."""
    return [f"{DIET}{seed}" for seed in range(SEEDS)] if diet_of(mutant) else []


def diet_of(mutant: Mutant) -> model.Mutant | None:
    from tests.mutants.registry import SAME

    names = {mutant.name, *(name for name, same in SAME.items() if same == mutant.name)}
    return next((switch for switch in model.DIETS if switch.__name__ in names), None)


def run(point: str, mutant: Mutant) -> Death | None:
    kind, _, number = point.partition(" ")
    seed = int(number)
    switch = diet_of(mutant) if kind == "diet" else None
    if kind == "diet" and switch is None:
        return None
    wheel, changes = model.DIETS[switch] if switch is not None else (None, {})
    outcome = model.play(seed, model.steps_of(seed, STEPS, wheel), **changes)
    if not isinstance(outcome, model.Failure):
        return None
    return Death("simulator", DRIVER, point, oracle_of(outcome.error), line_of(outcome.error))
