"""Moves and replicas (rules 4 and 5): all or nothing, the commit point, and every way in which a move may end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.answers import MoveAccepted, MoveCancelled
from pinfold.core.ids import NO_COPY, Cause, CopyId, MovePolicy, NodeName, Reason, Role, State

from .directory_world import MANIFEST, N1, N2, N3, OTHER_MANIFEST, STORE, World, id_of


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3, stores=100)


def roles(world: World, name: str = "A") -> dict[CopyId, Role]:
    return {copy.id: copy.role for copy in world.state.copies[id_of(name)]}


# ---- the happy path ------------------------------------------------------------------------------------------


def test_a_move_begins_with_a_new_epoch_counted_space_and_then_the_order(world: World) -> None:
    copy = world.put("A")
    before = world.group("A").epoch
    accepted = world.do(c.Move(id_of("A"), N2, cause=Cause.BALANCE))
    assert isinstance(accepted, MoveAccepted)
    assert not accepted.done
    group = world.group("A")
    assert (group.state, group.source, group.target) == (State.MIGRATING_OUT, copy, accepted.move)
    assert group.epoch == accepted.epoch > before
    assert group.cause is Cause.BALANCE
    assert world.state.used == {N1: 1, N2: 1}
    (order,) = world.orders(orders.Fetch, N2)
    assert (order.copy, order.source_copy, order.source, order.source_address) == (accepted.move, copy, N1, "node/n1")
    assert order.manifest == MANIFEST
    assert {write[0] for write in world.ready.persist} == {"groups", "answers", "meta"}


def test_copy_done_is_the_commit_point_and_the_source_retires_late(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    begun = world.group("A").epoch
    world.done(move)
    assert roles(world) == {copy: Role.RETIRING, move: Role.AUTHORITATIVE}
    assert world.group("A").epoch > begun
    assert world.orders(orders.Free) == [], "holders of old routes have the grace period"
    world.advance(600)
    assert world.role(copy) is Role.FREEING
    assert world.orders(orders.Free) == [orders.Free(copy)]
    assert world.state.used == {N1: 1, N2: 1}
    world.freed(copy)
    assert world.state.used == {N2: 1}


def test_nothing_else_about_the_group_needs_to_match_at_the_commit(world: World) -> None:
    """A replica, a hold or a return in between must not kill a move (finding 18)."""
    world.put("A")
    move = world.move("A", N2, expected_epoch=world.group("A").epoch)
    world.replica("A", N3)
    world.pin("A")
    world.ref("A")
    world.lapse(N1)
    world.register(N1)
    world.done(move)
    assert world.role(move) is Role.AUTHORITATIVE


def test_a_move_to_the_store_is_worked_by_the_owner(world: World) -> None:
    copy = world.put("A")
    move = world.move("A", STORE)
    (order,) = world.orders(orders.Spill, N1)
    assert (order.copy, order.source_copy, order.store) == (move, copy, STORE)
    world.done(move)
    assert world.is_in("A", State.REMOTE)
    route = world.pin("A")
    assert world.state.holds[route].copy == move


def test_a_group_is_pulled_in_from_the_store_and_the_object_is_freed_by_the_steward(world: World) -> None:
    world.put("A")
    stored = world.moved("A", STORE)
    world.advance(600)
    move = world.move("A", N2)
    assert world.is_in("A", State.MIGRATING_IN)
    (order,) = world.orders(orders.Fetch, N2)
    assert (order.source, order.source_address) == (STORE, "")
    world.done(move)
    assert world.is_in("A", State.LOCAL)
    world.advance(600)
    assert world.orders(orders.FreeObject, N1)[-1] == orders.FreeObject(stored, STORE)
    world.report(N1, reports.Freed(stored))
    assert world.role(stored) is None
    assert STORE not in world.state.used


# ---- refusals ------------------------------------------------------------------------------------------------


def test_a_pinned_group_moves_only_where_that_is_allowed_and_then_retires_late(world: World) -> None:
    copy = world.put("A")
    hold = world.pin("A")
    refusal = world.refused(c.Move(id_of("A"), N2), "Pinned")
    assert (refusal.row, refusal.guard, refusal.holder) == ("LOCAL/MOVE/INCOMING", "unpinned_or_allowed", f"{hold} on {copy}")
    world.moved("A", N2, allow_pinned=True)
    world.advance(5_000)
    assert world.role(copy) is Role.RETIRING
    world.do(c.Unpin(hold))
    assert world.ready.alarm == world.now
    world.tick()
    assert world.role(copy) is Role.FREEING


def test_a_move_under_an_expected_epoch_that_has_passed_is_refused(world: World) -> None:
    world.put("A")
    epoch = world.group("A").epoch
    world.refused(c.Move(id_of("A"), N2, expected_epoch=epoch - 1), "StaleEpoch")
    world.refused(c.Evict(id_of("A"), expected_epoch=epoch - 1), "StaleEpoch")
    world.move("A", N2, expected_epoch=epoch)


def test_a_second_move_is_refused_and_names_the_first(world: World) -> None:
    world.put("A")
    move = world.move("A")
    assert world.refused(c.Move(id_of("A"), N3), "MoveInProgress").holder == f"move {move}"


def test_a_move_to_where_it_is_or_is_coming_is_refused(world: World) -> None:
    world.put("A")
    world.refused(c.Move(id_of("A"), N1), "AlreadyThere")
    world.do(c.Replicate(id_of("A"), N2))
    world.refused(c.Move(id_of("A"), N2), "AlreadyThere")


def test_a_move_without_room_is_refused_and_makes_room_at_the_target() -> None:
    world = World(N1, N2, capacity=1)
    world.put("A", N1)
    other = world.put("B", N2)
    world.refused(c.Move(id_of("A"), N2), "NoSpace")
    world.tick()
    assert world.role(other) is Role.FREEING


def test_a_move_to_nowhere_is_refused(world: World) -> None:
    world.put("A")
    world.refused(c.Move(id_of("A"), NodeName("n9")), "UnknownNode")
    world.refused(c.Move(id_of("B"), N2), "UnknownGroup")
    world.do(c.Drain(N2))
    world.refused(c.Move(id_of("A"), N2), "NodeNotReady")


@pytest.mark.parametrize("which", ["worker", "target", "replica"])
def test_a_node_that_can_not_reach_the_store_neither_spills_nor_fetches(which: str) -> None:
    """Nobody would report, and nobody would free what came of it: the object would be counted for ever."""
    world = World(N1, N2, stores=10)
    world.put("A")
    if which == "worker":
        world.register(N1, stores=())
        refusal = world.refused(c.Move(id_of("A"), STORE), "UnknownNode")
    else:
        world.moved("A", STORE)
        world.advance(600)
        world.freed(world.state.copies[id_of("A")][0].id)
        world.register(N2, stores=())
        body = c.Move(id_of("A"), N2) if which == "target" else c.Replicate(id_of("A"), N2)
        refusal = world.refused(body, "UnknownNode")
    assert refusal.guard == "reaches_store"


def test_moves_of_one_group_are_spaced_by_a_growing_back_off(world: World) -> None:
    world.put("A")
    waits = []
    for _ in range(3):
        world.failed(world.move("A"))
        refusal = world.refused(c.Move(id_of("A"), N2), "MoveTooSoon")
        waits.append(refusal.retry_after_ms)
        world.advance(refusal.retry_after_ms)
        for copy in world.state.copies[id_of("A")]:
            if copy.role is Role.FREEING:
                world.freed(copy.id)
    assert waits == [200, 400, 800]
    world.moved("A")
    assert world.group("A").failures == 0


# ---- how a move ends without commit --------------------------------------------------------------------------

ABORTS: dict[str, Callable[[World, CopyId], object]] = {
    "failed": lambda world, move: world.failed(move),
    "no space": lambda world, move: world.failed(move, Reason.NO_SPACE),
    "other bytes": lambda world, move: world.done(move, OTHER_MANIFEST),
    "cancel": lambda world, move: world.do(c.CancelMove(id_of("A"), move)),
    "reader cancels": lambda world, move: world.do(c.Pin(id_of("A"), policy=MovePolicy.CANCEL)),
    "deadline": lambda world, move: world.advance(31_000),
    "target lost": lambda world, move: world.lost(move),
    "target freed": lambda world, move: world.freed(move),
    "target lapses": lambda world, move: world.lapse(N2),
    "target reboots": lambda world, move: world.register(N2, "b2"),
    "target lacks it": lambda world, move: world.inventory(N2, []),
}


@pytest.mark.parametrize("cause", ABORTS)
def test_every_abort_ends_in_the_state_before_at_a_higher_epoch(world: World, cause: str) -> None:
    """MOVE-1, while the source lives."""
    copy = world.put("A")
    move = world.move("A")
    begun = world.group("A").epoch
    ABORTS[cause](world, move)
    group = world.group("A")
    assert (group.state, group.target, group.source) == (State.LOCAL, NO_COPY, NO_COPY)
    assert group.epoch > begun
    assert world.role(copy) is Role.AUTHORITATIVE
    assert world.role(move) in (Role.FREEING, None)
    assert world.counter("moves_aborted") == 1
    world.pin("A")


@pytest.mark.parametrize("cause", ["failed", "cancel", "deadline"])
def test_the_space_of_an_aborted_target_counts_until_it_has_gone(world: World, cause: str) -> None:
    """Returned at the decision, the next copy would find no slot (finding 11)."""
    world.put("A")
    move = world.move("A")
    ABORTS[cause](world, move)
    assert world.state.used[N2] == 1
    assert orders.Free(move) in world.orders(orders.Free, N2)
    world.freed(move)
    assert N2 not in world.state.used


@pytest.mark.parametrize("cause", ABORTS)
def test_an_aborted_pull_from_the_store_leaves_the_group_remote(world: World, cause: str) -> None:
    copy = world.put("A")
    stored = world.moved("A", STORE)
    world.advance(600)
    world.freed(copy)
    move = world.move("A", N2)
    ABORTS[cause](world, move)
    assert world.is_in("A", State.REMOTE)
    assert world.role(stored) is Role.AUTHORITATIVE


def test_a_spill_ends_when_its_worker_lapses_and_the_steward_frees_the_object(world: World) -> None:
    copy = world.put("A", N2)
    move = world.move("A", STORE)
    world.lapse(N2)
    assert world.is_in("A", State.LOCAL)
    assert world.copy(copy).absent
    assert world.orders(orders.FreeObject, N1) == [orders.FreeObject(move, STORE)]


def test_a_copy_id_that_failed_is_never_tried_again_and_late_facts_about_it_are_stale(world: World) -> None:
    """A late duplicate CopyFailed must not kill the second attempt, nor a late CopyDone the first one's end (finding 19)."""
    world.put("A")
    first = world.move("A")
    world.failed(first)
    world.advance(500)
    second = world.move("A")
    assert second != first
    for fact in (reports.CopyFailed(first, Reason.FAILED), reports.CopyDone(first, MANIFEST), reports.Sealed(first, MANIFEST)):
        world.report(N2, fact)
        assert world.group("A").target == second
        assert world.role(first) is Role.FREEING
    world.done(second)
    assert world.role(second) is Role.AUTHORITATIVE


