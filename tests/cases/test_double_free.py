"""The same thing given back twice."""

from itertools import permutations

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.allocator import take
from pinfold.core.answers import BatchAnswer, Refused, Released
from pinfold.core.calls import GetGroup
from pinfold.core.effects import LoadBlocks, ReleaseInstance
from pinfold.core.events import InstanceReleased
from pinfold.core.ids import HoldId, Role, Tier
from pinfold.core.requests import Blocks, Read
from tests.cases.story import free_all, free_orders, freed_of
from tests.client_world import Script, blocks_of, hold_of, pinned, put_of
from tests.directory_world import MANIFEST, N2, World, id_of
from tests.node_world import NodeWorld, copy_id, read_of

C1, C2 = copy_id(1), copy_id(2)


def test_c05_double_free_a_hold_ends_once_and_a_second_release_steals_nobody_s_pin() -> None:
    """LMCache #5090 (also #3381). Reading a chunk dropped its pin and closing the look-up dropped it again; the count of minus
    one was set to zero with a warning. With another holder about, that second drop is his pin.

    Here each release names its hold: the second one is `AlreadyDone`, and no count is ever clamped.
    """
    world = World()
    copy = world.put("G")
    other = world.open()
    h1, h2 = world.pin("G"), world.pin("G", other)
    assert world.state.pinned == {copy: 2}
    assert isinstance(world.do(c.Unpin(h1)), Released)
    world.refused(c.Unpin(h1), "AlreadyDone")
    assert world.state.pinned == {copy: 1}
    assert str(h2) in world.refused(c.Evict(id_of("G")), "Pinned").holder
    assert isinstance(world.do(c.Unpin(h2), other), Released)
    world.refused(c.Unpin(h2), "AlreadyDone", other)
    world.refused(c.Unpin(HoldId(other, 1_000, 0)), "UnknownHold", other)
    assert world.state.pinned == {}
    ref = world.ref("G")
    assert isinstance(world.do(c.Unref(ref)), Released)
    world.refused(c.Unref(ref), "AlreadyDone")
    assert world.state.referred == {}

    # The reader that gives back by itself does so once, also when it is cancelled at the same instant.
    script, put = Script(), put_of("g")
    script.call(1, GetGroup(put.spec.group))
    script.open()
    pin = script.body(c.Pin)
    script.answer(pin, pinned(pin, put))
    script.step(blocks_of(script.take(Read), put))
    script.cancel(1)
    unpin = script.body(c.Unpin)
    assert unpin.body == c.Unpin(hold_of(pin))
    script.refuse(unpin, "AlreadyDone")
    script.pass_ms(5_000)
    assert script.none_sent(c.Unpin)


def test_c12_double_free_a_list_that_names_a_group_twice_frees_it_once() -> None:
    """vLLM #42571. A sliding window let one physical block appear twice in a request's list; giving the list back lowered its
    count twice and put it on the free list twice, and two later owners shared it.

    Here a list is a batch of releases by hold: the second one is `AlreadyDone`. At the node a copy that is told to go again,
    while it goes or after, gives its slots back once.
    """
    world = World()
    world.put("G")
    world.put("H")
    g, h = world.pin("G"), world.pin("H")
    answer = world.do(c.Batch((c.Unpin(g), c.Unpin(h), c.Unpin(g))))
    assert isinstance(answer, BatchAnswer)
    first, second, third = answer.items
    assert isinstance(first, Released)
    assert isinstance(second, Released)
    assert isinstance(third, Refused)
    assert third.refusal.reason == "AlreadyDone"
    both = [world.pin("G"), world.pin("G")]
    assert sum(world.state.pinned.values()) == 2
    answer = world.do(c.Batch(tuple(c.Unpin(hold) for hold in both)))
    assert all(isinstance(item, Released) for item in answer.items)
    assert world.state.pinned == {}

    node = NodeWorld()
    node.register()
    node.put(C1, "g")
    node.put(C2, "h")
    free_before = node.node.state.slots[Tier.DRAM].room
    node.step(read_of(C1))
    for _ in range(2):
        node.order(orders.Free(C1))
    node.complete(node.work(LoadBlocks))
    node.order(orders.Free(C1))  # while its bytes are being released
    release = node.work(ReleaseInstance)
    node.complete_all()
    node.changes_nothing(InstanceReleased(release.job, C1))
    node.order(orders.Free(C1))  # after it has gone: the truth again, and no slots
    node.complete_all()
    assert node.node.state.slots[Tier.DRAM].room == free_before + 2
    assert freed_of(node, C1) == 2
    assert len(node.answers(Blocks)) == 1
    drained = take(node.node.state.slots[Tier.DRAM], free_before + 2)
    assert drained is not None
    kept = node.node.state.copies[C2].places[0].slots
    assert len({*drained[1], *kept}) == free_before + 4


def test_c13_double_free_an_aborted_request_with_a_move_under_way_is_freed_once_in_every_order() -> None:
    """vLLM #33377. An aborted request whose transfer was still ending went through the finish path twice, for the guard asked
    whether its record was missing, and the record was kept on purpose. Its blocks were freed twice.

    Here, in all 24 orders of {abort, a late second abort, completion, completion again}, each of the two copies is ordered to go
    exactly once, leaves exactly once, and nothing is counted after.
    """
    for order in permutations(("abort", "late", "done", "done again")):
        world = World(grace_ms=0)
        copy = world.put("G")
        world.do(c.Ref(id_of("G"), "R"))
        move = world.move("G")
        for word in order:
            if word in ("abort", "late"):
                world.do(c.Batch((c.ReleaseRequest("R"), c.Evict(id_of("G"), wait=True))))
            else:
                world.report(N2, reports.CopyDone(move, MANIFEST))
            world.tick(1)
        world.tick(1)
        for one in (copy, move):
            assert world.role(one) is Role.FREEING, (order, one)
            assert free_orders(world, one) == 1, (order, one)
        assert free_all(world) == 2
        world.tick(1)
        assert world.state.used == {}, order
        assert world.state.groups == {}, order
        assert free_orders(world, copy) == free_orders(world, move) == 1
