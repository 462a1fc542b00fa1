"""References that an unhappy path forgets to give back."""

import sys
from collections.abc import Callable

from pinfold.backends.memory_tier import MemoryTier
from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.answers import EvictAccepted, MoveAccepted
from pinfold.core.effects import CloneInstance
from pinfold.core.ids import NO_COPY, CopyId, Reason, Role, State, Tier
from pinfold.testing import make_sample
from tests.cases.story import free_all, freed_of, pin_and_unpin, settle, used
from tests.directory_world import N1, N2, STORE, World, id_of
from tests.node_world import NodeWorld, content, copy_id, manifest_of, spec_of

C1, C5 = copy_id(1), copy_id(5)


def pressed(copies: int = 4) -> NodeWorld:
    """Four copies of two blocks in eight DRAM slots: the first is about to go down to SSD, and its clone waits."""
    world = NodeWorld()
    world.register()
    for number in range(1, copies + 1):
        world.put(copy_id(number), str(number))
    return world


def guards(world: NodeWorld, copy: CopyId) -> list[int]:
    return [place.guards for place in world.node.state.copies[copy].places]


def test_c07_ref_leak_a_copy_between_tiers_holds_its_source_once_and_lets_go_however_it_ends() -> None:
    """LMCache #1756. A codec that changed nothing gave back the caller's buffer with one more reference, which nobody lowered.
    Once memory was full nothing counted as evictable any more.

    Here the one reference is the running work: it guards source and target once each, and ends with its completion, whatever
    that is. Nothing that a tier is given is kept by it.
    """
    ends: list[Callable[[NodeWorld, CloneInstance], object]] = [
        NodeWorld.complete,
        lambda world, clone: world.fail(clone, Reason.FAILED),
        lambda world, clone: world.fail(clone, Reason.NO_SPACE),
    ]
    for end in ends:
        world = pressed()
        clone = world.work(CloneInstance)
        assert guards(world, C1) == [1, 1]
        end(world, clone)
        assert set(guards(world, C1)) == {0}
        world.complete_all()
        assert len(guards(world, C1)) == 1
        assert world.read(C1).data == (content("1", 0), content("1", 1))
        before = world.used(Tier.DRAM) + world.used(Tier.SSD)
        world.order(orders.Free(C1))
        world.complete_all()
        assert freed_of(world, C1) == 1
        assert world.used(Tier.DRAM) + world.used(Tier.SSD) == before - 2

    spilled = pressed(1)
    spilled.order(orders.Spill(C5, spec_of("1"), manifest_of("1"), C1, STORE, 5_000))
    assert guards(spilled, C1) == [1]
    spilled.fail(spilled.work(CloneInstance))
    assert guards(spilled, C1) == [0]

    sample, tier = make_sample(1), MemoryTier()
    given = [bytearray(block) for block in sample.data]
    before_refs = [sys.getrefcount(buffer) for buffer in given]
    tier.write(sample.instance, sample.spec, sample.blocks, sample.checksums, tuple(given))
    tier.verify(sample.instance, sample.spec, sample.manifest)
    tier.load(sample.instance, sample.spec, sample.blocks)
    assert [sys.getrefcount(buffer) for buffer in given] == before_refs


def test_c08_ref_leak_a_write_to_the_slow_tier_that_fails_gives_everything_back() -> None:
    """LMCache #3554. The background writer gave back its reference, its pending mark and its room after a write that succeeded,
    and only then: after an I/O error the memory leaked, the key could never be stored again and the disk looked fuller.

    Here: a demotion that fails leaves the copy where it was, and no slot taken below; it is tried again later. A spill to a
    store that fails leaves the store's count as it was, once the half-made object has gone, and may be asked for again.
    """
    for reason in (Reason.FAILED, Reason.NO_SPACE):
        world = pressed()
        world.fail(world.work(CloneInstance), reason)
        world.complete_all()
        assert world.used(Tier.SSD) == 0
        assert world.node.state.moves == {}
        assert world.read(C1).tier is Tier.DRAM
        assert not world.running(CloneInstance)
        world.tick(world.node.config.move_retry_ms)
        world.complete(world.work(CloneInstance))
        world.complete_all()
        assert any(isinstance(fact, reports.TierChanged) for fact in world.facts())
        ssd = sum(len(p.slots) for copy in world.node.state.copies.values() for p in copy.places if p.instance.tier is Tier.SSD)
        assert world.used(Tier.SSD) == ssd > 0

    directory = World(stores=10)
    directory.put("A")
    for attempt in (1, 2):
        spill = directory.move("A", STORE)
        assert used(directory, STORE) == 1
        directory.failed(spill)
        assert directory.is_in("A", State.LOCAL)
        free_all(directory)
        assert used(directory, STORE) == 0
        pin_and_unpin(directory, "A")
        directory.refused(c.Move(id_of("A"), STORE), "MoveTooSoon")
        directory.advance(1_000 * attempt)
    assert isinstance(directory.do(c.Move(id_of("A"), STORE)), MoveAccepted)


def lapses(world: World, move: CopyId) -> None:
    world.lapse(N2)


def comes_back_empty(world: World, move: CopyId) -> None:
    world.register(N2, boot="b2")


def fails(world: World, move: CopyId) -> None:
    world.failed(move)


def is_cancelled(world: World, move: CopyId) -> None:
    world.do(c.CancelMove(id_of("A"), move))


def takes_too_long(world: World, move: CopyId) -> None:
    world.advance(world.config.move_ms + 500)


def test_c09_ref_leak_a_move_whose_target_vanishes_leaves_no_hold_on_its_source() -> None:
    """Mooncake #3402 (fixed by #3443). Beginning a move took a hold on the source. When the target had gone before the end, the
    error branch erased the task and gave back the quota, not the hold: nobody could ever drop it, and the copy stayed busy.

    Here what a move keeps of its source is in the one record: every way of ending it gives back source and room in that commit,
    a late word about it is refused, and nothing is left for time to do.
    """
    for vanish in (lapses, comes_back_empty, fails, is_cancelled, takes_too_long):
        world = World()
        copy = world.put("A")
        epoch = world.group("A").epoch
        move = world.move("A")
        assert (used(world, N1), used(world, N2)) == (1, 1)
        incarnation = world.incarnation(N2)
        vanish(world, move)
        group = world.group("A")
        assert group.state is State.LOCAL, vanish
        assert group.epoch > epoch
        assert world.role(copy) is Role.AUTHORITATIVE
        assert group.target == group.source == NO_COPY
        assert world.state.timed.keys() <= {move}
        free_all(world)
        assert used(world, N2) == 0

        world.refused(c.CancelMove(id_of("A"), move), "StaleMove")
        world.report(N2, reports.CopyDone(move, b"m" * 16), incarnation=incarnation)
        assert world.role(copy) is Role.AUTHORITATIVE
        pin_and_unpin(world, "A")
        before = dict(world.state.copies)
        world.advance(2_000)
        assert world.state.copies == before
        assert isinstance(world.do(c.Evict(id_of("A"))), EvictAccepted)
        settle(world)
        assert world.state.groups == {}
        assert world.state.used == {}
