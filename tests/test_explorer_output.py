"""What `pinfold check` says and writes: counterexamples as transcripts and traces, exit codes, and bad input in a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pinfold.chaos import itf, play
from pinfold.chaos.check import Checked, check_world
from pinfold.chaos.explorer import Outcome, explore
from pinfold.chaos.mutants import planted
from pinfold.chaos.world import Packed, World
from pinfold.chaos.world_file import WorldFileError, load_world, parse_world
from pinfold.cli import main
from pinfold.cli_history import CODES
from pinfold.core.errors import InvariantViolation
from pinfold.exit_codes import MEANINGS

from .story import parse, replay
from .test_explorer import TINY

INTEGER = re.compile(r"-?(0|[1-9]\d*)")


def check_value(value: Any) -> None:
    """An expression of the Informal Trace Format (ADR-015): no plain number, and no key of a record begins with `#`."""
    if isinstance(value, bool | str):
        return
    if isinstance(value, list):
        for one in value:
            check_value(one)
        return
    assert isinstance(value, dict), f"{value!r} is nothing that the format has"
    if "#bigint" in value:
        assert INTEGER.fullmatch(str(value["#bigint"]))
        assert isinstance(value["#bigint"], str)
        assert len(value) == 1
    elif "#map" in value:
        keys = [json.dumps(key) for key, _ in value["#map"]]
        assert len(keys) == len(set(keys)), "a map has each key once"
        for key, one in value["#map"]:
            check_value(key)
            check_value(one)
    elif "#set" in value or "#tup" in value:
        check_value(value.get("#set", value.get("#tup")))
    else:
        assert not [key for key in value if key.startswith("#")]
        for one in value.values():
            check_value(one)


def check_trace(document: dict[str, Any]) -> None:
    assert set(document) <= {"#meta", "params", "vars", "states", "loop"}
    assert document["#meta"]["format"] == "ITF"
    assert document["params"] == []
    for at, state in enumerate(document["states"]):
        assert state["#meta"] == {"index": at}
        assert set(state) - {"#meta"} == set(document["vars"])
        for name in document["vars"]:
            check_value(state[name])
    if "loop" in document:
        assert 0 <= document["loop"] < len(document["states"])
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(
    "wrong", [1, 1.5, None, {"#bigint": 1}, {"#bigint": "01"}, {"#map": [["a", True], ["a", True]]}, {"#x": ""}]
)
def test_a_value_that_the_format_does_not_have_is_seen(wrong: Any) -> None:
    with pytest.raises(AssertionError):
        check_value(wrong)


def found(world: str, mutant: str) -> Checked:
    checked = check_world(load_world(world), mutant=mutant)
    assert checked.outcome != "FINE"
    return checked


def actions(document: dict[str, Any]) -> list[str]:
    return [state["action"] for state in document["states"]]


def test_a_broken_invariant_is_a_trace_up_to_the_step_that_breaks() -> None:
    checked = found("deposed_directory", "two_owners")
    check_trace(checked.itf)
    assert [*actions(checked.itf)[1:], checked.itf["#meta"]["breaks"]] == script(checked)
    assert checked.itf["#meta"]["invariant"] == "COPY-2"
    first, last = (
        dict(state["directory"]["groups"]["#map"])["g"] for state in (checked.itf["states"][0], checked.itf["states"][-1])
    )
    assert (first["state"], last["state"]) == ("LOCAL", "MIGRATING_OUT")


def test_a_deadlock_is_a_trace_to_the_state_in_which_nothing_can_happen() -> None:
    checked = found("reader_dies", "exits_are_not_noticed")
    check_trace(checked.itf)
    assert actions(checked.itf)[1:] == script(checked)
    assert "breaks" not in checked.itf["#meta"]


def test_a_circle_is_a_trace_with_the_state_that_comes_again() -> None:
    checked = found("lost_messages", "orders_are_not_repeated")
    check_trace(checked.itf)
    assert actions(checked.itf)[1 : checked.steps + 1] == script(checked)
    assert checked.itf["loop"] >= checked.steps
    with planted("orders_are_not_repeated"):
        world = World(load_world("lost_messages"))
        search = explore(Packed(world))
        assert itf.trace(world, search) == checked.itf, "two runs tell the same"


def script(checked: Checked) -> list[str]:
    """The steps of the scenario, without its frame."""
    lines, is_script = [], True
    for line in checked.scenario.splitlines():
        is_script = line != "----" and (is_script or not line)
        if is_script and line and not line.startswith(("#", "explore ")):
            lines.append(line)
    assert lines.pop() == "rest"
    return lines


def test_a_fault_of_the_machines_themselves_is_told_up_to_its_last_step_whose_outcome_is_open() -> None:
    """Nobody knows yet what right machines do there: the story breaks until they are cured, and is then recorded."""
    with planted("two_owners"):
        checked = check_world(load_world("deposed_directory"))
    assert "--mutant" not in checked.scenario
    last = parse(checked.scenario)[-1]
    assert (len(last.script), last.script[-1], last.output) == (2, "rest", ["at rest"])
    with planted("two_owners"), pytest.raises(InvariantViolation, match="COPY-2"):
        replay(checked.scenario)
    cured = replay(checked.scenario)
    assert cured[:-1] == parse(checked.scenario)[:-1]
    assert cured[-1].output[0].startswith("  record g LOCAL")
    assert cured[-1].output[-1] == "at rest"


def test_each_step_of_a_world_has_a_line_of_its_own() -> None:
    """A line names one step: no two that lead elsewhere read alike."""
    for name in ("move_crash_directory", "ssd_survives", "deposed_directory", "store_garbage"):
        world = World(load_world(name))
        seen, work = {world.initial()}, [world.initial()]
        while work and len(seen) < 1_500:
            state = work.pop(0)
            named: dict[str, Any] = {}
            for after, _, label in world.successors(state):
                line = play.line_of(world.cast, label[0], state[world.fixed :])
                assert named.setdefault(line, after) == after, f"{name}: {line}"
                if after not in seen:
                    seen.add(after)
                    work.append(after)


# ---- the command ---------------------------------------------------------------------------------------------


def test_counterexamples_are_written_to_files_and_are_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, trace = tmp_path / "told.txt", tmp_path / "trace.itf.json"
    command = ["check", "--world", "deposed_directory", "--mutant", "two_owners", "--json"]
    assert main([*command, "--scenario", str(told), "--itf", str(trace)]) == 12
    said = json.loads(capsys.readouterr().out)["worlds"][0]
    assert told.read_text() == said["scenario"]
    assert said["scenario"].splitlines()[3] == "explore deposed_directory"
    assert json.loads(trace.read_text()) == said["itf"]


def test_nothing_is_written_where_nothing_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "told.txt"
    assert main(["check", "--world", "held_group", "--scenario", str(told)]) == 0
    assert f"no counterexample, so {told} was not written" in capsys.readouterr().err
    assert not told.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--world", "moev"], "there is no world 'moev'; did you mean 'move'?"),
        (["--world", "zzzz"], "there is no world 'zzzz'; "),
        (["--world", "move", "--mutant", "two_owner"], "there is no mutant 'two_owner'; did you mean 'two_owners'?"),
        (["--world", "move", "--mutant", "zzzz"], "there is no mutant 'zzzz'; "),
        (["--world", "move", "--max-states", "-1"], "-1 is not in the range"),
        (["--world", "move", "--jobs", "0"], "0 is not in the range"),
        (["--world", "move", "--all"], "say --world, or --all; not both"),
        (["--deep"], "--deep goes with --all"),
        ([], "name a --world, or say --all"),
        (["--world", "held_group", "--mutant", "evicts_ignore_pins", "--itf", "/dev/null/x"], "/dev/null/x can't be written: "),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("drop = 1", "drop = -1", "drop is a whole number, 0 or more, not -1"),
        ("drop = 1", "drop = 'x'", "drop is a whole number"),
        ("dram = 1", "dram = 0", "dram is a whole number, 1 or more"),
        ("[groups.g]", "[groups.g]\nblocks = 0", "blocks is a whole number, 1 or more"),
        ("[groups.g]", "[groups.g]\nparent = 'h'", "group g comes after its parent, and 'h' is not before it"),
        ("[groups.g]", "[groups.g]\ncolour = 1", "of group g nobody knows colour"),
        ("[nodes.n1]", "pipelined = 1\n[nodes.n1]", "pipelined is true or false"),
        ("[nodes.n1]", "tier = 'slow'\n[nodes.n1]", "its tier is fast or deep, not 'slow'"),
        ("[nodes.n1]", "setup = 'x'\n[nodes.n1]", "setup is a list of texts"),
        ("[nodes.n1]\ndram = 1", "nodes = 3", "nodes is a table, not 3"),
        ("about =", "about", "world wrong: "),
    ],
)
def test_a_world_with_a_wrong_value_is_refused_in_one_sentence(before: str, after: str, said: str) -> None:
    assert before in TINY
    with pytest.raises(WorldFileError) as refused:
        World(parse_world("wrong", TINY.replace(before, after, 1)))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_world_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"about = '\xe9'")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(WorldFileError, match=r"world latin can't be read: .*latin\.toml is no text in UTF-8"):
        load_world("latin", tmp_path)
    with pytest.raises(WorldFileError, match=r"world folder can't be read: .*Is a directory"):
        load_world("folder", tmp_path)


def test_the_page_of_exit_codes_has_those_of_the_checks() -> None:
    assert {int(outcome) for outcome in Outcome} | set(CODES.values()) <= set(MEANINGS)
