"""Checksums of blocks, by the name that a `Layout` carries. The only module that imports xxhash.

A checksum is a non-negative integer of at most 63 bits, so that the plain form can carry it. Checksums detect accidents, not
adversaries; a manifest hash over them (`core.ids.manifest_hash`) is as strong as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from .tier import TierRefused

Checksum = Callable[[Any], int]
"""From any C-contiguous buffer to its checksum. Releases the GIL on large buffers."""

MASK_63: Final = 2**63 - 1


def _crc32() -> Checksum:
    return zlib.crc32


def _xxh3() -> Checksum:
    try:
        from xxhash import xxh3_64_intdigest
    except ImportError:
        raise TierRefused(
            "the checksum 'xxh3' needs the package xxhash: pip install 'pinfold[tiers]', or use a layout with 'crc32'"
        ) from None

    def xxh3(buffer: Any) -> int:
        return int(xxh3_64_intdigest(buffer)) & MASK_63

    return xxh3


_MAKERS: Final[dict[str, Callable[[], Checksum]]] = {"crc32": _crc32, "xxh3": _xxh3}
_made: dict[str, Checksum] = {}

NAMES: Final = tuple(_MAKERS)
"""The algorithms that a layout may name."""


def checksum(name: str) -> Checksum:
    """The function for `Layout.checksum == name`. Raises TierRefused for an unknown name, or if its library is not there."""
    made = _made.get(name)
    if made is None:
        maker = _MAKERS.get(name)
        if maker is None:
            raise TierRefused(f"unknown checksum {name!r}; this pinfold knows {', '.join(NAMES)}")
        made = _made[name] = maker()
    return made


def checksums(name: str, buffers: Iterable[Any]) -> tuple[int, ...]:
    """One checksum per buffer, in order."""
    function = checksum(name)
    return tuple([function(buffer) for buffer in buffers])
