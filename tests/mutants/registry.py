"""All mutants under one roof, each once: those of the explorer, of the casebook, of the cluster model, of the proofs and of the
kits, and a few that nobody else needs. Where one fault is written down in two places, `SAME` says whose name it has here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pinfold.chaos.mutants import MUTANTS as SEEDED
from pinfold.chaos.mutants import planted
from pinfold.chaos.world_file import load_world, world_names
from tests.model_based import test_mutants_die as model
from tests.mutants import from_cases, from_models, from_rows
from tests.mutants.from_kits import from_stores, from_tiers
from tests.mutants.more import more
from tests.mutants.record import FAMILIES as FAMILIES
from tests.mutants.record import NOTHING as NOTHING
from tests.mutants.record import NULL as NULL
from tests.mutants.record import Mutant as Mutant
from tests.mutants.record import switched

SAME: dict[str, str] = {**from_cases.SAME, **from_models.SAME, **from_rows.SAME}
"""A fault's name where it is written down -> the name of the mutant that it is."""


def from_worlds() -> list[Mutant]:
    """Those of the explorer."""
    naming: dict[str, list[str]] = {}
    for world in world_names():
        for name in load_world(world).kills:
            naming.setdefault(name, []).append(world)
    case_of = {same: name for name, same in from_cases.SAME.items()}
    return [
        Mutant(
            one.name, one.family, one.breaks, one.what,
            both if one.name == "speaks_before_the_commit" else lambda name=one.name: planted(name),  # type: ignore[misc]
            case_of.get(one.name, ""), tuple(naming.get(one.name, ())),
        )
        for one in SEEDED.values()
    ]  # fmt: skip


@contextmanager
def both() -> Iterator[None]:
    """The explorer steps machines without the driver, so this one fault is in two places: here it is in both."""
    with planted("speaks_before_the_commit"), switched(model.words_leave_before_they_are_durable):
        yield


@cache
def mutants() -> dict[str, Mutant]:
    """By name. Raises `ValueError` if two have one name."""
    listed = [
        *from_worlds(), *from_models.from_models(), *from_cases.from_cases(), *from_rows.from_rows(), *from_stores(),
        *from_tiers(), *more(),
    ]  # fmt: skip
    found = {one.name: one for one in listed}
    if len(found) != len(listed):
        raise ValueError("two mutants have one name")
    return found
