"""Tiers that are wrong in one way each, and the kit test that was made to find it. A kit that passes one of them is broken.

`BAD_TIERS` is the list; `tests/test_tier_kit.py` proves that each fails its own test and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final

from attrs import define

from pinfold.backends.checksums import checksums
from pinfold.backends.memory_tier import MemoryTier
from pinfold.backends.tier import ByteTier, Found, ScanReport, TierFull, TierLost, TierRefused
from pinfold.backends.volatile import Holding
from pinfold.core.commands import Spec
from pinfold.core.effects import Instance
from pinfold.core.ids import CopyId, manifest_hash
from pinfold.core.requests import Payload

from .testing_bad_file_tiers import (
    DeletesStrangers,
    EmptiesOnClose,
    ForgetsTheDirectory,
    NeverSyncs,
    ResurrectsUnpublished,
    SharesItsDirectory,
    SsdTierKit,
    SyncsBeforeHeader,
    TrustsHeaders,
    WritesInPlace,
)
from .testing_samples import Sample
from .testing_tiers import TierConformance

Loaded = tuple[tuple[int, ...], Payload]


class MemoryTierKit(TierConformance):
    """The kit over `MemoryTier`, used as a slab."""

    slots = 64
    make: Callable[..., ByteTier] = MemoryTier

    def open_tier(self) -> ByteTier:
        return type(self).make()

    def open_small_tier(self) -> ByteTier | None:
        return type(self).make(capacity_bytes=400)

    def turn_a_bit(self, tier: ByteTier, sample: Sample, block: int) -> None:
        assert isinstance(tier, MemoryTier)
        tier.corrupt(sample.copy, block)


# ---- in memory: sealing --------------------------------------------------------------------------------------


class SealsEarly(MemoryTier):
    """Seals, and so publishes, before all bytes have come."""

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        holding = self._held.get((instance.copy, instance.slots))
        if holding is not None and None in holding.checksums:
            holding.sealed = manifest
            return manifest
        return super().verify(instance, spec, manifest)


class SealsAnyManifest(MemoryTier):
    """Compares the bytes with what the writer announced, and never with the manifest."""

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        found = self._held.get((instance.copy, instance.slots))
        if found is None or found.sealed or None in found.checksums:
            return super().verify(instance, spec, manifest)
        announced = tuple([each for each in found.checksums if each is not None])
        super().verify(instance, spec, manifest_hash(spec.key.layout, spec.sizes, announced))
        return manifest


class TrustsTheWriter(MemoryTier):
    """Verifies what the writer announced and not what is there."""

    def _sums(self, holding: Holding) -> tuple[int, ...]:
        return tuple([announced for announced in holding.checksums if announced is not None])


class ReadsUnsealed(MemoryTier):
    """Lets a torn write be seen: what has not been verified can be read."""

    def _find_sealed(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> Holding:
        holding = self._find(instance, spec)
        if not holding.sealed and all(holding.checksums[block] is not None for block in blocks):
            return holding
        return super()._find_sealed(instance, spec, blocks)


class OverwritesSealed(MemoryTier):
    """Takes writes to a sealed copy."""

    def _holding_for(self, instance: Instance, spec: Spec) -> Holding:
        holding = self._held.get((instance.copy, instance.slots))
        return super()._holding_for(instance, spec) if holding is None else holding


class IgnoresChecksums(MemoryTier):
    """Computes the checksums of what it returns, and compares them with nothing."""

    def _checked(self, holding: Holding, blocks: Sequence[int], data: Payload) -> tuple[int, ...]:
        return checksums(holding.spec.key.layout.checksum, data)


class KeepsTheFirstWrite(MemoryTier):
    """A block that is written again keeps its first bytes."""

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        if (instance.copy, instance.slots, block) not in self._bytes:
            super()._put(instance, block, view)


class TakesAnySize(MemoryTier):
    """Cuts or fills a buffer of the wrong size."""

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        if len(data) == len(blocks) and all(isinstance(each, bytes) for each in data):
            sizes = [spec.sizes[block] if block < len(spec.sizes) else 0 for block in blocks]
            data = tuple(each[:size].ljust(size, b"\0") for each, size in zip(data, sizes, strict=True))
        super().write(instance, spec, blocks, checksums, data)


# ---- in memory: whose bytes ----------------------------------------------------------------------------------


class ReturnsInItsOwnOrder(MemoryTier):
    """Returns blocks in ascending order, whatever was asked for."""

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> Loaded:
        return super().load(instance, spec, sorted(blocks))


class BoundToItsThread(MemoryTier):
    """Works only in the thread that made it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._home = get_ident()

    def _open(self) -> None:
        super()._open()
        if get_ident() != self._home:
            raise TierRefused("this tier belongs to another thread")


