"""The simulator: seeds of every profile come to rest, faults really happen, a seed is a run, seeded faults are found and told."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from pinfold.chaos import sim_twice, simulator
from pinfold.chaos.history import load
from pinfold.chaos.history_check import check
from pinfold.chaos.mutants import MUTANTS
from pinfold.chaos.sim_faults import Clock, Fuse, ProcessDied
from pinfold.chaos.sim_profiles import PROFILES
from pinfold.chaos.sim_run import Failure, drive, faults_of, steps_of
from pinfold.chaos.sim_shape import Shape
from pinfold.chaos.sim_trace import first_difference
from pinfold.chaos.sim_trouble import FAULTS, SHOWS
from pinfold.chaos.sim_world import World
from pinfold.chaos.simulator import BadRun, Outcome, line, plan, run_plan, simulate, story_of, sum_of, worst
from pinfold.cli import main
from pinfold.core.calls import Do
from pinfold.core.commands import Ref
from pinfold.core.driver import Outcome as Outcome_
from pinfold.core.errors import InvariantViolation


def fine(outcome: Outcome) -> Outcome:
    assert outcome.verdict == "fine", "\n".join(story_of(outcome))
    return outcome


# ---- seeds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_seeds_of_each_profile_come_to_rest_and_all_its_faults_happen(profile: str) -> None:
    outcomes = [fine(simulate(seed, steps=100, profile=profile)) for seed in (5,)]
    for outcome in outcomes:
        assert outcome.history == "ok"
        assert outcome.history_ops > 40
        assert set(PROFILES[profile].promises) <= set(outcome.faults)
        assert outcome.missing == []
    if profile == "calm":
        assert outcomes[0].faults == {}
    total = sum_of(outcomes)
    assert total.events == sum(outcome.events for outcome in outcomes)
    if profile == "storm":
        assert len(total.rows_never_taken) < 85


def test_every_fault_is_in_the_storm_and_counts_as_something() -> None:
    assert set(PROFILES["storm"].faults) == set(FAULTS) == set(SHOWS)
    assert all(SHOWS.values())
    assert len(set(PROFILES["storm"].promises)) >= 25
    for name, profile in PROFILES.items():
        assert profile.name == name
        assert set(profile.faults) <= set(FAULTS)


def test_a_promise_that_nothing_keeps_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "EXTRA_MAX", 20)
    monkeypatch.setitem(SHOWS, next(iter(PROFILES["network"].faults)), ("pigs flown",))
    outcome = simulate(1, steps=20, profile="network")
    assert (outcome.verdict, outcome.code, outcome.missing) == ("hollow", 3, ["pigs flown"])
    assert "never happened: pigs flown" in story_of(outcome)


@pytest.mark.parametrize(("seed", "profile"), [(20, "storm"), (35, "mixed")])
def test_what_a_start_has_found_is_durable_even_if_its_own_first_commit_fails(seed: int, profile: str) -> None:
    """A commit of unknown outcome had happened; the start that found it wrote its leases, and that failed too."""
    fine(run_plan(plan(seed, steps=150, profile=profile)))


def test_a_guard_that_was_let_go_is_not_had_again_by_a_late_second_answer() -> None:
    """The engine lets go; `Guarded` comes once more before `Let` arrives; then the node may move the bytes."""
    fine(run_plan(plan(144, steps=400, profile="mixed")))


def test_seconds_of_virtual_time_bound_a_run_too() -> None:
    outcome = fine(simulate(4, profile="calm", seconds=2))
    assert outcome.virtual_ms > 2_000
    assert outcome.reproduce == "pinfold simulate --seed 4 --profile calm --seconds 2"
    assert fine(simulate(4, profile="calm", seconds=6)).actions > outcome.actions


# ---- a seed is a run -----------------------------------------------------------------------------------------


def test_two_processes_under_two_hash_seeds_have_one_digest() -> None:
    wanted = plan(5, steps=40, profile="network")
    twice = fine(sim_twice.run(wanted))
    assert twice == run_plan(wanted), "and the same as in this process"


ORDER_OF_A_SET = """
from pinfold.chaos import sim_world
right = sim_world.World.nodes
sim_world.World.nodes = lambda self: sorted(right(self), key=lambda member: hash(member.address))
right_instants = sim_world.World._round
def wrong(self):
    self.members = dict(sorted(self.members.items(), key=lambda item: hash(item[0])))
    return right_instants(self)
