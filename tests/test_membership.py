"""Nodes come, renew, lapse, return and drain (rules 7 and 9)."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.ids import NodeName, Peer, Reason, Role, State
from pinfold.core.reports import Register

from .directory_world import CLIENT, MANIFEST, N1, N2, N3, OTHER_MANIFEST, STORE, World, entry, id_of
from .node_world import NodeWorld


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3)


def notices(world: World, kind: type, name: NodeName) -> list[object]:
    return [message for target, message in world.sent if isinstance(message, kind) and target == f"node/{name}"]


# ---- registration --------------------------------------------------------------------------------------------


def test_a_registration_is_idempotent_by_boot_while_its_lease_holds(world: World) -> None:
    first = world.incarnation(N1)
    world.put("A")
    assert world.register(N1, "b1") == first
    assert world.is_in("A", State.LOCAL)
    world.restart()
    assert world.register(N1, "b1") == first


def test_another_boot_gets_a_higher_incarnation_and_ends_what_the_old_one_had(world: World) -> None:
    copy = world.put("A")
    writing = world.create("B")
    first = world.incarnation(N1)
    world.register(N1, "b2", ready=False)
    assert world.incarnation(N1) > first
    assert world.copy(copy).absent
    assert world.role(writing.copy) is None
    world.inventory(N1, [])
    assert world.role(copy) is None
    assert world.group("A").reason is Reason.LOST


def test_a_node_is_used_for_placement_only_after_its_first_full_inventory(world: World) -> None:
    world = World(N1)
    world.register(N2, ready=False)
    assert world.create("A", N2).node == N1
    world.put("B")
    world.refused(c.Move(id_of("B"), N2), "NodeNotReady")
    world.inventory(N2)
    assert world.create("C", N2).node == N2


def test_an_inventory_of_an_older_term_does_not_make_a_node_ready(world: World) -> None:
    world.restart()
    world.inventory(N1, term=1)
    assert not world.state.links[N1].ready
    world.inventory(N1)
    assert world.state.links[N1].ready


def test_others_are_told_that_a_registration_is_over(world: World) -> None:
    """Guards that it owned at them end then (rule 6)."""
    old = world.incarnation(N1)
    world.register(N1, "b2")
    assert notices(world, orders.PeerGone, N2) == [orders.PeerGone(0, 1, N1, old)]
    assert notices(world, orders.PeerGone, N1) == []


def test_who_has_not_heard_that_a_registration_is_over_is_told_again(world: World) -> None:
    """`PeerGone` may be lost; whoever still has guards of that registration says so with each heartbeat."""
    old = world.incarnation(N1)
    now = world.register(N1, "b2")
    world.restart()
    term = world.state.meta.term
    for _ in range(2):
        peers = ((N1, old), (N1, now), (NodeName("n9"), 1))
        ready = world.step(reports.Heartbeat(N2, world.incarnation(N2), term, 0, peers=peers))
        gone = [send for send in ready.send if isinstance(send.message, orders.PeerGone)]
        assert [(send.target, send.message) for send in gone] == [("node/n2", orders.PeerGone(0, term, N1, old))]
    world.lapse(N1)
    ready = world.step(reports.Heartbeat(N2, world.incarnation(N2), term, 0, peers=((N1, now),)))
    assert not [send for send in ready.send if isinstance(send.message, orders.PeerGone)], "it may come back"


@pytest.mark.parametrize(
    "event",
    [
        Register(NodeName(""), "b", Peer("node/x"), 1),
        Register(NodeName("n" * 256), "b", Peer("node/x"), 1),
        Register(NodeName("\u00f6" * 128), "b", Peer("node/x"), 1),
        Register(NodeName("n4"), "b", Peer("node/x"), -1),
        Register(NodeName("n4"), "b", Peer("node/x"), 1, group_slots=-1),
        Register(NodeName("n4"), "b", Peer("node/x"), 1, block_bytes=-1),
        Register(STORE, "b", Peer("node/x"), 1),
    ],
)
def test_a_senseless_registration_changes_nothing(event: Register) -> None:
    world = World(stores=1)
    world.changes_nothing(event)
    assert world.counter("refused_registrations") == 1


@pytest.mark.parametrize("name", ["n" * 255, "n" + "\u00f6" * 127])
def test_a_registration_at_the_edge_of_what_is_taken_is_taken(world: World, name: str) -> None:
    """255 bytes of name, and room for nothing."""
    at = world.counter("registrations")
    world.register(NodeName(name), "b1", capacity=0, group_slots=0, block_bytes=0)
    assert world.state.nodes[NodeName(name)].alive
    assert (world.counter("registrations") - at, world.counter("refused_registrations")) == (1, 0)
    assert world.create("A").node in (N1, N2, N3)


def test_a_node_that_takes_no_order_for_a_repair_interval_is_asked_for_an_inventory_once_in_each(world: World) -> None:
    world.create("A", N1)  # an order that n1 does not take
    asked = []
    for _ in range(9):
        world.now += world.config.repair_ms // 4
        asked.append(world.beat(N1, 0).inventory)
    assert asked == [False, False, False, True, False, False, False, True, False]
    world.now += world.config.repair_ms // 4
    assert not world.beat(N1).inventory, "it has taken it"


def test_the_number_of_another_term_says_nothing(world: World) -> None:
    world.create("A", N1)
    world.step(reports.Heartbeat(N1, world.incarnation(N1), 0, 1))
    assert world.state.links[N1].seen == 0
    now = world.state.meta.clock_ms
    world.lapse(N1)
    link = world.state.links[N1]
    assert (link.seen, link.ready) == (0, False)
    assert now < link.seen_at <= world.state.meta.clock_ms


def test_what_is_turned_away_is_counted(world: World) -> None:
    old = world.incarnation(N1)
    world.register(N1, "b2")
    world.beat(N1, incarnation=old)
    world.beat(N1, incarnation=old)
    world.step(Register(N1, "b1", Peer("node/n1"), 100, over=old))
    assert (world.counter("stale_reports"), world.counter("names_taken"), world.counter("lapses")) == (2, 1, 1)
    assert world.incarnation(N1) > old


def test_a_new_address_or_capacity_of_the_same_boot_is_taken_over_and_kept(world: World) -> None:
    world.step(Register(N1, "b1", Peer("node/elsewhere"), 7))
    world.restart()
    node = world.state.nodes[N1]
    assert (node.address, node.capacity, node.incarnation) == ("node/elsewhere", 7, world.incarnation(N1))


def test_a_node_that_came_back_smaller_than_its_copies_is_no_violation_also_after_a_restart(world: World) -> None:
    world.put("A", blocks=4)
    world.register(N1, "b1", capacity=2)
    assert world.create("B", N1).node != N1
    world.restart()
    world.tick(1)
    assert world.state.used[N1] == 4


# ---- fencing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", ["sealed", "done", "freed", "inventory", "heartbeat"])
def test_reports_of_an_older_incarnation_have_no_effect_and_their_sender_learns_why(world: World, fact: str) -> None:
    """FENCE-1."""
    old = world.incarnation(N1)
    copy = world.put("A")
    world.register(N1, "b2", ready=False)
    created = world.create("B", N2)
    before = world.state.copy()
    if fact == "inventory":
        world.inventory(N1, [], incarnation=old)
    elif fact == "heartbeat":
        world.beat(N1, 0, incarnation=old)
    else:
        facts = {
            "sealed": reports.Sealed(created.copy, MANIFEST),
            "done": reports.CopyDone(copy, MANIFEST),
            "freed": reports.Freed(copy),
        }
        world.report(N1, facts[fact], incarnation=old)
    world.same(before)
    notice = world.ready.send[-1].message
    assert notice == orders.FencedOff(0, 1, old, "b2")


def test_the_same_boot_under_an_old_number_is_told_its_own_boot_and_not_fenced_by_itself(world: World) -> None:
    """Lapse, return, and a heartbeat of before that comes late: nobody has replaced the sender, and it must see that."""
    old = world.incarnation(N1)
    world.lapse(N1)
    world.register(N1, "b1")
    notice = world.beat(N1, 0, incarnation=old)
    assert notice == orders.FencedOff(0, 1, old, "b1")


def test_a_node_answers_for_its_own_copies_only(world: World) -> None:
    copy = world.put("A")
    before = world.state.copy()
    world.report(N2, reports.CopyLost(copy, Reason.LOST))
    world.report(N2, reports.Freed(copy))
    world.same(before)


def test_an_unknown_node_is_told_nothing_unless_it_says_where(world: World) -> None:
    world.step(reports.Heartbeat(NodeName("n9"), 5, 1, 0))
    assert world.ready.send == ()


def test_a_node_that_hears_of_its_own_boot_registers_again_instead_of_stopping() -> None:
    node = NodeWorld(boot="b1")
    node.register()
    node.step(orders.FencedOff(0, 1, node.incarnation, "b1"))
    assert not node.node.state.fenced
    assert isinstance(node.sent[-1][1], Register)
    node.step(orders.Registered(0, 1, N1, "b1", 2, 10_000))
    node.step(orders.FencedOff(0, 1, 2, "b2"))
    assert node.node.state.fenced


# ---- lapse ---------------------------------------------------------------------------------------------------


def test_at_lapse_what_was_coming_or_going_leaves_the_record_and_the_rest_is_absent(world: World) -> None:
    kept = world.put("A")
    pin = world.pin("A")
    writing = world.create("B")
    going = world.put("C")
    world.do(c.Evict(id_of("C")))
    coming = world.put("D", N2)
    move = world.move("D", N1)
    world.lapse(N1)
    assert world.copy(kept).absent
    assert world.role(kept) is Role.AUTHORITATIVE
    assert [world.role(copy) for copy in (writing.copy, going, move)] == [None, None, None]
    assert world.is_in("D", State.LOCAL)
    assert world.role(coming) is Role.AUTHORITATIVE
    assert pin in world.state.holds
    assert not world.state.holds[pin].lost
    assert world.state.used == {N1: 1, N2: 1}


def test_what_is_absent_is_not_readable_and_takes_no_new_holds(world: World) -> None:
    copy = world.put("A")
    world.lapse(N1)
    world.refused(c.Pin(id_of("A")), "Unreadable")
    world.refused(c.Pin(id_of("A"), copy), "StaleCopy")
    world.refused(c.Ref(id_of("A")), "Unreadable")
    assert world.refused(c.Move(id_of("A"), N2), "Unreadable").guard == "authority_present"
    assert world.query(c.Locate(CLIENT, "l", (id_of("A"),))).routes == ()


def test_a_lapsed_node_is_told_to_register_again_and_its_reports_wait(world: World) -> None:
    copy = world.put("A")
    incarnation = world.incarnation(N1)
    world.lapse(N1)
    assert world.beat(N1, 0, incarnation) == orders.RegisterAgain(0, 1, incarnation)
    before = world.state.copy()
    world.report(N1, reports.CopyLost(copy, Reason.LOST))
    world.same(before)


def test_no_order_goes_to_a_lapsed_node(world: World) -> None:
    copy = world.put("A")
    world.pin("A")
    world.lapse(N1)
    count = len(world.orders(orders.Free))
    world.do(c.ReleaseRequest(""))
    world.ask(c.CloseSession(CLIENT, "c", world.session))
    world.session = world.open()
    world.do(c.Evict(id_of("A")))
    assert world.role(copy) is None, "absent and not held: it leaves at once"
    assert len(world.orders(orders.Free)) == count


# ---- return --------------------------------------------------------------------------------------------------


def test_the_same_boot_returns_and_its_listed_copies_count_again_at_a_new_epoch(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A", N2)
    epoch = world.group("A").epoch
    first = world.incarnation(N1)
    world.lapse(N1)
    world.lapse(N2)
    world.register(N2)
    assert world.group("A").epoch == epoch, "a replica's return is no decision"
    assert not world.copy(replica).absent
    world.register(N1)
    assert world.incarnation(N1) > first
    assert not world.copy(copy).absent
    assert world.copy(copy).incarnation == world.incarnation(N1)
    assert world.group("A").epoch > epoch
    world.pin("A")


def test_what_left_the_record_meanwhile_never_comes_back(world: World) -> None:
    """Neither an evicted group nor a half made copy is revived by its node's return (finding 7)."""
    evicted, dropped = world.put("A"), world.put("B", N2)
    move = world.move("B", N1)
    world.lapse(N1)
    world.do(c.Evict(id_of("A")))
    world.tick()
    world.register(N1, ready=False)
    world.inventory(N1, [entry(evicted), entry(move)])
    assert id_of("A") not in world.state.groups
    assert world.role(move) is None
    assert world.role(dropped) is Role.AUTHORITATIVE
    assert [order.copy for order in world.orders(orders.Free, N1)] == [evicted, move]


