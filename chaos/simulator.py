"""The simulator: a whole cluster of the shipped machines on virtual time, from one seed, with everything that may go wrong.

    outcome = simulate(7, steps=400, profile="storm")          # the same outcome wherever and whenever it is run
    outcome.verdict, outcome.digest, outcome.faults, outcome.reproduce

Callers do what the seed says, faults come as often as the profile says, and after every event the invariants are checked. Then
faults stop, everything must come to rest, and what clients were told must be a history that could have happened
(specs/simulator.md).
"""

from __future__ import annotations

import json
import shlex
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, evolve, field

from ..core.errors import InvariantViolation, PinfoldError
from .coverage import Coverage, watched
from .mutants import planted
from .sim_actions import arguments
from .sim_model import Run
from .sim_profiles import PROFILES, Profile
from .sim_run import EXTRA_MAX, Dice, Failure, Step, drive, first_steps, missing, shrink, wheel_for, wheel_towards
from .sim_shape import Chance, shape_of
from .sim_trouble import ACTIONS

STEPS: Final = 400
LAST: Final = 40
CODES: Final = {"fine": 0, "hollow": 3, "unsure": 3, "broken": 1, "stuck": 13, "violated": 12}
"""Exit codes, from the least to the worst verdict. `hollow`: a fault that the profile promises has not happened; `unsure`: the
search for an order of the history has met its bound; `broken`: an error that is no invariant; `stuck`: LIVE-1."""


class BadRun(PinfoldError):
    """Raised when a run can't be begun as it was asked for. Nothing has been done."""

    exit_code = 2


@define
class Outcome:
    """What became of one run. `events`: steps of machines; `actions`: what callers and faults did; ms are of virtual time."""

    seed: int
    profile: str
    mutant: str
    verdict: str
    code: int
    invariant: str
    what: str
    digest: str
    actions: int
    events: int
    virtual_ms: int
    faults: dict[str, int]
    missing: list[str]
    answers: dict[str, int]
    rows_taken: list[str]
    guards_refused: list[str]
    history: str
    history_ops: int
    story: list[str]
    """The last events, as lines of the trace; nothing where all was well."""
    reproduce: str

    @property
    def wrong(self) -> bool:
        """Something that must not happen has happened."""
        return self.verdict in ("violated", "stuck", "broken")


@define
class Plan:
    """What is to be run. `actions`: these instead of the seed's own; `seconds` of virtual time instead of `steps`."""

    seed: int
    profile: Profile
    steps: int = STEPS
    seconds: float = 0.0
    mutant: str = ""
    actions: Sequence[Step] | None = None
    trace: Path | None = None
    history: Path | None = None
    last: int = LAST

    def words(self, steps: Sequence[Step] | None = None) -> list[str]:
        """The arguments of `pinfold` for this run, or for the same cluster with other actions."""
        words = ["simulate", "--seed", str(self.seed), "--profile", self.profile.name]
        given = self.actions if steps is None else steps
        if given is not None:
            words += ["--actions", json.dumps(given, separators=(",", ":"))]
        elif self.seconds:
            words += ["--seconds", f"{self.seconds:g}"]
        else:
            words += ["--steps", str(self.steps)]
        return words + (["--mutant", self.mutant] if self.mutant else [])

    def command(self, steps: Sequence[Step] | None = None) -> str:
        """The same as one line for a shell."""
        return shlex.join(["pinfold", *self.words(steps)])

    def choose(self, run: Run) -> Iterator[Step]:
        """The run's actions, one after the other."""
        if self.actions is not None:
            yield from self.actions
            return
        dice = Dice(Chance(self.seed), wheel_for(self.seed, self.profile))
        done = 0
        for step in first_steps():
            done += 1
            yield step
        while run.world.now < self.seconds * 1_000 if self.seconds else done < self.steps:
            done += 1
            yield dice.step()
        wanted: list[str] = []
        for _ in range(EXTRA_MAX):
            if not (names := missing(run, self.profile)):
                return
            if names != wanted:
                wanted, dice.wheel = names, wheel_towards(names)
            yield dice.step()

    def play(self, choose: Callable[[Run], Iterator[Step]] | None = None) -> Run | Failure:
        shape = evolve(shape_of(self.seed), **self.profile.shape)
        return drive(self.seed, shape, choose or self.choose, None if self.trace is not None else self.last)


