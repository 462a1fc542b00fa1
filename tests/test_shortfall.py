"""A medium that is smaller than it was said to be: the node tells what is short, the directory counts it, and writes lift it."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.effects import CloneInstance, StoreBlocks
from pinfold.core.ids import Reason, Role, Tier
from pinfold.core.node_state import TierRoom

from .directory_world import N1, N2, World, id_of, spec_of
from .node_world import NodeWorld, config_of, copy_id, write_of


def disk(slots: int = 20) -> NodeWorld:
    """A node with one file tier, that takes groups of up to four slots."""
    world = NodeWorld(config_of(tiers=(TierRoom(Tier.SSD, slots, slab=False, high_percent=100),)))
    world.register()
    return world


def refuse(world: NodeWorld, number: int) -> None:
    """The medium has no room for the next write, of two blocks."""
    world.reserve(copy_id(number), f"g{number}")
    world.step(write_of(copy_id(number), f"g{number}"))
    world.fail(world.work(StoreBlocks), Reason.NO_SPACE)


def short_of(world: NodeWorld) -> int:
    return sum(world.node.state.short.values())


def told(world: NodeWorld) -> list[int]:
    """The shortfalls in the heartbeats of the last step."""
    beats = [send.message for send in world.ready.send if isinstance(send.message, reports.Heartbeat)]
    return [sum(fill.short for fill in beat.tiers) for beat in beats]


# ---- the node ------------------------------------------------------------------------------------------------


def test_a_write_without_room_tells_at_once_how_much_is_short() -> None:
    world = disk()
    for number in range(5):
        world.put(copy_id(number + 1), f"g{number + 1}")
    refuse(world, 6)
    assert told(world) == [20 - 10]


def test_a_write_that_fails_otherwise_says_nothing_about_room() -> None:
    world = disk()
    world.reserve(copy_id(1), "g1")
    world.step(write_of(copy_id(1), "g1"))
    world.fail(world.work(StoreBlocks))
    assert short_of(world) == 0


def test_each_write_that_succeeds_takes_its_own_slots_off_and_room_that_is_used_is_not_short() -> None:
    world = disk()
    for number in range(1, 6):
        world.put(copy_id(number), f"g{number}")
    refuse(world, 6)
    world.order(orders.Free(copy_id(6)))
    world.complete_all()
    world.put(copy_id(7), "g7")
    assert short_of(world) == 8
    for number in range(8, 12):
        world.put(copy_id(number), f"g{number}")
    assert world.node.state.short == {}
    assert world.used(Tier.SSD) == 20


def test_the_largest_group_is_always_left_so_that_somebody_tries_again() -> None:
    world = disk()
    refuse(world, 1)
    assert short_of(world) == 20 - 4
    world.complete_all()
    for number in range(2, 10):
        world.put(copy_id(number), f"g{number}")
    assert short_of(world) == 0


def test_a_move_between_tiers_finds_out_too() -> None:
    """Room on the disk is short, the slab is not: each tier for itself."""
    world = NodeWorld(config_of(dram=8, ssd=8))
    world.register()
    for number in range(1, 5):
        world.put(copy_id(number), f"g{number}")
    world.fail(world.work(CloneInstance), Reason.NO_SPACE)
    assert world.node.state.short == {Tier.SSD: min(8, world.node.config.capacity - 4)}


# ---- the directory -------------------------------------------------------------------------------------------


def beat(world: World, short: int) -> None:
    fill = reports.TierFill(Tier.SSD, 100, 0, 0, short)
    term, number = world.state.meta.term, world.state.numbers.get(N1, 0)
    world.step(reports.Heartbeat(N1, world.incarnation(N1), term, number, (fill,)))


def test_what_is_short_counts_against_capacity_and_starts_eviction() -> None:
    world = World(N1, capacity=100)
    first = [world.put(f"g{number}") for number in range(50)]
    world.tick()
    assert all(world.role(copy) is Role.AUTHORITATIVE for copy in first)
    beat(world, 50)
    assert world.ready.alarm == world.now, "not only when something else is due"
    world.tick()
    gone = [copy for copy in first if world.role(copy) is not Role.AUTHORITATIVE]
    assert gone == first[:8], "down to the low mark of what is really there: 85 % of 50"


@pytest.mark.parametrize("short", [0, 1])
def test_room_that_is_short_is_not_given_away(short: int) -> None:
    world = World(N1, N2, capacity=2, high=1000)
    world.put("A", N1)
    world.beat(N2)
    beat(world, short)
    assert world.create("B", N1).node == (N2 if short else N1)


def test_a_held_copy_is_not_evicted_for_it() -> None:
    world = World(N1, capacity=4, high=1000)
    copy = world.put("A")
    world.pin("A")
    beat(world, 4)
    world.tick()
    assert world.role(copy) is Role.AUTHORITATIVE
    world.refused(c.Create(spec_of("B")), "NoSpace")
    beat(world, 0)
    world.create("B")
    assert id_of("B") in world.state.groups
