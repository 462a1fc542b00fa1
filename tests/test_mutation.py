"""The mutation tool (tests/mutation): which mutants are made, and that each of the four outcomes is told from the others."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.mutation.mutants import IMPORT_TIME, Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent

SOURCE = '''\
"""What it says here is not mutated."""
LIMIT: int = 3

def add(turn, n: int = 1) -> int:
    if turn.open:
        turn.send(n)
    return n + LIMIT


class Box:
    def take(self):
        return not self.full
'''


def changes(source: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mutant in mutants_of("core/toy.py", source):
        found.setdefault(mutant.function, []).append(mutant.change.partition("  =>  ")[2])
    return found


def test_mutants_are_small_changes_of_what_the_code_does() -> None:
    assert changes(SOURCE) == {
        IMPORT_TIME: ["LIMIT: int = None", "LIMIT: int = 4", "def add(turn, n: int = 2) -> int:"],
        "add": ["if not turn.open:", "pass", "turn.send(None)", "return n - LIMIT"],
        "Box.take": ["return self.full"],
    }


def test_each_mutant_is_a_whole_source_with_one_change() -> None:
    made = mutants_of("core/toy.py", SOURCE)
    assert len({mutant.source for mutant in made} | {SOURCE}) == len(made) + 1
    for mutant in made:
        compile(mutant.source, "toy", "exec")
        lines = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        assert [number for number, (before, after) in enumerate(lines, 1) if before != after] == [mutant.line]


def test_a_mutant_keeps_its_key_where_its_function_moves() -> None:
    def keys(source: str) -> list[str]:
        return [mutant.key for mutant in mutants_of("core/toy.py", source)]

    moved = SOURCE.replace("LIMIT: int = 3\n", "LIMIT: int = 3\n\n\n")
    changed = SOURCE.replace("n + LIMIT", "n + n")
    assert keys(moved) == keys(SOURCE)
    assert len(set(keys(SOURCE)) - set(keys(changed))) == 1


TOY = """\
def double(n):
    return n * 2

def count_down(n):
    while n > 0:
        n = n - 1
    return n

def loose(n):
    return n * 2

def spare(n):
    return n + 1
"""
TESTS = """\
from toy import count_down, double, loose

def test_double():
    assert double(3) == 6

def test_loose():
    assert loose(0) == 0

def test_count_down():
    assert count_down(3) == 0
"""
SCRIPT = """\
import json, sys
from pathlib import Path
import pytest
from tests.mutants.forked import run_all
from tests.mutation import trial
from tests.mutation.mutants import mutants_of

trial.TEST_CPU_S_MIN = 0.5
root = Path(sys.argv[1]).resolve()
mutants = mutants_of("toy.py", (root / "toy.py").read_text())
found = {}

def body(tests, session):
    for done in run_all((session.job(tests, one, str(root / "toy.py")) for one in mutants), 1):
        found[f"{done.key.function}: {done.key.change}"] = trial.outcome_of(done)

session = trial.Session(trial.Calls(root, ["toy.py"]), root / "kept.json", body)
code = pytest.main(["-q", "-p", "no:cacheprovider", "-c", str(root / "pytest.ini"), str(root)], plugins=[session])
assert code == 0, code
print(json.dumps(found))
"""


def run_script(script: str, folder: Path) -> Any:
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_killed_survived_timed_out_and_not_reached_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "test_toy.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    assert run_script(SCRIPT, tmp_path) == {
        "double: return n * 2  =>  return n / 2": ["killed", "test_toy.py::test_double"],
        "double: return n * 2  =>  return n * 3": ["killed", "test_toy.py::test_double"],
        "count_down: while n > 0:  =>  while n >= 0:": ["killed", "test_toy.py::test_count_down"],
        "count_down: while n > 0:  =>  while n > 1:": ["killed", "test_toy.py::test_count_down"],
        "count_down: n = n - 1  =>  n = None": ["killed", "test_toy.py::test_count_down"],
        "count_down: n = n - 1  =>  n = n + 1": ["timed out", "test_toy.py::test_count_down"],
        "count_down: n = n - 1  =>  n = n - 2": ["killed", "test_toy.py::test_count_down"],
        "loose: return n * 2  =>  return n / 2": ["survived", ""],
        "loose: return n * 2  =>  return n * 3": ["survived", ""],
        "spare: return n + 1  =>  return n - 1": ["not reached", ""],
        "spare: return n + 1  =>  return n + 2": ["not reached", ""],
    }


def test_a_mutant_of_what_runs_at_import_is_tried_by_an_import(tmp_path: Path) -> None:
    (tmp_path / "toy_limit.py").write_text("LIMIT = 3\nLOOSE = 1\n")
    (tmp_path / "test_limit.py").write_text("import toy_limit\n\ndef test_limit():\n    assert toy_limit.LIMIT < 4\n")
    script = """\
import json, sys
from pathlib import Path
from tests.mutants.forked import run_all
from tests.mutation.fresh import fresh_job
from tests.mutation.mutants import mutants_of
from tests.mutation.trial import outcome_of

root = Path(sys.argv[1])
sys.path.insert(0, str(root))
path = root / "toy_limit.py"
jobs = (fresh_job(one, "toy_limit", path, [str(root)]) for one in mutants_of("toy_limit.py", path.read_text()))
print(json.dumps([(done.key.change, outcome_of(done)[0]) for done in run_all(jobs, 1)]))
"""
    assert run_script(script, tmp_path) == [
        ["LIMIT = 3  =>  LIMIT = None", "killed"],
        ["LIMIT = 3  =>  LIMIT = 4", "killed"],
        ["LOOSE = 1  =>  LOOSE = None", "survived"],
        ["LOOSE = 1  =>  LOOSE = 2", "survived"],
    ]


def test_the_modules_and_tests_of_the_configuration_are_there() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pinfold"]["mutation"]
    named = [*config["modules"], *config["tests"], *config["tests_at_import"]]
    files = [name.removeprefix("--deselect=").partition("::")[0] for name in named]
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert isinstance(mutants_of("core/ordering.py", (ROOT / "core" / "ordering.py").read_text())[0], Mutant)
