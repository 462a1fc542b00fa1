"""Eviction policies, and `pick_victims` against the sentence that defines it, taken literally."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core.eviction import (
    POLICIES,
    Candidate,
    Policy,
    Watermarks,
    Weights,
    eviction_score,
    pick_victims,
    to_free,
)
from pinfold.core.ids import GroupId


def gid(number: int) -> GroupId:
    return GroupId(number.to_bytes(16, "big"))


def candidate(number: int, **fields: int) -> Candidate:
    return Candidate(**{"group": gid(number), "size": 1, "last_touch": number, **fields})  # type: ignore[arg-type]


def order(policy: str, candidates: list[Candidate], now_ms: int = 0, weights: Weights | None = None) -> list[int]:
    picked = pick_victims(candidates, 1_000_000, POLICIES[policy], weights or Weights(), now_ms)
    return [int.from_bytes(group, "big") for group in picked]


def by_brute_force(candidates: list[Candidate], need: int, policy: Policy, weights: Weights, now_ms: int) -> list[GroupId]:
    """The definition: score everybody again before each choice."""
    left = {c.group: c for c in candidates}
    children = {c.group: c.children for c in candidates}
    victims: list[GroupId] = []
    while need > 0 and left:
        pool = [c for c in left.values() if children[c.group] == 0] or list(left.values())
        victim = min(pool, key=lambda c: (policy(c, now_ms, weights), c.group))
        del left[victim.group]
        victims.append(victim.group)
        need -= victim.size
        if victim.parent in left:
            assert victim.parent is not None
            children[victim.parent] -= 1
    return victims


small = st.integers(0, 4)


@st.composite
def forests(draw: st.DrawFn) -> list[Candidate]:
    """Trees of candidates with scores close enough to tie; some have children that are no candidates (held ones)."""
    count = draw(st.integers(0, 14))
    made: list[Candidate] = []
    for number in range(count):
        parent = draw(st.none() | st.integers(0, number)) if number else None
        made.append(
            Candidate(
                group=gid(draw(st.integers(0, 3)) * 100 + number),
                size=draw(st.integers(1, 4)),
                last_touch=draw(small),
                last_access_ms=draw(small),
                accesses=draw(small),
                created=draw(small),
                ttl_ms=draw(small),
                recompute_cost=draw(small),
                priority=draw(small),
                migration_cost=draw(small),
                locality=draw(small),
                children=draw(st.sampled_from([0, 0, 0, 1])),
                parent=made[parent - 1].group if parent else None,
            )
        )
    by_group = {c.group: c for c in made}
    for c in made:
        if c.parent is not None:
            by_group[c.parent].children += 1
    return draw(st.permutations(made))


weights = st.builds(Weights, small, small, small, small, small, small)


@given(forests(), st.integers(-1, 30), st.sampled_from(sorted(POLICIES)), weights, small)
def test_victims_are_those_of_the_definition(forest: list[Candidate], need: int, name: str, weight: Weights, now_ms: int) -> None:
    policy = POLICIES[name]
    before = [repr(c) for c in forest]
    assert pick_victims(forest, need, policy, weight, now_ms) == by_brute_force(forest, need, policy, weight, now_ms)
    assert [repr(c) for c in forest] == before, "candidates are only looked at"


@given(forests(), st.sampled_from(sorted(POLICIES)), weights, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(
    forest: list[Candidate], name: str, weight: Weights, shuffler: random.Random
) -> None:
    first = pick_victims(forest, 9, POLICIES[name], weight, 2)
    shuffler.shuffle(forest)
    assert pick_victims(forest, 9, POLICIES[name], weight, 2) == first


def test_lru_takes_the_longest_untouched() -> None:
    assert order("lru", [candidate(1, last_touch=30), candidate(2, last_touch=10), candidate(3, last_touch=20)]) == [
        2,
        3,
        1,
    ]


def test_lfu_takes_the_least_used_and_among_equals_the_longest_untouched() -> None:
    group = [candidate(1, accesses=2), candidate(2, accesses=1, last_touch=9), candidate(3, accesses=1, last_touch=8)]
    assert order("lfu", group) == [3, 2, 1]


def test_fifo_takes_the_first_created_however_often_it_was_touched() -> None:
    assert order("fifo", [candidate(1, created=7, last_touch=1), candidate(2, created=3, last_touch=99)]) == [2, 1]


def test_ttl_takes_the_expired_first_and_then_the_longest_untouched() -> None:
    group = [
        candidate(1, ttl_ms=0, last_access_ms=0),  # never expires
        candidate(2, ttl_ms=100, last_access_ms=901),  # one ms to live
        candidate(3, ttl_ms=100, last_access_ms=900),  # expired just now
        candidate(4, ttl_ms=5, last_access_ms=100),  # expired long ago, touched later
    ]
    assert order("ttl", group, now_ms=1_000) == [3, 4, 1, 2]


@pytest.mark.parametrize(
    ("part", "more_goes_first"),
    [
        ("size", True),
        ("migration_cost", True),
        ("recompute_cost", False),
        ("priority", False),
        ("locality", False),
        ("last_access_ms", False),  # more is warmer
    ],
)
def test_each_part_of_the_cost_score_pulls_its_way_and_its_weight_can_silence_it(part: str, more_goes_first: bool) -> None:
    less, more = candidate(1, **{part: 1}), candidate(2, **{part: 2})
    less.last_touch = more.last_touch = 0
    assert order("cost", [less, more], now_ms=10) == ([2, 1] if more_goes_first else [1, 2])
    silent = Weights(**{"coldness" if part == "last_access_ms" else part: 0})
    assert order("cost", [less, more], now_ms=10, weights=silent) == [1, 2], "a tie goes by group id"


def test_the_score_is_the_sum_of_the_design_and_a_clock_set_back_is_not_heat() -> None:
    one = Candidate(gid(1), 2, 0, 40, recompute_cost=3, priority=5, migration_cost=7, locality=11)
    weight = Weights(size=1, coldness=10, migration_cost=100, recompute_cost=1_000, priority=10_000, locality=100_000)
    assert eviction_score(one, 50, weight) == 2 + 100 + 700 - 3_000 - 50_000 - 1_100_000
    assert eviction_score(one, 39, weight) == eviction_score(one, 40, weight)


def test_leaves_go_before_parents_and_a_parent_follows_its_last_child_at_once() -> None:
    root = candidate(1, last_touch=1, children=2)
    left = candidate(2, last_touch=5)
    left.parent = root.group
    right = candidate(3, last_touch=3)
    right.parent = root.group
    other = candidate(4, last_touch=9)
    assert order("lru", [root, left, right, other]) == [3, 2, 1, 4]


def test_a_parent_of_a_held_child_goes_only_when_no_leaf_is_left() -> None:
    root = candidate(1, children=1)
    middle = candidate(2, children=1)  # its child is held and no candidate
    middle.parent = root.group
    leaf = candidate(3, last_touch=77)
    assert order("lru", [root, middle, leaf]) == [3, 1, 2]


def test_a_parent_that_went_before_its_child_is_no_reason_to_stop() -> None:
    ring = [candidate(1, children=1), candidate(2, children=1)]
    ring[0].parent, ring[1].parent = gid(2), gid(1)  # cannot be, and must not hang
    assert order("lru", ring) == [1, 2]


def test_it_stops_when_the_need_is_met_and_takes_nobody_for_no_need() -> None:
    group = [candidate(n, size=4) for n in range(5)]
    assert pick_victims(group, 5, POLICIES["lru"], Weights(), 0) == [gid(0), gid(1)]
    assert pick_victims(group, 4, POLICIES["lru"], Weights(), 0) == [gid(0)]
    assert pick_victims(group, 0, POLICIES["lru"], Weights(), 0) == []
    assert pick_victims([], 5, POLICIES["lru"], Weights(), 0) == []


def test_a_long_chain_goes_from_its_end() -> None:
    chain = [candidate(n, children=1) for n in range(20_000)]
    chain[-1].children = 0
    for parent, child in pairwise(chain):
        child.parent = parent.group
    assert order("lru", chain) == list(reversed(range(20_000)))


@pytest.mark.parametrize(
    ("used", "needed", "expected"),
    [
        (0, 0, 0),
        (90, 0, 0),  # at the high mark: not above it
        (91, 0, 21),  # above: down to the low mark
        (90, 10, 0),  # fits exactly
        (90, 11, 20),  # does not fit: to the low mark, which is enough
        (60, 50, 10),  # below the low mark, but the need wants it
        (75, 60, 35),  # the need wants more than the low mark
        (100, 101, 30),  # never fits: only the mark speaks
        (50, 101, 0),
    ],
)
def test_what_has_to_go_at_each_fill(used: int, needed: int, expected: int) -> None:
    assert to_free(used, 100, needed, Watermarks(high=900, low=700)) == expected


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 600), st.integers(0, 1000), st.integers(0, 1000))
def test_freeing_what_is_said_is_enough_and_no_slot_too_many(used: int, capacity: int, needed: int, one: int, other: int) -> None:
    used = min(used, capacity)
    marks = Watermarks(high=max(one, other), low=min(one, other))
    free = to_free(used, capacity, needed, marks)
    assert 0 <= free <= used
    rest = used - free
    if free:
        assert rest * 1000 <= marks.low * capacity
        assert (rest + 1) * 1000 > marks.low * capacity or rest + needed == capacity
    else:
        assert rest * 1000 <= marks.high * capacity
    assert rest + needed <= capacity or needed > capacity


@pytest.mark.parametrize(("high", "low"), [(900, 901), (1001, 0), (500, -1)])
def test_marks_that_contradict_themselves_are_refused(high: int, low: int) -> None:
    with pytest.raises(ValueError, match="0 <= low <= high <= 1000"):
        Watermarks(high=high, low=low)
