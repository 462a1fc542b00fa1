"""What a restart may forget, and what it may not."""

from pinfold.core import commands as c
from pinfold.core import orders, reports, requests
from pinfold.core.answers import Created, Referred
from pinfold.core.calls import GetGroup
from pinfold.core.ids import Peer, Role, State
from pinfold.core.reports import Register
from tests.cases.embedded_world import LAYOUT, Cluster, put_of
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import beat_all, settle, used
from tests.directory_world import MANIFEST, N1, N2, World, id_of, spec_of
from tests.node_world import NodeWorld, copy_id, read_of

MANY = 300


def test_c56_restart_all_sealed_groups_are_there_again_whatever_time_has_passed() -> None:
    """Mooncake #3761 (#3771). A snapshot was read back correctly and then every object was erased, because its stored read lease,
    an instant of the wall clock, was over after the restart. The tests had a switch that left out just this step.

    Here an expired lease ends holds, not groups. 300 sealed groups are all there an hour later, through the one way of starting
    there is; what was being written by somebody who is gone is not.
    """
    cluster = Cluster("n1", slots=1_024, cluster={"checks": False})
    for number in range(MANY):
        cluster.begin("client/a", number, put_of(f"g{number}"))
    cluster.advance(2_000)
    assert all(cluster.reply("client/a", number) is not None for number in range(MANY))
    cluster.client("b", lease_ms=1_000)
    cluster.do(c.Create(put_of("begun").spec), "client/b")
    cluster.remove_client("client/b")
    cluster.do(c.Ref(key_of("g7")))
    cluster.crash_directory()
    cluster.now += 3_600_000
    cluster.start_directory()
    cluster.advance(5_000)
    sealed = [group for group in cluster.state.groups.values() if group.state is State.LOCAL]
    assert len(sealed) == MANY
    assert len(cluster.state.groups) == MANY
    cluster.client("c")
    for number in range(MANY):
        cluster.begin("client/c", number, GetGroup(key_of(f"g{number}"), layout=LAYOUT))
    cluster.advance(2_000)
    for number in range(MANY):
        reply = cluster.reply("client/c", number)
        assert reply is not None
        assert cluster.judge(f"g{number}", reply) == ""
    assert isinstance(cluster.do(c.Ref(key_of("g1")), "client/c"), Referred)
    cluster.check()


def test_c61_restart_a_node_that_comes_back_under_its_name_is_not_taken_for_what_it_was() -> None:
    """Mooncake #501. A node that was declared dead, or was restarted under its old name, came back before its old entries had
    gone. Taking its memory for new data while old entries still pointed into it mixed the two.

    Here coming back is a new incarnation. Nothing is placed there before its first whole inventory; what its earlier life still
    says has no effect; and a copy id of before is never given to anything else.
    """
    world = World(N1, N2)
    copy = world.put("G", N1)
    old = world.incarnation(N1)
    world.lapse(N1)
    world.step(Register(N1, "b1", Peer("node/n1"), 100))  # the same memory, back again
    assert world.incarnation(N1) > old
    world.put("F", N2)
    world.refused(c.Move(id_of("F"), N1), "NodeNotReady")
    created = world.do(c.Create(spec_of("H"), N1))
    assert isinstance(created, Created)
    assert created.node == N2
    world.refused(c.Pin(id_of("G")), "Unreadable")
    world.report(N1, reports.Freed(copy), incarnation=old)
    assert world.role(copy) is Role.AUTHORITATIVE
    world.inventory(N1)
    hold = world.pin("G")
    world.do(c.Unpin(hold))

    # The process is another one: the earlier registration is closed first, and its copies are not there.
    second = world.incarnation(N1)
    move = world.move("F", N1)
    world.register(N1, boot="b2", ready=False)
    assert world.role(move) is None
    world.report(N1, reports.CopyDone(move, MANIFEST), incarnation=second)
    world.report(N1, reports.CopyLost(copy, reports.Reason.LOST), incarnation=second)
    assert world.copy(copy).absent
    assert world.is_in("F", State.LOCAL)
    world.inventory(N1, ())
    settle(world)
    assert world.state.groups.get(id_of("G")) is None
    again = world.do(c.Create(spec_of("G"), N1))
    assert isinstance(again, Created)
    assert (again.node, again.copy > copy) == (N1, True)
    beat_all(world)
    assert used(world, N1) == 1

    # What the first process has still said comes late: it is not taken for a third one, and the second goes on.
    world.changes_nothing(Register(N1, "b1", Peer("node/n1"), 100))
    assert isinstance(world.beat(N1), orders.HeartbeatSeen)

    node = NodeWorld(boot="b2")
    node.incarnation = 2
    node.register()
    node.refused(read_of(copy_id(1)), "StaleCopy")  # by a route of before
    assert isinstance(node.replies[-1][1], requests.NodeRefused)
