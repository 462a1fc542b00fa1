"""An LMDB file as a set of byte entries: written in whole batches, read by snapshots. The only user of the lmdb library.

What LMDB leaves to its user is done here (cases C88-C92). The map is never writable, so that a full disk is an error and not a
bus error. It grows with no transaction open; snapshots are ended first. A handle that was carried over a fork refuses. Files
are verified without LMDB before LMDB may trust them. Every error of the library leaves as one of `base`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..core.driver import Outcome
from .base import (
    ScanInterrupted,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLibraryMissing,
    StoreUncertain,
    StoreVersion,
)
from .lmdb_pages import check_length, read_header
from .lmdb_place import DATA_NAME, DENIED, NO_ROOM, READERS_NAME, free_bytes, from_os_error, sync_folder

try:
    import lmdb
    import lmdb.verify
except ImportError:
    raise StoreLibraryMissing("the LMDB store needs py-lmdb 3.0 or newer: pip install 'pinfold[server]'") from None

SCAN_ROWS: Final = 256
SCAN_BYTES: Final = 1024 * 1024
"""A snapshot is read about this many rows, or bytes of values, at a time."""
ROOM_BYTES: Final = 1024 * 1024
"""A failure to write with less than this free is taken for a full disk: a short write has no error number of its own."""

LIBRARY: Final = 0
"""py-lmdb's name for the LMDB of file format 0.9. Files that exist decide for themselves; new ones follow this."""

Batch = Mapping[bytes, bytes | None]
"""Key -> value, or None to delete."""


class Overtaken(Exception):
    """Raised by `write` when the entry of `only_if` has another value, `found`. Nothing was written."""

    def __init__(self, found: bytes | None) -> None:
        super().__init__("another writer changed the entry")
        self.found = found


def inspect(folder: Path, *, whole: bool) -> None:
    """Read the file without LMDB, `whole`: every page of it. Raises StoreForeign, StoreVersion, StoreDamaged."""
    data = folder / DATA_NAME
    header = read_header(data)
    if not whole:
        return
    verify: Callable[[str], list[str]] = lmdb.verify.verify
    try:
        problems = verify(str(folder))
    except (lmdb.verify.VerifyError, OSError) as error:
        raise StoreDamaged(f"the store in {folder} is damaged: {error}") from error
    # Pages that nothing refers to waste room and endanger nothing.
    problems = [problem for problem in problems if "neither reachable" not in problem]
    if problems:
        raise StoreDamaged(f"the store in {folder} is damaged: {problems[0]} ({len(problems)} problems in all)")
    check_length(data, header)


def peek(folder: Path, key: bytes, *, alive: bool) -> tuple[bytes | None, int]:
    """The value of `key` and the number of entries, with nothing written. `alive`: a writer is at work, so take part in LMDB's
    locking; otherwise not even a lock file is made."""
    try:
        with lmdb.open(str(folder), readonly=True, lock=alive, create=False, lib_version=LIBRARY) as env, env.begin() as reader:
            return reader.get(key), reader.stat()["entries"]
    except (lmdb.Error, OSError) as error:
        raise translated(error, folder, "read") from error


def translated(error: Exception, folder: Path, doing: str, size: int = 0) -> StoreError:
    """The typed error for what LMDB or the operating system said; `size`: bytes that were to be written."""
    if isinstance(error, OSError):
        return from_os_error(error, folder, doing)
    what = f"cannot {doing} the store in {folder}: {error}"
    code = getattr(error, "code", 0)
    if "already open in this process" in str(error):
        return StoreBusy(f"the store in {folder} is open in this process; a process has one handle on a store")
    if isinstance(error, lmdb.VersionMismatchError):
        return StoreVersion(what)
    if isinstance(error, lmdb.InvalidError):
        return StoreForeign(what)
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.PanicError):
        return StoreDamaged(what)
    if code in DENIED or isinstance(error, lmdb.ReadonlyError):
        return StoreDenied(what)
    if code in NO_ROOM or isinstance(error, lmdb.MapFullError) or free_bytes(folder) < size + ROOM_BYTES:
        return StoreFull(what)
    return StoreError(what)


class _Reader:
    """One snapshot that is being read. `cut`: it was ended because the map had to grow."""

    def __init__(self, transaction: Any) -> None:
        self.transaction = transaction
        self.rows = transaction.cursor().iternext()
        self.count = 0
        self.cut = False


