"""Counts of room that drift away from what is there."""

from collections.abc import Callable

from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Created, Exists, Joined, MoveAccepted, ReplicaAccepted
from pinfold.core.audit import audit
from pinfold.core.calls import CancelCall, GetGroup
from pinfold.core.effects import CloneInstance, StoreBlocks
from pinfold.core.ids import CopyId, NodeName, Reason, Tier
from pinfold.core.reports import CopyFailed, Freed
from pinfold.core.requests import Read
from tests.cases.embedded_world import Cluster, put_of
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import fetched, settle, small_node, used
from tests.client_world import Script, blocks_of, pinned
from tests.client_world import put_of as client_put
from tests.directory_world import N1, N2, World, entry, id_of, spec_of
from tests.node_world import NodeWorld, copy_id, fetch_of

# ---- C62: every way in which a group can leave a node ----------------------------------------------------------

N1_, N2_ = NodeName("n1"), NodeName("n2")


def evicted(cluster: Cluster) -> None:
    cluster.put("G", node="n1")
    cluster.do(c.Evict(key_of("G")))


def moved_out(cluster: Cluster) -> None:
    cluster.put("G", node="n1")
    assert isinstance(cluster.do(c.Move(key_of("G"), N2_)), MoveAccepted)
    cluster.advance(1_000)
    assert (cluster.used("n1"), cluster.used("n2")) == (0, 2)
    cluster.do(c.Evict(key_of("G")))


def cleared(cluster: Cluster) -> None:
    cluster.put("G", node="n1")
    cluster.do(c.Drain(N1_))
    cluster.advance(3_000)
    assert cluster.used("n1") == 0
    cluster.do(c.Drain(N1_, on=False))
    cluster.do(c.Evict(key_of("G")))


