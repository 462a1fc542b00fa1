"""Who looks for each invariant, and what has been seen to break it: the second table of `specs/invariants.md`, and what its test
compares.

    python -m tests.invariant_page          writes the table anew
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pinfold.core.invariants import INVARIANTS
from tests.mutants.registry import mutants

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "specs" / "invariants.md"
KILLERS = ROOT / "tests" / "mutants" / "killers.json"
BEGIN: Final = "<!-- from here to the end of the table: `python -m tests.invariant_page` -->"
END: Final = "<!-- end of the table -->"

LOOKERS: Final[dict[str, tuple[str, ...]]] = {
    "proofs": ("proofs/properties.py",),
    "explorer": ("chaos/properties.py", "chaos/rest.py", "chaos/explorer.py", "chaos/world.py"),
    "simulator": ("chaos/sim_*.py", "core/audit.py"),
    "histories": ("chaos/history_check.py",),
    "TLA+": ("specs/pinfold.tla", "specs/pinfold_live.tla"),
}
"""Who looks -> the files in which an invariant is looked for under its id."""

ID: Final = re.compile(r"\b([A-Z]+)-?(\d)\b")


def named(text: str) -> set[str]:
    """The ids of invariants in a text; TLA+ writes them without the dash."""
    return {f"{word}-{number}" for word, number in ID.findall(text)} & set(INVARIANTS)


def looked_for(files: tuple[str, ...]) -> set[str]:
    return {
        invariant
        for pattern in files
        for path in sorted(ROOT.glob(pattern))
        for invariant in named(path.read_text(encoding="utf-8"))
    }


def killed_by() -> dict[str, tuple[int, int, list[str]]]:
    """Invariant -> mutants that break it, those of them with two known killers, and the checks that these are."""
    killers = json.loads(KILLERS.read_text(encoding="utf-8"))
    found: dict[str, tuple[int, int, list[str]]] = {}
    for invariant in INVARIANTS:
        mine = [one.name for one in mutants().values() if invariant in named(one.breaks)]
        dead = [name for name in mine if len(killers.get(name, ())) >= 2]
        checks = {death["check"] for name in dead for death in killers[name]}
        found[invariant] = len(mine), len(dead), sorted(checks, key=str.lower)
    return found


def table() -> Iterator[str]:
    machines = {invariant for invariant, listed in INVARIANTS.items() if listed.checks}
    lookers = {"machines": machines} | {who: looked_for(files) for who, files in LOOKERS.items()}
    yield f"| id | {' | '.join(lookers)} | mutants, killed twice | their two quickest killers are of |"
    yield "|---" * (len(lookers) + 3) + "|"
    for invariant, (made, dead, checks) in killed_by().items():
        marks = ["yes" if invariant in found else "" for found in lookers.values()]
        yield f"| {invariant} | {' | '.join(marks)} | {made}, {dead} | {', '.join(checks)} |"


def page() -> str:
    """`specs/invariants.md` with its table as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([before + BEGIN, "", *table(), "", END]) + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
