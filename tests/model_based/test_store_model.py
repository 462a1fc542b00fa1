"""Stores against a dictionary: seeded walks of commits, deletes, faults, crashes, terms and rivals.

A walk knows what must be there. After an unknown outcome either of two things may be, and the walk asks which when the store has
been opened again. What is given to a store, and what it gives, is spoilt afterwards: nobody may have kept it.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pinfold.backends.base import MetadataStore, StoreClosed, StoreError, StoreFenced, StoreUncertain, StoreUnfit
from pinfold.backends.lmdb import LmdbStore
from pinfold.backends.memory import Fault
from pinfold.chaos.sim_shape import Chance
from pinfold.core.driver import Outcome
from pinfold.core.ids import CopyId, Tier
from pinfold.testing import MemoryStoreKit
from pinfold.testing_records import FACTS, INTEGERS, KEYS, KIT_SCHEMA, ORDERED_KEYS, SAMPLES, Small
from pinfold.testing_store_tools import StoreKit, typed

STEPS = 120
NAMED = (CopyId(1, 2, 3), Tier.SSD)
KINDS = [key for kind in ORDERED_KEYS for key in kind]
ALL_KEYS = (*KEYS, *KINDS, *NAMED, *range(8), *range(8))
UNFIT: tuple[Any, ...] = (("small", 1, Small(2**70)), ("nowhere", 1, Small(1)), ("small", 1.5, Small(1)), ("facts", 1, [1]))


class LmdbKit(StoreKit):
    """Only what a walk needs: a crash is what closing leaves, and nothing can be injected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def make_store(self, schema: Any) -> MetadataStore:
        self.made += 1
        return LmdbStore(self.folder / str(self.made), schema)

    def reopen(self, store: Any) -> MetadataStore:
        store.close()
        return LmdbStore(self.folder / "1", KIT_SCHEMA)

    crash = reopen