class ReadsAnotherCopy(MemoryTier):
    """Finds bytes by their sizes: with two such copies it reads the older one."""

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> Loaded:
        same = [h for h in self._held.values() if h.sealed and h.spec.sizes == spec.sizes]
        if same and same[0].instance.copy < instance.copy:
            return super().load(same[0].instance, same[0].spec, blocks)
        return super().load(instance, spec, blocks)


class KeepsGivenBuffers(MemoryTier):
    """Keeps the caller's buffer in place of a copy."""

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        self._bytes[(instance.copy, instance.slots, block)] = view  # type: ignore[assignment]

    def corrupt(self, copy: CopyId, block: int = 0) -> None:
        self._bytes.update({key: bytes(kept) for key, kept in self._bytes.items()})
        super().corrupt(copy, block)


class ReturnsViews(MemoryTier):
    """Returns windows into its slab, which the next copy in these slots overwrites."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._slab: dict[int, bytearray] = {}

    def _put(self, instance: Instance, block: int, view: memoryview) -> None:
        slot = self._slab.setdefault(instance.slots[block], bytearray(128))
        slot[: view.nbytes] = view

    def _see(self, instance: Instance, block: int, size: int) -> Any:
        return memoryview(self._slab[instance.slots[block]])[:size]

    def _take(self, instance: Instance, block: int, size: int) -> Any:
        return self._see(instance, block, size)

    def corrupt(self, copy: CopyId, block: int = 0) -> None:
        for held, slots in self._held:
            if held == copy:
                self._slab[slots[block]][0] ^= 1


# ---- in memory: letting go, telling --------------------------------------------------------------------------


class ReadsReleased(MemoryTier):
    """Still has the old bytes of what was released."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._stale: dict[tuple[CopyId, tuple[int, ...]], Loaded] = {}

    def release(self, instance: Instance) -> None:
        holding = self._held.get((instance.copy, instance.slots))
        if holding is not None and holding.sealed:
            blocks = range(len(holding.spec.sizes))
            self._stale[(instance.copy, instance.slots)] = super().load(instance, holding.spec, blocks)
        super().release(instance)

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> Loaded:
        stale = self._stale.get((instance.copy, instance.slots))
        if stale is not None and not self._closed:
            return tuple([stale[0][block] for block in blocks]), tuple([stale[1][block] for block in blocks])
        return super().load(instance, spec, blocks)


class ReleasesOnce(MemoryTier):
    """Complains about a second release."""

    def release(self, instance: Instance) -> None:
        if not self._closed and instance.copy not in {copy for copy, _ in self._held}:
            raise TierLost(f"{instance.copy} is not here")
        super().release(instance)


class ReleasesByCopy(MemoryTier):
    """Lets go of whatever instance the copy has now."""

    def release(self, instance: Instance) -> None:
        for held in [h.instance for h in self._held.values() if h.instance.copy == instance.copy]:
            super().release(held)
        super().release(instance)


class ReleasesNeighbours(MemoryTier):
    """Lets go of everything that is not sealed, too."""

    def release(self, instance: Instance) -> None:
        super().release(instance)
        for held in [h.instance for h in self._held.values() if not h.sealed]:
            super().release(held)


class ScanTellsUnsealed(MemoryTier):
    """Tells of copies whose bytes have come but were never verified."""

    def scan(self) -> ScanReport:
        extra = [
            Found(h.instance.copy, h.spec, manifest_hash(h.spec.key.layout, h.spec.sizes, self._sums(h)), self._sums(h))
            for h in self._held.values()
            if not h.sealed and None not in h.checksums
        ]
        return ScanReport((*super().scan().found, *extra))


class ListsSealedOnly(MemoryTier):
    """Leaves out of `copies` what is being written, so that nobody ever collects what a dead writer left."""

    def copies(self) -> tuple[CopyId, ...]:
        sealed = {copy for (copy, _), holding in self._held.items() if holding.sealed}
        return tuple(copy for copy in super().copies() if copy in sealed)


