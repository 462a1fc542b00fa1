"""`pinfold check`: explore worlds, say what was found within which bounds, and end with the worst verdict.

    python -m pinfold.chaos.check [--world W]... [--all] [--deep] [--mutant M] [--json] [--max-states N] [--jobs N]

Exit codes: 0 fine, 3 a limit was reached before everything was seen, 11 deadlock, 12 an invariant is broken, 13 rest can't be
reached. With a mutant, being found is what is wanted, and its story is printed all the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attrs import asdict, define

from ..core.errors import PinfoldError
from . import itf, scenario, story
from .coverage import Coverage, watched
from .explorer import Found, Outcome, explore
from .mutants import MUTANTS, planted
from .pool import collision_odds
from .topics import TOPICS, topics_of
from .world import World
from .world_file import STATES_MAX, WorldFile, load_world, world_names

MUTANT_STATES_MAX = 20_000
SEVERITY = (Outcome.FINE, Outcome.INCOMPLETE, Outcome.DEADLOCK, Outcome.LIVENESS, Outcome.SAFETY)


@define
class Checked:
    """The verdict on one world, with its bounds."""

    world: str
    about: str
    mutant: str
    outcome: str
    code: int
    invariant: str
    what: str
    budgets: dict[str, int]
    states: int
    transitions: int
    depth: int
    complete: bool
    limit: str
    quiescent: int
    seconds: float
    states_per_second: int
    machine_states: dict[str, int]
    collision_odds: float
    steps: int
    """Length of the counterexample, 0 where there is none."""
    transcript: list[str]
    json_lines: list[str]
    mermaid: list[str]
    scenario: str
    """The counterexample in the format of `tests/scenarios`, with what the right machines do."""
    itf: dict[str, Any]
    """The counterexample in the Informal Trace Format."""
    reproduce: str
    rows_taken: list[str]
    guards_refused: list[str]
    reasons_given: list[str]
    events_taken: list[str]
    topics: list[str]
    """What it has gone through, by name (`chaos/topics.py`)."""


def check_world(
    file: WorldFile, *, mutant: str = "", states_max: int = STATES_MAX, seconds_max: float = 0.0,
    progress: Callable[[int, int, int], None] | None = None,
) -> Checked:  # fmt: skip
    """Explore one world, perhaps with a seeded fault."""
    with planted(mutant) if mutant else nullcontext(), watched() as coverage:
        world = World(file)
        found = explore(world.packed, states_max=states_max, seconds_max=seconds_max, progress=progress)
        checked = _told(world, found, mutant, coverage, states_max)
        script = scenario.script_of(world, found) if checked.transcript else []
    if script:
        checked.scenario = scenario.scenario(file, script, found, mutant)
    return checked


def _told(world: World, found: Found, mutant: str, coverage: Coverage, states_max: int) -> Checked:
    parties = world.parties
    pools = {
        "directory": len(parties.directories),
        "nodes": len(parties.nodes),
        "clients": len(parties.actors),
        "messages": len(world.cast.messages),
    }
    wrong = found.outcome in (Outcome.DEADLOCK, Outcome.SAFETY, Outcome.LIVENESS)
    file = world.file
    return Checked(
        world=file.name, about=file.about, mutant=mutant, outcome=found.outcome.name, code=int(found.outcome),
        invariant=found.invariant, what=found.what, budgets={fault: limit for fault, limit in file.faults if limit},
        states=found.states, transitions=found.transitions, depth=found.depth, complete=found.complete, limit=found.limit,
        quiescent=found.quiescent, seconds=round(found.seconds, 3),
        states_per_second=int(found.states / found.seconds) if found.seconds else 0,
        machine_states=pools, collision_odds=collision_odds(sum(pools.values())), steps=len(found.path) if wrong else 0,
        transcript=story.transcript(world.cast, found) if wrong else [],
        json_lines=story.json_lines(world.cast, found) if wrong else [],
        mermaid=story.mermaid(world.cast, found) if wrong else [], scenario="", itf=itf.trace(world, found) if wrong else {},
        reproduce=f"pinfold check --world {file.name}{f' --mutant {mutant}' if mutant else ''} --max-states {states_max}",
        rows_taken=sorted(coverage.taken), guards_refused=sorted(coverage.refused), reasons_given=sorted(coverage.given),
        events_taken=sorted(coverage.events), topics=topics_of(world),
    )  # fmt: skip


def line(checked: Checked) -> str:
    """One world on one line, always with its bounds."""
    budgets = ", ".join(f"{limit} {fault}" for fault, limit in checked.budgets.items()) or "no faults"
    why = f"{checked.limit}; {checked.what}" if checked.what else checked.limit
    seen = "complete" if checked.complete else f"NOT COMPLETE ({why})" if checked.limit else "stopped"
    verdict = "fine" if checked.outcome == "FINE" else checked.outcome
    return (
        f"{checked.world}: {verdict}, {seen} for {budgets}: {checked.states:,} states, {checked.transitions:,} steps, depth "
        f"{checked.depth}, {checked.quiescent:,} at rest, {checked.seconds:.1f} s, {checked.states_per_second:,} states/s"
    )


def check_all(
    names: Sequence[str], *, mutant: str = "", states_max: int | None = None, jobs: int = 1, folder: Path | None = None,
    tell: Callable[[Checked], None] | None = None,
) -> list[Checked]:  # fmt: skip
    """Different worlds on different cores; no state is shipped between them. In the order of `names`. `states_max` None: as each
    world says."""
    files = [load_world(name, folder) for name in names]
    limits = {file.name: file.states_max if states_max is None else states_max for file in files}
    done: dict[str, Checked] = {}
    if jobs > 1 and len(files) > 1:
        with ProcessPoolExecutor(jobs) as pool:
            waiting = [pool.submit(check_world, file, mutant=mutant, states_max=limits[file.name]) for file in files]
            for future in as_completed(waiting):
                checked = future.result()
                done[checked.world] = checked
                if tell is not None:
                    tell(checked)
    else:
        for file in files:
            checked = done[file.name] = check_world(file, mutant=mutant, states_max=limits[file.name])
            if tell is not None:
                tell(checked)
    return [done[name] for name in names]


def mutants_of(
    names: Sequence[str], *, states_max: int = MUTANT_STATES_MAX, jobs: int = 1, folder: Path | None = None,
    tell: Callable[[Checked], None] | None = None,
) -> list[Checked]:  # fmt: skip
    """Each world with each of the mutants that it says it finds, up to the first violation. In the order of the files."""
    pairs = [(file, mutant) for file in [load_world(name, folder) for name in names] for mutant in file.kills]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(check_world, file, mutant=mutant, states_max=states_max) for file, mutant in pairs]
        found = []
        for future in waiting:
            found.append(future.result())
            if tell is not None:
                tell(found[-1])
    return found


def lives(checked: Checked) -> bool:
    """Whether a mutant was not found."""
    return Outcome(checked.code) in (Outcome.FINE, Outcome.INCOMPLETE)


def mutant_line(checked: Checked) -> str:
    said = "LIVES" if lives(checked) else f"dies of {checked.outcome} {checked.invariant}".rstrip() + f" in {checked.steps} steps"
    return f"{checked.world} with {checked.mutant}: {said}, {checked.states:,} states, {checked.seconds:.1f} s"


def worst(results: Sequence[Checked]) -> int:
    """The exit code of a run: that of its worst verdict."""
    return int(max((Outcome(checked.code) for checked in results), key=SEVERITY.index, default=Outcome.FINE))


def document(results: Sequence[Checked]) -> dict[str, Any]:
    """All of it for tools."""
    coverage = Coverage()
    for checked in results:
        seen = (checked.rows_taken, checked.guards_refused, checked.reasons_given, checked.events_taken)
        coverage.join(Coverage(*map(set, seen)))
    return {
        "worlds": [asdict(checked) for checked in results],
        "states": sum(checked.states for checked in results),
        "transitions": sum(checked.transitions for checked in results),
        "complete": all(checked.complete for checked in results),
        "code": worst(results),
        "rows_never_taken": coverage.rows_never_taken(),
        "guards_never_refused": coverage.guards_never_refused(),
        "reasons_never_given": coverage.reasons_never_given(),
        "events_never_taken": coverage.events_never_taken(),
        "topics_never_seen": [topic for topic in TOPICS if not any(topic in checked.topics for checked in results)],
    }


def summary(results: Sequence[Checked]) -> list[str]:
    said = document(results)
    lines = [f"{len(results)} worlds, {said['states']:,} states, {said['transitions']:,} steps"]
    if len(results) > 1:
        rows, guards = said["rows_never_taken"], said["guards_never_refused"]
        lines.append(f"rows never taken ({len(rows)}): {', '.join(rows) or 'none'}")
        lines.append(f"guards that never refused ({len(guards)}): {', '.join(guards) or 'none'}")
        topics = said["topics_never_seen"]
        lines.append(f"topics that no world went through ({len(topics)}): {', '.join(topics) or 'none'}")
    return lines


def story_of(checked: Checked) -> list[str]:
    """The counterexample, and how to see it again."""
    return [*checked.transcript, f"REPRODUCE: {checked.reproduce}"] if checked.transcript else []


def choose(worlds: Sequence[str], every: bool, deep: bool, folder: Path | None = None) -> list[str]:
    """The worlds that were asked for: those named, or all fast ones, or all."""
    if worlds:
        return list(worlds)
    return [name for name in world_names(folder) if every and (deep or load_world(name, folder).tier == "fast")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pinfold check", description="Every order of events in small worlds.")
    parser.add_argument("--world", action="append", default=[])
    parser.add_argument("--all", action="store_true", help="all fast worlds")
    parser.add_argument("--deep", action="store_true", help="with --all: the deep worlds too")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS], metavar="M")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--max-states", type=int, default=STATES_MAX)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    names = choose(given.world, given.all, given.deep)
    if not names:
        parser.error("name a --world, or say --all")

    def tell(checked: Checked) -> None:
        print("\n".join([*story_of(checked), line(checked)]), file=sys.stderr if given.json else sys.stdout, flush=True)

    try:
        results = check_all(names, mutant=given.mutant, states_max=given.max_states, jobs=given.jobs, tell=tell)
    except PinfoldError as error:
        print(f"pinfold check: {error}", file=sys.stderr)
        return error.exit_code
    if given.json:
        print(json.dumps(document(results), indent=1))
    else:
        print("\n".join(summary(results)))
    return worst(results)


if __name__ == "__main__":
    sys.exit(main())
