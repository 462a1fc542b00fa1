"""A pytest plugin that notes what the machines go through in tests: `pytest -p tests.coverage_plugin --machine-coverage FILE`.

One line of JSON for each test file, as `{"file": ..., "taken": [...], "refused": [...], "given": [...], "events": [...]}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from pinfold.chaos.coverage import Coverage, watched

SEEN: dict[str, Coverage] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--machine-coverage", type=Path, default=None, metavar="FILE", help="where to write what was gone through")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    with watched() as coverage:
        outcome: Any = yield
    SEEN.setdefault(item.nodeid.partition("::")[0], Coverage()).join(coverage)
    return outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--machine-coverage")
    if target is not None:
        lines = [
            {"file": name, **{key: sorted(value) for key, value in attrs.asdict(seen).items()}} for name, seen in SEEN.items()
        ]
        target.write_text("".join(json.dumps(line) + "\n" for line in lines))
