"""The fast tier: each mutant under its two quickest known killers, at the very point where they saw it; and each such point
without a fault, where it must pass."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, evolve, field

from tests.mutants import report
from tests.mutants.blind import blind
from tests.mutants.checks import Check
from tests.mutants.deaths import ROOT, Death, independent
from tests.mutants.forked import Job, Say, run_all
from tests.mutants.matrix import Cell, Verdict
from tests.mutants.record import NOTHING, Mutant

KNOWN = ROOT / "tests" / "mutants" / "killers.json"
CPU_S = 120.0
TIMES = 10.0
"""A cell has processor time for `CPU_S` seconds, or so many times what its kill took when it was found: machines differ."""
CHUNK = 16

Killers = dict[str, list[Death]]


def known() -> Killers:
    """The two quickest killers of each mutant, as the last whole run of the deep tier found them."""
    told = json.loads(KNOWN.read_text())
    return {name: [Death(**death) for death in deaths] for name, deaths in told.items()}


def write(verdict: Verdict, names: Iterable[str]) -> None:
    """Keep the pairs that were found, and of those from before the ones of mutants (`names`) that there still are."""
    pairs = {**known(), **{name: list(pair) for name, pair in verdict.pairs.items()}}
    told = {name: [death.as_dict() for death in pairs[name]] for name in sorted(set(names) & set(pairs))}
    KNOWN.write_text(json.dumps(told, indent=1) + "\n")


def files(chosen: list[Mutant]) -> list[str]:
    """The test files that the killers of these need."""
    points = [death.point for mutant in chosen for death in known().get(mutant.name, [])]
    return sorted({point.partition("::")[0] for point in points if "::" in point}) or ["tests/test_table.py"]


@define
class Tried:
    """`wrong`: one line for each thing that must not be. `died`: mutant -> how it did."""

    wrong: list[str] = field(factory=list)
    died: Killers = field(factory=dict)

    def table(self) -> report.Table:
        """As cells of the matrix."""
        return {
            (name, death.check): Cell(name, death.check, [death], 1, 1, "", death.seconds)
            for name, deaths in self.died.items()
            for death in deaths
        }


def run(
    chosen: list[Mutant], checks: dict[str, Check], parallel: int, as_json: bool, tell: Callable[[str], None], commit: str = ""
) -> int:
    """The exit code. With the name of a commit, `specs/mutants.md` is written."""
    begun = time.monotonic()
    tried = attempt(chosen, checks, known(), parallel, tell)
    seconds = round(time.monotonic() - begun, 1)
    line = f"{len(chosen)} mutants, each under its two quickest killers: {len(tried.wrong)} wrong, {seconds} s"
    table = tried.table()
    if commit:
        report.write(report.pairs_page(chosen, table, line, commit))
    if as_json:
        cells = [cell.as_dict() for cell in table.values()]
        told = {"ok": not tried.wrong, "mutants": len(chosen), "seconds": seconds, "wrong": tried.wrong, "cells": cells}
        print(json.dumps(told, indent=1))
    else:
        print("\n".join([*report.matrix(chosen, checks.values(), table), *tried.wrong, line]))
    return 1 if tried.wrong else 0


def attempt(
    chosen: list[Mutant], checks: dict[str, Check], killers: Killers, parallel: int, tell: Callable[[str], None]
) -> Tried:
    """Each mutant under its known killers, and these without a fault."""
    tried = Tried()
    wrong, died = tried.wrong, tried.died
    used = {death.check for mutant in chosen for death in killers.get(mutant.name, [])}
    absent = sorted(name for name in used & set(checks) if not checks[name].points and checks[name].only is None)
    for name in sorted((used & set(checks)) - set(absent)):
        checks[name].warm()
    alone = {name for name, deaths in killers.items() if any(death.check in absent for death in deaths)}
    killers = {name: [death for death in deaths if death.check not in absent] for name, deaths in killers.items()}
    if absent:
        names = sorted(alone & {mutant.name for mutant in chosen})
        tell(f"{', '.join(absent)}: not here, so that these die by one check at most: {', '.join(names)}")
    jobs = [*_with_faults(chosen, checks, killers, wrong), *_without(chosen, checks, killers)]
    for at, done in enumerate(run_all(iter(jobs), parallel), 1):
        name = done.key
        for said in done.said:
            if "error" in said:
                wrong.append(f"{name}: {said['error']}")
            elif name == NOTHING.name:
                wrong.append(f"{said['check']} fails without a fault: {said['point']}: {said['said']}")
            else:
                died.setdefault(name, []).append(Death(**said))
        if done.ended:
            wrong.append(f"{name}: {done.ended}")
        if at % 50 == 0:
            tell(f"{at} of {len(jobs)}")
    for mutant in chosen:
        mine = died.get(mutant.name, [])
        enough = mine if mutant.name in alone else [one for one in mine if any(independent(one, other) for other in mine)]
        if killers.get(mutant.name) and not enough:
            killing = {(one.check, one.point) for one in mine}
            lives = [death for death in killers[mutant.name] if (death.check, death.point) not in killing]
            where = "; ".join(f"{death.check} {death.point}" for death in lives) or "the same oracle twice"
            wrong.append(f"{mutant.name} does not die by two independent checks: {where}")
    return tried


def _with_faults(chosen: list[Mutant], checks: dict[str, Check], killers: Killers, wrong: list[str]) -> Iterator[Job]:
    for mutant in chosen:
        if mutant.name not in killers:
            wrong.append(f"{mutant.name} has no two killers that are known: run the deep tier")
        for death in killers.get(mutant.name, []):
            if death.check not in checks:
                wrong.append(f"{mutant.name}: there is no check {death.check}")
            else:
                yield Job(mutant.name, _kill(mutant, checks[death.check], death), max(CPU_S, TIMES * death.seconds))


def _kill(mutant: Mutant, check: Check, known: Death) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        begun = time.process_time()
        with mutant.plant(), blind(known.blind):
            death = check.run(known.point, mutant)
            if death is not None:
                say(evolve(death, seconds=round(time.process_time() - begun, 3)).as_dict())

    return work


def _without(chosen: list[Mutant], checks: dict[str, Check], killers: Killers) -> Iterator[Job]:
    """The points of one check in pieces, each in one process."""
    points: dict[str, dict[str, Any]] = {}
    for mutant in chosen:
        for death in killers.get(mutant.name, []):
            if death.check in checks:
                points.setdefault(death.check, {})[death.point] = mutant
    for name, found in points.items():
        listed = list(found.items())
        for at in range(0, len(listed), CHUNK):
            yield Job(NOTHING.name, _pass(checks[name], listed[at : at + CHUNK]), CPU_S * CHUNK)


def _pass(check: Check, points: list[tuple[str, Mutant]]) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        for point, mutant in points:
            death = check.run(point, mutant)
            if death is not None:
                say(death.as_dict())

    return work
