"""What a mutant is, and the few ways of switching one on. The table is in `mutants.py`, the faults in the `faults_*` modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from attrs import define

from pinfold.core import table

VARIABLE = "PINFOLD_CASE_MUTANT"
"""In the environment of child processes: the name of the mutant that they shall run under, too."""


@define(frozen=True)
class Mutant:
    """One seeded fault of case `case`. `name` begins with the case's id; `switch` does it, and a `MonkeyPatch` undoes it.
    `slow`: its test waits for what then never comes."""

    name: str
    fault: str
    switch: Callable[[pytest.MonkeyPatch], None]
    slow: bool = False

    @property
    def case(self) -> str:
        return self.name.partition(" ")[0]

    @contextmanager
    def on(self) -> Iterator[None]:
        """The code has the fault inside of the `with`."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, self.name)
            self.switch(patch)
            yield


def everywhere(patch: pytest.MonkeyPatch, function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """`other` in place of `function` in every module that has it under a name of its own, tests included."""
    found = 0
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in ("pinfold", "tests"):
            for name, value in list(vars(module).items()):
                if value is function:
                    patch.setattr(module, name, other)
                    found += 1
    assert found, f"{function} is nowhere"


def without_guard(patch: pytest.MonkeyPatch, name: str, on: table.On | None = None) -> None:
    """The table's rows (of one event, if given) without the guard of this name."""
    found = 0
    for key, row in list(table.TABLE.items()):
        kept = tuple(guard for guard in row.guards if guard.name != name)
        if kept != row.guards and on in (None, row.on):
            patch.setitem(table.TABLE, key, attrs.evolve(row, guards=kept))
            found += 1
    assert found, f"no row has a guard {name}"


def wrapped(patch: pytest.MonkeyPatch, function: Callable[..., Any], around: Callable[..., Any]) -> None:
    """`around(function, *arguments)` in place of `function`, everywhere."""

    def instead(*args: Any, **named: Any) -> Any:
        return around(function, *args, **named)

    everywhere(patch, function, instead)


def wrapped_method(patch: pytest.MonkeyPatch, owner: type, name: str, around: Callable[..., Any]) -> None:
    """`around(method, self, *arguments)` in place of a method."""
    method = getattr(owner, name)

    def instead(*args: Any, **named: Any) -> Any:
        return around(method, *args, **named)

    patch.setattr(owner, name, instead)
