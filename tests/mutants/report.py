"""What is told of a run: lines for people, an object for programs, and `specs/mutants.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import define

from tests.mutants.checks import Check
from tests.mutants.deaths import ROOT
from tests.mutants.matrix import Cell, Verdict
from tests.mutants.record import FAMILIES, Mutant
from tests.mutants.survey import Survey

FILE = ROOT / "specs" / "mutants.md"
MARK = "<!-- what follows is written by `python -m tests.mutants --deep --write` -->"


Table = dict[tuple[str, str], Cell]
"""(mutant, check) -> what became of it."""


@define
class Told:
    """One run."""

    mutants: list[Mutant]
    checks: list[Check]
    cells: list[Cell]
    verdict: Verdict
    survey: Survey
    seconds: float
    commit: str
    limit_s: float

    @property
    def table(self) -> Table:
        return {(cell.mutant, cell.check): cell for cell in self.cells}


def wrong(verdict: Verdict) -> list[str]:
    """One line for each thing that must not be."""
    return [
        *[f"ALIVE   {name}: no check kills it" for name in verdict.alive],
        *[f"LONELY  {name}: no two independent checks kill it" for name in verdict.lonely],
        *[f"IDLE    {name}: the check kills nothing" for name in verdict.idle],
        *[f"NULL    {line}" for line in verdict.null],
    ]


def summary(told: Told) -> str:
    killed = len(told.verdict.pairs)
    deaths = sum(1 for cell in told.cells if cell.deaths)
    spent = sum(cell.seconds for cell in told.cells)
    points = sum(len(found) for found in told.survey.points.values())
    return (
        f"{killed} of {len(told.mutants)} mutants die by two independent checks; {len(told.checks)} checks, "
        f"{len(told.cells)} cells, {deaths} of them kill; at most {told.limit_s:.0f} processor seconds a cell, "
        f"{spent:.0f} in all; "
        f"{points} points run without a fault, {len(told.verdict.null)} of them fail"
    )


def lines(told: Told) -> list[str]:
    return [*matrix(told.mutants, told.checks, told.table), *wrong(told.verdict), summary(told)]


def matrix(mutants: Sequence[Mutant], checks: Iterable[Check], table: Table) -> Iterator[str]:
    """Rows are mutants, columns checks."""
    width = max((len(one.name) for one in mutants), default=10)
    names = [check.name for check in checks]
    yield " ".join([" " * width, *(f"{name:>11}" for name in names)])
    for one in mutants:
        words = [table[one.name, name].word if (one.name, name) in table else "" for name in names]
        yield " ".join([f"{one.name:{width}}", *(f"{word:>11}" for word in words)])


def document(told: Told) -> dict[str, Any]:
    verdict = told.verdict
    return {
        "ok": verdict.well, "summary": summary(told), "commit": told.commit, "alive": verdict.alive, "lonely": verdict.lonely,
        "idle": verdict.idle, "null": verdict.null, "cells": [cell.as_dict() for cell in told.cells],
        "pairs": {name: [death.as_dict() for death in pair] for name, pair in verdict.pairs.items()},
    }  # fmt: skip


# ---- the page ------------------------------------------------------------------------------------------------


def write(lines_: Iterable[str]) -> None:
    """The generated half of `specs/mutants.md`; what people wrote above the mark stays."""
    head = FILE.read_text(encoding="utf-8").partition(MARK)[0]
    FILE.write_text(head + MARK + "\n\n" + "\n".join(lines_) + "\n", encoding="utf-8")


def pairs_page(mutants: Sequence[Mutant], table: Table, summary_: str, commit: str) -> Iterator[str]:
    """After a fast run: each mutant with the two checks that killed it."""
    yield "## The two quickest killers of each"
    yield ""
    yield f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}, Python and tools of `make setup`. {summary_}."
    yield "Seconds are of a processor; what judged is in brackets. (`make mutants-full` puts the whole matrix here.)"
    for family in FAMILIES:
        mine = [one for one in mutants if one.family == family]
        if mine:
            yield ""
            yield f"### {family}"
            yield ""
            yield "| mutant | breaks | one | and another |"
            yield "|---|---|---|---|"
            for one in mine:
                cells = [cell for (name, _), cell in table.items() if name == one.name]
                told = [f"{death.check} {death.seconds:.1f} ({death.oracle})" for cell in cells for death in cell.deaths]
                yield f"| {one.name}: {one.what} | {one.breaks} | {' | '.join([*told[:2], '', ''][:2])} |"


def page(told: Told) -> Iterator[str]:
    names = [check.name for check in told.checks]
    yield "## The matrix"
    yield ""
    yield f"{datetime.now(UTC):%Y-%m-%d}, commit {told.commit}, Python and tools of `make setup`. {summary(told)}."
    yield ""
    for line in wrong(told.verdict):
        yield f"    {line}"
    yield ""
    yield "Seconds are of a processor, until the first kill. `-`: the check runs no code that the fault changes. `alive`: all"
    yield "points that run it were tried. `~`: as many as the limit of a cell allows."
    table = told.table
    for family in FAMILIES:
        mine = [one for one in told.mutants if one.family == family]
        if mine:
            yield ""
            yield f"### {family}"
            yield ""
            yield f"| mutant | breaks | {' | '.join(names)} |"
            yield "|" + "---|" * (len(names) + 2)
            for one in mine:
                words = [table[one.name, name].word if (one.name, name) in table else "" for name in names]
                yield f"| {one.name}: {one.what} | {one.breaks} | {' | '.join(words)} |"
    yield ""
    yield "| check | kills | alone | of cells that can see the fault |"
    yield "|---|---|---|---|"
    for name in names:
        mine_ = [cell for cell in told.cells if cell.check == name]
        kills = [cell for cell in mine_ if cell.deaths]
        others = {cell.mutant for cell in told.cells if cell.check != name and cell.deaths}
        alone = sum(1 for cell in kills if cell.mutant not in others)
        yield f"| {name} | {len(kills)} | {alone} | {sum(1 for cell in mine_ if cell.of)} |"
