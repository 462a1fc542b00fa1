"""The simulator as a check: whole clusters of the shipped machines, each from one seed, and what their clients were told."""

from __future__ import annotations

from pinfold.chaos import history_check
from pinfold.chaos.sim_model import Run
from pinfold.chaos.sim_profiles import PROFILES
from pinfold.chaos.sim_run import Failure, play, steps_of
from pinfold.chaos.simulator import plan
from tests.model_based import test_mutants_die as model
from tests.mutants.deaths import Death, line_of, oracle_of
from tests.mutants.record import Mutant

DRIVER = "seeds"
SEEDS = {"mixed": 12, "diet": 24}
"""How many of each kind; 2 of each other profile. A diet is the mutant's own: actions that lead to it."""
LEADS = {"old_answers_are_used": ("crashes 21", "mixed 14", "storm 5", "crashes 34")}
"""Seeds that were looked for, where those above lead a mutant to nothing: forty of each profile were tried."""
STEPS = 150
HISTORY = "chaos/history_check.py"


def points() -> list[str]:
    found = [f"{profile} {seed}" for profile in [*PROFILES, "diet"] for seed in range(SEEDS.get(profile, 2))]
    return [*found, *(lead for leads in LEADS.values() for lead in leads)]


def first(mutant: Mutant) -> list[str]:
    """Where a diet or a lead is known to get to the fault, it goes first."""
    return [*LEADS.get(mutant.name, ()), *([f"diet {seed}" for seed in range(SEEDS["diet"])] if diet_of(mutant) else [])]


def diet_of(mutant: Mutant) -> model.Mutant | None:
    from tests.mutants.registry import SAME

    names = {mutant.name, *(name for name, same in SAME.items() if same == mutant.name)}
    return next((switch for switch in model.DIETS if switch.__name__ in names), None)


def run(point: str, mutant: Mutant) -> Death | None:
    profile, _, number = point.partition(" ")
    seed = int(number)
    ended: Run | Failure
    if profile != "diet":
        ended = plan(seed, profile=profile, steps=STEPS).play()
    elif (switch := diet_of(mutant)) is not None:
        wheel, changes = model.DIETS[switch]
        ended = play(seed, steps_of(seed, STEPS, wheel), **changes)
    else:
        return None
    if isinstance(ended, Failure):
        return Death("simulator", DRIVER, point, oracle_of(ended.error), line_of(ended.error))
    verdict = history_check.check(ended.world.recorder.history(complete=True))
    if verdict.word != "violated":
        return None
    return Death("simulator", DRIVER, point, HISTORY, " ".join(verdict.lines()[0].split())[:160])
