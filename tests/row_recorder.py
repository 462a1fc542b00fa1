"""Which rows of the table the real door went through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pinfold.core import creating, ledger, reading
from pinfold.core.errors import Refusal
from pinfold.core.rows import Facts
from pinfold.core.state import Copy, Group
from pinfold.core.table import On, Row, find
from pinfold.core.turn import Turn


@contextmanager
def recorded() -> Iterator[set[str]]:
    """The names of the rows that were applied inside. PIN and REF change no record, DELETE ends it: each has its own door."""
    found: set[str] = set()
    change, allowed, forget = ledger.change, reading.allowed, ledger.forget

    def noted_change(turn: Turn, g: Group, row: Row, c: Copy, k: Facts) -> None:
        found.add(row.name)
        change(turn, g, row, c, k)

    def noted_allowed(turn: Turn, group: Group, on: On, copy: Copy, k: Facts) -> Refusal | None:
        refusal = allowed(turn, group, on, copy, k)
        row = find(group, on, copy)
        if refusal is None and row is not None:
            found.add(row.name)
        return refusal

    def noted_forget(turn: Turn, g: Group) -> Refusal | None:
        refusal = forget(turn, g)
        if refusal is None:
            found.add("EVICTED/DELETE")
        return refusal

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "change", noted_change)
        patch.setattr(creating, "change", noted_change)
        patch.setattr(reading, "allowed", noted_allowed)
        patch.setattr(ledger, "forget", noted_forget)
        yield found
