"""What the tiers in memory share: a table of instances, sealing, and verified reads. How bytes are kept is left to them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from attrs import define

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.ids import CopyId, manifest_hash
from ..core.requests import Payload
from .checksums import checksum
from .tier import (
    Found,
    ScanReport,
    SlotLedger,
    TierCorrupt,
    TierLost,
    TierRefused,
    check_blocks,
    check_write,
    differing,
    name_blocks,
    same_bytes,
)


@define(eq=False)
class Holding:
    """What a tier knows of one instance. `checksums` are the writer's words until it is sealed, then those of the bytes."""

    instance: Instance
    spec: Spec
    checksums: list[int | None]
    sealed: bytes = b""
    """The manifest hash, or b"" while unsealed."""


class VolatileTier:
    """A `ByteTier` whose instances end with the process. Subclasses say how one block is put, seen and copied out.

    Instances are known by copy id *and* slots: a late release that names slots which the copy no longer has finds nothing.
    """

    def __init__(self) -> None:
        self._lock = Lock()  # for the tables only; bytes are copied outside it
        self._held: dict[tuple[CopyId, tuple[int, ...]], Holding] = {}
        self._slots = SlotLedger()
        self._closed = False

    # -- left to subclasses --

    def _check(self, instance: Instance, spec: Spec) -> None:
        """Raise TierRefused if this instance could never be kept here."""

    def _admit(self, instance: Instance, spec: Spec) -> None:
        """Make room for a new instance, or raise TierFull. Called with the lock held, once per instance."""

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        """Keep a copy of the block's bytes."""
        raise TierRefused(f"{type(self).__name__} keeps no bytes")

    def _see(self, instance: Instance, block: int, size: int) -> Any:
        """The block's bytes in place: a buffer of `size` bytes that may not leave the tier."""
        raise TierRefused(f"{type(self).__name__} keeps no bytes")

    def _take(self, instance: Instance, block: int, size: int) -> Any:
        """A copy of the block's bytes."""
        return bytes(self._see(instance, block, size))

    def _drop(self, instance: Instance, spec: Spec) -> None:
        """Forget the bytes. Called with the lock held."""

    # -- the contract --

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self._open()
        views = check_write(instance, spec, blocks, checksums, data)
        checksum(spec.key.layout.checksum)  # an unknown algorithm is refused now, not when all bytes have come
        self._check(instance, spec)
        holding = self._holding_for(instance, spec)
        for block, announced, view in zip(blocks, checksums, views, strict=True):
            self._put(instance, block, view)
            holding.checksums[block] = announced

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        holding = self._find(instance, spec)
        missing = [block for block, announced in enumerate(holding.checksums) if announced is None]
        if missing:
            raise TierLost(f"{name_blocks(missing)} of {instance.copy} never came")
        actual = self._sums(holding)
        found = manifest_hash(spec.key.layout, spec.sizes, actual)
        if found != manifest:
            wrong = differing(range(len(actual)), holding.checksums, actual)
            raise TierCorrupt(f"{instance.copy} is not what its manifest says" + (f": {name_blocks(wrong)}" if wrong else ""))
        with self._lock:
            holding.checksums[:] = actual
            holding.sealed = found
        return found

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        holding = self._find_sealed(instance, spec, blocks)
        data = tuple([self._take(instance, block, spec.sizes[block]) for block in blocks])
        return self._checked(holding, blocks, data), data

    def release(self, instance: Instance) -> None:
        self._open()
        with self._lock:
            holding = self._held.pop((instance.copy, instance.slots), None)
            if holding is not None:
                self._slots.drop(instance)
                self._drop(instance, holding.spec)

    def scan(self) -> ScanReport:
        self._open()
        with self._lock:
            sealed = [holding for holding in self._held.values() if holding.sealed]
        return ScanReport(
            tuple(
                Found(h.instance.copy, h.spec, h.sealed, tuple([c for c in h.checksums if c is not None]))
                for h in sorted(sealed, key=lambda h: h.instance.copy)
            )
        )

    def copies(self) -> tuple[CopyId, ...]:
        self._open()
        with self._lock:
            return tuple(sorted({copy for copy, _ in self._held}))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for holding in self._held.values():
                self._drop(holding.instance, holding.spec)
            self._held.clear()

    # -- shared steps --

    def _open(self) -> None:
        if self._closed:
            raise TierRefused(f"this {type(self).__name__} is closed")

    def _holding_for(self, instance: Instance, spec: Spec) -> Holding:
        key = (instance.copy, instance.slots)
        with self._lock:
            holding = self._held.get(key)
            if holding is None:
                self._admit(instance, spec)
                self._slots.claim(instance)
                holding = self._held[key] = Holding(instance, spec, [None] * len(spec.sizes))
            elif holding.sealed:
                raise TierRefused(f"{instance.copy} is sealed; it is never written again")
            elif not same_bytes(holding.spec, spec):
                raise TierRefused(f"{instance.copy} is being written under another spec")
        return holding

    def _find(self, instance: Instance, spec: Spec) -> Holding:
        self._open()
        holding = self._held.get((instance.copy, instance.slots))
        if holding is None:
            raise TierLost(f"{instance.copy} is not here")
        if not same_bytes(holding.spec, spec):
            raise TierRefused(f"{instance.copy} is here under another spec")
        return holding

    def _find_sealed(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> Holding:
        holding = self._find(instance, spec)
        check_blocks(instance, spec, blocks)
        if not holding.sealed:
            raise TierLost(f"{instance.copy} is not sealed yet")
        return holding

    def _sums(self, holding: Holding) -> tuple[int, ...]:
        function = checksum(holding.spec.key.layout.checksum)
        return tuple([function(self._see(holding.instance, block, size)) for block, size in enumerate(holding.spec.sizes)])

    def _checked(self, holding: Holding, blocks: Sequence[int], data: Payload) -> tuple[int, ...]:
        """Checksums of `data`, which must be those that were sealed."""
        function = checksum(holding.spec.key.layout.checksum)
        actual = tuple([function(buffer) for buffer in data])
        wrong = differing(blocks, [holding.checksums[block] for block in blocks], actual)
        if wrong:
            raise TierCorrupt(f"{name_blocks(wrong)} of {holding.instance.copy} changed since it was sealed")
        return actual
