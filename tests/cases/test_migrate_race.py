"""Moves that meet a write, another move, or a neighbour."""

import random
from pathlib import Path

from pinfold.backends.blockfile import geometry
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import TierFull
from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.effects import CloneInstance, LoadBlocks, ReleaseInstance, StoreBlocks, Transfer, VerifyInstance
from pinfold.core.ids import Reason, Tier
from pinfold.core.node_state import TierRoom
from pinfold.testing import Sample, make_sample
from tests.cases.story import freed_of, small_node
from tests.directory_world import N2, World, id_of
from tests.node_world import (
    STORE,
    WRITER,
    NodeWorld,
    config_of,
    content,
    copy_id,
    manifest_of,
    read_of,
    spec_of,
    write_of,
)  # fmt: skip

C1, C5 = copy_id(1), copy_id(5)


def test_c29_migrate_race_a_group_is_not_copied_before_its_last_write_has_ended() -> None:
    """vLLM #46278 (#45704). The books said that a block was complete because its tokens were confirmed, and the copy out began
    while the device was still writing it: garbage was saved, and nothing failed until somebody read it.

    Here what counts is the end of the write, told by the byte work, and a reading back after it. Until then there is no seal,
    so there is no move; and a copy worker that runs before the writer has nothing to run.
    """
    world = World()
    created = world.create("G")
    world.refused(c.Move(id_of("G"), N2), "NotSealed")
    world.sealed(created.copy)
    world.do(c.Unpin(created.hold))
    world.move("G")

    node = small_node(8, stores=(STORE,))
    node.reserve(C1, "G")
    node.step(write_of(C1, "G"))
    write = node.work(StoreBlocks)
    node.step(requests.EndWrite(WRITER, "end", C1, manifest_of("G")))  # the books say that all is there
    assert node.running(VerifyInstance) == node.facts() == []
    node.refused(read_of(C1), "NotVerified")
    node.order(orders.Spill(C5, spec_of("G"), manifest_of("G"), C1, STORE, 5_000))
    assert node.facts() == [reports.CopyFailed(C5, Reason.LOST)]
    assert not node.running(CloneInstance)
    node.complete(write)
    node.complete(node.work(VerifyInstance))
    assert node.facts()[-1] == reports.Sealed(C1, manifest_of("G"))
    node.order(orders.Spill(copy_id(6), spec_of("G"), manifest_of("G"), C1, STORE, 5_000))
    node.complete_all()
    assert node.facts()[-1] == reports.CopyDone(copy_id(6), manifest_of("G"))
    assert node.read(C1).data == (content("G", 0), content("G", 1))

    # A writer in another process: while it may still write, nothing that it says ends the write.
    mapped = small_node(8)
    mapped.reserve(C1, "G")
    mapped.step(requests.Acquire(WRITER, "w", "process:7/1", C1, write=True))
    mapped.refused(requests.EndWrite(WRITER, "end", C1, manifest_of("G")), "Incomplete")


# ---- C31 -----------------------------------------------------------------------------------------------------


def touched(work: Transfer) -> tuple[set[tuple[Tier, int]], set[tuple[Tier, int]]]:
    """`(slots read, slots written or given up)` of byte work."""
    if isinstance(work, CloneInstance):
        source, target = work.source, work.target
        return {(source.tier, slot) for slot in source.slots}, {(target.tier, slot) for slot in target.slots}
    assert isinstance(work, StoreBlocks | LoadBlocks | VerifyInstance | ReleaseInstance)
    slots = {(work.instance.tier, slot) for slot in work.instance.slots}
    return (set(), slots) if isinstance(work, StoreBlocks | ReleaseInstance) else (slots, set())


def no_two_meet(node: NodeWorld) -> None:
    """Of the works that may run now, in whatever order, none writes a slot that another one reads or writes."""
    works = [touched(work) for work in node.works.values()]
    for number, (_, writes) in enumerate(works):
        for other, (reads, also_writes) in enumerate(works):
            assert number == other or not writes & (reads | also_writes)


