"""Writing (rule 3): one writer, joiners, what exists; the end at the node; writes that are given up."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Awaited, Exists, Joined, Refused, Told
from pinfold.core.commands import Spec
from pinfold.core.ids import HoldId, Reason, Role, State, Tier
from pinfold.core.reports import Sealed

from .directory_world import BLOCK, CLIENT, MANIFEST, N1, N2, N3, OTHER_MANIFEST, World, id_of, spec_of


@pytest.fixture
def world() -> World:
    return World()


def told(world: World, token: str) -> list[Any]:
    return [r.message.answer for r in world.ready.reply if isinstance(r.message, Told) and r.message.token == token]


# ---- who writes ----------------------------------------------------------------------------------------------


def test_create_reserves_room_orders_a_reservation_and_pins_for_the_writer(world: World) -> None:
    created = world.create("A", blocks=3)
    assert (created.node, created.address) == (N1, "node/n1")
    assert world.state.used == {N1: 3}
    (order,) = world.orders(orders.Reserve, N1)
    assert (order.copy, order.spec, order.writer) == (created.copy, spec_of("A", 3), CLIENT)
    assert world.state.holds[created.hold].copy == created.copy
    assert created.copy.revision == created.epoch == world.group("A", 3).epoch


def test_nothing_can_be_read_before_the_seal(world: World) -> None:
    created = world.create("A")
    world.refused(c.Pin(id_of("A")), "NotSealed")
    world.refused(c.Pin(id_of("A"), created.copy), "NotSealed")
    world.refused(c.Ref(id_of("A")), "NotSealed")
    world.refused(c.Move(id_of("A"), N2), "NotSealed")
    world.refused(c.Evict(id_of("A")), "NotSealed")
    assert world.query(c.Locate(CLIENT, "l", (id_of("A"),))).state == State.WRITING


def test_only_the_nodes_seal_makes_a_group_readable_and_gives_it_its_manifest(world: World) -> None:
    created = world.create("A")
    world.sealed(created.copy)
    group = world.group("A")
    assert (group.state, group.manifest) == (State.LOCAL, MANIFEST)
    assert world.role(created.copy) is Role.AUTHORITATIVE
    assert group.epoch > created.epoch


def test_a_second_create_joins_the_writer_and_takes_no_room(world: World) -> None:
    created = world.create("A")
    joined = world.do(c.Create(spec_of("A"), N2), world.open())
    assert joined == Joined(id_of("A"), created.copy, world.state.meta.revision)
    assert world.state.used == {N1: 1}
    assert len(world.state.holds) == 1


def test_create_of_what_exists_pins_it(world: World) -> None:
    copy = world.put("A")
    exists = world.do(c.Create(spec_of("A"), N2))
    assert isinstance(exists, Exists)
    assert exists.route.copy == copy
    assert world.state.holds[exists.hold].copy == copy


def test_the_writers_pin_closes_the_gap_between_seal_and_first_use(world: World) -> None:
    created = world.create("A")
    world.sealed(created.copy)
    world.refused(c.Evict(id_of("A")), "Pinned")
    world.do(c.Unpin(created.hold))
    assert not isinstance(world.do(c.Evict(id_of("A"))), Refused)


def test_create_joins_a_move_that_brings_the_only_copy(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    world.lost(copy)
    assert world.is_in("A", State.MIGRATING_OUT)
    joined = world.do(c.Create(spec_of("A"), N1))
    assert joined == Joined(id_of("A"), move, world.state.meta.revision)


# ---- how writing ends ----------------------------------------------------------------------------------------


def test_the_writers_session_ends_the_write(world: World) -> None:
    other = world.open()
    created = world.create("A", session=other)
    world.step(c.Await(CLIENT, "wait", "readable", id_of("A"), timeout_ms=5_000))
    world.step(c.CloseSession(CLIENT, "close", other))
    assert told(world, "wait") == [
        Awaited(id_of("A"), "gone", int(State.EVICTING), world.group("A").epoch, Reason.WRITE_ENDED)
    ]
    assert world.role(created.copy) is Role.FREEING
    assert [order.copy for order in world.orders(orders.Free, N1)] == [created.copy]
    assert world.state.used == {N1: 1}, "the bytes still count"


def test_the_deadline_ends_the_write_and_tells_the_writer_by_its_hold(world: World) -> None:
    created = world.do(c.Create(spec_of("A"), N1, write_ms=1_000))
    world.advance(1_500)
    assert world.is_in("A", State.EVICTING)
    assert world.group("A").reason is Reason.WRITE_ENDED
    world.refused(c.Unpin(created.hold), "HoldLost")


def test_a_failed_write_ends_the_write(world: World) -> None:
    created = world.create("A")
    world.failed(created.copy, Reason.NO_SPACE)
    assert world.is_in("A", State.EVICTING)


def test_a_write_may_not_ask_for_more_time_than_the_named_limit(world: World) -> None:
    created = world.do(c.Create(spec_of("A"), N1, write_ms=10**9))
    assert world.copy(created.copy).due == world.state.meta.clock_ms + world.config.write_ms


def test_a_late_seal_of_an_ended_write_is_refused(world: World) -> None:
    created = world.create("A")
    world.failed(created.copy)
    world.sealed(created.copy)
    assert world.is_in("A", State.EVICTING)
    assert world.counter("stale_facts") == 1
    world.freed(created.copy)
    world.report(N1, Sealed(created.copy, MANIFEST))
    assert world.is_in("A", State.EVICTED)
    assert world.orders(orders.Free, N1)[-1].copy == created.copy, "an unknown copy is freed"


def test_a_duplicate_seal_changes_nothing(world: World) -> None:
    created = world.create("A")
    world.sealed(created.copy)
    before = world.state.copy()
    world.sealed(created.copy)
    world.sealed(created.copy, OTHER_MANIFEST)
    world.same(before)
    assert world.group("A").manifest == MANIFEST


def test_a_seal_without_a_manifest_hash_is_refused(world: World) -> None:
    """A broken node must not end the directory: COPY-1 would be violated by its word alone."""
    created = world.create("A")
    world.sealed(created.copy, b"")
    assert world.is_in("A", State.WRITING)
    world.sealed(created.copy)
    assert world.is_in("A", State.LOCAL)


def test_a_group_whose_copy_is_freed_may_be_deleted_and_created_again(world: World) -> None:
    world.put("A")
    world.do(c.Evict(id_of("A")))
    copy = world.state.copies[id_of("A")][0].id
    world.freed(copy)
    assert world.is_in("A", State.EVICTED)
    world.tick()
    assert not world.state.groups
    created = world.create("A")
    assert created.copy > copy


# ---- writing again -------------------------------------------------------------------------------------------


def test_a_group_is_created_again_during_its_eviction_and_the_old_copy_is_only_a_list_entry(world: World) -> None:
    old = world.put("A")
    world.do(c.Evict(id_of("A")))
    assert world.is_in("A", State.EVICTING)
    created = world.create("A", N2)
    assert {copy.id: copy.role for copy in world.state.copies[id_of("A")]} == {old: Role.FREEING, created.copy: Role.INCOMING}
    world.sealed(created.copy, OTHER_MANIFEST)
    world.freed(old)
    assert world.is_in("A", State.LOCAL)
    assert [copy.id for copy in world.state.copies[id_of("A")]] == [created.copy]


def test_the_old_writers_late_seal_does_not_touch_the_new_write(world: World) -> None:
    old = world.create("A")
    world.failed(old.copy)
    new = world.create("A", N1)
    world.sealed(old.copy, OTHER_MANIFEST)
    assert world.is_in("A", State.WRITING)
    world.sealed(new.copy)
    assert world.group("A").manifest == MANIFEST


def test_what_is_absent_may_be_created_again_and_never_counts_as_authoritative_again(world: World) -> None:
    old = world.put("A")
    hold = world.pin("A")
    world.lapse(N1)
    created = world.create("A", N2)
    assert world.role(old) is Role.RETIRING
    world.sealed(created.copy, OTHER_MANIFEST)
    world.register(N1)
    assert (world.role(old), world.copy(old).absent) == (Role.RETIRING, False)
    world.do(c.Unpin(hold))
    world.tick(1)
    assert world.role(old) is Role.FREEING
    assert world.role(created.copy) is Role.AUTHORITATIVE


def test_a_copy_of_an_older_content_is_never_adopted_by_a_move(world: World) -> None:
    """BYTES-1. A pinned old copy of other bytes lies at the move's target: it must be copied, not taken over."""
    old = world.put("A")
    hold = world.pin("A")
    world.moved("A", N2, allow_pinned=True)
    world.advance(600)
    assert world.role(old) is Role.RETIRING, "pinned, so it retires late"
    world.do(c.Evict(id_of("A")))
    created = world.create("A", N2)
    world.sealed(created.copy, OTHER_MANIFEST)
    world.do(c.Unpin(created.hold))
    accepted = world.do(c.Move(id_of("A"), N1))
    assert not accepted.done
    assert world.role(old) is Role.RETIRING
    world.done(accepted.move, OTHER_MANIFEST)
    assert world.role(accepted.move) is Role.AUTHORITATIVE
    world.do(c.Unpin(hold))
    world.tick()
    assert world.role(old) is Role.FREEING


