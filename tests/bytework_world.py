"""What the tests of byte work share: samples in their places, effects, and a patient poll."""

import select
from time import monotonic
from typing import Any

from pinfold.backends.bytework import InlineByteWork, ThreadedByteWork
from pinfold.core.effects import CloneInstance, Instance, StoreBlocks
from pinfold.core.events import Completion
from pinfold.core.ids import CopyId, NodeName, Tier
from pinfold.testing_samples import Sample, make_sample

STORE = NodeName("store")
Work = InlineByteWork | ThreadedByteWork


def at(copy: CopyId, tier: Tier, slots: tuple[int, ...] = ()) -> Instance:
    return Instance(copy, tier, slots, STORE if tier is Tier.REMOTE_SSD else NodeName(""))


def dram(number: int, first_slot: int = 0) -> Sample:
    return make_sample(number, (100, 60), slots=(first_slot, first_slot + 1), tier=Tier.DRAM)


def settle(work: Work, count: int) -> list[Completion]:
    """Poll until `count` completions have come."""
    done: list[Completion] = []
    ends = monotonic() + 20
    while len(done) < count:
        assert monotonic() < ends, f"only {done} came"
        if isinstance(work, ThreadedByteWork):
            select.select([work], [], [], 1)
        done += work.poll()
    return done


def do(work: Work, effect: Any) -> Completion:
    work.submit(effect)
    (completion,) = settle(work, 1)
    return completion


def clone(number: int, one: Sample) -> CloneInstance:
    return CloneInstance(number, one.instance, at(one.copy, Tier.SSD), one.spec, one.manifest)


def ssd_store(number: int, job: int) -> StoreBlocks:
    one = make_sample(number)
    return StoreBlocks(job, one.instance, one.spec, one.blocks, one.checksums, one.data)
