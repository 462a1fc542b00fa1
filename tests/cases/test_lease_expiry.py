"""Leases that are over: for whom, by whose clock, and what that means for bytes."""

from collections.abc import Callable
from typing import Any

from pinfold.core import commands as c
from pinfold.core import orders, requests
from pinfold.core.calls import Done, Failed, GetGroup, ReadRoute
from pinfold.core.client import Client
from pinfold.core.client_state import Degradation
from pinfold.core.directory import Directory
from pinfold.core.effects import LoadBlocks, Ready, ReleaseInstance
from pinfold.core.ids import NodeName, Reason, SessionId
from pinfold.core.node import Node
from tests.cases.embedded_world import Cluster
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import fetched, slots_of, small_node
from tests.client_world import Script, blocks_of, config_of, pinned, put_of
from tests.directory_world import CLIENT, N1, N2, World, id_of
from tests.node_world import READER, NodeWorld, content, copy_id, fetch_of, manifest_of, read_of, spec_of
from tests.node_world import STORE as NODE_STORE

C1, C2, C3, C4, C5 = (copy_id(number) for number in range(1, 6))
LEASE_MS = 4_000
NODES = (N1, N2)


def left_ms(world: World, session: SessionId) -> int:
    """What is left of a session's lease, in directory time."""
    assert session in world.state.session_due
    return world.state.session_due[session] - world.state.meta.clock_ms


def test_c52_lease_expiry_over_failovers_a_lease_is_never_cut_short_nor_ever_begun_anew_twice() -> None:
    """etcd #13294, #17132 (fixed by #13491). Every failover gave leases their full time again, so that a dead owner lived as long
    as coordinators kept changing; the checkpoint that should stop this was lost at the third change.

    Time counts here while a directory runs and at no other. The first failover after a holder's last word gives it one full
    lease, since nobody knows how old that word is, and writes down when that ends; no later one gives more, however many there
    are and however short their terms. Who is heard has its full lease from then.
    """
    world = World(*NODES)
    world.put("G", N1)
    dead = world.open(lease_ms=LEASE_MS)
    world.pin("G", dead)
    living = world.open(lease_ms=LEASE_MS)
    ends: dict[SessionId | NodeName, set[int]] = {dead: set(), N1: set()}
    starts: list[int] = []
    while dead in world.state.sessions or world.state.nodes[N1].alive:
        for _ in range(3):
            world.now += 500
            world.ask(c.KeepAlive(CLIENT, "k", living))
            world.beat(N2)
            world.tick()
        world.restart(pause_ms=3_600_000)  # no directory runs: this hour counts for nobody
        assert left_ms(world, living) == LEASE_MS
        assert world.state.node_due[N2] - world.state.meta.clock_ms == world.config.node_lease_ms
        for holder, due in ((dead, world.state.session_due.get(dead)), (N1, world.state.node_due.get(N1))):
            ends[holder] |= {due} if due is not None else set()
        starts.append(world.state.meta.clock_ms)
    assert ends == {dead: {starts[0] + LEASE_MS}, N1: {starts[0] + world.config.node_lease_ms}}
    assert [start - starts[0] for start in starts] == [0, 1_500, 3_000, LEASE_MS]
    assert world.state.holds == {}
    for _ in range(3):
        world.restart()
        assert dead not in world.state.sessions
        assert not world.state.nodes[N1].alive
        world.refused(c.Pin(id_of("G")), "SessionEnded", dead)


def test_c52_lease_expiry_a_directory_that_lives_shortly_and_decides_nothing_gets_on_with_a_dead_holders_lease() -> None:
    """etcd #17132: the remaining time was lost with each leader that died before the next checkpoint. Here each term is shorter
    than the lease, and its ticks change nothing but the time."""
    world = World(*NODES)
    world.put("G", N1)
    dead = world.open(lease_ms=LEASE_MS)
    world.pin("G", dead)
    terms = 0
    while dead in world.state.sessions:
        world.restart()
        for _ in range(3):
            world.tick(500)
        terms += 1
        assert terms <= 1 + LEASE_MS // world.config.lease_save_ms
    assert terms == LEASE_MS // world.config.lease_save_ms  # each term of 1,500 ms has kept 1,000 of them
    assert world.state.holds == {}


