"""What the tiers on file systems share: one file per copy, written under a temporary name and published atomically.

Publishing is: read every block back, write the header, fsync the file, rename, fsync the directory. Each step rests on the
one before, so at any instant a published name stands for whole, verified, durable bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

from attrs import define

from ..core.commands import Spec
from ..core.effects import Instance
from ..core.ids import CopyId, manifest_hash
from ..core.requests import Payload
from .blockfile import PREAMBLE_BYTES, Geometry, Header, decode, encode, geometry, header_bytes
from .checksums import checksum
from .files import Files
from .tier import (
    Damage,
    Found,
    ScanReport,
    TierCorrupt,
    TierError,
    TierIo,
    TierLost,
    TierRefused,
    check_blocks,
    check_write,
    differing,
    name_blocks,
    runs,
    same_bytes,
)

RUN_BYTES_MAX: Final = 8 << 20
"""Neighbouring blocks are read in one go up to here; it bounds the memory of a verification."""

_NAME: Final = re.compile(r"c(\d{1,19})\.(\d{1,19})\.(\d{1,19})\.(blocks|part)")


def published_name(copy: CopyId) -> str:
    """`c<shard>.<revision>.<ordinal>.blocks`"""
    return f"{copy}.blocks"


def partial_name(copy: CopyId) -> str:
    """The name while blocks arrive: `c<shard>.<revision>.<ordinal>.part`"""
    return f"{copy}.part"


def parse_name(name: str) -> tuple[CopyId, bool] | None:
    """`(copy id, published?)`, or None for a name that this tier never gives."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    copy = CopyId(int(match[1]), int(match[2]), int(match[3]))
    published = match[4] == "blocks"
    exact = published_name(copy) if published else partial_name(copy)
    return (copy, published) if exact == name else None  # leading zeros make a foreign name


@define(eq=False)
class Writing:
    """An unpublished copy: what has been written is known to this object alone, so nobody else can go on with it."""

    spec: Spec
    geometry: Geometry
    checksums: list[int | None]
    broken: str = ""
    """Why it can never be published: after a failed fsync a later one may succeed without the bytes being there."""


