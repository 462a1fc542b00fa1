"""Copy jobs: fetches from nodes and stores, spills to stores. Each ends once, and late work is cleared away."""

from typing import Any

import pytest
from attrs import evolve

from pinfold.core import events, orders, requests
from pinfold.core.effects import CloneInstance, LoadBlocks, ReleaseInstance, StoreBlocks
from pinfold.core.errors import Refusal
from pinfold.core.ids import NodeName, Peer, Reason, Tier
from pinfold.core.reports import CopyDone, CopyFailed, CopyLost, Freed

from .node_world import (
    N2,
    NODE2,
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
)  # fmt: skip

C1, C2, C3, C9 = copy_id(1), copy_id(2), copy_id(3), copy_id(9)


@pytest.fixture
def world() -> NodeWorld:
    world = NodeWorld()
    world.register()
    return world


def blocks_of(world: NodeWorld, name: str, *blocks: int) -> requests.Blocks:
    """What the source answers to the last `Read` that was sent."""
    ask = world.messages(requests.Read)[-1]
    numbers = blocks or ask.blocks
    sums = checksums_of(name, 8)
    return requests.Blocks(
        N2, ask.token, C9, numbers, tuple(sums[b] for b in numbers), Tier.DRAM, tuple(content(name, b) for b in numbers)
    )


# ---- fetching ------------------------------------------------------------------------------------------------


def test_a_fetch_asks_in_chunks_verifies_and_says_done() -> None:
    world = NodeWorld(config_of(fetch_chunk=2))
    world.register()
    world.order(fetch_of("a", C1, 3))
    assert world.messages(requests.Read)[-1].blocks == (0, 1)
    world.step(blocks_of(world, "a"))
    assert world.messages(requests.Read)[-1].blocks == (2,)
    world.step(blocks_of(world, "a"))
    world.refused(read_of(C1), "NotVerified")
    world.complete_all()
    assert world.facts() == [CopyDone(C1, manifest_of("a", 3))]
    assert world.read(C1, 0, 1, 2).data == tuple(content("a", b) for b in range(3))
    assert world.node.state.jobs == {}


def test_late_repeated_and_foreign_blocks_are_dropped(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1))
    first = blocks_of(world, "a", 0)
    world.step(first)
    world.changes_nothing(first)
    world.changes_nothing(requests.Blocks(N2, "other", C9, (1,), (0,), Tier.DRAM, (b"",)))
    world.changes_nothing(requests.Blocks(N2, first.token, C2, (1,), (0,), Tier.DRAM, (b"",)))
    world.changes_nothing(requests.Blocks(N2, first.token, C9, (7,), (0,), Tier.DRAM, (b"",)))
    world.changes_nothing(requests.Blocks(N2, first.token, C9, (1,), (), Tier.DRAM, (b"",)))
    rest = blocks_of(world, "a", 0, 1)
    world.step(rest)
    assert world.running(StoreBlocks)[-1].blocks == (1,)
    world.complete_all()
    assert world.facts() == [CopyDone(C1, manifest_of("a"))]
    world.changes_nothing(rest)


def test_only_missing_blocks_are_asked_for_again(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1))
    world.step(blocks_of(world, "a", 1))
    world.tick(1_000)
    assert world.messages(requests.Read)[-1].blocks == (0,)
    world.changes_nothing(events.PeerUnreachable(Peer("node/n7")))
    world.step(events.PeerUnreachable(NODE2))
    assert world.ready.alarm == world.now + 50


@pytest.mark.parametrize(
    ("refusal", "reason"), [("StaleCopy", Reason.FAILED), ("Freeing", Reason.FAILED), ("Corrupt", Reason.CORRUPT)]
)
def test_a_final_refusal_of_the_source_ends_the_fetch(world: NodeWorld, refusal: str, reason: Reason) -> None:
    world.order(fetch_of("a", C1))
    token = world.messages(requests.Read)[-1].token
    world.step(requests.NodeRefused(N2, token, C9, Refusal(refusal)))
    assert world.facts() == [CopyFailed(C1, reason)]
    assert world.used() == 2
    world.order(fetch_of("a", C1))  # sent again: it stays failed
    assert world.facts() == [CopyFailed(C1, reason)] * 2
    assert len(world.messages(requests.Read)) == 1


def test_a_passing_refusal_of_the_source_is_waited_out(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1))
    token = world.messages(requests.Read)[-1].token
    world.step(requests.NodeRefused(N2, token, C9, Refusal("Overloaded")))
    assert world.facts() == []
    world.tick(50)
    assert len(world.messages(requests.Read)) == 2