def test_c54_lease_expiry_a_read_that_outlives_its_lease_gives_the_right_bytes_or_an_error() -> None:
    """Mooncake #850 (fixed by #778). Readers were protected by a short lease. A slow transfer outlived it, the object was evicted
    and its memory reused, and the reader returned somebody else's bytes as a success. A check after the copy narrows that.

    Here the running read is a guard, whatever has become of lease, hold or record: its bytes stay until it has ended. What was
    read is compared before it is given away; and a route to an earlier copy is a route to nothing.
    """
    node = small_node(4)
    node.put(C1, "G")
    node.step(read_of(C1))
    load, mine = node.work(LoadBlocks), slots_of(node, C1)
    node.tick(3_600_000)  # every lease of anybody is over
    node.order(orders.Free(C1))
    node.put(C2, "H")
    assert not slots_of(node, C2) & mine
    node.reserve(C3, "I")
    assert slots_of(node, C3) == set()  # no room: it is not reused under the read
    assert not node.running(ReleaseInstance)
    node.complete(load)
    assert node.answers(requests.Blocks)[-1].data == (content("G", 0), content("G", 1))

    # Were the bytes overwritten under the read all the same: an error, and never those.
    node = small_node(4)
    node.put(C1, "G")
    node.step(read_of(C1))
    node.scribble(node.node.state.copies[C1].places[0].instance)
    node.complete(node.work(LoadBlocks))
    (answer,) = node.answers(requests.NodeRefused) or [None]
    assert answer is not None
    assert answer.refusal.reason == "Corrupt"

    cluster = Cluster("n1", "n2")
    cluster.client("b", optimistic_reads=True)
    first = cluster.put("G", node="n1").copy
    assert cluster.get("G", "client/b") == ""
    cluster.do(c.Evict(key_of("G")))
    cluster.advance(1_000)
    second = cluster.put("G", node="n2").copy  # put again elsewhere; the reader's route is the old one
    assert cluster.get("G", "client/b") == ""
    assert second > first
    assert cluster.machine("client/b").state.counters["stale_routes"] == 1


# ---- C55 -----------------------------------------------------------------------------------------------------


def unknown(node: NodeWorld) -> None:
    """There is no such copy."""


def reserved(node: NodeWorld) -> None:
    node.reserve(C1, "G")


def going(node: NodeWorld) -> None:
    node.put(C1, "G")
    node.step(read_of(C1, token="holds it"))
    node.order(orders.Free(C1))


def failed(node: NodeWorld) -> None:
    node.order(fetch_of("G", C1, deadline_ms=1))
    node.tick(1)


CONDITIONS: dict[Callable[[NodeWorld], None], str] = {
    unknown: "StaleCopy", reserved: "NotVerified", going: "Freeing", failed: "StaleCopy",
}  # fmt: skip

PATHS: dict[str, Any] = {
    "get": read_of(C1, 0, 1),
    "range get": read_of(C1, 1),
    "get by a node": requests.Read(fetch_of("G", C1).source_address, "t", C1, (0,)),
    "mapped get": requests.Acquire(READER, "t", "process:1/1", C1),
    "one-sided get": requests.Acquire(READER, "t", "peer:n2/1", C1, stay=True),
}


def test_c55_lease_expiry_every_way_of_reading_is_refused_alike() -> None:
    """Mooncake #4239. The single read and one batch read checked the lease after the copy; the fast path for the same node did
    not, and returned success for data that had been reclaimed.

    Here every way of reading goes through one table of conditions and gets one verdict: by a client, in part, by another node,
    through mapped memory, one-sided; and a spill to a store of such a copy fails.
    """
    for condition, verdict in CONDITIONS.items():
        verdicts = {}
        for path, request in PATHS.items():
            node = small_node(8, stores=(NODE_STORE,))
            condition(node)
            node.refused(request, verdict)
            verdicts[path] = node.replies[-1][1].refusal.reason
            node.order(orders.Spill(C5, spec_of("G"), manifest_of("G"), C1, NODE_STORE, 1_000))
            assert node.facts()[-1].reason in (Reason.LOST, Reason.CORRUPT)
        assert set(verdicts.values()) == {verdict}

    # The client's ways: with a pin, by a cached route without one, and by a route of its own.
    put = put_of("g")
    for way in ("pinned", "optimistic", "own route"):
        script = Script(optimistic_reads=way == "optimistic", route_attempts=1)
        script.call(1, GetGroup(put.spec.group))
        script.open()
        pin = script.body(c.Pin)
        script.answer(pin, pinned(pin, put))
        if way != "pinned":
            script.step(blocks_of(script.take(requests.Read), put))
            route = script.client.state.routes[put.spec.group].route
            script.call(2, ReadRoute(route) if way == "own route" else GetGroup(put.spec.group))
        script.deny(script.take(requests.Read), "StaleCopy")
        assert isinstance(script.replies[1 if way == "pinned" else 2], Failed)


# ---- C57 -----------------------------------------------------------------------------------------------------


