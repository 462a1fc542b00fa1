"""The DRAM tier: one slab of fixed slots, copied with numpy. The only module of this layer that imports numpy.

numpy's copies release the GIL (a memoryview slice does not, and stalls every thread for as long as the copy takes). The slab is
touched at the start: the first touch of a page costs more than the copy that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.requests import Payload
from .tier import TierRefused
from .volatile import VolatileTier

ALIGN_BYTES: Final = 64
"""Slots start on a cache line."""


class DramTier(VolatileTier):
    """`slots` slots of at most `block_bytes` bytes each; block `i` of an instance is in slot `instance.slots[i]`.

    Which slots an instance gets is the node machine's decision; a slot that still has another instance's bytes is refused
    loudly (`InvariantViolation` USE-1). Raises TierRefused for blocks larger than a slot and for slots outside the slab.
    """

    def __init__(self, slots: int, block_bytes: int) -> None:
        super().__init__()
        if slots < 1 or block_bytes < 1:
            raise TierRefused(f"a slab of {slots} slots of {block_bytes} bytes can't be made")
        self.slots = slots
        self.block_bytes = block_bytes
        stride_bytes = -(-block_bytes // ALIGN_BYTES) * ALIGN_BYTES
        self._slab = numpy.empty((slots, stride_bytes), dtype=numpy.uint8)
        self._slab.fill(0)  # the first touch

    @property
    def slab_bytes(self) -> int:
        """Memory taken, in bytes: slots times stride."""
        return int(self._slab.nbytes)

    def _check(self, instance: Instance, spec: Spec) -> None:
        if len(instance.slots) != len(spec.sizes):
            raise TierRefused(f"{instance.copy} has {len(spec.sizes)} blocks and {len(instance.slots)} slots")
        for slot in instance.slots:
            if not 0 <= slot < self.slots:
                raise TierRefused(f"slot {slot} is not in a slab of {self.slots}")
        for block, size in enumerate(spec.sizes):
            if size > self.block_bytes:
                raise TierRefused(f"block {block} of {instance.copy} has {size} bytes; a slot has {self.block_bytes}")

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        if view.nbytes == 0:
            return  # numpy makes no array of an empty buffer
        target = self._slab[instance.slots[block], : view.nbytes]
        numpy.copyto(target, numpy.frombuffer(view, dtype=numpy.uint8))

    def _see(self, instance: Instance, block: int, size: int) -> Any:
        return self._slab[instance.slots[block], :size].data

    def _take(self, instance: Instance, block: int, size: int) -> Any:
        return self._slab[instance.slots[block], :size].copy().data.toreadonly()

    def views(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        """As `load`, but the buffers are read-only windows into the slab: verified now, and true only under a guard (rule 6)."""
        holding = self._find_sealed(instance, spec, blocks)
        data = tuple([self._see(instance, block, spec.sizes[block]).toreadonly() for block in blocks])
        return self._checked(holding, blocks, data), data

    def close(self) -> None:
        super().close()
        self._slab = numpy.empty((0, 0), dtype=numpy.uint8)
