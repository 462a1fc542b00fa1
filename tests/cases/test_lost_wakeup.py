"""What waits for something that never comes, or that came before anybody looked."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import attrs
import zmq

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.answers import Created, MoveAccepted
from pinfold.core.calls import Done, Failed
from pinfold.core.effects import CloneInstance, ReleaseInstance
from pinfold.core.ids import CopyId, Reason, Role, State, Tier
from pinfold.core.reports import Heartbeat, TierChanged
from pinfold.transport.zmq import ClientWire, ServerWire
from tests.cases import zmq_world
from tests.cases.embedded_world import Cluster, put_of
from tests.cases.story import free_all, freed_of, small_node, used
from tests.directory_world import CLIENT, N1, N2, STORE, World, id_of, spec_of
from tests.node_world import STORE as NODE_STORE
from tests.node_world import NodeWorld, copy_id, manifest_of
from tests.node_world import spec_of as node_spec
from tests.wiring import PATIENT, let_go, stat

C1, C5 = copy_id(1), copy_id(5)

# ---- C67 -----------------------------------------------------------------------------------------------------

Duty = tuple[Callable[[World], Any], Callable[[World, Any], bool]]


def leaving(world: World) -> None:
    world.put("G")
    hold = world.pin("G")
    world.do(c.Evict(id_of("G"), wait=True))
    world.do(c.Unpin(hold))


def full(world: World) -> None:
    for number in range(10):
        world.put(f"g{number}", N1)
    world.do(c.Create(spec_of("more", 6), N1))


def moving(world: World, **how: Any) -> CopyId:
    world.put("G")
    return world.move("G", **how)


def moved(world: World) -> CopyId:
    copy = world.put("G")
    world.moved("G")
    return copy


def waiting(world: World) -> None:
    world.step(c.Await(CLIENT, "w", "readable", id_of("none"), timeout_ms=1))


def is_not(role: Role) -> Callable[[World, Any], bool]:
    return lambda world, copy: world.role(copy) is not role


DUTIES: dict[str, Duty] = {
    "a session's lease": (lambda world: world.open(lease_ms=1_000), lambda world, session: session not in world.state.sessions),
    "a writer's deadline": (lambda world: world.do(c.Create(spec_of("G"), write_ms=1_000)).copy, is_not(Role.INCOMING)),
    "a move's deadline": (lambda world: moving(world, deadline_ms=1_000), is_not(Role.INCOMING)),
    "a source's grace": (moved, is_not(Role.RETIRING)),
    "an eviction that waited": (leaving, lambda world, _: not world.is_in("G", State.LOCAL)),
    "a tier above its mark": (full, lambda world, _: bool(world.orders(orders.Free, N1))),
    "a waiter's deadline": (waiting, lambda world, _: not world.state.waiters),
}

KINDS: dict[str, Callable[[World], Any]] = {
    "nothing": lambda world: None,
    "queries": lambda world: world.ask(c.Locate(CLIENT, "l", (id_of("none"),))),
    "heartbeats": lambda world: world.beat(N1),
    "releases": lambda world: world.do(c.ReleaseRequest("none")),
}


def test_c67_lost_wakeup_no_duty_of_the_house_depends_on_new_work() -> None:
    """sglang #20049. Locks of write-through were dropped when acknowledgements were read, and those were read only while new
    requests were admitted: a server that only decoded ran out of memory with room enough.

    Here each duty is done by the clock alone, with each kind of step that admits nothing, and by no more than the ticks that
    the machine itself asks for. At a node a completion is heard in its own step, and so is what follows from it.
    """
    for duty, (begin, ended) in DUTIES.items():
        for kind, step in KINDS.items():
            world = World(N1, N2, capacity=10)
            waited = begin(world)
            for _ in range(40):
                if ended(world, waited):
                    break
                step(world)
                due = world.ready.alarm
                assert due is not None
                world.now = max(world.now + 1, min(due, world.now + 500))
                if due <= world.now:
                    world.tick()
            assert ended(world, waited), (duty, kind)

    node = NodeWorld()
    node.register()
    for number in range(1, 5):
        node.put(copy_id(number), str(number))
    node.complete(node.work(CloneInstance))
    assert node.facts()[-1] == TierChanged(C1, Tier.SSD)
    assert [place.guards for place in node.node.state.copies[C1].places] == [0, 0]
    node.complete(node.work(ReleaseInstance))
    assert node.running(CloneInstance)  # still above the low mark: the next one goes down
    node.complete_all()
    assert node.used(Tier.DRAM) == 4


def test_c68_lost_wakeup_what_has_timed_out_is_cleared_away_although_nothing_can_be_admitted() -> None:
    """TensorRT-LLM #12313. Timed-out transfers were cleaned up by the routine that starts new ones. Cancelled requests filled the
    pool, nothing could start, so nothing was ever cleaned up; health checks stayed green.

    Here the clock alone ends what is over. And a node in which something runs that should have ended long ago says so, by name.
    """
    world = World(N1, N2, capacity=2)
    for name in ("a", "b"):
        world.put(name, N1)
        world.ref(name)
        world.move(name, N2, deadline_ms=1_000)
    for _ in range(2):
        world.refused(c.Create(spec_of("new")), "NoSpace")
    world.now += 500
    world.renew()
    world.now += 700
    world.tick()
    world.tick()
    assert used(world, N2) == 2
    assert free_all(world) == 2
    world.renew()
    assert isinstance(world.do(c.Create(spec_of("new"), N2)), Created)

    node = NodeWorld()
    node.register()
    for number in range(1, 5):
        node.put(copy_id(number), str(number))
    assert node.running(CloneInstance)
    for _ in range(node.node.config.guard_stuck_ms // 500 + 4):
        node.tick(500)
    beat = node.messages(Heartbeat)[-1]
    assert any("CLONE" in line and str(C1) in line for line in beat.stuck)
    node.complete_all()
    node.tick(1_000)
    assert node.messages(Heartbeat)[-1].stuck == ()


def test_c69_lost_wakeup_nobody_waits_for_room_that_can_t_come() -> None:
    """LMCache #2942. With the cache switched off the same memory was a staging buffer in which nothing can be evicted; the
    allocator waited in a loop for an eviction all the same, and the engine froze.

    Here the answer to no room is `NO_SPACE`, at once, from node and directory alike; the client asks again until its deadline,
    with growing pauses, and the others are served meanwhile. Whatever the sizes are.
    """
    for slots in (2, 3):
        for high in (1_000, 850):
            for spare in (0, 10):
                marks = {"high": high, "low": high - 50, "spill": bool(spare)}
                cluster = Cluster("n1", slots=slots, stores=spare, directory=marks)
                cluster.STEPS_MAX = 5_000  # type: ignore[misc]
                cluster.client("b")
                held = cluster.put("G", keep_pin=True).hold
                assert held is not None
                began = cluster.now
                cluster.begin("client/b", "put", put_of("H"), 1_500)
                cluster.advance(500)
                assert cluster.reply("client/b", "put") is None
                assert cluster.get("G") == ""
                cluster.advance(1_500)
                late = cluster.reply("client/b", "put")
                assert isinstance(late, Failed)
                assert late.refusal.reason in ("DeadlineReached", "NoSpace")
                assert cluster.now - began <= 2_500
                cluster.begin("client/b", "again", put_of("H"), 20_000)
                cluster.advance(200)
                cluster.do(c.Unpin(held))
                cluster.advance(6_000)
                assert isinstance(cluster.reply("client/b", "again"), Done), (slots, high, spare)
                if high == 1_000:  # else it is above the mark, and has been evicted since
                    assert cluster.get("H", near="n1") == ""
                cluster.rest()

    node = small_node(2)
    node.put(C1, "G")
    node.reserve(C5, "H")
    assert node.facts()[-1] == reports.CopyFailed(C5, Reason.NO_SPACE)


def spilling() -> tuple[NodeWorld, list[CopyId]]:
    """Three groups of one request, each on its way to the store."""
    node = small_node(8, stores=(NODE_STORE,))
    targets = []
    for number in (1, 2, 3):
        node.put(copy_id(number), str(number))
        target = copy_id(10 + number)
        node.order(orders.Spill(target, node_spec(str(number)), manifest_of(str(number)), copy_id(number), NODE_STORE, 5_000))
        targets.append(target)
    return node, targets


def test_c73_lost_wakeup_a_record_stays_until_the_last_report_about_it_has_come() -> None:
    """Dynamo #4171 (and #3730). When a request finished its record was deleted at once, although offloads of it were running;
    their reports found nothing and were skipped, so the operations never ended and their blocks stayed taken.

    Here what is told to go is kept until its work has ended, in whatever way; the record until its last copy has gone. A report
    about nothing is counted, and a worker that dies ends its work by dying.
    """
    node, _ = spilling()
    for number in (1, 2, 3):
        node.order(orders.Free(copy_id(number)))
    one, two, three = node.running(CloneInstance)
    assert not node.running(ReleaseInstance)
    node.complete(one)
    node.fail(two, Reason.FAILED)
    assert node.used() == 6
    node.order(orders.FreeObject(three.target.copy, NODE_STORE))
    node.complete(three)
    node.complete_all()
    assert [freed_of(node, copy_id(number)) for number in (1, 2, 3)] == [1, 1, 1]
    assert node.used() == 0
    assert node.node.state.copies == {}

    world = World(N1, N2, stores=10)
    for name in ("a", "b", "d"):
        world.put(name)
        world.do(c.Ref(id_of(name), "R"))
    moves = [world.do(c.Move(id_of(name), STORE)) for name in ("a", "b", "d")]
    assert all(isinstance(move, MoveAccepted) for move in moves)
    world.do(c.ReleaseRequest("R"))
    for name in ("a", "b", "d"):
        world.do(c.Evict(id_of(name)))
    world.tick(1_000)
    assert len(world.state.groups) == 3
    world.done(moves[0].move)
    world.failed(moves[1].move)
    assert world.counter("stale_facts") == 2
    world.report(N1, reports.CopyDone(CopyId(0, 1, 9), b"m" * 16))
    assert world.counter("stale_facts") == 3
    assert free_all(world) == 6
    world.tick()
    assert world.state.groups == {}
    assert world.state.used == {}

    dies = World(N1, N2)
    copy = dies.put("G")
    move = dies.move("G", N2)
    dies.step(c.Await(CLIENT, "w", "settled", id_of("G"), move, timeout_ms=60_000))
    dies.lapse(N2)
    assert dies.state.waiters == {}
    assert dies.role(copy) is Role.AUTHORITATIVE


def test_c71_lost_wakeup_a_message_that_comes_while_we_send_is_read_without_another_word() -> None:
    """pyzmq #199 (fixed by #1107, #1208). The readiness descriptor of a socket is edge-triggered, and any send, receive or option
    read consumes the edge: a send that swallows it while a message waits leaves the loop asleep over an unread message.

    Here the loop asks the library itself, before it sleeps and after, and reads until nothing is left. Messages that arrive in
    the middle of our own sends, or while somebody reads the socket's state, are handled although nothing else ever comes.
    """
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=PATIENT))
        client = stack.enter_context(ClientWire("client/a", limits=PATIENT))
        client.send(server.address, stat(0))
        zmq_world.run(client, server, until=lambda got: got)
        for number in range(50):
            client.send(server.address, stat(number))
            server.send("client/a", let_go(number))
        time.sleep(0.1)
        for _ in range(5):
            server._router.socket.getsockopt(zmq.EVENTS)  # consumes the edge, too
        assert len(zmq_world.run(server, until=lambda got: len(got) == 50)) == 50
        assert len(zmq_world.run(client, until=lambda got: len(got) == 50)) == 50
        many = attrs.evolve(PATIENT, poll_batch=3)
        slow = stack.enter_context(ServerWire(limits=many))
        client.send(slow.address, stat(0))
        zmq_world.run(client, slow, until=lambda got: got)
        for number in range(20):
            client.send(slow.address, stat(number))
        client.poll(50)
        assert len(zmq_world.run(slow, until=lambda got: len(got) == 20)) == 20  # in pieces, with no other sign