sim_world.World._round = wrong
import sys
from pinfold.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_an_order_that_comes_from_a_hash_is_found_and_its_first_event_told() -> None:
    outcome = sim_twice.run(plan(5, steps=40, profile="calm"), [sys.executable, "-c", ORDER_OF_A_SET])
    assert (outcome.verdict, outcome.code, outcome.invariant) == ("violated", 12, "DET-1")
    said, one, other = outcome.what.split("\n")
    assert re.fullmatch(r"two runs of seed 5 differ from line \d+ of their traces on:", said)
    assert json.loads(one) != json.loads(other)
    assert outcome.reproduce.endswith(" --twice")


def test_a_process_that_says_nothing_is_one_sentence() -> None:
    with pytest.raises(BadRun, match="seed 5 under PYTHONHASHSEED=1 ended 7 and said: nothing"):
        sim_twice.run(plan(5), [sys.executable, "-c", "import sys; sys.exit(7)"])


def test_other_seeds_and_profiles_are_other_runs() -> None:
    digests = {simulate(seed, steps=40, profile=profile).digest for seed in (1, 2) for profile in ("calm", "network")}
    assert len(digests) == 4


def test_first_difference_names_the_line() -> None:
    assert first_difference(["a", "b"], ["a", "b"]) is None
    assert first_difference(["a", "b"], ["a", "c"]) == (2, "b", "c")
    assert first_difference(["a", "b"], ["a"]) == (2, "b", "")


# ---- traces and histories ------------------------------------------------------------------------------------


