"""Moves and loads that stop half-way."""

from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.answers import Awaited, Created, EvictAccepted, Exists, Explained, Joined, Located, MoveAccepted, Told
from pinfold.core.calls import GetGroup
from pinfold.core.effects import StoreBlocks
from pinfold.core.ids import Reason, Role, State
from tests.cases.embedded_world import LAYOUT, STORE, Cluster
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import fetched, free_all, settle, small_node, used
from tests.directory_world import CLIENT, MANIFEST, N1, N2, N3, World, id_of, spec_of
from tests.node_world import content, copy_id, fetch_of, read_of

C1, C2 = copy_id(1), copy_id(2)
FIVE = ("g1", "g2", "g3", "g4", "g5")


def test_c32_partial_migration_a_load_without_room_gives_nothing_that_was_not_read() -> None:
    """LMCache #3022. A batch load ran out of staging room after the first buffers and gave them back without ever having started
    the read: the caller took old memory from the pool for a hit.

    Here a fetch that meets a full tier has failed, whole, and can't be read. Of five groups for which there is room for three,
    three come, verified, and two do not; nothing is reserved in vain, and with room all five come.
    """
    for fits in range(3):
        node = small_node(4, fetch_chunk=1)
        node.order(fetch_of("G", C1, 3))
        for block in range(3):
            node.step(fetched(node, "G", block))
            if block == fits:
                node.fail(node.work(StoreBlocks), Reason.NO_SPACE)
                break
            node.complete(node.work(StoreBlocks))
        node.complete_all()
        assert node.facts() == [reports.CopyFailed(C1, Reason.NO_SPACE)]
        node.refused(read_of(C1, 0), "StaleCopy")
        node.order(orders.Free(C1))
        node.complete_all()
        assert node.used() == 0
        node.order(fetch_of("G", C2, 3))
        while node.facts()[-1] != reports.CopyDone(C2, node.node.state.copies[C2].manifest):
            node.step(fetched(node, "G"))
            node.complete_all()
        assert node.read(C2, 0, 1, 2).data == tuple(content("G", block) for block in range(3))

    cluster = Cluster("n1", slots=6, stores=100, directory={"high": 1_000})
    for name in FIVE:
        cluster.put(name)
        moved = cluster.do(c.Move(key_of(name), STORE))
        assert isinstance(moved, MoveAccepted)
        cluster.advance(1_000)
    assert cluster.used() == 0
    cluster.client("b", near="n1")
    for number, name in enumerate(FIVE):
        cluster.begin("client/b", number, GetGroup(key_of(name), layout=LAYOUT, keep_pin=True), 3_000)
    cluster.advance(4_000)
    replies = [cluster.reply("client/b", number) for number in range(5)]
    outcomes = [cluster.judge(name, reply) for name, reply in zip(FIVE, replies, strict=True) if reply is not None]
    assert len(outcomes) == 5
    assert outcomes.count("") == 3
    assert cluster.used() == 6
    for reply in replies:
        if reply is not None and hasattr(reply, "value"):
            cluster.do(c.Unpin(reply.value.hold), "client/b")
    for name in FIVE:
        assert cluster.get(name, "client/b", near="n1") == ""
    cluster.rest()


def agree(world: World, name: str) -> bool:
    """Whether `Locate` shows the group; a pin must say the same."""
    located = world.query(c.Locate(CLIENT, "l", (id_of(name),), touch=False))
    explained = world.query(c.Explain(CLIENT, "x", world.session, c.Pin(id_of(name))))
    assert isinstance(located, Located)
    assert isinstance(explained, Explained)
    assert bool(located.routes) == (explained.refusal is None)
    return bool(located.routes)


def test_c35_partial_migration_of_two_writers_one_is_accepted_and_what_exists_can_be_read() -> None:
    """Mooncake #1374 (and #727). Two processes wrote one key at once, one or both failed at the commit, and then the directory
    said that the key existed while reading it gave nothing.

    Here the second writer joins the first. When that one fails the second may write, under a copy id of its own; a late end of
    the first is about another copy. At every step what is located is what can be pinned.
    """
    world = World()
    other = world.open()
    assert not agree(world, "G")
    first = world.create("G")
    joined = world.do(c.Create(spec_of("G")), other)
    assert isinstance(joined, Joined)
    assert joined.copy == first.copy
    assert not agree(world, "G")
    assert used(world, N1) == 1
    world.failed(first.copy)
    assert not agree(world, "G")
    free_all(world)
    assert used(world, N1) == 0
    assert not agree(world, "G")
    second = world.do(c.Create(spec_of("G"), N1), other)
    assert isinstance(second, Created)
    assert not agree(world, "G")
    world.report(first.node, reports.Sealed(first.copy, MANIFEST))  # late
    assert not agree(world, "G")
    world.sealed(second.copy)
    epoch = world.group("G").epoch
    assert agree(world, "G")
    world.sealed(second.copy)  # again
    world.report(first.node, reports.CopyFailed(first.copy, Reason.FAILED))
    assert world.group("G").epoch == epoch
    assert agree(world, "G")
    assert isinstance(world.do(c.Create(spec_of("G"))), Exists)
    world.lost(second.copy)
    assert not agree(world, "G")


