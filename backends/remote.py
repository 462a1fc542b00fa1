"""The remote store: a directory that all nodes share, with the SSD tier's file format. Object name = copy id."""

from __future__ import annotations

from pathlib import Path

from ..core.ids import CopyId
from .files import Files
from .filetier import FileTier, parse_name
from .tier import TierFull, TierLost


class RemoteDirectoryStore(FileTier):
    """Objects in `directory`, which any number of processes use at once. Nothing is cached: others publish and delete.

    A copy id has one worker, so two writers of one object do not occur; should they, the second is refused. A worker that dies
    leaves an unpublished object: nobody can read it, `copies` names it, and the steward releases it (rule 8). Opening and
    scanning delete nothing: the unpublished objects of the living look the same.

    `capacity_bytes` bounds the sum of lengths as listed when an object is begun. Processes that begin at the same instant may
    pass it together: it is a guard against a full disk, and the directory's reservations are the account.
    """

    def __init__(
        self, directory: Path, *, capacity_bytes: int | None = None, files: Files | None = None
    ) -> None:
        super().__init__(Files(directory) if files is None else files)
        self.capacity_bytes = capacity_bytes

    @property
    def used_bytes(self) -> int:
        """The sum of the lengths of all objects now, read from the directory."""
        total = 0
        for name in self._files.names():
            if parse_name(name) is not None:
                try:
                    total += self._files.size(name)
                except TierLost:
                    continue  # deleted or published under its new name since the names were listed
        return total

    def _admit(self, copy: CopyId, file_bytes: int) -> None:
        if self.capacity_bytes is None:
            return
        used_bytes = self.used_bytes
        if used_bytes + file_bytes > self.capacity_bytes:
            raise TierFull(f"{copy} needs {file_bytes} bytes; {used_bytes} of {self.capacity_bytes} are in use")
