"""Tests as points: pytest collects them once, in the process that all others are forked from, and runs single ones in those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from pinfold.testing import StoreConformance, TierConformance
from tests.mutants.deaths import Death, line_of, oracle_of
from tests.mutants.record import Mutant

FILES: dict[str, tuple[str, ...]] = {
    "table": ("tests/test_table.py", "tests/test_rows.py"),
    "transcripts": ("tests/test_scenarios.py",),
    "Hypothesis": (
        "tests/test_directory_walk.py", "tests/test_guard_walk.py", "tests/model_based/test_node_model.py",
        "tests/model_based/test_client_model.py", "tests/model_based/test_cluster_model.py",
        "tests/model_based/test_store_model.py", "tests/model_based/test_tier_model.py",
    ),
}  # fmt: skip
"""Where the tests of a check are; those of the casebook and of the kits are told by folder and class, the rest are unit tests."""

ELSEWHERE = (
    "tests/test_tidy.py", "tests/test_packaging.py", "tests/test_mutants.py", "tests/test_explorer.py",
    "tests/test_proofs.py", "tests/test_proofs_view.py", "tests/test_spec.py", "tests/test_demo.py", "tests/test_cli.py",
    "tests/test_embedded_job.py", "tests/test_examples.py", "tests/test_store_kit.py", "tests/test_traces.py",
    "tests/test_workload.py", "tests/test_cluster_zmq.py", "tests/test_history.py", "tests/test_reference_cache.py",
    "tests/test_trace.py", "tests/test_report.py", "tests/test_logs.py", "tests/test_explorer_output.py",
    "tests/test_simulator.py", "tests/test_machine_coverage.py", "tests/test_mutation.py", "tests/test_invariant_page.py",
    "tests/test_profiles.py", "tests/test_symbolic.py", "tests/test_record.py", "tests/model_based/test_mutants_die.py",
    "tests/cases/test_mutants_of_cases.py",
)  # fmt: skip
"""Not points: tests of the other checks themselves, of text and packaging, and those that run a whole cluster for seconds."""

HASHED = re.compile(r"hash_seed|every_hash|spends|seconds|processes|the_explorer_writes|seeded_fault")
"""Tests that run other processes, in which there is no fault, that look at a clock, or that plant faults of their own."""


def check_of(item: pytest.Item) -> str:
    """The check that a test belongs to, "" if to none."""
    path, _, name = item.nodeid.partition("::")
    if HASHED.search(name) or is_of_the_explorer(item):
        return ""
    for check, files in FILES.items():
        if path in files:
            return check
    if path in ELSEWHERE or not path.startswith("tests/"):
        return ""
    cls = getattr(item, "cls", None)
    if cls is not None and issubclass(cls, StoreConformance | TierConformance):
        if getattr(item, "originalname", "") in kit_tests(cls):
            return "conformance"
    if path.startswith("tests/cases/"):
        return "cases"
    if item.get_closest_marker("processes") or path.startswith("tests/model_based/"):
        return ""
    return "unit"


def is_of_the_explorer(item: pytest.Item) -> bool:
    """A counterexample that the explorer has found is no story told by hand, and it is played with a fault."""
    callspec = getattr(item, "callspec", None)
    path = callspec.params.get("path") if callspec is not None else None
    return isinstance(path, Path) and path.parent.name == "explorer"


def kit_tests(cls: type) -> set[str]:
    """The tests that a class has from a public kit."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith("pinfold."):
            found.update(name for name in vars(base) if name.startswith("test_"))
    return found


class TestPoints:
    """A plugin of pytest: it has the tests, and hears how each ended."""

    __test__ = False

    def __init__(self) -> None:
        self.items: dict[str, dict[str, pytest.Item]] = {}
        self.failed: BaseException | None = None

    def take(self, items: Iterable[pytest.Item]) -> None:
        for item in items:
            check = check_of(item)
            if check:
                self.items.setdefault(check, {})[item.nodeid] = item

    def of_check(self, name: str) -> list[str]:
        return list(self.items.get(name, {}))

    def first(self, name: str) -> Callable[[Mutant], list[str]]:
        """The tests of a check that were made for a mutant: those of its case, and those that it names."""

        def made_for(mutant: Mutant) -> list[str]:
            wanted = [*mutant.tests, *([f"::test_{mutant.case.partition(' ')[0].lower()}_"] if mutant.case else [])]
            return [point for point in self.items.get(name, {}) if any(word in point for word in wanted)]

        return made_for

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report: pytest.TestReport = yield
        if report.failed and call.excinfo is not None and self.failed is None:
            self.failed = call.excinfo.value
        return report

    def judge(self, name: str, driver: str) -> Callable[[str, Mutant], Death | None]:
        def run(point: str, mutant: Mutant) -> Death | None:
            self.failed = None
            runtestprotocol(self.items[name][point], log=False, nextitem=None)
            if self.failed is None:
                return None
            return Death(name, driver, point, oracle_of(self.failed), line_of(self.failed))

        return run
