"""The same thing said again."""

from pinfold.core import commands as c
from pinfold.core import events, orders, reports
from pinfold.core.answers import MoveAccepted
from pinfold.core.effects import StoreBlocks, VerifyInstance
from pinfold.core.ids import Reason, Role, State
from tests.cases.story import fetched, freed_of, settle, small_node
from tests.directory_world import N1, N2, N3, OTHER_MANIFEST, World, id_of
from tests.node_world import content, copy_id, fetch_of, manifest_of

C1, C2 = copy_id(1), copy_id(2)


def test_c40_retry_a_move_that_is_said_again_has_no_second_effect_and_overwrites_nothing() -> None:
    """Redis #5708. A retried migration of a key meets its own earlier success at the target, or somebody else's newer value. The
    tool now compares: equal ends the move, different stops it.

    Here the retry is the same number and gets the same answer; the worker's copy has an id of its own, so that a job ordered
    again finds what it made before; and what another writer has put there has another id, epoch and manifest.
    """
    world = World(N1, N2, N3)
    world.put("G")
    first_epoch = world.group("G").epoch
    command = world.command(c.Move(id_of("G"), N2))
    once = world.send(command)
    revision = world.state.meta.revision
    assert world.send(command) == once  # the answer was lost
    assert world.state.meta.revision == revision
    world.sequences[world.session] = command.sequence
    assert isinstance(once.answer, MoveAccepted)
    move = once.answer.move
    world.done(move)
    epoch = world.group("G").epoch
    for _ in range(2):
        world.done(move)
    assert world.group("G").epoch == epoch
    assert world.counter("moves_committed") == 1

    settle(world)
    world.refused(c.Move(id_of("G"), N1, expected_epoch=first_epoch), "StaleEpoch")
    world.do(c.Evict(id_of("G")))
    settle(world)
    newer = world.put("G", N2)  # somebody else's
    world.report(N2, reports.CopyDone(move, b"m" * 16))
    assert world.role(newer) is Role.AUTHORITATIVE
    assert world.role(move) is None
    onward = world.move("G", N1)
    world.done(onward, OTHER_MANIFEST)
    assert world.role(newer) is Role.AUTHORITATIVE
    assert world.is_in("G", State.LOCAL)

    node = small_node(4)
    for stage in range(4):  # asked, bytes queued, verifying, done
        node.order(fetch_of("G", C1))
        assert node.used() == 2
        if stage == 0:
            node.step(fetched(node, "G"))
        elif stage == 1:
            node.complete(node.work(StoreBlocks))
        elif stage == 2:
            node.complete(node.work(VerifyInstance))
    assert node.facts() == [reports.CopyDone(C1, manifest_of("G"))] * 2
    assert node.read(C1).data == (content("G", 0), content("G", 1))
    node.order(fetch_of("H", C2, deadline_ms=1))
    node.tick(1)
    node.order(fetch_of("H", C2))  # failed is failed, under this id
    assert node.facts()[-2:] == [reports.CopyFailed(C2, Reason.DEADLINE)] * 2


def test_c77_retry_a_completion_that_is_told_twice_is_counted_and_changes_nothing() -> None:
    """vLLM #51786 (also #53079). Two backends told the end of one load in different steps, and the second one met an assertion
    that took the engine down; a maintainer holds that a duplicate is somebody's bug and should not be hidden.

    Here it is neither a crash nor hidden: refused as stale, counted, and in a run without faults the counter stays zero.
    """
    world = World(N1, N2)
    copy = world.put("G")
    move = world.moved("G")
    settle(world)
    assert world.counter("stale_facts") == 0
    before = world.state.copies[id_of("G")]
    world.done(move)
    world.report(N1, reports.CopyDone(move, b"m" * 16))  # by somebody else, too
    world.report(N2, reports.CopyFailed(move, Reason.FAILED))
    assert world.counter("stale_facts") == 3
    assert world.state.copies[id_of("G")] == before
    assert not world.orders(orders.Free, N2)
    world.report(N1, reports.Sealed(copy, b"m" * 16))  # of an earlier copy, which has gone
    assert world.counter("stale_facts") == 4
    assert world.state.copies[id_of("G")] == before

    node = small_node(4)
    node.order(fetch_of("G", C1))
    node.step(fetched(node, "G"))
    store = node.work(StoreBlocks)
    node.complete(store)
    node.changes_nothing(events.BlocksStored(store.job, C1))
    verify = node.work(VerifyInstance)
    node.changes_nothing(events.BlocksStored(verify.job, C1))  # of another kind than the work that runs
    node.changes_nothing(events.InstanceVerified(verify.job, C2, b""))  # of another copy
    node.complete(verify)
    node.changes_nothing(events.InstanceVerified(verify.job, C1, manifest_of("G")))
    node.changes_nothing(events.WorkFailed(verify.job, C1, Reason.FAILED))
    node.changes_nothing(events.InstanceVerified(999, C1, manifest_of("G")))
    node.order(orders.Free(C1))
    node.complete_all()
    assert (freed_of(node, C1), node.used()) == (1, 0)
