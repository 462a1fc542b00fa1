"""The built-in workload, the grouping of blocks, and the bytes of a block."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core.ids import GroupId, Layout, group_id
from pinfold.trace import BLOCK_TOKENS, parse_request, to_line
from pinfold.workload import Draw, Family, Shape, chunks, generate, members, payload, verify

ROOT = Path(__file__).resolve().parent.parent
SMALL = Shape(sessions=3, system_prompts=2, user_tokens_max=900, turns_max=4, context_max=9_000)

# ---- requests ------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**64), st.integers(0, 60))
def test_a_seed_gives_a_well_formed_trace_and_always_the_same(seed: int, requests: int) -> None:
    made = list(generate(seed, requests, SMALL))
    assert len(made) == requests
    assert made == list(generate(seed, requests, SMALL))
    assert made == [parse_request(to_line(one).encode(), "f", 1) for one in made], "the strict reader takes it"
    assert all(early.timestamp_ms <= late.timestamp_ms for early, late in pairwise(made))


@given(st.integers(0, 2**64))
def test_equal_ids_mean_equal_prefixes(seed: int) -> None:
    before: dict[int, int | None] = {}
    top = -1
    for request in generate(seed, 60, SMALL):
        parent = None
        for one in request.hash_ids:
            assert before.setdefault(one, parent) == parent
            assert one <= top + 1, "ids rise in order of first appearance"
            top = max(top, one)
            parent = one


def test_a_turn_repeats_the_full_blocks_of_the_turn_before_and_not_its_unfinished_one() -> None:
    one_session = Shape(sessions=1, system_prompts=1, turns_max=9, context_max=100_000)
    requests = list(generate(3, 40, one_session))
    grown = [
        (early, late)
        for early, late in pairwise(requests)
        if late.input_length > early.input_length + early.output_length
        and late.hash_ids[: early.input_length // BLOCK_TOKENS] == early.hash_ids[: early.input_length // BLOCK_TOKENS]
    ]
    assert len(grown) > 20
    for early, late in grown:
        if early.input_length % BLOCK_TOKENS:
            assert early.hash_ids[-1] not in late.hash_ids


def test_the_default_shape_shares_about_as_much_as_conversations_do() -> None:
    seen: set[int] = set()
    blocks = hits = 0
    for request in generate(7, 1_000):
        ids = request.hash_ids
        hits += next((n for n, one in enumerate(ids) if one not in seen), len(ids))
        blocks += len(ids)
        seen.update(ids)
    assert 0.3 < hits / blocks < 0.9
    assert len(seen) > 3_000, "more than a memory that is meant to be too small"


def test_seeds_differ_and_so_do_prompts() -> None:
    assert list(generate(1, 20)) != list(generate(2, 20))
    roots = {request.hash_ids[0] for request in generate(1, 300)}
    assert 2 <= len(roots) < 60


def test_another_process_makes_the_same_whatever_its_hash_seed() -> None:
    code = (
        "from hashlib import sha256; from pinfold.trace import to_line; from pinfold.workload import *;"
        "d = sha256(''.join(to_line(r) for r in generate(7, 300)).encode());"
        "d.update(payload(b'g' * 16, 3, 5000));"
        "print(d.hexdigest())"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.strip()
        for seed in ("0", "4711")
    ]
    # The figure is written down: a seed in a report must mean the same workload after an upgrade.
    assert said == ["d33e77a89125f48921d402019a942adf752e4da29bf1f7d021038b47e3a0d77b"] * 2


def test_draws_stay_in_their_bounds_and_reach_both_ends() -> None:
    draw = Draw(1)
    assert {draw.below(3) for _ in range(200)} == {0, 1, 2}
    assert {draw.between(5, 6) for _ in range(200)} == {5, 6}
    assert draw.below(1) == 0
    skewed = [draw.skewed(0, 9) for _ in range(4_000)]
    assert set(skewed) == set(range(10))
    assert sum(skewed) / 4_000 < 3.5 < 4.5


def test_a_shape_without_sessions_is_refused() -> None:
    with pytest.raises(ValueError, match="sessions must be at least 1, got 0"):
        Shape(sessions=0)


# ---- groups --------------------------------------------------------------------------------------------------


def test_blocks_are_grouped_from_the_front_and_the_tail_is_its_own_group() -> None:
    found = chunks((10, 11, 12, 13, 14, 15, 16), 3)
    assert [one.hash_ids for one in found] == [(10, 11, 12), (13, 14, 15), (16,)]
    assert [one.prefix for one in found] == [(12, 3), (15, 3), (16, 1)]
    assert [one.first for one in found] == [0, 3, 6]
    assert chunks((), 3) == []
    with pytest.raises(ValueError, match="at least one block, got 0"):
        chunks((1,), 0)


@given(st.lists(st.integers(0), unique=True, max_size=20), st.integers(1, 6))
def test_groups_are_the_whole_prompt_and_only_the_last_is_short(ids: list[int], size: int) -> None:
    found = chunks(tuple(ids), size)
    assert [one for chunk in found for one in chunk.hash_ids] == ids
    assert all(chunk.blocks == size for chunk in found[:-1])


def test_members_know_their_parents_and_a_group_is_known_by_last_id_and_length() -> None:
    family = Family(tenant="t", layout=Layout(block_bytes=64))
    long, short = list(generate(5, 40, SMALL))[-2:]
    for request in (long, short):
        found = members(request, 2, family)
        assert [member.parent for member in found] == [None, *(member.group for member in found[:-1])]
        for member in found:
            assert member.group == group_id(member.key)
            assert (member.key.prefix, member.key.blocks) == (str(member.hash_ids[-1]), len(member.hash_ids))
            assert member.sizes == (64,) * len(member.hash_ids)
    one = chunks((1, 2), 2)[0]
    assert family.key(one).tokens == (0, 2 * BLOCK_TOKENS)
    assert group_id(family.key(one)) != group_id(family.key(chunks((2,), 1)[0]))
    assert group_id(family.key(one)) != group_id(Family(tenant="u").key(one))


# ---- bytes ---------------------------------------------------------------------------------------------------

G, H = GroupId(b"g" * 16), GroupId(b"h" * 16)


@pytest.mark.parametrize("size", [0, 1, 7, 1015, 1016, 1017, 1024, 1025, 4096, 10_000])
def test_a_payload_has_its_size_and_verifies_as_any_buffer(size: int) -> None:
    data = payload(G, 1, size)
    assert len(data) == size
    assert verify(G, 1, size, data)
    assert verify(G, 1, size, bytearray(data))
    assert verify(G, 1, size, memoryview(b"x" + data)[1:])


@pytest.mark.parametrize("size", [16, 1024, 4096, 70_000])
def test_another_block_group_size_or_place_does_not_verify(size: int) -> None:
    data = payload(G, 1, size)
    assert not verify(H, 1, size, data)
    assert not verify(G, 2, size, data)
    assert not verify(G, 1, size, data[:-1])
    assert not verify(G, 1, size, data + b"\0")
    assert not verify(G, 1, size, data[1:] + data[:1])


def test_no_two_pieces_of_one_block_are_alike() -> None:
    data = payload(G, 0, 64 * 1024)
    assert len({data[at : at + 1024] for at in range(0, len(data), 1024)}) == 64


@given(st.integers(0, 4095), st.integers(0, 7))
def test_one_flipped_bit_is_found(place: int, bit: int) -> None:
    data = bytearray(payload(G, 0, 4096))
    data[place] ^= 1 << bit
    assert not verify(G, 0, 4096, data)


def test_a_negative_place_or_size_is_refused() -> None:
    for block, size in ((-1, 4), (0, -1)):
        with pytest.raises(ValueError, match="a place and a size"):
            payload(G, block, size)
