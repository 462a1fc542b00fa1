"""The conformance kit for stores, first part: what is committed is what comes back, and nothing else is shared or kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from pinfold.backends.base import ScanInterrupted, StoreError, StoreUnfit
from pinfold.core.ids import CopyId, Tier

from .testing_records import FACTS, INTEGERS, KEYS, KIT_SCHEMA, ORDERED_KEYS, SAMPLES, Sample, Small
from .testing_store_tools import StoreKit, check, refused, typed

LARGE_COMMIT: Final = 3000
SCAN_RECORDS: Final = 1500
SCAN_RECORD_BYTES: Final = 8192
SCAN_SHARE: Final = 3
"""A scan may hold a third of what the store holds, at most."""


class StoreContents(StoreKit):
    """Exactness, order, isolation. See `testing_stores`."""

    # ---- exactly what was committed --------------------------------------------------------------------------

    def test_records_come_back_exactly(self) -> None:
        with self.new() as store:
            self.put(store, *(("samples", key, record) for key, record in SAMPLES.items()))
            self.holds(store, "samples", SAMPLES, "after a commit")

    def test_tuples_and_plain_types_come_back_exactly(self) -> None:
        with self.new() as store:
            self.put(store, *(("facts", key, record) for key, record in FACTS.items()))
            self.holds(store, "facts", FACTS, "after a commit")

    def test_integers_of_63_bits_come_back(self) -> None:
        with self.new() as store:
            self.put(store, *(("small", n, Small(number)) for n, number in enumerate(INTEGERS)))
            got = [record.value for _, _, record in store.scan()]
            check(got == list(INTEGERS), f"{got} instead of {list(INTEGERS)}")

    def test_everything_is_there_after_reopening(self) -> None:
        store = self.new()
        self.put(store, ("small", 1, Small(1)), ("others", 1, Small(2)))
        with self.reopen(store) as again:
            self.holds(again, "small", {1: Small(1)}, "after reopening")
            self.holds(again, "others", {1: Small(2)}, "after reopening")

    def test_keys_of_every_kind_come_back_with_their_types(self) -> None:
        with self.new() as store:
            keys: tuple[Any, ...] = ("a", b"a", 5, (5, 6))
            self.put(store, *(("small", key, Small(1)) for key in keys))
            got = {typed(key) for _, key, _ in store.scan()}
            check(got == {typed(key) for key in keys}, f"keys came back as {got}")

    def test_named_tuples_and_enums_as_keys_find_their_records(self) -> None:
        with self.new() as store:
            self.put(store, ("small", CopyId(1, 2, 3), Small(1)), ("small", Tier.SSD, Small(2)))
            self.holds(store, "small", {(1, 2, 3): Small(1), 2: Small(2)}, "keys of an int's or tuple's subclass")

    def test_keys_that_look_alike_stay_apart(self) -> None:
        with self.new() as store:
            self.put(store, *(("small", key, Small(number)) for number, key in enumerate(KEYS)))
            got = sorted(record.value for _, _, record in store.scan())
            check(got == list(range(len(KEYS))), f"{len(KEYS)} keys, and these records are left: {got}")

    def test_tables_stay_apart(self) -> None:
        with self.new() as store:
            self.put(store, ("small", 1, Small(1)), ("others", 1, Small(2)))
            self.put(store, ("small", 1, None))
            self.holds(store, "small", {}, "deleted in this table")
            self.holds(store, "others", {1: Small(2)}, "the same key in another table")

    def test_a_load_has_every_table(self) -> None:
        with self.new() as store:
            check(list(store.load()) == sorted(KIT_SCHEMA), f"tables of an empty store: {list(store.load())}")

    def test_a_scan_is_in_the_stated_order(self) -> None:
        with self.new() as store:
            keys = [key for kind in ORDERED_KEYS for key in kind]
            shuffled = sorted(range(len(keys)), key=lambda n: (n * 7919) % len(keys))
            self.put(store, *(("others", keys[n], Small(n)) for n in shuffled))
            self.put(store, *(("small", keys[n], Small(n)) for n in reversed(shuffled)))
            got = [(table, record.value) for table, _, record in store.scan()]
            wanted = [(table, n) for table in ("others", "small") for n in range(len(keys))]
            check(got == wanted, f"order of a scan: {got}")

    def test_large_records_come_back(self) -> None:
        with self.new() as store:
            data = bytes(range(256)) * 4096
            self.put(store, ("small", 1, Small(1, "t" * 70_000, data)))
            self.holds(store, "small", {1: Small(1, "t" * 70_000, data)}, "a record of 1 MiB")

    # ---- one commit ------------------------------------------------------------------------------------------

    def test_an_empty_commit_is_done(self) -> None:
        with self.new() as store:
            self.put(store)
            self.put(store, ("small", 1, None))
            self.holds(store, "small", {}, "after deleting what was not there")

    def test_the_last_write_to_a_key_counts(self) -> None:
        with self.new() as store:
            self.put(store, ("small", 1, Small(9)), ("small", 2, Small(1)), ("small", 1, Small(3)), ("small", 1, Small(5)))
            self.holds(store, "small", {1: Small(5), 2: Small(1)}, "several writes to one key")

    def test_deletes_and_puts_of_one_commit_keep_their_order(self) -> None:
        with self.new() as store:
            self.put(store, ("small", 1, Small(1)), ("small", 2, Small(2)))
            self.put(store, ("small", 1, None), ("small", 1, Small(3)))
            check(self.rows(store, "small").get(1) == Small(3), "a put after a delete of the same key was lost")

    def test_deleted_records_are_gone(self) -> None:
        with self.new() as store:
            self.put(store, ("others", 1, Small(1)), ("others", 2, Small(2)))
            self.put(store, ("others", 1, None))
            check(1 not in self.rows(store, "others"), "a deleted record is still there")

    def test_deleted_records_stay_gone(self) -> None:
        store = self.new()
        self.put(store, ("samples", 1, SAMPLES["full"]))
        self.put(store, ("samples", 1, None))
        store = self.reopen(store)
        check(1 not in self.rows(store, "samples"), "a deleted record came back when the store was opened again")
        with self.crash(store) as store:
            check(1 not in self.rows(store, "samples"), "a deleted record came back after a crash")

    def test_a_large_commit_is_one_commit(self) -> None:
        with self.new() as store:
            writes = [("small", n, Small(n)) for n in range(LARGE_COMMIT)]
            with suppress(StoreError):
                store.commit([*writes, ("small", -1, "no record")])
            check(self.rows(store, "small") == {}, "part of a large commit that was refused is there")
            self.put(store, *writes)
            check(len(self.rows(store, "small")) == LARGE_COMMIT, "a large commit is not all there")

    # ---- nobody shares anything ------------------------------------------------------------------------------

    def test_committed_records_are_not_kept(self) -> None:
        with self.new() as store:
            record = Small(1)
            self.put(store, ("small", 1, record))
            record.value = 2
            check(self.rows(store, "small")[1].value == 1, "changing a record after its commit changed the store")

    def test_loaded_records_belong_to_the_caller(self) -> None:
        with self.new() as store:
            self.put(store, ("others", 1, Small(1)))
            self.rows(store, "others")[1].value = 2
            check(self.rows(store, "others")[1].value == 1, "changing a loaded record changed the store")

    def test_a_scan_is_one_snapshot(self) -> None:
        with self.new() as store:
            self.put(store, *(("small", n, Small(n)) for n in range(1000)))
            scan = store.scan()
            got = [next(scan)[1]]
            self.put(store, ("small", 999, None), ("small", 500, Small(-5)), ("small", 1001, Small(0)))
            with suppress(ScanInterrupted):
                rest = [(key, record.value) for _, key, record in scan]
                got += [key for key, _ in rest]
                check(got == list(range(1000)) and (500, 500) in rest, "a commit during a scan shows in it")

    def test_a_scan_holds_a_bounded_part(self) -> None:
        with self.new() as store:
            for start in range(0, SCAN_RECORDS, 100):
                self.put(store, *(("small", n, self._wide(n)) for n in range(start, start + 100)))
            tracemalloc.start()
            try:
                count = sum(1 for _ in store.scan())
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            check(count == SCAN_RECORDS, f"{count} of {SCAN_RECORDS} records")
            limit = SCAN_RECORDS * SCAN_RECORD_BYTES // SCAN_SHARE
            check(peak < limit, f"a scan took {peak} bytes at its peak, more than {limit}")

    def _wide(self, number: int) -> Small:
        return Small(number, "", number.to_bytes(4, "big") * (SCAN_RECORD_BYTES // 4))

    # ---- what does not fit -----------------------------------------------------------------------------------

    def test_what_could_not_come_back_is_refused(self) -> None:
        mutable: Any = bytearray()
        wrong: Iterable[tuple[str, Any, Any]] = (
            ("nowhere", 1, Small(1)), ("small", True, Small(1)), ("small", 1.0, Small(1)), ("small", None, Small(1)),
            ("small", (1, "2"), Small(1)), ("small", 2**63, Small(1)), ("small", "k" * 600, Small(1)),
            ("small", 1, SAMPLES["full"]), ("small", 1, (1,)), ("small", 1, Small(2**63)), ("small", 1, Small("1")),  # type: ignore[arg-type]
            ("small", 1, Small(True)), ("facts", 1, ([1],)), ("facts", 1, (CopyId(1, 2, 3),)), ("facts", 1, "text"),
            ("samples", 1, Sample("", mutable, 0, 0.0, False, CopyId(0, 0, 0))),
            ("samples", 1, Sample("", b"", 0, 0.0, False, CopyId(0, 0, 0), [])),  # type: ignore[arg-type]
        )  # fmt: skip
        with self.new() as store:
            for write in wrong:
                refused(lambda write=write: store.commit([write]), StoreUnfit, f"committing {write}")  # type: ignore[misc]

    def test_a_write_that_does_not_fit_changes_nothing(self) -> None:
        with self.new() as store:
            with suppress(StoreError):
                store.commit([("others", 1, Small(1)), ("others", 2, (1,))])
            check(self.rows(store, "others") == {}, "a commit that was refused has left something")