class LeaksRoom(MemoryTier):
    """A write that was refused for room keeps the room it did not get."""

    def _admit(self, instance: Instance, spec: Spec) -> None:
        self.used_bytes += spec.size_bytes
        if self.capacity_bytes is not None and self.used_bytes > self.capacity_bytes:
            raise TierFull(f"no room for {instance.copy}")


class AnswersWhenClosed(MemoryTier):
    """Goes on after `close`."""

    def close(self) -> None:
        super().close()
        self._closed = False


# ---- the list ------------------------------------------------------------------------------------------------


@define(frozen=True)
class BadTier:
    """`tier`, run under `kit`, fails the kit test `test` and passes all others."""

    tier: type
    kit: type[TierConformance]
    test: str

    def conformance(self) -> type[TierConformance]:
        """The kit over the bad tier."""
        return type(f"{self.tier.__name__}Kit", (self.kit,), {"make": self.tier})


_POWER_LOSS: Final = "test_a_power_loss_at_any_point_leaves_whole_copies_or_none"
_DAMAGE: Final = "test_scan_reports_damage_by_name_and_leaves_strangers_alone"

BAD_TIERS: Final = (
    BadTier(ReturnsInItsOwnOrder, MemoryTierKit, "test_what_was_written_is_what_is_loaded"),
    BadTier(KeepsTheFirstWrite, MemoryTierKit, "test_a_block_written_again_before_sealing_is_replaced"),
    BadTier(ReadsAnotherCopy, MemoryTierKit, "test_copies_never_see_each_others_bytes"),
    BadTier(KeepsGivenBuffers, MemoryTierKit, "test_given_buffers_are_not_kept"),
    BadTier(ReturnsViews, MemoryTierKit, "test_returned_buffers_belong_to_the_caller"),
    BadTier(BoundToItsThread, MemoryTierKit, "test_different_copies_may_be_used_from_different_threads"),
    BadTier(ReadsUnsealed, MemoryTierKit, "test_an_unsealed_copy_cannot_be_read"),
    BadTier(SealsEarly, MemoryTierKit, "test_a_copy_with_a_missing_block_is_not_sealed"),
    BadTier(SealsAnyManifest, MemoryTierKit, "test_bytes_of_another_manifest_are_not_sealed"),
    BadTier(TrustsTheWriter, MemoryTierKit, "test_verification_reads_what_is_there"),
    BadTier(IgnoresChecksums, MemoryTierKit, "test_a_turned_bit_is_never_returned"),
    BadTier(OverwritesSealed, MemoryTierKit, "test_a_sealed_copy_is_never_written_again"),
    BadTier(TakesAnySize, MemoryTierKit, "test_a_malformed_request_is_refused_and_changes_nothing"),
    BadTier(ReadsReleased, MemoryTierKit, "test_a_released_copy_is_gone"),
    BadTier(ReleasesOnce, MemoryTierKit, "test_release_of_what_is_not_there_succeeds"),
    BadTier(ReleasesNeighbours, MemoryTierKit, "test_release_leaves_other_copies_alone"),
    BadTier(ReleasesByCopy, MemoryTierKit, "test_a_late_release_leaves_a_newer_instance_alone"),
    BadTier(ScanTellsUnsealed, MemoryTierKit, "test_scan_tells_every_sealed_copy_and_nothing_else"),
    BadTier(ListsSealedOnly, MemoryTierKit, "test_copies_names_all_that_takes_room"),
    BadTier(LeaksRoom, MemoryTierKit, "test_a_full_tier_says_so_and_has_room_again_after_release"),
    BadTier(AnswersWhenClosed, MemoryTierKit, "test_a_closed_tier_refuses_and_closes_twice"),
    BadTier(EmptiesOnClose, SsdTierKit, "test_sealed_copies_survive_reopening"),
    BadTier(ResurrectsUnpublished, SsdTierKit, "test_unsealed_copies_are_not_readable_after_reopening"),
    BadTier(NeverSyncs, SsdTierKit, _POWER_LOSS),
    BadTier(SyncsBeforeHeader, SsdTierKit, _POWER_LOSS),
    BadTier(ForgetsTheDirectory, SsdTierKit, _POWER_LOSS),
    BadTier(WritesInPlace, SsdTierKit, _POWER_LOSS),
    BadTier(TrustsHeaders, SsdTierKit, _DAMAGE),
    BadTier(DeletesStrangers, SsdTierKit, _DAMAGE),
    BadTier(SharesItsDirectory, SsdTierKit, "test_a_directory_of_ones_own_is_not_shared"),
)