def test_c37_partial_migration_a_pull_that_can_t_end_makes_way_for_another() -> None:
    """Ray #31390 (fixed by #31464). A pull had made its destination when its only sources went. Restoring from the spilled copy
    was refused, because the object was being created already; that never ended, so the waiter hung.

    Here the loss of the source promotes the replica there is and ends the first move; the next one begins although the first
    one's target is still being freed. Without a replica the wait ends in the loss being said.
    """
    world = World(N1, N2, N3, backoff_ms=0)
    copy = world.put("G")
    replica = world.replica("G", N3)
    first = world.move("G", N2)
    world.step(c.Await(CLIENT, "w", "settled", id_of("G"), first, timeout_ms=5_000))
    told = world.lost(copy).reply
    assert [reply.message.answer.outcome for reply in told if isinstance(reply.message, Told)] == ["settled"]
    assert world.role(first) is Role.FREEING
    assert world.role(replica) is Role.AUTHORITATIVE
    second = world.move("G", N2)
    assert second != first
    world.done(first)
    assert world.group("G").target == second
    world.done(second)
    assert world.role(second) is Role.AUTHORITATIVE

    alone = World(N1, N2)
    copy = alone.put("G")
    move = alone.move("G")
    alone.step(c.Await(CLIENT, "w", "readable", id_of("G"), timeout_ms=60_000))
    alone.lost(copy)
    alone.step(c.Await(CLIENT, "w", "settled", id_of("G"), move, timeout_ms=60_000))
    replies = []
    for _ in range(80):
        alone.now += 500
        alone.renew()
        replies += alone.tick().reply
    (answer,) = [reply.message.answer for reply in replies if isinstance(reply.message, Told)]
    assert isinstance(answer, Awaited)
    assert (answer.outcome, answer.reason) == ("settled", Reason.LOST)
    assert isinstance(alone.do(c.Create(spec_of("G"), N1)), Created)

    node = small_node(4)
    node.order(fetch_of("G", C1))
    late = fetched(node, "G")
    node.order(orders.Free(C1))
    node.order(fetch_of("G", C2))
    node.step(fetched(node, "G"))
    node.complete_all()
    node.changes_nothing(late)
    assert node.facts().count(reports.CopyFailed(C1, Reason.FAILED)) == 0
    assert node.read(C2).data == (content("G", 0), content("G", 1))
    assert isinstance(node.replies[-1][1], requests.Blocks)


def owners(world: World, name: str) -> list[str]:
    copies = world.state.copies.get(id_of(name), ())
    return [copy.node for copy in copies if copy.role is Role.AUTHORITATIVE]


def test_c38_partial_migration_a_commit_is_durable_before_the_source_lets_go() -> None:
    """Redis #6339 (#10517). Migration flags lived on the nodes. The new owner crashed right after it had finalised and before
    anybody else had learnt it; the old one had let go, and nobody owned the slot.

    Here the directory's commit is the fact, and the source goes only after it, its grace and a second commit. A new owner that
    dies leaves one owner all the same, or the truth that there is none; what it says when it is back under another life is
    fenced. A replica serves meanwhile; and what the old owner still has is not let go then, and becomes the group's again.
    """
    for grace_ms, with_replica in ((2_000, False), (2_000, True), (20_000, False)):
        world = World(N1, N2, N3, grace_ms=grace_ms)
        heirs = [N3] if with_replica else [N1] if grace_ms > world.config.node_lease_ms else []
        copy = world.put("G")
        if with_replica:
            world.replica("G", N3)
        move = world.moved("G")
        epoch = world.group("G").epoch
        world.restart()
        assert (owners(world, "G"), world.group("G").epoch) == ([N2], epoch)
        assert world.role(copy) is Role.RETIRING
        assert not world.orders(orders.Free)
        for name in (N1, N2, N3):
            world.beat(name)
            world.inventory(name)
        old = world.incarnation(N2)
        world.lapse(N2)
        assert owners(world, "G") == [N2]
        if with_replica:
            world.do(c.Unpin(world.pin("G")))
        else:
            refusal = world.refused(c.Pin(id_of("G")), "Unreadable")
            assert refusal.retry_after_ms > 0
        world.register(N2, boot="b2", ready=False)
        world.report(N2, reports.CopyDone(move, MANIFEST), incarnation=old)
        world.inventory(N2, ())
        assert owners(world, "G") == heirs
        assert world.state.groups.get(id_of("G")) is None or world.group("G").epoch > epoch
        world.report(N2, reports.CopyDone(move, MANIFEST))
        assert owners(world, "G") == heirs
        settle(world, 4_000)
        assert (world.role(copy) is Role.AUTHORITATIVE) == (heirs == [N1])
        if heirs:
            assert isinstance(world.do(c.Evict(id_of("G"))), EvictAccepted)
        assert isinstance(world.do(c.Create(spec_of("G"), N1)), Created)
        assert world.is_in("G", State.WRITING)
