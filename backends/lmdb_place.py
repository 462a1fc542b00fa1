"""The folder of an LMDB store, before and beside LMDB: is there a store, whose is it, and who writes in it.

    pinfold.lock    the one writer: locked with flock(2) while it lives, holds its process id
    data.mdb        LMDB's data
    lock.mdb        LMDB's readers

The kernel drops the flock with the process that has it, so a killed writer needs no clean-up. Unlike LMDB's own fcntl locks it
also holds between two handles of one process, through any path. A forked child inherits it, and lets go of its end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Final

import attrs

from .base import (
    STORE_FORMAT,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreIdentity,
    StoreMissing,
    StoreVersion,
)

LOCK_NAME: Final = "pinfold.lock"
DATA_NAME: Final = "data.mdb"
READERS_NAME: Final = "lock.mdb"
OURS: Final = frozenset((LOCK_NAME, DATA_NAME, READERS_NAME, "lost+found"))
"""What a folder may hold in which a store is made: our own files of a creation that was cut short, and an empty disk's."""

NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
DENIED: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))

LOCK_TRIES: Final = 3
LOCK_PAUSE_S: Final = 0.02


def from_os_error(error: OSError, path: Path, doing: str) -> StoreError:
    """The typed error for what the operating system said while `doing` something at `path`."""
    what = f"cannot {doing} {path}: {error.strerror}"
    if error.errno in NO_ROOM:
        return StoreFull(what)
    if error.errno in DENIED:
        return StoreDenied(what)
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreForeign(what)
    if error.errno == errno.ENOENT:
        return StoreMissing(what)
    return StoreError(what)


# ---- the one writer ------------------------------------------------------------------------------------------


class WriterLock:
    """Held from `take` to `release` or the end of the process, whichever comes first."""

    def __init__(self, descriptor: int, path: Path, *, made: bool) -> None:
        self.made = made
        """Whether the lock file was not there before: then this folder was no store of ours."""
        self._descriptor = descriptor
        self._path = path

    @classmethod
    def take(cls, folder: Path) -> WriterLock:
        """Raises StoreBusy, with the holder's process id, at once if it is held; StoreDenied, StoreFull."""
        path = folder / LOCK_NAME
        try:
            while True:
                made = not path.exists()
                lock = cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640), path, made=made)
                if not _flock(lock._descriptor, fcntl.LOCK_EX):
                    holder = os.pread(lock._descriptor, 32, 0).decode("ascii", "replace").strip()
                    whose = "this process" if holder == str(os.getpid()) else f"process {holder or 'unknown'}"
                    raise StoreBusy(f"the store in {folder} is open for writing in {whose}; a store has one writer")
                if lock._is_at_its_path():
                    os.ftruncate(lock._descriptor, 0)
                    os.pwrite(lock._descriptor, b"%d\n" % os.getpid(), 0)
                    return lock
        except OSError as error:
            raise from_os_error(error, path, "lock") from error

    def _is_at_its_path(self) -> bool:
        """False if the file was taken away (`forget`) between opening and locking: others would lock another one."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    @staticmethod
    def is_held(folder: Path) -> bool:
        """Whether somebody writes in `folder` now. Raises StoreDenied."""
        path = folder / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise from_os_error(error, path, "open") from error
        try:
            return not _flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def release(self, *, forget: bool = False) -> None:
        """Idempotent. `forget`: take a lock file away that `take` made, because the folder is not ours."""
        if self._descriptor >= 0:
            if forget and self.made:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            self.let_go()

    def let_go(self) -> None:
        """Close this process's end. In a forked child the parent still holds the lock through its own."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.let_go()


def _flock(descriptor: int, kind: int) -> bool:
    """Lock, or say no after LOCK_TRIES: a holder that only looks (`is_held`), or is just ending, is gone by then."""
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt < LOCK_TRIES - 1:
                time.sleep(LOCK_PAUSE_S)
    return False


# ---- the folder ----------------------------------------------------------------------------------------------


def prepare(folder: Path, *, create: bool) -> bool:
    """Make sure that there is a folder in which a store is or may be made. Returns whether there is data in it.

    Raises StoreMissing, StoreForeign, StoreDenied, StoreFull. Makes nothing but the folder itself.
    """
    try:
        if not folder.exists():
            if not create:
                raise StoreMissing(f"there is no store in {folder}")
            folder.mkdir(mode=0o750, parents=True)
            sync_folder(folder.parent)
        if not folder.is_dir():
            raise StoreForeign(f"{folder} is not a folder, so it holds no store")
        names = sorted(os.listdir(folder))
        data = folder / DATA_NAME
        if data.exists() and not data.is_file():
            raise StoreForeign(f"{data} is not a file, so {folder} holds no store")
        if data.exists() and data.stat().st_size > 0:
            return True
    except OSError as error:
        raise from_os_error(error, folder, "use") from error
    foreign = [name for name in names if name not in OURS]
    if foreign:
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise StoreForeign(f"{folder} holds other files ({shown}) and no store; name an empty folder")
    if not create:
        raise StoreMissing(f"there is no store in {folder}")
    return False


def free_bytes(folder: Path) -> int:
    """Room that is left where `folder` is; very much if nobody can tell."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 1 << 62
    return found.f_bavail * found.f_frsize


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a file that was synced can still be lost with its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- identity ------------------------------------------------------------------------------------------------


def identity_bytes(identity: StoreIdentity) -> bytes:
    """Text, so that every later format, and a person, can read whose store it is."""
    return json.dumps({"pinfold": "store", **attrs.asdict(identity)}, sort_keys=True).encode()


def read_identity(body: bytes | None, path: Path) -> StoreIdentity:
    """Raises StoreDamaged, StoreVersion."""
    try:
        fields = json.loads(body or b"")
        if fields["format"] != STORE_FORMAT:
            raise StoreVersion(f"the store in {path} has format {fields['format']}; this pinfold reads format {STORE_FORMAT}")
        return StoreIdentity(**{field.name: fields[field.name] for field in attrs.fields(StoreIdentity)})
    except (ValueError, KeyError, TypeError):
        raise StoreDamaged(f"the store in {path} is damaged: its identity cannot be read") from None


def expect(identity: StoreIdentity, path: Path, *, owner: str | None, shard: int | None) -> None:
    """Raises StoreForeign if the store is another's than the caller expects (None: it does not care)."""
    if owner is not None and identity.owner != owner:
        raise StoreForeign(f"the store in {path} belongs to {identity.owner or 'nobody'}, not to {owner}")
    if shard is not None and identity.shard != shard:
        raise StoreForeign(f"the store in {path} is of shard {identity.shard}, not of shard {shard}")