class Database:
    """One open file. Sizes in bytes. Raises StoreDenied, StoreBusy, StoreFull, StoreForeign when it cannot be opened."""

    def __init__(self, folder: Path, *, map_bytes: int, map_bytes_max: int, readonly: bool) -> None:
        self.folder = folder
        self._readonly = readonly
        self._map_bytes_max = map_bytes_max
        self._pid = os.getpid()
        self._uncertain = False
        self._readers: list[_Reader] = []
        # Re-entrant: a scan that is dropped half-way may be closed by the garbage collector in the middle of a commit.
        self._gate = threading.RLock()
        self._env: Any = None
        try:
            self._env = lmdb.open(
                str(folder),
                map_size=map_bytes,
                readonly=readonly,
                create=not readonly,
                writemap=False,  # C92: with a writable map a full disk kills the process
                mode=0o640,
                lib_version=LIBRARY,
            )
            # Slots of readers that died would keep old pages from being used again.
            self._env.reader_check()
        except (lmdb.Error, OSError) as error:
            self.close()
            raise translated(error, folder, "open") from error

    @property
    def map_bytes(self) -> int:
        return int(self._env.info()["map_size"])

    @property
    def synced(self) -> bool:
        """Whether LMDB syncs data and meta pages at each commit."""
        flags = self._env.flags()
        return bool(flags["sync"] and flags["metasync"] and not flags["writemap"])

    def check(self, *, writing: bool = False) -> None:
        """Raises StoreClosed or StoreUncertain if this handle may not be used (for writing)."""
        if os.getpid() != self._pid:
            raise StoreClosed(f"the store in {self.folder} was opened by process {self._pid}; a forked child opens its own")
        if self._env is None:
            raise StoreClosed(f"the store in {self.folder} has been closed")
        if self._uncertain:
            raise StoreUncertain(f"an outcome in the store in {self.folder} is not known: open the store again")
        if writing and self._readonly:
            raise StoreClosed(f"the store in {self.folder} was opened for reading only")

    def close(self) -> None:
        """Idempotent. In a forked child it does nothing: what was inherited is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._gate:
            self._end_readers()
            env, self._env = self._env, None
            if env is not None:
                env.close()

    def get(self, key: bytes) -> bytes | None:
        with self._gate:
            self.check()
            try:
                with self._begin() as transaction:
                    value: bytes | None = transaction.get(key)
                    return value
            except lmdb.Error as error:
                raise translated(error, self.folder, "read") from error

    # ---- writing ---------------------------------------------------------------------------------------------

    def write(self, batch: Batch, only_if: tuple[bytes, bytes] | None = None) -> tuple[Outcome, StoreError | None]:
        """All of `batch` or nothing, durable when DONE; the error says why it was not. `only_if`: an entry that must have this
        value in the same transaction. Raises Overtaken, StoreClosed, StoreUncertain."""
        with self._gate:
            self.check(writing=True)
            while True:
                try:
                    return self._write(batch, only_if)
                except lmdb.MapResizedError:
                    self._env.set_mapsize(0)  # another process made it larger: adopt that (C88)
                except lmdb.MapFullError:
                    if not self._grow():
                        limit = f"{self.map_bytes} bytes (limit {self._map_bytes_max})"
                        return Outcome.NOT_DONE, StoreFull(f"the map of the store in {self.folder} cannot grow from {limit}")

    def _write(self, batch: Batch, only_if: tuple[bytes, bytes] | None) -> tuple[Outcome, StoreError | None]:
        before = self._env.info()["last_txnid"]
        try:
            transaction = self._env.begin(write=True)
            try:
                if only_if is not None and transaction.get(only_if[0]) != only_if[1]:
                    raise Overtaken(transaction.get(only_if[0]))
                for key, value in batch.items():
                    if value is None:
                        transaction.delete(key)
                    else:
                        transaction.put(key, value)
            except BaseException:
                # As a whole, before anything else: the map may not grow under an open transaction (C88).
                transaction.abort()
                raise
        except (lmdb.MapFullError, lmdb.MapResizedError):
            raise
        except lmdb.Error as error:
            return Outcome.NOT_DONE, translated(error, self.folder, "write to")
        try:
            transaction.commit()
        except lmdb.MapFullError:
            raise
        except lmdb.Error as error:
            return self._judge(error, before, sum(len(value or b"") for value in batch.values()))
        return Outcome.DONE, None

    def _judge(self, error: Exception, before: int, size: int) -> tuple[Outcome, StoreError]:
        """What a commit that failed has come to. LMDB writes the pages, syncs them, and only then writes the meta page that
        makes them count. A failure up to there leaves the store as it was: pages that nothing refers to are written anew by
        the next commit, whatever became of them. After a failure of the meta page LMDB refuses all that follows: so the two
        are told apart. The error number does not tell, since a full disk may answer with a short write (EIO)."""
        failure = translated(error, self.folder, "write to", size)
        try:
            self._env.begin(write=True).abort()
            if self._env.info()["last_txnid"] == before:
                return Outcome.NOT_DONE, failure
        except lmdb.Error:
            pass  # LMDB refuses: the meta page
        self._uncertain = True
        return Outcome.UNKNOWN, StoreUncertain(f"whether the last commit is durable is not known: {failure}")

    def _grow(self) -> bool:
        """Double the map; False at the limit. No writing transaction is open; snapshots are ended, since the map moves."""
        size = self.map_bytes
        if size >= self._map_bytes_max:
            return False
        for reader in self._readers:
            reader.cut = True
        self._end_readers()
        try:
            self._env.reader_check()
            self._env.set_mapsize(min(2 * size, self._map_bytes_max))
        except (lmdb.Error, OSError):
            return False  # no address space: the limit came earlier than was set
        return True

    # ---- reading ---------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All entries of one snapshot in key order, a bounded list at a time; commits go on in between. Raises ScanInterrupted
        when the map had to grow, StoreDamaged when entries are missing."""
        with self._gate:
            reader = self._begin_reading()
        try:
            while True:
                with self._gate:
                    self.check()
                    if reader.cut:
                        raise ScanInterrupted(f"the store in {self.folder} had to grow during this scan; start it again")
                    batch = self._next_batch(reader)
                if not batch:
                    return
                yield batch
        except lmdb.Error as error:
            raise translated(error, self.folder, "read") from error
        finally:
            if os.getpid() == self._pid:
                with self._gate:
                    if reader in self._readers:
                        self._readers.remove(reader)
                        reader.transaction.abort()

    def _begin_reading(self) -> _Reader:
        self.check()
        used = self._env.info()["last_pgno"] * self._env.stat()["psize"]
        if not self._readonly and not self._readers and 2 * used > self.map_bytes:
            self._grow()  # before the snapshot, so that growth is not likely to end it
        reader = _Reader(self._begin())
        self._readers.append(reader)
        return reader

    def _begin(self) -> Any:
        try:
            return self._env.begin()
        except lmdb.MapResizedError:
            for reader in self._readers:
                reader.cut = True
            self._end_readers()
            self._env.set_mapsize(0)
            return self._env.begin()

    def _next_batch(self, reader: _Reader) -> list[tuple[bytes, bytes]]:
        batch: list[tuple[bytes, bytes]] = []
        size = 0
        for row in reader.rows:
            batch.append(row)
            size += len(row[1])
            if len(batch) >= SCAN_ROWS or size >= SCAN_BYTES:
                break
        reader.count += len(batch)
        if not batch and reader.count != reader.transaction.stat()["entries"]:
            raise StoreDamaged(f"the store in {self.folder} is damaged: a scan found {reader.count} entries, not all there are")
        return batch

    def _end_readers(self) -> None:
        for reader in self._readers:
            reader.transaction.abort()
        self._readers.clear()

    # ---- copying ---------------------------------------------------------------------------------------------

    def copy_to(self, folder: Path, intact: Callable[[bytes, bytes], bool]) -> None:
        """Write one snapshot, durably, as a new file in the empty `folder`. Raises StoreDamaged at the first entry that is not
        `intact`, and as `batches`."""
        try:
            with lmdb.open(str(folder), map_size=self.map_bytes, mode=0o640, sync=False, lib_version=LIBRARY) as env:
                for batch in self.batches():
                    with env.begin(write=True) as transaction:
                        for key, value in batch:
                            if not intact(key, value):
                                raise StoreDamaged(f"the entry {key!r} in {self.folder} is damaged; no copy was made")
                            transaction.put(key, value, append=True)
                env.sync(True)
            (folder / READERS_NAME).unlink(missing_ok=True)
            sync_folder(folder)
        except (lmdb.Error, OSError) as error:
            raise translated(error, folder, "write to") from error
