"""Random walks of the directory among honest nodes: every step is checked, and everything comes to rest at the end (LIVE-1)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from .directory_walk import Walk

ROOT = Path(__file__).resolve().parent.parent

WORLDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one directory": {"restarts": False},
    "spilling": {"spill": True, "high": 700, "low": 400},
    "remote": {"remote": 0.6, "stores": 20, "spill": True},
    "hasty": {"grace_ms": 0, "housekeeping_items": 1, "drain_moves_max": 1, "eviction": "cost", "placement": "round_robin"},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("world", WORLDS)
def test_a_walk_breaks_nothing_and_comes_to_rest(world: str, seed: int) -> None:
    walk = Walk(seed, **WORLDS[world])
    walk.run(350)
    walk.settle()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_a_long_walk_breaks_nothing_and_comes_to_rest(seed: int) -> None:
    walk = Walk(seed, **list(WORLDS.values())[seed % len(WORLDS)])
    walk.run(3_000)
    walk.settle()


def test_a_walk_does_what_it_is_for() -> None:
    """Moves commit and abort, groups are lost, nodes return, sessions end: a walk that does none of it would prove nothing."""
    done: dict[str, int] = {}
    for seed in range(4):
        walk = Walk(seed, restarts=False)
        walk.run(800)
        for name, count in walk.world.state.counters.items():
            done[name] = done.get(name, 0) + count
    wanted = ("moves_committed", "moves_aborted", "authorities_lost", "holds_lost", "returns", "lapses", "sessions_ended")
    assert {name: done.get(name, 0) for name in wanted if not done.get(name)} == {}


def digest(seed: int) -> str:
    """Everything that a walk said and persisted, as one number."""
    walk = Walk(seed)
    walk.run(150)
    text = repr((walk.world.sent, walk.world.store.frozen(), walk.story, walk.world.state.counters))
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_walk_is_the_same_under_every_hash_seed() -> None:
    """DET-1."""
    code = "from tests.test_directory_walk import digest; print(digest(7))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for hash_seed in ("0", "4711")
    }
    assert said == {digest(7) + "\n"}


def test_a_copied_state_is_equal_and_shares_no_table() -> None:
    walk = Walk(3, stores=20, spill=True, remote=0.6)
    walk.run(200)
    state = walk.world.state
    twin = state.copy()
    assert twin == state
    tables = [(name, getattr(state, name), getattr(twin, name)) for name in (one.name for one in fields(type(state)))]
    outer = [name for name, table, other in tables if type(table) is dict and table is not other]
    assert outer == [name for name, table, _ in tables if type(table) is dict]
    inner = [(table[key], other[key]) for _, table, other in tables if type(table) is dict for key in table]
    assert not [here for here, there in inner if type(here) is dict and here is there]
    assert any(type(here) is dict for here, _ in inner)
