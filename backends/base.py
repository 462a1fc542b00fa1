"""The contract of a metadata store: durable records, committed whole, given back exactly.

    MetadataStore     what a store must and should do; the driver asks for `commit` and `load` alone
    StoreIdentity     which store this is, so that two stores are never taken for each other

    StoreError (a WorldError)       the store cannot serve                       exit code
    |-- StoreMissing                nothing is there                                     6
    |-- StoreForeign                something that is not ours is there                  2
    |-- StoreVersion                another format, and no way to read it                2
    |-- StoreDenied                 permissions                                          2
    |-- StoreLibraryMissing         an extra is not installed                            2
    |-- StoreBusy                   another writer has it                                1
    |-- StoreFull                   no room                                              1
    |-- StoreDamaged                what is there is not what was written                1
    |-- StoreUnfit                  a write that could not be given back                 1
    |-- StoreClosed                 the handle is closed, read-only, or of a parent      1
    |-- ScanInterrupted             start the scan again                                 1
    |-- StoreFenced                 a later term has taken over                          5
    `-- StoreUncertain              an outcome was unknown: open the store again         3

A commit fails in two ways. What another try, more room or a restart may mend is an `Outcome`, and `failure` says why. What
they cannot mend (a write that does not fit, a deposed or closed handle) is raised, and then surely nothing has happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from attrs import define

from ..core.driver import Outcome
from ..core.effects import Write
from ..core.errors import WorldError

STORE_FORMAT: Final = 1
"""How tables, keys and records lie in a store. A store of a higher format is refused, never guessed at."""

LOAD_TRIES: Final = 3
"""How often `load` starts again when its scan was interrupted."""


class StoreError(WorldError):
    """Raised when a store cannot serve. Each subclass names one cause; the message is one sentence for an operator."""


class StoreMissing(StoreError):
    """Raised when there is no store where one was expected, and none was to be made."""

    exit_code = 6


class StoreForeign(StoreError):
    """Raised when the place holds something else: other files, another program's database, another shard's or owner's store.
    Nothing was written there."""

    exit_code = 2


class StoreVersion(StoreError):
    """Raised when the store or a record has a format that this pinfold cannot read. Nothing was changed."""

    exit_code = 2


class StoreDenied(StoreError):
    """Raised when the operating system refuses access."""

    exit_code = 2


class StoreLibraryMissing(StoreError, ImportError):
    """Raised when the library of a store is not installed; the message names the extra."""

    exit_code = 2


class StoreBusy(StoreError):
    """Raised when another writer, in this process or another, has the store open. Never waits for it."""


class StoreFull(StoreError):
    """Raised, or kept in `failure`, when there was no room. Nothing of the commit happened; it may be tried again."""


class StoreDamaged(StoreError):
    """Raised when what is stored is not what was written. Names table and key where they are known. A damaged store is never
    served in part: restore a backup, or look at it with tools."""


class StoreUnfit(StoreError):
    """Raised when a write names an unknown table, a key or a record that could not be given back exactly. The caller's bug;
    nothing of the commit happened."""


class StoreClosed(StoreError):
    """Raised when a handle is used after `close`, for writing when it was opened for reading, or in a forked child."""


class ScanInterrupted(StoreError):
    """Raised by a scan when the store had to end its snapshot (it made room for a commit). Start again."""


class StoreFenced(StoreError):
    """Raised when a later term has claimed the store, or when a term to be claimed is not later. The handle is deposed."""

    exit_code = 5


class StoreUncertain(StoreError):
    """Raised by every call after an unknown outcome: only opening the store again tells what happened (rule 10)."""

    exit_code = 3

    def __init__(self, message: str) -> None:
        super().__init__(message, definite=False)


@define(frozen=True)
class StoreIdentity:
    """Which store this is. `store_id`: 32 hex digits, made once, the same for its whole life (a backup keeps it). `owner`: the
    peer name of the machine whose state it is, or "". `medium`: what holds the bytes, with its file format."""

    store_id: str
    shard: int = 0
    owner: str = ""
    format: int = STORE_FORMAT
    medium: str = ""


class MetadataStore(ABC):
    """Durable records in named tables. One handle is one writer; `pinfold.testing.StoreConformance` holds it to this contract.

    Keys are str, bytes, int of 64 bits, or a tuple of such ints. A record is an attrs object of its table's class, or, where
    the schema says `tuple`, a tuple of plain values. All methods may be called from any thread, one at a time.
    """

    @property
    @abstractmethod
    def identity(self) -> StoreIdentity:
        """Must be the same at each opening of the same store."""

    @property
    @abstractmethod
    def term(self) -> int:
        """The highest term that was ever claimed here; 0 before the first. Must never go back (EPOCH-1)."""

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The tables of the schema, by name."""

    failure: StoreError | None = None
    """Why the last commit was not DONE; None after one that was."""

    @abstractmethod
    def commit(self, writes: Sequence[Write]) -> Outcome:
        """Put and delete records, all or nothing, in order: of several writes to one key the last counts.

        Must: be atomic over any crash; answer DONE only when the commit is durable (DUR-1), NOT_DONE only when surely nothing
        of it is or will be there, UNKNOWN otherwise, and refuse all later calls after UNKNOWN; keep no reference to a record;
        check in the same transaction that no other handle has claimed a term since this one did (FENCE-1). An empty commit is
        DONE. Deleting what is not there is no error. Should: take 10,000 writes in one commit.

        Raises StoreUnfit, StoreFenced, StoreClosed, StoreUncertain; in each case nothing has happened.
        """

    @abstractmethod
    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        """Each `(table, key, record)` of one snapshot, tables by name, keys in the order of `shapes.encode_key`.

        Must: give back exactly what was committed, with its types (named tuples and enums in keys come as tuples and ints), as
        new objects each time; fail rather than leave a record out. Should: hold a bounded part of the store in memory.

        Raises StoreDamaged, StoreVersion, StoreClosed, StoreUncertain, ScanInterrupted.
        """

    @abstractmethod
    def fence(self, term: int) -> None:
        """Claim `term` for this handle, durably; from then on it alone commits. Claiming its own term again changes nothing.

        Must refuse a term that is not higher than every claimed one (StoreFenced): two starters that read the same state
        choose the same term, and only one may have it. A handle that has claimed none commits only while nobody has.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the store up. Must be idempotent, and must not be needed for durability."""

    def load(self) -> dict[str, dict[Any, Any]]:
        """All records by table and key, with a dictionary for each table of the schema. Errors as `scan`."""
        attempt = 1
        while True:
            found: dict[str, dict[Any, Any]] = {table: {} for table in self.tables}
            try:
                for table, key, record in self.scan():
                    found[table][key] = record
                return found
            except ScanInterrupted:
                if attempt == LOAD_TRIES:
                    raise
            attempt += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