class FileTier:
    """A `ByteTier` over the files of one directory. Subclasses decide about room, caching, and whose the directory is."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = Lock()
        self._writing: dict[CopyId, Writing] = {}
        self._closed = False

    # -- left to subclasses --

    def _admit(self, copy: CopyId, file_bytes: int) -> None:
        """Take room for a new file, or raise TierFull."""

    def _forget(self, copy: CopyId) -> None:
        """The file of this copy is gone, or was never made."""

    def _published(self, header: Header) -> None:
        """This process has just published a copy."""

    def _header(self, copy: CopyId) -> Header:
        """The header of a published copy. Raises TierLost, TierCorrupt, TierRefused."""
        return self._read_header(copy)

    # -- the contract --

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self._open()
        views = check_write(instance, spec, blocks, checksums, data)
        checksum(spec.key.layout.checksum)  # an unknown algorithm is refused now, not when all bytes have come
        writing = self._writing_for(instance.copy, spec)
        name = partial_name(instance.copy)
        at = 0
        for run in runs(spec.sizes, blocks, RUN_BYTES_MAX):
            self._files.write(name, writing.geometry.offsets[run[0]], views[at : at + len(run)])
            at += len(run)
        for block, announced in zip(blocks, checksums, strict=True):
            writing.checksums[block] = announced

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        self._open()
        copy = instance.copy
        writing = self._writing.get(copy)
        if writing is None:
            header = self._matching(copy, spec)
            self._compare(copy, published_name(copy), header.geometry, spec, header.checksums, manifest)
            return manifest
        if not same_bytes(writing.spec, spec):
            raise TierRefused(f"{copy} is being written under another spec")
        if writing.broken:
            raise TierIo(f"{copy} can't be published any more: {writing.broken}")
        missing = [block for block, announced in enumerate(writing.checksums) if announced is None]
        if missing:
            raise TierLost(f"{name_blocks(missing)} of {copy} never came")
        actual = self._compare(copy, partial_name(copy), writing.geometry, spec, writing.checksums, manifest)
        self._publish(copy, writing, Header(copy, writing.spec, actual, manifest, writing.geometry))
        return manifest

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        self._open()
        if instance.copy in self._writing:
            raise TierLost(f"{instance.copy} is not published yet")
        header = self._matching(instance.copy, spec)
        check_blocks(instance, spec, blocks)
        function = checksum(spec.key.layout.checksum)
        data = tuple(self._read_blocks(published_name(instance.copy), header.geometry, spec.sizes, blocks))
        actual = tuple([function(view) for view in data])
        wrong = differing(blocks, [header.checksums[block] for block in blocks], actual)
        if wrong:
            raise TierCorrupt(f"{name_blocks(wrong)} of {instance.copy} changed since it was published")
        return actual, data

    def release(self, instance: Instance) -> None:
        # Not synced: a copy that a power loss brings back is whole, and its id is freed again when the scan tells it.
        self._open()
        with self._lock:
            self._writing.pop(instance.copy, None)
        self._files.remove(partial_name(instance.copy))
        self._files.remove(published_name(instance.copy))
        self._forget(instance.copy)

    def scan(self, *, verify_bytes: bool = True) -> ScanReport:
        """As the contract says; without `verify_bytes` only names, lengths and headers are read, and blocks at each load."""
        self._open()
        found: list[Found] = []
        damaged: list[Damage] = []
        refused: list[Damage] = []
        foreign: list[str] = []
        for name in self._files.names():
            parsed = parse_name(name)
            if parsed is None:
                foreign += [] if self._own_name(name) else [name]
                continue
            copy, published = parsed
            if not published:
                continue  # an unsealed copy of somebody at work: not readable, so not told
            try:
                header = self._read_header(copy)
                if verify_bytes:
                    self._compare(copy, name, header.geometry, header.spec, header.checksums, header.manifest)
            except TierLost:
                continue  # released since the names were listed
            except TierRefused as error:
                refused.append(Damage(copy, str(error)))
            except TierError as error:
                damaged.append(Damage(copy, str(error)))
            else:
                found.append(Found(copy, header.spec, header.manifest, header.checksums))
        found.sort(key=lambda each: each.copy)
        return ScanReport(tuple(found), tuple(damaged), tuple(refused), tuple(foreign))

    def copies(self) -> tuple[CopyId, ...]:
        self._open()
        parsed = [parse_name(name) for name in self._files.names()]
        return tuple(sorted({each[0] for each in parsed if each is not None}))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._files.close()

    # -- steps --

    def _open(self) -> None:
        if self._closed:
            raise TierRefused(f"this {type(self).__name__} is closed")

    def _own_name(self, name: str) -> bool:
        """Whether a name that is no copy's is the tier's own."""
        return False

    def _writing_for(self, copy: CopyId, spec: Spec) -> Writing:
        writing = self._writing.get(copy)
        if writing is not None:
            if not same_bytes(writing.spec, spec):
                raise TierRefused(f"{copy} is being written under another spec")
            return writing
        if self._files.exists(published_name(copy)):
            raise TierRefused(f"{copy} is published; it is never written again")
        where = geometry(copy, spec)
        self._admit(copy, where.file_bytes)
        try:
            self._files.create(partial_name(copy), where.file_bytes)
        except TierError:
            self._forget(copy)
            raise
        with self._lock:
            writing = self._writing[copy] = Writing(spec, where, [None] * len(spec.sizes))
        return writing

    def _publish(self, copy: CopyId, writing: Writing, header: Header) -> None:
        part, final = partial_name(copy), published_name(copy)
        renamed = False
        try:
            self._files.write(part, 0, [memoryview(encode(copy, header.spec, header.checksums, header.manifest))])
            self._files.sync(part)
            self._files.rename(part, final)
            renamed = True
            self._files.sync_directory()
        except TierError as error:
            writing.broken = str(error)
            if renamed:
                # Its name may not be durable, and nobody has been told of it. If it stays, it is whole all the same.
                with suppress(TierError):
                    self._files.remove(final)
            raise
        with self._lock:
            del self._writing[copy]
        self._published(header)

    def _read_header(self, copy: CopyId) -> Header:
        name = published_name(copy)
        length = self._files.size(name)
        if length < PREAMBLE_BYTES:
            raise TierCorrupt(f"{name} has {length} bytes; a header is longer")
        wanted = header_bytes(name, self._files.read(name, 0, PREAMBLE_BYTES))
        if length < wanted:
            raise TierCorrupt(f"{name} has {length} bytes; its header is longer")
        header = decode(name, self._files.read(name, 0, wanted), length)
        if header.copy != copy:
            raise TierCorrupt(f"{name} has the bytes of {header.copy}")
        return header

    def _matching(self, copy: CopyId, spec: Spec) -> Header:
        header = self._header(copy)
        if not same_bytes(header.spec, spec):
            raise TierRefused(f"{copy} is here under another spec")
        return header

    def _read_blocks(
        self, name: str, where: Geometry, sizes: Sequence[int], blocks: Sequence[int]
    ) -> Iterator[memoryview]:
        """Read-only views of `blocks`, in order; neighbours share one read and one buffer, which is the caller's alone."""
        for run in runs(sizes, blocks, RUN_BYTES_MAX):
            length = sum([sizes[block] for block in run])
            view = memoryview(self._files.read(name, where.offsets[run[0]], length))
            start = 0
            for block in run:
                yield view[start : start + sizes[block]]
                start += sizes[block]

    def _compare(
        self,
        copy: CopyId,
        name: str,
        where: Geometry,
        spec: Spec,
        expected: Sequence[int | None],
        manifest: bytes,
    ) -> tuple[int, ...]:
        """Read every block; their checksums, which make `manifest`. Raises TierCorrupt."""
        function = checksum(spec.key.layout.checksum)
        blocks = range(len(spec.sizes))
        actual = tuple([function(view) for view in self._read_blocks(name, where, spec.sizes, blocks)])
        if manifest_hash(spec.key.layout, spec.sizes, actual) != manifest:
            wrong = differing(blocks, expected, actual)
            raise TierCorrupt(f"{copy} is not what its manifest says" + (f": {name_blocks(wrong)}" if wrong else ""))
        return actual
