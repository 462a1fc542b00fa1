"""Each case has a mutant under which its test fails; and the casebook is whole: 72 cases, each tested and listed."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pinfold.core.errors import PinfoldError
from tests.cases import zmq_world
from tests.cases.mutants import MUTANTS, Mutant

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent.parent / "specs" / "cases.md"
NAME = re.compile(r"test_(c\d\d+)_\w+")

CASES = (
    1, 3, 5, 7, 8, 9, 12, 13, 16, 17, 19, 21, 22, 24, 25, 26, 29, 31, 32, 35, 36, 37, 38, 40, 41, 42, 43, 44, 45, 47, 48, 49,
    50, 52, 54, 55, 56, 57, 59, 60, 61, 62, 63, 65, 66, 67, 68, 69, 71, 73, 74, 77, 79, 81, 82, 83, 86, 87, 88, 89, 90, 92, 94,
    96, 97, 98, 99, 100, 102, 103, 105, 108,
)  # fmt: skip

KILLED = (AssertionError, PinfoldError, pytest.fail.Exception)
"""How a case's test fails: an assertion, an invariant, an error of ours. Anything else is a mutant that is itself broken."""

Test = Callable[..., None]


def found_by_case() -> dict[str, list[Test]]:
    found: dict[str, list[Test]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name != Path(__file__).name:
            for name, test in vars(import_module(f"tests.cases.{path.stem}")).items():
                match = NAME.fullmatch(name)
                if match is not None:
                    found.setdefault(match[1].upper(), []).append(test)
    return found


def fails(test: Test, request: pytest.FixtureRequest) -> bool:
    given: dict[str, Any] = {name: request.getfixturevalue(name) for name in inspect.signature(test).parameters}
    try:
        test(**given)
    except KILLED:
        return True
    return False


def parameters() -> list[Any]:
    """Those that start processes, or wait for what never comes, are marked."""
    slow = {True: [pytest.mark.processes], False: []}
    return [pytest.param(mutant, marks=slow[mutant.slow], id=mutant.name.replace(" ", "-")) for mutant in MUTANTS]


@pytest.mark.parametrize("mutant", parameters())
def test_a_case_fails_under_its_mutant(
    mutant: Mutant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_world, "PATIENCE_S", 1.5)
    tests = found_by_case()[mutant.case]
    with mutant.on():
        assert any(fails(test, request) for test in tests), f"{mutant.case} does not see it: {mutant.fault}"


def test_every_case_has_a_test_and_a_mutant_and_a_docstring() -> None:
    wanted = {f"C{number:02}" for number in CASES}
    assert len(wanted) == 72
    tests = found_by_case()
    assert set(tests) == wanted
    assert {mutant.case for mutant in MUTANTS} == wanted
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert [test.__name__ for found in tests.values() for test in found if not (test.__doc__ or "").strip()] == []


def test_the_table_in_specs_names_every_case_its_tests_and_its_mutants() -> None:
    rows = [line for line in SPEC.read_text().splitlines() if re.match(r"\| C\d", line)]
    said = {row.split("|")[1].strip(): row for row in rows}
    tests = found_by_case()
    assert set(said) == set(tests)
    for case, row in said.items():
        for test in tests[case]:
            assert f"`{test.__name__}`" in row, case
        for mutant in MUTANTS:
            assert mutant.case != case or mutant.fault in row, mutant.name
