"""Identities and the small closed sets of words (specs/glossary.md defines each).

An id is an `int`, a `str`, `bytes` or a tuple of them, so that it can be compared, ordered, put on a wire
and packed by a model checker without help. Nothing here is made from a clock or from randomness.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, NewType

from attrs import define

NodeName = NewType("NodeName", str)
"""A node's, or a remote store's, name as an operator wrote it; stores are listed by `StoreSpec`."""

Peer = NewType("Peer", str)
"""A wire address: `directory/0`, `node/n1`, `client/<token>`."""

SessionId = NewType("SessionId", int)
"""The revision at which the session was opened; never used twice in the life of a store."""

GroupId = NewType("GroupId", bytes)
"""blake2b-128 of the canonical encoding of a `Key` (16 bytes)."""


class CopyId(NamedTuple):
    """One holding of a group's bytes, for ever: `(shard, revision of its reservation, ordinal)` (COPY-3)."""

    shard: int
    revision: int
    ordinal: int

    def __str__(self) -> str:
        return f"c{self.shard}.{self.revision}.{self.ordinal}"


class HoldId(NamedTuple):
    """`(session, sequence, ordinal)` of the command that took it; ends exactly once (HOLD-1)."""

    session: int
    sequence: int
    ordinal: int

    def __str__(self) -> str:
        return f"h{self.session}.{self.sequence}.{self.ordinal}"


NO_COPY = CopyId(-1, -1, -1)
"""Names no copy. A value, not `None`, so that the row functions keep a fixed shape."""


class Tier(IntEnum):
    """Where bytes lie. In records and routes a hint; only the node knows (rule 12)."""

    HBM = 0
    DRAM = 1
    SSD = 2
    REMOTE_DRAM = 3
    REMOTE_SSD = 4


class State(IntEnum):
    """A group's lifecycle (design section 4; `core/table.py` is the law)."""

    WRITING = 0
    LOCAL = 1
    MIGRATING_OUT = 2
    REMOTE = 3
    MIGRATING_IN = 4
    EVICTING = 5
    EVICTED = 6


class Role(IntEnum):
    """What a copy is to its record. RETIRING may go back; FREEING is final (finding 6)."""

    INCOMING = 0
    AUTHORITATIVE = 1
    REPLICA = 2
    RETIRING = 3
    FREEING = 4


class Reason(IntEnum):
    """Why a group has no authoritative copy, or why a move, write or copy ended."""

    NONE = 0
    EVICTED = 1
    LOST = 2
    WRITE_ENDED = 3
    CANCELLED = 4
    DEADLINE = 5
    FAILED = 6
    CORRUPT = 7
    NODE_LOST = 8
    NO_SPACE = 9
    SESSION_ENDED = 10
    DRAINED = 11
    REPLACED = 12


class HoldKind(IntEnum):
    """PIN names a copy, REF names a group (rule 2)."""

    PIN = 0
    REF = 1


class MovePolicy(IntEnum):
    """What a reader wants while its group moves (rule 5)."""

    SOURCE = 0
    WAIT = 1
    CANCEL = 2
    TARGET = 3
    RECOMPUTE = 4


class Cause(IntEnum):
    """Why a move was asked for; policies weigh it, safety does not."""

    CALLER = 0
    PRESSURE = 1
    BALANCE = 2
    DRAIN = 3
    PREFETCH = 4


@define
class Layout:
    """How the bytes of one block are laid out. Part of a group's identity: another layout is another group."""

    dtype: str = "uint8"
    shape: tuple[int, ...] = ()
    order: str = "C"
    block_bytes: int = 4096
    checksum: str = "crc32"


@define
class Key:
    """What the bytes are. Equal keys mean equal bytes; every field takes part in the group id."""

    tenant: str
    model: str
    model_revision: str
    layout: Layout
    prefix: str
    blocks: int
    layers: tuple[int, int] = (0, 0)
    heads: tuple[int, int] = (0, 0)
    tokens: tuple[int, int] = (0, 0)


def group_id(key: Key) -> GroupId:
    """The 16-byte id of `key`: blake2b over every field, quoted, so that no two keys meet by joining.

    `ascii` of strings and integers is unambiguous and the same in every Python version and locale. What the groups of one model
    have in common is hashed once.
    """
    layout = key.layout
    digest = _family(
        key.tenant, key.model, key.model_revision, key.layers, key.heads,
        layout.dtype, layout.shape, layout.order, layout.block_bytes, layout.checksum,
    ).copy()  # fmt: skip
    digest.update(ascii((key.prefix, key.blocks, key.tokens)).encode("ascii"))
    return GroupId(digest.digest())


@lru_cache(maxsize=1_024)
def _family(*common: object) -> blake2b:
    return blake2b(ascii(common).encode("ascii"), digest_size=16, person=b"pinfold-group-1")


def manifest_hash(layout: Layout, sizes: tuple[int, ...], checksums: tuple[int, ...]) -> bytes:
    """The 16-byte hash that a sealed copy is known by: layout, count, sizes (bytes) and checksums of its blocks."""
    text = ascii((layout.dtype, layout.shape, layout.order, layout.block_bytes, layout.checksum, len(sizes), sizes, checksums))
    return blake2b(text.encode("ascii"), digest_size=16, person=b"pinfold-manif-1").digest()