def test_an_old_content_at_a_node_does_not_keep_a_replica_away(world: World) -> None:
    world.put("A")
    world.pin("A")
    world.moved("A", N2, allow_pinned=True)
    world.do(c.Evict(id_of("A")))
    created = world.create("A", N2)
    world.sealed(created.copy, OTHER_MANIFEST)
    assert not isinstance(world.do(c.Replicate(id_of("A"), N1)), Refused)


# ---- what is no group ----------------------------------------------------------------------------------------


def changed(name: str, **fields: Any) -> Spec:
    spec = spec_of(name, 2)
    values = {field: getattr(spec, field) for field in ("group", "key", "sizes", "block_ids", "parent")}
    return Spec(**{**values, **fields})


@pytest.mark.parametrize(
    ("spec", "reason", "guard"),
    [
        (changed("A", group=id_of("B", 2)), "BadRequest", "group_id"),
        (changed("A", sizes=(4096,)), "BadRequest", "block_count"),
        (changed("A", block_ids=("A0",)), "BadRequest", "block_count"),
        (changed("A", sizes=(4096, 4097)), "BadRequest", "block_bytes"),
        (changed("A", sizes=(0, 1)), "BadRequest", "block_bytes"),
        (changed("A", sizes=()), "TooLarge", "group_blocks_max"),
        (changed("A", sizes=(1,) * 4_097), "TooLarge", "group_blocks_max"),
    ],
)
def test_what_contradicts_itself_is_no_group(world: World, spec: Spec, reason: str, guard: str) -> None:
    assert world.refused(c.Create(spec), reason).guard == guard
    assert not world.state.groups