def plan(seed: int, *, profile: str = "storm", actions: Sequence[Any] | None = None, **more: Any) -> Plan:
    """A plan from what a caller says. Raises `BadRun` for a profile or an action that is none."""
    if profile not in PROFILES:
        raise BadRun(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    steps = None if actions is None else [_step(each) for each in actions]
    return Plan(seed, PROFILES[profile], actions=steps, **more)


def _step(given: Any) -> Step:
    match given:
        case [str(name), [*numbers]] if name in ACTIONS:
            pools = arguments(ACTIONS[name])
            if [type(each) for each in numbers] != [int] * len(pools) or any(map(_is_outside, numbers, pools.values())):
                ranges = ", ".join(f"{each} {pool.start} to {pool.stop - 1}" for each, pool in pools.items())
                raise BadRun(f"{name} takes {len(pools)} numbers ({ranges}), not {json.dumps(numbers)}")
            return name, tuple(numbers)
    raise BadRun(f"an action is [name, [numbers]], and its name one of {', '.join(ACTIONS)}; not {json.dumps(given)}")


def _is_outside(number: int, pool: range) -> bool:
    return number not in pool


def simulate(
    seed: int, *, steps: int = STEPS, profile: str = "storm", mutant: str = "", seconds: float = 0.0
) -> Outcome:
    """One run: `steps` actions (or `seconds` of virtual time) and as many more as the profile's promises take, then to rest. With
    `mutant` a seeded fault of `mutants.py`; raises `KeyError` for one that is none, `BadRun` for a profile that is none."""
    return run_plan(plan(seed, profile=profile, steps=steps, seconds=seconds, mutant=mutant))


def run_plan(wanted: Plan, *, shorten: bool = False) -> Outcome:
    """Play, judge, write down. `shorten`: look for a shorter list of actions that fails alike."""
    with planted(wanted.mutant) if wanted.mutant else nullcontext(), watched() as coverage:
        outcome = wanted.play()
        if shorten and isinstance(outcome, Failure):
            outcome = shrink(outcome, lambda steps: wanted.play(lambda run: iter(steps)))
    run = outcome.run if isinstance(outcome, Failure) else outcome
    history = run.world.recorder.history(complete=True)
    if wanted.trace is not None:
        _write(wanted.trace, run.world.trace.lines)
    if wanted.history is not None:
        _write(wanted.history, history.lines())
    if isinstance(outcome, Failure):
        return _told(wanted, run, coverage, _failed(outcome.error), outcome.steps if shorten else None)
    return _told(wanted, run, coverage, _ended(wanted, run), None)


def run_all(
    plans: Sequence[Plan], *, jobs: int = 1, how: Callable[[Plan], Outcome] = run_plan,
    tell: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:  # fmt: skip
    """All of them, in this order, `jobs` at a time in processes of their own. `how` runs one; `tell` hears of each."""
    outcomes = []
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        for outcome in map(how, plans) if pool is None else pool.map(how, plans):
            outcomes.append(outcome)
            if tell is not None:
                tell(outcome)
    return outcomes


def _write(path: Path, lines: Any) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise BadRun(f"cannot write {path}: {error}") from None


def _failed(error: Exception) -> tuple[str, str, str]:
    """Verdict, invariant, and what was wrong."""
    if isinstance(error, InvariantViolation):
        return "stuck" if error.invariant == "LIVE-1" else "violated", error.invariant, str(error)
    return "broken", "", "".join(traceback.format_exception(error)).rstrip()


def _ended(wanted: Plan, run: Run) -> tuple[str, str, str]:
    """The same of a run that came to its end."""
    absent = [name for name in wanted.profile.promises if name not in run.faults] if wanted.actions is None else []
    if absent:
        return "hollow", "", f"never happened: {', '.join(absent)}"
    assert run.verdict is not None
    return ("unsure", "", run.verdict.bounds) if run.verdict.word == "unknown" else ("fine", "", "")


def _told(
    wanted: Plan, run: Run, coverage: Coverage, said: tuple[str, str, str], shorter: Sequence[Step] | None
) -> Outcome:
    world = run.world
    verdict, invariant, what = said
    judged = run.verdict is not None
    return Outcome(
        seed=wanted.seed, profile=wanted.profile.name, mutant=wanted.mutant, verdict=verdict, code=CODES[verdict],
        invariant=invariant, what=what, digest=world.trace.digest(), actions=world.trace.count - world.steps, events=world.steps,
        virtual_ms=world.now, faults=run.faults, missing=[name for name in wanted.profile.promises if name not in run.faults],
        answers=dict(sorted(run.answers.items())), rows_taken=sorted(coverage.taken), guards_refused=sorted(coverage.refused),
        history=run.verdict.word if run.verdict is not None else "not judged", history_ops=len(world.recorder.history().ops),
        story=list(world.trace.story)[-wanted.last :] if verdict in ("violated", "stuck", "broken") and not judged else [],
        reproduce=wanted.command(shorter),
    )  # fmt: skip


# ---- telling -------------------------------------------------------------------------------------------------


def line(outcome: Outcome) -> str:
    """One run on one line, with its bounds."""
    told = outcome
    mutant = f" with {told.mutant}" if told.mutant else ""
    return (
        f"seed {told.seed} {told.profile}{mutant}: {told.verdict}{f' ({told.invariant})' if told.invariant else ''}, "
        f"{told.actions} actions, {told.events:,} events in {told.virtual_ms / 1_000:.1f} s of virtual time, "
        f"{sum(told.faults.values()):,} faults of {len(told.faults)} kinds, history {told.history} "
        f"({told.history_ops} operations), digest {told.digest}"
    )


def story_of(outcome: Outcome) -> list[str]:
    """What a run that is not fine has to say: its last events, what was wrong, and the one line that shows it again."""
    if outcome.verdict == "fine":
        return []
    return [*outcome.story, outcome.what, f"REPRODUCE: {outcome.reproduce}"]


def worst(outcomes: Sequence[Outcome]) -> int:
    """The exit code of several runs: that of the worst verdict."""
    order = list(CODES)
    return CODES[max((outcome.verdict for outcome in outcomes), key=order.index, default="fine")]


@define
class Sum:
    """Several runs together."""

    runs: int = 0
    actions: int = 0
    events: int = 0
    virtual_ms: int = 0
    history_ops: int = 0
    faults: dict[str, int] = field(factory=dict)
    answers: dict[str, int] = field(factory=dict)
    rows_never_taken: list[str] = field(factory=list)
    guards_never_refused: list[str] = field(factory=list)


def sum_of(outcomes: Sequence[Outcome]) -> Sum:
    """Counts added up, coverage joined."""
    total, coverage = Sum(), Coverage()
    for outcome in outcomes:
        total.runs += 1
        total.actions += outcome.actions
        total.events += outcome.events
        total.virtual_ms += outcome.virtual_ms
        total.history_ops += outcome.history_ops
        for mine, its in ((total.faults, outcome.faults), (total.answers, outcome.answers)):
            for name, count in its.items():
                mine[name] = mine.get(name, 0) + count
        coverage.join(Coverage(set(outcome.rows_taken), set(outcome.guards_refused)))
    total.rows_never_taken = coverage.rows_never_taken()
    total.guards_never_refused = coverage.guards_never_refused()
    return total


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All of it for tools."""
    return {"runs": [asdict(outcome) for outcome in outcomes], "sum": asdict(sum_of(outcomes)), "code": worst(outcomes)}


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Several runs for people."""
    total = sum_of(outcomes)
    faults = ", ".join(f"{name} {count:,}" for name, count in sorted(total.faults.items()))
    rows, guards = len(total.rows_never_taken), len(total.guards_never_refused)
    return [
        f"{total.runs} runs, {total.actions:,} actions, {total.events:,} events, {total.virtual_ms // 1_000:,} s of virtual time",
        f"faults: {faults or 'none'}",
        f"answers of {len(total.answers)} kinds; {rows} rows never taken, {guards} guards that never refused (--json names them)",
    ]
