"""Remote stores (rule 8): a steward frees their objects and scans them; what counts, and what is garbage."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.ids import CopyId, NodeName, Reason, Role, State

from .directory_world import N1, N2, STORE, World, id_of


@pytest.fixture
def remote() -> World:
    """Group A lies in the store, and a scan has been ordered of its steward, n1."""
    world = World(N1, N2, stores=10, scan_ms=5_000, repair_ms=1_000)
    copy = world.put("A")
    world.moved("A", STORE)
    world.advance(600)
    world.freed(copy)
    world.advance(5_500)
    return world


def scan(world: World, *objects: CopyId, node: NodeName = N1, term: int = 0, number: int = 0) -> None:
    last = world.state.scans[STORE]
    fact = reports.StoreScanned(STORE, term or world.state.meta.term, number or last.number, objects)
    world.report(node, fact)


def stored(world: World) -> CopyId:
    (copy,) = world.state.copies[id_of("A")]
    return copy.id


def test_a_scan_is_ordered_of_one_steward_from_time_to_time(remote: World) -> None:
    scans = len(remote.orders(orders.Scan))
    assert len(remote.orders(orders.Scan, N1)) == scans
    scan(remote, stored(remote))
    remote.advance(4_000)
    assert len(remote.orders(orders.Scan)) == scans, "the interval, not the answer, decides"
    remote.advance(2_000)
    assert len(remote.orders(orders.Scan)) == scans + 1


def test_an_object_in_no_record_that_is_older_than_the_scan_is_garbage(remote: World) -> None:
    stray = CopyId(0, 2, 0)
    scan(remote, stored(remote), stray)
    assert remote.orders(orders.FreeObject)[-1] == orders.FreeObject(stray, STORE)
    assert remote.is_in("A", State.REMOTE)


def test_an_object_as_old_as_the_scan_is_garbage_and_counted(remote: World) -> None:
    stray = CopyId(0, remote.state.scans[STORE].revision, 9)
    scan(remote, stored(remote), stray)
    assert remote.orders(orders.FreeObject)[-1] == orders.FreeObject(stray, STORE)
    assert remote.counter("garbage_objects") == 1


def test_a_list_of_as_many_objects_as_a_scan_may_have_counts_and_a_longer_one_does_not() -> None:
    world = World(N1, N2, stores=10, scan_ms=5_000, repair_ms=1_000, scan_objects_max=2)
    strays = [CopyId(0, 1, at) for at in range(1, 4)]
    world.advance(5_500)
    scan(world, *strays)
    assert (world.counter("stale_scans"), world.counter("garbage_objects")) == (1, 0)
    scan(world, *strays[:2])
    assert (world.counter("stale_scans"), world.counter("garbage_objects")) == (1, 2)


def test_a_freed_object_that_is_missing_has_gone_also_if_nothing_was_ordered_since_the_start(remote: World) -> None:
    copy = stored(remote)
    remote.do(c.Evict(id_of("A")))
    assert remote.role(copy) is Role.FREEING
    remote.restart()
    remote.renew()
    for name in (N1, N2):
        remote.inventory(name)
    remote.state.ordered.pop(copy, None)
    remote.advance(5_500)
    remote.state.ordered.pop(copy, None)
    scan(remote)
    assert remote.role(copy) is None


def test_an_object_that_is_younger_than_the_scan_is_not_touched(remote: World) -> None:
    """A write that began after the scan: its record may not be in our hands yet, or already gone."""
    number, revision = remote.state.scans[STORE].number, remote.state.scans[STORE].revision
    remote.put("B")
    young = CopyId(0, revision + 1, 0)
    before = len(remote.orders(orders.FreeObject))
    scan(remote, stored(remote), young, number=number)
    assert len(remote.orders(orders.FreeObject)) == before


def test_an_object_newer_than_the_directory_stops_it(remote: World) -> None:
    scan(remote, CopyId(0, remote.state.meta.revision + 1, 0))
    assert remote.state.halted.startswith("StoreRegressed")


def test_an_object_that_is_missing_from_a_scan_is_lost(remote: World) -> None:
    scan(remote)
    assert remote.group("A").reason is Reason.LOST


def test_an_object_that_was_stored_after_the_scan_was_ordered_is_not_lost_by_it(remote: World) -> None:
    remote.put("B")
    later = remote.moved("B", STORE)
    scan(remote, stored(remote))
    assert remote.role(later) is Role.AUTHORITATIVE


def test_a_freed_object_that_is_missing_from_a_scan_has_gone(remote: World) -> None:
    copy = stored(remote)
    remote.do(c.Evict(id_of("A")))
    scan(remote)
    assert remote.role(copy) is Role.FREEING, "its Free is younger than the scan"
    scans = len(remote.orders(orders.Scan))
    while len(remote.orders(orders.Scan)) == scans:
        remote.advance(500)
    scan(remote)
    assert remote.role(copy) is None


@pytest.mark.parametrize("late", ["number", "term", "node", "second", "store"])
def test_a_scan_that_is_not_the_one_ordered_last_counts_for_nothing(remote: World, late: str) -> None:
    """The same number means another order in another term or at another steward: a listing of before must not be read as one
    of after."""
    copy = stored(remote)
    if late == "number":
        scan(remote, number=remote.state.scans[STORE].number - 1)
    elif late == "term":
        remote.restart()
        for name in (N1, N2):
            remote.beat(name, 0)
            remote.inventory(name)
        remote.tick(1)
        assert remote.state.scans[STORE].node == N1
        scan(remote, term=1)
    elif late == "node":
        scan(remote, node=N2)
    elif late == "second":
        scan(remote, copy)
        scan(remote)
    else:
        remote.report(N1, reports.StoreScanned(N2, 1, 1, ()))
    assert remote.role(copy) is Role.AUTHORITATIVE
    assert remote.counter("stale_scans") == 1


def test_the_order_to_free_an_object_is_repeated_until_it_has_gone(remote: World) -> None:
    copy = stored(remote)
    remote.do(c.Evict(id_of("A")))
    before = len(remote.orders(orders.FreeObject))
    remote.advance(3_000)
    assert len(remote.orders(orders.FreeObject)) >= before + 2
    remote.report(N1, reports.Freed(copy))
    assert remote.is_in("A", State.EVICTED)


def test_another_steward_takes_over_when_the_first_lapses(remote: World) -> None:
    copy = stored(remote)
    remote.lapse(N1)
    remote.do(c.Evict(id_of("A")))
    assert remote.orders(orders.FreeObject, N2) == [orders.FreeObject(copy, STORE)]
    remote.report(N2, reports.Freed(copy))
    assert remote.role(copy) is None