class Walk:
    """One store and what must be in it. `with_faults`: the kit can inject them, and send a rival."""

    def __init__(self, seed: int, kit: StoreKit, with_faults: bool) -> None:
        self.chance = Chance(seed)
        self.kit = kit
        self.store = kit.new()
        self.identity = self.store.identity
        self.with_faults = with_faults
        self.term = 0
        self.tables: dict[str, dict[Any, Any]] = {table: {} for table in KIT_SCHEMA}

    # ---- what is committed -----------------------------------------------------------------------------------

    def record(self, table: str) -> Any:
        pick = self.chance.pick
        if table == "facts":
            return pick(list(FACTS.values()))
        if table == "samples":
            return deepcopy(pick(list(SAMPLES.values())))
        size = 70_000 if self.chance.below(40) == 0 else self.chance.below(5)
        return Small(pick(INTEGERS) // (1 + self.chance.below(2)), "t" * size, b"\xff" * size)

    def writes(self, count: int) -> list[Any]:
        made = []
        for _ in range(count):
            table = self.chance.pick(list(KIT_SCHEMA))
            gone = self.chance.below(4) == 0
            made.append((table, self.chance.pick(ALL_KEYS), None if gone else self.record(table)))
        return made

    def applied(self, writes: list[Any]) -> dict[str, dict[Any, Any]]:
        after = {table: dict(found) for table, found in self.tables.items()}
        for table, key, record in writes:
            if record is None:
                after[table].pop(plain(key), None)
            else:
                after[table][plain(key)] = deepcopy(record)
        return after

    # ---- steps -----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        writes = self.writes(300 if self.chance.below(15) == 0 else self.chance.below(7))
        after = self.applied(writes)
        assert self.store.commit(writes) is Outcome.DONE
        assert self.store.failure is None
        self.tables = after
        spoil(record for _, _, record in writes)

    def is_unfit(self) -> None:
        with pytest.raises(StoreUnfit):
            self.store.commit([*self.writes(3), self.chance.pick(UNFIT), *self.writes(2)])

    def look(self) -> None:
        loaded = self.store.load()
        assert sorted(loaded) == sorted(self.tables), "every table, and no other"
        for table, wanted in self.tables.items():
            found = {plain(key): record for key, record in loaded[table].items()}
            assert found == wanted, table
            assert typed(tuple(found.values())) == typed(tuple(wanted[key] for key in found)), table
            spoil(loaded[table].values())
            loaded[table].clear()

    def look_along(self) -> None:
        """A scan is of one instant, in order, whatever is committed meanwhile."""
        wanted = self.tables
        scan = self.store.scan()
        if self.with_faults and self.chance.below(2):
            self.commit()
        found: dict[str, list[Any]] = {table: [] for table in wanted}
        tables = []
        for table, key, record in scan:
            tables.append(table)
            found[table].append(key)
            assert wanted[table][plain(key)] == record
        assert tables == sorted(tables)
        for table, keys in found.items():
            assert len(keys) == len(wanted[table])
            for kind in (str, bytes, int, tuple):
                mine = [key for key in keys if type(key) is kind]
                assert mine == sorted(mine, key=lambda key: key.encode() if isinstance(key, str) else key), table

    def again(self, how: Callable[[MetadataStore], MetadataStore]) -> None:
        self.store = how(self.store)
        assert self.store.identity == self.identity
        assert self.store.term == self.term
        self.look()
        if self.term:
            with pytest.raises(StoreFenced):
                self.store.commit(self.writes(2))
            self.claim()

    def claim(self) -> None:
        with pytest.raises(StoreFenced):
            self.store.fence(self.term - 1 if self.term > 1 else 0)
        self.term += 1 + self.chance.below(3)
        self.store.fence(self.term)
        self.store.fence(self.term)
        assert self.store.term == self.term

    def closed(self) -> None:
        self.store.close()
        for call in (self.store.load, lambda: self.store.commit(self.writes(1)), lambda: self.store.fence(self.term + 1)):
            with pytest.raises(StoreClosed):
                call()
        self.again(self.kit.reopen)

    def rival(self) -> None:
        if not self.term:
            self.claim()
        self.term += 1
        self.kit.usurp(self.store, self.term)
        with pytest.raises(StoreFenced):
            self.store.commit(self.writes(3))
        self.again(self.kit.reopen)

    def fault(self) -> None:
        fault = self.chance.pick(list(Fault))
        self.kit.inject(self.store, fault)
        writes = [*self.writes(self.chance.pick((0, 4, 4, 300))), ("small", "always", Small(self.chance.below(1 << 40)))]
        after = self.applied(writes)
        outcome = self.store.commit(writes)
        assert isinstance(self.store.failure, StoreError)
        if fault is Fault.REFUSED:
            assert outcome is Outcome.NOT_DONE
            self.look()
            assert self.store.commit(writes) is Outcome.DONE
            assert self.store.failure is None
            self.tables = after
            return
        assert outcome is Outcome.UNKNOWN
        for call in (self.store.load, lambda: self.store.commit(self.writes(1))):
            with pytest.raises(StoreUncertain):
                call()
        if fault is Fault.UNKNOWN_DONE:
            self.tables = after
        self.again(self.kit.reopen)

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self.commit] * 6 + [self.look, self.look_along, self.is_unfit]
        steps += [lambda: self.again(self.kit.reopen), lambda: self.again(self.kit.crash), self.claim, self.closed]
        if self.with_faults:
            steps += [self.rival, self.fault, self.fault]
        try:
            self.chance.pick(steps)()
        except StoreError as error:
            raise AssertionError(f"a good store does what it is asked: {error}") from error


def plain(key: Any) -> tuple[str, Any]:
    """A key as it must come back: what is made from one of the four types comes back as that type."""
    kind = next(kind for kind in (str, bytes, int, tuple) if isinstance(key, kind))
    return kind.__name__, kind(key)


def spoil(records: Any) -> None:
    for record in records:
        if isinstance(record, Small):
            record.value, record.text = 4711, "spoilt"


@pytest.mark.parametrize("seed", range(6))
def test_the_store_in_memory_does_what_a_dictionary_does(seed: int) -> None:
    walk = Walk(seed, MemoryStoreKit(), with_faults=True)
    for _ in range(STEPS):
        walk.step()
    walk.look()
    walk.look_along()
    with walk.kit.new() as other:
        assert other.identity.store_id != walk.identity.store_id


@pytest.mark.parametrize("seed", range(3))
def test_the_store_on_disk_does_what_a_dictionary_does(seed: int, tmp_path: Path) -> None:
    walk = Walk(seed, LmdbKit(tmp_path), with_faults=False)
    for _ in range(STEPS // 2):
        walk.step()
    walk.look()
    walk.store.close()


def test_whoever_scans_holds_little_of_what_is_there() -> None:
    """However much there is, the first record comes before the last has been made."""
    store = MemoryStoreKit().new()
    store.commit([("small", number, Small(number, "", bytes(10_000))) for number in range(400)])
    tracemalloc.start()
    try:
        scan = store.scan()
        next(scan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 400 * 10_000 / 3
