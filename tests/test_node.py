"""A node's stories: the gate of orders, room, writing. Byte work completes when the test says so."""

from typing import Any

import pytest

from pinfold.core import orders, reports, requests
from pinfold.core.effects import StoreBlocks, VerifyInstance
from pinfold.core.ids import NO_COPY, NodeName, Reason, Tier
from pinfold.core.node import Node
from pinfold.core.reports import Condition, CopyFailed, Freed, Sealed

from .node_world import (
    READER,
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


# ---- orders and their gate -----------------------------------------------------------------------------------


def test_a_written_copy_is_readable_after_it_was_sealed_and_not_before(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.refused(read_of(C1), "NotVerified")
    world.do(write_of(C1, "a"))
    world.refused(read_of(C1), "NotVerified")
    world.do(end_of("a"))
    assert world.facts() == [Sealed(C1, manifest_of("a"))]
    assert world.answers(requests.WriteEnded) == [requests.WriteEnded(NodeName("n1"), "end", C1, manifest_of("a"))]
    assert world.read(C1).data == (content("a", 0), content("a", 1))
    assert world.read(C1, 1).checksums == checksums_of("a")[1:]


@pytest.mark.parametrize(
    ("term", "incarnation", "number"), [(1, 1, 1), (1, 1, 0), (0, 1, 9), (1, 0, 9), (1, 2, 9)]
)
def test_a_stale_or_foreign_order_is_dropped_unseen(
    world: NodeWorld, term: int, incarnation: int, number: int
) -> None:
    world.reserve(C1, "a")
    world.changes_nothing(orders.Order(0, term, incarnation, number, orders.Free(C1)))


def test_an_order_before_registration_has_no_effect() -> None:
    world = NodeWorld()
    world.changes_nothing(orders.Order(0, 0, 0, 1, orders.Free(C1)))
    world.changes_nothing(orders.Order(7, 1, 1, 1, orders.Free(C1)))


def test_a_new_term_restarts_the_numbers_and_is_told_everything(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.sent.clear()
    world.step(orders.Order(0, 2, 1, 1, orders.Free(C3)))
    inventory = world.messages(reports.Inventory)[-1]
    assert (inventory.term, inventory.number) == (2, 1)
    assert [entry.copy for entry in inventory.entries] == [C1]
    world.changes_nothing(orders.Order(0, 1, 1, 99, orders.Free(C1)))


def test_a_repeated_reservation_takes_no_second_room(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.reserve(C1, "a")
    assert world.used() == 2


def test_a_group_goes_whole_into_the_wished_tier_or_into_another(world: NodeWorld) -> None:
    for number, blocks in ((1, 4), (2, 3)):
        world.reserve(copy_id(number), str(number), blocks)
    world.reserve(C3, "c", 2)  # one slot is left in DRAM: nothing is split
    assert (world.used(Tier.DRAM), world.used(Tier.SSD)) == (7, 2)


def test_no_room_is_told_and_the_id_is_never_tried_again(world: NodeWorld) -> None:
    for number in range(1, 5):
        world.reserve(copy_id(number), str(number), 4)
    world.reserve(C9, "late", 4)
    assert world.facts() == [CopyFailed(C9, Reason.NO_SPACE)]
    world.order(orders.Free(C1))
    world.complete_all()
    world.reserve(C9, "late", 4)
    assert world.facts() == [CopyFailed(C9, Reason.NO_SPACE), Freed(C1), CopyFailed(C9, Reason.NO_SPACE)]
    world.order(orders.Free(C9))
    assert C9 not in world.node.state.copies


def test_a_group_above_the_named_size_has_no_room(world: NodeWorld) -> None:
    world.reserve(C1, "a", 5)
    assert world.facts() == [CopyFailed(C1, Reason.NO_SPACE)]


def test_what_the_directory_may_reserve_always_fits_whole() -> None:
    """CAP-1: groups of up to four slots that sum to the declared capacity, in the worst order, during a local move."""
    config = config_of(dram=8, ssd=8)
    assert config.capacity == 16 - 3 - 4
    for sizes in ((1, 1, 1, 3, 3), (3, 3, 3), (1, 4, 4), (4, 4, 1), (2, 3, 4)):
        world = NodeWorld(config)
        world.register()
        for number, size in enumerate(sizes, 1):
            world.put(copy_id(number), str(number), size)
        assert sum(sizes) == config.capacity
        assert not [fact for fact in world.facts() if isinstance(fact, CopyFailed)]


# ---- writing -------------------------------------------------------------------------------------------------


def test_each_wrong_write_is_refused_and_changes_nothing(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    good = write_of(C1, "a")
    stranger = requests.Write(READER, "t", C1, good.blocks, good.checksums, good.data)
    world.refused(stranger, "BadRequest")
    world.refused(write_of(C2, "a"), "StaleCopy")
    world.refused(write_of(C1, "a", (0, 2)), "BadRequest")
    world.refused(write_of(C1, "a", (0, 0)), "BadRequest")
    world.refused(write_of(C1, "a", ()), "BadRequest")
    world.refused(requests.Write(WRITER, "t", C1, (0, 1), (1,), ()), "BadRequest")
    world.refused(requests.Write(WRITER, "t", C1, (0, 1), (1, 2), (b"x",)), "BadRequest")
    world.refused(requests.EndWrite(READER, "t", C1, manifest_of("a")), "BadRequest")
    world.refused(end_of("a"), "Incomplete")
    world.refused(requests.AbortWrite(READER, "t", C1), "BadRequest")
    world.refused(requests.AbortWrite(WRITER, "t", C2), "StaleCopy")


def test_two_stores_to_one_block_never_run_together(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.step(write_of(C1, "a", (0,), token="first"))
    world.refused(write_of(C1, "b", (0,), token="second"), "Overloaded")
    assert not world.changes_nothing(write_of(C1, "a", (0,), token="first")).reply
    world.complete_all()
    assert [answer.token for answer in world.answers(requests.Written)] == ["first"]


def test_the_end_of_a_write_waits_for_running_stores(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.step(write_of(C1, "a", (0,)))
    world.step(write_of(C1, "a", (1,)))
    world.step(end_of("a"))
    world.refused(write_of(C1, "a", (0,), token="late"), "Overloaded")
    assert not world.changes_nothing(end_of("a")).reply
    world.complete(world.running(StoreBlocks)[1])
    assert not world.running(VerifyInstance)
    world.complete_all()
    assert len(world.answers(requests.WriteEnded)) == 1


def test_a_wrong_manifest_is_refused_and_the_writer_may_write_again(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.do(write_of(C1, "b"))
    world.refused(end_of("a"), "ManifestMismatch")
    world.do(write_of(C1, "a", token="again"))
    world.do(end_of("a"))
    assert world.read(C1).data[0] == content("a", 0)


def test_bytes_that_differ_in_the_tier_are_found_by_reading_them_back(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.do(write_of(C1, "a"))
    world.scribble(next(instances(world, C1)))
    world.step(end_of("a"))
    world.complete(world.work(VerifyInstance))
    assert world.answers(requests.NodeRefused)[-1].refusal.reason == "ManifestMismatch"
    assert world.node.state.copies[C1].condition is Condition.RESERVED


def test_a_repeated_end_says_and_reports_the_same(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.step(end_of("a", token="again"))
    assert world.facts() == [Sealed(C1, manifest_of("a"))] * 2
    assert [answer.token for answer in world.answers(requests.WriteEnded)][-1] == "again"
    world.refused(end_of("b"), "ManifestMismatch")
    world.refused(write_of(C1, "a"), "BadRequest")
    world.refused(requests.AbortWrite(WRITER, "t", C1), "BadRequest")


def test_a_store_that_fails_is_told_and_does_not_count(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.step(write_of(C1, "a"))
    world.fail(world.work(StoreBlocks))
    assert world.answers(requests.NodeRefused)[-1].refusal.reason == "TierFailed"
    world.refused(end_of("a"), "Incomplete")


def test_a_rewrite_that_fails_takes_back_what_was_stored(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.do(write_of(C1, "a"))
    world.step(write_of(C1, "a", (0,), token="again"))
    world.fail(world.work(StoreBlocks))
    world.refused(end_of("a"), "Incomplete")


def test_an_aborted_write_keeps_its_slots_until_it_is_freed(world: NodeWorld) -> None:
    world.reserve(C1, "a")
    world.step(write_of(C1, "a"))
    world.step(end_of("a"))
    world.step(requests.AbortWrite(WRITER, "abort", C1))
    assert world.facts() == [CopyFailed(C1, Reason.CANCELLED)]
    world.complete_all()
    reasons = [answer.refusal.reason for answer in world.answers(requests.NodeRefused)]
    assert reasons == ["Cancelled", "Cancelled"]  # the pending end, and the write under way
    world.refused(write_of(C1, "a", token="late"), "StaleCopy")
    world.refused(end_of("a", token="late"), "StaleCopy")
    world.step(requests.AbortWrite(WRITER, "again", C1))
    assert len(world.answers(requests.WriteAborted)) == 2
    assert world.used() == 2
    world.order(orders.Free(C1))
    world.complete_all()
    assert world.used() == 0


# ---- the machine ---------------------------------------------------------------------------------------------


def test_a_copy_of_the_machine_goes_its_own_way(world: NodeWorld) -> None:
    world.put(C1, "a")
    other = world.node.copy()
    before = world.node.state.copy()
    other.step(read_of(C1), world.now)
    other.step(orders.Order(0, 1, 1, 99, orders.Free(C1)), world.now)
    assert world.node.state == before
    assert other.state != before


def test_the_same_events_give_the_same_outputs() -> None:
    """DET-1."""

    def story() -> list[Any]:
        world = NodeWorld()
        world.register()
        for number in range(1, 5):
            world.put(copy_id(number), str(number))
        world.complete_all()
        world.order(orders.Free(C1))
        world.complete_all()
        return [world.sent, world.replies, world.node.state]

    assert story() == story()


def test_foreign_events_are_a_bug_of_the_world(world: NodeWorld) -> None:
    with pytest.raises(TypeError, match="takes no str"):
        Node(world.node.config, "b").step("hello", 0)  # type: ignore[arg-type]


def test_status_names_guards_and_jobs(world: NodeWorld) -> None:
    world.put(C1, "a")
    world.order(fetch_of("b", C2))
    world.step(read_of(C1))
    world.step(requests.NodeStat(READER, "stat"))
    status = world.answers(requests.NodeStatus)[-1]
    assert status.copies == 2
    assert status.jobs == ("fetch c0.2.0 from c0.9.0",)
    assert [line.split(" ")[0] for line in status.guards] == ["LOAD"]
    assert world.answers(requests.NodeRefused) == []
    assert NO_COPY not in world.node.state.copies
