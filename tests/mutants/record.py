"""What a mutant is to the kill matrix, wherever its fault is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
from attrs import define

FAMILIES = (
    "fencing", "holds", "guards", "writing", "move", "capacity", "exactly-once", "durability order", "inventory",
    "lapse and return", "store", "tier", "wire", "client",
)  # fmt: skip

NULL = "nothing"
"""The mutant without a fault: every check must pass under it, or none of them proves anything by failing."""


@define(frozen=True)
class Mutant:
    """One seeded fault. `breaks`: the rules of the design, findings and invariants that it breaks, in words. The shipped code has
    the fault while the context that `plant` makes is open. `case`: the case of the casebook that it comes from. `worlds`: worlds
    that name it. `tests`: what the names of tests contain that were made for it."""

    name: str
    family: str
    breaks: str
    what: str
    plant: Callable[[], AbstractContextManager[object]]
    case: str = ""
    worlds: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


NOTHING = Mutant(NULL, "", "", "no fault at all", nullcontext)


Switch = Callable[[pytest.MonkeyPatch], None]
"""How most faults outside of the explorer are written: a function that changes the shipped code through a `MonkeyPatch`."""


@contextmanager
def switched(switch: Switch) -> Iterator[None]:
    """The code has the fault inside of the `with`."""
    with pytest.MonkeyPatch.context() as patch:
        switch(patch)
        yield
