"""The section of the explorer in `specs/results.md`, written anew by a deep run."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..core.errors import WorldError
from .check import Checked
from .topics import TOPICS

TITLE: Final = "## Explorer (`make check-full`)"
LONG_UNFINISHED: Final = ("crash_restart_recreate", "evict_recreate_one_slot")
"""The two worlds that an earlier, smaller checker could not finish; their deep and deeper forms begin with these names."""


class PageError(WorldError):
    """Raised when the page of results can't be read or written."""

    exit_code = 2


def write(page: Path, results: Sequence[Checked], jobs: int) -> None:
    """Put the section in the place of the old one, or at the end of the page. Raises `PageError`."""
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(f"{TITLE}\n")
        _, mark, after = rest.partition("\n## ")
        lines = [before.rstrip(), "", TITLE, "", *section(results, jobs), *(["", f"## {after.rstrip()}"] if mark else [])]
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise PageError(f"the page {page} can't be written: {error.strerror}") from None


def section(results: Sequence[Checked], jobs: int) -> list[str]:
    """Its lines, without the title."""
    seconds = sum(one.seconds for one in results)
    states = sum(one.states for one in results)
    incomplete = [one.world for one in results if not one.complete]
    wrong = [f"{one.world} ({one.outcome})" for one in results if one.outcome not in ("FINE", "INCOMPLETE")]
    return [
        f"{datetime.now(UTC):%Y-%m-%d}, commit {_commit()}, Python {platform.python_version()}, {jobs} worlds at a time.",
        "",
        f"**{len(results)} worlds, {states:,} distinct states, {sum(one.transitions for one in results):,} steps.**",
        f"In {seconds:,.0f} s of one core, {int(states / seconds) if seconds else 0:,} states a second.",
        f"Complete to their budgets: {len(results) - len(incomplete)}. Violations: {', '.join(wrong) or 'none'}.",
        f"Not complete: {', '.join(incomplete) or 'none'}.",
        "",
        *_long_unfinished(results),
        "",
        "| world | complete for | states | steps | depth | at rest | states/s |",
        "|---|---|---|---|---|---|---|",
        *[_row(one) for one in sorted(results, key=lambda one: -one.states)],
        "",
        "Which of them have really gone through what (seen in a state that was reached, not only allowed by the file):",
        "",
        "| topic | worlds |",
        "|---|---|",
        *[f"| {topic} | {_worlds_of(topic, results)} |" for topic in TOPICS],
    ]


def _row(one: Checked) -> str:
    limit = "" if one.complete else f" (**stopped**: {one.limit or one.outcome})"
    return (
        f"| {one.world} | {_budgets(one)}{limit} | {one.states:,} | {one.transitions:,} | {one.depth} | {one.quiescent:,} "
        f"| {one.states_per_second:,} |"
    )


def _budgets(one: Checked) -> str:
    return ", ".join(f"{limit} {fault}" for fault, limit in one.budgets.items()) or "no faults"


def _long_unfinished(results: Sequence[Checked]) -> list[str]:
    """The largest budgets to which the two worlds are complete, and those that were tried beyond."""
    lines = []
    for name in LONG_UNFINISHED:
        forms = [one for one in results if one.world.startswith(name)]
        whole = [f"complete for {_budgets(one)} ({one.states:,} states)" for one in forms if one.complete]
        tried = [f"tried for {_budgets(one)} (stopped by {one.limit})" for one in forms if not one.complete]
        lines.append(f"- `{name}`: {'; '.join(whole + tried) or 'not in this run'}.")
    return lines


def _worlds_of(topic: str, results: Sequence[Checked]) -> str:
    worlds = sorted([one for one in results if topic in one.topics], key=lambda one: -one.states)
    names = [one.world for one in worlds]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return (", ".join(names[:4]) + more) or "**none**"


def _commit() -> str:
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
