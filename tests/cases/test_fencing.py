"""Owners and writers whose time is over, and who do not know it."""

import random

import pytest

from pinfold.backends.base import StoreFenced
from pinfold.backends.memory import MemoryStore
from pinfold.core import commands as c
from pinfold.core import events, orders, reports, requests
from pinfold.core.answers import Created, Exists, Joined, SessionClosed
from pinfold.core.directory import Directory
from pinfold.core.driver import Driver
from pinfold.core.effects import ReleaseInstance, StoreBlocks
from pinfold.core.ids import CopyId, Peer, Role, SessionId, State, Tier
from pinfold.core.state import RECORD_TYPES, DirectoryConfig
from tests.cases.story import beat_all, end_by_lease, free_all, settle, slots_of, small_node, used
from tests.directory_world import CLIENT, MANIFEST, N1, N2, World, id_of, spec_of
from tests.node_world import (
    WRITER,
    NodeWorld,
    content,
    copy_id,
    manifest_of,
    read_of,
    write_of,
)  # fmt: skip
from tests.node_world import spec_of as node_spec

C7, C8, C9 = copy_id(7), copy_id(8), copy_id(9)


def scheduled(seed: int) -> None:
    """Sessions come and go, writers begin and end, words arrive late: no two writers are accepted in one epoch."""
    chance = random.Random(seed)
    world = World(N1, N2)
    sessions: list[SessionId] = [world.open() for _ in range(3)]
    writers: dict[int, CopyId] = {}
    made: list[Created] = []
    for _ in range(60):
        session = chance.choice(sessions)
        word = chance.choice(("create", "create", "end session", "seal", "fail", "evict", "time"))
        if word == "create":
            answer = world.do(c.Create(spec_of("G")), session)
            if isinstance(answer, Created):
                assert answer.epoch not in writers
                writers[answer.epoch] = answer.copy
                made.append(answer)
            elif isinstance(answer, Exists):
                world.do(c.Unpin(answer.hold), session)
        elif word == "end session" and len(sessions) > 1:
            sessions.remove(session)
            assert isinstance(world.ask(c.CloseSession(CLIENT, "x", session)), SessionClosed)
            sessions.append(world.open())
        elif made and word in ("seal", "fail"):
            late = chance.choice(made)
            target = world.state.groups[id_of("G")].target if id_of("G") in world.state.groups else None
            was = world.state.groups.get(id_of("G"))
            fact = reports.Sealed(late.copy, MANIFEST) if word == "seal" else reports.CopyFailed(late.copy, reports.Reason.FAILED)
            world.report(late.node, fact)
            now = world.state.groups.get(id_of("G"))
            if was is not None and now is not None and late.copy != target and late.copy not in world.state.group_of:
                assert now.state is was.state
        elif word == "evict":
            for hold in list(world.state.held.get(session, ())):
                world.do(c.Unpin(hold), session)
            world.do(c.Evict(id_of("G")), session)
        else:
            beat_all(world)
            free_all(world)
            world.tick(100)


def test_c49_fencing_a_grant_is_checked_when_it_is_used_and_a_late_one_is_refused_at_the_bytes() -> None:
    """etcd #11456 (the Jepsen report on 3.4.3). A client waited for a lock, its lease ran out while it waited, and the lock was
    given to it all the same; and a reply that is late enough can't be saved by any check at the grant.

    Here whoever waits gets nothing by waiting: it asks again, and a session that is over is told so. What was granted is a copy
    id; the node refuses to write the one that was replaced, whatever its writer believes.
    """
    world = World(N1, N2)
    first, second = world.session, world.open(lease_ms=1_000)
    owned = world.create("G")
    assert isinstance(world.do(c.Create(spec_of("G")), second), Joined)
    world.step(c.Await(CLIENT, "wait", "readable", id_of("G"), timeout_ms=20_000))
    end_by_lease(world, second, first)
    world.ask(c.CloseSession(CLIENT, "bye", first))  # N1 releases
    world.refused(c.Create(spec_of("G")), "SessionEnded", second)
    third = world.open()
    granted = world.do(c.Create(spec_of("G")), third)
    assert isinstance(granted, Created)
    assert granted.copy > owned.copy
    assert granted.epoch > owned.epoch
    world.report(owned.node, reports.Sealed(owned.copy, MANIFEST))
    assert world.is_in("G", State.WRITING)
    for seed in range(12):
        scheduled(seed)

    node = small_node(8)
    node.reserve(C8, "G")
    node.order(orders.Free(C8))  # the grant of 8 is still on its way to its writer
    node.reserve(C9, "G")
    node.complete_all()
    node.refused(write_of(C8, "G"), "StaleCopy")
    node.do(write_of(C9, "G"))
    node.refused(requests.EndWrite(WRITER, "late", C8, manifest_of("G")), "StaleCopy")
    node.do(requests.EndWrite(WRITER, "end", C9, manifest_of("G")))
    assert node.read(C9).data == (content("G", 0), content("G", 1))


