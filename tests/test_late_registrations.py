"""A `Register` that comes late replaces nobody: a registration that replaces another must name it (rule 9)."""

from __future__ import annotations

import pytest

from pinfold.core import orders, reports
from pinfold.core.ids import NodeName, Peer
from pinfold.core.records import evolve

from .directory_world import N1, N2, World
from .node_world import NodeWorld


@pytest.fixture
def world() -> World:
    return World(N1, N2)


def register(world: World, boot: str, over: int = 0, name: NodeName = N1) -> orders.Registered | orders.NameTaken:
    """As the wire brings it; the directory's answer."""
    ready = world.step(reports.Register(name, boot, Peer(f"node/{name}"), 100, over=over))
    (answer,) = [send.message for send in ready.send if isinstance(send.message, orders.Registered | orders.NameTaken)]
    return answer


@pytest.mark.parametrize("lapsed", [False, True])
@pytest.mark.parametrize("over", ["nobody", "older"])
def test_the_late_word_of_a_dead_boot_changes_nothing(world: World, lapsed: bool, over: str) -> None:
    """Whether its node had been heard of before or not, and whether the living one can be heard or not."""
    first = world.incarnation(N1)
    copy = world.put("A", N1)
    now = world.register(N1, "b2")
    world.inventory(N1, ())
    assert world.role(copy) is None
    if lapsed:
        world.lapse(N1)
    before = world.state.copy()
    for boot in ("b1", "b0"):
        assert register(world, boot, first if over == "older" else 0) == orders.NameTaken(0, 1, N1, boot, now)
        world.same(before)
        assert world.ready.persist == ()
    assert world.state.nodes[N1].boot == "b2"
    if not lapsed:
        assert isinstance(world.beat(N1), orders.HeartbeatSeen)


def test_a_newcomer_is_told_whom_it_replaces_and_replaces_it(world: World) -> None:
    before = world.incarnation(N1)
    taken = register(world, "b2")
    assert taken == orders.NameTaken(0, 1, N1, "b2", before)
    welcome = register(world, "b2", before)
    assert isinstance(welcome, orders.Registered)
    assert welcome.incarnation > before
    assert register(world, "b2") == welcome, "idempotent by boot, whatever it knows"


def test_of_two_newcomers_the_later_fences_the_earlier(world: World) -> None:
    before = world.incarnation(N1)
    second = register(world, "b2", before)
    third = register(world, "b3", before)
    assert isinstance(third, orders.NameTaken)
    assert third.incarnation == second.incarnation
    assert isinstance(register(world, "b3", third.incarnation), orders.Registered)
    assert world.beat(N1, 0, second.incarnation) == orders.FencedOff(0, 1, second.incarnation, "b3")


def test_the_same_boot_comes_back_without_naming_anybody(world: World) -> None:
    world.lapse(N1)
    assert isinstance(register(world, "b1"), orders.Registered)


def test_a_restart_remembers_who_has_the_name(world: World) -> None:
    now = world.register(N1, "b2")
    world.restart()
    assert register(world, "b1") == orders.NameTaken(0, 2, N1, "b1", now)


# ---- at the node ---------------------------------------------------------------------------------------------


def registers(world: NodeWorld) -> list[reports.Register]:
    return [send.message for send in world.ready.send if isinstance(send.message, reports.Register)]


def test_a_node_whose_name_is_taken_says_so_and_registers_over_it() -> None:
    world = NodeWorld(boot="b2")
    world.tick()
    (first,) = registers(world)
    assert first.over == 0
    world.step(orders.NameTaken(0, 1, N1, "b2", 7))
    assert registers(world) == [evolve(first, over=7)]
    world.changes_nothing(orders.NameTaken(0, 1, N1, "b2", 7))
    world.changes_nothing(orders.NameTaken(0, 1, N1, "b1", 9))
    world.changes_nothing(orders.NameTaken(0, 1, NodeName("n9"), "b2", 9))
    world.step(orders.NameTaken(0, 1, N1, "b2", 9))
    assert [one.over for one in registers(world)] == [9]
    world.step(orders.Registered(0, 1, N1, "b2", 11, 3_000))
    world.changes_nothing(orders.NameTaken(0, 1, N1, "b2", 10))


def test_a_node_that_had_the_name_and_finds_it_taken_has_been_replaced() -> None:
    world = NodeWorld(boot="b1")
    world.register()
    world.step(orders.RegisterAgain(0, 1, world.incarnation))
    world.changes_nothing(orders.NameTaken(0, 1, N1, "b1", world.incarnation))
    assert not world.node.state.fenced
    world.step(orders.NameTaken(0, 1, N1, "b1", world.incarnation + 1))
    assert world.node.state.fenced
