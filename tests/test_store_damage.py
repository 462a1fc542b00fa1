"""Damaged LMDB files: refused with a sentence, never served in part, and never the end of the process."""

import os
from pathlib import Path

import pytest

from pinfold.backends.base import StoreDamaged, StoreError
from pinfold.backends.lmdb import LmdbStore
from pinfold.testing import KIT_SCHEMA
from pinfold.testing_records import Small


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A closed store with some pages of each kind."""
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        for start in range(0, 400, 40):
            store.commit([("small", n, Small(n, "t" * (n % 90))) for n in range(start, start + 40)])
        store.commit([("small", n, None) for n in range(0, 400, 7)])
        store.commit([("small", -1, Small(0, "", bytes(20_000)))])
    return tmp_path / "s"


def test_a_truncated_file_is_damaged_unless_only_free_pages_are_gone(full: Path) -> None:
    with LmdbStore(full, KIT_SCHEMA) as store:
        wanted = store.load()
    good = (full / "data.mdb").read_bytes()
    intact = 0
    for size in range(len(good) - 1000, 8192, -4096 * 3):
        (full / "data.mdb").write_bytes(good[:size])
        try:
            with LmdbStore(full, KIT_SCHEMA, readonly=True) as store:
                assert store.load() == wanted
                intact += 1
        except StoreDamaged:
            continue
    assert intact <= 3


def test_a_file_cut_inside_its_header_is_refused(full: Path) -> None:
    os.truncate(full / "data.mdb", 5000)
    with pytest.raises(StoreError):
        LmdbStore(full, KIT_SCHEMA)
    assert (full / "data.mdb").stat().st_size == 5000


def test_flipped_bits_are_found_or_lie_where_nothing_is(full: Path) -> None:
    """Anywhere in the file: opening or loading refuses, or what comes back is what was there."""
    with LmdbStore(full, KIT_SCHEMA) as store:
        wanted, identity = store.load(), store.identity
    good = (full / "data.mdb").read_bytes()
    found = 0
    for offset in range(3, len(good), len(good) // 150):
        (full / "data.mdb").write_bytes(good[:offset] + bytes([good[offset] ^ 0x10]) + good[offset + 1 :])
        try:
            with LmdbStore(full, KIT_SCHEMA, readonly=True) as store:
                assert store.load() == wanted
                assert store.identity == identity
        except StoreError:
            found += 1
    assert found > 20


def test_a_flipped_bit_in_a_record_names_its_key(full: Path) -> None:
    data = (full / "data.mdb").read_bytes()
    place = data.rfind(b"t" * 80)
    (full / "data.mdb").write_bytes(data[:place] + b"T" + data[place + 1 :])
    with LmdbStore(full, KIT_SCHEMA) as store, pytest.raises(StoreDamaged, match="record of small under"):
        store.load()


def test_a_damaged_record_is_not_backed_up(full: Path) -> None:
    data = (full / "data.mdb").read_bytes()
    place = data.rfind(b"t" * 80)
    (full / "data.mdb").write_bytes(data[:place] + b"T" + data[place + 1 :])
    with LmdbStore(full, KIT_SCHEMA) as store, pytest.raises(StoreDamaged):
        store.backup(full.parent / "copy")
    assert sorted(os.listdir(full.parent)) == ["s"]
