"""Who follows a lost owner: an old copy of the present content stays while nothing else can be read, and is promoted (C38)."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Created, EvictAccepted
from pinfold.core.ids import CopyId, Reason, Role, State

from .directory_world import MANIFEST, N1, N2, N3, OTHER_MANIFEST, STORE, World, entry, id_of, spec_of
from .test_migration import roles

GRACE = 5_000
"""Longer than a lease: a silent death is noticed while the old bytes are there. Where it is shorter, they outlive losses that are
told or that a new boot shows."""


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3, stores=100, absent_limit_ms=10_000, grace_ms=GRACE)


def moved(world: World) -> tuple[CopyId, CopyId]:
    """A is at n2, and what n1 has of it retires."""
    return world.put("A"), world.moved("A")


def test_if_the_new_owner_loses_it_within_the_grace_the_old_one_s_bytes_are_promoted(world: World) -> None:
    old, new = moved(world)
    hold = world.ref("A")
    epoch = world.group("A").epoch
    world.lost(new)
    assert world.is_in("A", State.LOCAL)
    assert roles(world) == {old: Role.AUTHORITATIVE}
    assert world.copy(old).due == 0
    assert world.group("A").epoch > epoch
    assert not world.state.holds[hold].lost
    world.advance(2 * GRACE)
    assert world.do(c.Pin(id_of("A"))).route.copy == old


def test_while_the_new_owner_is_away_they_stay_and_are_promoted_at_the_limit(world: World) -> None:
    old, new = moved(world)
    ref = world.ref("A")
    world.lapse(N2)
    world.advance(5_000)
    assert roles(world) == {old: Role.RETIRING, new: Role.AUTHORITATIVE}
    world.refused(c.Pin(id_of("A")), "Unreadable")
    world.advance(6_000)
    assert roles(world) == {old: Role.AUTHORITATIVE}
    assert not world.state.holds[ref].lost
    world.pin("A")


def test_a_restart_of_the_directory_keeps_them_too(world: World) -> None:
    old, _ = moved(world)
    world.lapse(N2)
    world.restart()
    for name in (N1, N3):
        world.beat(name)
        world.inventory(name)
    world.advance(11_000)
    assert roles(world) == {old: Role.AUTHORITATIVE}


def test_when_the_new_owner_is_back_they_go_and_until_then_nobody_asks_for_ticks(world: World) -> None:
    old, new = moved(world)
    world.lapse(N2)
    world.advance(GRACE)
    assert world.ready.alarm is not None
    assert world.ready.alarm > world.now + 100
    world.register(N2)
    assert world.ready.alarm == world.now
    world.tick()
    assert roles(world) == {old: Role.FREEING, new: Role.AUTHORITATIVE}


def test_both_may_be_away_and_the_old_one_be_back_in_time(world: World) -> None:
    """The next time nobody is: the loss is said."""
    old, _ = moved(world)
    ref = world.ref("A")
    world.lapse(N1)
    world.lapse(N2)
    world.advance(3_000)
    world.register(N1)
    assert world.role(old) is Role.RETIRING
    world.advance(8_000)
    assert roles(world) == {old: Role.AUTHORITATIVE}
    world.lapse(N1)
    world.advance(11_000)
    world.refused(c.Unref(ref), "HoldLost")
    assert id_of("A") not in world.state.groups


def test_whoever_writes_it_again_ends_the_wait(world: World) -> None:
    old, new = moved(world)
    world.lapse(N2)
    created = world.do(c.Create(spec_of("A"), N3))
    assert isinstance(created, Created)
    world.advance(GRACE)
    assert world.role(old) is Role.FREEING
    world.sealed(created.copy, OTHER_MANIFEST)
    world.lost(created.copy)
    assert world.role(new) is Role.RETIRING
    assert world.role(old) is Role.FREEING
    assert world.is_in("A", State.EVICTING)


def test_old_bytes_that_a_reader_pins_are_not_promoted_in_place_of_new_ones(world: World) -> None:
    old, _ = moved(world)
    pin = world.do(c.Pin(id_of("A"))).hold
    assert world.state.holds[pin].copy != old
    world.lapse(N2)
    created = world.do(c.Create(spec_of("A"), N3))
    world.sealed(created.copy, OTHER_MANIFEST)
    world.register(N2)
    world.lost(created.copy)
    assert world.is_in("A", State.EVICTING)
    assert Role.AUTHORITATIVE not in roles(world).values()


def test_an_evict_ends_the_wait(world: World) -> None:
    old, _ = moved(world)
    world.lapse(N2)
    assert isinstance(world.do(c.Evict(id_of("A"))), EvictAccepted)
    assert roles(world) == {old: Role.FREEING}


def test_a_pinned_group_that_was_evicted_stays_so_whatever_is_lost(world: World) -> None:
    old = world.put("A")
    world.pin("A")
    world.do(c.Move(id_of("A"), N2, allow_pinned=True))
    new = world.group("A").target
    world.done(new)
    assert isinstance(world.do(c.Evict(id_of("A"))), EvictAccepted)
    assert roles(world) == {old: Role.RETIRING, new: Role.FREEING}
    world.freed(new)
    assert roles(world) == {old: Role.RETIRING}
    assert world.is_in("A", State.EVICTING)


def test_a_replica_goes_before_what_retires(world: World) -> None:
    old, new = moved(world)
    replica = world.replica("A", N3)
    world.lost(new)
    assert roles(world) == {old: Role.RETIRING, replica: Role.AUTHORITATIVE}
    world.advance(GRACE)
    assert world.role(old) is Role.FREEING


def test_a_store_s_copy_that_retires_is_promoted_as_the_remote_one(world: World) -> None:
    world.put("A")
    stored = world.moved("A", STORE)
    world.advance(GRACE)
    back = world.moved("A", N2)
    assert world.is_in("A", State.LOCAL)
    world.lost(back)
    assert world.is_in("A", State.REMOTE)
    assert roles(world)[stored] is Role.AUTHORITATIVE


def test_the_next_move_aborts_as_it_would_for_a_replica(world: World) -> None:
    old, new = moved(world)
    world.advance(300)
    third = world.move("A", N3)
    world.lost(new)
    assert world.is_in("A", State.LOCAL)
    assert roles(world) == {old: Role.AUTHORITATIVE, third: Role.FREEING}


def test_a_move_that_goes_on_alone_leaves_what_has_come_back_to_its_failure(world: World) -> None:
    """The old bytes were away when the source was lost; they are back before the move fails."""
    old, new = moved(world)
    world.lapse(N1)
    move = world.move("A", N3)
    world.lost(new)
    assert world.is_in("A", State.MIGRATING_OUT)
    world.register(N1)
    world.advance(2_000)
    assert world.role(old) is Role.RETIRING
    world.failed(move)
    assert world.is_in("A", State.LOCAL)
    assert roles(world) == {old: Role.AUTHORITATIVE, move: Role.FREEING}


def test_a_move_that_goes_on_alone_and_commits_lets_them_go(world: World) -> None:
    old, new = moved(world)
    world.lapse(N1)
    move = world.move("A", N3)
    world.lost(new)
    world.register(N1)
    world.done(move)
    world.tick()
    assert roles(world) == {old: Role.FREEING, move: Role.AUTHORITATIVE}


def test_a_replica_that_a_drain_drops_while_the_owner_is_away_stays_for_it(world: World) -> None:
    owner = world.put("A", N2)
    replica = world.replica("A", N1)
    world.lapse(N2)
    world.do(c.Drain(N1))
    world.advance(2_000)
    assert roles(world) == {owner: Role.AUTHORITATIVE, replica: Role.RETIRING}
    world.advance(10_000)
    assert roles(world)[replica] is not Role.FREEING
    assert owner not in roles(world)
    assert world.group("A").state in (State.LOCAL, State.MIGRATING_OUT)


def test_other_bytes_under_a_retiring_id_are_no_heir(world: World) -> None:
    old, new = moved(world)
    world.lapse(N1)
    world.register(N1, ready=False)
    world.inventory(N1, [entry(old, manifest=OTHER_MANIFEST)])
    assert world.role(old) is None
    world.lost(new)
    assert id_of("A") not in world.state.groups or world.group("A").reason is Reason.LOST


def test_older_bytes_that_return_under_a_pin_keep_their_place(world: World) -> None:
    """They are another content, which is no damage."""
    old = world.put("A")
    world.pin("A")
    world.lapse(N1)
    created = world.do(c.Create(spec_of("A"), N2))
    world.sealed(created.copy, OTHER_MANIFEST)
    world.register(N1, ready=False)
    world.inventory(N1, [entry(old, manifest=MANIFEST)])
    assert roles(world) == {old: Role.RETIRING, created.copy: Role.AUTHORITATIVE}


def test_what_stays_is_not_counted_as_room_that_comes_by_itself() -> None:
    """Two slots, one of them kept for an owner who is away: whoever wants one gets the other's."""
    world = World(N1, N2, capacity=2, high=1000, low=1000, grace_ms=GRACE)
    old, _ = moved(world)
    other = world.put("B", N1)
    world.lapse(N2)
    world.advance(GRACE)
    world.refused(c.Create(spec_of("C"), N1), "NoSpace")
    world.tick()
    assert world.role(old) is Role.RETIRING
    assert world.role(other) is Role.FREEING


def test_the_last_orders_of_a_promoted_copy_are_none() -> None:
    world = World(N1, N2)
    old, new = moved(world)
    world.register(N2, boot="b2", ready=False)
    world.inventory(N2, ())
    world.advance(3_000)
    assert new not in roles(world)
    assert orders.Free(old) not in world.orders(orders.Free)
