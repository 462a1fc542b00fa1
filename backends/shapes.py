"""What a store may hold, the same for every store: keys as ordered bytes, records as plain values, both checked.

A key's bytes are its table's name, a zero byte, one letter for its kind, and a form whose byte order is the order of the
values: `int` as 8 bytes with the sign turned round, a tuple of them one after the other, `str` as UTF-8, `bytes` as they are.
Nothing here needs a library, so that a store in memory refuses exactly what a store on disk would.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import attrs

from ..core import plain
from ..core.plain import INT_MAX, Plain, PlainError
from .base import StoreDamaged, StoreUnfit, StoreVersion

Key = str | bytes | int | tuple[int, ...]
Schema = Mapping[str, Any]
"""Table -> the class of its records: an attrs class, a union of them, or `tuple` for tuples of plain values."""

KEY_BYTES_MAX: Final = 511
"""The longest encoded key, its table included: what the strictest store (LMDB) takes."""

_SIGN = 1 << 63
_INT = struct.Struct(">Q")


# ---- keys ----------------------------------------------------------------------------------------------------


def encode_key(key: Key) -> bytes:
    """The ordered bytes of `key`, without its table. Raises StoreUnfit. Bool is no key: it would come back as an int."""
    try:
        if isinstance(key, tuple):
            return b"t" + b"".join([_encode_int(item) for item in key])
        if type(key) is bytes:
            return b"b" + key
        if type(key) is str:
            return b"s" + key.encode("utf-8", "surrogatepass")
        if isinstance(key, int):
            return b"i" + _encode_int(key)
    except struct.error:
        raise StoreUnfit(f"the key {show(key)} has an integer of more than 64 bits") from None
    raise StoreUnfit(f"the key {show(key)} is not a str, bytes, int or tuple of int")


def _encode_int(value: Any) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise StoreUnfit(f"{show(value)} is not an integer, so it cannot be a key or part of one")
    return _INT.pack(value + _SIGN)


def decode_key(data: bytes) -> Key:
    """The key that `encode_key` made `data` from. Raises StoreDamaged."""
    kind, body = data[:1], data[1:]
    if kind == b"b":
        return body
    if kind == b"s":
        try:
            return body.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise StoreDamaged(f"the stored key {data.hex()} is damaged") from None
    if kind == b"i" and len(body) == 8:
        return int(_INT.unpack(body)[0]) - _SIGN
    if kind == b"t" and len(body) % 8 == 0:
        return tuple([item - _SIGN for (item,) in _INT.iter_unpack(body)])
    raise StoreDamaged(f"the stored key {data.hex()} is damaged")


def show(value: Any) -> str:
    """`value` as text, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# ---- records -------------------------------------------------------------------------------------------------


class Shapes:
    """Keys and records of the tables of one schema.

    `check`: take each record back out of its plain form as it goes in, and compare. It finds a wrong type, an integer of more
    than 63 bits or a list in the place of a tuple while the writer can still be blamed, and not at the next start, when the
    store could no longer be read. It costs about twice the packing.
    """

    def __init__(self, schema: Schema, *, check: bool = True) -> None:
        for table in schema:
            if not (table.isascii() and table.isidentifier() and len(table) <= 64):
                raise ValueError(f"{table!r} is no name for a table: at most 64 ASCII letters, digits and underscores")
        self.tables: tuple[str, ...] = tuple(sorted(schema))
        self._check = check
        self._prefixes = {table: table.encode("ascii") + b"\0" for table in schema}
        self._classes = {table: kind for table, kind in schema.items() if attrs.has(kind)}
        self._pack = {table: freeze_plain if kind is tuple else plain.packer(kind) for table, kind in schema.items()}
        self._unpack = {table: thaw_plain if kind is tuple else plain.unpacker(kind) for table, kind in schema.items()}

    def prefix(self, table: str) -> bytes:
        """What the keys of `table` begin with."""
        return self._prefixes[table]

    def key(self, table: str, key: Key) -> bytes:
        """The full key, table included. Raises StoreUnfit."""
        try:
            data = self._prefixes[table] + encode_key(key)
        except KeyError:
            raise StoreUnfit(f"there is no table {table!r}; the schema has {', '.join(self.tables)}") from None
        if len(data) > KEY_BYTES_MAX:
            raise StoreUnfit(f"a key of {table} takes {len(data)} bytes, at most {KEY_BYTES_MAX} are possible: {show(key)}")
        return data

    def unkey(self, data: bytes) -> tuple[str, Key]:
        """The table and key that `key` made `data` from. Raises StoreDamaged, or StoreVersion for a table that is not known."""
        name, zero, rest = data.partition(b"\0")
        table = name.decode("ascii", "backslashreplace")
        if not zero:
            raise StoreDamaged(f"the stored key {data.hex()} is damaged")
        if table not in self._prefixes:
            raise StoreVersion(f"the store has a table {table!r} that this pinfold does not know; a newer one made it")
        return table, decode_key(rest)

    def freeze(self, table: str, record: Any) -> Plain:
        """`record` as nested tuples that share nothing mutable with it. Raises StoreUnfit."""
        kind = self._classes.get(table)
        if kind is not None and type(record) is not kind:
            raise StoreUnfit(f"a record of {table} must be a {kind.__name__}, not {show(record)}")
        try:
            frozen = self._pack[table](record)
            if self._check and self._unpack[table](frozen) != record:
                raise StoreUnfit(f"this record of {table} would not come back as it is: {show(record)}")
        except (PlainError, AttributeError, TypeError, ValueError) as error:
            raise StoreUnfit(f"this record of {table} cannot be stored ({error}): {show(record)}") from error
        return frozen

    def thaw(self, table: str, frozen: Plain) -> Any:
        """A new record from what `freeze` gave (lists may stand for tuples). Raises PlainError."""
        return self._unpack[table](frozen)


_ATOMS: Final = frozenset((str, bytes, bool, float, type(None)))


def freeze_plain(value: Any) -> Plain:
    """A tuple of plain values, checked. Raises PlainError. A named tuple is refused: it would come back without its names."""
    if type(value) is not tuple:
        raise PlainError(f"expected a tuple of plain values, got {show(value)}")
    return tuple([freeze_plain(item) if isinstance(item, tuple) else _atom(item) for item in value])


def thaw_plain(value: Any) -> Any:
    """Nested lists or tuples of plain values as nested tuples. Raises PlainError."""
    if type(value) not in (list, tuple):
        raise PlainError(f"expected a sequence, got {show(value)}")
    return tuple([thaw_plain(item) if type(item) in (list, tuple) else _atom(item) for item in value])


def _atom(item: Any) -> Any:
    if type(item) in _ATOMS:
        return item
    if type(item) is not int:
        raise PlainError(f"{show(item)} is not a plain value")
    if not -INT_MAX <= item <= INT_MAX:
        raise PlainError(f"expected an integer of at most 63 bits, got {show(item)}")
    return item
