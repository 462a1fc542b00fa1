"""The TLA+ model as a check: what the machines reach in a slice, planted or not, against what TLC reaches in the model."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from tests.mutants.deaths import ROOT, Death, line_of, oracle_of
from tests.mutants.record import Mutant

BIND = ROOT / "specs" / "bind"
CACHE = ROOT / "build" / "mutants" / "tlc"
SLICES = ("tiny", "repair", "lapse", "write")
"""From small to large."""
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


def points() -> list[str]:
    """The slices; none where Java or TLC is missing, as `make spec` says in a sentence."""
    _, _, tlc, _ = modules()
    try:
        tlc.java()
        tlc.jar()
    except tlc.Missing:
        return []
    return list(SLICES)


def folder_of(name: str) -> Path:
    """Where TLC's states of a slice are kept, by what they depend on."""
    _, slices, _, _ = modules()
    one = slices.SLICES[name]
    text = one.module() + "".join(path.read_text() for path in sorted((ROOT / "specs").glob("pinfold*.tla")))
    return CACHE / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def warm() -> None:
    """Let TLC enumerate each slice once."""
    equality, slices, tlc, _ = modules()
    for name in points():
        folder, one = folder_of(name), slices.SLICES[name]
        if not (folder / "states.dump").exists():
            settings = one.settings("INVARIANT Safe", equality.ACTIONS)
            tlc.lay_out(folder, **{f"{name}__tla": one.module(), f"{name}__cfg": settings})
            tlc.run(folder, name, "-dump", "part")
            (folder / "part.dump").rename(folder / "states.dump")


def run(point: str, mutant: Mutant) -> Death | None:
    equality, slices, tlc, values = modules()
    states = values.States()
    try:
        found = equality.enumerate_machines(slices.SLICES[point], states)
    except Exception as error:  # noqa: BLE001  a machine that breaks under a step of the model has failed the check
        return Death("TLC", DRIVER, point, oracle_of(error), line_of(error))
    reached = {equality.of_texts(states, text): None for text in tlc.dumped(folder_of(point) / "states.dump")}
    differences = [*found.differences, *equality.told(states, "state", found.states, reached)]
    if not differences:
        return None
    return Death("TLC", DRIVER, point, ORACLE, " ".join(differences[0].split())[:160])
