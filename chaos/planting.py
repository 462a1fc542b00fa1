"""How a fault is seeded into the shipped machines: a function, a row or a handler is replaced while a block runs, everywhere that
it is known under its name, and put back afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..core import table
from ..core.records import evolve
from ..core.table import Guard, Row

PACKAGES = ("pinfold.core.", "pinfold.chaos.")


class Planting:
    """Replacements, undone by `undo` in the opposite order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _set(self, holder: dict[Any, Any], key: Any, value: Any) -> None:
        before = holder[key]
        holder[key] = value
        self._undo.append(lambda: holder.update({key: before}))

    def function(self, old: Callable[..., Any], new: Callable[..., Any]) -> None:
        """Replace a function in every module that has it, and in every table of handlers."""
        found = 0
        for name, module in sorted(sys.modules.items()):
            if not name.startswith(PACKAGES):
                continue
            names = vars(module)
            for key, value in list(names.items()):
                if value is old:
                    self._set(names, key, new)
                    found += 1
                elif type(value) is dict and not key.startswith("__"):
                    found += self._in_table(value, old, new)
        if not found:
            raise LookupError(f"{old.__qualname__} is nowhere to be replaced")

    def _in_table(self, handlers: dict[Any, Any], old: Callable[..., Any], new: Callable[..., Any]) -> int:
        found = 0
        for key, value in list(handlers.items()):
            if value is old:
                self._set(handlers, key, new)
                found += 1
            elif type(value) is tuple and any(part is old for part in value):
                self._set(handlers, key, tuple(new if part is old else part for part in value))
                found += 1
        return found

    def method(self, owner: type, name: str, new: Callable[..., Any]) -> None:
        before = getattr(owner, name)
        setattr(owner, name, new)
        self._undo.append(lambda: setattr(owner, name, before))

    def entry(self, handlers: dict[Any, Any], key: Any, new: Any) -> None:
        """Replace one entry of a table of handlers."""
        self._set(handlers, key, new)

    def rows(self, change: Callable[[Row], Row]) -> None:
        """Replace rows of the law."""
        changed = 0
        for key, row in list(table.TABLE.items()):
            after = change(row)
            if after is not row:
                self._set(table.TABLE, key, after)
                changed += 1
        if not changed:
            raise LookupError("no row was changed")

    def guard_says_yes(self, check: Callable[..., bool]) -> None:
        """A guard of the law that always agrees."""

        def agreed(row: Row) -> Row:
            if not any(guard.name == check.__name__ for guard in row.guards):
                return row
            guards = [Guard(g.name, _yes, g.refusal) if g.name == check.__name__ else g for g in row.guards]
            return evolve(row, guards=tuple(guards))

        self.rows(agreed)

    def body(self, old: Callable[..., Any], new: Callable[..., Any]) -> None:
        """Another body, or another `rest`, in each row that has the old one."""

        def changed(row: Row) -> Row:
            if row.body is old:
                return evolve(row, body=new)
            return evolve(row, rest=new) if row.rest is old else row

        self.rows(changed)


def _yes(*_arguments: object) -> bool:
    return True
