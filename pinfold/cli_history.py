"""`pinfold history check`: could what clients were told have happened?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from .cli_shared import Given, pass_given, shared

CODES: Final = {"ok": 0, "violated": 12, "unknown": 3}
"""Exit codes by verdict: 12 is that of a broken invariant in `pinfold check` too, 3 says that nobody can tell."""


@click.group()
def history() -> None:
    """Look at recorded histories of clients (specs/history.md)."""


@history.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--budget", type=click.IntRange(min=1), help="Steps of one search, where answers carry no revision.")
@shared
@pass_given
def check(given: Given, files: tuple[Path, ...], budget: int | None) -> int:
    """Check FILES. Exit code 0: ok; 12: no correct run can show this; 3: a search has met its bound, nobody can tell."""
    from .chaos.history import load
    from .chaos.history_check import check as judge
    from .chaos.history_search import BUDGET

    verdicts = [(file, judge(load(file), BUDGET if budget is None else budget)) for file in files]
    given.data(
        [{"file": str(file), **verdict.document()} for file, verdict in verdicts],
        lambda: [f"{file}: {line}" for file, verdict in verdicts for line in verdict.lines()],
    )
    worst = max(("ok", "unknown", "violated").index(verdict.word) for _, verdict in verdicts)
    return CODES[("ok", "unknown", "violated")[worst]]


COMMANDS = (history,)
