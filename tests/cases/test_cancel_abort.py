"""Who leaves in the middle of something."""

from typing import Any

from pinfold.core import commands as c
from pinfold.core import events, orders, reports, requests
from pinfold.core.answers import Told
from pinfold.core.calls import CancelCall, Done, Failed, GetGroup
from pinfold.core.effects import ReleaseInstance, StoreBlocks, VerifyInstance
from pinfold.core.errors import Refusal
from pinfold.core.ids import HoldId, Reason, State, Tier
from tests.cases.embedded_world import Cluster, id_of, put_of
from tests.cases.story import fetched, freed_of, settle, slots_of, small_node, used
from tests.directory_world import CLIENT, N1, N2, OTHER_MANIFEST, World
from tests.directory_world import id_of as name_of
from tests.node_world import C9, NodeWorld, content, copy_id, fetch_of, read_of

C1, C2, C3 = copy_id(1), copy_id(2), copy_id(3)
STAGES = ("asked", "queued", "landed", "checking", "done")


def fetching(stage: str) -> tuple[NodeWorld, Any]:
    """A node that fetches G into half of its slots, as far as `stage`; what has landed and was not told yet."""
    node = small_node(4)
    node.order(fetch_of("G", C1))
    landed = None
    if stage != "asked":
        node.step(fetched(node, "G"))
        store = node.work(StoreBlocks)
        if stage == "landed":
            del node.works[store.job]
            landed = node.perform(store)
        elif stage != "queued":
            node.complete(store)
    if stage == "done":
        node.complete(node.work(VerifyInstance))
    return node, landed


def test_c21_cancel_abort_room_that_is_being_written_is_not_given_away_and_does_not_leak() -> None:
    """vLLM #32255 (and sglang #24527, #32564). An abort freed blocks into which a transfer was still writing, and their next
    owner was overwritten. The repair waited for the transfer's end, and leaked when the end had been told just before.

    In every order of {abort, last write, its end told, its end heard}: nobody gets the room before the last write, and it comes
    back once, without waiting for a signal that has been.
    """
    for stage in STAGES:
        node, landed = fetching(stage)
        mine = slots_of(node, C1)
        busy = bool(node.works) or landed is not None
        node.order(orders.Free(C1))
        assert bool(node.running(ReleaseInstance)) is not busy, stage
        node.put(C2, "H")
        node.reserve(C3, "I")
        taken = slots_of(node, C2) | slots_of(node, C3)
        assert not mine & taken or not busy, stage
        assert reports.CopyFailed(C3, Reason.NO_SPACE) in node.facts() or not busy
        if landed is not None:
            node.step(landed)
        node.complete_all()
        assert node.read(C2).data == (content("H", 0), content("H", 1)), stage
        assert freed_of(node, C1) == 1, stage
        assert node.used() == 2 + len(slots_of(node, C3)), stage
        assert node.node.state.jobs == node.node.state.works == {}


def test_c22_cancel_abort_a_transfer_whose_end_is_never_told_is_ended_by_its_deadline() -> None:
    """vLLM #46283 (#46289). The safe, delayed free waits for one message. When the sender has given up as well it never comes,
    and the watchdog only forgot that it was waiting.

    Here the job's deadline says that the copy has failed; it keeps its room until the directory frees it, so that what still
    comes lands nowhere. Where a late writer can't be ruled out, the room is quarantined first. Nothing is lost in 100 rounds.
    """
    node = small_node(4)
    for number in range(1, 101):
        copy = copy_id(number)
        node.order(fetch_of("G", copy, deadline_ms=1_000))
        late = fetched(node, "G")
        node.tick(1_000)
        assert reports.CopyFailed(copy, Reason.DEADLINE) in node.facts()
        assert node.used() == 2
        node.changes_nothing(late)
        if number % 3 == 0:
            node.step(events.WriterUncertain(copy))
        node.order(orders.Free(copy))
        node.complete_all()
        if number % 3 == 0:
            assert node.node.state.slots[Tier.DRAM].quarantined == 2
            node.step(events.QuarantineLifted(copy))
        node.changes_nothing(late)
        assert node.used() == 0
        assert freed_of(node, copy) == 1

    world = World()
    copy = world.put("A")
    for _ in range(3):
        move = world.move("A", deadline_ms=1_000)
        world.advance(1_500)
        assert world.is_in("A", State.LOCAL)
        world.done(move)  # the late word of a worker that is finished after all
        assert world.state.groups[name_of("A")].target != move
        settle(world, 3_000)
        assert (used(world, N1), used(world, N2)) == (1, 0)
    assert world.counter("moves_aborted_deadline") == 3
    assert copy in world.state.group_of


