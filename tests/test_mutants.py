"""The kill matrix itself: the registry is whole, known killers kill and pass without a fault, and what does not kill is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pinfold.chaos.mutants import MUTANTS as SEEDED
from pinfold.core import rows
from pinfold.core.errors import InvariantViolation
from pinfold.core.invariants import INVARIANTS as IDS
from pinfold.testing import BAD_STORES
from pinfold.testing_bad_tiers import BAD_TIERS
from proofs.canaries import CANARIES
from tests.cases.mutants import MUTANTS as OF_CASES
from tests.model_based.test_mutants_die import MUTANTS as OF_MODELS
from tests.mutants import deaths, fast, from_rows, matrix, more
from tests.mutants.checks import Check
from tests.mutants.deaths import CRASH, INVARIANTS, Death, independent, line_of, oracle_of, pair_of
from tests.mutants.forked import Job, Say, run_all
from tests.mutants.reach import replaced_by
from tests.mutants.record import FAMILIES, NOTHING, Mutant
from tests.mutants.registry import SAME, mutants

ROOT = Path(__file__).resolve().parent.parent
ONE = "evicts_ignore_refs"
"""A mutant that dies soon."""
RULES = range(1, 15)
FINDINGS = range(1, 23)
"""Those that can break an invariant, leak, block or be retried for ever."""


# ---- the registry --------------------------------------------------------------------------------------------


def test_every_family_rule_finding_and_invariant_has_a_mutant() -> None:
    listed = list(mutants().values())
    assert len(listed) >= 60
    assert {one.family for one in listed} == set(FAMILIES)
    said = [one.breaks for one in listed]
    rules = {int(number) for text in said for number in re.findall(r"rule (\d+)", text)}
    assert rules == set(RULES)
    words = [word for text in said for word in re.findall(r"findings? [\d and]+", text)]
    findings = {int(number) for word in words for number in re.findall(r"\d+", word)}
    assert findings >= set(FINDINGS)
    quoted = {quote for text in said for quote in re.findall(r"\b[A-Z]+-\d\b", text)}
    assert quoted >= set(IDS)




def test_every_fault_that_is_written_down_is_a_mutant_once() -> None:
    known = mutants()
    cases = {one.name: one.switch.__name__ for one in OF_CASES}
    models = {switch.__name__: switch.__name__ for switch in OF_MODELS}
    canaries = {from_rows.name_of(one): from_rows.name_of(one) for one in CANARIES}
    written = {**cases, **models, **canaries}
    assert {name for name, there in written.items() if SAME.get(name, there) not in known} == set()
    assert {name for name in SAME if name not in written} == set(), "no such fault any more"
    assert {same for name, same in SAME.items() if same == name} == set()
    assert {name for name in SEEDED if name not in known} == set()
    assert len([name for name in known if name.startswith("store ")]) == len(BAD_STORES)
    assert len([name for name in known if name.startswith("tier ")]) == len(BAD_TIERS)
    assert all(one.what and one.breaks for one in known.values())


def test_what_is_planted_is_taken_away_again_and_is_found_where_it_is() -> None:
    before = dict(vars(rows))
    assert "core/rows.py:move_ended" in replaced_by(mutants()["aborts_keep_the_epoch"])
    assert "core/rows.py:decided" in replaced_by(mutants()["an_epoch_lasts_for_ever"])
    assert replaced_by(NOTHING) == set()
    assert dict(vars(rows)) == before


# ---- independence --------------------------------------------------------------------------------------------


def death(driver: str, oracle: str, seconds: float = 1.0) -> Death:
    return Death("check", driver, "point", oracle, "", seconds)


def test_two_kills_are_independent_if_neither_driver_nor_oracle_is_shared() -> None:
    assert independent(death("seeds", "a.py"), death("product", "b.py"))
    assert not independent(death("seeds", INVARIANTS), death("every order", INVARIANTS))
    assert not independent(death("seeds", "a.py"), death("seeds", "b.py"))
    quick = [death("seeds", INVARIANTS, 9.0), death("product", INVARIANTS, 1.0), death("examples", "a.py", 2.0)]
    assert pair_of(quick) == (quick[1], quick[2])
    assert pair_of(quick[:2]) is None


def test_the_oracle_is_the_file_that_judged() -> None:
    def judged(work: Any) -> str:
        try:
            work()
        except Exception as error:  # noqa: BLE001  what is asked is whose it is
            return oracle_of(error)
        return ""

    def violated() -> None:
        raise InvariantViolation("OWN-1", "two owners")

    assert judged(lambda: rows.noted(None)) == CRASH  # type: ignore[arg-type]
    assert judged(violated) == "tests/test_mutants.py"
    assert judged(lambda: more.windows_have_no_end(None)) == CRASH, "a fault that breaks by itself"  # type: ignore[arg-type]


# ---- processes -----------------------------------------------------------------------------------------------


def test_children_say_what_they_found_and_are_ended_when_their_time_is_up() -> None:
    def endless(say: Say) -> None:
        say("begun")
        while True:
            pass

    def broken(say: Say) -> None:
        raise LookupError("nothing there")

    jobs = [Job("good", lambda say: say(7), 5), Job("endless", endless, 1), Job("broken", broken, 5)]
    begun = time.monotonic()
    done = {one.key: one for one in run_all(iter(jobs), 2)}
    assert (done["good"].said, done["good"].ended) == ([7], "")
    assert (done["endless"].said, done["endless"].ended) == (["begun"], "out of time")
    assert done["broken"].said == [{"error": "LookupError: nothing there"}]
    assert time.monotonic() - begun < 30


# ---- the tiers -----------------------------------------------------------------------------------------------


def wrong_if(name: str, driver: str, oracle: str, broken: Any) -> Check:
    """A check with one point, at which it fails when `broken()`."""

    def run(point: str, mutant: Mutant) -> Death | None:
        return Death(name, driver, point, oracle, "seen") if broken() else None

    return Check(name, driver, "", ["p"], run)


def attempted(check: Check) -> list[str]:
    """What the fast tier says of one mutant, whose killers are a good check and `check`."""
    mutant = mutants()["an_epoch_lasts_for_ever"]
    shipped = rows.decided
    good = wrong_if("good", "a", "a.py", lambda: rows.decided is not shipped)
    killers = {mutant.name: [Death(one.name, one.driver, "p", f"{one.name}.py", "") for one in (good, check)]}
    return fast.attempt([mutant], {"good": good, check.name: check}, killers, 2, lambda line: None).wrong


def test_the_fast_tier_tells_a_killer_that_kills_no_more_and_a_check_that_fails_without_a_fault() -> None:
    shipped = rows.decided
    assert attempted(wrong_if("other", "b", "b.py", lambda: rows.decided is not shipped)) == []
    assert "other p" in attempted(wrong_if("other", "b", "b.py", lambda: False))[0]
    assert "the same oracle twice" in attempted(wrong_if("other", "b", "a.py", lambda: rows.decided is not shipped))[0]
    assert "other fails without a fault" in attempted(wrong_if("other", "b", "b.py", lambda: True))[0]


def test_the_verdict_names_who_lives_who_is_lonely_and_which_check_is_idle() -> None:
    one, other, third = list(mutants().values())[:3]
    cells = [
        matrix.Cell(one.name, "a", [death("seeds", "a.py")]),
        matrix.Cell(one.name, "b", [death("product", "b.py")]),
        matrix.Cell(other.name, "a", [death("seeds", "a.py")]),
        matrix.Cell(third.name, "c"),
    ]
    verdict = matrix.judge([one, other, third], ["a", "b", "c"], cells, [])
    assert (verdict.alive, verdict.lonely, verdict.idle, verdict.well) == ([third.name], [other.name], ["c"], False)
    assert set(verdict.pairs) == {one.name}


def test_the_known_killers_are_two_independent_ones_each_of_mutants_that_there_are() -> None:
    """That every mutant has them is what `make mutants` says."""
    killers = fast.known()
    assert [name for name, (one, two) in killers.items() if not independent(one, two)] == []
    assert set(killers) <= set(mutants())


def test_the_tests_that_were_made_for_a_mutant_are_there() -> None:
    """A name that is out of date would only make the deep tier slower, and so be seen by nobody."""
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/scenarios/*.txt"), *ROOT.glob("pinfold/testing*.py")]
    there = "\n".join(text for file in files for text in (file.name, file.stem, file.read_text(encoding="utf-8")))
    words = {part for mutant in mutants().values() for word in mutant.tests for part in word.strip("[]").split("::")}
    assert [word for word in sorted(words) if word not in there] == []


def test_a_mutant_dies_by_its_two_killers_which_pass_without_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--mutant", ONE, "--json"],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["wrong"] == []


def test_what_a_kill_said_is_kept_without_the_paths_of_this_machine(tmp_path: Path) -> None:
    said = line_of(ValueError(f"File '{deaths.ROOT}/tests/a.py' has claimed {tmp_path}/store, and\nwaits"))
    assert said == "ValueError: File 'tests/a.py' has claimed , and waits"


def test_a_fault_is_not_found_out_by_what_it_remembers_of_another_point() -> None:
    """Two mutants had a killer that killed only where another point had been before: planted once for all, they remembered."""
    seen: list[str] = []

    @contextmanager
    def plant() -> Iterator[None]:
        seen.clear()
        yield

    def run(point: str, mutant: Mutant) -> Death | None:
        seen.append(point)
        return Death("unit", "examples", point, "some.py", "it was here before") if len(seen) > 1 else None

    forgetful = Mutant("remembers", "client", "", "", plant)
    said: list[Any] = []
    matrix.work(forgetful, Check("unit", "examples", "", ["a", "b", "c"], run), ["a", "b", "c"], 9.0)(said.append)
    assert said == [{"tried": 1}, {"tried": 2}, {"tried": 3}]
