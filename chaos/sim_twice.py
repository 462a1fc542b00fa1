"""DET-1 for whole runs: each seed in two processes of its own, under different hash seeds, and the same digest from both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import evolve

from .sim_trace import first_difference
from .simulator import BadRun, Outcome, Plan

HASH_SEEDS: Final = ("1", "4242")
SECONDS_MAX: Final = 600
PINFOLD: Final = (sys.executable, "-m", "pinfold")


def run(wanted: Plan, pinfold: Sequence[str] = PINFOLD) -> Outcome:
    """The outcome of both runs; of two that differ, the first event that does. `pinfold`: the command to be run. Raises `BadRun`
    where a process says nothing that can be read."""
    with TemporaryDirectory(prefix="pinfold-") as folder:
        traces = [Path(folder) / hash_seed for hash_seed in HASH_SEEDS]
        first, second = [
            _outcome(wanted, [*pinfold, *_arguments(wanted, trace)], hash_seed)
            for trace, hash_seed in zip(traces, HASH_SEEDS, strict=True)
        ]
        if wanted.trace is not None:
            wanted.trace.write_bytes(traces[0].read_bytes())
        if first.digest == second.digest and first.code == second.code:
            return first
        lines = [trace.read_text(encoding="utf-8").splitlines() for trace in traces]
    at, one, other = first_difference(*lines) or (0, f"verdict {first.verdict}", f"verdict {second.verdict}")
    what = f"two runs of seed {wanted.seed} differ from line {at} of their traces on:\n{one}\n{other}"
    return evolve(
        first, verdict="violated", code=12, invariant="DET-1", what=what, story=[], reproduce=f"{first.reproduce} --twice"
    )


def _arguments(wanted: Plan, trace: Path) -> list[str]:
    """Those of `pinfold` for this run."""
    more = [] if wanted.history is None else ["--history", str(wanted.history)]
    return [*wanted.words(), "--json", "--last", str(wanted.last), "--trace", str(trace), *more]


def _outcome(wanted: Plan, command: Sequence[str], hash_seed: str) -> Outcome:
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    try:
        return Outcome(**json.loads(ended.stdout)["runs"][0])
    except ValueError:
        last = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BadRun(f"seed {wanted.seed} under PYTHONHASHSEED={hash_seed} ended {ended.returncode} and said: {last}") from None
