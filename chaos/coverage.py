"""Which rows of the table, and which of their guards' refusals, a run of the explorer has gone through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from ..core import table
from ..core.records import evolve
from ..core.rows import Facts
from ..core.state import Copy, Group
from ..core.table import Guard, Row


@define
class Coverage:
    """`taken`: names of rows whose body ran (for PIN and REF, whose body changes nothing: whose guards all said yes). `refused`:
    `row: guard` of each guard that said no."""

    taken: set[str] = field(factory=set)
    refused: set[str] = field(factory=set)

    def rows_never_taken(self) -> list[str]:
        return [row.name for row in table.ROWS if row.name not in self.taken]

    def guards_never_refused(self) -> list[str]:
        wanted = [f"{row.name}: {guard.name}" for row in table.ROWS for guard in row.guards]
        return [name for name in wanted if name not in self.refused]

    def join(self, other: Coverage) -> None:
        self.taken |= other.taken
        self.refused |= other.refused


@contextmanager
def watched() -> Iterator[Coverage]:
    """Watch the table while the block runs."""
    coverage = Coverage()
    before = dict(table.TABLE)
    made: dict[int, Row] = {}
    for key, row in before.items():
        table.TABLE[key] = made.setdefault(id(row), _watched(coverage, row))
    try:
        yield coverage
    finally:
        table.TABLE.clear()
        table.TABLE.update(before)


def _watched(coverage: Coverage, row: Row) -> Row:
    body = row.body
    last = len(row.guards) - 1

    def noted(g: Group, c: Copy, k: Facts) -> Any:
        coverage.taken.add(row.name)
        return body(g, c, k)

    def asked(at: int, guard: Guard) -> Guard:
        def check(g: Group, c: Copy, k: Facts) -> bool:
            said = guard.check(g, c, k)
            if not said:
                coverage.refused.add(f"{row.name}: {guard.name}")
            elif at == last and row.on in (table.On.PIN, table.On.REF, table.On.DELETE):
                coverage.taken.add(row.name)
            return said

        return evolve(guard, check=check)

    return evolve(row, body=noted, guards=tuple(asked(at, guard) for at, guard in enumerate(row.guards)))
