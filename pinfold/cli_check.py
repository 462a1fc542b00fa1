"""`pinfold check`: every order of events in small worlds of the shipped machines (`pinfold.chaos`)."""

from __future__ import annotations

import sys

import click

from .chaos import check
from .chaos.mutants import MUTANTS
from .cli_shared import Given, pass_given, shared


@click.command("check")
@shared
@click.option("--world", "worlds", multiple=True, metavar="NAME", help="A world of specs/worlds; may be given more than once.")
@click.option("--all", "every", is_flag=True, help="All worlds of the fast tier.")
@click.option("--deep", is_flag=True, help="With --all: the deep tier too.")
@click.option("--mutant", type=click.Choice(sorted(MUTANTS)), default=None, metavar="NAME", help="Seed this fault first.")
@click.option("--max-states", default=check.STATES_MAX, show_default=True, help="Stop a world after so many states.")
@click.option("--jobs", default=1, show_default=True, help="Worlds at the same time, each in a process of its own.")
@pass_given
def check_command(
    given: Given, worlds: tuple[str, ...], every: bool, deep: bool, mutant: str | None, max_states: int, jobs: int
) -> int:
    """Explore worlds to their stated budgets: safety, deadlock, and whether rest can be reached from every state.

    Exit codes: 0 fine, 3 a limit was reached before everything was seen, 11 deadlock, 12 an invariant is broken, 13 rest can't be
    reached. With --mutant the fault is meant to be found, and its shortest story is printed.
    """
    names = check.choose(worlds, every, deep)
    if not names:
        raise click.UsageError("name a --world, or say --all")

    def tell(checked: check.Checked) -> None:
        for text in [*check.story_of(checked), check.line(checked)]:
            click.echo(text, err=given.as_json)
        (sys.stderr if given.as_json else sys.stdout).flush()

    results = check.check_all(names, mutant=mutant or "", states_max=max_states, jobs=jobs, tell=tell)
    given.data(check.document(results), lambda: check.summary(results))
    return check.worst(results)


COMMANDS = (check_command,)
