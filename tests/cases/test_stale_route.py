"""Places that are believed to have what they no longer have."""

from typing import Any

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.answers import BatchAnswer, DrainAccepted, EvictAccepted, Refused
from pinfold.core.calls import Failed, GetGroup
from pinfold.core.effects import LoadBlocks
from pinfold.core.ids import CopyId, Reason, Role
from pinfold.core.reports import CopyLost
from tests.cases.embedded_world import LAYOUT, Cluster, readable
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import free_all, settle, small_node
from tests.client_world import COPY, Script, hold_of, put_of, route_of
from tests.directory_world import MANIFEST, N1, N2, N3, World, id_of
from tests.node_world import copy_id, read_of

C1 = copy_id(1)
CROWD = 50


def test_c43_stale_route_a_copy_that_its_node_has_lost_is_missed_once_and_then_known() -> None:
    """Mooncake #1570 (also sglang #31315). A node's own quota removed files and told nobody. Reads were sent to files that did
    not exist, the entry outlived the last copy, and each request for it paid the full timeout again.

    Here a node removes nothing by itself, and tells a loss in the step in which it finds it. Fifty readers of one ghost get
    their answers at once, none of them waits for a timeout, and the next one costs no read at all.
    """
    cluster = Cluster("n1")
    copy = cluster.put("G").copy
    tier = cluster.tier("n1")
    loads = []
    whole = tier.load

    def load(instance: Any, *rest: Any) -> Any:
        loads.append(instance.copy)
        return whole(instance, *rest)

    tier.load = load  # type: ignore[method-assign]
    for number in range(CROWD):
        cluster.client(f"c{number}")
    tier.lose(copy)
    before = cluster.now
    for number in range(CROWD):
        cluster.begin(f"client/c{number}", 1, GetGroup(key_of("G"), layout=LAYOUT))
    cluster.settle()
    replies = [cluster.reply(f"client/c{number}", 1) for number in range(CROWD)]
    assert all(isinstance(reply, Failed) and reply.definite for reply in replies)
    assert cluster.now == before
    assert 1 <= len(loads) <= CROWD
    tried = len(loads)
    assert not readable(cluster, "G")
    assert cluster.get("G") in ("Unreadable", "UnknownGroup")
    assert len(loads) == tried
    cluster.rest()
    assert cluster.used() == 0
    cluster.put("G")
    assert cluster.get("G") == ""

    node = small_node(4)
    node.put(C1, "G")
    node.step(read_of(C1))
    node.fail(node.work(LoadBlocks), Reason.LOST)
    assert node.facts()[-1] == CopyLost(C1, Reason.LOST)
    assert node.answers(requests.NodeRefused)[-1].refusal.reason == "StaleCopy"
    node.refused(read_of(C1), "Freeing")
    node.complete_all()
    node.refused(read_of(C1), "StaleCopy")


