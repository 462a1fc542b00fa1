"""Records as bytes: `(table, key, record)` to `(key bytes, value bytes)` and back. The stores' only user of msgspec.

A value is 4 bytes of CRC-32 over key and body, then the body: msgpack of `[record version, plain form]`. The checksum covers
the key, so that a value found under another key is damage too; LMDB and file systems check neither. Nothing that is decoded
can run, and what it decodes to is checked against the table's class by `core.plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from ..core.plain import Plain, PlainError
from .base import StoreDamaged, StoreLibraryMissing, StoreUnfit, StoreVersion
from .shapes import Key, Schema, Shapes, show

try:
    import msgspec
except ImportError:
    raise StoreLibraryMissing("stored records need msgspec, which is not installed: pip install 'pinfold[server]'") from None

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest encoded record (rule 13)."""

Migration = Callable[[Plain], Plain]
"""The plain form of one version of a table's record to the plain form of the next; lists stand for tuples in what it gets."""


def seal(key: bytes, body: bytes) -> bytes:
    """`body` with a checksum that ties it to `key`."""
    return crc32(body, crc32(key)).to_bytes(4, "big") + body


def unseal(key: bytes, value: bytes) -> bytes | None:
    """The body that was sealed under `key`, or None if it is not that any more."""
    body = value[4:]
    return body if len(value) >= 4 and int.from_bytes(value[:4], "big") == crc32(body, crc32(key)) else None


class RecordCodec:
    """`versions`: the version of the record shapes that this code has, one for all or table -> version (1 where not named).
    `migrations`: `(table, version)` -> from that version to the next; a chain of them reads an old record, a gap refuses it."""

    def __init__(
        self,
        schema: Schema,
        *,
        check: bool = True,
        versions: int | Mapping[str, int] = 1,
        migrations: Mapping[tuple[str, int], Migration] | None = None,
    ) -> None:
        self.shapes = Shapes(schema, check=check)
        self._versions = {
            table: versions if isinstance(versions, int) else versions.get(table, 1) for table in schema
        }
        self._migrations = dict(migrations or {})
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder().decode

    def encode_key(self, table: str, key: Key) -> bytes:
        """The full key, table included. Raises StoreUnfit."""
        return self.shapes.key(table, key)

    def encode_value(self, key: bytes, table: str, record: Any) -> bytes:
        """The value of `record` under the full key `key`. Raises StoreUnfit."""
        frozen = self.shapes.freeze(table, record)
        try:
            body = self._encode((self._versions[table], frozen))
        except (TypeError, ValueError, OverflowError, UnicodeError) as error:
            raise StoreUnfit(f"this record of {table} cannot be encoded ({error}): {show(record)}") from error
        if len(body) > RECORD_BYTES_MAX:
            raise StoreUnfit(f"a record of {table} takes {len(body)} bytes, at most {RECORD_BYTES_MAX} are possible")
        return seal(key, body)

    def decode(self, key: bytes, value: bytes) -> tuple[str, Key, Any]:
        """`(table, key, record)`. Raises StoreDamaged, or StoreVersion for a record that no migration reaches."""
        table, name = self.shapes.unkey(key)
        body = unseal(key, value)
        if body is None:
            raise StoreDamaged(f"the record of {table} under {show(name)} is damaged: its checksum does not match")
        try:
            envelope = self._decode(body)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise StoreDamaged(f"the record of {table} under {show(name)} is damaged: {error}") from None
        if type(envelope) is not list or len(envelope) != 2 or type(envelope[0]) is not int:
            raise StoreDamaged(f"the record of {table} under {show(name)} is damaged: it has no version")
        frozen = self._migrate(table, name, envelope[0], envelope[1])
        try:
            return table, name, self.shapes.thaw(table, frozen)
        except PlainError as error:
            raise StoreDamaged(f"the record of {table} under {show(name)} is damaged: {error}") from None

    def _migrate(self, table: str, name: Key, version: int, frozen: Plain) -> Plain:
        wanted = self._versions[table]
        if version > wanted:
            raise StoreVersion(
                f"the record of {table} under {show(name)} has version {version} and this pinfold knows {wanted}: use a newer one"
            )
        while version < wanted:
            migration = self._migrations.get((table, version))
            if migration is None:
                raise StoreVersion(
                    f"the record of {table} under {show(name)} has version {version}, without a migration to {wanted}"
                )
            frozen = migration(frozen)
            version += 1
        return frozen
