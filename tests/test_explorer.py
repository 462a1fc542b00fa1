"""The explorer: small worlds are complete and fine, seeded faults are found by the shortest way, and what is planted is seen."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import permutations, product
from pathlib import Path

import pytest
from attrs import evolve

from pinfold.chaos.check import check_world, main, worst
from pinfold.chaos.coverage import watched
from pinfold.chaos.explorer import NOTHING, Label, Outcome, explore
from pinfold.chaos.fields import Fields
from pinfold.chaos.mutants import MUTANTS, planted
from pinfold.chaos.pool import Pool, PoolFull, digest_of
from pinfold.chaos.possible import Possible
from pinfold.chaos.world import State, World
from pinfold.chaos.world_file import WorldFile, WorldFileError, load_world, parse_world, world_names
from pinfold.core.errors import InvariantViolation

ROOT = Path(__file__).resolve().parent.parent


# ---- the search itself, on graphs of numbers -----------------------------------------------------------------


class Graph:
    """`steps[state]`: `(state, fault)`; `bad` breaks an invariant, `rest` is where nothing is left to do."""

    def __init__(self, steps: dict[int, list[tuple[int, bool]]], *, rest: tuple[int, ...], bad: int = -1) -> None:
        self.steps = steps
        self.rest = rest
        self.bad = bad
        self.trying: Label = NOTHING

    def initial(self) -> State:
        return (0,)

    def successors(self, state: State) -> list[tuple[State, bool, Label]]:
        return [((after,), fault, ((f"to {after}",), ((), ()))) for after, fault in self.steps.get(state[0], [])]

    def check(self, state: State) -> None:
        if state[0] == self.bad:
            raise InvariantViolation("OWN-1", "two owners")

    def why_not_quiescent(self, state: State) -> str:
        return "" if state[0] in self.rest else "not at rest"

    def shown(self, state: State) -> State:
        return state

    def told(self, label: Label) -> str:
        return str(label[0][0])


def test_everything_is_seen_once() -> None:
    found = explore(Graph({0: [(1, False), (2, False)], 1: [(3, False)], 2: [(3, False)], 3: []}, rest=(3,)))
    assert (found.outcome, found.states, found.transitions, found.quiescent) == (Outcome.FINE, 4, 4, 1)
    assert found.complete


def test_the_shortest_way_to_a_broken_invariant_is_told() -> None:
    steps = {0: [(1, False), (2, False)], 1: [(4, False)], 2: [(9, False)], 4: [(9, False)]}
    found = explore(Graph(steps, rest=(9,), bad=9))
    assert found.outcome is Outcome.SAFETY
    assert found.invariant == "OWN-1"
    assert [label[0] for _, label in found.path] == [("to 2",), ("to 9",)]


def test_a_state_from_which_nothing_goes_on_is_a_deadlock() -> None:
    found = explore(Graph({0: [(1, False)], 1: [(2, True)], 2: []}, rest=(2,)))
    assert found.outcome is Outcome.DEADLOCK, "a fault is no way on"
    assert len(found.path) == 1


def test_a_circle_without_a_way_to_rest_is_a_trap_and_the_circle_is_told() -> None:
    steps = {0: [(1, False), (5, False)], 1: [(2, False)], 2: [(3, False)], 3: [(2, False)], 5: []}
    found = explore(Graph(steps, rest=(5,)))
    assert found.outcome is Outcome.LIVENESS
    assert [label[0] for _, label in found.path] == [("to 1",)]
    assert [label[0] for label in found.loop] == [("to 3",), ("to 2",)]


def test_a_circle_with_a_way_to_rest_is_fine() -> None:
    assert explore(Graph({0: [(1, False)], 1: [(0, False), (2, False)], 2: []}, rest=(2,))).outcome is Outcome.FINE


def test_a_limit_is_no_verdict() -> None:
    found = explore(Graph({at: [(at + 1, False)] for at in range(100)}, rest=(100,)), states_max=10)
    assert found.outcome is Outcome.INCOMPLETE
    assert not found.complete
    assert found.limit == "10 states"


def test_a_livelock_that_grows_is_named() -> None:
    ways = {3 * at + turn: [(3 * at + turn + 1, False)] for at in range(100) for turn in range(3)}

    class Growing(Graph):
        def told(self, label: Label) -> str:
            to = int(str(label[0][0]).split()[1])
            return f"{('ask', 'answer', 'timer')[to % 3]} {to}"

    found = explore(Growing(ways, rest=()), states_max=50)
    assert found.outcome is Outcome.INCOMPLETE
    assert found.what == "a livelock that grows, where only numbers change: ask N; answer N; timer N"
    assert len(found.loop) == 3
    faults = {at: [(after, after % 3 == 0) for after, _ in steps] for at, steps in ways.items()}
    paid = explore(Growing({at: [*steps, (900, False)] for at, steps in faults.items()}, rest=(900,)), states_max=50)
    assert (paid.outcome, paid.what) == (Outcome.INCOMPLETE, ""), "what faults pay for has an end"


@pytest.mark.parametrize("seed", range(40))
def test_what_is_kept_in_arrays_says_what_plain_sets_say(seed: int) -> None:
    rng = random.Random(seed)
    count = 60
    steps = {at: [(rng.randrange(count), rng.random() < 0.3) for _ in range(rng.randrange(1, 4))] for at in range(count)}
    rest = tuple(rng.sample(range(count), 3))
    found = explore(Graph(steps, rest=rest))
    seen, work = {0}, [0]
    while work:
        new = {after for after, _ in steps[work.pop()]} - seen
        seen |= new
        work += new
    calm = {at: {after for after, fault in steps[at] if not fault} for at in seen}
    stuck = any(calm[at] <= {at} and at not in rest for at in seen)
    reach = seen & set(rest)
    while more := {at for at in seen - reach if calm[at] & reach}:
        reach |= more
    assert found.outcome is (Outcome.DEADLOCK if stuck else Outcome.FINE if reach == seen else Outcome.LIVENESS)
    if not stuck:
        assert (found.states, found.transitions) == (len(seen), sum(len(steps[at]) for at in seen))
        assert found.quiescent == len(seen & set(rest))


# ---- worlds --------------------------------------------------------------------------------------------------

TINY = """
about = "One group is written and evicted."
[nodes.n1]
dram = 1
[groups.g]
[clients]
a = ["create g at n1", "write g", "guard g", "let g", "unpin g", "evict g"]
[faults]
drop = 1
"""

MOVE = """
about = "One group moves, and messages are lost."
setup = ["create g at n1", "write g", "unpin g"]
[nodes.n1]
dram = 1
[nodes.n2]
dram = 1
[groups.g]
[clients]
b = ["move g to n2"]
[faults]
drop = 1
"""


@pytest.mark.parametrize("text", [TINY, MOVE], ids=["write", "move"])
def test_a_small_world_is_complete_and_fine(text: str) -> None:
    checked = check_world(parse_world("small", text))
    assert (checked.outcome, checked.complete) == ("FINE", True), checked.transcript
    assert checked.states > 300
    assert checked.quiescent > 0
    assert checked.collision_odds < 1e-25


DEPOSED = MOVE.replace("drop = 1", "depose = 1")
STORE = MOVE.replace("[groups.g]", "[stores]\ns1 = 1\n[groups.g]").replace("to n2", "to s1").replace("drop = 1", "lapse = 1")


@pytest.mark.parametrize("text", [TINY, MOVE, DEPOSED, STORE], ids=["write", "move", "deposed", "store"])
def test_what_is_remembered_by_parts_is_what_is_worked_out_anew(text: str) -> None:
    world = World(parse_world("small", text))
    explore(world.packed, states_max=3_000)
    seen, state = set(), world.packed.initial()
    rng = random.Random(5)
    for _ in range(1_200):
        cold = Possible(world.file, world.parties)
        cold.under_way = world.possible.under_way
        steps = world.possible.successors(state)
        assert cold.successors(state) == steps
        assert world.successors(world.unpack(state)) == [(world.unpack(after), fault, label) for after, fault, label in steps]
        seen.add(state)
        state = rng.choice(steps)[0] if steps and rng.random() < 0.97 else world.packed.initial()
    assert len(seen) > 100


def test_a_state_is_its_parts_side_by_side() -> None:
    fields = Fields([5, 0, 3, 7])
    assert fields.unpack(fields.pack([31, 0, 5, 100]) | 9 << fields.top) == (31, 0, 5, 100)
    with pytest.raises(PoolFull):
        [pool.put(digest_of(at), at) for pool in [Pool[int](3)] for at in range(9)]


def test_two_runs_under_two_hash_seeds_see_the_same() -> None:
    code = (
        "import sys; from pinfold.chaos.check import check_world; from pinfold.chaos.world_file import parse_world;"
        "c = check_world(parse_world('small', sys.argv[1]));"
        "print(c.states, c.transitions, c.depth, c.quiescent, sorted(c.machine_states.items()), c.rows_taken)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, MOVE],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0]


def test_without_repair_a_lost_order_is_a_deadlock() -> None:
    checked = check_world(parse_world("stuck", MOVE.replace("[nodes.n1]", "repair = false\n[nodes.n1]", 1)))
    assert checked.outcome == "DEADLOCK"
    assert checked.code == 11
    assert checked.steps > 0
    assert any("lost" in line for line in checked.transcript)


def test_a_planted_livelock_is_a_trap_with_a_circle() -> None:
    checked = check_world(parse_world("small", MOVE), mutant="orders_are_not_repeated")
    assert checked.outcome == "LIVENESS"
    assert checked.code == 13
    assert any("for ever" in line for line in checked.transcript)


@pytest.mark.parametrize(
    ("mutant", "text", "outcome", "steps"),
    [
        ("two_owners", MOVE, "SAFETY", 9),
        ("free_ignores_guards", TINY, "SAFETY", 7),
        ("answers_are_not_durable", TINY, "SAFETY", 2),
        ("aborts_keep_the_epoch", MOVE, "SAFETY", 4),
    ],
)
def test_a_seeded_fault_is_found_by_the_shortest_way(mutant: str, text: str, outcome: str, steps: int) -> None:
    checked = check_world(parse_world("small", text), mutant=mutant)
    assert (checked.outcome, checked.steps) == (outcome, steps), checked.transcript
    again = check_world(parse_world("small", text), mutant=mutant)
    assert again.transcript == checked.transcript


@pytest.mark.parametrize(("world", "mutant"), [(world, mutant) for world in world_names() for mutant in load_world(world).kills])
def test_each_world_finds_the_mutants_that_it_names(world: str, mutant: str) -> None:
    checked = check_world(load_world(world), mutant=mutant, states_max=20_000)
    assert checked.outcome in ("SAFETY", "DEADLOCK", "LIVENESS"), f"{mutant} lives"
    assert checked.transcript[-1].startswith(checked.outcome)


SMALL = ["lapse_forgotten", "reader_dies", "held_group", "upload_dies", "store_garbage", "pipelined_commits"]


@pytest.mark.parametrize("world", SMALL)
def test_a_world_is_complete_to_its_budgets_and_fine(world: str) -> None:
    checked = check_world(load_world(world))
    assert (checked.outcome, checked.complete) == ("FINE", True), "\n".join(checked.transcript)


def test_a_seeded_fault_is_put_back() -> None:
    for name in MUTANTS:
        with planted(name):
            pass
    assert check_world(parse_world("small", TINY), states_max=2_000).outcome == "INCOMPLETE"


def test_each_mutant_is_named_by_a_world_and_each_world_says_what_it_is_for() -> None:
    named = {mutant for name in world_names() for mutant in load_world(name).kills}
    assert named == set(MUTANTS)
    for name in world_names():
        assert len(load_world(name).about) > 20


def test_a_story_has_the_steps_the_verdict_and_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    checked = check_world(parse_world("small", MOVE), mutant="two_owners")
    assert len(checked.json_lines) == checked.steps + 1
    assert [json.loads(line)["step"] for line in checked.json_lines[:-1]] == list(range(1, checked.steps + 1))
    assert checked.mermaid[0] == "sequenceDiagram"
    assert "--mutant two_owners" in checked.reproduce
    assert worst([checked]) == 12
    assert main(["--world", "no such world"]) == 2
    assert "no such world" in capsys.readouterr().err


def test_rows_and_guards_that_were_gone_through_are_noted() -> None:
    with watched() as coverage:
        explore(World(parse_world("small", MOVE)), states_max=3_000)
    assert "LOCAL/MOVE/INCOMING" in coverage.taken
    assert "WRITING/SEALED/INCOMING" in coverage.taken
    assert "LOCAL/MOVE/INCOMING" not in coverage.rows_never_taken()


def symmetries(file: WorldFile) -> int:
    """In how many ways nodes and groups can be renamed, and clients exchanged, with the world's file as it was."""
    shapes = {node.name: evolve(node, name="") for node in file.nodes} | {g.name: evolve(g, name="") for g in file.groups}
    nodes, groups = [node.name for node in file.nodes], [group.name for group in file.groups]

    def renamed(names: dict[str, str]) -> object:
        def line(text: str) -> str:
            return " ".join(names.get(word, word) for word in text.split())

        scripts = [tuple(line(one) for one in script) for _, script in file.clients]
        return [line(one) for one in file.setup], sorted(scripts), [shapes[names[name]] for name in (*nodes, *groups)]

    orders = product(permutations(nodes), permutations(groups))
    ways = [dict(zip((*nodes, *groups), (*some, *others), strict=True)) for some, others in orders]
    itself = renamed({name: name for name in (*nodes, *groups)})
    scripts = [script for _, script in file.clients]
    return sum(renamed(names) == itself for names in ways) * (1 + len(scripts) - len(set(scripts)))


def test_no_world_has_a_symmetry_that_would_pay() -> None:
    twins = TINY.replace('a = [', 'z = ["create g at n1"]\nb = ["create g at n1"]\na = [')
    assert symmetries(parse_world("twins", twins)) > 1
    two_rooms = TINY.replace("[groups.g]", "[nodes.n2]\ndram = 1\n[nodes.n3]\ndram = 1\n[groups.g]")
    assert symmetries(parse_world("rooms", two_rooms)) > 1
    assert {name: ways for name in world_names() if (ways := symmetries(load_world(name))) != 1} == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "[nodes.n1]",
        "about = 1 +",
        TINY + "[surprise]\n",
        TINY.replace("unpin g", "unpin x"),
        TINY.replace("drop = 1", "rain = 1"),
    ],
)
def test_a_world_that_says_what_no_world_has_is_refused(wrong: str) -> None:
    with pytest.raises(WorldFileError):
        World(parse_world("wrong", wrong))