def test_c44_stale_route_a_snapshot_carries_its_own_place_in_the_order_of_events() -> None:
    """Dynamo #7072. After a gap a router pulled a full dump whose entries had made-up numbers from zero, took these for its own
    place in the stream, fell behind, and saw the next real event as a gap again, for ever.

    Here an inventory says which order it was taken after. What was ordered later is not judged by its absence; what was ordered
    before is. A snapshot that arrives late, or in part, never takes the place back. A client's routes carry a revision.
    """
    world = World(N1, N2)
    first = world.put("G1")
    later = world.create("G2")  # a second order to the node
    number = world.state.numbers[later.node]
    node = later.node
    world.inventory(node, [entry for entry in world.entries(node) if entry.copy != later.copy], number=number - 1)
    assert world.role(later.copy) is Role.INCOMING  # ordered after that inventory
    sent = len(world.orders(orders.Reserve))
    world.inventory(node, [entry for entry in world.entries(node) if entry.copy != later.copy])
    assert world.role(later.copy) is None  # not there, although the order was taken
    assert len(world.orders(orders.Reserve)) == sent
    assert world.role(first) is Role.AUTHORITATIVE

    # In parts, the older one late: it is not mixed in, and what it lacks is not missed.
    copy = world.put("G3", N1)
    numbers = world.state.numbers[N1]
    whole = tuple(world.entries(N1))
    term, incarnation = world.state.meta.term, world.incarnation(N1)
    world.step(reports.Inventory(N1, incarnation, term, numbers, 900, 0, 2, ()))
    world.step(reports.Inventory(N1, incarnation, term, numbers, 901, 0, 1, whole))
    world.step(reports.Inventory(N1, incarnation, term, numbers, 900, 1, 2, ()))
    assert world.role(copy) is Role.AUTHORITATIVE
    assert world.state.links[N1].seen == numbers
    world.inventory(N1, whole, number=numbers - 1)
    assert world.state.links[N1].seen == numbers
    assert world.beat(N1) == orders.HeartbeatSeen(0, term, incarnation, False)  # no new recovery

    # A client: the older of two answers does not replace the newer one's route.
    script, put = Script(), put_of("g")
    for call in (1, 2):
        script.call(call, GetGroup(put.spec.group))
    script.open()
    pins = [script.body(c.Pin), script.body(c.Pin)]
    old, new = CopyId(0, 61, 0), CopyId(0, 100, 0)
    script.answer(pins[1], a.Pinned(put.spec.group, route_of(put, copy=new), hold_of(pins[1]), 100))
    script.answer(pins[0], a.Pinned(put.spec.group, route_of(put, copy=old), hold_of(pins[0]), 61))
    assert script.client.state.routes[put.spec.group].route.copy == new
    assert old != COPY != new


def test_c45_stale_route_one_absent_item_does_not_stop_a_batch_and_one_slow_end_stops_nobody() -> None:
    """Dynamo #14652. One missing block in a batch of deletes ended the rest of it, which left stale locations; removing a worker
    held a lock through a slow cleanup, so that nobody could register.

    Here each item of a batch has its own answer, and each fact of a report its own fate. A node that is emptied is emptied in
    bounded pieces, and another one registers in between.
    """
    world = World(N1, N2, N3)
    copies = {name: world.put(name) for name in ("G1", "G3")}
    replica = world.replica("G1", N2)
    batch = c.Batch(tuple(c.Evict(id_of(name)) for name in ("G1", "G2", "G3")))
    command = world.command(batch)
    answer = world.send(command)
    assert isinstance(answer.answer, BatchAnswer)
    one, absent, three = answer.answer.items
    assert isinstance(one, EvictAccepted)
    assert isinstance(absent, Refused)
    assert absent.refusal.reason == "UnknownGroup"
    assert isinstance(three, EvictAccepted)
    assert world.send(command) == answer
    world.sequences[world.session] = command.sequence
    again = world.do(batch)
    assert [item.refusal.reason for item in again.items] == ["AlreadyEvicting", "UnknownGroup", "AlreadyEvicting"]
    assert world.role(replica) is Role.FREEING
    never = CopyId(0, 1, 7)
    world.report(N1, *(reports.Freed(copy) for copy in (copies["G1"], never, copies["G3"])))
    assert [world.role(copy) for copy in copies.values()] == [None, None]
    assert world.role(replica) is Role.FREEING  # its own node's to tell
    free_all(world)

    busy = World(N1, N2, drain_moves_max=4)
    for number in range(20):
        busy.put(f"g{number}")
    assert isinstance(busy.do(c.Drain(N1)), DrainAccepted)
    busy.tick()
    assert sum(1 for group in busy.state.groups.values() if group.source != group.target) <= 4
    busy.register(N3)
    assert busy.state.nodes[N3].alive
    for _ in range(20):
        for copy, group in list(busy.state.group_of.items()):
            if busy.state.groups[group].target == copy:
                busy.done(copy, MANIFEST)
        settle(busy, 1_000)
    assert busy.state.copies_at.get(N1) is None