def test_a_new_boot_that_verified_its_files_brings_its_copies_back(world: World) -> None:
    copy, gone = world.put("A"), world.put("B")
    world.register(N1, "b2", ready=False)
    world.inventory(N1, [entry(copy)])
    assert not world.copy(copy).absent
    assert world.role(gone) is None


def test_returned_bytes_that_are_not_those_of_the_record_are_lost(world: World) -> None:
    copy = world.put("A")
    world.lapse(N1)
    world.register(N1, ready=False)
    world.inventory(N1, [entry(copy, manifest=OTHER_MANIFEST)])
    assert world.role(copy) is None
    assert orders.Free(copy) in world.orders(orders.Free, N1)


def test_after_the_limit_absent_copies_are_dropped_for_good(world: World) -> None:
    world = World(N1, N2, absent_limit_ms=5_000)
    copy = world.put("A")
    hold = world.pin("A")
    world.lapse(N1)
    world.advance(4_500)
    assert world.role(copy) is Role.AUTHORITATIVE
    world.advance(1_000)
    assert world.role(copy) is None
    world.refused(c.Unpin(hold), "HoldLost")
    world.register(N1, ready=False)
    world.inventory(N1, [entry(copy)])
    assert world.role(copy) is None
    assert world.orders(orders.Free, N1) == [orders.Free(copy)]


