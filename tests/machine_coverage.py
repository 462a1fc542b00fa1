"""What the machines go through, in the explorer and in tests: `specs/coverage.md`, and what its test compares.

    pinfold check --all --json > explored.json
    python -m tests.machine_coverage explored.json > coverage.md && mv coverage.md specs/coverage.md

Without a file the column of the explorer stays as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from pinfold.chaos.coverage import all_events, all_guards
from pinfold.core import table
from pinfold.core.errors import REFUSALS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "specs" / "coverage.md"

AREAS: Final[dict[str, tuple[str, ...]]] = {
    "shapes": ("test_guard_walk",),
    "transcripts": ("test_scenarios",),
    "directory": ("test_rows", "test_limits", "test_queries", "test_creating", "test_reconcile", "test_found_by_model"),
    "node": ("test_node", "test_node_links", "test_node_reads", "test_guards", "test_copy_jobs"),
    "client": ("test_client", "test_client_get", "test_client_put", "test_client_limits", "test_client_session"),
}
"""Areas of tests that together reach everything that can be reached, in little time. Other tests reach it too."""

ARGUED: Final[dict[str, str]] = {
    "*/RETURN/*: is_absent": "an inventory lets RETURN happen to absent copies alone; the guard says what the row is about",
    "*/DUE/RETIRING: no_pins_on_it": "housekeeping passes over a pinned copy, and looks again when its last pin ends",
    "*/DUE/RETIRING: grace_over": "housekeeping comes to a copy only when its `due` has come",
    "*/CREATE: has_room": "`Create` looks for a place first, and answers NO_SPACE under the same row and guard",
    "*/CREATE: nothing_readable": "`Create` on what can be read answers EXISTS before it comes to the row",
    "*/CREATE: not_being_brought": "`Create` on what a move is bringing answers JOINED before it comes to the row",
    "WRITING/*/INCOMING: is_target": "in WRITING the only INCOMING copy is the writer's: `create` frees any other",
    "MIGRATING_*/*/INCOMING: is_target": "`find` gives an INCOMING copy that is not the target to the rows of a replica",
    "*/ADOPT: can_take_over": "`begin` asks the same before it chooses ADOPT instead of MOVE",
    "REMOTE/*: authority_present": "the authoritative copy of REMOTE lies in a store, and a store is never absent",
    "REMOTE/REF: some_copy_readable": "the copy in the store can be read, as above",
    "REMOTE/DROP_REPLICA: not_last_readable": "the copy in the store can be read, as above",
    "REMOTE/DUE/RETIRING: not_the_last": "the copy in the store can be read, as above",
    "EVICTED/DELETE: list_empty": "EVICTED says that the list is empty (MOVE-1 holds it to that)",
    "EVICTED/DELETE: unreferenced": "nothing is evicted under a REF, and with the last copy REFs are lost, which count no more",
    "WrongShard": "the map of shards is the callers' (`core/sharding.py`); a client takes the word, no machine says it",
}
"""What nobody reaches, by pattern, and why it can't be reached. What is argued and reached all the same fails the test."""

KINDS: Final = ("rows", "guards", "reasons", "events")
HEADS: Final = {
    "rows": ("Rows of the table", "row", "taken"),
    "guards": ("Guards that say no", "row: guard", "refused"),
    "reasons": ("Reasons of refusals, by the machine that gives them", "reason", "given"),
    "events": ("What machines take", "machine: event", "events"),
}


def items(kind: str) -> list[str]:
    """All there is of one kind, in a stated order."""
    if kind == "rows":
        return [row.name for row in table.ROWS]
    if kind == "guards":
        return all_guards()
    return list(REFUSALS) if kind == "reasons" else all_events()


def argument(item: str) -> str:
    """Why it can't be reached, or ""."""
    return next((why for pattern, why in ARGUED.items() if fnmatchcase(item, pattern)), "")