def test_the_same_key_with_other_sizes_is_a_layout_mismatch(world: World) -> None:
    world.do(c.Create(spec_of("A", 2)))
    assert world.refused(c.Create(changed("A", sizes=(4096, 100))), "LayoutMismatch").guard == "same_key"


# ---- where it goes -------------------------------------------------------------------------------------------


def test_a_wish_is_granted_where_it_fits_and_another_node_taken_where_not() -> None:
    world = World(N1, N2, capacity=2)
    assert world.create("A", N1, 2).node == N1
    assert world.create("B", N1, 2).node == N2


def test_without_room_a_create_is_refused_and_eviction_begins() -> None:
    world = World(N1, capacity=2)
    copy = world.put("A", blocks=2)
    refusal = world.refused(c.Create(spec_of("B", 1), N1), "NoSpace")
    assert (refusal.row, refusal.guard) == ("EVICTED/CREATE", "has_room")
    assert refusal.retry_after_ms > 0
    world.tick()
    assert world.role(copy) is Role.FREEING
    world.refused(c.Create(spec_of("B", 1), N1), "NoSpace")
    world.freed(copy)
    world.create("B", N1)


@pytest.mark.parametrize("gone", ["lapsed", "draining", "too small", "unknown"])
def test_a_wish_for_a_node_that_can_not_take_it_does_not_keep_room_from_being_made(gone: str) -> None:
    """Pressure that was noted at a place where nothing can be freed would let the caller retry for ever."""
    world = World(N1, N2, capacity=4, high=1000, low=1000)
    wish = N2
    for name in ("A", "B"):
        world.put(name, N1, 2)
    if gone == "lapsed":
        world.lapse(N2)
    elif gone == "draining":
        world.do(c.Drain(N2))
    elif gone == "too small":
        world.register(N2, "b2", capacity=1)
    else:
        wish = N3
        world.lapse(N2)
    world.refused(c.Create(spec_of("C", 3), wish), "NoSpace")
    world.tick()
    assert world.counter("evictions") == 2
    for copies in list(world.state.copies.values()):
        world.freed(copies[0].id)
    assert world.create("C", wish, 3).node == N1