def test_c57_lease_expiry_a_reader_that_comes_too_late_is_told_and_computes_again() -> None:
    """vLLM #21570 (seen in the field: aws-do-eks #84, 8 of 42 requests served from released blocks). A producer freed held blocks
    after a timeout, a queued consumer read the freed memory and was told nothing; the client got a success.

    Here the reader names a copy, and a node without it says so. The call fails, and says that computing again is the way out.
    Who renews in time keeps what he holds; who reads memory himself does so under a guard, which time does not end.
    """
    cluster = Cluster("n1", slots=4)
    cluster.client("b", lease_ms=1_000, degradation=Degradation.RECOMPUTE, timeout_ms=500)
    cluster.client("c", lease_ms=1_000, keep_session=True)
    cluster.put("G")
    held = cluster.call("client/b", GetGroup(key_of("G"), keep_pin=True))
    assert isinstance(held, Done)
    kept = cluster.call("client/c", GetGroup(key_of("G"), keep_pin=True))
    assert isinstance(kept, Done)
    cluster.wire.cut("client/b", "directory/0")
    cluster.advance(3_000)
    assert [hold.session for hold in cluster.state.holds] == [kept.value.hold.session]  # he has renewed
    assert cluster.do(c.Evict(key_of("G"))) == "Pinned"
    cluster.do(c.Unpin(kept.value.hold), "client/c")
    cluster.do(c.Evict(key_of("G")))
    cluster.advance(1_000)
    cluster.put("H")
    cluster.put("I")  # the slots of G are in use again
    late = cluster.call("client/b", ReadRoute(held.value.route))
    assert isinstance(late, Failed)
    assert (late.refusal.reason, late.action) == ("StaleCopy", "recompute")
    cluster.wire.heal_all()
    cluster.advance(5_000)
    again = cluster.call("client/b", GetGroup(key_of("G")))
    assert isinstance(again, Failed)
    assert again.action == "recompute"

    node = small_node(4)
    node.put(C1, "G")
    node.step(requests.Acquire(READER, "g", "peer:n2/1", C1))
    node.order(orders.Free(C1))
    node.tick(3_600_000)
    node.put(C2, "H")
    node.reserve(C3, "I")
    assert slots_of(node, C3) == set()
    assert tuple(node.there(node.node.state.copies[C1].places[0].instance, spec_of("G"))) == (content("G", 0), content("G", 1))
    assert NodeName("n1") == held.value.route.node


# ---- C59 -----------------------------------------------------------------------------------------------------

Told = tuple[Any, int, Ready]


def directory_story() -> tuple[Callable[[], Any], list[Told], int]:
    world = World(N1, N2)
    log: list[Told] = []
    step = world.step

    def logged(event: Any) -> Ready:
        ready = step(event)
        log.append((event, world.now, ready))
        return ready

    world.step = logged  # type: ignore[method-assign]
    base = world.directory.copy()
    world.put("G")
    world.move("G")
    world.advance(4_000, alive=False)
    return base.copy, log, world.now


def node_story() -> tuple[Callable[[], Any], list[Told], int]:
    node = NodeWorld()
    node.now = 100_000
    log: list[Told] = []
    base = node.node.copy()
    step = node.step

    def logged(event: Any) -> Ready:
        ready = step(event)
        log.append((event, node.now, ready))
        return ready

    node.step = logged  # type: ignore[method-assign]
    node.register()
    node.put(C1, "G")
    node.order(fetch_of("H", C2, deadline_ms=2_000))
    for _ in range(5):
        node.tick(700)
    node.changes_nothing(fetched(node, "H"))
    return base.copy, log, node.now


def client_story() -> tuple[Callable[[], Any], list[Told], int]:
    script = Script()
    script.now = 100_000
    script.client = Client(config_of())
    base = script.client.copy()
    log: list[Told] = []
    step = script.step

    def logged(event: Any) -> Ready:
        ready = step(event)
        log.append((event, script.now, ready))
        return ready

    script.step = logged  # type: ignore[method-assign]
    script.call(1, GetGroup(put_of("g").spec.group))
    script.open()
    script.pass_ms(12_000)
    return base.copy, log, script.now


def test_c59_lease_expiry_no_machine_reads_another_one_s_clock() -> None:
    """vLLM #47021. A peer's fixed expiry was an instant of its own clock; the reader did not know it, and its second turn read
    recycled blocks. The repair sends the expiry and converts it with a measured offset and a margin.

    Here no instant travels, only durations, so there is nothing to convert: moved by a minute either way, each machine does and
    says exactly the same. A clock that jumps ahead counts as one step, one that jumps back as none.
    """
    for story in (directory_story, node_story, client_story):
        make, log, _ = story()
        assert len(log) > 10
        for offset in (-60_000, -1, 7, 60_000):
            machine = make()
            if isinstance(machine, Directory):
                machine.state.last_now = None if machine.state.last_now is None else machine.state.last_now + offset
            assert isinstance(machine, Directory | Node | Client)
            for event, now, ready in log:
                again = machine.step(event, now + offset)
                assert (again.send, again.transfer, again.reply) == (ready.send, ready.transfer, ready.reply)
                if ready.alarm is not None:
                    assert again.alarm == ready.alarm + offset

    world = World(N1, N2)
    session = world.open(lease_ms=3_000)
    world.put("G")
    before = world.state.meta.clock_ms
    world.now += 3_600_000  # the clock jumps, or the process was stopped for an hour
    world.tick()
    assert world.state.meta.clock_ms - before == world.config.max_step_ms
    world.now -= 7_200_000
    world.tick()
    assert world.state.meta.clock_ms - before == world.config.max_step_ms
    assert session in world.state.sessions
    assert all(node.alive for node in world.state.nodes.values())
    world.move("G")
    (fetch,) = world.orders(orders.Fetch)
    assert 0 < fetch.deadline_ms <= world.config.move_ms
