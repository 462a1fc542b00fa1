"""CrossHair as a check: the contracts of the rows that a mutant changes, on the rows as they are then."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pinfold.core import rows
from pinfold.core.table import ROWS, TABLE, Row
from proofs import canaries
from proofs.obligations import Contract, contracts
from proofs.run import analyse
from tests.mutants.deaths import Death
from tests.mutants.record import Mutant

DRIVER = "symbols"
ORACLE = "proofs/properties.py"
SECONDS = 75.0
"""How long a contract of a row that has a fault is looked at; the slowest one that is a known killer is refuted in a tenth."""
WITHOUT_A_FAULT_S = 4.0
"""`make prove` settles the contracts of the shipped rows to their end; here it is only seen that none is refuted at once."""
MANY = 8
"""So many contracts at most, where a function is changed that many rows share: the fault shows in each."""

SHIPPED = {name: value for name, value in vars(rows).items() if inspect.isfunction(value)}
"""The row functions as they were when nothing was planted."""


def row_now(row: Row) -> Row:
    """The row that is in the table now in the place of a shipped one."""
    return TABLE[next(key for key in TABLE if _is_key_of(key, row))]


def _is_key_of(key: tuple[int, int, int], row: Row) -> bool:
    return key[:2] == (row.state, row.on) and (row.role is None or key[2] == row.role)


def changed_rows() -> list[Row]:
    """The shipped rows that are another row now, or that call a function that is another one now."""
    replaced = {name for name, function in SHIPPED.items() if vars(rows).get(name) is not function}
    if not replaced:
        return [row for row in ROWS if row_now(row) is not row]
    return [row for row in ROWS if row_now(row) is not row or replaced & called_by(row)]


def called_by(row: Row) -> set[str]:
    functions = [row.body, *([row.rest] if row.rest else []), *(guard.check for guard in row.guards)]
    return {name for function in functions for name in (*function.__code__.co_names, function.__name__)}


def contracts_of(mutant: Mutant) -> list[str]:
    """Planted for a moment to see which rows change."""
    with mutant.plant():
        names = {row.name for row in changed_rows()}
    return [one.function for one in contracts() if one.row in names and not one.breaks][:MANY]


def warm() -> None:
    """CrossHair and z3 take a while to come."""
    import crosshair.core_and_libs  # noqa: F401

    for module in {one.module for one in contracts()}:
        importlib.import_module(f"proofs.{module}")


@contextmanager
def rows_as_they_are() -> Iterator[None]:
    """The contract files look at the rows of the table as it is now."""
    with pytest.MonkeyPatch.context() as patch:
        for row in changed_rows():
            now = row_now(row)
            patch.setitem(canaries.BY_NAME, row.name, now)
            for one in contracts():
                module: Any = importlib.import_module(f"proofs.{one.module}")
                name = row.name.replace("/", "_")
                if one.row == row.name and getattr(module, name, now) is not now:
                    patch.setattr(module, name, now)
        yield


def run(point: str, mutant: Mutant) -> Death | None:
    contract: Contract = next(one for one in contracts() if one.function == point)
    with rows_as_they_are(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of CrossHair's own imports
        settled = analyse(contract, "", SECONDS if changed_rows() else WITHOUT_A_FAULT_S)
    if settled.verdict != "refuted":
        return None
    return Death("CrossHair", DRIVER, point, ORACLE, f"refuted: {' '.join(settled.said.split())}"[:160])
