"""Guards of processes and peers: who touches bytes keeps them, and only the kernel's or the holder's word ends that."""

import pytest

from pinfold.core import events, orders, reports, requests
from pinfold.core.effects import ReleaseInstance
from pinfold.core.guards import stuck_lines
from pinfold.core.ids import NodeName, Tier
from pinfold.core.reports import Freed, Sealed

from .node_world import (
    READER,
    WRITER,
    NodeWorld,
    config_of,
    content,
    copy_id,
    instances,
    manifest_of,
    read_of,
    write_of,
)  # fmt: skip

C1, C2, C3 = copy_id(1), copy_id(2), copy_id(3)
ENGINE = "process:17/400"


@pytest.fixture
def world() -> NodeWorld:
    world = NodeWorld(config_of(guards_max=2))
    world.register()
    world.put(C1, "a")
    return world


def acquire(owner: str = ENGINE, token: str = "g", write: bool = False, stay: bool = False) -> requests.Acquire:
    return requests.Acquire(READER, token, owner, C1, write, stay)


def guard_of(world: NodeWorld) -> requests.Guarded:
    return world.answers(requests.Guarded)[-1]


def test_a_guard_says_where_the_bytes_are(world: NodeWorld) -> None:
    world.step(acquire())
    guard = guard_of(world)
    assert (guard.tier, guard.slots) == (Tier.DRAM, (0, 1))
    assert [world.bytes[guard.tier, slot] for slot in guard.slots] == [content("a", 0), content("a", 1)]


def test_each_wrong_guard_is_refused_by_name_and_changes_nothing(world: NodeWorld) -> None:
    world.refused(acquire(owner="somebody"), "BadRequest", "owner_is_known")
    world.refused(requests.Acquire(READER, "t", ENGINE, C2), "StaleCopy", "copy_known")
    world.refused(acquire(write=True), "BadRequest", "write_not_ended")
    world.reserve(C2, "b")
    world.refused(requests.Acquire(READER, "t", ENGINE, C2), "NotVerified", "verified")
    world.refused(requests.Acquire(READER, "t", ENGINE, C2, write=True), "BadRequest", "is_the_writer")
    world.refused(requests.Let(READER, "t", 77), "UnknownGuard", "guard_known")
    world.step(acquire(token="1"))
    world.refused(acquire(token="1", owner="process:18/1"), "BadRequest", "token_unused")
    world.step(acquire(token="2"))
    world.refused(acquire(token="3"), "Overloaded", "guards_max")
    world.refused(requests.Let(WRITER, "t", guard_of(world).guard), "UnknownGuard", "guard_known")
    world.order(orders.Free(C1))
    world.refused(acquire(token="4"), "Freeing", "not_freeing")
    world.refused(write_of(C1, "a", token="late"), "Freeing", "not_freeing")


def test_a_write_that_is_being_ended_takes_no_more(world: NodeWorld) -> None:
    """While the bytes are read back against the manifest nobody may change them."""
    world.reserve(C2, "b")
    world.do(write_of(C2, "b", range(2), "w"))
    world.step(requests.EndWrite(WRITER, "end", C2, manifest_of("b")))
    world.refused(requests.Acquire(WRITER, "late", ENGINE, C2, write=True), "Overloaded", "write_not_ending")


def test_only_a_guard_on_the_copy_itself_holds_up_the_end_of_its_write(world: NodeWorld) -> None:
    world.reserve(C2, "b")
    world.reserve(C3, "c")
    world.step(requests.Acquire(WRITER, "w", ENGINE, C3, write=True))
    world.do(write_of(C2, "b", range(2), "fill"))
    world.do(requests.EndWrite(WRITER, "end", C2, manifest_of("b")))
    assert world.facts()[-1] == Sealed(C2, manifest_of("b"))


def test_a_repeated_acquire_gets_the_same_guard(world: NodeWorld) -> None:
    world.step(acquire())
    world.changes_nothing(acquire())
    first, second = world.answers(requests.Guarded)
    assert first == second


def test_a_slot_is_not_reused_under_a_guard(world: NodeWorld) -> None:
    """Finding 1: the pin has ended, the copy is freed, and somebody still reads in place."""
    world.step(acquire())
    slots = guard_of(world).slots
    world.order(orders.Free(C1))
    world.refused(acquire(token="new"), "Freeing")
    for number in range(2, 6):
        world.put(copy_id(number), f"other{number}")
        assert [world.bytes[Tier.DRAM, slot] for slot in slots] == [content("a", 0), content("a", 1)]
    world.tick(10_000_000)
    assert not world.running(ReleaseInstance)
    world.do(requests.Let(READER, "let", guard_of(world).guard))
    assert Freed(C1) in world.facts()
    world.reserve(C2, "b")
    assert world.answers(requests.LetGo)[-1].guard == guard_of(world).guard


