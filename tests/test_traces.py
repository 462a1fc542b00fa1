"""The public traces are those that the expected figures were counted on, and a run can insist on them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.traces
@pytest.mark.parametrize(
    ("file", "requests", "blocks", "hit_blocks"),
    [
        ("conversation_trace.jsonl", 12_031, 288_500, 105_710),
        ("synthetic_trace.jsonl", 3_993, 121_877, 77_953),
    ],
)
def test_the_traces_have_the_counts_that_other_tests_expect(
    traces: Path, file: str, requests: int, blocks: int, hit_blocks: int
) -> None:
    chains = [json.loads(line)["hash_ids"] for line in (traces / file).read_text().splitlines()]
    seen: set[int] = set()
    hits = 0
    for chain in chains:
        hits += next((n for n, block in enumerate(chain) if block not in seen), len(chain))
        seen.update(chain)
    assert (len(chains), sum(map(len, chains)), hits) == (requests, blocks, hit_blocks)


@pytest.mark.parametrize(("flags", "word"), [((), "skipped"), (("--require-traces",), "error")])
def test_absent_traces_are_skipped_unless_they_are_required(
    tmp_path: Path, flags: tuple[str, ...], word: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "counts", *flags, __file__],
        cwd=ROOT,
        env={**os.environ, "PINFOLD_TRACES": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    summary = run.stdout.splitlines()[-1]
    assert f"2 {word}" in summary
    assert (run.returncode != 0) == bool(flags)
