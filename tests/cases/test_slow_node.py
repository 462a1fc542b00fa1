"""One slow party, and all the others."""

from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.answers import MoveAccepted
from pinfold.core.effects import StoreBlocks
from pinfold.core.ids import Role, State, Tier
from pinfold.core.reports import Heartbeat
from tests.cases.story import end_by_lease, fetched, free_all, freed_of, small_node, used
from tests.directory_world import CLIENT, N1, N2, World, id_of, spec_of
from tests.node_world import READER, copy_id, fetch_of, manifest_of, read_of

C1, C2, C3 = copy_id(1), copy_id(2), copy_id(3)


def test_c86_slow_node_a_holder_that_has_stopped_reading_costs_others_little_and_is_named() -> None:
    """memcached #1239. A client that had stopped reading kept its reference to a large item, and the page mover tried the busy
    item again and again and burned a core.

    Here the refusal names the hold; who makes room takes others, looks again at a bounded rate, and at once when the hold ends;
    the holder's lease ends it. Tries of a move that fail are spaced by a back-off that grows.
    """
    world = World(N1, capacity=10, backoff_ms=100)
    for number in range(10):
        world.put(f"g{number}", N1)
    slow = world.open(lease_ms=3_000)
    holds = [world.pin(f"g{number}", slow) for number in range(9)]
    world.register(N2)
    refusal = world.refused(c.Move(id_of("g0"), N2), "Pinned")
    assert str(holds[0]) in refusal.holder
    assert refusal.retry_after_ms > 0
    world.do(c.Drain(N2))
    world.refused(c.Create(spec_of("more", 5)), "NoSpace")
    ticks, until = 0, world.now + 1_000
    while world.now < until and ticks < 200:
        world.tick()
        ticks += 1
        due = world.ready.alarm
        assert due is not None
        world.now = max(world.now, min(due, until))
    assert ticks <= 60, "a busy loop"
    assert world.role(world.state.copies[id_of("g0")][0].id) is Role.AUTHORITATIVE
    assert not world.is_in("g9", State.LOCAL)  # others went
    world.do(c.Drain(N2, on=False))
    world.renew()
    end_by_lease(world, slow, world.session)
    assert all(hold not in world.state.holds for hold in holds)
    assert isinstance(world.do(c.Move(id_of("g0"), N2)), MoveAccepted) or not world.is_in("g0", State.LOCAL)

    tried = World(N1, N2, backoff_ms=100)
    tried.put("G")
    waits = []
    for _ in range(5):
        tried.failed(tried.move("G"))
        free_all(tried)
        refusal = tried.refused(c.Move(id_of("G"), N2), "MoveTooSoon")
        waits.append(refusal.retry_after_ms)
        tried.advance(refusal.retry_after_ms + 500)
    assert waits == sorted(waits)
    assert waits[-1] >= 8 * waits[0]

    node = small_node(4)
    node.put(C1, "G")
    node.step(requests.Acquire(READER, "g", "process:9/1", C1))
    node.order(orders.Free(C1))
    for _ in range(80):
        node.tick(500)
    assert any("process:9/1" in line for line in node.messages(Heartbeat)[-1].stuck)


def test_c87_slow_node_a_large_group_comes_in_pieces_between_which_the_node_answers() -> None:
    """Redis #3396. One huge key was moved as one message. Its receiver was busy for so long that it missed its heartbeats and
    was declared dead in the middle of the move.

    Here a group comes in pieces of a named number of blocks, and none is asked for before the last one is stored. In between
    the node beats, answers and serves; declared dead all the same, it is the move that ends, and what it has of it is freed.
    """
    node = small_node(80, fetch_chunk=4, group_slots=64)
    node.put(C2, "small")
    node.order(fetch_of("huge", C1, 40, deadline_ms=120_000))
    beats, pieces = len(node.messages(Heartbeat)), 0
    while not node.facts() or node.facts()[-1] != reports.CopyDone(C1, manifest_of("huge", 40)):
        ask = node.messages(requests.Read)[-1]
        assert 1 <= len(ask.blocks) <= 4
        node.step(fetched(node, "huge"))
        for work in node.running(StoreBlocks):
            assert len(work.blocks) <= 4
            node.tick(300)
            node.do(read_of(C2))
            node.step(requests.NodeStat(READER, "s"))
            node.complete(work)
        pieces += 1
        if not node.running(StoreBlocks):
            node.complete_all()
    assert pieces == 10
    assert len(node.messages(Heartbeat)) >= beats + 2
    assert len(node.answers(requests.NodeStatus)) == pieces

    world = World(N1, N2)
    copy = world.put("G")
    move = world.move("G")
    world.lapse(N2)
    assert world.is_in("G", State.LOCAL)
    assert world.role(copy) is Role.AUTHORITATIVE
    assert world.role(move) is None
    world.register(N2, ready=False)
    partial = reports.InventoryEntry(move, reports.Condition.RESERVED, b"", Tier.DRAM, 1)
    world.inventory(N2, [partial])
    assert orders.Free(move) in world.orders(orders.Free, N2)
    assert used(world, N2) == 0
    assert world.ask(c.Status(CLIENT, "s")).groups == 1

    half = small_node(80, fetch_chunk=4, group_slots=64)
    half.order(fetch_of("huge", C3, 40))
    half.step(fetched(half, "huge"))
    half.order(orders.Free(C3))
    half.complete_all()
    assert freed_of(half, C3) == 1
    assert half.used() == 0
