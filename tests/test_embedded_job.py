"""`pinfold replay --embedded` counts what an independent cache counts, to the block, and does so again for the same input."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pinfold.embedded_job import EmbeddedJob, EmbeddedRun
from pinfold.report import Report
from pinfold.trace import TraceRequest, read_trace
from pinfold.workload import Shape, generate
from tests.reference_cache import Prefix, replay
from tests.test_reference_cache import NaiveCache

ROOT = Path(__file__).resolve().parent.parent
SMALL = Shape(sessions=3, system_prompts=2, system_tokens_max=2_000, user_tokens_max=2_500, turns_max=4, context_max=12_000)
CROWDED = Shape(sessions=6)


def run(requests: Sequence[TraceRequest], **job: int | bool | None) -> Report:
    """A run that is as it should be."""
    report = EmbeddedRun(EmbeddedJob(**job), requests).run()  # type: ignore[arg-type]
    assert report.ok, report.problems
    return report


def counts(report: Report) -> tuple[object, ...]:
    return (report.tally.blocks, report.tally.hit_blocks, report.evictions, report.settings["skipped_groups"])


def expected(
    requests: Sequence[TraceRequest], group_blocks: int, capacity: int | None, high: int, low: int
) -> tuple[object, ...]:
    cache = replay([request.hash_ids for request in requests], group_blocks, capacity, high, low)
    return (cache.blocks, cache.hit_blocks, cache.evictions, cache.skipped)


@pytest.mark.parametrize("shape", [SMALL, CROWDED], ids=["small", "crowded"])
@pytest.mark.parametrize(
    ("group_blocks", "capacity", "high", "low"),
    [
        (1, 20, 950, 900),  # less than one prompt: what does not fit beside the pinned is skipped
        (1, 60, 950, 900),
        (2, 25, 900, 500),
        (3, 40, 300, 200),  # far above its high mark while pins last, relieved when they end
        (4, 10, 950, 900),
        (4, 120, 950, 900),
        (4, 400, 1000, 1000),
        (5, None, 950, 900),
    ],
)
def test_hits_evictions_and_skips_are_those_of_the_reference(
    shape: Shape, group_blocks: int, capacity: int | None, high: int, low: int
) -> None:
    requests = list(generate(1, 30, shape))
    report = run(requests, group_blocks=group_blocks, capacity=capacity, high=high, low=low)
    assert counts(report) == expected(requests, group_blocks, capacity, high, low)


def test_so_they_are_when_all_invariants_are_asked_after_every_tenth_step() -> None:
    requests = list(generate(3, 25, SMALL))
    report = run(requests, group_blocks=2, capacity=40, check_every=10)
    assert counts(report) == expected(requests, 2, 40, 950, 900)


def test_every_byte_of_a_hit_is_verified_on_the_way_through_the_codec_too() -> None:
    requests = list(generate(4, 25, SMALL))
    report = run(requests, group_blocks=2, capacity=120, with_bytes=True, block_bytes=2_000, through_codec=True)
    assert counts(report) == expected(requests, 2, 120, 950, 900)
    assert report.tally.hit_blocks > 50
    assert report.tally.bytes_verified == report.tally.hit_blocks * 2_000
    assert report.tally.wrong_bytes == 0


def test_no_capacity_bound_means_no_eviction_and_nothing_skipped() -> None:
    requests = list(generate(5, 60, CROWDED))
    report = run(requests, group_blocks=4)
    assert counts(report) == (*expected(requests, 4, None, 950, 900)[:2], 0, 0)
    assert report.tally.hit_blocks_by_tier == {"dram": report.tally.hit_blocks}


class PolicyCache(NaiveCache):
    """The naive cache with another idea of who goes first. A hit is two uses (it is located and pinned), a write one."""

    def __init__(self, policy: str, capacity: int) -> None:
        super().__init__(capacity, 950, 900)
        self.policy = policy
        self.evictions = 0
        self.uses: dict[Prefix, int] = {}
        self.made: dict[Prefix, int] = {}

    def serve(self, keys: Sequence[Prefix], pinned: set[Prefix]) -> None:
        for key in keys:
            if key not in self.there:
                break
            self.uses[key] += 1
        super().serve(keys, pinned)

    def touch(self, key: Prefix, parent: Prefix | None, pinned: set[Prefix]) -> None:
        if key not in self.there:
            self.uses[key], self.made[key] = 0, self.now
        self.uses[key] += 1
        super().touch(key, parent, pinned)

    def first_to_go(self, keys: Sequence[Prefix]) -> Prefix:
        self.evictions += 1
        scores = {
            "fifo": lambda key: (self.made[key],),
            "lfu": lambda key: (self.uses[key], self.there[key][1]),
            "ttl": lambda key: (self.there[key][1],),  # nothing here has a time to live
        }
        return min(keys, key=scores[self.policy])


@pytest.mark.parametrize("policy", ["fifo", "lfu", "ttl"])
@pytest.mark.parametrize(("group_blocks", "capacity"), [(1, 60), (2, 150), (4, 400)])
def test_another_policy_counts_what_a_naive_cache_with_it_counts(policy: str, group_blocks: int, capacity: int) -> None:
    requests = list(generate(1, 30, CROWDED))
    report = EmbeddedRun(EmbeddedJob(group_blocks=group_blocks, capacity=capacity, policy=policy), requests).run()
    naive = PolicyCache(policy, capacity)
    for request in requests:
        naive.request(request.hash_ids, group_blocks)
    assert report.ok, report.problems
    assert (report.tally.hit_blocks, report.evictions) == (naive.hit_blocks, naive.evictions)


def test_the_cost_policy_evicts_and_stays_sound() -> None:
    requests = list(generate(6, 30, CROWDED))
    report = EmbeddedRun(EmbeddedJob(group_blocks=2, capacity=150, policy="cost", check_every=50), requests).run()
    assert report.ok, report.problems
    assert report.evictions > 0
    assert 0 < report.tally.hit_blocks <= expected(requests, 2, None, 950, 900)[1]  # type: ignore[operator]


def test_the_same_run_has_the_same_digest_under_any_hash_seed() -> None:
    code = (
        "from pinfold.embedded_job import *; from pinfold.workload import *;"
        "job = EmbeddedJob(group_blocks=2, capacity=60, with_bytes=True, block_bytes=256);"
        "print(EmbeddedRun(job, generate(7, 25)).run().settings['digest'])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout.strip()
        for seed in ("0", "4711")
    ]
    assert said[0] == said[1]
    assert len(said[0]) == 32


def test_another_workload_has_another_digest() -> None:
    one, other = (run(list(generate(seed, 5, SMALL)), group_blocks=4).settings["digest"] for seed in (1, 2))
    assert one != other


# ---- the public traces ---------------------------------------------------------------------------------------


@pytest.mark.traces
@pytest.mark.parametrize(
    ("file", "requests", "group_blocks", "capacity"),
    [
        ("conversation_trace.jsonl", 150, 4, None),
        ("conversation_trace.jsonl", 40, 1, 400),
        ("conversation_trace.jsonl", 150, 4, 2_000),
        ("synthetic_trace.jsonl", 150, 4, None),
        ("synthetic_trace.jsonl", 100, 4, 1_500),
        ("synthetic_trace.jsonl", 100, 16, 1_500),
    ],
)
def test_a_slice_of_the_real_traces_gives_the_figures_of_the_reference(
    traces: Path, file: str, requests: int, group_blocks: int, capacity: int | None
) -> None:
    found = list(read_trace(traces / file, requests))
    report = run(found, group_blocks=group_blocks, capacity=capacity)
    assert counts(report) == expected(found, group_blocks, capacity, 950, 900)
