"""Moves between a node's own tiers (rule 12): the new place first, the old one under guards, the copy id as it was."""

import pytest

from pinfold.core import events, orders, reports, requests
from pinfold.core.effects import CloneInstance, LoadBlocks, ReleaseInstance
from pinfold.core.ids import NodeName, Reason, Tier
from pinfold.core.node_state import TierRoom
from pinfold.core.reports import CopyLost, Freed, TierChanged

from .node_world import READER, NodeWorld, config_of, content, copy_id, read_of

C1, C2, C3, C4 = (copy_id(number) for number in range(1, 5))


def pressed() -> NodeWorld:
    """Four copies of two blocks in eight DRAM slots: the high watermark (six) is passed, and a clone waits."""
    world = NodeWorld()
    world.register()
    for number in range(1, 5):
        world.put(copy_id(number), str(number))
    return world


def tiers(world: NodeWorld, copy: object) -> list[Tier]:
    return [place.instance.tier for place in world.node.state.copies[copy].places]  # type: ignore[index]


def test_above_high_the_coldest_go_down_until_low() -> None:
    world = pressed()
    assert world.work(CloneInstance).source.copy == C1
    assert len(world.works) == 1  # one at a time
    world.complete_all()
    assert [tiers(world, copy) for copy in (C1, C2, C3, C4)] == [[Tier.SSD]] * 2 + [[Tier.DRAM]] * 2
    assert [f for f in world.facts() if isinstance(f, TierChanged)] == [
        TierChanged(C1, Tier.SSD), TierChanged(C2, Tier.SSD),
    ]  # fmt: skip
    answer = world.read(C1)
    assert (answer.tier, answer.data[0]) == (Tier.SSD, content("1", 0))


def test_a_read_makes_a_copy_warm() -> None:
    world = NodeWorld()
    world.register()
    for number in range(1, 4):
        world.put(copy_id(number), str(number))
    world.read(C1)
    world.put(C4, "4")
    assert world.work(CloneInstance).source.copy == C2


def test_a_guarded_copy_is_passed_over() -> None:
    world = NodeWorld()
    world.register()
    for number in range(1, 4):
        world.put(copy_id(number), str(number))
    world.step(requests.Acquire(READER, "g", "process:1/1", C1))
    world.put(C4, "4")
    assert world.work(CloneInstance).source.copy == C2


def test_a_demotion_under_a_read_keeps_the_old_place_until_the_read_has_ended() -> None:
    world = pressed()
    clone = world.work(CloneInstance)
    world.step(read_of(C1))
    load = world.work(LoadBlocks)
    assert load.instance.tier is Tier.DRAM
    world.complete(clone)
    assert tiers(world, C1) == [Tier.DRAM, Tier.SSD]
    assert not world.running(ReleaseInstance)
    world.step(read_of(C1, token="second"))
    assert world.running(LoadBlocks)[-1].instance.tier is Tier.SSD  # new guards go to the new place
    world.step(requests.Acquire(READER, "g", "process:1/1", C1))
    guard = world.answers(requests.Guarded)[-1]
    assert guard.tier is Tier.SSD
    world.step(requests.Let(READER, "let", guard.guard))
    world.complete(load)
    world.complete(world.work(ReleaseInstance))
    assert tiers(world, C1) == [Tier.SSD]
    world.complete_all()
    assert [answer.data for answer in world.answers(requests.Blocks)] == [(content("1", 0), content("1", 1))] * 2


def test_a_read_that_fails_in_the_old_place_goes_on_in_the_new_one() -> None:
    world = pressed()
    clone = world.work(CloneInstance)
    world.step(read_of(C1))
    world.complete(clone)
    world.fail(world.work(LoadBlocks), Reason.CORRUPT)
    world.complete_all()
    assert world.answers(requests.Blocks)[-1].tier is Tier.SSD
    assert not [fact for fact in world.facts() if isinstance(fact, CopyLost)]


def test_who_asked_it_to_stay_keeps_it_there() -> None:
    world = pressed()
    clone = world.work(CloneInstance)
    world.step(requests.Acquire(READER, "g", "process:1/1", C1, stay=True))
    world.complete(clone)
    world.complete(world.work(ReleaseInstance))
    assert tiers(world, C1) == [Tier.DRAM]


def test_a_free_during_a_local_move_frees_both_places() -> None:
    world = pressed()
    world.order(orders.Free(C1))
    assert not world.running(ReleaseInstance)
    world.complete(world.work(CloneInstance))
    assert len([w for w in world.running(ReleaseInstance) if w.instance.copy == C1]) == 2
    world.complete_all()
    assert Freed(C1) in world.facts()
    assert world.node.state.moves == {}


def test_a_failed_move_costs_nothing_and_is_tried_later() -> None:
    world = pressed()
    world.fail(world.work(CloneInstance), Reason.FAILED)
    world.complete(world.work(ReleaseInstance))
    assert tiers(world, C1) == [Tier.DRAM]
    assert world.used(Tier.SSD) == 0
    assert not world.works
    world.tick(1_000)
    assert world.work(CloneInstance).source.copy == C1


def test_a_move_that_finds_its_source_corrupt_has_lost_the_copy() -> None:
    world = pressed()
    world.scribble(world.work(CloneInstance).source)
    world.complete(world.work(CloneInstance))
    assert world.facts()[-1] == CopyLost(C1, Reason.CORRUPT)
    world.complete_all()
    assert C1 not in world.node.state.copies


def test_a_read_from_a_slow_tier_brings_the_copy_back_where_there_is_room() -> None:
    world = pressed()
    world.complete_all()
    world.order(orders.Free(C4))
    world.complete_all()
    world.read(C1)
    clone = world.work(CloneInstance)
    assert (clone.source.tier, clone.target.tier) == (Tier.SSD, Tier.DRAM)
    world.complete_all()
    assert tiers(world, C1) == [Tier.DRAM]
    world.read(C2)  # with it DRAM would be above its low watermark
    assert not world.works


def test_promotion_can_be_switched_off() -> None:
    rooms = (TierRoom(Tier.DRAM, 8), TierRoom(Tier.SSD, 8, slab=False))
    world = NodeWorld(config_of(tiers=rooms, promote=False))
    world.register()
    world.put(C1, "1", tier=Tier.SSD)
    world.read(C1)
    assert not world.works


def test_a_release_that_fails_keeps_the_old_place_counted() -> None:
    world = pressed()
    world.complete(world.work(CloneInstance))
    world.fail(world.work(ReleaseInstance))
    assert world.used(Tier.DRAM) == 8
    assert world.read(C1).tier is Tier.SSD
    world.tick(200)
    world.complete_all()
    assert world.used(Tier.DRAM) == 4


@pytest.mark.parametrize("guards", [1, 2])
@pytest.mark.parametrize(
    ("owner", "ending"),
    [
        ("process:1/1", events.ProcessExited("process:1/1")),
        ("peer:n2/5", events.RegistrationWithdrawn("peer:n2/5")),
        ("peer:n2/5", orders.PeerGone(0, 1, NodeName("n2"), 5)),
    ],
)
def test_when_all_are_guarded_nothing_moves_and_the_next_end_of_a_guard_starts_it(
    guards: int, owner: str, ending: object
) -> None:
    world = NodeWorld()
    world.register()
    for number in range(1, 4):
        world.put(copy_id(number), str(number))
        for index in range(guards):
            world.step(requests.Acquire(READER, f"{number}/{index}", owner, copy_id(number)))
    world.reserve(C4, "4")
    assert not world.works
    assert world.step(ending).transfer
    assert world.messages(reports.Report)
