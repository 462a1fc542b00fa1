"""The tier contract: what a place for block bytes promises, and the four ways in which it may fail.

A tier keeps **instances**: the bytes of one copy in one place. An instance is *unsealed* while blocks arrive and can't be
read; `verify` reads every block back and, if the manifest hash of what is really there is the expected one, *seals* it (file
tiers publish it durably in the same call). A sealed instance is immutable and can be read until `release`. These laws hold:

1. `load` gives back the bytes that were sealed, with checksums computed over the very buffers it returns, or it raises (BYTES-1).
2. What is not sealed can't be read, and after a crash it is gone (COPY-1).
3. A call that raises has not sealed, released or altered anything that was sealed.
4. `release` of what is not there succeeds; after it, the instance is gone, and no other instance has noticed (USE-1).
5. Returned buffers belong to the caller; given buffers are not kept.

Calls about different copies may come from different threads at once; calls about one copy come one after another (the byte
work of `bytework.py` sees to both). Tiers never wait for room and never retry: those are decisions of the node machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from attrs import define

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.errors import InvariantViolation, WorldError
from ..core.events import InstanceFound
from ..core.ids import CopyId, Reason, Tier
from ..core.requests import Payload


class TierError(WorldError):
    """Raised when a tier could not do what was asked. `reason` is what the node machine is told."""

    reason: ClassVar[Reason] = Reason.FAILED


class TierFull(TierError):
    """Raised when there is no room: the tier's own limit, the file system's, or a quota. Nothing was written."""

    reason = Reason.NO_SPACE


class TierCorrupt(TierError):
    """Raised when the bytes there are not the bytes that should be there. They are never returned."""

    reason = Reason.CORRUPT


class TierLost(TierError):
    """Raised when there are no such bytes: never written, not sealed yet, released, or lost by the medium."""

    reason = Reason.LOST


class TierIo(TierError):
    """Raised when the medium failed (EIO, a failed fsync, no permission). `definite` False: it may have happened."""


class TierRefused(TierError):
    """Raised when no tier of this kind could ever do it: an unknown checksum algorithm, a block index or size that is not
    in the spec, a write to a sealed instance, a file of another format version. Nothing has changed."""


@define(frozen=True)
class Found:
    """One sealed instance that a scan has read, with one checksum per block in the layout's algorithm."""

    copy: CopyId
    spec: Spec
    manifest: bytes
    checksums: tuple[int, ...]

    def event(self, tier: Tier) -> InstanceFound:
        """The local fact that the node machine takes at its start."""
        return InstanceFound(self.copy, self.spec, self.manifest, tier)


@define(frozen=True)
class Damage:
    """Something under the name of `copy` that can't be used, and why, in one sentence. `release` gives its room back."""

    copy: CopyId
    sentence: str


@define(frozen=True)
class ScanReport:
    """What a scan saw. Only `found` may be read; nothing in the other lists was touched, except that `removed` is gone."""

    found: tuple[Found, ...] = ()
    damaged: tuple[Damage, ...] = ()
    refused: tuple[Damage, ...] = ()
    """Whole as far as one can tell, but not for this version of pinfold: kept for the version that can read it."""
    foreign: tuple[str, ...] = ()
    """Names that are none of ours."""
    removed: tuple[str, ...] = ()
    """Unpublished files of an earlier life that were deleted when the tier was opened."""


class ByteTier(Protocol):
    """One place for bytes. Every method may raise `TierIo`; only the errors of this module may leave a tier."""

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        """Put `data[i]` (any C-contiguous buffer of `spec.sizes[blocks[i]]` bytes) as block `blocks[i]` of an unsealed instance.

        `checksums[i]` is what the writer says of it; `verify` tells which block differs. Writing a block again before it is
        sealed replaces it. Duty: all arguments are checked before anything changes. Raises TierFull, TierRefused.
        """
        ...

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        """Read every block back; the manifest hash of what is really there, which equals `manifest`, and the instance is sealed.

        File tiers publish durably before they return. A sealed instance is read and compared again. Raises TierCorrupt (it
        differs; not sealed), TierLost (no such instance, or a block was never written).
        """
        ...

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        """`(checksums, buffers)` of `blocks` of a sealed instance, in the order asked for.

        Duty: the checksums are computed over the returned buffers and equal those that were sealed. Raises TierCorrupt,
        TierLost, TierRefused.
        """
        ...

    def release(self, instance: Instance) -> None:
        """Let the instance go, sealed or not. One that is not there, or is there under other slots, is released already."""
        ...

    def scan(self) -> ScanReport:
        """All sealed instances. File tiers read what is on disk and verify every byte; unsealed ones are never told."""
        ...

    def copies(self) -> tuple[CopyId, ...]:
        """Copy ids of all that takes room, sealed or not, ascending; no bytes are read (rule 8: what a steward lists)."""
        ...

    def close(self) -> None:
        """Give back memory, files and locks. A second close does nothing; other calls after it raise TierRefused."""
        ...


