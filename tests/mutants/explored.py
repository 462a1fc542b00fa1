"""The explorer as a check: small worlds, to a bound."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pinfold.chaos import explorer
from pinfold.chaos.check import check_world
from pinfold.chaos.world_file import load_world, world_names
from tests.mutants.deaths import Death, oracle_of
from tests.mutants.record import Mutant

DRIVER = "every order"
STATES_MAX = 2_500
NAMED_MAX = 20_000
"""Of a world that names the mutant."""
SEARCH = "chaos/explorer.py"
"""The oracle of deadlocks and of what can't come to rest: nobody but the search itself."""


def points() -> list[str]:
    """The fast worlds."""
    return [name for name in world_names() if load_world(name).tier == "fast"]


def first(mutant: Mutant) -> list[str]:
    return list(mutant.worlds)


def run(point: str, mutant: Mutant) -> Death | None:
    """Explore with what is planted already."""
    oracles: list[str] = []

    def wrong(*given: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            oracles.append(oracle_of(error))
        whole(*given)

    whole = explorer._wrong
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "_wrong", wrong)
        checked = check_world(load_world(point), states_max=NAMED_MAX if point in mutant.worlds else STATES_MAX)
    if checked.outcome in ("FINE", "INCOMPLETE"):
        return None
    said = f"{checked.outcome} after {checked.steps} steps: {' '.join(checked.what.split())}"[:160]
    return Death("explorer", DRIVER, point, oracles[0] if oracles else SEARCH, said)