def test_after_the_limit_a_replica_is_promoted(world: World) -> None:
    world = World(N1, N2, absent_limit_ms=2_000)
    world.put("A")
    replica = world.replica("A")
    world.ref("A")
    world.lapse(N1)
    world.pin("A")
    world.advance(2_500)
    assert world.role(replica) is Role.AUTHORITATIVE
    assert world.is_in("A", State.LOCAL)
    assert not any(hold.lost for hold in world.state.holds.values())


def test_a_new_incarnation_counts_orders_anew_so_that_its_heartbeats_are_not_behind(world: World) -> None:
    """Else a full inventory would be asked for with every beat until the next order."""
    for name in "ABC":
        world.put(name)
    world.register(N1, "b2")
    asked = []
    for _ in range(4):
        world.now += 900
        world.beat(N2)
        notice = world.beat(N1, 0)
        asked.append(notice.inventory)
    assert not any(asked)


def test_a_beat_asks_for_an_inventory_when_an_order_was_not_taken_for_a_whole_interval(world: World) -> None:
    created = world.create("A")
    assert not world.beat(N1, 0).inventory
    world.now += 1_000
    assert world.beat(N1, 0).inventory
    world.inventory(N1, [], number=0)
    assert [order.copy for order in world.orders(orders.Reserve, N1)] == [created.copy] * 2


def test_a_new_term_asks_every_node_for_its_inventory(world: World) -> None:
    world.restart()
    ready = world.step(reports.Heartbeat(N1, world.incarnation(N1), 1, 5))
    assert ready.send[-1].message == orders.HeartbeatSeen(0, 2, world.incarnation(N1), True)


def test_leases_of_nodes_have_their_full_length_after_a_restart(world: World) -> None:
    world.advance(2_500, alive=False)
    world.restart(pause_ms=60_000)
    world.advance(2_500, alive=False)
    assert all(node.alive for node in world.state.nodes.values())
    world.advance(1_000, alive=False)
    assert not any(node.alive for node in world.state.nodes.values())