# ---- what all tiers check in the same way --------------------------------------------------------------------


def same_bytes(one: Spec, other: Spec) -> bool:
    """Whether two specs describe the same bytes; the advisory fields may differ."""
    return one is other or (
        one.group == other.group and one.sizes == other.sizes and one.key.layout == other.key.layout
    )


def check_blocks(instance: Instance, spec: Spec, blocks: Sequence[int]) -> None:
    """Raises TierRefused unless every index is one of the spec's blocks."""
    count = len(spec.sizes)
    for block in blocks:
        if not 0 <= block < count:
            raise TierRefused(f"{instance.copy} has {count} blocks; there is no block {block}")


def check_write(
    instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
) -> list[memoryview]:
    """The buffers of a write as flat byte views, one per block. Raises TierRefused; nothing has changed then."""
    check_blocks(instance, spec, blocks)
    if not len(blocks) == len(checksums) == len(data):
        raise TierRefused(
            f"a write to {instance.copy} has {len(blocks)} blocks, {len(checksums)} checksums and {len(data)} buffers"
        )
    views = []
    for block, buffer in zip(blocks, data, strict=True):
        view = flat(buffer)
        if view.nbytes != spec.sizes[block]:
            raise TierRefused(
                f"block {block} of {instance.copy} has {view.nbytes} bytes; its spec says {spec.sizes[block]}"
            )
        views.append(view)
    return views


def flat(buffer: Any) -> memoryview:
    """A buffer as a one-dimensional view of bytes, without a copy. Raises TierRefused for what is none."""
    try:
        view = memoryview(buffer)
        if view.nbytes == 0:
            return memoryview(b"")  # a view with a zero in its shape can't be cast
        return view.cast("B")
    except TypeError as error:
        raise TierRefused(f"a {type(buffer).__name__} is no C-contiguous buffer: {error}") from None


def differing(blocks: Sequence[int], expected: Sequence[int | None], actual: Sequence[int]) -> list[int]:
    """The blocks whose checksum is not the expected one."""
    return [block for block, want, got in zip(blocks, expected, actual, strict=True) if want != got]


def name_blocks(blocks: Sequence[int]) -> str:
    """`block 3`, or `blocks 3, 4, 5`; a long list is cut."""
    shown = ", ".join(str(block) for block in blocks[:8]) + (", ..." if len(blocks) > 8 else "")
    return f"block{'' if len(blocks) == 1 else 's'} {shown}"


def runs(sizes: Sequence[int], blocks: Sequence[int], bytes_max: int) -> Iterator[list[int]]:
    """`blocks` cut into runs of ascending neighbours of at most `bytes_max` bytes (a larger block is a run of its own)."""
    run: list[int] = []
    run_bytes = 0
    for block in blocks:
        if run and (block != run[-1] + 1 or run_bytes + sizes[block] > bytes_max):
            yield run
            run, run_bytes = [], 0
        run.append(block)
        run_bytes += sizes[block]
    if run:
        yield run


class SlotLedger:
    """Which instance has each slot of a slab. The allocator is the node machine's; this is the second look at its work."""

    def __init__(self) -> None:
        self._owner: dict[int, CopyId] = {}

    def claim(self, instance: Instance) -> None:
        """Note the slots of a new instance. Raises InvariantViolation if one still has the bytes of another (USE-1)."""
        for slot in instance.slots:
            owner = self._owner.get(slot)
            if owner is not None:
                raise InvariantViolation("USE-1", f"slot {slot} is given to {instance.copy} while {owner} has it")
        if len(set(instance.slots)) != len(instance.slots):
            raise InvariantViolation("USE-1", f"{instance.copy} is given one slot twice: {instance.slots}")
        for slot in instance.slots:
            self._owner[slot] = instance.copy

    def drop(self, instance: Instance) -> None:
        """Forget the slots of an instance that was claimed."""
        for slot in instance.slots:
            del self._owner[slot]
