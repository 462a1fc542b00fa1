"""The main job, short: real processes, every fault, and a judgement that would have seen what must not be."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pinfold import cli_job
from pinfold.cli_root import root
from pinfold.cli_shared import Given
from pinfold.cluster import LocalCluster
from pinfold.core.answers import Located, PrefixPinned, Route
from pinfold.core.calls import Ask, Do, GotGroup, PutDone, PutGroup, ReadRoute
from pinfold.core.commands import PinPrefix
from pinfold.core.errors import Refusal, WorldError
from pinfold.core.ids import CopyId, GroupId, HoldId, NodeName, Peer, Tier
from pinfold.demo import JobOptions, JobRun, Room
from pinfold.demo_faults import NAMES, Plan, Progress
from pinfold.job_calls import Outcome
from pinfold.job_client import ClientJob, ReplayingClient
from pinfold.report import Report
from pinfold.trace import TraceError, write_trace
from pinfold.workload import Family, generate, payload

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


def test_a_run_that_breaks_off_is_a_violation_and_its_folder_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(self: JobRun, cluster: LocalCluster) -> None:
        raise WorldError("n1 ended by itself")

    monkeypatch.setattr(JobRun, "_work", work)
    monkeypatch.setattr(LocalCluster, "start", lambda self: None)
    monkeypatch.setattr(LocalCluster, "stop", lambda self: None)
    monkeypatch.setattr(LocalCluster, "endpoint", "tcp://nowhere")
    said: list[str] = []
    run = JobRun(JobOptions("demo", requests=20), said.append)
    report = run.run()
    assert (report.ok, report.violations, report.problems) == (False, 1, ["n1 ended by itself"])
    assert run.data.is_dir()
    assert said[-1] == f"the cluster's folder is {run.data}"
    run.data.rmdir()


# ---- a client ------------------------------------------------------------------------------------------------


class ScriptedCaller:
    """Answers what a cluster would, or what it must not."""

    def __init__(self, spoil: bool) -> None:
        self.spoil = spoil
        self.family = Family()

    def count(self, name: str) -> int:
        return 0

    def calls(self, ops: Sequence[Any], timeout_ms: int) -> list[Outcome]:
        return [Outcome(self.answer(op), None, True, 1_000) for op in ops]

    def route(self, group: GroupId, place: int) -> Route:
        return Route(group, CopyId(0, place, 0), NodeName("n1"), Peer("tcp://n1"), Tier.DRAM, 1, b"m" * 16, 4, 4 * 4_096)

    def answer(self, op: Any) -> Any:
        if isinstance(op, Ask):
            routes = tuple(self.route(group, place) for place, group in enumerate(op.query.groups[:2]))
            return Located(routes, GroupId(b""), -1)
        if isinstance(op, Do) and isinstance(op.body, PinPrefix):
            routes = tuple(self.route(group, place) for place, group in enumerate(op.body.groups))
            return PrefixPinned(routes, tuple(HoldId(1, 1, place) for place in range(len(routes))), 1)
        if isinstance(op, ReadRoute):
            data = [payload(op.route.group, block, 4_096) for block in range(4)]
            if self.spoil and op.route.copy.revision == 1:
                data[2] = data[2][:-1] + bytes([data[2][-1] ^ 1])
            return GotGroup(op.route.group, op.route, (0, 1, 2, 3), (0, 0, 0, 0), Tier.DRAM, None, tuple(data))
        if isinstance(op, PutGroup):
            return PutDone(op.spec.group, CopyId(0, 9, 0), HoldId(1, 2, 0), True)
        return None


@pytest.mark.parametrize("spoil", [False, True])
def test_a_client_compares_every_byte_that_it_is_given(spoil: bool) -> None:
    requests = [next(request for request in generate(1, 50) if len(request.hash_ids) > 12)]
    job = ClientJob("", "c", "n1", 0, "", 1, 4, 4_096)
    client = ReplayingClient(job, requests, ScriptedCaller(spoil))  # type: ignore[arg-type]
    [groups] = client.serve(0)
    assert len(groups) == -(-len(requests[0].hash_ids) // 4), "pins on all that was read and put"
    assert client.tally.hit_blocks == 8
    assert client.tally.bytes_verified == (7 if spoil else 8) * 4_096
    assert client.tally.wrong_bytes == (4_096 if spoil else 0)
    assert [problem.partition(" of ")[0] for problem in client.problems] == ["BYTES-1: wrong bytes: block 2"] * spoil


def test_a_refusal_that_nothing_explains_is_a_problem() -> None:
    class Refusing(ScriptedCaller):
        def calls(self, ops: Sequence[Any], timeout_ms: int) -> list[Outcome]:
            reason = "LayoutMismatch" if isinstance(ops[0], PutGroup) else "Unreachable"
            return [Outcome(None, Refusal(reason), True, 1_000) for _ in ops]

    client = ReplayingClient(ClientJob("", "c", "n1", 0, "", 1, 4, 4_096), list(generate(1, 1)), Refusing(False))  # type: ignore[arg-type]
    [groups] = client.serve(0)
    assert groups == []
    assert client.tally.degraded == 1
    assert client.problems
    assert all("LayoutMismatch" in problem for problem in client.problems)


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
