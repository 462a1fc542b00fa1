"""Registration, heartbeats, inventories, return in the same boot and in a new one."""

from pinfold.core import events, orders, reports, requests
from pinfold.core.effects import ReleaseInstance
from pinfold.core.ids import NO_COPY, NodeName, Peer, Reason, Tier
from pinfold.core.reports import Condition, CopyFailed, CopyLost, Freed, Heartbeat, Inventory, Register

from .node_world import READER, NodeWorld, config_of, copy_id, manifest_of, read_of, spec_of

C1, C2, C3 = copy_id(1), copy_id(2), copy_id(3)
N1 = NodeName("n1")


def registered(incarnation: int = 1, term: int = 1, boot: str = "b1", shard: int = 0) -> orders.Registered:
    return orders.Registered(shard, term, N1, boot, incarnation, 10_000)


def test_a_node_registers_until_it_is_heard_with_growing_intervals() -> None:
    world = NodeWorld()
    world.tick()
    assert world.messages(Register) == [
        Register(N1, "b1", "node/n1", 9, world.node_fills(), (NodeName("s1"),), 4),
    ]  # fmt: skip
    alarms = []
    for _ in range(7):
        alarm = world.ready.alarm
        assert alarm is not None
        alarms.append(alarm - world.now)
        world.changes_nothing(events.Tick())  # an early one is harmless
        world.tick(alarm - world.now)
    assert alarms == [200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert len(world.messages(Register)) == 8
    world.step(registered())
    assert world.messages(Inventory) == [Inventory(N1, 1, 1, 0, 1, 0, 1, ())]
    assert world.ready.alarm == world.now + 1_000


def test_an_answer_to_another_boot_or_an_older_registration_is_dropped() -> None:
    world = NodeWorld()
    world.tick()
    world.changes_nothing(registered(boot="b0"))
    world.changes_nothing(registered(shard=3))
    world.step(registered(incarnation=5, term=2))
    world.changes_nothing(registered(incarnation=5, term=2))
    world.changes_nothing(registered(incarnation=4, term=3))
    world.changes_nothing(registered(incarnation=6, term=1))


def test_heartbeats_and_inventories_come_at_their_times() -> None:
    world = NodeWorld()
    world.register()
    world.put(C1, "a")
    world.sent.clear()
    for _ in range(60):
        world.tick(1_000)
    beats = world.messages(Heartbeat)
    assert len(beats) == 60
    assert (beats[-1].number, beats[-1].tiers[0].used) == (1, 2)
    assert [entry.copy for entry in world.messages(Inventory)[-1].entries] == [C1]
    assert len(world.messages(Inventory)) == 1


def test_an_inventory_says_what_is_there_in_parts_and_repeats_failures() -> None:
    world = NodeWorld(config_of(inventory_part=2))
    world.register()
    world.put(C1, "a")
    world.reserve(C2, "b")
    world.reserve(C3, "c", 5)
    world.step(read_of(C1))
    world.order(orders.Free(C1))
    world.sent.clear()
    world.step(orders.HeartbeatSeen(0, 1, 1, inventory=True))
    first, second = world.messages(Inventory)
    assert [(e.copy, e.condition, e.slots) for e in first.entries + second.entries] == [
        (C1, Condition.FREEING, 2), (C2, Condition.RESERVED, 2), (C3, Condition.RESERVED, 0),
    ]  # fmt: skip
    assert (first.snapshot, first.part, first.parts) == (second.snapshot, 0, 2)
    assert first.number == 4
    assert world.facts() == [CopyFailed(C3, Reason.NO_SPACE)]
    world.changes_nothing(orders.HeartbeatSeen(0, 1, 1, inventory=False))
    world.changes_nothing(orders.HeartbeatSeen(0, 1, 9, inventory=True))
    world.changes_nothing(orders.HeartbeatSeen(0, 0, 1, inventory=True))


def test_copies_are_listed_in_pages() -> None:
    world = NodeWorld(config_of(inventory_part=2))
    world.register()
    for copy in (C3, C1, C2):
        world.reserve(copy, str(copy))
    world.step(requests.ListCopies(READER, "page", NO_COPY))
    world.step(requests.ListCopies(READER, "page", C2, 1))
    first, second = world.answers(requests.CopiesListed)
    assert ([entry.copy for entry in first.entries], first.more) == ([C1, C2], True)
    assert ([entry.copy for entry in second.entries], second.more) == ([C3], False)
    world.refused(requests.ListCopies(READER, "page", NO_COPY, 0), "BadRequest")


def test_a_lapsed_node_comes_back_with_the_same_boot_and_all_its_copies() -> None:
    world = NodeWorld()
    world.register()
    world.put(C1, "a")
    world.changes_nothing(orders.RegisterAgain(0, 1, 9))
    world.sent.clear()
    world.step(orders.RegisterAgain(0, 1, 1))
    assert world.messages(Register)[0].boot == "b1"
    world.changes_nothing(orders.RegisterAgain(0, 1, 1))
    world.incarnation, world.numbers = 2, 0
    world.step(registered(incarnation=2))
    inventory = world.messages(Inventory)[-1]
    assert (inventory.incarnation, inventory.number) == (2, 0)
    assert [(e.copy, e.condition, e.manifest) for e in inventory.entries] == [
        (C1, Condition.VERIFIED, manifest_of("a")),
    ]  # fmt: skip
    world.changes_nothing(orders.Order(0, 1, 1, 50, orders.Free(C1)))
    world.order(orders.Free(C1))
    world.complete_all()
    assert world.facts() == [Freed(C1)]


def test_a_new_boot_keeps_what_its_recovery_scan_has_found() -> None:
    old = NodeWorld()
    old.register()
    old.put(C1, "a", tier=Tier.SSD)
    old.put(C2, "b")
    world = NodeWorld(boot="b2")
    world.bytes = {key: data for key, data in old.bytes.items() if key[0] is Tier.SSD}
    found = events.InstanceFound(C1, spec_of("a"), manifest_of("a"), Tier.SSD)
    world.step(found)
    world.changes_nothing(found)
    world.incarnation = 2
    world.register()
    assert [entry.copy for entry in world.messages(Inventory)[-1].entries] == [C1]
    assert world.read(C1).data == old.read(C1).data
    world.refused(read_of(C2), "StaleCopy")
    world.changes_nothing(events.InstanceFound(C3, spec_of("c"), manifest_of("c"), Tier.SSD))


def test_damage_in_a_found_copy_is_seen_at_its_first_read() -> None:
    world = NodeWorld()
    world.step(events.InstanceFound(C1, spec_of("a"), manifest_of("a"), Tier.SSD))
    world.register()
    world.do(read_of(C1, 0))
    assert world.replies[-1][1].refusal.reason == "Corrupt"
    assert world.facts()[-1] == CopyLost(C1, Reason.CORRUPT)


def test_a_found_copy_without_room_is_released_not_hidden() -> None:
    world = NodeWorld(config_of(ssd=2))
    world.step(events.InstanceFound(C1, spec_of("a"), manifest_of("a"), Tier.SSD))
    world.step(events.InstanceFound(C2, spec_of("b"), manifest_of("b"), Tier.SSD))
    assert world.work(ReleaseInstance).instance.copy == C2
    world.step(events.InstanceFound(C1, spec_of("a"), manifest_of("a"), Tier.DRAM))
    assert len(world.running(ReleaseInstance)) == 2
    world.complete_all()
    assert list(world.node.state.copies) == [C1]
    assert len(world.node.state.copies[C1].places) == 1


def test_each_shard_has_its_own_link() -> None:
    world = NodeWorld(config_of(directories=(Peer("directory/0"), Peer("directory/1"))))
    world.tick()
    world.step(registered(incarnation=3))
    world.step(registered(incarnation=8, term=4, shard=1))
    other = copy_id(1, shard=1)
    world.step(orders.Order(1, 4, 8, 1, orders.Free(other)))
    target, report = world.sent[-1]
    assert (target, report) == (Peer("directory/1"), reports.Report(N1, 8, (Freed(other),)))
    world.changes_nothing(orders.Order(1, 4, 3, 2, orders.Free(other)))