def test_trace_and_history_are_written_and_the_history_can_be_judged(tmp_path: Path) -> None:
    def files(folder: Path) -> tuple[list[str], list[str]]:
        folder.mkdir()
        outcome = fine(run_plan(plan(6, steps=60, profile="network", trace=folder / "t", history=folder / "h")))
        lines = (folder / "t").read_text().splitlines()
        documents = [json.loads(each) for each in lines]
        assert [document["n"] for document in documents] == list(range(1, len(lines) + 1))
        assert len(lines) == outcome.events + outcome.actions
        words = {"n", "at", "who", "event"}
        assert all(words <= set(document) <= words | {"out", "sum"} for document in documents)
        verdict = check(load(folder / "h"))
        assert (verdict.word, verdict.ops) == ("ok", outcome.history_ops)
        return lines, (folder / "h").read_text().splitlines()

    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_lie_to_a_client_is_found_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients are given one hold, which no machine can see."""
    from pinfold.chaos import record

    right = record._told

    def lie(op: Any, answer: Any) -> Any:
        return [record.evolve(each, hold="h1.1.0") if each.op == "ref" and each.hold else each for each in right(op, answer)]

    monkeypatch.setattr(record, "_told", lie)
    outcome = simulate(1, steps=300, profile="calm")
    assert (outcome.verdict, outcome.code, outcome.invariant, outcome.history) == ("violated", 12, "HOLD-1", "violated")


# ---- seeded faults -------------------------------------------------------------------------------------------

FOUND = {
    "orders_under_any_number": "storm",
    "holds_outlive_sessions": "storm",
    "free_ignores_guards": "storm",
    "two_owners": "network",
    "commands_apply_twice": "network",
    "answers_are_not_durable": "crashes",
}
"""Seeded faults, and the profile in which each dies soon."""

SEEDS_MAX = 3


@pytest.mark.parametrize("mutant", FOUND)
def test_seeded_faults_of_every_family_die_within_a_few_seeds(mutant: str) -> None:
    for seed in range(SEEDS_MAX):
        outcome = simulate(seed, steps=100, profile=FOUND[mutant], mutant=mutant)
        if outcome.wrong:
            assert outcome.verdict in ("violated", "stuck"), outcome.what
            return
    pytest.fail(f"nothing was noticed in {SEEDS_MAX} seeds", pytrace=False)


def test_the_seeded_faults_are_of_many_families() -> None:
    assert len({MUTANTS[name].family for name in FOUND}) >= 6


def test_a_fault_is_gone_after_its_run() -> None:
    before = simulate(1, steps=40, profile="calm")
    assert simulate(1, steps=40, profile="calm", mutant="two_owners").wrong
    assert simulate(1, steps=40, profile="calm") == before


def test_what_was_found_is_told_and_its_one_line_shows_it_again() -> None:
    outcome = simulate(3, steps=150, profile="network", mutant="two_owners")
    story = story_of(outcome)
    lines = [text for text in story if text.startswith("REPRODUCE: ")]
    assert story[-1:] == lines
    assert outcome.invariant in story[-2]
    assert 0 < len(outcome.story) <= 40
    arguments = shlex.split(lines[0].removeprefix("REPRODUCE: pinfold simulate"))
    assert arguments == ["--seed", "3", "--profile", "network", "--steps", "150", "--mutant", "two_owners"]
    assert simulate(3, steps=150, profile="network", mutant="two_owners") == outcome


def test_a_shorter_list_of_actions_fails_alike() -> None:
    outcome = run_plan(plan(3, steps=60, profile="calm", mutant="two_owners"), shorten=True)
    assert outcome.wrong
    words = shlex.split(outcome.reproduce)
    actions = json.loads(words[words.index("--actions") + 1])
    assert len(actions) < 6
    again = run_plan(plan(3, profile="calm", mutant="two_owners", actions=actions))
    assert (again.invariant, again.what) == (outcome.invariant, outcome.what)


def test_an_error_that_is_no_invariant_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from pinfold.chaos import sim_world

    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(sim_world, "copies_are_there", broken)
    outcome = simulate(1, steps=20)
    assert (outcome.verdict, outcome.code, outcome.wrong) == ("broken", 1, True)
    assert "Traceback" in outcome.what
    assert "ZeroDivisionError: on purpose" in outcome.what


def test_what_never_comes_to_rest_is_told_as_such() -> None:
    def actions(run: Any) -> Any:
        yield "put", (0, 0, 3, 1, 3)
        yield "wait", (500,)
        run.ask = lambda *_: 0  # nobody gives anything back

    failure = drive(1, Shape(seed=1), actions)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, InvariantViolation)
    assert failure.error.invariant == "LIVE-1"


# ---- parts ---------------------------------------------------------------------------------------------------


def test_clocks_drift_and_jump() -> None:
    clock = Clock(5_000, 0, 1_100)
    assert (clock.at(0), clock.at(1_000)) == (5_000, 6_100)
    assert all(clock.at(clock.when(local)) >= local > clock.at(clock.when(local) - 1) for local in range(5_001, 9_000, 37))
    clock.set(1_000, jump=-600)
    assert (clock.at(1_000), clock.at(2_000)) == (5_500, 6_600)
    clock.set(2_000, rate=1_000)
    assert clock.at(3_000) == 7_600


def test_a_fuse_lets_so_many_outputs_leave() -> None:
    fuse = Fuse(2)
    fuse.burn()
    fuse.burn()
    with pytest.raises(ProcessDied):
        fuse.burn()
    Fuse().burn()


def test_a_fault_counts_when_it_has_happened_and_not_before() -> None:
    def actions(run: Any) -> Any:
        yield from steps_of(1, 7)
        assert faults_of(run) == {}
        yield "commit_fault", (0,)
        assert faults_of(run) == {}
        run.world.call("client/a", 9_999, Do(Ref(next(iter(run.sealed)), "")), 500)
        run.on_reply = run.world.on_reply = lambda *_: None
        yield "advance", (50,)
        assert faults_of(run) == {"commits refused": 1}
        raise EndOfTest

    failure = drive(1, Shape(seed=1), actions)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, EndOfTest), failure.error


class EndOfTest(Exception):
    """All was seen."""


def runs_into(monkeypatch: pytest.MonkeyPatch, what: Callable[[Any], None]) -> str:
    """What the whole-state check says when `what` has been done to a cluster with a group in it."""
    monkeypatch.setattr(World, "WHOLE_EVERY", 1)

    def actions(run: Any) -> Any:
        yield from steps_of(1, 7)
        what(run)
        yield "advance", (50,)

    failure = drive(1, Shape(seed=1), actions)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, InvariantViolation), failure.error
    return failure.error.invariant


def test_bytes_that_a_tier_has_lost_by_itself_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(run: Any) -> None:
        tiers = [tier for member in run.world.nodes() for tier in member.tiers.values()]
        tier = next(tier for tier in tiers if tier.copies())
        tier.lose(tier.copies()[0])

    assert runs_into(monkeypatch, lose) == "COPY-2"


def test_a_store_that_says_done_and_does_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(run: Any) -> None:
        run.world.store.commit = lambda writes: Outcome_.DONE
        run.world.call("client/a", 9_999, Do(Ref(next(iter(run.sealed)), "")), 500)
        run.on_reply = run.world.on_reply = lambda *_: None

    assert runs_into(monkeypatch, lie) == "DUR-1"


# ---- the command ---------------------------------------------------------------------------------------------


def test_the_command_runs_seeds_and_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "1..2", "--steps", "40", "--profile", "calm"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [line(simulate(seed, steps=40, profile="calm")) for seed in (1, 2)]
    assert told[2].startswith("2 runs, 80 actions, ")
    assert main(["simulate", "--seed", "1", "--steps", "40", "--profile", "calm", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["code"] == 0
    assert Outcome(**document["runs"][0]) == simulate(1, steps=40, profile="calm")


def test_the_command_ends_with_the_worst_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--profile", "calm", "--mutant", "two_owners"]) == 12
    out = capsys.readouterr().out
    assert out.count("REPRODUCE: pinfold simulate --seed 1 --profile calm --steps 400 --mutant two_owners\n") == 1
    outcome = simulate(1, steps=20, profile="calm")
    others = [evolve(outcome, verdict=verdict) for verdict in ("hollow", "stuck", "violated")]
    assert [worst([]), worst([outcome]), *(worst([outcome, *others[:many]]) for many in (1, 2, 3))] == [0, 0, 3, 13, 12]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a --seed, or --seeds FROM..TO"),
        (["--seed", "1", "--seeds", "1..2"], "name a --seed, or --seeds FROM..TO"),
        (["--seeds", "4"], "--seeds takes FROM..TO, as 0..99, not '4'"),
        (["--seeds", "4..2"], "--seeds takes FROM..TO, as 0..99, not '4..2'"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--seed", "1", "--steps", "0"], "0 is not in the range"),
        (["--seed", "1", "--steps", "5", "--seconds", "5"], "two ways to say one thing"),
        (["--seed", "1", "--profile", "hail"], "'hail' is not one of"),
        (["--seed", "1", "--mutant", "nobody"], "'nobody' is not one of"),
        (["--seeds", "1..2", "--trace", "t"], "take one --seed"),
        (["--seed", "1", "--twice", "--shrink"], "no --actions, no --shrink"),
        (["--seed", "1", "--actions", "["], "--actions is no JSON"),
        (["--seed", "1", "--actions", "{}"], "--actions is a list"),
        (["--seed", "1", "--actions", '[["fly", [1]]]'], "its name one of"),
        (["--seed", "1", "--actions", '[["put", [1]]]'], "takes 5 numbers"),
        (["--seed", "1", "--steps", "8", "--profile", "calm", "--trace", "/nowhere/t"], "cannot write /nowhere/t"),
    ],
)
def test_bad_flags_are_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_profile_that_is_none_is_one_sentence() -> None:
    with pytest.raises(BadRun, match="there is no profile 'hail'; there are calm, network"):
        simulate(1, profile="hail")