def test_c31_migrate_race_copies_between_tiers_wait_for_slots_and_not_for_names() -> None:
    """TensorRT-LLM #9056. Demotions, promotions and partial copies went through the same host slots; waits between them were
    missing, or were kept under logical ids that swap between slots.

    Copies of four groups chase each other through four slots above and four below, promoted and demoted by what is read, and
    the device runs what is queued in any order. No two works that could run meet on a slot, and every read is right.
    """
    moved = 0
    for seed in range(12):
        chance = random.Random(seed)
        rooms = (TierRoom(Tier.HBM, 4, high_percent=70, low_percent=50), TierRoom(Tier.DRAM, 6, high_percent=100))
        node = NodeWorld(config_of(tiers=rooms, group_slots=1, local_moves_max=2, stores=()))
        node.register()
        names: dict[int, str] = {}
        for step in range(120):
            word = chance.random()
            if word < 0.5 and node.works:
                work = chance.choice(list(node.works.values()))
                moved += isinstance(work, CloneInstance)
                node.complete(work)
            elif word < 0.8 and names:
                number = chance.choice(sorted(names))
                node.step(read_of(copy_id(number), 0, token=f"{number} {step}"))
            elif word < 0.9 and len(names) < 6:
                names[step + 1] = f"g{step}"
                node.reserve(copy_id(step + 1), f"g{step}", 1, Tier.HBM)
                node.do(write_of(copy_id(step + 1), f"g{step}", (0,)))
                node.do(requests.EndWrite(WRITER, f"e{step}", copy_id(step + 1), manifest_of(f"g{step}", 1)))
            elif len(names) > 4:
                gone = chance.choice(sorted(names))
                del names[gone]
                node.order(orders.Free(copy_id(gone)))
            no_two_meet(node)
            node.now += 100
        node.complete_all()
        for answer in node.answers(requests.Blocks):
            number = answer.copy.revision - 1
            assert answer.data == (content(f"g{number}", 0),)
        assert not [answer for answer in node.answers(requests.NodeRefused) if answer.refusal.reason == "Corrupt"]
        for number, name in names.items():
            assert node.read(copy_id(number), 0).data == (content(name, 0),)
    assert moved > 40

    two = small_node(4)
    two.put(C1, "G")
    for token in ("one", "two"):
        two.step(read_of(C1, token=token))
    assert len(two.running(LoadBlocks)) == 2  # two readers of one slot run together
    two.order(orders.Free(C1))
    two.complete_all()
    assert freed_of(two, C1) == 1


# ---- C36 -----------------------------------------------------------------------------------------------------


def written(tier: SsdTier, sample: Sample) -> None:
    tier.write(sample.instance, sample.spec, sample.blocks, sample.checksums, sample.data)


def test_c36_migrate_race_what_one_group_has_on_disk_ends_with_no_other(tmp_path: Path) -> None:
    """Ray #16153. Several objects were spilled into one file, whose count was raised after each location was announced: the
    first was announced, counted and evicted before the others were counted, and the file went with all of them.

    Here a copy has a file of its own, published whole, and its room is taken when its first block comes, before anybody is told
    of it. What a crash leaves behind is either published or gone, and is counted anew from what is there.
    """
    folder = tmp_path / "ssd"
    a, b, d = (make_sample(number) for number in (1, 2, 3))
    room = sum(geometry(one.copy, one.spec).file_bytes for one in (a, b, d))
    tier = SsdTier(folder, capacity_bytes=room)
    for one in (a, b, d):
        written(tier, one)
    assert tier.used_bytes == room
    full = False
    try:
        written(tier, make_sample(4))
    except TierFull:
        full = True
    assert full
    tier.verify(a.instance, a.spec, a.manifest)
    tier.release(a.instance)  # announced, used and evicted before the others are published
    assert tier.used_bytes == room - geometry(a.copy, a.spec).file_bytes
    tier.verify(b.instance, b.spec, b.manifest)
    assert tuple(bytes(block) for block in tier.load(b.instance, b.spec, b.blocks)[1]) == b.data
    tier.close()  # a crash: the third was written and never published

    again = SsdTier(folder, capacity_bytes=room)
    report = again.scan()
    assert [found.copy for found in report.found] == [b.copy]
    assert len(report.removed) == 1
    assert again.used_bytes == geometry(b.copy, b.spec).file_bytes
    again.release(b.instance)
    again.release(b.instance)
    assert (again.used_bytes, again.copies()) == (0, ())
    again.close()
