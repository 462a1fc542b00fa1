"""All rows, guards, reasons and events are reached by tests that run here, or it is argued why not (specs/coverage.md)."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from pinfold.chaos.coverage import all_guards, watched
from pinfold.core import commands as c
from pinfold.core import table
from pinfold.core.errors import Refusal

from .directory_world import CLIENT, World, id_of
from .machine_coverage import ARGUED, KINDS, argument, items, page, reached_by_tests, read_page


@pytest.fixture(scope="module")
def tested() -> dict[str, dict[str, list[str]]]:
    return reached_by_tests()


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_reached_or_argued(kind: str, tested: dict[str, dict[str, list[str]]]) -> None:
    missed = [item for item in items(kind) if item not in tested[kind] and not argument(item)]
    assert missed == [], "no test reaches these, and tests/machine_coverage.py does not say why nobody can"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_argued_is_reached_by_nobody(kind: str, tested: dict[str, dict[str, list[str]]]) -> None:
    told = read_page()[kind]
    wrong = [item for item in items(kind) if argument(item) and (item in tested[kind] or told[item][0] != "-")]
    assert wrong == [], "it is argued that nobody can reach these"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_lists_what_there_is_and_what_the_tests_reach(kind: str, tested: dict[str, dict[str, list[str]]]) -> None:
    told = read_page()[kind]
    assert list(told) == items(kind), "run python -m tests.machine_coverage"
    wrong = {item: said for item, (_, said) in told.items() if said.startswith("*can") is bool(tested[kind].get(item))}
    assert wrong == {}, "run python -m tests.machine_coverage"


def test_each_argument_is_about_something() -> None:
    everything = [item for kind in KINDS for item in items(kind)]
    assert [pattern for pattern in ARGUED if not any(fnmatchcase(item, pattern) for item in everything)] == []


def test_the_page_has_a_line_for_each_and_says_what_is_missing() -> None:
    empty: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    text = page(empty, {kind: {items(kind)[0]: ["shapes"]} for kind in KINDS})
    assert text.count("\n| `") == sum(len(items(kind)) for kind in KINDS)
    assert f"| `{items('rows')[0]}` | - | shapes |" in text
    assert "| `WrongShard` | - | *can not be*: the map of shards" in text


def test_a_refusal_counts_when_the_door_gives_it_and_not_when_it_is_asked_aloud() -> None:
    guard = "LOCAL/EVICT: unpinned"
    assert guard in all_guards()
    with watched() as coverage:
        w = World()
        w.put("A")
        w.pin("A")
        w.query(c.Explain(CLIENT, "x", w.session, c.Evict(id_of("A"))))
        assert guard not in coverage.refused
        w.do(c.Evict(id_of("A")))
    assert guard in coverage.refused
    assert "directory: Pinned" in coverage.given
    assert {"directory: Explain", "directory: Command Evict", "directory: Report Sealed"} <= coverage.events
    before = len(coverage.given)
    Refusal("Pinned")
    assert len(coverage.given) == before


def test_nothing_is_watched_any_more_afterwards() -> None:
    before = dict(table.TABLE)
    with watched():
        assert not any(table.TABLE[key] is row for key, row in before.items())
    assert all(table.TABLE[key] is row for key, row in before.items())
