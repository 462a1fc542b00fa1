"""The cells: each mutant under each check, in a process of its own; and the verdict on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from attrs import asdict, define, evolve, field

from tests.mutants.blind import blind
from tests.mutants.checks import Check
from tests.mutants.deaths import SHARED, Death, pair_of
from tests.mutants.forked import Done, Job, Say
from tests.mutants.reach import replaced_by
from tests.mutants.record import Mutant
from tests.mutants.survey import Survey

SECOND_LOOK = 12
"""So many more points at most, to find another oracle than one that all checks share."""
AGAIN = 4.0
"""A cell has so many times what its known killer took, if that is more than the limit."""


@define
class Cell:
    """`of`: the points that can see the fault; `tried` of them were run. `ended`: why not more, "" if nothing was in the way."""

    mutant: str
    check: str
    deaths: list[Death] = field(factory=list)
    tried: int = 0
    of: int = 0
    ended: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Cell:
        return cls(**{**told, "deaths": [Death(**death) for death in told["deaths"]]})

    @property
    def word(self) -> str:
        """What the matrix shows: processor seconds until death; `-`: can't see it; `~`: alive as far as the limit went."""
        if self.deaths:
            return f"{self.deaths[0].seconds:.1f}"
        if not self.of:
            return "-"
        return "~" if self.ended else "alive"


def points_of(mutant: Mutant, check: Check, found: Survey, names: set[str], known: list[Death]) -> list[str]:
    """The points that run code which the mutant replaces (`names`): known killers and its own first, then the quickest."""
    listed = check.of(mutant)
    surveyed = found.points.get(check.name, {})
    if not check.traced or not surveyed:
        mine = [death.point for death in known if death.point in listed]
        return list(dict.fromkeys([*mine, *listed]))
    first = [point for point in (*(death.point for death in known), *check.first(mutant)) if point in surveyed]
    numbers = found.numbers(names)
    rest = [point for point in listed if point in surveyed and (not names or surveyed[point].runs & numbers)]
    return list(dict.fromkeys([*first, *sorted(rest, key=lambda point: surveyed[point].seconds)]))


def jobs(
    mutants: list[Mutant], checks: list[Check], found: Survey, have: Callable[[str, str], bool], limit_s: float,
    blank: Callable[[Cell], None], killers: dict[str, list[Death]],
) -> Iterator[Job]:  # fmt: skip
    """The cells that are not there yet; those with nothing to try are `blank`. A known killer has the time to kill again."""
    for mutant in mutants:
        missing = [check for check in checks if not have(mutant.name, check.name)]
        missing.sort(key=lambda check: not list(check.first(mutant)))  # those that have something made for it go first
        names = replaced_by(mutant) if missing else set()
        for check in missing:
            if have(mutant.name, check.name):
                continue
            known = [death for death in killers.get(mutant.name, []) if death.check == check.name]
            points = points_of(mutant, check, found, names, known)
            if points:
                cpu_s = max([check.seconds or limit_s, *(death.seconds * AGAIN for death in known)])
                yield Job((mutant.name, check.name, len(points)), work(mutant, check, points, cpu_s), cpu_s * 1.5 + 10)
            else:
                blank(Cell(mutant.name, check.name))


def work(mutant: Mutant, check: Check, points: list[str], cpu_s: float) -> Callable[[Say], None]:
    """In the child: from point to point until it is dead by an oracle of the check's own, or time is up. The fault is planted
    anew at each: one that remembers what it has seen must not be found out by what it remembers of another point."""

    def planted(point: str) -> Death | None:
        with mutant.plant():
            return check.run(point, mutant)

    def run(say: Say) -> None:
        begun = time.process_time()
        more = len(points)
        for at, point in enumerate(points, 1):
            death = planted(point)
            spent = time.process_time() - begun
            say({"tried": at})
            if death is not None:
                say(evolve(death, seconds=round(spent, 3)).as_dict())
                if death.oracle not in SHARED:
                    return
                with blind():
                    seen = planted(point)
                if seen is not None and seen.oracle not in SHARED:
                    say(evolve(seen, seconds=round(time.process_time() - begun, 3), blind=True).as_dict())
                    return
                more = min(more, SECOND_LOOK)
            more -= 1
            if more <= 0:
                return
            if spent > cpu_s:
                say({"ended": f"{cpu_s:.0f} s"})
                return

    return run


def cell_of(done: Done) -> Cell:
    """What a child has said of its cell."""
    mutant, check, of = done.key
    cell = Cell(mutant, check, of=of, ended=done.ended, seconds=round(done.cpu_s, 3))
    for said in done.said:
        if "tried" in said:
            cell.tried = said["tried"]
        elif "ended" in said:
            cell.ended = said["ended"]
        elif "error" in said:
            cell.ended = said["error"]
        else:
            cell.deaths.append(Death(**said))
    return cell


# ---- the verdict ---------------------------------------------------------------------------------------------


@define
class Verdict:
    """What is wrong: each list must be empty."""

    alive: list[str] = field(factory=list)
    """Killed by nobody."""
    lonely: list[str] = field(factory=list)
    """Killed, and not by two that are independent."""
    idle: list[str] = field(factory=list)
    """Checks that kill nothing."""
    null: list[str] = field(factory=list)
    """What fails without a fault."""
    pairs: dict[str, tuple[Death, Death]] = field(factory=dict)

    @property
    def well(self) -> bool:
        return not (self.alive or self.lonely or self.idle or self.null)


def judge(mutants: list[Mutant], checks: list[str], cells: list[Cell], null: list[str]) -> Verdict:
    verdict = Verdict(null=null)
    deaths: dict[str, list[Death]] = {}
    for cell in cells:
        deaths.setdefault(cell.mutant, []).extend(cell.deaths)
    for mutant in mutants:
        mine = deaths.get(mutant.name, [])
        pair = pair_of(mine)
        if pair is not None:
            verdict.pairs[mutant.name] = pair
        elif mine:
            verdict.lonely.append(mutant.name)
        else:
            verdict.alive.append(mutant.name)
    killing = {cell.check for cell in cells if cell.deaths}
    verdict.idle = [check for check in checks if check not in killing]
    return verdict
