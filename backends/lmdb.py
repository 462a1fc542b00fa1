"""The store on one machine's disk: LMDB, one transaction for each commit, synced before it is answered.

    with LmdbStore("state/directory-0", RECORD_TYPES, owner="directory/0") as store:
        records = store.load()
        store.fence(term)
        store.commit(writes)

Three modules: this one is the contract; `lmdb_place` is the folder and the lock of its one writer; `lmdb_database` is the file.
All tables lie in LMDB's main database, apart by the prefix of their keys. Keys with a leading zero byte are the store's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..core.driver import Outcome
from ..core.effects import Write
from .base import (
    LOAD_TRIES,
    MetadataStore,
    ScanInterrupted,
    StoreDamaged,
    StoreError,
    StoreFenced,
    StoreForeign,
    StoreIdentity,
)
from .lmdb_database import Batch, Database, Overtaken, inspect, peek
from .lmdb_pages import LMDB_FORMAT
from .lmdb_place import (
    WriterLock,
    expect,
    from_os_error,
    identity_bytes,
    prepare,
    read_identity,
    sync_folder,
)
from .records import Migration, RecordCodec, seal, unseal
from .shapes import Schema

MAP_BYTES: Final = 256 * 1024 * 1024
"""The map of a new store: address space, not memory and not disk."""
MAP_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
"""How far the map may grow, by doubling; beyond it a commit is answered NOT_DONE (rule 13)."""

IDENTITY_KEY: Final = b"\0identity"
TERM_KEY: Final = b"\0term"
OPENS_KEY: Final = b"\0opens"

_handles: weakref.WeakSet[LmdbStore] = weakref.WeakSet()


class LmdbStore(MetadataStore):
    """`owner`, `shard`: whose store it must be, and for whom a new one is made; None does not care. `create`: make one where
    there is none. `readonly`: look at a store, also while its writer works, without writing or locking anything. `map_bytes`,
    `map_bytes_max`: see the constants. `check`: as for `Shapes`. `verify`: walk through the whole file first (about 2 us a
    record); without it a damaged file may end the process. `versions`, `migrations`: as for `RecordCodec`.

    Raises StoreMissing, StoreForeign, StoreVersion, StoreDenied, StoreBusy, StoreFull, StoreDamaged. None of them has changed
    what was there, and none waits for longer than LOCK_TRIES pauses.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Schema,
        *,
        owner: str | None = None,
        shard: int | None = None,
        create: bool = True,
        readonly: bool = False,
        map_bytes: int = MAP_BYTES,
        map_bytes_max: int = MAP_BYTES_MAX,
        store_id: str = "",
        check: bool = True,
        verify: bool = True,
        versions: int | Mapping[str, int] = 1,
        migrations: Mapping[tuple[str, int], Migration] | None = None,
    ) -> None:
        self._codec = RecordCodec(schema, check=check, versions=versions, migrations=migrations)
        self._path = Path(os.path.realpath(path))
        self._term = 0
        self._lock: WriterLock | None = None
        has_data = prepare(self._path, create=create and not readonly)
        try:
            if not readonly:
                self._lock = WriterLock.take(self._path)
            found = self._look(verify=verify) if has_data else None
            if found is not None:
                expect(found, self._path, owner=owner, shard=shard)
            fresh = StoreIdentity(store_id or os.urandom(16).hex(), shard or 0, owner or "", medium=f"lmdb {LMDB_FORMAT}")
            self._identity = found or fresh
            self._database = Database(self._path, map_bytes=map_bytes, map_bytes_max=map_bytes_max, readonly=readonly)
        except BaseException:
            if self._lock is not None:
                self._lock.release(forget=True)
            raise
        try:
            if not readonly:
                self._begin(new=found is None)
            _ = self.term  # a store whose term cannot be read is refused now, not at its first commit
        except BaseException:
            self.close()
            raise
        _handles.add(self)

    def _look(self, *, verify: bool) -> StoreIdentity | None:
        """The identity of the store whose data are there, read with nothing written; None if its creation was cut short."""
        readonly = self._lock is None
        alive = readonly and WriterLock.is_held(self._path)
        if not alive:  # pages change under one who takes no part in LMDB's locking
            try:
                inspect(self._path, whole=verify)
            except (StoreDamaged, StoreForeign):
                alive = readonly and WriterLock.is_held(self._path)  # a writer has come in between
                if not alive:
                    raise
        value, entries = peek(self._path, IDENTITY_KEY, alive=alive)
        if value is not None:
            return read_identity(unseal(IDENTITY_KEY, value), self._path)
        if entries == 0 and self._lock is not None and not self._lock.made:
            return None  # nothing but our lock file says whose it was to be
        raise StoreForeign(f"{self._path} holds an LMDB database that is no store of pinfold; name another folder")

    def _begin(self, *, new: bool) -> None:
        """One durable commit at each opening. If an earlier writer could not tell whether its last commit was durable, what is
        seen now is durable after this one, before anybody acts on it."""
        opens = unseal(OPENS_KEY, self._database.get(OPENS_KEY) or b"") or b"0"
        batch: dict[bytes, bytes | None] = {OPENS_KEY: seal(OPENS_KEY, b"%d" % (int(opens) + 1))}
        if new:
            batch[IDENTITY_KEY] = seal(IDENTITY_KEY, identity_bytes(self._identity))
            batch[TERM_KEY] = _sealed_term(0)
        outcome, failure = self._database.write(batch)
        if outcome is not Outcome.DONE:
            raise failure or StoreError(f"cannot write to the store in {self._path}")
        if new:
            sync_folder(self._path)

    # ---- the contract ----------------------------------------------------------------------------------------

    @property
    def identity(self) -> StoreIdentity:
        return self._identity

    @property
    def term(self) -> int:
        body = unseal(TERM_KEY, self._database.get(TERM_KEY) or b"")
        if body is None or not body.isdigit():
            raise StoreDamaged(f"the store in {self._path} is damaged: its term cannot be read")
        return int(body)

    @property
    def tables(self) -> tuple[str, ...]:
        return self._codec.shapes.tables

    def commit(self, writes: Sequence[Write]) -> Outcome:
        self._database.check(writing=True)
        batch = self._encode(writes)
        if not batch:
            return Outcome.DONE
        try:
            outcome, self.failure = self._database.write(batch, (TERM_KEY, _sealed_term(self._term)))
        except Overtaken:
            theirs = f"term {self.term} has claimed the store in {self._path}"
            raise StoreFenced(f"{theirs}; this handle is of term {self._term}") from None
        return outcome

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        self._database.check()
        return self._records()

    def fence(self, term: int) -> None:
        self._database.check(writing=True)
        stored = self.term
        if 0 < term == self._term == stored:
            return
        refusal = StoreFenced(f"term {term} is not later than term {stored}, which has claimed the store in {self._path}")
        if term <= stored:
            raise refusal
        try:
            outcome, self.failure = self._database.write({TERM_KEY: _sealed_term(term)}, (TERM_KEY, _sealed_term(stored)))
        except Overtaken:
            raise refusal from None
        if outcome is not Outcome.DONE:
            raise self.failure or StoreError(f"cannot claim the store in {self._path}")
        self._term = term

    def close(self) -> None:
        self._database.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # ---- beside the contract ---------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A consistent copy as a new store in the folder `path`, with the same identity and term, while commits go on. Every
        checksum is verified on the way. It is made beside `path` and renamed when it is durable, so that half a backup is
        never found there. Raises StoreForeign if `path` exists, StoreFull, StoreDamaged."""
        self._database.check()
        target = Path(os.path.realpath(path))
        if target.exists():
            raise StoreForeign(f"{target} exists; a backup never replaces anything")
        for attempt in range(1, LOAD_TRIES + 1):
            try:
                self._backup(target)
            except ScanInterrupted:
                if attempt == LOAD_TRIES:
                    raise
            except OSError as error:
                raise from_os_error(error, target, "write") from error
            else:
                return

    def _backup(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            self._database.copy_to(partial, lambda key, value: unseal(key, value) is not None)
            partial.rename(target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    # ---- inside ----------------------------------------------------------------------------------------------

    def _encode(self, writes: Sequence[Write]) -> Batch:
        """The last write of each key."""
        codec = self._codec
        last: dict[bytes, tuple[str, Any]] = {codec.encode_key(table, key): (table, record) for table, key, record in writes}
        return {
            key: None if record is None else codec.encode_value(key, table, record) for key, (table, record) in last.items()
        }

    def _records(self) -> Iterator[tuple[str, Any, Any]]:
        decode = self._codec.decode
        for batch in self._database.batches():
            for key, value in batch:
                if key[:1] != b"\0":
                    yield decode(key, value)


def _sealed_term(term: int) -> bytes:
    return seal(TERM_KEY, b"%d" % term)


def _after_fork_in_child() -> None:
    """A child may not keep alive what its parent opened (C89): with the lock inherited, a dead parent's store would stay locked
    as long as the child lives. Use is refused by process id."""
    for store in _handles:
        if store._lock is not None:
            store._lock.let_go()


os.register_at_fork(after_in_child=_after_fork_in_child)
