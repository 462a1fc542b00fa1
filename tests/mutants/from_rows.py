"""The faulty rows that the proofs must refute, put into the table that runs.

As canaries (`proofs/canaries.py`) they show that a proof can fail; here they are faults like any other, for all checks to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pinfold.chaos.planting import Planting
from pinfold.core.table import On
from proofs.canaries import BY_NAME, CANARIES, Canary
from tests.mutants.record import Mutant

SAME: dict[str, str] = {
    "LOCAL/EVICT without_unreferenced": "evicts_ignore_refs",
    "LOCAL/PIN without_copy_is_readable": "absent_copies_are_pinned",
    "WRITING/DUE/RETIRING without_no_pins_on_it": "pinned_copies_are_freed",
    "LOCAL/ADOPT without_can_take_over": "freeing_comes_back",
    "MIGRATING_OUT/COPY_DONE/INCOMING nobody_else_changes": "two_owners",
    "MIGRATING_OUT/CREATE nobody_else_changes": "recreated_owner_stays",
    "LOCAL/GONE/AUTHORITATIVE nobody_else_changes": "nobody_is_promoted",
    "MIGRATING_IN/DROP_REPLICA dropped_at_once": "MIGRATING_OUT/DROP_REPLICA dropped_at_once",
}
"""Faults that are written down elsewhere as well, for one row or for several: one mutant, under the other name."""

FAMILY: dict[On, str] = {
    On.CREATE: "writing", On.SEALED: "writing", On.PIN: "holds", On.REF: "holds", On.MOVE: "move", On.ADOPT: "move",
    On.COPY_DONE: "move", On.ENDED: "move", On.LEAVE: "holds", On.EVICT: "holds", On.DUE: "move", On.GONE: "lapse and return",
    On.LAPSE: "lapse and return", On.RETURN: "lapse and return", On.REPLICATE: "move", On.DROP_REPLICA: "holds",
    On.DELETE: "writing",
}  # fmt: skip
RULE: dict[str, str] = {
    "writing": "rule 3", "holds": "rule 2", "move": "rule 4", "lapse and return": "rule 9",
}  # fmt: skip


def name_of(canary: Canary) -> str:
    return f"{canary.row.name} {canary.name}"


@contextmanager
def in_the_table(canary: Canary) -> Iterator[None]:
    planting = Planting()
    shipped = BY_NAME[canary.row.name]
    planting.rows(lambda row: canary.row if row is shipped else row)
    try:
        yield
    finally:
        planting.undo()


def from_rows() -> list[Mutant]:
    """All of them but those that have another name already."""
    made = []
    for canary in CANARIES:
        if name_of(canary) not in SAME:
            family = FAMILY[canary.row.on]
            what = f"row {canary.row.name} is {canary.name.replace('_', ' ')}"
            breaks = f"{RULE[family]}, {canary.breaks}"
            made.append(Mutant(name_of(canary), family, breaks, what, lambda canary=canary: in_the_table(canary)))  # type: ignore[misc]
    return made
