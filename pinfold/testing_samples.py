"""Copies to put into tiers: bytes that follow from numbers, with their checksums and manifest."""

from __future__ import annotations

import hashlib

from attrs import define

from pinfold.backends.checksums import checksums
from pinfold.core.commands import Spec
from pinfold.core.effects import Instance
from pinfold.core.ids import CopyId, Key, Layout, Tier, group_id, manifest_hash


@define(frozen=True)
class Sample:
    """One copy to be kept: where, what, and what is known of it."""

    instance: Instance
    spec: Spec
    data: tuple[bytes, ...]
    checksums: tuple[int, ...]
    manifest: bytes

    @property
    def copy(self) -> CopyId:
        return self.instance.copy

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(range(len(self.data)))


def content(number: int, block: int, size: int) -> bytes:
    """`size` bytes that depend on all three numbers."""
    return hashlib.shake_128(f"{number}/{block}/{size}".encode()).digest(size)


def make_sample(
    number: int,
    sizes: tuple[int, ...] = (),
    *,
    slots: tuple[int, ...] = (),
    checksum: str = "crc32",
    tier: Tier = Tier.SSD,
) -> Sample:
    """Copy `number`: another number gives other bytes and, unless `sizes` are given, other sizes (one block is empty)."""
    sizes = sizes or (90 + number % 7, 0, 100, 41 + number % 11)
    layout = Layout(block_bytes=max(sizes), checksum=checksum)
    key = Key("tenant", "model", "r1", layout, f"prefix-{number}", len(sizes))
    data = tuple(content(number, block, size) for block, size in enumerate(sizes))
    sums = checksums(checksum, data)
    return Sample(
        Instance(CopyId(0, number, 0), tier, slots),
        Spec(group_id(key), key, sizes),
        data,
        sums,
        manifest_hash(layout, sizes, sums),
    )
