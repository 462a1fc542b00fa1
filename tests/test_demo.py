"""The main job, short: real processes, every fault, and a judgement that would have seen what must not be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold import cli_job
from pinfold.cli_root import root
from pinfold.cli_shared import Given
from pinfold.demo import JobOptions, JobRun, Room
from pinfold.demo_faults import NAMES, Plan, Progress
from pinfold.report import Report
from pinfold.trace import TraceError, write_trace
from pinfold.workload import generate

ROOT = Path(__file__).resolve().parent.parent

KEYS = {
    "violations", "wrong_bytes", "leaked_holds", "orphan_copies", "kills", "pauses", "moves_committed", "moves_aborted",
    "evictions", "bytes_verified", "recovery_s", "requests", "blocks", "hit_blocks", "hit_rate", "ops_per_s", "latency_us",
}  # fmt: skip


def pinfold(*arguments: str, timeout_s: int = 110) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pinfold", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


# ---- the whole -----------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_short_demo_survives_every_fault_and_leaves_nothing_behind(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ended = pinfold("demo", "--seed", "7", "--requests", "100", "--json", "--report", str(page))
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert figures.keys() >= KEYS
    assert (figures["violations"], figures["wrong_bytes"], figures["leaked_holds"], figures["orphan_copies"]) == (0, 0, 0, 0)
    assert (figures["kills"], figures["pauses"]) == (3, 1)
    assert figures["recovery_s"].keys() == set(NAMES)
    assert all(figures[name] > 0 for name in ("moves_committed", "moves_aborted", "evictions", "bytes_verified", "demotions"))
    assert figures["requests"] == 100
    assert figures["problems"] == []
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    folder = ended.stderr.partition(" in ")[2].partition(":")[0]
    assert folder
    assert not Path(folder).exists()


@pytest.mark.processes
def test_a_replay_is_the_same_without_faults(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    write_trace(trace, generate(3, 30))
    ended = pinfold("replay", "--trace", str(trace), "--requests", "25", "--capacity", "200blocks", "--policy", "lfu", "--json")
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert figures.keys() >= KEYS
    assert (figures["kills"], figures["pauses"], figures["requests"], figures["ok"]) == (0, 0, 25, True)
    assert figures["settings"]["capacity"] == 200
    assert figures["latency_us"]["put"].keys() >= {"p50", "p99", "p999"}


# ---- the command line ----------------------------------------------------------------------------------------


def test_an_embedded_replay_tells_the_keys_of_a_replay() -> None:
    ended = CliRunner().invoke(root, ["replay", "--embedded", "--no-bytes", "--requests", "20", "--json"], obj=Given())
    assert ended.exit_code == 0, ended.output
    figures = json.loads(ended.stdout)
    assert figures.keys() >= KEYS
    assert figures["settings"]["bytes"] is False


def test_a_malformed_trace_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0}\n')
    for command in (["demo"], ["replay"], ["replay", "--embedded"]):
        ended = pinfold(*command, "--trace", str(trace))
        assert ended.returncode == 2
        assert ended.stderr == f"pinfold: {trace}:1: the field input_length is missing\n"
        assert ended.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["replay", "--no-bytes"], "--no-bytes goes with --embedded"),
        (["replay", "--capacity", "12"], "takes unbounded, blocks such as 1500blocks, or a size such as 64MiB"),
        (["replay", "--policy", "mru"], "'mru' is not one of"),
        (["replay", "--requests", "0"], "0 is not in the range"),
        (["demo", "--requests", "19"], "a demo takes at least 20 requests"),
        (["demo", "--report", "/nowhere/at/all.html"], "there is no folder /nowhere/at"),
    ],
)
def test_a_wrong_flag_is_one_sentence(arguments: list[str], sentence: str) -> None:
    ended = CliRunner().invoke(root, arguments, obj=Given())
    assert ended.exit_code == 2
    assert sentence in ended.stderr


@pytest.mark.parametrize(
    ("text", "slots"), [("unbounded", None), ("1500blocks", 1_500), ("64MiB", 16_384), ("1MB", 244), (None, 7)]
)
def test_a_capacity_is_blocks_or_bytes_or_unbounded(text: str | None, slots: int | None) -> None:
    assert cli_job.slots_of(text, 4_096, 7) == slots


def test_what_must_not_be_is_exit_code_1_and_a_line_to_reproduce_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: JobRun) -> Report:
        report = Report("demo", seed=self.options.seed)
        report.tally.wrong_bytes = 4_096
        return report

    monkeypatch.setattr(JobRun, "run", run)
    ended = CliRunner().invoke(root, ["demo", "--seed", "5", "--requests", "90", "--json"], obj=Given(), standalone_mode=False)
    assert ended.return_value == 1
    assert json.loads(ended.stdout)["wrong_bytes"] == 4_096
    assert ended.stderr == "REPRODUCE: pinfold demo --seed 5 --requests 90 --clients 3 --group-blocks 4 --block-bytes 4096\n"


# ---- the plan ------------------------------------------------------------------------------------------------


def test_the_seed_fixes_when_and_whom_the_faults_hit() -> None:
    nodes = ("n1", "n2", "n3")
    assert Plan.draw(3, 900, nodes) == Plan.draw(3, 900, nodes)
    assert len({str(Plan.draw(seed, 900, nodes)) for seed in range(20)}) == 20
    for seed in range(50):
        for requests in (40, 100, 900):
            plan = Plan.draw(seed, requests, nodes)
            assert list(plan.places) == sorted(set(plan.places)), "one after the other"
            assert 0 < plan.places[0] < plan.places[-1] < requests
            assert plan.victims[0] != plan.victims[1]


def test_requests_go_on_during_a_fault_up_to_the_place_of_the_next() -> None:
    plan = Plan((10, 20, 30, 40), ("n1", "n2"))
    assert [plan.limit(over) for over in range(5)] == [20, 30, 40, None, None]


def test_who_waits_for_progress_is_let_go_when_the_run_ends() -> None:
    progress = Progress()
    progress.reach(5)
    assert progress.wait_for(5)
    progress.stop()
    assert not progress.wait_for(6)


def test_a_capacity_is_spread_over_nodes_and_tiers_and_the_store_is_half_of_it() -> None:
    room = Room.for_capacity(900, 4)
    assert room == Room(dram=100 + 8, ssd=200, store=450)
    small = Room.for_capacity(1, 16)
    assert small.dram + small.ssd >= 4 * 16


def test_a_run_is_refused_before_anything_starts_when_its_trace_is_none() -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        JobRun(JobOptions("demo", trace=os.devnull + "/x"), lambda sentence: None)
