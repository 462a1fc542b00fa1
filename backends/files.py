"""One directory of files: every call that a file tier makes to the operating system, with its failures mapped to tier errors.

A port, so that a test can record the calls, kill the process between two of them, or work out what a power loss at any point
would leave behind. Names are plain file names inside the directory; every call is complete when it returns (short reads and
writes are carried on).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from .tier import TierCorrupt, TierError, TierFull, TierIo, TierLost, TierRefused

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
IOV_MAX: Final = 512
"""Buffers per system call; the kernel's limit is 1024."""


def mapped(error: OSError, what: str, *, definite: bool = True) -> TierError:
    """The tier error for an operating-system error met while doing `what`."""
    sentence = f"{what}: {error.strerror or error}"
    if error.errno in NO_ROOM:
        return TierFull(sentence)
    if error.errno == errno.ENOENT:
        return TierLost(sentence)
    return TierIo(sentence, definite=definite)


@contextmanager
def mapping(what: str, *, definite: bool = True) -> Iterator[None]:
    """Let only tier errors out of a block of system calls."""
    try:
        yield
    except OSError as error:
        raise mapped(error, what, definite=definite) from error


class Files:
    """The files of one directory, which is made if it is not there (its parent must be).

    A file that is being written stays open until it is published or removed: a write-back error is then surely told by its
    fsync, and not lost with an inode that left memory in between. So open files are as many as unpublished copies.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self._writing: dict[str, int] = {}
        self._lock_fd: int | None = None
        self._table = Lock()
        with mapping(f"making {self.directory}"):
            try:
                self.directory.mkdir()
            except FileExistsError:
                if not self.directory.is_dir():
                    raise TierRefused(f"{self.directory} is not a directory") from None

    # -- looking --

    def names(self) -> list[str]:
        """All names in the directory, sorted."""
        with mapping(f"listing {self.directory}"):
            return sorted(os.listdir(self.directory))

    def size(self, name: str) -> int:
        """Bytes of a file. Raises TierLost if there is none."""
        with mapping(f"looking at {name}"):
            return os.stat(self.directory / name).st_size

    def exists(self, name: str) -> bool:
        return os.path.lexists(self.directory / name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`. Raises TierCorrupt if the file ends before, TierLost if there is none."""
        with mapping(f"reading {name}"):
            fd = self._writing.get(name)
            if fd is not None:
                return self._read_all(fd, name, offset, length)
            fd = os.open(self.directory / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return self._read_all(fd, name, offset, length)
            finally:
                os.close(fd)

    def _read_all(self, fd: int, name: str, offset: int, length: int) -> bytes:
        # pread gives memory that nobody has zeroed before; a buffer of our own would cost a pass over it
        pieces = [os.pread(fd, length, offset)]
        done = len(pieces[0])
        while done < length:
            piece = os.pread(fd, length - done, offset + done)
            if not piece:
                raise TierCorrupt(f"{name} ends at byte {offset + done}, {length - done} bytes too early")
            pieces.append(piece)
            done += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # -- changing --

    def create(self, name: str, size: int) -> None:
        """A new file with `size` bytes of room. Raises TierFull, or TierRefused if the name is taken; nothing is left then."""
        with mapping(f"making {name}"):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                fd = os.open(self.directory / name, flags, 0o644)
            except FileExistsError:
                raise TierRefused(f"{name} is there already: another writer, or one that died") from None
            try:
                self._allocate(fd, size)
            except OSError:
                os.close(fd)
                os.unlink(self.directory / name)
                raise
        with self._table:
            self._writing[name] = fd

    def _allocate(self, fd: int, size: int) -> None:
        # Room is taken at once, so that a full disk is told before the first block and the blocks lie together.
        try:
            if size:
                os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            os.ftruncate(fd, size)

    def write(self, name: str, offset: int, buffers: Sequence[memoryview]) -> None:
        """Put the buffers one behind the other from `offset` of a file that `create` made."""
        fd = self._writing[name]
        queue = [view for view in buffers if view.nbytes]
        with mapping(f"writing {name}"):
            while queue:
                count = os.pwritev(fd, queue[:IOV_MAX], offset)
                offset += count
                while queue and count >= queue[0].nbytes:
                    count -= queue.pop(0).nbytes
                if count:
                    queue[0] = queue[0][count:]

    def sync(self, name: str) -> None:
        """Make the bytes of a file that `create` made durable. After a failure nobody knows what is on the disk."""
        with mapping(f"syncing {name}", definite=False):
            os.fsync(self._writing[name])

    def rename(self, old: str, new: str) -> None:
        """Give a file that `create` made its published name, atomically, and close it."""
        with mapping(f"publishing {new}", definite=False):
            os.rename(self.directory / old, self.directory / new)
        self._close_file(old)

    def sync_directory(self) -> None:
        """Make the names durable."""
        with mapping(f"syncing the directory {self.directory}", definite=False):
            fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def remove(self, name: str) -> bool:
        """Delete a file; False if there was none."""
        self._close_file(name)
        with mapping(f"deleting {name}"):
            try:
                os.unlink(self.directory / name)
            except FileNotFoundError:
                return False
        return True

    # -- holding the directory --

    def lock(self, name: str) -> None:
        """Hold the directory for this object, against other processes and other objects. Raises TierRefused if it is held."""
        with mapping(f"locking {self.directory}"):
            fd = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise TierRefused(
                    f"{self.directory} is in use by process {holder}; two processes can't share one SSD tier"
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd

    def close(self) -> None:
        """Close what is open; unpublished files stay where they are and are deleted when the directory is next opened."""
        for name in list(self._writing):
            self._close_file(name)
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _close_file(self, name: str) -> None:
        with self._table:
            fd = self._writing.pop(name, None)
        if fd is not None:
            os.close(fd)
