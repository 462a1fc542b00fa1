"""The SSD tier: a directory that one process has to itself, one file per copy, each group contiguous (format: `blockfile.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import evolve

from ..core.ids import CopyId
from .blockfile import Header
from .files import Files
from .filetier import FileTier, parse_name
from .tier import ScanReport, TierFull

LOCK_NAME: Final = "lock"


class SsdTier(FileTier):
    """Bytes that survive their process. Opening takes the directory's lock and deletes unpublished files: their writer is dead.

    `capacity_bytes` bounds the sum of file lengths; None leaves it to the disk. A copy's length is its blocks plus a header
    of 4096 bytes or a little more: `blockfile.geometry(copy, spec).file_bytes` is exact. Raises TierRefused when another
    process has the directory, TierIo when it can't be used.

    Headers of published copies are kept in memory; the bytes are read, and verified, at every load. Reads go through the
    page cache, so verification before publishing proves what the kernel has, and the fsync that follows is what the disk says.
    """

    def __init__(
        self, directory: Path, *, capacity_bytes: int | None = None, files: Files | None = None
    ) -> None:
        super().__init__(Files(directory) if files is None else files)
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        """The sum of the lengths of all copies' files, damaged and unpublished ones too."""
        self._sizes: dict[CopyId, int] = {}
        self._headers: dict[CopyId, Header] = {}
        self._removed: list[str] = []
        self._files.lock(LOCK_NAME)
        try:
            self._take_stock()
        except BaseException:
            self.close()
            raise

    def scan(self, *, verify_bytes: bool = True) -> ScanReport:
        report = super().scan(verify_bytes=verify_bytes)
        removed, self._removed = tuple(self._removed), []
        return evolve(report, removed=removed)

    def _take_stock(self) -> None:
        for name in self._files.names():
            parsed = parse_name(name)
            if parsed is None:
                continue
            copy, published = parsed
            if published:
                self._sizes[copy] = self._files.size(name)
                self.used_bytes += self._sizes[copy]
            else:
                self._files.remove(name)
                self._removed.append(name)

    def _own_name(self, name: str) -> bool:
        return name == LOCK_NAME

    def _admit(self, copy: CopyId, file_bytes: int) -> None:
        with self._lock:
            if self.capacity_bytes is not None and self.used_bytes + file_bytes > self.capacity_bytes:
                raise TierFull(
                    f"{copy} needs {file_bytes} bytes; {self.used_bytes} of {self.capacity_bytes} are in use"
                )
            self._sizes[copy] = file_bytes
            self.used_bytes += file_bytes

    def _forget(self, copy: CopyId) -> None:
        with self._lock:
            self.used_bytes -= self._sizes.pop(copy, 0)
            self._headers.pop(copy, None)

    def _published(self, header: Header) -> None:
        with self._lock:
            self._headers[header.copy] = header

    def _header(self, copy: CopyId) -> Header:
        header = self._headers.get(copy)
        if header is None:
            header = self._read_header(copy)
            self._published(header)
        return header
