"""The checks of the kill matrix. Each has points, tried one after the other until the mutant is dead: tests, worlds, seeds,
contracts, slices. A point is run in a process of its own that has the fault already."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define

from tests.mutants import bound, explored, played, proved
from tests.mutants.deaths import Death
from tests.mutants.record import Mutant
from tests.mutants.tests_run import TestPoints

Judge = Callable[[str, Mutant], Death | None]


@define
class Check:
    """`driver`: what brings the inputs. `points`: all of them, in the order in which they are tried. `first`: those that are
    tried first for a mutant. `only`: those that make sense for it at all. `run` says how it died, None if it did not."""

    name: str
    driver: str
    about: str
    points: list[str]
    run: Judge
    first: Callable[[Mutant], Iterable[str]] = lambda mutant: ()
    only: Callable[[Mutant], Iterable[str]] | None = None
    warm: Callable[[], None] = lambda: None
    traced: bool = True
    seconds: float = 0.0
    """Processor seconds for a cell; 0 for the matrix's own limit."""

    def of(self, mutant: Mutant) -> list[str]:
        """The points for one mutant, in order."""
        if self.only is not None:
            return list(self.only(mutant))
        known = dict.fromkeys(self.points)
        return list(dict.fromkeys([*[point for point in self.first(mutant) if point in known], *self.points]))


def checks(tests: TestPoints) -> dict[str, Check]:
    """All of them. `tests`: what pytest has collected."""

    def tested(name: str, driver: str, about: str) -> Check:
        return Check(name, driver, about, tests.of_check(name), tests.judge(name, driver), tests.first(name))

    listed = [
        tested("table", "product", "each cell of the table, against a second machine made from it"),
        tested("transcripts", "stories", "tests/scenarios, told word for word"),
        tested("Hypothesis", "chance", "node, client and cluster models, random walks of the directory"),
        Check("explorer", "every order", "worlds of specs/worlds, to a bound", explored.points(), explored.run, explored.first),
        Check(
            "CrossHair", "symbols", "the contracts of the rows that a mutant changes", [], proved.run, proved.contracts_of,
            proved.contracts_of, warm=proved.warm, traced=False, seconds=60,
        ),
        Check("TLC", "slices", "the machines' states against those of the model", bound.points(), bound.run, warm=bound.warm),
        Check("simulator", "seeds", "whole clusters on virtual time, from seeds", played.points(), played.run, played.first),
        tested("conformance", "kits", "the public kits, over every store and tier"),
        tested("cases", "casebook", "tests/cases: 72 public bugs, retold"),
        tested("unit", "examples", "the unit tests"),
    ]  # fmt: skip
    return {check.name: check for check in listed}
