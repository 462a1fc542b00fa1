"""Tiers in plain Python, for examples, simulations and tests: one that fails on command, and one that keeps no bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.ids import CopyId
from ..core.requests import Payload
from .tier import ScanReport, TierError, TierFull, TierIo, TierRefused, check_blocks
from .volatile import Holding, VolatileTier

OPERATIONS: Final = ("write", "verify", "load", "release", "scan", "copies")


@define
class _Fault:
    operation: str
    error: TierError
    times: int


class MemoryTier(VolatileTier):
    """Blocks in a dictionary. Serves as any tier, and, shared by several nodes of one process, as a remote store.

    `durable` says what `crash` leaves. `capacity_bytes` None means no limit. Faults are commands:

        tier.fail("load", TierIo("no"), times=2)     the next two loads raise
        tier.corrupt(copy, block)                    one bit of what is kept is turned
        tier.lose(copy)                              the medium has lost it
        tier.delay() ... tier.resume()               work is done, but its completion is withheld (`InlineByteWork.poll`)
        tier.crash()                                 the process or machine has died and starts again
    """

    def __init__(self, *, capacity_bytes: int | None = None, durable: bool = False) -> None:
        super().__init__()
        self.capacity_bytes = capacity_bytes
        self.durable = durable
        self.used_bytes = 0
        self.delayed = False
        """Completions of this tier's work are withheld."""
        self._bytes: dict[tuple[CopyId, tuple[int, ...], int], bytes] = {}
        self._faults: list[_Fault] = []

    # -- faults --

    def fail(self, operation: str, error: TierError | None = None, times: int = 1) -> None:
        """Let the next `times` calls of `operation` (a method of the contract) raise `error`, before they do anything."""
        if operation not in OPERATIONS:
            raise TierRefused(f"no operation {operation!r}; there are {', '.join(OPERATIONS)}")
        self._faults.append(_Fault(operation, error or TierIo(f"{operation} failed on command"), times))

    def corrupt(self, copy: CopyId, block: int = 0) -> None:
        """Turn one bit of the kept bytes of `block`, in every instance of `copy`."""
        for key, kept in self._bytes.items():
            if key[0] == copy and key[2] == block and kept:
                self._bytes[key] = bytes([kept[0] ^ 1]) + kept[1:]

    def lose(self, copy: CopyId) -> None:
        """Forget every instance of `copy`, as a failed medium would."""
        for holding in [h for h in self._held.values() if h.instance.copy == copy]:
            super().release(holding.instance)

    def delay(self) -> None:
        """Withhold the completions of this tier's work until `resume`."""
        self.delayed = True

    def resume(self) -> None:
        self.delayed = False

    def crash(self) -> None:
        """Start again: what was unsealed is gone; a tier that is not durable is empty. Faults on command end too."""
        for holding in list(self._held.values()):
            if not (self.durable and holding.sealed):
                super().release(holding.instance)
        self._faults.clear()
        self.delayed = False

    def _strike(self, operation: str) -> None:
        for fault in self._faults:
            if fault.operation == operation and fault.times > 0:
                fault.times -= 1
                raise fault.error

    # -- the contract, with faults --

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self._strike("write")
        super().write(instance, spec, blocks, checksums, data)

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        self._strike("verify")
        return super().verify(instance, spec, manifest)

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        self._strike("load")
        return super().load(instance, spec, blocks)

    def release(self, instance: Instance) -> None:
        self._strike("release")
        super().release(instance)

    def scan(self) -> ScanReport:
        self._strike("scan")
        return super().scan()

    def copies(self) -> tuple[CopyId, ...]:
        self._strike("copies")
        return super().copies()

    # -- keeping --

    def _admit(self, instance: Instance, spec: Spec) -> None:
        if self.capacity_bytes is not None and self.used_bytes + spec.size_bytes > self.capacity_bytes:
            raise TierFull(
                f"{instance.copy} needs {spec.size_bytes} bytes; {self.used_bytes} of {self.capacity_bytes} are in use"
            )
        self.used_bytes += spec.size_bytes

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        self._bytes[(instance.copy, instance.slots, block)] = bytes(view)

    def _see(self, instance: Instance, block: int, size: int) -> Any:
        return self._bytes[(instance.copy, instance.slots, block)]

    def _drop(self, instance: Instance, spec: Spec) -> None:
        self.used_bytes -= spec.size_bytes
        for block in range(len(spec.sizes)):
            self._bytes.pop((instance.copy, instance.slots, block), None)


class PhantomTier(VolatileTier):
    """Keeps checksums and no bytes, for runs that leave payloads out (`data == ()`): manifests are the same as with bytes.

    It believes what the writer announced, so it can't find corruption: it stands in for space and order, not for media.
    """

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self._open()
        check_blocks(instance, spec, blocks)
        if len(blocks) != len(checksums):
            raise TierRefused(f"a write to {instance.copy} has {len(blocks)} blocks and {len(checksums)} checksums")
        holding = self._holding_for(instance, spec)
        for block, announced in zip(blocks, checksums, strict=True):
            holding.checksums[block] = announced

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        holding = self._find_sealed(instance, spec, blocks)
        known = self._sums(holding)
        return tuple([known[block] for block in blocks]), ()

    def _sums(self, holding: Holding) -> tuple[int, ...]:
        return tuple([announced for announced in holding.checksums if announced is not None])
