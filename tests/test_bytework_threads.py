"""Byte work on threads: order per copy, bounds, waking a poll loop, bugs, and an end without a hang."""

import select
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

import pytest

from pinfold.backends.bytework import ThreadedByteWork
from pinfold.backends.memory_tier import MemoryTier
from pinfold.backends.tier import ByteTier, TierRefused
from pinfold.core.commands import Spec
from pinfold.core.effects import Instance, LoadBlocks, ReleaseInstance, StoreBlocks
from pinfold.core.events import BlocksStored, InstanceReleased, WorkFailed
from pinfold.core.ids import CopyId, Reason, Tier
from pinfold.core.requests import Payload
from pinfold.testing_tiers import TierConformance, expect
from tests.bytework_world import at, clone, dram, settle, ssd_store

put, assert_readable = TierConformance.put, TierConformance.assert_readable


class Gate(MemoryTier):
    """Writes wait until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.reached = threading.Event()
        self.order: list[str] = []

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self.reached.set()
        assert self.open.wait(20)
        self.order.append(f"write {instance.copy.revision}")
        super().write(instance, spec, blocks, checksums, data)

    def release(self, instance: Instance) -> None:
        self.order.append(f"release {instance.copy.revision}")
        super().release(instance)


@pytest.fixture
def gate() -> Iterator[Gate]:
    tier = Gate()
    yield tier
    tier.open.set()


@pytest.fixture
def threaded() -> Iterator[Callable[..., ThreadedByteWork]]:
    made: list[ThreadedByteWork] = []

    def build(tiers: dict[Tier, ByteTier], **options: Any) -> ThreadedByteWork:
        made.append(ThreadedByteWork(tiers, **options))
        return made[-1]

    yield build
    for work in made:
        assert work.close()


def test_a_slow_disk_delays_its_own_work_alone(threaded: Callable[..., ThreadedByteWork], gate: Gate) -> None:
    memory, one = MemoryTier(), dram(9)
    work = threaded({Tier.DRAM: memory, Tier.SSD: gate})
    work.submit(ssd_store(1, 1))
    work.submit(StoreBlocks(2, one.instance, one.spec, one.blocks, one.checksums, one.data))
    assert work.poll() == [BlocksStored(2, one.copy)]  # done before submit returned
    assert work.pending == 1
    gate.open.set()
    assert settle(work, 1) == [BlocksStored(1, CopyId(0, 1, 0))]


def test_work_about_one_copy_keeps_its_order_whatever_tier_it_is_for(
    threaded: Callable[..., ThreadedByteWork], gate: Gate
) -> None:
    memory, one = MemoryTier(), dram(1)
    put(memory, one)
    work = threaded({Tier.DRAM: memory, Tier.SSD: gate}, workers=3)
    work.submit(clone(1, one))
    work.submit(ReleaseInstance(2, one.instance))  # inline, but the clone still reads
    work.submit(ReleaseInstance(3, at(one.copy, Tier.SSD)))
    work.submit(ReleaseInstance(4, at(CopyId(0, 5, 0), Tier.SSD)))  # another copy: not behind it
    assert settle(work, 1) == [InstanceReleased(4, CopyId(0, 5, 0))]
    assert work.poll() == []
    assert_readable(memory, one)
    gate.open.set()
    assert [completion.job for completion in settle(work, 3)] == [1, 2, 3]
    assert gate.order == ["release 5", "write 1", "release 1"]
    assert memory.copies() == ()


def test_many_copies_on_few_workers_all_end(threaded: Callable[..., ThreadedByteWork]) -> None:
    memory, ssd = MemoryTier(), MemoryTier()
    work = threaded({Tier.DRAM: memory, Tier.SSD: ssd}, workers=3)
    samples = [dram(number, 2 * number) for number in range(40)]
    for one in samples:
        put(memory, one)
        work.submit(clone(one.copy.revision, one))
        work.submit(LoadBlocks(100 + one.copy.revision, at(one.copy, Tier.SSD), one.spec, one.blocks))
        work.submit(ReleaseInstance(200 + one.copy.revision, one.instance))
    done = settle(work, 120)
    assert not [each for each in done if isinstance(each, WorkFailed)]
    place = {each.job: index for index, each in enumerate(done)}
    assert all(place[n] < place[100 + n] < place[200 + n] for n in range(40))
    assert (work.pending, memory.copies()) == (0, ())


def test_too_much_work_ends_at_once_and_giving_back_has_room(
    threaded: Callable[..., ThreadedByteWork], gate: Gate
) -> None:
    work = threaded({Tier.SSD: gate}, workers=1, limit=2)
    for number in (1, 2, 3):
        work.submit(ssd_store(number, number))
    work.submit(ReleaseInstance(4, at(CopyId(0, 8, 0), Tier.SSD)))
    assert work.poll() == [WorkFailed(3, CopyId(0, 3, 0), Reason.FAILED, "2 jobs are under way already")]
    gate.open.set()
    assert sorted(completion.job for completion in settle(work, 3)) == [1, 2, 4]
    work.submit(ssd_store(5, 5))
    assert settle(work, 1) == [BlocksStored(5, CopyId(0, 5, 0))]


def test_a_poll_loop_is_woken_once_per_batch(threaded: Callable[..., ThreadedByteWork], gate: Gate) -> None:
    woken: list[int] = []
    work = threaded({Tier.SSD: gate}, workers=1, wake=lambda: woken.append(1))
    assert select.select([work], [], [], 0)[0] == []
    work.submit(ssd_store(1, 1))
    work.submit(ssd_store(2, 2))
    gate.open.set()
    while work.pending:
        select.select([work], [], [], 1)
    assert select.select([work], [], [], 5)[0] == [work]
    assert len(work.poll()) == 2
    assert woken == [1]
    assert select.select([work], [], [], 0)[0] == []


def test_a_bug_in_a_worker_wakes_the_loop_and_is_raised(threaded: Callable[..., ThreadedByteWork]) -> None:
    class Broken(MemoryTier):
        def release(self, instance: Instance) -> None:
            raise ZeroDivisionError("a bug")

    work = threaded({Tier.SSD: Broken()})
    work.submit(ReleaseInstance(1, at(CopyId(0, 1, 0), Tier.SSD)))
    assert select.select([work], [], [], 10)[0] == [work]
    with pytest.raises(ZeroDivisionError, match="a bug"):
        work.poll()


def test_close_does_not_wait_for_a_stuck_worker_and_drops_what_waits(gate: Gate) -> None:
    work = ThreadedByteWork({Tier.SSD: gate}, workers=1)
    work.submit(ssd_store(1, 1))
    work.submit(ssd_store(2, 2))
    assert gate.reached.wait(20)
    begun = monotonic()
    assert not work.close(timeout_s=0.1)
    assert monotonic() - begun < 5
    expect(TierRefused, work.submit, ssd_store(3, 3))
    gate.open.set()
    assert work.close(timeout_s=10)
    assert [completion.job for completion in work.poll()] == [1]
    assert gate.order == ["write 1"]


def test_byte_work_needs_a_worker_and_room() -> None:
    expect(TierRefused, lambda: ThreadedByteWork({}, workers=0))
    expect(TierRefused, lambda: ThreadedByteWork({}, limit=0))