def test_late_and_repeated_reports_after_the_commit_change_nothing(world: World) -> None:
    world.put("A")
    move = world.moved("A")
    before = world.state.copy()
    world.done(move)
    world.failed(move)
    world.report(N2, reports.CopyDone(move, OTHER_MANIFEST))
    world.same(before)


def test_cancel_of_another_or_a_past_move_is_stale(world: World) -> None:
    world.put("A")
    move = world.move("A")
    world.refused(c.CancelMove(id_of("A"), CopyId(0, 1, 0)), "StaleMove")
    cancelled = world.do(c.CancelMove(id_of("A"), move))
    assert isinstance(cancelled, MoveCancelled)
    world.refused(c.CancelMove(id_of("A"), move), "StaleMove")


def test_evict_during_a_move_ends_both_in_one_step(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    world.do(c.Evict(id_of("A")))
    assert roles(world) == {copy: Role.FREEING, move: Role.FREEING}
    world.done(move)
    assert world.role(move) is Role.FREEING


# ---- what the caller gave --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [50, 0, 10**9])
def test_a_caller_may_give_a_move_less_time_and_never_more(world: World, given: int) -> None:
    """The deadline is a fact of the copy in the making and of the order about it; 0 takes the configured one."""
    world.put("A")
    within = min(given or world.config.move_ms, world.config.move_ms)
    move = world.move("A", deadline_ms=given)
    replica = world.do(c.Replicate(id_of("A"), N3, given)).copy
    assert world.copy(move).due == world.copy(replica).due == world.state.meta.clock_ms + within
    assert [order.deadline_ms for order in world.orders(orders.Fetch)] == [within, within]


@pytest.mark.parametrize("uptime_ms", [0, 3_000])
def test_a_deadline_travels_as_the_time_that_is_left(world: World, uptime_ms: int) -> None:
    """A node has another clock: an order says how long, at first and less when it is repeated, whatever the time is here."""
    world.put("A")
    world.advance(uptime_ms)
    world.move("A", deadline_ms=800)
    world.advance(300)
    world.inventory(N2, entries=(), number=0)
    assert [order.deadline_ms for order in world.orders(orders.Fetch, N2)] == [800, 500]


def test_what_is_asked_of_an_unknown_group_is_refused_by_name(world: World) -> None:
    none = id_of("none")
    for body in (
        c.Move(none, N2), c.CancelMove(none, CopyId(0, 1, 0)), c.Replicate(none, N2), c.DropReplica(none, CopyId(0, 1, 0)),
    ):  # fmt: skip
        assert world.refused(body, "UnknownGroup").guard == "known"


def test_a_copy_in_the_making_belongs_to_the_registration_of_its_node(world: World) -> None:
    """What a node says in a later incarnation is about another life; a store has none."""
    world.put("A")
    world.put("B")
    move = world.move("A")
    assert world.copy(move).incarnation == world.incarnation(N2) > 0
    assert world.copy(world.move("B", STORE)).incarnation == 0


def test_a_replica_without_room_asks_for_room_as_a_move_does() -> None:
    """Refused is not forgotten: the next Tick gives up what nobody holds at the target."""
    world = World(N1, N2, capacity=1)
    world.put("A", N1)
    world.put("B", N2)
    world.refused(c.Replicate(id_of("A"), N2), "NoSpace")
    assert world.state.pressure == {N2: 1}
    world.tick()
    assert world.is_in("B", State.EVICTING)


def test_nobody_is_asked_to_scan_a_store_that_nobody_reaches() -> None:
    """A scan that was asked of nobody would put off the next one, for when somebody is back."""
    world = World(N1, stores=10)
    world.lapse(N1)
    world.state.scans.clear()
    world.advance(2 * world.config.scan_ms, alive=False)
    assert not world.state.scans
