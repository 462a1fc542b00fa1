"""The reference store, in memory: what every store must do, and, on command, everything that a disk may do instead.

    store = MemoryStore(schema)                    every commit is durable when it is answered
    store = MemoryStore(schema, sync=False)        commits are durable at `sync()`; `crash` may lose the later ones, from the end
    store.inject(Fault.UNKNOWN_DONE)               the next commit happens, and nobody can tell
    store.full = True                              no room until it is False again
    store.crash()                                  what a power cut leaves; the handle is a freshly opened one

A `MemoryStore` is one handle on a `MemoryMedium`; `rival()` opens a second one, as no lock of a real disk would allow. Data are
kept in plain form, keys as encoded bytes: nothing is shared with what came in or goes out, and a copy costs a few
dictionaries of references, made when one of the two sides writes. Needs attrs and nothing else.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Self

from ..core.driver import Outcome
from ..core.effects import Write
from ..core.plain import Plain
from .base import MetadataStore, StoreClosed, StoreError, StoreFenced, StoreFull, StoreIdentity, StoreUncertain
from .shapes import Schema, Shapes, decode_key

Batch = tuple[tuple[str, bytes, Plain], ...]
"""The writes of one commit: table, key bytes without the table, plain record or None."""

Tables = dict[str, dict[bytes, Plain]]


class Fault(Enum):
    """What the next commit meets."""

    REFUSED = "nothing happens and the answer is NOT_DONE"
    UNKNOWN_DONE = "it happens and the answer is UNKNOWN"
    UNKNOWN_LOST = "nothing happens and the answer is UNKNOWN"


class MemoryMedium:
    """What would be on the disk. `tables` is what a reader sees; `durable` with the batches of `unsynced` applied gives it."""

    def __init__(self, identity: StoreIdentity, tables: Sequence[str]) -> None:
        self.identity = identity
        self.term = 0
        self.tables: Tables = {table: {} for table in tables}
        self.durable: Tables = self.tables
        self.unsynced: deque[Batch] = deque()
        self._owned: set[str] = set(tables)  # tables whose dictionary no other medium and no `durable` refers to

    def apply(self, batch: Batch) -> None:
        for table, key, frozen in batch:
            if table not in self._owned:
                self.tables[table] = dict(self.tables[table])
                self._owned.add(table)
            if frozen is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = frozen

    def mark_durable(self) -> None:
        """All that is seen is durable."""
        self.unsynced.clear()
        self.durable = dict(self.tables)
        self._owned.clear()

    def apply_unsynced(self, batch: Batch) -> None:
        if self.durable is self.tables:
            self.mark_durable()
        self.unsynced.append(batch)
        self.apply(batch)

    def lose(self, count: int) -> None:
        """Go back to what is durable and the unsynced batches but the last `count`; all that is then durable."""
        kept = list(self.unsynced)[: len(self.unsynced) - count]
        self.tables = dict(self.durable)
        self._owned.clear()
        for batch in kept:
            self.apply(batch)
        self.mark_durable()

    def copy(self) -> MemoryMedium:
        twin = MemoryMedium(self.identity, ())
        twin.term = self.term
        twin.tables = dict(self.tables)
        twin.durable = twin.tables if self.durable is self.tables else self.durable
        twin.unsynced = self.unsynced.copy()
        self._owned.clear()
        return twin


class MemoryStore(MetadataStore):
    """See the module. `check` as for `Shapes`: a model checker whose records are right by construction may leave it out."""

    def __init__(
        self,
        schema: Schema,
        *,
        owner: str = "",
        shard: int = 0,
        store_id: str = "",
        sync: bool = True,
        check: bool = True,
    ) -> None:
        self._shapes = Shapes(schema, check=check)
        identity = StoreIdentity(store_id or os.urandom(16).hex(), shard, owner, medium="memory")
        self._medium = MemoryMedium(identity, self._shapes.tables)
        self._sync = sync
        self.full = False
        self._faults: deque[Fault] = deque()
        self._open()

    def _open(self) -> None:
        self._term = 0
        self._closed = False
        self._uncertain = False
        self.failure = None

    # ---- the contract ----------------------------------------------------------------------------------------

    @property
    def identity(self) -> StoreIdentity:
        return self._medium.identity

    @property
    def term(self) -> int:
        return self._medium.term

    @property
    def tables(self) -> tuple[str, ...]:
        return self._shapes.tables

    def commit(self, writes: Sequence[Write]) -> Outcome:
        self._check_usable()
        if self._medium.term != self._term:
            raise StoreFenced(f"term {self._medium.term} has claimed this store; this handle is of term {self._term}")
        batch = self._freeze(writes)
        if not batch:
            return Outcome.DONE
        if self.full:
            return self._failed(Outcome.NOT_DONE, StoreFull("there is no room in this store"))
        fault = self._faults.popleft() if self._faults else None
        if fault is Fault.REFUSED:
            return self._failed(Outcome.NOT_DONE, StoreError("the store refused this commit, as it was told to"))
        if fault is not Fault.UNKNOWN_LOST:
            self._apply(batch)
        if fault is not None:
            self._uncertain = True
            return self._failed(Outcome.UNKNOWN, StoreUncertain("whether this commit happened is not known, as was commanded"))
        self.failure = None
        return Outcome.DONE

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        self._check_usable()
        rows = [(table, sorted(self._medium.tables[table].items())) for table in self.tables]
        return ((table, decode_key(key), self._shapes.thaw(table, frozen)) for table, items in rows for key, frozen in items)

    def fence(self, term: int) -> None:
        self._check_usable()
        if term == self._term == self._medium.term and term > 0:
            return
        if term <= self._medium.term:
            raise StoreFenced(f"term {term} is not later than term {self._medium.term}, which has claimed this store")
        self._medium.term = self._term = term

    def close(self) -> None:
        self._closed = True

    # ---- on command ------------------------------------------------------------------------------------------

    def inject(self, *faults: Fault) -> None:
        """The next commits meet these faults, in this order, one each."""
        self._faults.extend(faults)

    def sync(self) -> None:
        """Make all commits durable (`sync=False`)."""
        self._medium.mark_durable()

    @property
    def unsynced(self) -> int:
        """How many commits a crash may lose."""
        return len(self._medium.unsynced)

    def crash(self, lost: int | None = None) -> None:
        """A power cut: the last `lost` unsynced commits are gone (all of them if None), each as a whole, and this handle is a
        new one that has claimed no term. Faults that were injected and not met are forgotten."""
        count = self.unsynced if lost is None else lost
        if not 0 <= count <= self.unsynced:
            raise ValueError(f"cannot lose {lost} commits: {self.unsynced} are not durable")
        if self.unsynced:
            self._medium.lose(count)
        self._faults.clear()
        self._open()

    def reopen(self) -> None:
        """Close and open again: everything is there, no term is claimed."""
        self._open()

    def rival(self) -> Self:
        """A second handle on the same medium, as if this one's lock had been lost."""
        return self._handle(self._medium)

    def copy(self) -> Self:
        """An independent store in the same state, with this handle's term, faults and uncertainty."""
        twin = self._handle(self._medium.copy())
        twin._term, twin._closed, twin._uncertain = self._term, self._closed, self._uncertain
        twin.full = self.full
        twin.failure = self.failure
        twin._faults = self._faults.copy()
        return twin

    def frozen(self) -> tuple[Any, ...]:
        """All that a reader sees as one hashable value: `(term, ((table, ((key bytes, plain record), ...)), ...))`."""
        tables = self._medium.tables
        return self.term, tuple((table, tuple(sorted(tables[table].items()))) for table in self.tables)

    # ---- inside ----------------------------------------------------------------------------------------------

    def _handle(self, medium: MemoryMedium) -> Self:
        twin = self.__class__.__new__(self.__class__)
        twin._shapes, twin._medium, twin._sync = self._shapes, medium, self._sync
        twin.full = False
        twin._faults = deque()
        twin._open()
        return twin

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed("this store has been closed")
        if self._uncertain:
            raise StoreUncertain("the outcome of an earlier commit is not known: open the store again")

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        shapes = self._shapes
        batch = []
        for table, key, record in writes:
            data = shapes.key(table, key)[len(shapes.prefix(table)) :]
            batch.append((table, data, None if record is None else shapes.freeze(table, record)))
        return tuple(batch)

    def _apply(self, batch: Batch) -> None:
        if self._sync:
            self._medium.apply(batch)
        else:
            self._medium.apply_unsynced(batch)

    def _failed(self, outcome: Outcome, why: StoreError) -> Outcome:
        self.failure = why
        return outcome