def test_c50_fencing_what_is_older_is_refused_what_is_newer_is_taken_and_a_restart_forgets_nothing() -> None:
    """etcd #10811 and #11788. A holder that was paused goes on writing when its lease is over, and only the resource can stop
    it. The shipped example compared with the first writer it ever saw, and so refused every lawful later one too.

    Here a node takes an order only under a higher (term, number) in its present incarnation; the store takes a commit only of
    the newest term. Both survive a restart: the one by a new incarnation, the other in the store itself.
    """
    node = small_node(8)
    node.reserve(C7, "G")
    node.step(write_of(C7, "G"))
    paused = node.work(StoreBlocks)
    node.order(orders.Free(C7))
    node.reserve(C8, "G")
    node.do(write_of(C8, "G"))
    node.do(requests.EndWrite(WRITER, "end", C8, manifest_of("G")))
    node.complete(paused)  # the old writer wakes
    node.complete_all()
    node.refused(write_of(C7, "G"), "StaleCopy")
    assert node.read(C8).data == (content("G", 0), content("G", 1))

    def order(term: int, number: int, incarnation: int = 1) -> orders.Order:
        return orders.Order(0, term, incarnation, number, orders.Free(copy_id(99)))

    node.step(order(1, 50))
    for stale in (order(1, 50), order(1, 49), order(0, 99), order(1, 51, 0), order(1, 51, 2)):
        node.changes_nothing(stale)
    for newer in (order(1, 51), order(2, 1), order(5, 3)):
        before = len(node.facts())
        node.step(newer)
        assert len(node.facts()) == before + 1
    node.changes_nothing(order(4, 1_000))

    again = NodeWorld(boot="b2")  # the node restarts: the orders of its earlier life count for nothing
    again.incarnation, again.term = 2, 5
    again.register()
    again.changes_nothing(order(5, 1_000, incarnation=1))
    again.order(orders.Free(copy_id(99)))
    assert again.facts() == [reports.Freed(copy_id(99))]

    store = MemoryStore(RECORD_TYPES, store_id="x")
    deposed = Directory(DirectoryConfig(), Directory.blank("x"))
    store.commit(deposed.start(0).persist)
    store.fence(deposed.state.meta.term)
    rival = store.rival()
    rival.fence(deposed.state.meta.term + 1)
    left: list[object] = []
    driver = Driver(deposed, store=store, wire=Wire(left))
    driver.handle(c.OpenSession(CLIENT, "t"), 1)
    with pytest.raises(StoreFenced):
        driver.flush()
    assert left == []


class Wire:
    """Notes what left."""

    def __init__(self, left: list[object]) -> None:
        self.left = left

    def send(self, target: str, message: object) -> None:
        self.left.append(message)


def test_c60_fencing_a_writer_that_is_taken_for_dead_loses_its_group_and_not_yet_its_room() -> None:
    """Mooncake #974 and RFC #975 (fixed by #993). A writer died between start and end, and its key stayed in process: not
    readable, not removable, not writable. A new writer may take over after a while; the old one's end is refused; and its room
    is not given to others while it may still write there.

    Here: `Joined` until the writer's session or deadline is over, then a new copy for whoever comes. The old copy's room counts
    until its node says that nobody writes there any more; where that can't be said, it is in quarantine.
    """
    for how in ("session", "deadline"):
        world = World(N1, N2, write_ms=4_000)
        other = world.open()
        old = world.do(c.Create(spec_of("G"), N1), world.session)
        assert isinstance(world.do(c.Create(spec_of("G"), N1), other), Joined)
        world.refused(c.Pin(id_of("G")), "NotSealed", other)
        if how == "session":
            world.ask(c.CloseSession(CLIENT, "dies", world.session))
        else:
            world.advance(4_500)
        world.refused(c.Pin(id_of("G")), "Unreadable", other)
        assert world.role(old.copy) is Role.FREEING
        new = world.do(c.Create(spec_of("G"), N1), other)
        assert isinstance(new, Created)
        assert used(world, N1) == 2
        world.report(N1, reports.Sealed(old.copy, MANIFEST))
        world.report(N1, reports.CopyFailed(old.copy, reports.Reason.FAILED))
        assert world.group("G").target == new.copy
        world.sealed(new.copy)
        assert world.is_in("G", State.LOCAL)
        free_all(world)
        assert used(world, N1) == 1

    nobody = World(N1)
    nobody.create("G")
    nobody.ask(c.CloseSession(CLIENT, "dies", nobody.session))
    settle(nobody)
    assert nobody.state.groups == {}
    assert nobody.state.used == {}

    stranger = Peer("client/stranger")
    node = small_node(4)
    node.reserve(C7, "G")
    node.step(requests.Acquire(WRITER, "w", "process:7/1", C7, write=True))
    mine = slots_of(node, C7)
    node.step(events.WriterUncertain(C7))
    node.order(orders.Free(C7))
    assert not node.running(ReleaseInstance)
    node.reserve(C8, "G")
    assert not slots_of(node, C8) & mine
    node.refused(requests.EndWrite(WRITER, "late", C7, manifest_of("G")), "Freeing")
    node.refused(requests.EndWrite(stranger, "x", C8, manifest_of("G")), "BadRequest")
    node.refused(requests.AbortWrite(stranger, "x", C8), "BadRequest")
    node.do(write_of(C8, "G"))
    node.do(requests.EndWrite(WRITER, "end", C8, manifest_of("G")))
    node.step(events.ProcessExited("process:7/1"))
    node.complete_all()
    assert node.node.state.slots[Tier.DRAM].quarantined == 2
    node.reserve(C9, "more")
    assert node.facts()[-1] == reports.CopyFailed(C9, reports.Reason.NO_SPACE)
    node.step(events.QuarantineLifted(C7))
    assert (node.used(), node.node.state.slots[Tier.DRAM].quarantined) == (2, 0)
    node.order(orders.Reserve(copy_id(10), node_spec("more"), Tier.DRAM, WRITER))
    assert len(slots_of(node, copy_id(10))) == 2
    assert node.read(C8).data == (content("G", 0), content("G", 1))
    node.step(read_of(C7))
    assert node.answers(requests.NodeRefused)[-1].refusal.reason == "StaleCopy"
