"""A node's stories: reading, and letting go. Bytes that are gone are never given, bytes in use never go."""

from typing import Any

import pytest

from pinfold.core import events, orders, reports, requests
from pinfold.core.effects import ListStore, LoadBlocks, ReleaseInstance, StoreBlocks, VerifyInstance
from pinfold.core.ids import Reason
from pinfold.core.reports import Condition, CopyFailed, CopyLost, Freed, StoreScanned

from .node_world import (
    READER,
    STORE,
    WRITER,
    NodeWorld,
    checksums_of,
    config_of,
    content,
    copy_id,
    fetch_of,
    instances,
    manifest_of,
    read_of,
    spec_of,
    write_of,
)  # fmt: skip

C1, C2, C3, C9 = copy_id(1), copy_id(2), copy_id(3), copy_id(9)


@pytest.fixture
def world() -> NodeWorld:
    world = NodeWorld()
    world.register()
    return world


def end_of(name: str, copy: Any = C1, token: str = "end") -> requests.EndWrite:
    return requests.EndWrite(WRITER, token, copy, manifest_of(name))


# ---- reading -------------------------------------------------------------------------------------------------


def test_each_wrong_read_is_refused_and_changes_nothing(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.refused(read_of(C2), "StaleCopy")
    world.refused(read_of(C1, 2), "BadRequest")
    world.refused(read_of(C1, -1), "BadRequest")
    world.refused(read_of(C1, 0, 0), "BadRequest")
    world.refused(requests.Read(READER, "t", C1, tuple(range(2_000))), "TooLarge")


def test_the_named_limits_refuse_for_load() -> None:
    world = NodeWorld(config_of(reads_max=1, writes_max=1, jobs_max=0))
    world.register()
    world.put(C1, "a")
    world.step(read_of(C1))
    world.refused(read_of(C1, token="second"), "Overloaded")
    world.complete_all()
    world.reserve(C2, "b")
    world.step(write_of(C2, "b", (0,)))
    world.refused(write_of(C2, "b", (1,)), "Overloaded")
    world.order(fetch_of("c", C3))
    assert world.facts()[-1] == CopyFailed(C3, Reason.FAILED)


def test_corrupt_bytes_are_never_given_and_the_copy_is_lost(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.scribble(next(instances(world, C1)))
    world.step(read_of(C1))
    world.complete(world.work(LoadBlocks))
    assert world.answers(requests.Blocks) == []
    assert world.replies[-1][1].refusal.reason == "Corrupt"
    assert world.facts()[-1] == CopyLost(C1, Reason.CORRUPT)
    world.complete_all()
    assert world.used() == 0
    assert Freed(C1) not in world.facts()  # nobody ordered it: CopyLost has said all
    world.refused(read_of(C1), "StaleCopy")


@pytest.mark.parametrize(
    ("reason", "refusal", "kept"),
    [(Reason.FAILED, "TierFailed", True), (Reason.LOST, "StaleCopy", False), (Reason.CORRUPT, "Corrupt", False)],
)
def test_a_read_error_costs_the_copy_only_if_its_bytes_are_gone(
    world: NodeWorld, reason: Reason, refusal: str, kept: bool
) -> None:
    world.put(C1, "a")
    world.step(read_of(C1))
    world.fail(world.work(LoadBlocks), reason)
    assert world.replies[-1][1].refusal.reason == refusal
    assert (world.node.state.copies[C1].condition is Condition.VERIFIED) is kept


def test_payloads_may_be_left_out(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    sums = checksums_of("a")
    world.step(requests.Write(WRITER, "w", C1, (0, 1), sums))
    store = world.work(StoreBlocks)
    world.step(events.BlocksStored(store.job, C1))
    world.step(end_of("a"))
    world.step(events.InstanceVerified(world.work(VerifyInstance).job, C1, manifest_of("a")))
    world.step(read_of(C1, 1))
    world.step(events.BlocksLoaded(world.work(LoadBlocks).job, C1, sums[1:]))
    assert world.answers(requests.Blocks)[-1].data == ()


def test_late_and_repeated_completions_change_nothing(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.step(read_of(C1))
    work = world.work(LoadBlocks)
    event = world.perform(work)
    world.changes_nothing(events.BlocksStored(work.job, C1))
    world.changes_nothing(events.BlocksLoaded(work.job, C2, ()))
    world.complete(work)
    world.changes_nothing(event)
    world.changes_nothing(events.WorkFailed(work.job, C1, Reason.LOST))


# ---- freeing -------------------------------------------------------------------------------------------------


def test_an_unknown_copy_is_freed_at_once(world: NodeWorld) -> None:
    world.order(orders.Free(C1))
    assert world.facts() == [Freed(C1)]


def test_a_free_waits_for_the_reader_and_the_slots_for_the_release(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.step(read_of(C1))
    world.order(orders.Free(C1))
    world.refused(read_of(C1, token="new"), "Freeing")
    assert not world.running(ReleaseInstance)
    world.complete(world.work(LoadBlocks))
    assert world.answers(requests.Blocks)[-1].data[0] == content("a", 0)
    assert world.used() == 2
    assert Freed(C1) not in world.facts()
    world.complete(world.work(ReleaseInstance))
    assert world.used() == 0
    assert world.facts()[-1] == Freed(C1)


def test_a_free_during_a_write_answers_the_writer(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.step(write_of(C1, "a"))
    world.step(end_of("a"))
    world.order(orders.Free(C1))
    world.refused(write_of(C1, "a", token="new"), "Freeing")
    world.complete_all()
    reasons = [answer.refusal.reason for answer in world.answers(requests.NodeRefused)]
    assert reasons == ["Freeing", "Freeing", "Freeing"]
    assert world.facts() == [Freed(C1)]


def test_a_release_that_finds_nothing_there_is_done(world: NodeWorld) -> None:
    """"No such bytes" is what was wanted: the slots are free, and nobody tries again."""
    world.put(C1, "a")
    world.order(orders.Free(C1))
    world.fail(world.work(ReleaseInstance), Reason.LOST)
    assert world.facts()[-1] == Freed(C1)
    assert world.used() == 0
    assert not world.node.state.unreleased


def test_a_failed_release_keeps_its_slots_is_named_and_tried_again(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(orders.Free(C1))
    world.fail(world.work(ReleaseInstance))
    assert world.used() == 2
    assert world.ready.alarm == 200
    world.tick(100)
    assert not world.works
    world.tick(100)
    world.fail(world.work(ReleaseInstance))
    world.tick(399)
    assert not world.works
    world.tick(1_000)
    world.tick(1_000)
    assert len(world.works) == 1  # the one that runs is waited for
    assert "release of c0.1.0 in DRAM failed 2 times" in world.messages(reports.Heartbeat)[-1].stuck
    world.complete_all()
    assert world.facts()[-1] == Freed(C1)
    assert world.used() == 0


def test_as_steward_a_node_deletes_objects_and_lists_them(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(orders.Spill(C2, spec_of("a"), manifest_of("a"), C1, STORE, 5_000))
    world.complete_all()
    world.order(orders.Scan(STORE))
    world.complete(world.work(ListStore))
    assert world.facts()[-1] == StoreScanned(STORE, world.term, world.numbers, (C2,))
    world.order(orders.FreeObject(C2, STORE))
    world.complete_all()
    assert world.facts()[-1] == Freed(C2)
    assert C2 not in world.node.state.copies
    world.order(orders.Scan(STORE))
    world.complete(world.work(ListStore))
    assert world.facts()[-1] == StoreScanned(STORE, world.term, world.numbers, ())


def test_a_scan_of_an_earlier_term_is_not_told_under_its_number(world: NodeWorld) -> None:
    world.order(orders.Scan(STORE))
    world.step(orders.HeartbeatSeen(0, 2, 1, inventory=False))
    world.complete(world.work(ListStore))
    assert world.facts() == []