@pytest.mark.parametrize(
    ("owner", "ending"),
    [
        (ENGINE, events.ProcessExited(ENGINE)),
        ("peer:n2/5", events.RegistrationWithdrawn("peer:n2/5")),
        ("peer:n2/5", orders.PeerGone(0, 1, NodeName("n2"), 5)),
    ],
)
def test_a_guard_ends_by_the_kernels_word_or_by_withdrawal(world: NodeWorld, owner: str, ending: object) -> None:
    world.step(acquire(owner))
    world.order(orders.Free(C1))
    for other in (
        events.ProcessExited("process:18/1"),
        events.RegistrationWithdrawn("peer:n2/6"),
        orders.PeerGone(0, 1, NodeName("n2"), 4),
        orders.PeerGone(1, 1, NodeName("n2"), 5),
    ):
        world.changes_nothing(other)
    world.step(ending)
    world.complete(world.work(ReleaseInstance))
    assert world.facts()[-1] == Freed(C1)


def test_heartbeats_name_the_registrations_that_own_guards_until_these_have_ended() -> None:
    world = NodeWorld()
    world.register()
    world.put(C1, "a")
    for number, owner in enumerate(("peer:n2/5", "peer:n2/5", "peer:rack/n4/2")):
        world.step(requests.Acquire(WRITER, f"g{number}", owner, C1))
    world.tick(1_000)
    assert world.messages(reports.Heartbeat)[-1].peers == (("n2", 5), ("rack/n4", 2))
    world.step(orders.PeerGone(0, 1, NodeName("n2"), 5))
    world.step(requests.Acquire(WRITER, "g4", ENGINE, C1))
    world.step(requests.Acquire(WRITER, "g5", "peer:nobody", C1))
    world.tick(1_000)
    assert world.messages(reports.Heartbeat)[-1].peers == (("rack/n4", 2),)


def test_a_guard_that_does_not_end_is_named_in_each_heartbeat(world: NodeWorld) -> None:
    world.step(acquire())
    world.tick(29_999)
    assert world.messages(reports.Heartbeat)[-1].stuck == ()
    world.tick(1)
    named = f"guard {guard_of(world).guard} on c0.1.0 by {ENGINE}"
    assert stuck_lines(world.node.state, world.now, 30_000, 8) == (f"{named} for 30000 ms",)
    world.tick(1_000)
    name = f"{named} for 31000 ms"
    assert world.messages(reports.Heartbeat)[-1].stuck == (name,)


def test_a_mapped_writer_writes_without_requests_and_ends_without_a_guard(world: NodeWorld) -> None:
    world.reserve(C2, "b")
    world.step(requests.Acquire(WRITER, "w", ENGINE, C2, write=True))
    end = requests.EndWrite(WRITER, "end", C2, manifest_of("b"))
    assert world.refused(end, "Incomplete").refusal.holder == ENGINE
    for block, slot in enumerate(guard_of(world).slots):
        world.bytes[Tier.DRAM, slot] = content("b", block)
    world.step(requests.Let(WRITER, "let", guard_of(world).guard))
    world.do(end)
    assert world.facts()[-1] == Sealed(C2, manifest_of("b"))
    assert world.read(C2).data == (content("b", 0), content("b", 1))


def test_slots_of_an_uncertain_writer_go_to_quarantine_and_are_counted(world: NodeWorld) -> None:
    world.reserve(C2, "b")
    world.step(write_of(C2, "b"))
    world.step(events.WriterUncertain(C2))
    world.changes_nothing(events.WriterUncertain(C2))
    world.changes_nothing(events.WriterUncertain(C3))
    world.order(orders.Free(C2))
    world.complete_all()
    assert world.facts()[-1] == Freed(C2)
    fill = world.node.state.slots[Tier.DRAM]
    assert (fill.used, fill.quarantined) == (4, 2)
    told = [m for _, m in world.sent if isinstance(m, reports.Heartbeat | reports.Report)][-2:]
    assert isinstance(told[0], reports.Heartbeat)  # the directory hears of the quarantine before it hears Freed
    assert told[0].tiers[0].quarantined == 2
    for number in range(10, 20):
        world.reserve(copy_id(number), "x")
        placed = [slot for c in world.node.state.copies if c != C1 for i in instances(world, c) for slot in i.slots]
        assert not {2, 3} & set(placed)
    world.step(events.QuarantineLifted(C2))
    assert world.node.state.slots[Tier.DRAM].quarantined == 0
    world.changes_nothing(events.QuarantineLifted(C2))


def test_a_quarantine_may_be_lifted_before_the_copy_has_gone(world: NodeWorld) -> None:
    world.step(events.WriterUncertain(C1))
    world.step(events.QuarantineLifted(C1))
    world.order(orders.Free(C1))
    world.complete_all()
    assert world.used() == 0


def test_a_fenced_node_refuses_everything_and_says_nothing(world: NodeWorld) -> None:
    world.step(read_of(C1))
    world.changes_nothing(orders.FencedOff(0, 1, 7))
    world.sent.clear()
    world.step(orders.FencedOff(0, 1, 1))
    assert world.ready.alarm is None
    for request in (
        read_of(C1), write_of(C1, "a"), acquire(), requests.Let(READER, "t", 1), requests.NodeStat(READER, "t"),
        requests.EndWrite(WRITER, "t", C1, b""), requests.AbortWrite(WRITER, "t", C1),
    ):  # fmt: skip
        world.refused(request, "Fenced")
    world.changes_nothing(orders.Order(0, 1, 1, 99, orders.Free(C1)))
    world.complete_all()
    assert world.replies[-1][1].refusal.reason == "Fenced"
    world.tick(100_000)
    assert world.sent == []
