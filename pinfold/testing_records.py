"""Records and keys that the conformance kit for stores works with: every shape that a record may have, and keys that are easily
taken for one another."""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from pinfold.core.ids import CopyId, Tier
from pinfold.core.plain import INT_MAX


@define
class Left:
    """One of two that a field may hold."""

    reason: str


@define
class Right:
    """The other."""

    deadline_ms: int
    tier: Tier


@define
class Place:
    """A record in a record."""

    node: str
    tier: Tier
    slots: tuple[int, ...] = ()


@define
class Sample:
    """A record with a field of each kind."""

    name: str
    data: bytes
    count: int
    ratio: float
    live: bool
    copy: CopyId
    places: tuple[Place, ...] = ()
    parent: bytes | None = None
    move: Left | Right | None = None
    spans: tuple[tuple[str, int], ...] = ()


@define
class Small:
    """A record that is quick to make."""

    value: int
    text: str = ""
    data: bytes = b""


KIT_SCHEMA: Final[dict[str, Any]] = {"facts": tuple, "samples": Sample, "small": Small, "others": Small}

SAMPLES: Final[dict[Any, Sample]] = {
    "nothing": Sample("", b"", 0, 0.0, False, CopyId(0, 0, 0)),
    "zeros": Sample("\0", b"\0", -1, -0.5, True, CopyId(-1, -1, -1), (Place("", Tier.HBM),)),
    "full": Sample(
        "n\u00e4me \U0001f511", bytes(range(256)), 7, 1e-300, True, CopyId(3, 1 << 40, 2),
        (Place("n1", Tier.SSD), Place("n2", Tier.DRAM, (1, 2, 3))), b"p" * 16, Right(5, Tier.REMOTE_SSD), (("a", 1), ("", 0)),
    ),
    "left": Sample("l", b"x", 1, 2.0, False, CopyId(0, 1, 0), (), b"", Left("why")),
}  # fmt: skip

FACTS: Final[dict[Any, tuple[Any, ...]]] = {
    "empty": (),
    "atoms": (0, 1, True, False, None, 1.0, "1", b"1", ""),
    "nested": ((1, (2, (3, ()))), ("a", (b"b", None))),
}

INTEGERS: Final = (0, 1, -1, 255, 256, -256, 2**31, 2**32 + 1, 2**53 + 1, INT_MAX, -INT_MAX)

KEYS: Final[tuple[Any, ...]] = (
    "", "a", "ab", "b", "\0", "a\0", "\uffff", "\U0010ffff", "1", "(1, 2)", "k" * 400,
    b"", b"\0", b"a", b"\xff", b"\xff\xff", b"1", b"k" * 400,
    0, 1, -1, 255, 256, 2**63 - 1, -(2**63),
    (), (0,), (1,), (-1,), (0, 0), (1, 2), (12,), (1, 23), (12, 3), (2**63 - 1, -(2**63)),
)  # fmt: skip
"""All different, and none may be taken for another."""

ORDERED_KEYS: Final[tuple[tuple[Any, ...], ...]] = (
    (b"", b"\0", b"a", b"a\0", b"b", b"\xff"),
    (-(2**63), -256, -1, 0, 1, 255, 256, 2**63 - 1),
    ("", "a", "aa", "b", "\u00e4", "\uffff", "\U0001f511"),
    ((), (-1,), (-1, 5), (0,), (0, -1), (0, 0), (0, 0, 0), (1,), (256,)),
)
"""Kind by kind, in the order in which a scan must give them."""
