"""Eviction of what somebody is using."""

from pinfold.core import commands as c
from pinfold.core import orders, requests
from pinfold.core.answers import BatchAnswer, EvictAccepted, Exists, Refused, Released
from pinfold.core.effects import CloneInstance, LoadBlocks, ReleaseInstance
from pinfold.core.ids import Reason, Tier
from pinfold.core.node_state import TierRoom
from tests.cases.story import freed_of
from tests.directory_world import World, id_of, spec_of
from tests.node_world import NodeWorld, config_of, content, copy_id, read_of

F, G, H = "F", "G", "H"
C1, C2, C3, C4 = (copy_id(number) for number in range(1, 5))


def three(world: World) -> None:
    for name in (F, G, H):
        world.put(name)
    world.pin(G)


def outcome(answer: object) -> str:
    return answer.refusal.reason if isinstance(answer, Refused) else type(answer).__name__


def test_c16_evict_in_use_a_batch_of_evictions_spares_what_one_eviction_would_spare() -> None:
    """LMCache #3130. One eviction respected the counts, the batched form gave bytes straight back to the allocator, and a reader
    who still held a chunk saw it recycled.

    Here a batch is its items, one by one, through the same door: same answers, same final record. And where a copy has to go
    under a reader all the same (its node is told to free it), the bytes stay until the read has ended.
    """
    batched, single = World(), World()
    three(batched)
    three(single)
    answer = batched.do(c.Batch(tuple(c.Evict(id_of(name)) for name in (F, G, H))))
    assert isinstance(answer, BatchAnswer)
    one_by_one = [single.do(c.Evict(id_of(name))) for name in (F, G, H)]
    assert [outcome(item) for item in answer.items] == ["EvictAccepted", "Pinned", "EvictAccepted"]
    assert [outcome(item) for item in one_by_one] == [outcome(item) for item in answer.items]
    assert batched.state.copies == single.state.copies
    assert {g.id: g.state for g in batched.state.groups.values()} == {g.id: g.state for g in single.state.groups.values()}

    node = NodeWorld(config_of(dram=4, ssd=4, group_slots=2))
    node.register()
    node.put(C1, G)
    node.put(C2, F)
    node.complete_all()
    node.step(read_of(C1, token="slow"))
    load = node.work(LoadBlocks)
    for copy in (C1, C2):
        node.order(orders.Free(copy))
    node.refused(read_of(C1, token="late"), "Freeing")
    while node.running(ReleaseInstance):
        node.complete(node.work(ReleaseInstance))
    assert (freed_of(node, C1), freed_of(node, C2)) == (0, 1)
    node.put(C3, H)
    node.put(C4, "I")
    node.complete(load)
    assert node.answers(requests.Blocks)[-1].data == (content(G, 0), content(G, 1))
    node.complete_all()
    assert freed_of(node, C1) == 1


def test_c17_evict_in_use_a_queued_promotion_keeps_its_source_until_it_has_run() -> None:
    """sglang #27444. A promotion only queued its copy. The destination was locked and the source was not: host pressure could
    recycle the source pages before the queued copy read them, and what arrived was somebody else's.

    The device here runs a queued copy when the test says so. Until then the source's slots belong to nobody else, whoever asks
    for the copy to go; they come back with the completion, whether it went well or not.
    """
    for end in ("done", "failed"):
        for told_to_go in (False, True):
            node = NodeWorld(config_of(tiers=(TierRoom(Tier.HBM, 4), TierRoom(Tier.DRAM, 8)), group_slots=2))
            node.register()
            node.put(C1, G, tier=Tier.DRAM)
            node.read(C1)
            clone = node.work(CloneInstance)
            assert (clone.source.tier, clone.target.tier) == (Tier.DRAM, Tier.HBM)
            source = set(clone.source.slots)
            if told_to_go:
                node.order(orders.Free(C1))
            assert not node.running(ReleaseInstance)
            for number in range(2, 5):
                node.put(copy_id(number), str(number), tier=Tier.DRAM)
                (place,) = node.node.state.copies[copy_id(number)].places
                assert place.instance.tier is not Tier.DRAM or not source & set(place.slots)
            assert not node.running(ReleaseInstance)
            if end == "done":
                node.complete(clone)
            else:
                node.fail(clone, Reason.FAILED)
            if not told_to_go:
                assert node.read(C1).data == (content(G, 0), content(G, 1))
                node.order(orders.Free(C1))
            node.complete_all()
            assert freed_of(node, C1) == 1
            assert node.used(Tier.DRAM) + node.used(Tier.HBM) == 6


def test_c19_evict_in_use_there_is_no_gap_between_making_a_group_and_pinning_it() -> None:
    """Ray #7235. Between creating an object and the separate call that pins it, eviction could take it; the fix kept the
    creator's own hold until the pin was confirmed.

    Here `Create`, and the answer that it exists already, come with a pin. A lost answer to a later pin costs nothing: the same
    number gives the same hold.
    """
    world = World(capacity=2)
    created = world.create(G)
    world.refused(c.Evict(id_of(G)), "NotSealed")
    world.sealed(created.copy)
    world.refused(c.Evict(id_of(G)), "Pinned")
    world.refused(c.Create(spec_of(H, 5)), "TooLarge")
    for name in (F, H, "I"):
        world.do(c.Create(spec_of(name)))  # there is room for three more, and then pressure
    world.refused(c.Create(spec_of("J")), "NoSpace")
    world.advance(1_000)
    assert world.role(created.copy) is not None

    command = world.command(c.Pin(id_of(G)))
    once = world.send(command)
    again = world.send(command)  # the answer was lost: the same number again
    assert once == again
    world.sequences[world.session] = command.sequence
    assert world.state.pinned[created.copy] == 2
    assert isinstance(world.do(c.Unpin(created.hold)), Released)
    assert world.state.pinned[created.copy] == 1
    world.refused(c.Evict(id_of(G)), "Pinned")

    other = world.open()
    exists = world.do(c.Create(spec_of(G)), other)
    assert isinstance(exists, Exists)
    world.do(c.Unpin(once.answer.hold))
    world.refused(c.Evict(id_of(G)), "Pinned")
    world.do(c.Unpin(exists.hold), other)
    assert isinstance(world.do(c.Evict(id_of(G))), EvictAccepted)
