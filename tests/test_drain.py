"""Drain: a node is emptied, a bounded number of moves at once; what is held goes too, and late (rules 2 and 14)."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Awaited, DrainAccepted, Refused, Told
from pinfold.core.ids import NodeName, Role, State

from .directory_world import CLIENT, N1, N2, N3, World, id_of


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3)


def test_drain_moves_everything_away_also_what_is_pinned(world: World) -> None:
    copies = [world.put("A"), world.put("B"), world.put("C")]
    hold = world.pin("A")
    answer = world.do(c.Drain(N1))
    assert answer == DrainAccepted(N1, 3, world.state.meta.revision)
    world.step(c.Await(CLIENT, "w", "drained", node=N1, timeout_ms=60_000))
    world.tick()
    moves = [group.target for group in world.state.groups.values()]
    assert {world.copy(move).node for move in moves} == {N2, N3}
    for move in moves:
        world.done(move)
    world.advance(600)
    for copy in copies[1:]:
        world.freed(copy)
    assert world.role(copies[0]) is Role.RETIRING
    world.do(c.Unpin(hold))
    world.tick()
    world.freed(copies[0])
    told = [r.message.answer for r in world.ready.reply if isinstance(r.message, Told) and r.message.token == "w"]
    assert [answer.outcome for answer in told if isinstance(answer, Awaited)] == ["drained"]


def test_drain_has_a_bounded_number_of_moves_at_once() -> None:
    world = World(N1, N2, drain_moves_max=2)
    for name in "ABCD":
        world.put(name)
    world.do(c.Drain(N1))
    world.tick()
    assert sum(1 for group in world.state.groups.values() if group.state is State.MIGRATING_OUT) == 2
    world.advance(600)
    assert sum(1 for group in world.state.groups.values() if group.state is State.MIGRATING_OUT) == 2


def test_drain_without_another_place_evicts_what_nothing_holds_and_waits_for_the_rest() -> None:
    world = World(N1)
    free, held = world.put("A"), world.put("B")
    pin = world.pin("B")
    world.do(c.Drain(N1))
    world.tick()
    assert world.role(free) is Role.FREEING
    assert world.role(held) is Role.AUTHORITATIVE
    world.refused(c.Pin(id_of("B")), "Leaving")
    world.do(c.Unpin(pin))
    world.tick()
    assert world.role(held) is Role.FREEING


def test_drain_goes_to_the_store_when_no_node_has_room() -> None:
    world = World(N1, N2, capacity=1, stores=5, high=1000)
    copy = world.put("A", N1)
    world.put("B", N2)
    world.do(c.Drain(N1))
    world.tick()
    assert [order.source_copy for order in world.orders(orders.Spill, N1)] == [copy]


def test_drain_drops_replicas_and_survives_a_restart(world: World) -> None:
    world.put("A", N2)
    replica = world.replica("A", N1)
    world.do(c.Drain(N1))
    world.restart()
    for name in (N1, N2, N3):
        world.beat(name)
        world.inventory(name)
    world.tick()
    assert world.role(replica) is Role.RETIRING
    assert world.create("B", N1).node != N1


def test_a_drained_node_may_be_used_again(world: World) -> None:
    world.do(c.Drain(N1))
    assert world.create("A", N1).node != N1
    world.do(c.Drain(N1, on=False))
    assert world.create("B", N1).node == N1
    assert isinstance(world.do(c.Drain(NodeName("n9"))), Refused)
