"""What really lies in tiers and stores: a cell per block, beside and independent of what any machine believes.

A cell holds the checksum of the block that is in it. Byte work is done here as late as it may be (when it completes), but what it
destroys goes as early as it may (when it is asked for): a release clears cells at once, a store soils those that it will write.
So a machine that lets bytes go, or hands a slot on, while somebody still touches them is seen.
"""

from __future__ import annotations

from typing import Final

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.ids import CopyId, manifest_hash

Cell = tuple[str, int, int, int]
"""`(tier, slot, -1, -1)` in a slab, `(tier or store, revision, ordinal, block)` where files are named by copy id."""

Cells = dict[Cell, int]

SOILED: Final = -1
"""Somebody writes here."""
ROTTEN: Final = -2
"""Wrong bytes, by a fault of the world's."""


def cells_of(instance: Instance, blocks: int) -> list[Cell]:
    """The cells of an instance, one per block."""
    if instance.slots:
        return [(instance.tier.name, slot, -1, -1) for slot in instance.slots]
    place = str(instance.place) or instance.tier.name
    return [(place, instance.copy.revision, instance.copy.ordinal, block) for block in range(blocks)]


def cells_of_file(cells: Cells, place: str, copy: CopyId) -> list[Cell]:
    """The cells that a file or object has."""
    return [cell for cell in cells if cell[0] == place and cell[1:3] == (copy.revision, copy.ordinal) and cell[3] >= 0]


def put(cells: Cells, where: list[Cell], value: int) -> Cells:
    """Cells with one value in all of `where`."""
    after = dict(cells)
    for cell in where:
        after[cell] = value
    return after


def without(cells: Cells, where: list[Cell]) -> Cells:
    after = dict(cells)
    for cell in where:
        after.pop(cell, None)
    return after


def found(cells: Cells, where: list[Cell]) -> tuple[int, ...] | None:
    """The checksums of what is there; None where a block is not there at all."""
    values = [cells.get(cell) for cell in where]
    return None if None in values or not values else tuple([value for value in values if value is not None])


def manifest_of(spec: Spec, checksums: tuple[int, ...]) -> bytes:
    return manifest_hash(spec.key.layout, spec.sizes, checksums)