def reached_by_tests() -> dict[str, dict[str, list[str]]]:
    """Kind -> item -> areas; of a reason: the machines that give it, each with areas. Runs the tests of all areas; one that fails
    is told where it fails."""
    files = [f"tests/{name}.py" for names in AREAS.values() for name in names]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "seen.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.coverage_plugin", "-p", "no:cacheprovider"]
        command += ["-k", "not seeded_fault and not writes_a_story", "--machine-coverage", str(target), *files]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 1), f"the tests can't be run:\n{ended.stdout[-3_000:]}{ended.stderr[-3_000:]}"
        seen = [json.loads(line) for line in target.read_text().splitlines()]
    area_of = {f"tests/{name}.py": area for area, names in AREAS.items() for name in names}
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    givers: dict[tuple[str, str], list[str]] = {}
    for area in AREAS:
        mine = [one for one in seen if area_of[one["file"]] == area]
        for kind in KINDS:
            for item in sorted({item for one in mine for item in one[HEADS[kind][2]]}):
                if kind == "reasons":
                    machine, _, reason = item.partition(": ")
                    givers.setdefault((reason, machine), []).append(area)
                else:
                    found[kind].setdefault(item, []).append(area)
    for (reason, machine), areas in sorted(givers.items()):
        found["reasons"].setdefault(reason, []).append(f"{machine} ({', '.join(areas)})")
    return found


def reached_by_explorer(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Kind -> item -> in how many worlds, and the smallest of them."""
    names = {"rows": "rows_taken", "guards": "guards_refused", "reasons": "reasons_given", "events": "events_taken"}
    worlds = sorted(document["worlds"], key=lambda world: world["states"])
    found: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        counts: Counter[str] = Counter()
        for world in worlds:
            told = {item.partition(": ")[2] if kind == "reasons" else item for item in world[names[kind]]}
            counts.update(told)
            for item in told:
                found[kind].setdefault(item, world["world"])
        found[kind] = {item: f"{counts[item]}: {first}" for item, first in found[kind].items()}
    return found


# ---- the page ------------------------------------------------------------------------------------------------


def read_page() -> dict[str, dict[str, tuple[str, str]]]:
    """Kind -> item -> what the page says of explorer and tests (or the argument)."""
    found: dict[str, dict[str, tuple[str, str]]] = {kind: {} for kind in KINDS}
    kind = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.is_file() else ():
        if line.startswith("## "):
            kind = next((one for one in KINDS if line == f"## {HEADS[one][0]}"), "")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if kind and line.startswith("| `") and len(cells) == 3:
            found[kind][cells[0].strip("`")] = (cells[1], cells[2])
    return found


def page(explored: dict[str, dict[str, str]], tested: dict[str, dict[str, list[str]]]) -> str:
    lines = [
        "# What is reached, and by whom",
        "",
        "Made by `python -m tests.machine_coverage` (how: see there). `tests/test_machine_coverage.py` runs the tests that are",
        "named here and fails if a row, guard, reason or event is reached by none and not argued, or is argued and reached.",
        "",
        "*explorer*: in how many fast worlds, and the smallest of them, as of the last `pinfold check --all --json` (complete to",
        "their budgets). *tests*: areas of `tests/machine_coverage.py`. *can not be*: why nobody can reach it.",
        "A refusal counts when the door gives it: what `Explain` asks aloud is not among them.",
        "",
        "| | all | explorer | tests | argued |",
        "|---|---|---|---|---|",
    ]
    rows: list[str] = []
    for kind in KINDS:
        title, head, _ = HEADS[kind]
        names = items(kind)
        by_explorer = [item for item in names if explored[kind].get(item)]
        by_tests = [item for item in names if tested[kind].get(item)]
        argued = [item for item in names if item not in by_tests and argument(item)]
        lines.append(f"| {title.lower()} | {len(names)} | {len(by_explorer)} | {len(by_tests)} | {len(argued)} |")
        rows += ["", f"## {title}", "", f"| {head} | explorer | tests |", "|---|---|---|"]
        for item in names:
            areas = ", ".join(tested[kind].get(item, ()))
            rows.append(f"| `{item}` | {explored[kind].get(item, '-')} | {areas or f'*can not be*: {argument(item)}'} |")
    return "\n".join([*lines, *rows, ""])


def main(arguments: list[str]) -> None:
    if arguments:
        explored = reached_by_explorer(json.loads(Path(arguments[0]).read_text()))
    else:
        told = read_page()
        explored = {kind: {item: said for item, (said, _) in told[kind].items() if said != "-"} for kind in KINDS}
    sys.stdout.write(page(explored, reached_by_tests()))


if __name__ == "__main__":
    main(sys.argv[1:])