def test_a_source_that_never_answers_is_given_up(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1, deadline_ms=60_000))
    for _ in range(10):
        world.tick(1_000)
    assert world.facts() == [CopyFailed(C1, Reason.FAILED)]
    assert len(world.messages(requests.Read)) == 10


def test_a_deadline_ends_the_job_but_not_its_running_store(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1))
    world.step(blocks_of(world, "a"))
    world.tick(5_000)
    assert world.facts() == [CopyFailed(C1, Reason.DEADLINE)]
    world.order(orders.Free(C1))
    assert not world.running(ReleaseInstance)
    world.complete_all()
    assert world.facts()[-1] == Freed(C1)


def test_wrong_bytes_from_the_source_never_become_readable(world: NodeWorld) -> None:
    world.order(fetch_of("a", C1))
    world.step(blocks_of(world, "b"))
    world.complete_all()
    assert world.facts() == [CopyFailed(C1, Reason.CORRUPT)]


def test_a_copy_comes_back_from_a_store(world: NodeWorld) -> None:
    world.put(C9, "a")
    world.order(orders.Spill(C2, spec_of("a"), manifest_of("a"), C9, STORE, 5_000))
    world.complete_all()
    fetch = orders.Fetch(C1, spec_of("a"), manifest_of("a"), C2, STORE, Peer(""), Tier.DRAM, 5_000)
    world.order(fetch)
    world.complete(world.work(CloneInstance))
    assert world.facts()[-1] == CopyDone(C1, manifest_of("a"))
    world.step(read_of(C1, 1))
    assert world.work(LoadBlocks).blocks == (0, 1)  # the checksums are not known yet: together they must give the manifest
    world.complete_all()
    assert world.replies[-1][1].data == (content("a", 1),)
    world.step(read_of(C1, 1))
    assert world.work(LoadBlocks).blocks == (1,)
    world.order(evolve(fetch, copy=C3, source=NodeName("no")))
    assert world.facts()[-1] == CopyFailed(C3, Reason.FAILED)


# ---- spilling ------------------------------------------------------------------------------------------------


def spill_of(name: str = "a", source: Any = C1) -> orders.Spill:
    return orders.Spill(C2, spec_of(name), manifest_of(name), source, STORE, 5_000)


def test_a_spill_guards_its_source_and_leaves_no_record(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(spill_of())
    world.order(orders.Free(C1))
    assert not world.running(ReleaseInstance)
    world.complete(world.work(CloneInstance))
    assert world.facts()[-1] == CopyDone(C2, manifest_of("a"))
    assert C2 not in world.node.state.copies
    world.complete_all()
    assert world.facts()[-1] == Freed(C1)


@pytest.mark.parametrize(("source", "name", "reason"), [(C9, "a", Reason.LOST), (C1, "b", Reason.CORRUPT)])
def test_a_spill_without_its_source_fails(world: NodeWorld, source: Any, name: str, reason: Reason) -> None:
    world.put(C1, "a")
    world.order(spill_of(name, source))
    assert world.facts()[-1] == CopyFailed(C2, reason)
    world.order(orders.Free(C2))
    assert world.facts()[-1] == Freed(C2)


def test_a_spill_past_its_deadline_takes_its_late_object_away_again(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(spill_of())
    clone = world.work(CloneInstance)
    world.tick(5_000)
    assert world.facts()[-1] == CopyFailed(C2, Reason.DEADLINE)
    world.order(spill_of())
    assert world.facts()[-1] == CopyFailed(C2, Reason.DEADLINE)
    world.complete(clone)
    assert world.work(ReleaseInstance).instance == clone.target
    world.complete_all()
    assert C2 not in world.node.state.copies
    assert [key for key in world.bytes if key[0] is Tier.REMOTE_SSD] == []
    world.order(spill_of())
    assert world.facts().count(CopyFailed(C2, Reason.DEADLINE)) == 3  # told again at each repetition, never tried again
    assert not world.works


def test_a_spill_that_finds_its_source_corrupt_has_lost_the_source(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.scribble(next(instances(world, C1)))
    world.order(spill_of())
    world.complete(world.work(CloneInstance))
    assert world.facts()[-2:] == [CopyFailed(C2, Reason.CORRUPT), CopyLost(C1, Reason.CORRUPT)]


def test_a_freed_spill_is_told_once_its_object_is_gone(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(spill_of())
    world.order(orders.FreeObject(C2, STORE))
    assert Freed(C2) not in world.facts()
    world.refused(read_of(C2), "StaleCopy")
    world.refused(requests.AbortWrite(WRITER, "t", C2), "StaleCopy")
    world.complete_all()
    assert world.facts()[-1] == Freed(C2)
