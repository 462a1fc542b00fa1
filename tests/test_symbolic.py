"""Pure functions of the core, each with a property: by random examples always, and by symbolic ones on demand (`make find`).

The symbolic backend runs a property on numbers that stand for many and asks a solver for those that lead elsewhere, so it finds
what only one number in a million does. It is a bug finder, no proof: it stops after so many paths (proofs/ has the proofs).
The last test shows that it finds what as many random examples miss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pinfold.core import allocator, breaker, eviction, placement, rate, retry, rows, sharding
from pinfold.core.commands import Move
from pinfold.core.ids import CopyId, GroupId, NodeName, Role, State, Tier
from pinfold.core.plain import PlainError, pack, unpack
from pinfold.core.reports import Condition, InventoryEntry
from pinfold.core.state import Copy, Group
from pinfold.core.table import TABLE
from tests.node_world import spec_of

PATHS = 60
"""Symbolic examples of each property."""

MS = st.integers(0, 2**40)
SMALL = st.integers(0, 1_000)
BURST = st.integers(1, 100_000)
SPEC = spec_of("A", 1)

Property = Callable[..., None]
STRATEGIES: dict[Property, dict[str, st.SearchStrategy[Any]]] = {}
"""Each property with what its arguments may be."""


def over(**strategies: st.SearchStrategy[Any]) -> Callable[[Property], Property]:
    def note(wanted: Property) -> Property:
        STRATEGIES[wanted] = strategies
        return wanted

    return note


# ---- properties ----------------------------------------------------------------------------------------------


@over(level=st.integers(0, 10**8), at=MS, now=MS, later=MS, per_s=st.integers(0, 10**6), burst=BURST)
def a_bucket_fills_up_to_its_burst_and_never_runs_out(
    level: int, at: int, now: int, later: int, per_s: int, burst: int
) -> None:
    assume(level <= burst * 1000 and now <= later)
    bucket = rate.TokenBucket(level, at)
    full_now, full_later = rate.level_at(bucket, now, per_s, burst), rate.level_at(bucket, later, per_s, burst)
    assert level <= full_now <= full_later <= burst * 1000


@over(level=st.integers(0, 10**8), at=MS, now=MS, per_s=st.integers(1, 10**6), burst=BURST)
def the_wait_that_a_bucket_tells_is_exact(level: int, at: int, now: int, per_s: int, burst: int) -> None:
    assume(level <= burst * 1000 and at <= now)
    bucket, wait = rate.take(rate.TokenBucket(level, at), now, per_s, burst)
    if wait == 0:
        assert 0 <= bucket.level <= burst * 1000 - 1000
    else:
        assert bucket == rate.TokenBucket(level, at)
        assert rate.level_at(bucket, now + wait, per_s, burst) >= 1000 > rate.level_at(bucket, now + wait - 1, per_s, burst)


@over(seed=st.integers(0, 2**64 - 1), attempt=SMALL, base=st.integers(0, 10_000), most=st.integers(0, 100_000))
def a_pause_is_at_least_a_millisecond_and_within_its_bound(seed: int, attempt: int, base: int, most: int) -> None:
    _, pause = retry.backoff_ms(seed, attempt, base, most)
    assert 1 <= pause <= max(1, most)
    assert pause <= max(1, base * 2 ** min(attempt, 32))


@over(used=SMALL, capacity=SMALL, needed=SMALL, low=st.integers(0, 1000), high=st.integers(0, 1000))
def freeing_stops_at_the_low_mark_or_where_the_need_fits(used: int, capacity: int, needed: int, low: int, high: int) -> None:
    assume(low <= high and used <= capacity)
    freed = eviction.to_free(used, capacity, needed, eviction.Watermarks(high, low))
    left = used - freed
    assert 0 <= left <= used
    if freed:
        assert left + needed <= capacity or needed > capacity
        assert left * 1000 <= low * capacity or left + needed == capacity
    else:
        assert used * 1000 <= high * capacity or left <= low * capacity // 1000
        assert used + needed <= capacity or needed > capacity


@over(size=SMALL, accessed=MS, now=MS, later=MS, priority=SMALL)
def what_is_colder_goes_first_and_priority_keeps(size: int, accessed: int, now: int, later: int, priority: int) -> None:
    assume(now <= later)
    one = eviction.Candidate(GroupId(b"g"), size, 0, accessed, priority=priority)
    weights = eviction.Weights()
    score = eviction.eviction_score(one, now, weights)
    assert score <= eviction.eviction_score(one, later, weights)
    assert score > eviction.eviction_score(evolve(one, priority=priority + 1), now, weights)


@over(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3), touched=st.permutations([0, 1, 2]), need=st.integers(-1, 40))
def victims_are_as_few_as_the_order_allows(sizes: list[int], touched: Sequence[int], need: int) -> None:
    candidates = [eviction.Candidate(GroupId(bytes([i])), size, touched[i]) for i, size in enumerate(sizes)]
    victims = eviction.pick_victims(candidates, need, eviction.lru, eviction.Weights(), 0)
    order = [one.group for one in sorted(candidates, key=lambda one: one.last_touch)]
    assert victims == order[: len(victims)]
    freed = [sizes[group[0]] for group in victims]
    assert sum(freed) >= need or len(victims) == len(sizes)
    assert not freed or sum(freed[:-1]) < need


@over(used=st.tuples(SMALL, SMALL, SMALL), capacity=st.tuples(SMALL, SMALL, SMALL), need=SMALL, number=MS)
def a_place_has_room_and_there_is_one_if_any_has(
    used: tuple[int, ...], capacity: tuple[int, ...], need: int, number: int
) -> None:
    views = [placement.PlaceView(NodeName(f"n{i}"), capacity[i], used[i]) for i in range(3)]
    with_room = {f"n{i}" for i in range(3) if used[i] + need <= capacity[i]}
    for policy in placement.PLACEMENTS.values():
        chosen = placement.place(views, need, policy, NodeName("n1"), number)
        assert (chosen in with_room) if with_room else chosen is None
        assert chosen == "n1" or "n1" not in with_room


@over(capacity=st.integers(0, 70), first=st.integers(0, 70), second=st.integers(0, 70))
def slots_are_given_once_and_come_back(capacity: int, first: int, second: int) -> None:
    slots = allocator.new_slots(capacity)
    one = allocator.take(slots, first)
    assert (one is None) == (first > capacity)
    if one is None:
        return
    two = allocator.take(one[0], second)
    assert (two is None) == (first + second > capacity)
    if two is not None:
        assert not set(one[1]) & set(two[1])
        assert two[0].room == capacity - first - second == two[0].free.bit_count()
        bad = allocator.quarantine(two[0], two[1])
        assert (bad.room, bad.quarantined) == (two[0].room, second)
        assert allocator.give(allocator.lift(bad, two[1]), one[1]) == slots


@over(failures=SMALL, opened=SMALL, at=MS, until=MS, now=MS)
def a_breaker_holds_back_no_longer_than_its_longest_pause(failures: int, opened: int, at: int, until: int, now: int) -> None:
    limits = breaker.BreakerLimits()
    assume(until <= now)
    after = breaker.failed(breaker.Breaker(failures, at, opened, until), now, limits)
    assert breaker.held_until(after, now) <= now + limits.pause_max_ms
    assert breaker.phase(after, now + limits.pause_max_ms) != "open"


@over(
    state=st.sampled_from(State), role=st.sampled_from(Role), revision=SMALL, created=SMALL, copy_revision=SMALL,
    readable=SMALL, others=SMALL, pins=SMALL, refs=SMALL, failures=st.integers(0, 40), store=st.booleans(),
    absent=st.booleans(), gone=st.booleans(), leaving=st.booleans(),
)  # fmt: skip
def a_row_ends_where_its_table_says_and_nothing_goes_back(
    state: State, role: Role, revision: int, created: int, copy_revision: int, readable: int, others: int, pins: int, refs: int,
    failures: int, store: bool, absent: bool, gone: bool, leaving: bool,
) -> None:  # fmt: skip
    group = Group(SPEC.group, SPEC, state, epoch=revision, version=7, leaving=leaving, created=created, failures=failures)
    copy = Copy(CopyId(0, copy_revision, 0), NodeName("n"), store, Tier.DRAM, role, 1, absent=absent)
    known = rows.Facts(revision + 1, readable=readable, others=others, pins=pins, refs=refs, gone=gone)
    for (_, _, its_role), row in TABLE.items():
        if row.state is state and its_role == role and all(guard.check(group, copy, known) for guard in row.guards):
            after, kept = row.body(group, copy, known)
            assert after.state in row.to
            assert after.epoch in (revision, revision + 1)
            assert after.version >= 7
            assert after.state is state or after.epoch == revision + 1
            assert kept is None or kept.id == copy.id


@over(tenant=st.text(max_size=3), part=st.binary(max_size=3), shards=st.integers(1, 64), bound=st.binary(min_size=1, max_size=3))
def a_key_has_one_shard_within_range(tenant: str, part: bytes, shards: int, bound: bytes) -> None:
    key = sharding.ShardKey(tenant, "m", part)
    assert 0 <= sharding.HashShards(shards).shard_of(key) < shards
    cut = sharding.ShardKey(tenant, "m", bound)
    assert sharding.RangeShards((cut,)).shard_of(key) == (1 if part >= bound else 0)


@over(
    shard=SMALL, revision=st.integers(0, 2**63 - 1), ordinal=SMALL,
    condition=st.sampled_from(Condition), epoch=st.integers(0, 2**63 - 1), allow=st.booleans(),
)  # fmt: skip
def what_is_packed_comes_out_the_same(
    shard: int, revision: int, ordinal: int, condition: Condition, epoch: int, allow: bool
) -> None:
    entry = InventoryEntry(CopyId(shard, revision, ordinal), condition, b"m", Tier.DRAM, ordinal)
    move = Move(SPEC.group, NodeName("n"), expected_epoch=epoch, allow_pinned=allow)
    for message in (entry, move):
        assert unpack(type(message), pack(message)) == message


@over(
    plain=st.recursive(
        st.one_of(st.integers(), st.booleans(), st.text(max_size=2)), lambda inner: st.lists(inner, max_size=4), max_leaves=5
    )
)
def what_is_no_message_is_refused_as_such(plain: Any) -> None:
    try:
        found = unpack(CopyId, plain)
    except PlainError:
        return
    assert isinstance(found, CopyId)
    assert all(type(number) is int for number in found)


@over(left=st.tuples(SMALL, SMALL, SMALL), right=st.tuples(SMALL, SMALL, SMALL))
def different_copies_read_differently(left: tuple[int, int, int], right: tuple[int, int, int]) -> None:
    assert (str(CopyId(*left)) == str(CopyId(*right))) == (left == right)


# ---- the two ways --------------------------------------------------------------------------------------------


def random_form(wanted: Property, **changes: Any) -> Callable[[], None]:
    """The property as a test of Hypothesis: by default that of the profile, by random examples."""
    return settings(**changes)(given(**STRATEGIES[wanted])(wanted))


def symbolic_form(wanted: Property) -> Callable[[], None]:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return random_form(
        wanted, backend="crosshair", max_examples=PATHS, database=None, derandomize=False, suppress_health_check=checks
    )


@pytest.mark.parametrize("wanted", STRATEGIES, ids=lambda wanted: wanted.__name__)
def test_random_examples(wanted: Property) -> None:
    random_form(wanted)()


@pytest.mark.nightly
@pytest.mark.parametrize("wanted", STRATEGIES, ids=lambda wanted: wanted.__name__)
def test_symbolic_examples(wanted: Property) -> None:
    symbolic_form(wanted)()


@pytest.mark.nightly
def test_the_symbolic_backend_finds_what_random_examples_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rate in a million fills a bucket beyond its burst: as many random examples pass, the symbolic ones don't."""
    right = rate.level_at

    def wrong(bucket: rate.TokenBucket, now: int, per_s: int, burst: int) -> int:
        return right(bucket, now, per_s, burst) + (per_s * 7 == 3_456_789)

    monkeypatch.setattr(rate, "level_at", wrong)
    wanted = a_bucket_fills_up_to_its_burst_and_never_runs_out
    random_form(wanted, max_examples=PATHS)()
    with pytest.raises(AssertionError):
        symbolic_form(wanted)()
