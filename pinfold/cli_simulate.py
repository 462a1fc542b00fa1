"""`pinfold simulate`: whole clusters of the shipped machines on virtual time, from seeds, under faults (`pinfold.chaos`)."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click

from .chaos import sim_twice, simulator
from .chaos.mutants import MUTANTS
from .chaos.sim_profiles import PROFILES
from .chaos.simulator import BadRun, Outcome
from .cli_shared import Given, pass_given, shared


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    if not (first.isdecimal() and last.isdecimal() and dots) or int(last) < int(first):
        raise BadRun(f"--seeds takes FROM..TO, as 0..99, not {text!r}")
    return range(int(first), int(last) + 1)


@click.command("simulate")
@shared
@click.option("--seed", type=click.IntRange(min=0), help="What a run comes from: its cluster, its callers, its faults.")
@click.option("--seeds", metavar="FROM..TO", help="All these seeds, one after the other.")
@click.option("--steps", type=click.IntRange(min=1), help=f"How much callers and faults do ({simulator.STEPS} by default).")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Virtual time to go on for, instead of --steps.")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="storm", show_default=True, help="What goes wrong.")
@click.option("--mutant", type=click.Choice(sorted(MUTANTS)), default=None, metavar="NAME", help="Seed this fault first.")
@click.option("--actions", metavar="JSON", help="Do these instead of what the seed stands for: [[name, [numbers]], ...].")
@click.option("--shrink", is_flag=True, help="Look for fewer actions that fail alike.")
@click.option("--twice", is_flag=True, help="Each seed in two processes with different PYTHONHASHSEED; digests must be equal.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds at the same time.")
@click.option("--last", default=simulator.LAST, show_default=True, help="How many events a failure shows.")
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the events of one --seed here.")
@click.option("--history", type=click.Path(path_type=Path, dir_okay=False), help="Write what clients were told here.")
@pass_given
def simulate(
    given: Given, seed: int | None, seeds: str | None, steps: int | None, seconds: float | None, profile: str,
    mutant: str | None, actions: str | None, shrink: bool, twice: bool, jobs: int, last: int, trace: Path | None,
    history: Path | None,
) -> int:  # fmt: skip
    """Run clusters from seeds: every event checked, faults counted, then to rest, then what clients were told.

    Exit codes: 0 fine, 3 a fault of the profile never happened (or the history could not be judged), 12 an invariant is broken,
    13 no rest. With --mutant the fault is meant to be found.
    """
    if (seed is None) == (seeds is None):
        raise click.UsageError("name a --seed, or --seeds FROM..TO")
    if steps is not None and seconds is not None:
        raise click.UsageError("--steps and --seconds are two ways to say one thing")
    if seeds is not None and (trace or history or actions or shrink):
        raise click.UsageError("--trace, --history, --actions and --shrink take one --seed")
    if twice and (actions or shrink):
        raise click.UsageError("--twice runs what seeds stand for: no --actions, no --shrink")

    def tell(outcome: Outcome) -> None:
        for text in [*simulator.story_of(outcome), simulator.line(outcome)]:
            click.echo(text, err=given.as_json)
        (sys.stderr if given.as_json else sys.stdout).flush()

    plans = [
        simulator.plan(
            each, profile=profile, actions=None if actions is None else _actions(actions), mutant=mutant or "", last=last,
            steps=steps or simulator.STEPS, seconds=seconds or 0.0, trace=trace, history=history,
        )
        for each in ([seed] if seed is not None else _seeds(seeds or ""))
    ]  # fmt: skip
    how = sim_twice.run if twice else partial(simulator.run_plan, shorten=shrink)
    outcomes = simulator.run_all(plans, jobs=jobs, how=how, tell=tell)
    given.data(simulator.document(outcomes), lambda: simulator.summary(outcomes))
    return simulator.worst(outcomes)


def _actions(text: str) -> list[object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRun(f"--actions is no JSON: {error}") from None
    if not isinstance(found, list):
        raise BadRun("--actions is a list of [name, [numbers]]")
    return found


COMMANDS = (simulate,)
