"""Keys and records as bytes: exact, ordered, checked going in and coming out."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from pinfold.backends.base import StoreDamaged, StoreUnfit, StoreVersion
from pinfold.backends.records import RECORD_BYTES_MAX, RecordCodec, seal, unseal
from pinfold.backends.shapes import Shapes, decode_key, encode_key
from pinfold.core.state import FORMAT, RECORD_TYPES
from pinfold.testing_records import FACTS, KEYS, KIT_SCHEMA, SAMPLES, Small

CODEC = RecordCodec(KIT_SCHEMA)

int64 = st.integers(-(2**63), 2**63 - 1)
keys_by_kind = st.one_of(
    st.tuples(int64, int64),
    st.tuples(st.binary(max_size=20), st.binary(max_size=20)),
    st.tuples(st.text(max_size=10), st.text(max_size=10)),
    st.tuples(st.lists(int64, max_size=4).map(tuple), st.lists(int64, max_size=4).map(tuple)),
)


@given(keys_by_kind)
def test_the_order_of_keys_is_the_order_of_their_bytes(pair: Any) -> None:
    one, two = pair
    assert (one < two) == (encode_key(one) < encode_key(two))
    assert decode_key(encode_key(one)) == one


def test_no_two_keys_have_the_same_bytes() -> None:
    assert len({encode_key(key) for key in KEYS}) == len(KEYS)


def test_lone_surrogates_are_keys_too() -> None:
    assert decode_key(encode_key("\ud800")) == "\ud800"


@given(st.binary(max_size=40))
def test_any_bytes_are_a_key_or_damage(data: bytes) -> None:
    try:
        key = decode_key(data)
    except StoreDamaged:
        return
    assert encode_key(key) == data or isinstance(key, str)


def encoded(table: str, key: Any, record: Any) -> tuple[bytes, bytes]:
    data = CODEC.encode_key(table, key)
    return data, CODEC.encode_value(data, table, record)


@pytest.mark.parametrize("name", SAMPLES)
def test_records_come_back(name: str) -> None:
    assert CODEC.decode(*encoded("samples", name, SAMPLES[name])) == ("samples", name, SAMPLES[name])


@pytest.mark.parametrize("name", FACTS)
def test_plain_tuples_come_back(name: str) -> None:
    assert CODEC.decode(*encoded("facts", name, FACTS[name])) == ("facts", name, FACTS[name])


def test_every_flipped_bit_is_damage_that_names_its_place() -> None:
    key, value = encoded("small", "k1", Small(5, "text"))
    for bit in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreDamaged, match="small under 'k1'"):
            CODEC.decode(key, bytes(damaged))


def test_a_value_under_another_key_is_damage() -> None:
    _, value = encoded("small", 1, Small(1))
    with pytest.raises(StoreDamaged, match="small under 2"):
        CODEC.decode(CODEC.encode_key("small", 2), value)


@given(st.binary(max_size=60))
def test_bytes_with_a_right_checksum_are_still_not_trusted(body: bytes) -> None:
    key = CODEC.encode_key("small", 1)
    with pytest.raises((StoreDamaged, StoreVersion)):
        CODEC.decode(key, seal(key, body))


@pytest.mark.parametrize("value", [b"", b"abc", b"\0" * 4])
def test_short_values_are_not_sealed(value: bytes) -> None:
    assert unseal(b"key", value) is None or value == b"\0" * 4


def test_a_table_of_a_newer_pinfold_is_refused() -> None:
    other = RecordCodec({"later": tuple})
    key = other.encode_key("later", 1)
    with pytest.raises(StoreVersion, match="'later'"):
        CODEC.decode(key, other.encode_value(key, "later", ()))


@pytest.mark.parametrize("key", [b"", b"no zero", b"small\0", b"small\0i123", b"small\0t1", b"small\0x", b"small\0s\xff"])
def test_damaged_keys_are_named(key: bytes) -> None:
    with pytest.raises(StoreDamaged):
        CODEC.decode(key, b"")


# ---- versions ------------------------------------------------------------------------------------------------


@define
class Old:
    value: int


@define
class New:
    value: int
    unit: str


def test_an_old_record_is_read_through_its_migrations() -> None:
    writer = RecordCodec({"small": Old})
    key = writer.encode_key("small", 1)
    value = writer.encode_value(key, "small", Old(5))
    steps = {("small", 1): lambda old: [old[0] * 1000], ("small", 2): lambda old: [*old, "ms"]}
    assert RecordCodec({"small": New}, versions={"small": 3}, migrations=steps).decode(key, value)[2] == New(5000, "ms")
    with pytest.raises(StoreVersion, match="version 1, without a migration to 2"):
        RecordCodec({"small": New}, versions={"small": 2}).decode(key, value)


@pytest.mark.parametrize("table", sorted(RECORD_TYPES))
def test_a_store_of_the_core_in_an_older_format_is_refused_in_one_sentence(table: str) -> None:
    older = RecordCodec({table: Old}, versions=FORMAT - 1)
    key = older.encode_key(table, "k")
    now = RecordCodec(RECORD_TYPES, versions=FORMAT)
    with pytest.raises(StoreVersion, match=f"^the record of {table} under 'k' has version {FORMAT - 1}, .*to {FORMAT}$"):
        now.decode(key, older.encode_value(key, table, Old(5)))


def test_every_program_that_opens_a_directory_s_store_says_which_format_it_knows() -> None:
    opened = [
        ast.unparse(call)
        for path in sorted((Path(__file__).parent.parent / "pinfold").glob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and "RECORD_TYPES" in map(ast.unparse, call.args) and "LmdbStore" in ast.unparse(call.func)
    ]
    assert len(opened) >= 3
    assert [call for call in opened if "versions=FORMAT" not in call] == []


def test_a_record_of_a_later_version_is_refused() -> None:
    writer = RecordCodec({"small": Old}, versions={"small": 2})
    key = writer.encode_key("small", "k")
    with pytest.raises(StoreVersion, match="small under 'k' has version 2 and this pinfold knows 1"):
        RecordCodec({"small": Old}).decode(key, writer.encode_value(key, "small", Old(5)))


# ---- what does not fit ---------------------------------------------------------------------------------------


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(StoreUnfit, match="at most"):
        encoded("small", 1, Small(1, "", bytes(RECORD_BYTES_MAX)))


def test_text_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(StoreUnfit):
        encoded("small", 1, Small(1, "\ud800"))


@pytest.mark.parametrize("name", ["", "a b", "a\0b", "t\u00e4", "x" * 65])
def test_names_of_tables_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a table"):
        Shapes({name: tuple})


@given(st.data(), st.sampled_from(sorted(RECORD_TYPES)))
def test_any_record_of_the_core_comes_back_or_is_refused(data: st.DataObject, table: str) -> None:
    codec = RecordCodec(RECORD_TYPES, versions=FORMAT)
    key = codec.encode_key(table, 1)
    record = data.draw(st.from_type(RECORD_TYPES[table]))
    try:
        value = codec.encode_value(key, table, record)
    except StoreUnfit:
        return
    assert codec.decode(key, value) == (table, 1, record)


def test_a_value_is_msgpack_of_version_and_plain_form() -> None:
    key, value = encoded("small", 1, Small(5, "t"))
    assert msgspec.msgpack.decode(unseal(key, value) or b"") == [1, [5, "t", b""]]


@pytest.mark.parametrize(
    ("missing", "module"),
    [("msgspec", "records"), ("msgspec", "lmdb"), ("lmdb", "lmdb"), ("msgspec", "memory"), ("lmdb", "base")],
)
def test_a_missing_library_is_one_sentence_that_names_the_extra(missing: str, module: str) -> None:
    code = f"import sys\nsys.modules[{missing!r}] = None\nimport pinfold.backends.{module}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=environment)
    last = run.stderr.strip().splitlines()[-1] if run.stderr else ""
    if module in ("memory", "base"):
        assert run.returncode == 0, last
    else:
        assert "StoreLibraryMissing" in last
        assert "pip install 'pinfold[server]'" in last
