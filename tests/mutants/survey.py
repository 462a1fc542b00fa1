"""The null mutant: every point of every check under no fault at all, with how long it takes and which code it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

from tests.mutants.checks import Check
from tests.mutants.forked import Done, Job, Say, run_all
from tests.mutants.reach import names, watched
from tests.mutants.record import NOTHING

CHUNK = 12
CHUNK_CPU_S = 600.0


@define
class Point:
    """`runs`: numbers of the code that it runs, empty where that was not watched."""

    seconds: float
    runs: frozenset[int] = frozenset()


@define
class Survey:
    """`points[check][point]`; `codes`: the number of each name. `died`: what was wrong without any fault, which is always bad."""

    points: dict[str, dict[str, Point]] = field(factory=dict)
    codes: dict[str, int] = field(factory=dict)
    died: list[str] = field(factory=list)

    def note(self, check: str, point: str, seconds: float, runs: list[str]) -> None:
        numbers = frozenset([self.codes.setdefault(name, len(self.codes)) for name in runs])
        self.points.setdefault(check, {})[point] = Point(seconds, numbers)

    def numbers(self, names_: set[str]) -> frozenset[int]:
        return frozenset([self.codes[name] for name in names_ if name in self.codes])

    def save(self, path: Path) -> None:
        points = {
            check: {point: [round(one.seconds, 4), sorted(one.runs)] for point, one in found.items()}
            for check, found in self.points.items()
        }
        path.write_text(json.dumps({"codes": self.codes, "points": points, "died": self.died}))

    @classmethod
    def load(cls, path: Path) -> Survey:
        told = json.loads(path.read_text())
        points = {
            check: {point: Point(seconds, frozenset(runs)) for point, (seconds, runs) in found.items()}
            for check, found in told["points"].items()
        }
        return cls(points, told["codes"], told["died"])


def survey(checks: list[Check], parallel: int, tell: Callable[[str], None], known: Survey, path: Path) -> Survey:
    """Run what `known` has not, add it, and keep it in `path`."""
    jobs = list(_jobs(checks, known))
    for at, done in enumerate(run_all(iter(jobs), parallel), 1):
        _hear(known, done)
        if at % 5 == 0 or at == len(jobs):
            tell(f"without a fault: {at} of {len(jobs)} pieces")
            known.save(path)
    return known


def _jobs(checks: list[Check], known: Survey) -> Iterator[Job]:
    for check in checks:
        missing = [point for point in check.points if point not in known.points.get(check.name, {})]
        for at in range(0, len(missing), CHUNK):
            yield Job((check.name, at), _work(check, missing[at : at + CHUNK]), CHUNK_CPU_S)


def _work(check: Check, points: list[str]) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        for point in points:
            begun = time.process_time()
            with watched() as seen:
                death = check.run(point, NOTHING)
            said: dict[str, Any] = {"point": point, "seconds": time.process_time() - begun, "runs": names(seen)}
            say({**said, "died": death.said} if death is not None else said)

    return work


def _hear(known: Survey, done: Done) -> None:
    check, at = done.key
    for said in done.said:
        if "point" not in said:
            known.died.append(f"{check}: {said['error']}")
            continue
        known.note(check, said["point"], said["seconds"], said["runs"])
        if "died" in said:
            known.died.append(f"{check} {said['point']}: {said['died']}")
    if done.ended:
        known.died.append(f"{check}: piece {at} ended by {done.ended}")
