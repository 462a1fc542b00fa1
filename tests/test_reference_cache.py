"""How the model that judges the replay is known to be right: public figures, and a slower cache that is the definition."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.trace import read_trace
from pinfold.workload import Draw, Shape, generate
from tests.reference_cache import Prefix, ReferenceCache, replay


class NaiveCache:
    """The same rules, each decision made from nothing but a list of what is there: `[key, parent, last touch]`."""

    def __init__(self, capacity: int, high: int, low: int) -> None:
        self.capacity, self.high, self.low = capacity, high, low
        self.there: dict[Prefix, tuple[Prefix | None, int]] = {}
        self.now = self.hit_blocks = 0

    def used(self) -> int:
        return sum(size for _, size in self.there)

    def request(self, ids: Sequence[int], n: int) -> None:
        keys = [(ids[min(at + n, len(ids)) - 1], min(n, len(ids) - at)) for at in range(0, len(ids), n)]
        self.serve(keys, set())
        if self.used() > self.high * self.capacity / 1000:
            self.free(self.low * self.capacity / 1000, 0, set())

    def serve(self, keys: Sequence[Prefix], pinned: set[Prefix]) -> None:
        leading = True
        for key, parent in zip(keys, [None, *keys], strict=False):
            leading = leading and key in self.there
            if leading:
                self.hit_blocks += key[1]
                self.touch(key, parent, pinned)
        leading = True
        for key, parent in zip(keys, [None, *keys], strict=False):
            leading = leading and key in pinned
            if leading:
                continue
            if key not in self.there:
                if self.used() + key[1] > self.capacity:
                    self.free(min(self.low * self.capacity / 1000, self.capacity - key[1]), key[1], pinned)
                if self.used() + key[1] > self.capacity:
                    return
            self.touch(key, parent, pinned)
            if self.used() > self.high * self.capacity / 1000:
                self.free(self.low * self.capacity / 1000, 0, pinned)

    def touch(self, key: Prefix, parent: Prefix | None, pinned: set[Prefix]) -> None:
        self.now += 1
        self.there[key] = (parent, self.now)
        pinned.add(key)

    def free(self, target: float, needed: int, pinned: set[Prefix]) -> None:
        if needed > self.capacity:
            return
        while self.used() > target:
            unpinned = [key for key in self.there if key not in pinned]
            parents = [parent for parent, _ in self.there.values()]
            leaves = [key for key in unpinned if key not in parents]
            if not unpinned:
                return
            del self.there[self.first_to_go(leaves or unpinned)]

    def first_to_go(self, keys: Sequence[Prefix]) -> Prefix:
        return min(keys, key=lambda key: self.there[key][1])


MARKS = st.sampled_from([(1000, 1000), (950, 900), (900, 500), (1000, 0), (300, 200)])


def compare(chains: Iterable[Sequence[int]], n: int, capacity: int, marks: tuple[int, int]) -> None:
    cache, naive = ReferenceCache(capacity, *marks), NaiveCache(capacity, *marks)
    for ids in chains:
        cache.request(ids, n)
        naive.request(ids, n)
        assert list(cache.present) == sorted(naive.there, key=lambda key: naive.there[key][1])
        assert cache.hit_blocks == naive.hit_blocks
        assert cache.used == naive.used() <= capacity


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 60), MARKS)
def test_it_counts_what_the_definition_counts(seed: int, n: int, capacity: int, marks: tuple[int, int]) -> None:
    shape = Shape(
        sessions=3, system_prompts=2, system_tokens_max=2_000, user_tokens_max=2_500, turns_max=4, context_max=12_000
    )  # fmt: skip
    compare([request.hash_ids for request in generate(seed, 40, shape)], n, capacity, marks)


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 24), MARKS)
def test_it_does_so_for_any_chains_even_if_they_end_early(seed: int, n: int, capacity: int, marks: tuple[int, int]) -> None:
    # A prompt that is the beginning of an earlier one touches a parent after its children, as conversations rarely do.
    draw = Draw(seed)
    paths = [[draw.below(2) for _ in range(draw.below(8))] for _ in range(60)]
    names: dict[tuple[int, ...], int] = {}
    chains = [[names.setdefault(tuple(path[: at + 1]), len(names)) for at in range(len(path))] for path in paths]
    compare(chains, n, capacity, marks)


def test_a_parent_goes_only_when_no_leaf_is_left() -> None:
    cache = ReferenceCache(capacity=4, high=1000, low=1000)
    cache.request([1, 2, 3], 1)
    cache.request([4, 5], 1)  # 3 goes for 5, though 1 was touched before it
    assert list(cache.present) == [(1, 1), (2, 1), (4, 1), (5, 1)]
    assert cache.request([1, 2, 3], 1) == 2
    assert (cache.evictions, cache.skipped) == (2, 0)


def test_what_does_not_fit_beside_the_pinned_is_skipped_with_all_that_follows() -> None:
    cache = ReferenceCache(capacity=2, high=1000, low=1000)
    assert cache.request([1, 2, 3, 4], 1) == 0
    assert (list(cache.present), cache.skipped) == ([(1, 1), (2, 1)], 2)
    assert cache.request([1, 2, 3, 4], 1) == 2


@pytest.mark.traces
@pytest.mark.parametrize(
    ("file", "figures"),
    [
        ("conversation_trace.jsonl", {1: 105_710, 2: 96_221, 4: 91_083, 8: 82_815, 16: 68_447}),
        ("synthetic_trace.jsonl", {1: 77_953, 2: 77_074, 4: 75_656, 8: 72_300, 16: 66_492}),
    ],
)
def test_without_a_bound_it_counts_the_published_figures(traces: Path, file: str, figures: dict[int, int]) -> None:
    chains = [request.hash_ids for request in read_trace(traces / file)]
    assert {n: replay(chains, n).hit_blocks for n in figures} == figures
    distinct = len(set().union(*chains))
    assert replay(chains, 4, capacity=4 * distinct).hit_blocks == figures[4], "a bound that is never reached"
