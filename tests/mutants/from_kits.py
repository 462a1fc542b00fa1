"""The known-bad stores and tiers of the conformance kits, in the place of the good ones of their kind."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pinfold.backends.memory import MemoryStore
from pinfold.backends.memory_tier import MemoryTier
from pinfold.backends.ssd import SsdTier
from pinfold.testing import BAD_STORES, MemoryStoreKit
from pinfold.testing_bad_tiers import BAD_TIERS, BadTier, MemoryTierKit, SsdTierKit
from tests.cases.switches import everywhere
from tests.mutants.record import Mutant

KITS: dict[type, tuple[type, str]] = {
    MemoryStore: (MemoryStoreKit, "kind"),
    MemoryTier: (MemoryTierKit, "make"),
    SsdTier: (SsdTierKit, "make"),
}
"""The kit of each, and by what attribute it makes one."""


@contextmanager
def instead(good: type, bad: type) -> Iterator[None]:
    """`bad` wherever `good` is known by name, and in its kit; but not where it is made from it."""
    home = sys.modules[bad.__module__]
    with pytest.MonkeyPatch.context() as patch:
        everywhere(patch, good, bad)
        patch.setattr(home, good.__name__, good, raising=False)
        patch.setattr(*KITS[good], bad)
        yield


def line(kind: type) -> str:
    """The first line of its docstring, as a fault."""
    said = (inspect.getdoc(kind) or "").splitlines()[0].rstrip(".:")
    return said[0].lower() + said[1:]


def from_stores() -> list[Mutant]:
    return [
        Mutant(
            f"store {bad.__name__}", "store", "rule 10, DUR-1", line(bad),
            lambda bad=bad: instead(MemoryStore, bad),  # type: ignore[misc]
            tests=(f"TestMemoryStore::{bad.seen_by[0]}", "test_store_model.py::test_the_store_in_memory", "::test_whoever_scans"),
        )
        for bad in BAD_STORES
    ]  # fmt: skip


def from_tiers() -> list[Mutant]:
    return [made_of(bad) for bad in BAD_TIERS]


def made_of(bad: BadTier) -> Mutant:
    in_memory = bad.kit is MemoryTierKit
    good: type = MemoryTier if in_memory else SsdTier
    walk = "test_tier_model.py::test_a_tier" if in_memory else "SsdTierKit]"
    tests = (f"{'TestMemoryTier' if in_memory else 'TestSsdTier'}::{bad.test}", walk, "test_tier_model.py::test_after")
    breaks = "rule 4.4, BYTES-1" if in_memory else "rule 9, BYTES-1, DUR-1"
    return Mutant(f"tier {bad.tier.__name__}", "tier", breaks, line(bad.tier), lambda: instead(good, bad.tier), tests=tests)
