"""What `python -m tests.mutants` does: pytest collects the tests, and in its place the matrix is run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from attrs import define

from tests.mutants import fast, report
from tests.mutants.checks import Check, checks
from tests.mutants.deaths import ROOT, Death, pair_of
from tests.mutants.forked import run_all
from tests.mutants.matrix import Cell, cell_of, jobs, judge
from tests.mutants.record import Mutant
from tests.mutants.registry import mutants
from tests.mutants.survey import Survey, survey
from tests.mutants.tests_run import TestPoints

KEPT = ROOT / "build" / "mutants"
OPTIONS = (
    "-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-o", "timeout=0", "-p", "no:xdist", "-m", "not nightly",
    "--rootdir", str(ROOT),
)  # fmt: skip


@define(frozen=True)
class Given:
    """The arguments."""

    deep: bool = False
    fresh: bool = False
    mutant: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    json: bool = False
    jobs: int = 2
    seconds: float = 6.0
    pairs: bool = False
    write: bool = False


class Instead:
    """A plugin: once pytest has collected, `body` is run in the place of the tests."""

    def __init__(self, body: Callable[[TestPoints], int]) -> None:
        self.points = TestPoints()
        self.body = body
        self.code = 2

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        session.config.pluginmanager.register(self.points)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            tell(f"{session.testsfailed} test modules could not be collected")
            return True
        self.points.take(session.items)
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all children
        self.code = self.body(self.points)
        return True


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def program(given: Given) -> int:
    """Run it; the exit code."""
    unknown = [name for name in given.mutant if name not in mutants()]
    if unknown:
        tell(f"no mutant is named {unknown[0]}; these are: {', '.join(mutants())}")
        return 2
    chosen = [mutant for name, mutant in mutants().items() if not given.mutant or name in given.mutant]
    if given.deep:
        instead = Instead(lambda tests: deep(given, chosen, tests))
        files: Iterable[str] = ["tests"]
    else:
        named = commit() if given.write and not given.mutant else ""
        instead = Instead(lambda tests: fast.run(chosen, checks(tests), given.jobs, given.json, tell, named))
        files = fast.files(chosen)
    ended = pytest.main([*OPTIONS, *(str(ROOT / file) for file in files)], plugins=[instead])
    if instead.code == 2:
        tell(f"pytest ended with {ended}")
    return instead.code


# ---- the deep tier -------------------------------------------------------------------------------------------


def deep(given: Given, chosen: list[Mutant], tests: TestPoints) -> int:
    listed = [check for name, check in checks(tests).items() if not given.check or name in given.check]
    KEPT.mkdir(parents=True, exist_ok=True)
    if given.fresh:
        for path in KEPT.glob("*.json*"):
            path.unlink()
    begun = time.monotonic()
    for check in listed:
        check.warm()
    found = _surveyed(listed, given.jobs, not given.pairs)
    cells = _celled(given, chosen, listed, found)
    names = {check.name for check in listed}
    cells = [cell for cell in cells if cell.check in names]
    verdict = judge(chosen, [check.name for check in listed], cells, found.died)
    told = report.Told(chosen, listed, cells, verdict, found, time.monotonic() - begun, commit(), given.seconds)
    if given.write:
        fast.write(verdict, mutants())
        if not (given.mutant or given.check or given.pairs):
            report.write(report.page(told))
    if given.json:
        print(json.dumps(report.document(told), indent=1))
    else:
        print("\n".join(report.lines(told)))
    return 0 if verdict.well else 1


def _surveyed(listed: list[Check], parallel: int, extend: bool) -> Survey:
    path = KEPT / "survey.json"
    known = Survey.load(path) if path.exists() else Survey()
    known.died = [line for line in known.died if not any(line.startswith(check.name) for check in listed)]
    for check in listed:
        kept = known.points.get(check.name, {})
        known.points[check.name] = {point: one for point, one in kept.items() if point in set(check.points)}
    if not extend:
        return known
    return survey([check for check in listed if check.traced], parallel, tell, known, path)


def _celled(given: Given, chosen: list[Mutant], listed: list[Check], found: Survey) -> list[Cell]:
    path = KEPT / "cells.jsonl"
    cells = read(path)
    names = {mutant.name for mutant in chosen}
    wanted = len(names) * len(listed)

    def have(mutant: str, check: str) -> bool:
        if given.pairs and pair_of([death for one in listed for death in deaths(cells.get((mutant, one.name)))]) is not None:
            return True
        return (mutant, check) in cells

    at = sum(1 for mutant, check in cells if mutant in names and check in {one.name for one in listed})
    with path.open("a") as file:

        def keep(cell: Cell) -> None:
            nonlocal at
            cells[cell.mutant, cell.check] = cell
            file.write(json.dumps(cell.as_dict()) + "\n")
            file.flush()
            at += 1
            if cell.of:
                tell(f"[{at}/{wanted}] {cell.mutant} x {cell.check}: {cell.word} {cell.deaths[0].said if cell.deaths else ''}")

        for done in run_all(jobs(chosen, listed, found, have, given.seconds, keep, fast.known()), given.jobs):
            keep(cell_of(done))
    return [cell for (mutant, _), cell in cells.items() if mutant in names]


def deaths(cell: Cell | None) -> list[Death]:
    return cell.deaths if cell is not None else []


def read(path: Path) -> dict[tuple[str, str], Cell]:
    """The cells of earlier runs; a line that was cut short is left out."""
    found: dict[tuple[str, str], Cell] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            cell = Cell.from_dict(json.loads(line))
        except ValueError:
            continue
        found[cell.mutant, cell.check] = cell
    return found


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "none"
