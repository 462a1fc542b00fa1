"""Distinct values under small numbers, so that a world state is a tuple of numbers.

A machine is deterministic. So what it does depends on its own state and the event alone, and has to be computed once for each
pair, however many states of the world that pair is part of. That is where the explorer's speed comes from: the real machines
run once per distinct (state, event), and the world's states are combined from numbers.

Two values are the same if 128-bit blake2b digests of their canonical keys are. The odds that any two of `n` different ones meet
are below n**2 / 2**129 and printed with each verdict; a world state itself is kept exactly, as the numbers of its parts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Generic, TypeVar

from ..core.errors import WorldError

T = TypeVar("T")


def digest_of(key: object) -> bytes:
    """The digest of a canonical key: nested tuples of int, str, bytes, bool and None, whose `repr` is unambiguous."""
    return blake2b(repr(key).encode(), digest_size=16).digest()


class PoolFull(WorldError):
    """Raised when a world has more different values of one kind than a packed state can tell apart."""


class Pool(Generic[T]):
    """Values in the order in which they were found, at most `2**bits` of them."""

    def __init__(self, bits: int = 32) -> None:
        self.bits = bits
        self.items: list[T] = []
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.items)

    def find(self, digest: bytes) -> int | None:
        """The number of the value with this digest."""
        return self._numbers.get(digest)

    def put(self, digest: bytes, item: T) -> int:
        """The number of the value with this digest; `item` becomes it if there is none yet."""
        number = self._numbers.setdefault(digest, len(self.items))
        if number == len(self.items):
            if number >> self.bits:
                raise PoolFull(f"a world has more than {number:,} {type(item).__name__}s: its states can't tell them apart")
            self.items.append(item)
        return number


def collision_odds(values: int) -> float:
    """An upper bound of the odds that two of so many different values have the same 128-bit digest."""
    return values * values / 2.0**129
