"""Mutation testing of the core: `make mutation`, or `python -m tests.mutation --module core/rows.py`.

Results are lines in `build/mutation/`, one file a module; a run goes on where the last one stopped. A mutant whose function has
changed since is new. `--again` tries survivors once more, after tests were added. Survivors that are argued to be the same
program, or to differ in words only, stand in `accepted.toml`. Exit code: 0 nothing is open, 1 something is, 3 not everything
was tried.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads is no process to fork

import pytest
from attrs import define

from tests.mutants.forked import Job, run_all
from tests.mutation.fresh import PYTEST, fresh_job
from tests.mutation.mutants import IMPORT_TIME, Mutant, mutants_of
from tests.mutation.trial import KILLED, NOT_PYTHON, NOT_REACHED, SURVIVED, TIMED_OUT, Calls, Session, Tests, outcome_of

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mutation"
ACCEPTED = Path(__file__).with_name("accepted.toml")
LATE = KEPT / "at_import"
"""Keys of mutants in functions that tests did not notice and that also run at import."""
OUTCOMES = (KILLED, TIMED_OUT, SURVIVED, NOT_REACHED, NOT_PYTHON)


@define
class Ledger:
    """What is known of the mutants of one module, on disk."""

    module: str
    mutants: list[Mutant]
    known: dict[str, dict[str, Any]]

    @property
    def path(self) -> Path:
        return KEPT / (self.module.replace("/", ".") + ".jsonl")

    def load(self) -> None:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["key"]] = entry

    def note(self, mutant: Mutant, outcome: str, killer: str, seconds: float, how: str) -> None:
        line = {
            "key": mutant.key, "outcome": outcome, "by": killer, "seconds": round(seconds, 3), "how": how,
            "line": mutant.line, "function": mutant.function, "change": mutant.change,
        }  # fmt: skip
        self.known[mutant.key] = line
        with self.path.open("a") as file:
            print(json.dumps(line), file=file)

    def outcome(self, mutant: Mutant) -> str:
        return str(self.known.get(mutant.key, {}).get("outcome", ""))

    def counts(self) -> Counter[str]:
        return Counter(self.outcome(mutant) for mutant in self.mutants)


def ledger_of(module: str) -> Ledger:
    ledger = Ledger(module, mutants_of(module, (ROOT / module).read_text()), {})
    ledger.load()
    return ledger


def accepted() -> dict[tuple[str, str, str], dict[str, str]]:
    """`(module, function, change)` -> the entry that says why nothing need notice."""
    entries = tomllib.loads(ACCEPTED.read_text()).get("accepted", [])
    return {(entry["module"], entry["function"], change): entry for entry in entries for change in entry["changes"]}


class Progress:
    def __init__(self, ledger: Ledger, quiet: bool) -> None:
        self.ledger, self.quiet, self.told = ledger, quiet, 0.0

    def show(self) -> None:
        if self.quiet or time.monotonic() - self.told < 5:
            return
        self.told = time.monotonic()
        counts = self.ledger.counts()
        done = sum(counts[outcome] for outcome in OUTCOMES)
        words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        print(f"{self.ledger.module}: {done} of {len(self.ledger.mutants)}: {words}", file=sys.stderr, flush=True)


Late = Callable[[Mutant, str, str], bool]


def module_name(module: str) -> str:
    return "pinfold." + module.removesuffix(".py").replace("/", ".")


def state_of(tests: Sequence[str]) -> str:
    """A digest of all that decides what a run of the tests does."""
    digest = blake2b(repr(list(tests)).encode(), digest_size=8)
    folders = ("core", "backends", "transport", "chaos", "tests", "specs/worlds")
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*")):
        if path.is_file() and path.suffix in (".py", ".txt", ".toml") and path.parent != Path(__file__).parent:
            digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


Wanted = list[tuple[Ledger, list[Mutant]]]
"""What is to be tried, by module."""


def try_all(ledger: Ledger, jobs: Iterator[Job], how: str, quiet: bool, until: float, late: Late | None = None) -> None:
    progress = Progress(ledger, quiet)
    for done in run_all(itertools.takewhile(lambda _: time.monotonic() < until, jobs), 1):
        outcome, killer = outcome_of(done)
        if late is None or not late(done.key, outcome, killer):
            ledger.note(done.key, outcome, killer, done.cpu_s, how)
        progress.show()


def in_functions(wanted: Wanted, tests: Sequence[str], seconds: float, until: float, quiet: bool) -> None:
    """Everything inside functions, in one session. What only an import can show is left to `at_import`."""

    def body(known: Tests, session: Session) -> None:
        def late(mutant: Mutant, outcome: str, killer: str) -> bool:
            function = (mutant.module, mutant.function)
            if killer:
                known.killed(*function, killer)
            if outcome not in (SURVIVED, NOT_REACHED) or function not in known.at_import:
                return False
            with LATE.open("a") as file:
                print(mutant.key, file=file)
            return True

        for ledger, mutants in wanted:
            for entry in ledger.known.values():
                if entry["by"]:
                    known.killed(ledger.module, entry["function"], entry["by"])
            inside = [mutant for mutant in mutants if mutant.function != IMPORT_TIME]
            jobs = (session.job(known, mutant, str((ROOT / ledger.module).resolve()), seconds) for mutant in inside)
            try_all(ledger, jobs, "in place", quiet, until, late)

    modules = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "core").glob("*.py"))
    LATE.unlink(missing_ok=True)
    child = os.fork()  # this process has to stay without the package
    if child == 0:
        calls = Calls(ROOT, modules)
        sys.settrace(calls)
        code = pytest.main([*PYTEST, *tests], plugins=[Session(calls, KEPT / f"calls-{state_of(tests)}.json", body)])
        os._exit(code)
    if os.waitpid(child, 0)[1]:
        sys.exit("the session with the tests broke off: run them without a mutant first")


def at_import(wanted: Wanted, tests: Sequence[str], until: float, quiet: bool) -> None:
    """The rest: each by a fresh import."""
    late = set(LATE.read_text().split()) if LATE.exists() else set()
    for ledger, mutants in wanted:
        chosen = [mutant for mutant in mutants if mutant.function == IMPORT_TIME or mutant.key in late]
        jobs = (fresh_job(mutant, module_name(ledger.module), ROOT / ledger.module, tests) for mutant in chosen)
        try_all(ledger, jobs, "by import", quiet, until)


def pending(ledger: Ledger, again: bool, sample: int) -> list[Mutant]:
    open_ones = (SURVIVED, NOT_REACHED)
    return [
        mutant
        for mutant in ledger.mutants
        if (again and ledger.outcome(mutant) in open_ones)
        or (not ledger.outcome(mutant) and int(mutant.key, 16) % sample == 0)
    ]


def report(ledgers: Sequence[Ledger]) -> list[dict[str, Any]]:
    known = accepted()
    rows = []
    for ledger in ledgers:
        counts = ledger.counts()
        alive = [mutant for mutant in ledger.mutants if ledger.outcome(mutant) in (SURVIVED, NOT_REACHED)]
        open_ones = [one for one in alive if (one.module, one.function, one.change) not in known]
        rows.append(
            {
                "module": ledger.module,
                "made": len(ledger.mutants) - counts[NOT_PYTHON],
                "killed": counts[KILLED],
                "timed_out": counts[TIMED_OUT],
                "survived": len(alive),
                "accepted": len(alive) - len(open_ones),
                "not_tried": counts[""],
                "open": [one.name for one in open_ones],
            }
        )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pinfold"]["mutation"]
    parser = argparse.ArgumentParser(prog="make mutation", description=__doc__)
    parser.add_argument("--module", action="append", choices=config["modules"], help="only this one; may be repeated")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="one in N, chosen by the digest of the change")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="tests for one mutant, in processor seconds")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; the next run goes on")
    parser.add_argument("--report", action="store_true", help="try nothing, say what is known")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    until = time.monotonic() + options.minutes * 60
    KEPT.mkdir(parents=True, exist_ok=True)
    ledgers = [ledger_of(module) for module in options.module or config["modules"]]
    wanted = [] if options.report else [(ledger, pending(ledger, options.again, options.sample)) for ledger in ledgers]
    if any(mutants for _, mutants in wanted):
        in_functions(wanted, config["tests"], options.seconds, until, options.json)
        for ledger in ledgers:
            ledger.load()  # the session was a process of its own
        at_import(wanted, config["tests_at_import"], until, options.json)
    rows = report(ledgers)
    if options.json:
        print(json.dumps({"modules": rows}, indent=1))
    else:
        for row in rows:
            for name in row["open"]:
                print(name)
        for row in rows:
            print(
                f"{row['module']}: {row['made']} mutants, {row['killed']} killed, {row['timed_out']} timed out, "
                f"{row['survived']} survived ({row['accepted']} accepted, {len(row['open'])} open), "
                f"{row['not_tried']} not tried"
            )
    if any(row["not_tried"] for row in rows):
        return 3
    return 1 if any(row["open"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
