"""How a mutant died: by which check, at which point, and whose judgement it was.

Two kills count as two only if they are independent: neither what brought the inputs (`driver`) nor what found them wrong
(`oracle`) is the same. The oracle is read off the failure itself: it is the file whose assertion failed, or whose property was
violated. So two checks that both end in one of the machines' own invariants are one witness, however different they are.
"""

from __future__ import annotations

import re
import tempfile
import traceback
from pathlib import Path

from attrs import asdict, define

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = re.compile(rf"{re.escape(tempfile.gettempdir())}/\S*?(?=[\s'\",:]|$)")
"""A temporary path."""

INVARIANTS = "invariants"
"""The machines' own checks after each step: `core/invariants.py`, `core/node_invariants.py`, and what the core raises itself."""
CRASH = "crash"
"""An error that nobody raised on purpose. Any check can see one."""
SHARED = (INVARIANTS, CRASH)
"""Oracles that come along with the machines: a check that has seen only these may look for another one."""

PRODUCT = ("core/", "backends/", "transport/", "pinfold/")
KITS = "pinfold/testing"
BAD = ("pinfold/testing_bad", "pinfold/testing_worse")
FAULTS = (
    "chaos/mutants", "proofs/canaries", "tests/cases/faults_", "tests/cases/switches", "tests/model_based/test_mutants_die",
    "tests/mutants/",
)  # fmt: skip
"""Where faults are written down: an error that comes out of a fault itself is nobody's judgement."""

WORLDS = ("tests/directory_world.py", "tests/node_world.py")
VOICES = frozenset({"refused", "create", "pin", "ref", "move", "replica", "put", "read", "changes_nothing"})
"""Methods of these worlds that say what their caller expects: the oracle is the caller. What else a world asserts is its own."""


@define(frozen=True)
class Death:
    """`point`: the test, world, seed, contract or slice. `said`: the failure in one line. `seconds`: of processor
    time. `blind`: seen with the machines' own invariants switched off."""

    check: str
    driver: str
    point: str
    oracle: str
    said: str
    seconds: float = 0.0
    blind: bool = False

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def independent(one: Death, other: Death) -> bool:
    return one.driver != other.driver and one.oracle != other.oracle


def pair_of(deaths: list[Death]) -> tuple[Death, Death] | None:
    """The two quickest that are independent of each other, by the time of both."""
    pairs = [(a, b) for at, a in enumerate(deaths) for b in deaths[at + 1 :] if independent(a, b)]
    return min(pairs, key=lambda pair: pair[0].seconds + pair[1].seconds, default=None)


def oracle_of(error: BaseException) -> str:
    """Whose judgement an exception is: the innermost file of this repository on its way."""
    if isinstance(error, BaseExceptionGroup):
        return oracle_of(error.exceptions[0])
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename).resolve()
        if not path.is_relative_to(ROOT) or ".venv" in path.parts:
            continue
        name = path.relative_to(ROOT).as_posix()
        if name in WORLDS and frame.name in VOICES:
            continue
        if name.startswith(FAULTS):
            return CRASH
        if not name.startswith(PRODUCT) or (name.startswith(KITS) and not name.startswith(BAD)):
            return name
        return INVARIANTS if type(error).__name__ == "InvariantViolation" else CRASH
    return CRASH


def line_of(error: BaseException) -> str:
    """What it said, on one line, without the paths of the machine that it was said on."""
    text = ELSEWHERE.sub("", " ".join(str(error).replace(f"{ROOT}/", "").split()))
    return f"{type(error).__name__}: {text}"[:160]
