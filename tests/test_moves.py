"""Moves, continued: the source is lost, going back, readers during a move (rule 5), replicas, and restarts in every phase."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Awaited, Pinned, ReplicaAccepted, Told
from pinfold.core.ids import NO_COPY, CopyId, MovePolicy, Reason, Role, State

from .directory_world import CLIENT, N1, N2, N3, STORE, World, entry, id_of
from .test_migration import ABORTS, roles


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3, stores=100)


# ---- the source is lost --------------------------------------------------------------------------------------


def test_if_the_source_is_lost_a_replica_is_promoted_and_the_move_aborts(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A", N3)
    move = world.move("A")
    world.lost(copy)
    assert world.is_in("A", State.LOCAL)
    assert roles(world) == {replica: Role.AUTHORITATIVE, move: Role.FREEING}


def test_if_the_source_is_lost_without_a_replica_the_move_goes_on_and_commits(world: World) -> None:
    copy = world.put("A")
    ref = world.ref("A")
    move = world.move("A")
    world.lost(copy)
    group = world.group("A")
    assert (group.state, group.source, group.target) == (State.MIGRATING_OUT, NO_COPY, move)
    world.refused(c.Pin(id_of("A")), "Unreadable")
    world.refused(c.Ref(id_of("A")), "Unreadable")
    assert world.refused(c.CancelMove(id_of("A"), move), "Unreadable").guard == "authority_present"
    world.done(move)
    assert roles(world) == {move: Role.AUTHORITATIVE}
    assert not world.state.holds[ref].lost


@pytest.mark.parametrize("cause", ["failed", "deadline", "other bytes", "target lapses"])
def test_if_the_source_is_lost_and_the_move_fails_the_loss_is_said(world: World, cause: str) -> None:
    copy = world.put("A")
    ref = world.ref("A")
    move = world.move("A")
    world.lost(copy)
    ABORTS[cause](world, move)
    group = world.state.groups.get(id_of("A"))
    assert group is None or (group.state in (State.EVICTING, State.EVICTED) and group.reason is Reason.LOST)
    world.refused(c.Unref(ref), "HoldLost")


def test_a_replica_that_came_after_the_source_was_lost_is_promoted_when_the_move_fails(world: World) -> None:
    """There are verified bytes: to say LOST would be a loss by decision."""
    copy = world.put("A")
    move = world.move("A")
    replica = world.do(c.Replicate(id_of("A"), N3)).copy
    world.lost(copy)
    world.done(replica)
    world.pin("A")
    world.failed(move)
    assert world.is_in("A", State.LOCAL)
    assert roles(world) == {replica: Role.AUTHORITATIVE, move: Role.FREEING}


def test_after_the_commit_the_loss_of_the_old_source_is_nothing(world: World) -> None:
    copy = world.put("A")
    move = world.moved("A")
    epoch = world.group("A").epoch
    world.lost(copy)
    assert roles(world) == {move: Role.AUTHORITATIVE}
    assert world.group("A").epoch == epoch


def test_a_source_that_lapses_under_a_move_may_still_be_replaced_by_the_target(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    world.lapse(N1)
    world.done(move)
    assert roles(world) == {copy: Role.RETIRING, move: Role.AUTHORITATIVE}
    world.register(N1)
    world.tick(1)
    assert world.role(copy) is Role.FREEING


# ---- going back ----------------------------------------------------------------------------------------------


def test_a_retiring_copy_takes_over_again_without_a_transfer(world: World) -> None:
    copy = world.put("A")
    move = world.moved("A")
    epoch = world.group("A").epoch
    world.advance(300)
    accepted = world.do(c.Move(id_of("A"), N1))
    assert (accepted.done, accepted.move) == (True, copy)
    assert roles(world) == {copy: Role.AUTHORITATIVE, move: Role.RETIRING}
    assert world.group("A").epoch > epoch
    assert len(world.orders(orders.Fetch)) == 1


def test_freeing_is_final_and_a_move_back_makes_a_new_copy(world: World) -> None:
    """Its Free was decided, if not taken: it never counts again (finding 6)."""
    copy = world.put("A")
    world.moved("A")
    world.advance(600)
    assert world.role(copy) is Role.FREEING
    back = world.move("A", N1)
    assert back != copy
    assert world.role(copy) is Role.FREEING
    world.inventory(N1)
    assert world.role(copy) is Role.FREEING


def test_a_move_to_a_replica_promotes_it(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A")
    accepted = world.do(c.Move(id_of("A"), N2))
    assert (accepted.done, accepted.move) == (True, replica)
    assert roles(world) == {copy: Role.RETIRING, replica: Role.AUTHORITATIVE}


def test_an_evict_that_forgets_a_pinned_retiring_copy_keeps_it_listed(world: World) -> None:
    """The record must not be EVICTED while a pinned copy is there, or the next inventory would free it (finding 5)."""
    copy = world.put("A")
    hold = world.pin("A")
    move = world.moved("A", N2, allow_pinned=True)
    world.do(c.Evict(id_of("A")))
    world.freed(move)
    assert world.is_in("A", State.EVICTING)
    world.inventory(N1)
    world.advance(2_000)
    assert world.role(copy) is Role.RETIRING
    world.do(c.Unpin(hold))
    world.tick()
    world.freed(copy)
    assert world.is_in("A", State.EVICTED)


# ---- reading during a move (rule 5) --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "reason"),
    [(MovePolicy.WAIT, "MoveInProgress"), (MovePolicy.TARGET, "MoveInProgress"), (MovePolicy.RECOMPUTE, "Recompute")],
)
def test_policies_that_will_not_read_the_source_are_refused_during_a_move(world: World, policy: MovePolicy, reason: str) -> None:
    world.put("A")
    move = world.move("A")
    refusal = world.refused(c.Pin(id_of("A"), policy=policy), reason)
    assert refusal.holder == ("" if reason == "Recompute" else f"move {move}")
    world.done(move)
    assert world.do(c.Pin(id_of("A"), policy=policy)).route.copy == move


def test_policy_source_reads_the_source(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    pinned = world.do(c.Pin(id_of("A")))
    assert isinstance(pinned, Pinned)
    assert (pinned.route.copy, pinned.route.moving) == (copy, True)
    world.done(move)
    assert world.role(copy) is Role.RETIRING


def test_policy_cancel_ends_the_move_and_reads_the_source(world: World) -> None:
    copy = world.put("A")
    move = world.move("A")
    pinned = world.do(c.Pin(id_of("A"), policy=MovePolicy.CANCEL))
    assert (pinned.route.copy, pinned.route.moving) == (copy, False)
    assert world.role(move) is Role.FREEING


@pytest.mark.parametrize("named", ["the target", "nothing known", "a leaving group"])
def test_a_pin_that_is_refused_cancels_no_move(world: World, named: str) -> None:
    """REFUSE-1 for the one command that may do two things."""
    world.put("A")
    if named == "a leaving group":
        world.ref("A")
    move = world.move("A")
    if named == "a leaving group":
        world.do(c.Evict(id_of("A"), wait=True))
        world.refused(c.Pin(id_of("A"), policy=MovePolicy.CANCEL), "Leaving")
    else:
        copy = move if named == "the target" else CopyId(0, 1, 7)
        world.refused(c.Pin(id_of("A"), copy, MovePolicy.CANCEL), "StaleCopy")
    assert world.group("A").target == move


def test_a_reader_that_waits_is_told_when_the_move_has_settled(world: World) -> None:
    world.put("A")
    move = world.move("A")
    assert world.step(c.Await(CLIENT, "w", "settled", id_of("A"), move, timeout_ms=10_000)).reply == ()
    world.done(move)
    (told,) = [reply.message for reply in world.ready.reply]
    assert isinstance(told, Told)
    assert told.answer == Awaited(id_of("A"), "settled", int(State.LOCAL), world.group("A").epoch, Reason.NONE)


# ---- replicas ------------------------------------------------------------------------------------------------


def test_a_replica_becomes_readable_and_goes_when_it_is_dropped(world: World) -> None:
    copy = world.put("A")
    epoch = world.group("A").epoch
    accepted = world.do(c.Replicate(id_of("A"), N2))
    assert isinstance(accepted, ReplicaAccepted)
    assert world.do(c.Pin(id_of("A"), near=N2)).route.copy == copy
    world.done(accepted.copy)
    assert world.group("A").epoch == epoch, "a replica is no decision about ownership"
    hold = world.do(c.Pin(id_of("A"), near=N2)).hold
    assert world.state.holds[hold].copy == accepted.copy
    world.do(c.DropReplica(id_of("A"), accepted.copy))
    world.advance(1_000)
    assert world.role(accepted.copy) is Role.RETIRING
    world.do(c.Unpin(hold))
    world.tick()
    assert world.role(accepted.copy) is Role.FREEING


def test_a_replica_that_fails_leaves_the_group_as_it_was(world: World) -> None:
    world.put("A")
    replica = world.do(c.Replicate(id_of("A"), N2)).copy
    epoch = world.group("A").epoch
    world.failed(replica)
    assert (world.group("A").state, world.group("A").epoch) == (State.LOCAL, epoch)
    assert world.role(replica) is Role.FREEING


def test_what_can_not_be_replicated(world: World) -> None:
    world.put("A")
    world.refused(c.Replicate(id_of("A"), N1), "AlreadyThere")
    world.refused(c.Replicate(id_of("A"), STORE), "BadRequest")
    world.refused(c.Replicate(id_of("B"), N2), "UnknownGroup")
    world.refused(c.DropReplica(id_of("A"), world.state.copies[id_of("A")][0].id), "StaleCopy")
    world.refused(c.DropReplica(id_of("A"), CopyId(0, 1, 0)), "StaleCopy")


def test_two_replicas_in_the_making_and_a_move_do_not_disturb_each_other(world: World) -> None:
    world.put("A")
    move = world.move("A", N2)
    replica = world.do(c.Replicate(id_of("A"), N3)).copy
    world.failed(replica)
    assert world.group("A").target == move
    world.done(move)
    assert roles(world)[move] is Role.AUTHORITATIVE


# ---- restart in every phase ----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["begun", "committed", "freeing", "aborted"])
@pytest.mark.parametrize("order_lost", [False, True])
def test_a_restart_in_any_phase_ends_in_one_owner_and_no_leak(world: World, phase: str, order_lost: bool) -> None:
    copy = world.put("A")
    move = world.move("A")
    if phase in ("committed", "freeing"):
        world.done(move)
    if phase == "freeing":
        world.advance(600)
    if phase == "aborted":
        world.failed(move)
    truth = {N1: world.entries(N1), N2: world.entries(N2), N3: []}
    if order_lost and phase == "begun":
        truth[N2] = []
    if order_lost and phase == "freeing":
        truth[N1] = [entry(copy)]
    world.restart(pause_ms=2_000)
    for name, entries in truth.items():
        world.beat(name, 0)
        world.inventory(name, entries)
    if phase == "begun" and not order_lost:
        world.done(move)
    for _ in range(3):
        world.advance(600)
        for listed in list(world.state.copies[id_of("A")]):
            if listed.role is Role.FREEING:
                assert any(order.copy == listed.id for order in world.orders(orders.Free))
                world.freed(listed.id)
    owner = move if phase in ("committed", "freeing") or (phase == "begun" and not order_lost) else copy
    assert roles(world) == {owner: Role.AUTHORITATIVE}
    assert world.is_in("A", State.LOCAL)
