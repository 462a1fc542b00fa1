"""A mutant of what runs at import: a process that has not imported the package imports it with the mutant in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

import pytest

from tests.mutants.forked import Job, Say
from tests.mutation.mutants import Mutant
from tests.mutation.trial import ENDED, NOT_PYTHON

PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "timeout=0")
FRESH_CPU_S_MAX = 120.0


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module: the mutant."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self._name, self._path, self._text = name, str(path), text

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return spec_from_file_location(fullname, self._path, loader=_Loader(fullname, self._path, self._text))


class _Watch:
    """Tells which test has begun and which has failed."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._say(("began", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(("failed", report.nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(("failed", report.nodeid or "collection"))


def fresh_job(mutant: Mutant, name: str, path: Path, tests: Sequence[str]) -> Job:
    """The trial of importing module `name` (source: `path`) with the mutant, up to the first of `tests` that fails."""

    def work(say: Say) -> None:
        try:
            compile(mutant.source, str(path), "exec", dont_inherit=True)
        except SyntaxError:
            say((NOT_PYTHON, ""))
            return
        sys.meta_path.insert(0, _Finder(name, path, mutant.source))
        code = pytest.main([*PYTEST, "-x", *tests], plugins=[_Watch(say)])
        if code is pytest.ExitCode.OK:
            say((ENDED, ""))

    return Job(mutant, work, FRESH_CPU_S_MAX)
