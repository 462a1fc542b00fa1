"""Placement: who can take a copy, who is chosen, and that chance is an argument."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core.ids import NodeName
from pinfold.core.placement import PLACEMENTS, PlaceView, place, splitmix64


def view(node: str, used: int = 0, capacity: int = 100, **fields: Any) -> PlaceView:
    return PlaceView(NodeName(node), capacity, used, **fields)


def names(*nodes: str) -> list[NodeName]:
    return [NodeName(node) for node in nodes]


views = st.builds(
    PlaceView,
    st.sampled_from(names("n1", "n2", "n3", "n4", "n5")),
    capacity=st.integers(0, 20),
    used=st.integers(0, 20),
    moves_in_flight=st.integers(0, 2),
    locality=st.integers(0, 2),
    cost=st.integers(0, 2),
    alive=st.booleans(),
    ready=st.booleans(),
    draining=st.booleans(),
)
clusters = st.lists(views, max_size=5, unique_by=lambda v: v.node)


@given(clusters, st.integers(1, 10), st.sampled_from(sorted(PLACEMENTS)), st.integers(0), st.randoms())
def test_every_policy_places_where_there_is_room_or_says_none(
    cluster: list[PlaceView], need: int, policy: str, number: int, shuffler: object
) -> None:
    able = {v.node for v in cluster if v.alive and v.ready and not v.draining and v.used + need <= v.capacity}
    chosen = place(cluster, need, PLACEMENTS[policy], None, number)
    assert (chosen in able) if able else (chosen is None)
    shuffler.shuffle(cluster)  # type: ignore[attr-defined]
    assert place(cluster, need, PLACEMENTS[policy], None, number) == chosen, "order of the views does not matter"


@given(clusters, st.integers(1, 10), st.sampled_from(sorted(PLACEMENTS)), st.sampled_from(names("n1", "n2", "n9")))
def test_a_wish_is_granted_exactly_if_it_has_room(cluster: list[PlaceView], need: int, policy: str, wish: NodeName) -> None:
    able = {v.node for v in cluster if v.can_take(need)}
    chosen = place(cluster, need, PLACEMENTS[policy], wish)
    assert chosen == (wish if wish in able else place(cluster, need, PLACEMENTS[policy], NodeName("")))


def test_round_robin_takes_turns_by_name_and_leaves_out_who_cannot() -> None:
    cluster = [view("c"), view("a"), view("b", used=100), view("d")]
    turns = [place(cluster, 1, PLACEMENTS["round_robin"], number=n) for n in range(6)]
    assert turns == names("a", "c", "d", "a", "c", "d")


def test_least_loaded_compares_shares_then_moves_then_names() -> None:
    policy = PLACEMENTS["least_loaded"]
    assert place([view("big", 300, 1000), view("small", 40, 100)], 1, policy) == "big"
    assert place([view("a", 50, moves_in_flight=2), view("b", 50, moves_in_flight=1)], 1, policy) == "b"
    assert place([view("b", 50), view("a", 50)], 1, policy) == "a"


@pytest.mark.parametrize("up", [True, False])
def test_power_of_two_is_the_less_loaded_of_two_different_nodes(up: bool) -> None:
    nodes = [f"n{i}" for i in range(5)]
    by_load = nodes if up else nodes[::-1]
    cluster = [view(node, used=by_load.index(node)) for node in nodes]
    drawn = Counter(place(cluster, 1, PLACEMENTS["power_of_two"], number=n) for n in range(4_000))
    # Of the ten pairs, the node that is i-th by load wins the 4 - i in which it meets a fuller one.
    assert drawn[NodeName(by_load[4])] == 0
    for i in range(4):
        assert drawn[NodeName(by_load[i])] == pytest.approx(400 * (4 - i), rel=0.15)


def test_power_of_two_with_one_node_takes_it() -> None:
    assert place([view("only")], 1, PLACEMENTS["power_of_two"], number=3) == "only"


def test_locality_takes_the_first_preferred_with_room_then_the_nearest_then_the_least_loaded() -> None:
    policy = PLACEMENTS["locality"]
    cluster = [view("a", 10), view("b", 90), view("c", 100), view("d", 5)]
    assert place(cluster, 10, policy, prefer=names("c", "b", "a")) == "b"
    assert place(cluster, 11, policy, prefer=names("c", "b")) == "d"
    cluster[0].locality = 1
    assert place(cluster, 11, policy, prefer=names("c", "b")) == "a"


def test_cost_takes_the_cheapest_then_the_least_loaded() -> None:
    policy = PLACEMENTS["cost"]
    assert place([view("a", 0, cost=5), view("b", 99, cost=4)], 1, policy) == "b"
    assert place([view("a", 20, cost=4), view("b", 10, cost=4)], 1, policy) == "b"


def test_a_node_without_capacity_is_full_and_an_empty_cluster_has_no_room() -> None:
    assert view("a", capacity=0).fill == 1_000_000
    assert place([view("a", capacity=0)], 1, PLACEMENTS["least_loaded"]) is None
    assert place([], 1, PLACEMENTS["cost"], NodeName("n1")) is None


def test_splitmix_gives_the_published_numbers() -> None:
    # First outputs of the reference generator seeded with 1234567 (its state grows by the golden gamma).
    gamma = 0x9E3779B97F4A7C15
    outputs = [splitmix64(1234567 + gamma * n) for n in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]