def put_anew(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.put("G", node="n1")
        cluster.do(c.Evict(key_of("G")))


def found_corrupt(cluster: Cluster) -> None:
    copy = cluster.put("G", node="n1").copy
    cluster.tier("n1").corrupt(copy)
    assert cluster.get("G") != ""


def lost_with_its_node(cluster: Cluster) -> None:
    cluster.put("G", node="n1")
    cluster.restart_node("n1")
    cluster.advance(1_000)


def given_up(cluster: Cluster) -> None:
    cluster.begin("client/a", "put", put_of("G", node="n1"))
    cluster.wire.deliver_next(cluster.now)
    cluster.tell("client/a", CancelCall("put"))
    cluster.members["client/a"].replies.clear()


def moved_in_vain(cluster: Cluster) -> None:
    cluster.put("G", node="n2")
    cluster.wire.cut("node/n1", "node/n2")
    cluster.do(c.Move(key_of("G"), N1_, deadline_ms=500))
    cluster.advance(1_000)
    cluster.wire.heal_all()
    cluster.do(c.Evict(key_of("G")))


def replica_dropped(cluster: Cluster) -> None:
    cluster.put("G", node="n2")
    made = cluster.do(c.Replicate(key_of("G"), N1_))
    assert isinstance(made, ReplicaAccepted)
    cluster.advance(500)
    assert cluster.used("n1") == 2
    cluster.do(c.DropReplica(key_of("G"), made.copy))
    cluster.advance(1_000)
    assert cluster.used("n1") == 0
    cluster.do(c.Evict(key_of("G")))


def abandoned(cluster: Cluster) -> None:
    cluster.client("dies", lease_ms=500)
    assert isinstance(cluster.do(c.Create(put_of("G").spec, N1_), "client/dies"), Created)
    cluster.remove_client("client/dies")
    cluster.advance(1_000)


WAYS: tuple[Callable[[Cluster], None], ...] = (
    evicted, moved_out, cleared, put_anew, found_corrupt, lost_with_its_node, given_up, moved_in_vain, replica_dropped, abandoned,
)  # fmt: skip


def test_c62_capacity_whatever_way_a_group_leaves_by_its_room_comes_back() -> None:
    """LMCache #4546 (#4547). Only the tier's own eviction lowered its counter; deleting, moving, clearing and removing after a
    read left it raised, and in the end an empty disk refused everything, without an error.

    Here room follows from the list of copies, in the directory, and from the allocator, in the node: both are recounted after
    each of ten ways of leaving, in fifty rounds, and are zero.
    """
    cluster = Cluster("n1", "n2", slots=4, directory={"absent_limit_ms": 1_000, "backoff_ms": 0, "high": 1_000})
    for number in range(50):
        way = WAYS[number % len(WAYS)]
        way(cluster)
        cluster.rest()
        assert (cluster.used("n1"), cluster.used("n2")) == (0, 0), way
    for name in ("H", "I"):
        cluster.put(name, node="n1")
    assert cluster.used("n1") == 4


def test_c63_capacity_a_group_that_is_there_reserves_nothing_when_it_is_put_again() -> None:
    """LMCache #4655. Duplicates were suppressed only while the first write was pending; a later put of a resident key reserved
    room again for the one file there was, and other keys were refused.

    Here a create looks first: who finds it being written joins, who finds it gets a pin, and neither counts anything. The same
    id with other sizes is another thing, and refused.
    """
    world = World(N1, capacity=2)
    other = world.open()
    created = world.create("a")
    assert isinstance(world.do(c.Create(spec_of("a")), other), Joined)
    assert used(world, N1) == 1
    world.sealed(created.copy)
    for session in (world.session, other):
        again = world.do(c.Create(spec_of("a")), session)
        assert isinstance(again, Exists)
        assert again.route.copy == created.copy
        assert used(world, N1) == 1
    odd = c.Spec(id_of("a"), spec_of("a").key, (100,))
    world.refused(c.Create(odd), "LayoutMismatch")
    world.create("b")
    assert used(world, N1) == 2
    world.refused(c.Create(spec_of("d")), "NoSpace")
    assert used(world, N1) == 2

    two = World(N1, N2, capacity=2)
    two.put("a")
    two.replica("a", N2)
    two.refused(c.Replicate(id_of("a"), N2), "AlreadyThere")
    two.refused(c.Move(id_of("a"), N1), "AlreadyThere")
    assert (used(two, N1), used(two, N2)) == (1, 1)


# ---- C65 -----------------------------------------------------------------------------------------------------

STAGES = ("asked", "queued", "half", "checking", "done")


def fetch_as_far_as(node: NodeWorld, copy: CopyId, stage: str) -> None:
    name = f"g{copy.revision}"
    node.order(fetch_of(name, copy))
    if stage == "asked":
        return
    node.step(fetched(node, name, 0) if stage in ("queued", "half") else fetched(node, name))
    if stage == "half":
        node.complete(node.running(StoreBlocks)[-1])
    elif stage in ("checking", "done"):
        node.complete(node.running(StoreBlocks)[-1])
        if stage == "done":
            node.complete(list(node.works.values())[-1])


def test_c65_capacity_each_stage_of_an_abort_lowers_the_count_of_what_is_under_way() -> None:
    """sglang #30053. Prefetch raised a counter when a request came in, and one of several abort paths forgot to lower it; at its
    cap the counter switched prefetch off for the life of the process.

    Here what is under way is counted by what is there. Jobs of a node and calls of a client are aborted in every stage, and as
    many are admitted after as before.
    """
    node = small_node(40, jobs_max=len(STAGES))
    for first in (1, 11, 21):
        for number, stage in enumerate(STAGES):
            fetch_as_far_as(node, copy_id(first + number), stage)
        assert len(node.node.state.jobs) == len(STAGES) - 1
        fetch_as_far_as(node, copy_id(first + 8), "asked")
        node.order(fetch_of("one too many", copy_id(first + 9)))
        assert node.facts()[-1] == CopyFailed(copy_id(first + 9), Reason.FAILED)
        for number in range(10):
            node.order(orders.Free(copy_id(first + number)))
        node.complete_all()
        assert node.node.state.jobs == node.node.state.tokens == {}
        assert node.used() == 0

    put = client_put("g")
    for stage in ("opening", "pinning", "reading", "pausing", "done"):
        script = Script(calls_max=1)
        script.call(1, GetGroup(put.spec.group))
        if stage != "opening":
            script.open()
            pin = script.body(c.Pin)
            if stage != "pinning":
                script.answer(pin, pinned(pin, put))
                if stage == "pausing":
                    script.deny(script.take(Read), "TierFailed")
                elif stage == "done":
                    script.step(blocks_of(script.take(Read), put))
        script.call(2, GetGroup(put.spec.group))
        assert (2 in script.replies) is (stage != "done")
        script.cancel(1)
        script.cancel(2)
        script.call(3, GetGroup(put.spec.group))
        assert 3 not in script.replies, stage


def test_c66_capacity_what_has_two_places_is_counted_twice_and_what_is_shared_by_name_is_not() -> None:
    """sglang #35270. Entries that share physical pages were summed entry by entry, so that free plus evictable was more than the
    pool; the self-check at idle then ended a healthy server.

    Here a slot has one user at any time. A copy on its way between tiers has two places, and says so; two copies of a group are
    two, each at its own node. An audit that finds a difference reports it, and the service repairs it and goes on.
    """
    node = NodeWorld()
    node.register()
    for number in range(1, 5):
        node.put(copy_id(number), str(number))
    while True:
        slots = node.node.state.slots
        listed = sum(one.slots for one in node.node.inventory())
        assert listed == sum(tier.used for tier in slots.values())
        for tier in slots.values():
            assert tier.free.bit_count() + tier.used == tier.capacity
        if not node.works:
            break
        assert node.running(CloneInstance) or len(node.works) == 1
        node.complete(next(iter(node.works.values())))
    assert node.used(Tier.SSD) > 0

    world = World(N1, N2)
    copy = world.put("G")
    replica = world.replica("G", N2)
    world.do(c.DropReplica(id_of("G"), replica))
    settle(world)
    assert (used(world, N1), used(world, N2)) == (1, 0)
    stray = CopyId(0, 1, 5)
    found = audit(world.state, {N1: [*world.entries(N1), entry(stray)]}, world.config)
    assert [finding.kind for finding in found] == ["orphan_copy"]
    world.inventory(N1, [*world.entries(N1), entry(stray)])
    assert orders.Free(stray) in world.orders(orders.Free, N1)
    world.report(N1, Freed(stray))
    assert world.role(copy) is not None
    world.do(c.Unpin(world.pin("G")))
