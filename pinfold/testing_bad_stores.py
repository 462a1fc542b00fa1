"""Known-bad stores, first part: what comes back is not what was committed. Each has one flaw, and the tests that must see it.

All are the reference store with one thing done as a real store would do it wrong: by a cache, a batch limit, a text encoding, a
lost error code. `BAD_STORES` in `testing_worse_stores` has both parts; `MemoryStoreKit` runs the kit on one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pinfold.backends.base import MetadataStore
from pinfold.backends.memory import Batch, Fault, MemoryStore
from pinfold.backends.shapes import decode_key
from pinfold.core.driver import Outcome
from pinfold.core.effects import Write
from pinfold.core.ids import CopyId, Tier

from .testing_stores import StoreConformance


class BadStore(MemoryStore):
    """`seen_by`: the tests of the kit that fail on it, the one that was made for it first; all others pass."""

    seen_by: ClassVar[tuple[str, ...]] = ()


class MemoryStoreKit(StoreConformance):
    """The kit over stores of class `kind`, the reference store or one made from it."""

    kind: type[MemoryStore] = MemoryStore

    @classmethod
    def over(cls, kind: type[MemoryStore]) -> Self:
        kit = cls()
        kit.kind = kind
        return kit

    def make_store(self, schema: Mapping[str, Any]) -> MetadataStore:
        return self.kind(schema)

    def reopen(self, store: Any) -> MetadataStore:
        store.reopen()
        return self._checked(store)

    def crash(self, store: Any) -> MetadataStore:
        store.crash()
        return self._checked(store)

    def usurp(self, store: Any, term: int) -> None:
        store.rival().fence(term)

    def inject(self, store: Any, fault: Fault) -> None:
        store.inject(fault)

    def _checked(self, store: Any) -> MetadataStore:
        assert isinstance(store, self.kind)
        return store


class TurnsTuplesIntoLists(BadStore):
    """Gives arrays as the decoder gives them."""

    seen_by = ("test_tuples_and_plain_types_come_back_exactly",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        for table, key, record in super().scan():
            yield table, key, list(record) if isinstance(record, tuple) else record


class LosesNone(BadStore):
    """Writes None as an empty value: no parent and an empty one become the same."""

    seen_by = ("test_records_come_back_exactly",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        for table, key, record in super().scan():
            if getattr(record, "parent", b"") is None:
                record.parent = b""
            yield table, key, record


class RoundsIntegers(BadStore):
    """Keeps numbers as 64-bit floats."""

    seen_by = ("test_integers_of_63_bits_come_back",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        for table, key, record in super().scan():
            if hasattr(record, "value"):
                record.value = int(float(record.value))
            yield table, key, record


class CutsLargeRecords(BadStore):
    """Has a column of 64 KiB, and no error for what does not fit in it."""

    seen_by = ("test_large_records_come_back",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        for table, key, record in super().scan():
            if hasattr(record, "text"):
                record.text = record.text[:65536]
            yield table, key, record


class TurnsKeysIntoText(BadStore):
    """Gives keys of bytes as text."""

    seen_by = ("test_keys_of_every_kind_come_back_with_their_types",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        for table, key, record in super().scan():
            yield table, key.decode("latin-1") if isinstance(key, bytes) else key, record


class JoinsKeys(BadStore):
    """Writes the numbers of a key one after the other: (1, 23) and (12, 3) meet."""

    seen_by = ("test_keys_that_look_alike_stay_apart",)

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        first: dict[Any, bytes] = {}
        batch = []
        for table, key, frozen in super()._freeze(writes):
            name = decode_key(key)
            joined = "".join(map(str, name)) if isinstance(name, tuple) and len(name) == 2 else key
            batch.append((table, first.setdefault((table, joined), key), frozen))
        return tuple(batch)


class ForgetsTheTable(BadStore):
    """Deletes a key in every table."""

    seen_by = ("test_tables_stay_apart",)

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        batch = super()._freeze(writes)
        return batch + tuple((table, key, None) for key in self._deleted(batch) for table in self.tables)

    def _deleted(self, batch: Batch) -> set[bytes]:
        return {key for _, key, frozen in batch if frozen is None} - {key for _, key, frozen in batch if frozen is not None}


class LeavesEmptyTablesOut(BadStore):
    """Makes a table with its first record."""

    seen_by = ("test_a_load_has_every_table",)

    def load(self) -> dict[str, dict[Any, Any]]:
        return {table: records for table, records in super().load().items() if records}


class ScansInOrderOfArrival(BadStore):
    """Gives what lies in a dictionary as it lies there."""

    seen_by = ("test_a_scan_is_in_the_stated_order",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        self._check_usable()
        rows = [(table, list(self._medium.tables[table].items())) for table in self.tables]
        return ((table, decode_key(key), self._shapes.thaw(table, frozen)) for table, items in rows for key, frozen in items)


class LosesATableOnReopening(BadStore):
    """Keeps one table in a cache that dies with the handle."""

    seen_by = ("test_everything_is_there_after_reopening",)

    def reopen(self) -> None:
        self._medium.apply(tuple(("others", key, None) for key in self._medium.tables["others"]))
        super().reopen()


class KeepsReferences(BadStore):
    """Gives the objects that were committed back from a cache."""

    seen_by = ("test_committed_records_are_not_kept", "test_loaded_records_belong_to_the_caller")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__(schema)
        self.cache: dict[Any, Any] = {}

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        self.cache.update({(table, key): record for table, key, record in writes} if outcome is Outcome.DONE else {})
        return outcome

    def load(self) -> dict[str, dict[Any, Any]]:
        found = super().load()
        return {table: {key: self.cache.get((table, key), record) for key, record in found[table].items()} for table in found}


class SharesLoadedRecords(BadStore):
    """Loads once, and gives the same objects until the next commit."""

    seen_by = ("test_loaded_records_belong_to_the_caller",)
    cache: dict[str, dict[Any, Any]] | None = None

    def _open(self) -> None:
        super()._open()
        self.cache = None

    def commit(self, writes: Sequence[Write]) -> Outcome:
        self.cache = None
        return super().commit(writes)

    def load(self) -> dict[str, dict[Any, Any]]:
        self._check_usable()
        if self.cache is None:
            self.cache = super().load()
        return self.cache


class ScansWhatIsThereNow(BadStore):
    """Walks over the keys and looks each of them up when its turn comes."""

    seen_by = ("test_a_scan_is_one_snapshot",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        self._check_usable()
        return self._look_up([(table, key) for table in self.tables for key in sorted(self._medium.tables[table])])

    def _look_up(self, keys: list[tuple[str, bytes]]) -> Iterator[tuple[str, Any, Any]]:
        for table, key in keys:
            frozen = self._medium.tables[table].get(key)
            if frozen is not None:
                yield table, decode_key(key), self._shapes.thaw(table, frozen)


class LoadsEverythingToScan(BadStore):
    """Reads the whole store before it gives the first record."""

    seen_by = ("test_a_scan_holds_a_bounded_part",)

    def scan(self) -> Iterator[tuple[str, Any, Any]]:
        rows = list(super().scan())
        for _, _, record in rows:
            if getattr(record, "data", b""):
                record.data = bytes(bytearray(record.data))  # as if it came from a disk
        return iter(rows)


class TakesAnything(BadStore):
    """Packs records without looking at them."""

    seen_by = ("test_what_could_not_come_back_is_refused",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__(schema, check=False)


class TurnsNamedKeysAway(BadStore):
    """Skips keys of any but the plain types."""

    seen_by = ("test_named_tuples_and_enums_as_keys_find_their_records",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        return super().commit([write for write in writes if not isinstance(write[1], CopyId | Tier)])


class ServesAfterClose(BadStore):
    """Opens itself again when it is used."""

    seen_by = ("test_a_closed_store_refuses",)

    def close(self) -> None:
        pass


class ChangesItsIdentity(BadStore):
    """Makes an id at each opening."""

    seen_by = ("test_the_identity_stays",)

    def _open(self) -> None:
        super()._open()
        self._medium.identity = MemoryStore({}).identity


class HasEverybodysIdentity(BadStore):
    """Has the same id wherever it is made."""

    seen_by = ("test_no_two_stores_have_one_identity",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__(schema, store_id="0" * 32)