def test_c41_cancel_abort_an_end_that_is_no_success_is_never_told_as_one() -> None:
    """sglang #30233 (#34208). A producer rejected a request late, and its record went through the transfer queue all the same
    with a length of one: the consumer was told "done", never got the data, and answered with somebody else's.

    Here every end of a fetch but a whole, verified one is `CopyFailed`: the source's no, too few bytes, other bytes, silence.
    """
    ends = {
        "refused": (Reason.FAILED, lambda node: node.step(refusal(node, "StaleCopy"))),
        "corrupt": (Reason.CORRUPT, lambda node: node.step(refusal(node, "Corrupt"))),
        "other bytes": (Reason.CORRUPT, lambda node: node.step(fetched(node, "X"))),
        "silence": (Reason.DEADLINE, lambda node: node.tick(5_000)),
        "half of it": (Reason.DEADLINE, lambda node: (node.step(fetched(node, "G", 0)), node.complete_all(), node.tick(5_000))),
        "shorter": (Reason.DEADLINE, lambda node: (node.changes_nothing(shorter(node)), node.tick(5_000))),
    }
    for name, (reason, end) in ends.items():
        node = small_node(4)
        node.order(fetch_of("G", C1))
        end(node)
        node.complete_all()
        assert [f for f in node.facts() if not isinstance(f, reports.Freed)] == [reports.CopyFailed(C1, reason)], name
        node.step(read_of(C1))
        assert isinstance(node.replies[-1][1], requests.NodeRefused)
        node.order(orders.Free(C1))
        node.complete_all()
        assert node.used() == 0

    world = World()
    created = world.create("A")
    waiting = c.Await(CLIENT, "w", "readable", name_of("A"), timeout_ms=5_000)
    world.step(waiting)
    told = world.failed(created.copy, Reason.CANCELLED).reply
    assert [reply.message.answer.outcome for reply in told if isinstance(reply.message, Told)] == ["gone"]
    world.sealed(created.copy)
    assert not world.is_in("A", State.LOCAL)
    world.put("B")
    move = world.move("B")
    world.report(N2, reports.CopyDone(move, OTHER_MANIFEST))
    assert world.is_in("B", State.LOCAL)
    assert world.counter("moves_aborted_corrupt") == 1


def refusal(node: NodeWorld, reason: str) -> requests.NodeRefused:
    return requests.NodeRefused(N2, node.messages(requests.Read)[-1].token, C9, Refusal(reason))


def shorter(node: NodeWorld) -> requests.Blocks:
    """An answer with fewer checksums and bytes than blocks."""
    whole = fetched(node, "G")
    return requests.Blocks(N2, whole.token, C9, whole.blocks, whole.checksums[:1], Tier.DRAM, whole.data[:1])


# ---- C108 ----------------------------------------------------------------------------------------------------


def deliver_one(cluster: Cluster) -> bool:
    """The next message or completion, alone."""
    delivery = cluster.wire.deliver_next(cluster.now)
    if delivery is not None:
        if delivery.target in cluster.members:
            cluster._step(cluster.members[delivery.target], delivery.message)
        return True
    for member in cluster.members.values():
        for completion in member.bytework.poll() if member.bytework is not None else ():
            cluster._step(member, completion)
            return True
    return False


PHASES = 30
"""More steps than any of the calls has."""


def left_at(phase: int, op: Any, how: str) -> None:
    """A call whose caller leaves after `phase` steps: by a word, or by dying."""
    cluster = Cluster("n1")
    cluster.put("old")
    cluster.client("b", lease_ms=1_000)
    cluster.begin("client/b", 1, op)
    for _ in range(phase):
        deliver_one(cluster)
    if how == "dies":
        cluster.remove_client("client/b")
        cluster.advance(2_000)
    else:
        cluster.tell("client/b", CancelCall(1))
        reply = cluster.reply("client/b", 1)
        assert isinstance(reply, Done | Failed)
        hold = reply.value.hold if isinstance(reply, Done) else None
        if hold is not None:
            assert isinstance(hold, HoldId)
            assert hold in cluster.state.holds  # promised, and kept until it is given back
            cluster.advance(500)
            assert hold in cluster.state.holds
            cluster.do(c.Unpin(hold), "client/b")
            assert cluster.do(c.Unpin(hold), "client/b") == "AlreadyDone"
        cluster.settle()
        assert cluster.state.holds == {}, (phase, how)
    cluster.rest()
    assert cluster.get("old") == ""


def test_c108_cancel_abort_whoever_leaves_in_whatever_phase_gives_back_what_he_had() -> None:
    """vLLM #19223, #25067 and #41269. Whether a producer's held blocks were released depended on the phase in which the client
    left; one phase sent no release at all, in another an abort freed what was promised to a consumer already.

    Every step of a put and of a get is a phase here: after a cancel nothing is held as soon as the messages have arrived, after
    a death when the session's lease is over, and what had been handed over stays until it is given back, once.
    """
    for op in (put_of("new", keep_pin=True), GetGroup(id_of("old"), keep_pin=True), GetGroup(id_of("old"))):
        for phase in range(PHASES):
            left_at(phase, op, "cancels")
        for phase in range(0, PHASES, 3):
            left_at(phase, op, "dies")

    cluster = Cluster("n1")
    cluster.client("b", calls_max=1)
    cluster.begin("client/b", 1, put_of("one"))
    cluster.begin("client/b", 2, put_of("two"))
    rejected = cluster.reply("client/b", 2)
    assert isinstance(rejected, Failed)
    assert rejected.definite
    cluster.rest()
