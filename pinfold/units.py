"""Durations and sizes as people write them: `200ms`, `1s`, `5m`, `64MiB`, `10GB`; and back again.

Inside, a duration is an `int` in milliseconds and a size an `int` in bytes; a number without a unit is refused, because the
reader of a file should not have to know which unit was meant. `0` needs none.
"""

from __future__ import annotations

import re
from typing import Final

DURATIONS: Final[dict[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Unit to milliseconds."""

SIZES: Final[dict[str, int]] = {
    "B": 1,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
"""Unit to bytes."""

DURATION_HINT: Final = 'a duration such as "200ms", "1s" or "5m"'
SIZE_HINT: Final = 'a size such as "4KiB", "64MiB" or "1GB"'

_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_BY_LOWER: Final = {unit.lower(): unit for unit in SIZES}


def _scaled(text: str, number: str, factor: int) -> int:
    whole, _, part = number.partition(".")
    if len(whole) > 15 or len(part) > 9:
        raise ValueError(f"{text!r} has too many digits")
    scaled = int(whole + part) * factor
    unit = int(10 ** len(part))
    if scaled % unit:
        raise ValueError(f"{text!r} is no whole number of the smallest unit")
    return scaled // unit


def parse_duration_ms(text: str) -> int:
    """Milliseconds. Raises ValueError with a sentence."""
    if text.strip() == "0":
        return 0
    match = _NUMBER.fullmatch(text.strip())
    factor = DURATIONS.get(match[2]) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not {DURATION_HINT}")
    return _scaled(text, match[1], factor)


def parse_size_bytes(text: str) -> int:
    """Bytes; the case of a unit does not matter (`64mib`). Raises ValueError with a sentence."""
    if text.strip() == "0":
        return 0
    match = _NUMBER.fullmatch(text.strip())
    unit = _BY_LOWER.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not {SIZE_HINT}")
    return _scaled(text, match[1], SIZES[unit])


def show_duration(ms: int) -> str:
    """The largest unit that divides it: `1500` is `1500ms`, `60000` is `1m`."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % DURATIONS[unit] == 0:
            return f"{ms // DURATIONS[unit]}{unit}"
    return f"{ms}ms"


def show_size(size: int) -> str:
    """The largest binary unit that divides it: `4096` is `4KiB`, `1000` is `1000B`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % SIZES[unit] == 0:
            return f"{size // SIZES[unit]}{unit}"
    return f"{size}B"
