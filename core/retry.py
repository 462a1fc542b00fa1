"""Chance from a given seed, and the pause before a repetition.

`random` keeps its state in the module and is banned in the core; splitmix64 (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", 2014) is one integer of state and five operations, the same on every machine.

Full jitter (Brooker, "Exponential backoff and jitter", 2015): the pause is drawn from the whole interval up to the bound
that grows, not from its upper half, so that clients which failed together do not come back together.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1


def splitmix64(seed: int) -> tuple[int, int]:
    """`(next seed, 64 random bits)`."""
    seed = (seed + 0x9E3779B97F4A7C15) & _MASK
    bits = seed
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return seed, bits ^ (bits >> 31)


def below(seed: int, limit: int) -> tuple[int, int]:
    """`(next seed, a number in [0, limit))`; the bias of the multiplication is under limit / 2**64."""
    seed, bits = splitmix64(seed)
    return seed, (bits * limit) >> 64


def backoff_ms(seed: int, attempt: int, base_ms: int, max_ms: int) -> tuple[int, int]:
    """`(next seed, pause before repetition `attempt`)`: 1 to min(max, base * 2**attempt) ms. Never 0: a zero pause spins."""
    bound = min(max_ms, base_ms << min(attempt, 32))
    seed, drawn = below(seed, max(1, bound))
    return seed, drawn + 1
