"""One mutant, one process: the tests that reach it, the quickest killers first, until one of them fails.

The parent has pytest collect everything once. For each mutant it forks, puts the mutant's code objects in the place of the
right ones in the child, and the child runs the tests there. What runs at import is tried in a fresh import instead (`fresh.py`).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest
from attrs import define, field

from tests.mutants.forked import Done, Job, Say, run_all
from tests.mutation.mutants import IMPORT_TIME, Mutant

KILLED, SURVIVED, TIMED_OUT, NOT_REACHED, NOT_PYTHON = "killed", "survived", "timed out", "not reached", "not Python"
ENDED = "ended"
BASELINE_CPU_S = 900.0
TEST_CPU_S_MIN, TEST_CPU_FACTOR = 5.0, 20
"""A test is given up after so much processor time, and so many times what it takes without a mutant."""
WALL_FACTOR = 12
"""Wall time to processor time: others may have the cores."""

Function = tuple[str, str]
"""Path of a module, and the outermost function as `Class.name`."""


@define
class Tests:
    """What is known of the tests: which functions each calls, how long each takes, which ran while modules were imported."""

    items: list[pytest.Item]
    calls: dict[str, set[Function]] = field(factory=dict)
    seconds: dict[str, float] = field(factory=dict)
    at_import: set[Function] = field(factory=set)
    kills: Counter[tuple[Function, str]] = field(factory=Counter)

    def killed(self, module: str, function: str, test: str) -> None:
        self.kills[(module, function), test] += 1
        self.kills[(module, ""), test] += 1

    def reaching(self, function: Function, seconds: float) -> list[pytest.Item]:
        """The tests that call it, as many as take `seconds`; those come first that have killed mutants of it before, then those
        that have killed others of its module, then the quick ones."""
        module = function[0]

        def rank(item: pytest.Item) -> tuple[int, int, float]:
            return -self.kills[function, item.nodeid], -self.kills[(module, ""), item.nodeid], self.seconds[item.nodeid]

        reaching = sorted((item for item in self.items if function in self.calls.get(item.nodeid, ())), key=rank)
        used = accumulate(self.seconds[item.nodeid] for item in reaching)
        return [item for item, until in zip(reaching, used, strict=True) if until <= seconds] or reaching[:1]


def give_up_after(cpu_s: float) -> None:
    """The process ends by a signal when the test that begins now has had its time. Both timers are set anew by the next call."""
    for timer, number, seconds in (
        (signal.ITIMER_PROF, signal.SIGPROF, cpu_s),
        (signal.ITIMER_REAL, signal.SIGALRM, cpu_s * WALL_FACTOR),
    ):
        signal.signal(number, signal.SIG_DFL)
        signal.setitimer(timer, seconds)


def outcome_of(done: Done) -> tuple[str, str]:
    """`(outcome, test that killed it)` of a child that said which test it began, and which one failed."""
    what, test = done.said[-1] if done.said and isinstance(done.said[-1], list) else ("", "")
    if done.ended == "out of time" or done.ended in (f"signal {signal.SIGPROF}", f"signal {signal.SIGALRM}"):
        return TIMED_OUT, test
    if what in (NOT_REACHED, NOT_PYTHON):
        return what, ""
    return (SURVIVED, "") if what == ENDED else (KILLED, test)


# ---- which test calls what -----------------------------------------------------------------------------------


class Calls:
    """Notes which functions of the modules are entered, by a trace function that looks at calls only."""

    def __init__(self, root: Path, modules: Sequence[str]) -> None:
        self.paths = {str((root / module).resolve()): module for module in modules}
        self.seen: set[Function] = set()
        self._known: dict[CodeType, Function | None] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if code not in self._known:
            module = self.paths.get(os.path.realpath(code.co_filename))
            self._known[code] = None if module is None else (module, outermost(code.co_qualname))
        function = self._known[code]
        if function is not None:
            self.seen.add(function)

    def taken(self) -> set[Function]:
        seen, self.seen = self.seen, set()
        return seen


def outermost(qualname: str) -> str:
    """`Class.method` of `Class.method.<locals>.inner`; the same word that `mutants.py` has for it."""
    name = qualname.partition(".<locals>")[0]
    return IMPORT_TIME if "<" in name else name


# ---- the session ---------------------------------------------------------------------------------------------


class Session:
    """A pytest plugin: collects as always, and instead of running the tests hands them to `body`."""

    def __init__(self, calls: Calls, kept: Path, body: Callable[[Tests, Session], None]) -> None:
        """`kept`: a file for what the run without a mutant has told; it is right for as long as nothing changes."""
        self.calls = calls
        self.kept = kept
        self.body = body
        self.functions: dict[str, list[FunctionType]] = {}
        self.failed = ""
        self.broken = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken = str(report.longrepr)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.settrace(None)
        if self.broken:
            raise pytest.UsageError(self.broken)
        tests = Tests(list(session.items), at_import=self.calls.taken())
        self.functions = functions_of(self.calls.paths)  # before anything is forked: that hides objects from the collector
        self._baseline(tests)
        self.body(tests, self)
        return True

    def run(self, items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, bool]]:
        """Each test, and whether it failed."""
        for item, after in zip(items, [*items[1:], None], strict=True):
            self.failed = ""
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            yield item, bool(self.failed)

    def _baseline(self, tests: Tests) -> None:
        def work(say: Say) -> None:
            begun = time.process_time()
            sys.settrace(self.calls)
            for item, failed in self.run(tests.items):
                now = time.process_time()
                say((item.nodeid, failed, now - begun, sorted(self.calls.taken())))
                begun = now

        if self.kept.exists():
            told = json.loads(self.kept.read_text())
        else:
            (done,) = run_all(iter([Job("", work, BASELINE_CPU_S)]), 1)
            told = done.said
            failed = [nodeid for nodeid, bad, *_ in told if bad]
            if failed or done.ended or len(told) != len(tests.items):
                raise pytest.UsageError(f"without a mutant these tests fail: {', '.join(failed) or 'the run broke off'}")
            self.kept.write_text(json.dumps(told))
        for nodeid, _, seconds, calls in told:
            tests.seconds[nodeid] = seconds
            tests.calls[nodeid] = {(module, function) for module, function in calls}

    def job(self, tests: Tests, mutant: Mutant, path: str, seconds: float = float("inf")) -> Job:
        """The trial of one mutant inside a function."""
        items = tests.reaching((mutant.module, mutant.function), seconds)

        def work(say: Say) -> None:
            try:
                put_in_place(self.functions[path], mutant)
            except SyntaxError:
                say((NOT_PYTHON, ""))
                return
            for item in items:
                say(("began", item.nodeid))
                give_up_after(max(TEST_CPU_S_MIN, TEST_CPU_FACTOR * tests.seconds[item.nodeid]))
                if any(failed for _, failed in self.run([item])):
                    say(("failed", item.nodeid))
                    return
            say((ENDED if items else NOT_REACHED, ""))

        return Job(mutant, work, BASELINE_CPU_S)


def functions_of(paths: Iterable[str]) -> dict[str, list[FunctionType]]:
    """All function objects whose code is in these files, by file."""
    found: dict[str, list[FunctionType]] = {path: [] for path in paths}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            mine = found.get(os.path.realpath(one.__code__.co_filename))
            if mine is not None:
                mine.append(one)
    return found


def put_in_place(functions: Sequence[FunctionType], mutant: Mutant) -> None:
    """Every function object gets the mutant's code: whoever holds the function, holds the mutant, inner functions and all."""
    whole = compile(mutant.source, mutant.module, "exec", dont_inherit=True)
    changed = next(code for code in codes_in(whole) if code.co_qualname == mutant.function)
    for one in functions:
        if one.__code__.co_qualname == mutant.function:
            one.__code__ = changed


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)
