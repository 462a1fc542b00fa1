"""`pinfold check`: every order of events in small worlds of the shipped machines (`pinfold.chaos`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

import click
from attrs import asdict

from .chaos import campaign, check
from .chaos.campaign_report import write as write_section
from .chaos.mutants import MUTANTS
from .chaos.world_file import load_world
from .cli_shared import Given, pass_given, shared

OLD_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)


def _mutant(_context: click.Context, _option: click.Parameter, name: str | None) -> str:
    if name is None or name in MUTANTS:
        return name or ""
    near = get_close_matches(name, MUTANTS, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else "the file pinfold/chaos/mutants.py lists them"
    raise click.BadParameter(f"there is no mutant {name!r}; {hint}")


@click.command("check")
@shared
@click.option("--world", "worlds", multiple=True, metavar="NAME", help="A world of specs/worlds; may be given more than once.")
@click.option("--all", "every", is_flag=True, help="All worlds of the fast tier.")
@click.option("--deep", is_flag=True, help="With --all: the deep tier too.")
@click.option("--mutant", callback=_mutant, metavar="NAME", help="Seed this fault first.")
@click.option(
    "--max-states",
    type=click.IntRange(min=1),
    default=None,
    help="Stop a world after so many states; default: as its file says.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worlds at the same time, each in its own process."
)
@click.option("--mutants", is_flag=True, help="Instead: each world with each of the faults that it says it finds.")
@click.option("--fresh", is_flag=True, help="With --deep: forget the verdicts that are kept.")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=campaign.FOLDER, show_default=True,
    help="With --deep: where verdicts are kept, so that a run goes on where the last one ended.",
)
@click.option("--write-results", type=OLD_FILE, help="With --deep: write the section of the explorer in this page.")
@click.option("--scenario", type=NEW_FILE, help="Write the first counterexample here, as tests/scenarios has them.")
@click.option("--itf", type=NEW_FILE, help="Write the first counterexample here, in the Informal Trace Format.")
@pass_given
def check_command(
    given: Given, worlds: tuple[str, ...], every: bool, deep: bool, mutant: str, max_states: int | None, jobs: int, mutants: bool,
    fresh: bool, keep: Path, write_results: Path | None, scenario: Path | None, itf: Path | None,
) -> int:  # fmt: skip
    """Explore worlds to their stated budgets: safety, deadlock, and whether rest can be reached from every state.

    Exit codes: 0 fine, 3 a limit was reached before everything was seen, 11 deadlock, 12 an invariant is broken, 13 rest can't be
    reached. With --mutant the fault is meant to be found, and its shortest story is printed; with --mutants exit code 1 says that
    one was not.
    """
    if worlds and (every or deep):
        raise click.UsageError("say --world, or --all; not both")
    if deep and not every:
        raise click.UsageError("--deep goes with --all")
    if (fresh or write_results) and not deep:
        raise click.UsageError("--fresh and --write-results go with --deep")
    if mutants and (mutant or fresh or write_results):
        raise click.UsageError("--mutants goes with --world or --all alone")
    names = check.choose(worlds, every, deep)
    if not names:
        raise click.UsageError("name a --world, or say --all")

    def say(*lines: str) -> None:
        for text in lines:
            click.echo(text, err=given.as_json)
        (sys.stderr if given.as_json else sys.stdout).flush()

    def tell(checked: check.Checked, kept: bool = False) -> None:
        say(*check.story_of(checked), check.line(checked) + (" (kept from an earlier run)" if kept else ""))

    if mutants:
        return _mutants(given, names, jobs, say)
    if deep and not mutant:
        files = [load_world(name) for name in names]
        results = campaign.run(files, states_max=max_states, jobs=jobs, kept=campaign.Kept(keep), fresh=fresh, tell=tell)
        if write_results is not None:
            write_section(write_results, results, jobs)
    else:
        results = check.check_all(names, mutant=mutant, states_max=max_states, jobs=jobs, tell=tell)
    _write(results, scenario, itf)
    given.data(check.document(results), lambda: check.summary(results))
    return check.worst(results)


def _mutants(given: Given, names: Sequence[str], jobs: int, say: Callable[..., None]) -> int:
    found = check.mutants_of(names, jobs=jobs, tell=lambda checked: say(check.mutant_line(checked)))
    alive = [f"{checked.world} with {checked.mutant}" for checked in found if check.lives(checked)]
    given.data(
        {"mutants": [asdict(checked) for checked in found], "alive": alive},
        lambda: [f"{len(found)} worlds with a fault, {len(alive)} of them not found{': ' * bool(alive)}{', '.join(alive)}"],
    )
    return int(bool(alive))


def _write(results: Sequence[check.Checked], scenario: Path | None, itf: Path | None) -> None:
    """The files that were asked for, of the first world that has a counterexample."""
    broken = next((checked for checked in results if checked.scenario), None)
    for file, text in (
        (scenario, "" if broken is None else broken.scenario),
        (itf, "" if broken is None else json.dumps(broken.itf, indent=1) + "\n"),
    ):
        if file is None:
            continue
        if not text:
            click.echo(f"there is no counterexample, so {file} was not written", err=True)
            continue
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"{file} can't be written: {error.strerror}") from None


COMMANDS = (check_command,)