def test_a_wish_for_a_remote_tier_at_a_node_means_its_slowest_local_one(world: World) -> None:
    created = world.do(c.Create(spec_of("A"), N1, Tier.REMOTE_SSD))
    assert world.copy(created.copy).tier is Tier.SSD


def test_holds_of_create_are_numbered_by_the_command(world: World) -> None:
    assert world.create("A").hold == HoldId(world.session, 1, 0)


def test_a_group_that_no_node_takes_is_too_large_at_create_not_at_its_first_write() -> None:
    """A node that can't hold the group in one tier refuses the reserve; the writer would learn of it by a strange refusal."""
    world = World(N1, capacity=64)
    world.register(N1, "b2", capacity=64, group_slots=4)
    world.inventory(N1)
    refusal = world.refused(c.Create(spec_of("A", 5), N1), "TooLarge")
    assert refusal.guard == "group_slots"
    assert world.create("B", N1, 4).node == N1


def test_a_group_goes_to_the_node_that_takes_it() -> None:
    world = World(N1, N2, capacity=64)
    world.register(N1, "b2", capacity=64, group_slots=4)
    world.inventory(N1)
    created = world.create("A", N1, 5)
    assert created.node == N2
    world.sealed(created.copy)
    world.do(c.Unpin(created.hold))
    assert world.refused(c.Move(spec_of("A", 5).group, N1), "TooLarge").guard == "group_slots"


def test_a_group_goes_only_where_its_blocks_fit_the_slots(world: World) -> None:
    """A node tells what its slots hold; whoever asks for what no node can hold learns it at once, and why."""
    world = World(N1, N2, capacity=64, placement="round_robin")
    world.register(N1, "b2", capacity=64, block_bytes=BLOCK - 1)
    for name in "ABC":
        assert world.create(name, N1).node == N2
    world.put("D", N2)
    for body in (c.Move(id_of("D"), N1), c.Replicate(id_of("D"), N1)):
        refusal = world.refused(body, "TooLarge")
        assert (refusal.guard, str(BLOCK - 1) in refusal.detail) == ("block_bytes", True)
    world.do(c.Drain(N2))
    world.tick()
    assert not world.orders(orders.Fetch, N1)
    world.restart()
    assert world.state.nodes[N1].block_bytes == BLOCK - 1
    world.register(N2, "b3", capacity=64, block_bytes=BLOCK - 1)
    for name in (N1, N2):
        world.beat(name)
        world.inventory(name)
    assert world.refused(c.Create(spec_of("E")), "TooLarge").guard == "block_bytes"
    assert not world.state.pressure
    world.register(N1, "b2", capacity=64, block_bytes=BLOCK)
    assert world.create("E").node == N1


def test_slots_of_unknown_size_take_any_block(world: World) -> None:
    assert world.state.nodes[N1].block_bytes == 0
    assert world.create("A", N1).node == N1
