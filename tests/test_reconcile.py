"""Level-triggered repair (rules 7 and 8): what inventories and scans may change, and what they may not (INV-1)."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.ids import CopyId, Reason, Role, State, Tier
from pinfold.core.reports import Condition, Inventory

from .directory_world import MANIFEST, N1, N2, OTHER_MANIFEST, World, entry, id_of


@pytest.fixture
def world() -> World:
    return World()


# ---- presence ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stale", ["number", "term"])
def test_presence_always_counts(world: World, stale: str) -> None:
    """CopyDone was lost; an inventory says the same, however old it is: what is verified stays verified."""
    world.put("A")
    move = world.move("A")
    created = world.create("B", N2)
    if stale == "number":
        world.inventory(N2, [entry(move), entry(created.copy, manifest=OTHER_MANIFEST)], number=0)
    else:
        world.restart()
        world.inventory(N2, [entry(move), entry(created.copy, manifest=OTHER_MANIFEST)], term=1)
    assert world.role(move) is Role.AUTHORITATIVE
    assert world.is_in("B", State.LOCAL)
    assert world.group("B").manifest == OTHER_MANIFEST


def test_presence_with_other_bytes_than_the_record_s_is_a_failed_copy_or_a_lost_one(world: World) -> None:
    world.put("A")
    move = world.move("A")
    world.inventory(N2, [entry(move, manifest=OTHER_MANIFEST)])
    assert world.is_in("A", State.LOCAL)
    assert world.role(move) is Role.FREEING
    other = world.put("B")
    world.inventory(N1, [*(e for e in world.entries(N1) if e.copy != other), entry(other, manifest=OTHER_MANIFEST)])
    assert world.group("B").reason is Reason.LOST


def test_presence_brings_back_an_absent_copy(world: World) -> None:
    copy = world.put("A")
    world.lapse(N1)
    world.register(N1, ready=False)
    assert world.copy(copy).absent
    world.inventory(N1, [entry(copy)], number=0)
    assert not world.copy(copy).absent


def test_a_tier_in_an_inventory_is_a_hint_that_is_not_persisted(world: World) -> None:
    copy = world.put("A")
    world.inventory(N1, [reports.InventoryEntry(copy, Condition.VERIFIED, MANIFEST, Tier.SSD, 1)])
    assert world.ready.persist == ()
    assert world.do(c.Pin(id_of("A"))).route.tier is Tier.SSD
    world.report(N1, reports.TierChanged(copy, Tier.DRAM))
    assert world.do(c.Pin(id_of("A"))).route.tier is Tier.DRAM


# ---- absence -------------------------------------------------------------------------------------------------


def test_absence_before_the_last_order_about_a_copy_says_nothing(world: World) -> None:
    """The inventory was taken before the Fetch, CopyDone overtook it: the group must not be declared lost (finding 3)."""
    world.put("A")
    taken = world.state.numbers.get(N2, 0)
    move = world.move("A")
    world.done(move)
    world.inventory(N2, [], number=taken)
    assert world.role(move) is Role.AUTHORITATIVE


def test_an_order_that_was_not_taken_is_sent_again_under_a_new_number(world: World) -> None:
    created = world.create("A")
    world.inventory(N1, [], number=0)
    assert world.is_in("A", State.WRITING)
    sent = [m for t, m in world.sent if isinstance(m, orders.Order) and isinstance(m.body, orders.Reserve)]
    assert [(order.body.copy, order.number) for order in sent] == [(created.copy, 1), (created.copy, 2)]


def test_a_free_that_was_not_taken_is_sent_again(world: World) -> None:
    copy = world.put("A")
    world.do(c.Evict(id_of("A")))
    world.inventory(N1, [entry(copy)], number=1)
    world.inventory(N1, [entry(copy)])
    assert world.orders(orders.Free, N1) == [orders.Free(copy)] * 3
    world.inventory(N1, [entry(copy, Condition.FREEING)])
    assert len(world.orders(orders.Free, N1)) == 3, "it is being freed: a guard is waited for"
    assert world.role(copy) is Role.FREEING


@pytest.mark.parametrize("term", [0, 1])
def test_absence_in_another_term_says_nothing(world: World, term: int) -> None:
    copy = world.put("A")
    world.restart()
    world.inventory(N1, [], term=term, number=100)
    assert world.role(copy) is Role.AUTHORITATIVE
    assert not world.state.links[N1].ready


def test_absence_that_counts_is_a_loss_of_what_was_readable(world: World) -> None:
    copy = world.put("A")
    hold = world.pin("A")
    world.inventory(N1, [])
    assert world.role(copy) is None
    assert world.group("A").reason is Reason.LOST
    world.refused(c.Unpin(hold), "HoldLost")


def test_absence_that_counts_ends_what_was_going(world: World) -> None:
    copy = world.put("A")
    world.do(c.Evict(id_of("A")))
    world.inventory(N1, [])
    assert world.is_in("A", State.EVICTED)
    assert world.role(copy) is None


def test_absence_that_counts_ends_what_was_coming(world: World) -> None:
    world.put("A")
    move = world.move("A")
    created = world.create("B", N2)
    world.inventory(N2, [])
    assert world.is_in("A", State.LOCAL)
    assert world.role(move) is None
    assert world.is_in("B", State.EVICTED)
    world.refused(c.Unpin(created.hold), "HoldLost")


def test_a_readable_copy_that_its_node_is_freeing_is_lost(world: World) -> None:
    copy = world.put("A")
    world.inventory(N1, [entry(copy, Condition.FREEING)], number=0)
    assert world.role(copy) is Role.AUTHORITATIVE, "taken before the order that made it"
    world.inventory(N1, [entry(copy, Condition.FREEING)])
    assert world.role(copy) is None
    assert world.orders(orders.Free, N1) == []


def test_an_inventory_from_before_the_verification_loses_nothing(world: World) -> None:
    """The report of the verification has overtaken it: no order has come in between, so no number tells."""
    copy = world.put("A")
    world.inventory(N1, [entry(copy, Condition.RESERVED)])
    assert world.role(copy) is Role.AUTHORITATIVE
    assert world.orders(orders.Free, N1) == []


def test_a_reserved_copy_is_what_a_copy_in_the_making_looks_like(world: World) -> None:
    world.put("A")
    move = world.move("A")
    before = world.state.copy()
    world.inventory(N2, [entry(move, Condition.RESERVED)])
    world.same(before)


def test_an_incoming_copy_that_its_node_is_freeing_will_not_come(world: World) -> None:
    world.put("A")
    move = world.move("A")
    world.inventory(N2, [entry(move, Condition.FREEING)])
    assert world.is_in("A", State.LOCAL)


# ---- parts ---------------------------------------------------------------------------------------------------


def part(world: World, number: int, of: int, *entries: reports.InventoryEntry, snapshot: int = 50, taken: int = 100) -> None:
    world.step(Inventory(N1, world.incarnation(N1), world.state.meta.term, taken, snapshot, number, of, entries))


def test_an_inventory_in_parts_counts_when_it_is_whole_in_any_order_and_with_duplicates(world: World) -> None:
    copies = [world.put(name) for name in "ABC"]
    part(world, 2, 3, entry(copies[2]))
    part(world, 2, 3, entry(copies[2]))
    part(world, 0, 3)
    assert all(world.role(copy) is Role.AUTHORITATIVE for copy in copies)
    part(world, 1, 3, entry(copies[1]))
    assert [world.role(copy) for copy in copies] == [None, Role.AUTHORITATIVE, Role.AUTHORITATIVE]


def test_parts_of_two_snapshots_are_never_put_together(world: World) -> None:
    copies = [world.put(name) for name in "AB"]
    part(world, 0, 2, entry(copies[0]), snapshot=50)
    part(world, 1, 2, entry(copies[1]), snapshot=51)
    part(world, 1, 2, snapshot=50)
    assert all(world.role(copy) is Role.AUTHORITATIVE for copy in copies)
    part(world, 0, 2, entry(copies[0]), snapshot=51)
    assert all(world.role(copy) is Role.AUTHORITATIVE for copy in copies)


def test_a_late_part_of_an_earlier_snapshot_does_not_take_the_place_of_a_later_one(world: World) -> None:
    copies = [world.put(name) for name in "AB"]
    part(world, 0, 2, entry(copies[0]), snapshot=51)
    part(world, 0, 2, snapshot=50)
    part(world, 1, 2, entry(copies[1]), snapshot=51)
    assert all(world.role(copy) is Role.AUTHORITATIVE for copy in copies)
    assert N1 not in world.state.arriving, "what is whole is not kept"
    part(world, 0, 2, snapshot=50)
    assert N1 in world.state.arriving, "and what comes after it begins anew"


def test_parts_of_an_earlier_registration_are_forgotten(world: World) -> None:
    copy = world.put("A")
    part(world, 0, 2)
    world.lapse(N1)
    assert N1 not in world.state.arriving
    world.register(N1, ready=False)
    part(world, 1, 2)
    assert world.role(copy) is Role.AUTHORITATIVE


@pytest.mark.parametrize(("number", "of"), [(0, 0), (2, 2), (-1, 2), (0, 5_000)])
def test_an_impossible_part_is_dropped(world: World, number: int, of: int) -> None:
    copy = world.put("A")
    part(world, number, of)
    assert world.role(copy) is Role.AUTHORITATIVE
    assert world.counter("bad_inventories") == 1
    assert not world.state.arriving


# ---- unknown copies ------------------------------------------------------------------------------------------


def test_an_unknown_copy_is_freed_if_it_is_not_newer_than_the_directory(world: World) -> None:
    world.put("A")
    stray = CopyId(0, 1, 0)
    world.inventory(N1, [*world.entries(N1), entry(stray)])
    assert world.orders(orders.Free, N1) == [orders.Free(stray)]
    world.inventory(N1, [*world.entries(N1), entry(stray, Condition.FREEING)])
    assert len(world.orders(orders.Free, N1)) == 1


def test_a_copy_that_is_another_node_s_is_freed_where_it_does_not_belong(world: World) -> None:
    copy = world.put("A", N1)
    world.inventory(N2, [entry(copy)])
    assert world.orders(orders.Free, N2) == [orders.Free(copy)]
    assert world.role(copy) is Role.AUTHORITATIVE


def test_copies_of_other_shards_are_none_of_this_directory_s_business(world: World) -> None:
    world.inventory(N1, [entry(CopyId(3, 10_000, 0))])
    world.report(N1, reports.Sealed(CopyId(3, 10_000, 0), MANIFEST))
    assert world.orders(orders.Free) == []
    assert not world.state.halted


def test_what_an_inventory_decides_does_not_make_a_newer_copy_look_old() -> None:
    """The loss of one copy raises the revision to that of another, of which the old store knows nothing: it is not freed."""
    world = World()
    world.put("A")
    newer = CopyId(0, world.state.meta.revision + 1, 0)
    world.inventory(N1, [entry(newer)])
    assert world.state.halted
    assert world.orders(orders.Free) == []
    assert world.is_in("A", State.LOCAL)


@pytest.mark.parametrize("by", ["inventory", "seal", "copy done"])
def test_a_copy_newer_than_the_store_stops_the_directory(world: World, by: str) -> None:
    """An old backup would free everything as orphans (finding 10)."""
    newer = CopyId(0, world.state.meta.revision + 1, 0)
    if by == "inventory":
        world.inventory(N1, [entry(newer)])
    else:
        world.report(N1, (reports.Sealed if by == "seal" else reports.CopyDone)(newer, MANIFEST))
    assert world.state.halted.startswith("StoreRegressed")
    assert world.orders(orders.Free) == []
    revision = world.state.meta.revision
    ready = world.directory.step(world.command(c.Evict(id_of("A"))), world.now)
    assert (ready.persist, ready.send, ready.reply, ready.alarm) == ((), (), (), None)
    assert world.state.meta.revision == revision


def test_a_stored_backup_of_before_meets_a_copy_of_after_and_frees_nothing() -> None:
    world = World()
    backup = world.store.copy()
    copy = world.put("A")
    world.store = backup
    world.restart()
    world.beat(N1, 0)
    world.inventory(N1, [entry(copy)])
    assert world.state.halted
    assert world.orders(orders.Free) == []


# ---- reports -------------------------------------------------------------------------------------------------


def test_a_stale_fact_is_counted_and_those_after_it_in_the_same_report_are_taken(world: World) -> None:
    created = world.create("A", N1)
    world.report(N1, reports.Freed(CopyId(0, 1, 9)), reports.Sealed(created.copy, MANIFEST))
    assert world.is_in("A", State.LOCAL)
    assert world.counter("stale_facts") == 1
    world.report(N1, reports.TierChanged(created.copy, Tier.SSD))
    assert world.counter("stale_facts") == 1


def test_what_a_node_frees_is_lost_unless_it_was_to_be_freed(world: World) -> None:
    copy = world.put("A")
    world.freed(copy)
    assert world.state.groups.get(id_of("A")) is None or world.group("A").reason is Reason.LOST
    first = world.put("B")
    world.replica("B", N2)
    world.do(c.Evict(id_of("B")))
    asked = world.group("B").reason
    assert asked is not Reason.LOST
    world.freed(first)
    assert world.group("B").reason is asked
    (second,) = world.state.copies[id_of("B")]
    assert second.role is Role.FREEING


def test_the_absence_of_what_was_to_be_freed_is_no_loss(world: World) -> None:
    copy = world.put("A")
    world.replica("A", N2)
    world.do(c.Evict(id_of("A")))
    asked = world.group("A").reason
    world.inventory(N1, [])
    assert world.role(copy) is None
    assert world.group("A").reason is asked
    assert asked is not Reason.LOST


def test_local_moves_are_counted_by_where_they_go_and_returns_are_counted(world: World) -> None:
    copy = world.put("A")
    for tier in (Tier.SSD, Tier.SSD, Tier.DRAM):
        world.report(N1, reports.TierChanged(copy, tier))
    assert (world.counter("demotions"), world.counter("promotions")) == (1, 1)
    world.lapse(N1)
    world.register(N1, ready=False)
    world.inventory(N1, [entry(copy)])
    assert world.counter("returns") == 1


def test_an_inventory_leaves_what_the_last_heartbeat_told(world: World) -> None:
    world.step(reports.Heartbeat(N1, world.incarnation(N1), 1, 0, stuck=("guard 7",)))
    world.inventory(N1)
    assert world.state.links[N1].stuck == ("guard 7",)
