"""What several families do with the hand-played worlds."""

from __future__ import annotations

from typing import Any

from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.ids import CopyId, NodeName, Role, SessionId, Tier
from pinfold.core.node_state import TierRoom
from tests.directory_world import CLIENT, World
from tests.node_world import C9, N2, NodeWorld, checksums_of, config_of, content


def end_by_lease(world: World, ends: SessionId, *others: SessionId) -> None:
    """Session `ends` is heard of no more; nodes and the other sessions are."""
    until = world.now + 60_000
    while ends in world.state.sessions:
        assert world.now < until, "its lease is over, and it lives"
        world.now += 500
        for other in others:
            world.ask(c.KeepAlive(CLIENT, "renew", other))
        beat_all(world)
        world.tick()


def beat_all(world: World) -> None:
    for name, node in list(world.state.nodes.items()):
        if node.alive:
            world.beat(name)


def free_all(world: World) -> int:
    """Every node frees what it was told to; how many copies went."""
    freed = 0
    for copy_id, group in list(world.state.group_of.items()):
        if any(copy.id == copy_id and copy.role is Role.FREEING for copy in world.state.copies[group]):
            world.freed(copy_id)
            freed += 1
    return freed


def settle(world: World, ms: int = 2_000) -> None:
    """Time passes; nodes free what they are told to."""
    for _ in range(ms // 500):
        world.advance(500)
        free_all(world)
    world.tick()


def used(world: World, place: NodeName) -> int:
    return world.state.used.get(place, 0)


def pin_and_unpin(world: World, name: str) -> None:
    """It can be pinned, so it can be read."""
    world.do(c.Unpin(world.pin(name)))


def free_orders(world: World, copy: CopyId) -> int:
    return world.orders(orders.Free).count(orders.Free(copy))


def facts_of(world: NodeWorld, kind: type) -> list[Any]:
    return [fact for fact in world.facts() if isinstance(fact, kind)]


def freed_of(world: NodeWorld, copy: CopyId) -> int:
    """How often a node has told that a copy is gone."""
    return world.facts().count(reports.Freed(copy))


def fetched(world: NodeWorld, name: str, *blocks: int) -> requests.Blocks:
    """What the source answers to the node's last `Read`: all that was asked for, or these blocks of it."""
    ask = world.messages(requests.Read)[-1]
    numbers = blocks or ask.blocks
    sums = checksums_of(name, 64)
    data = tuple(content(name, block) for block in numbers)
    return requests.Blocks(N2, ask.token, C9, numbers, tuple(sums[block] for block in numbers), Tier.DRAM, data)


def slots_of(world: NodeWorld, copy: CopyId) -> set[tuple[Tier, int]]:
    """The slots that a copy has now."""
    return {(place.instance.tier, slot) for place in world.node.state.copies[copy].places for slot in place.slots}


def small_node(slots: int = 4, **more: Any) -> NodeWorld:
    """A registered node with one slab of `slots`, which never moves anything by itself."""
    world = NodeWorld(config_of(**{"tiers": (TierRoom(Tier.DRAM, slots),), **more}))
    world.register()
    return world
