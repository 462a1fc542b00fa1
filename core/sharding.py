"""Which shard keeps a group: pure maps from a shard key to one of a fixed number of shards.

By default the key is `(tenant, model, root of the chain)`: all groups of one chain have the same root, so the
longest usable run of a prefix is pinned on one shard in one commit. The number of shards is fixed for the
life of a store, for a group that changed its shard would have two records. Python's `hash` differs from run
to run; blake2b does not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from attrs import define, field

from .commands import Spec
from .ids import GroupId


class ShardKey(NamedTuple):
    """What decides the shard. `part` is the root's group id, or what `part_of` made for another way of
    splitting."""

    tenant: str
    model: str
    part: bytes


class Sharding(Protocol):
    """A map from keys to `range(shards)`, the same in every process."""

    @property
    def shards(self) -> int: ...

    def shard_of(self, key: ShardKey) -> int: ...


BY: Final = ("chain", "request", "layer", "block", "tenant")
"""What a store may be split by. `chain` keeps a prefix together; `request` a conversation; `layer` spreads
one long prompt; `block` (each group for itself) is the most even and the least local; `tenant` isolates, and
is as uneven as tenants are."""


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def part_of(by: str, spec: Spec, root: GroupId) -> bytes:
    """The `part` of the shard key of a group whose chain begins at `root`. Raises `ValueError` for a `by` not
    in `BY`."""
    if by == "chain":
        return root
    if by == "request":
        return _utf8(spec.request)
    if by == "layer":
        return repr(spec.key.layers).encode()
    if by == "block":
        return spec.group
    if by == "tenant":
        return b""
    raise ValueError(f"a store is split by one of {', '.join(BY)}, not by {by!r}")


def point_of(key: ShardKey) -> int:
    """64 bits of the key; each part is preceded by its length, so no two keys meet by joining."""
    digest = blake2b(digest_size=8, person=b"pinfold-shard-1")
    for part in (_utf8(key.tenant), _utf8(key.model), key.part):
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def _positive(instance: object, attribute: object, value: int) -> None:
    if value < 1:
        raise ValueError(f"a store has at least one shard and each at least one point, got {value}")


@define
class HashShards:
    """Even and simple; another number of shards moves nearly every key."""

    shards: int = field(validator=_positive)

    def shard_of(self, key: ShardKey) -> int:
        return point_of(key) % self.shards


@define
class RingShards:
    """A consistent ring: with one shard more, about `1 / (shards + 1)` of the keys move, all of them to the
    new one.

    `points` per shard on the ring; more are more even and cost memory.
    """

    shards: int = field(validator=_positive)
    points: int = field(default=128, validator=_positive)
    _ring: list[tuple[int, int]] = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self._ring = sorted(
            (point_of(ShardKey("", "", f"ring {shard}/{number}".encode())), shard)
            for shard in range(self.shards)
            for number in range(self.points)
        )

    def shard_of(self, key: ShardKey) -> int:
        # The first point at or after the key, and after the last one the first again.
        place = bisect_left(self._ring, (point_of(key), 0))
        return self._ring[place % len(self._ring)][1]


@define
class RangeShards:
    """Neighbours stay together: shard i keeps the keys from `bounds[i - 1]` up to, and without, `bounds[i]`.

    `bounds` rise strictly and are one fewer than the shards.
    """

    bounds: tuple[ShardKey, ...]

    def __attrs_post_init__(self) -> None:
        if any(left >= right for left, right in pairwise(self.bounds)):
            raise ValueError("the bounds of ranges rise strictly")

    @property
    def shards(self) -> int:
        return len(self.bounds) + 1

    def shard_of(self, key: ShardKey) -> int:
        return bisect_right(self.bounds, key)

    @classmethod
    def from_sample(cls, sample: Iterable[ShardKey], shards: int) -> RangeShards:
        """Bounds that cut a sample of keys into even parts. Raises `ValueError` if it has fewer distinct keys
        than shards."""
        keys = sorted(set(sample))
        if not 1 <= shards <= len(keys):
            raise ValueError(f"cannot cut {len(keys)} distinct keys into {shards} ranges")
        return cls(tuple(keys[len(keys) * cut // shards] for cut in range(1, shards)))
