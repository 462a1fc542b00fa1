"""Shards: every key has one, the same in every process, and a chain stays together."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core.commands import Spec
from pinfold.core.ids import GroupId, Key, Layout
from pinfold.core.sharding import (
    BY,
    HashShards,
    RangeShards,
    RingShards,
    Sharding,
    ShardKey,
    part_of,
    point_of,
)

ROOT = Path(__file__).resolve().parent.parent
KEYS = [ShardKey(f"tenant-{n % 7}", "llama", (n * 0x9E3779B97F4A7C15 % 2**128).to_bytes(16, "big")) for n in range(4_000)]


@pytest.fixture(params=["hash", "ring", "range"])
def sharding(request: pytest.FixtureRequest) -> Sharding:
    made: dict[str, Sharding] = {
        "hash": HashShards(8),
        "ring": RingShards(8),
        "range": RangeShards.from_sample(KEYS, 8),
    }
    return made[request.param]


def test_each_shard_gets_its_part(sharding: Sharding) -> None:
    assert sharding.shards == 8
    counts = Counter(sharding.shard_of(key) for key in KEYS)
    assert sorted(counts) == list(range(8))
    assert min(counts.values()) > 0.6 * len(KEYS) / 8
    assert max(counts.values()) < 1.4 * len(KEYS) / 8


def test_one_shard_more_moves_few_keys_of_a_ring_and_all_of_them_to_the_new_one() -> None:
    before, after = RingShards(8), RingShards(9)
    moved = [key for key in KEYS if before.shard_of(key) != after.shard_of(key)]
    assert 0 < len(moved) < 2 * len(KEYS) / 9
    assert {after.shard_of(key) for key in moved} == {8}


@given(st.text(), st.text(), st.binary(max_size=20), st.integers(1, 6))
def test_every_key_has_a_shard_however_odd_its_words(tenant: str, model: str, part: bytes, shards: int) -> None:
    key = ShardKey(tenant, model, part)
    for one in (HashShards(shards), RingShards(shards, 2), RangeShards.from_sample(KEYS, shards)):
        assert 0 <= one.shard_of(key) < shards


def test_parts_do_not_meet_by_joining() -> None:
    assert point_of(ShardKey("ab", "c", b"")) != point_of(ShardKey("a", "bc", b""))


def test_the_points_are_the_same_for_ever() -> None:
    # A store that was split with these must find its records again.
    assert point_of(ShardKey("t", "m", b"root")) == 0x06E2B11449556E4C
    assert [RingShards(4).shard_of(key) for key in KEYS[:12]] == [0, 0, 3, 2, 1, 3, 2, 3, 2, 0, 2, 3]


def test_another_process_agrees_whatever_its_hash_seed() -> None:
    code = (
        "from pinfold.core.sharding import *;"
        "print([RingShards(5).shard_of(ShardKey(f't{n}', 'm', b'r')) for n in range(50)],"
        " [HashShards(5).shard_of(ShardKey(f't{n}', 'm', b'r')) for n in range(50)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(said) == 1


def test_a_range_keeps_neighbours_together_and_cuts_at_its_bounds() -> None:
    bounds = (ShardKey("b", "", b""), ShardKey("b", "m", b"5"))
    ranges = RangeShards(bounds)
    tries = [ShardKey("a", "z", b"9"), bounds[0], ShardKey("b", "m", b"4"), bounds[1], ShardKey("c", "", b"")]
    assert [ranges.shard_of(key) for key in tries] == [0, 1, 1, 2, 2]


def test_what_cannot_be_a_sharding_is_refused() -> None:
    for make in (lambda: HashShards(0), lambda: RingShards(0), lambda: RingShards(1, 0)):
        with pytest.raises(ValueError, match="at least one"):
            make()
    with pytest.raises(ValueError, match="rise strictly"):
        RangeShards((KEYS[0], KEYS[0]))
    with pytest.raises(ValueError, match="cannot cut 1 distinct keys into 2 ranges"):
        RangeShards.from_sample([KEYS[0], KEYS[0]], 2)


def test_a_store_can_be_split_by_each_of_the_named_ways() -> None:
    key = Key("t", "m", "1", Layout(), "7", 4, layers=(0, 8))
    spec = Spec(GroupId(b"g" * 16), key, (4096,) * 4, request="r1")
    root = GroupId(b"r" * 16)
    assert {by: part_of(by, spec, root) for by in BY} == {
        "chain": root,
        "request": b"r1",
        "layer": b"(0, 8)",
        "block": spec.group,
        "tenant": b"",
    }
    with pytest.raises(ValueError, match="not by 'colour'"):
        part_of("colour", spec, root)
