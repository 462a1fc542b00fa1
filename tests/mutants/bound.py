"""The TLA+ model as a check: what the machines reach in a slice, planted or not, against what TLC reaches in the model."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pinfold.core.errors import InvariantViolation
from tests.mutants.deaths import CRASH, ROOT, Death, line_of, oracle_of
from tests.mutants.record import Mutant

BIND = ROOT / "specs" / "bind"
CACHE = ROOT / "build" / "mutants" / "tlc"
SLICES: dict[str, tuple[int, int, int, dict[str, int], int, int]] = {
    "tiny": (1, 1, 1, {"create": 1, "twist": 1}, 1, 1),
    "ends": (1, 1, 1, {"create": 1, "close": 1}, 1, 1),
    "late": (1, 1, 1, {"create": 1, "tell": 1, "hear": 1}, 0, 0),
    "returns": (1, 1, 1, {"create": 1, "lapse": 1, "register": 1}, 0, 0),
    "starts": (1, 1, 1, {"create": 1, "restart": 1}, 0, 0),
    "moves": (2, 1, 2, {"create": 1, "move": 1}, 0, 0),
}
"""Nodes, sessions, copies, budget, pins and touches: as in specs/bind/slices.py, small enough for a cell each."""
DRIVER = "slices"
ORACLE = "specs/pinfold.tla"


def modules() -> Any:
    """The programs of specs/bind, which are no package."""
    if str(BIND) not in sys.path:
        sys.path.insert(0, str(BIND))
    import equality
    import slices
    import tlc
    import values

    return equality, slices, tlc, values


def slice_of(name: str) -> Any:
    _, slices, _, _ = modules()
    nodes, sessions, copies, budget, pins, touch = SLICES[name]
    return slices.Slice(name, "of the kill matrix", nodes, sessions, copies, budget, pins, touch)


def points() -> list[str]:
    """The slices; none where Java or TLC is missing, as `make spec` says in a sentence."""
    _, _, tlc, _ = modules()
    try:
        tlc.java()
        tlc.jar()
    except tlc.Missing:
        return []
    return list(SLICES)


@cache
def folder_of(name: str) -> Path:
    """Where TLC's states of a slice are kept, by what they depend on when it is first asked: a run goes by one model."""
    one = slice_of(name)
    text = one.module() + one.settings() + "".join(path.read_text() for path in sorted((ROOT / "specs").glob("pinfold*.tla")))
    return CACHE / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def warm() -> None:
    """Let TLC enumerate each slice once."""
    equality, _, tlc, _ = modules()
    for name in points():
        folder, one = folder_of(name), slice_of(name)
        if not (folder / "states.dump").exists():
            settings = one.settings("INVARIANT Safe", equality.ACTIONS)
            tlc.lay_out(folder, **{f"{name}__tla": one.module(), f"{name}__cfg": settings})
            tlc.run(folder, name, "-dump", "part")
            (folder / "part.dump").rename(folder / "states.dump")


def run(point: str, mutant: Mutant) -> Death | None:
    equality, _, tlc, values = modules()
    states = values.States()
    try:
        found = equality.enumerate_machines(slice_of(point), states)
    except Exception as error:  # noqa: BLE001  a machine that breaks under a step of the model has failed the check
        oracle = oracle_of(error) if isinstance(error, InvariantViolation) else CRASH
        return Death("TLC", DRIVER, point, oracle, line_of(error))
    reached = {equality.of_texts(states, text): None for text in tlc.dumped(folder_of(point) / "states.dump")}
    differences = [*found.differences, *equality.told(states, "state", found.states, reached)]
    if not differences:
        return None
    return Death("TLC", DRIVER, point, ORACLE, " ".join(differences[0].split())[:160])
