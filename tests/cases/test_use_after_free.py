"""Memory that somebody still reads or writes when it is somebody else's."""

import gc
import threading
import weakref
from itertools import permutations

from pinfold.backends.bytework import ThreadedByteWork
from pinfold.backends.memory_tier import MemoryTier
from pinfold.core import events, orders, reports, requests
from pinfold.core.effects import LoadBlocks, ReleaseInstance, StoreBlocks, VerifyInstance
from pinfold.core.errors import Refusal
from pinfold.core.events import BlocksStored, InstanceVerified
from pinfold.core.ids import Peer, Reason, Tier
from pinfold.core.reports import Register
from pinfold.testing import make_sample
from tests.bytework_world import settle as settle_work
from tests.cases.story import fetched, freed_of, slots_of, small_node
from tests.directory_world import N1, World
from tests.node_world import (
    C9,
    WRITER,
    content,
    copy_id,
    fetch_of,
    manifest_of,
    read_of,
    write_of,
)  # fmt: skip
from tests.node_world import N2 as PEER

C1, C2, C3, C4 = (copy_id(number) for number in range(1, 5))


def test_c24_use_after_free_bytes_are_in_use_until_the_last_step_that_writes_them_has_ended() -> None:
    """vLLM #45357. Two steps ran ahead; the first one's result ended the request and freed its blocks while the second was still
    writing them, and a block that came over the network was overwritten by a request that was over.

    Each step in flight is a guard here, whether the node's process writes or the engine does through mapped memory.
    """
    node = small_node(4)
    node.reserve(C1, "G")
    node.step(write_of(C1, "G", (0,), token="k"))
    node.step(write_of(C1, "G", (1,), token="k+1"))
    first, second = node.running(StoreBlocks)
    mine = slots_of(node, C1)
    node.complete(first)
    node.order(orders.Free(C1))  # the result of step k says that the request is over
    assert not node.running(ReleaseInstance)
    node.order(fetch_of("H", C2))
    assert not slots_of(node, C2) & mine
    node.order(fetch_of("I", C3))
    assert node.facts()[-1] == reports.CopyFailed(C3, Reason.NO_SPACE)
    node.complete(second)
    assert node.replies[-1][1].refusal.reason == "Freeing"
    node.complete_all()
    assert freed_of(node, C1) == 1
    node.order(fetch_of("I", C4))
    assert slots_of(node, C4) == mine
    node.step(fetched(node, "I"))
    node.complete_all()
    assert node.read(C4).data == (content("I", 0), content("I", 1))

    mapped = small_node(4)
    mapped.reserve(C1, "G")
    for token in ("k", "k+1"):
        mapped.step(requests.Acquire(WRITER, token, f"process:{token}/1", C1, write=True))
    guards = [answer.guard for answer in mapped.answers(requests.Guarded)]
    mapped.order(orders.Free(C1))
    mapped.step(requests.Let(WRITER, "let", guards[0]))
    assert not mapped.running(ReleaseInstance)
    mapped.tick(3_600_000)  # time is no proof
    assert not mapped.running(ReleaseInstance)
    mapped.step(events.ProcessExited("process:k+1/1"))
    mapped.complete_all()
    assert freed_of(mapped, C1) == 1


def test_c25_use_after_free_a_write_that_waits_in_a_queue_keeps_its_slot() -> None:
    """Squid #444. A write for entry A waited in a disk queue; A was aborted and its slot returned; B took the slot and was
    written; then A's old write ran, over B.

    Here the queued write is itself the guard: B gets other slots, or none, and its bytes are right in every order of execution.
    The same for a queued read of a reader who has gone: its source is not reused under it.
    """
    for order in permutations(("A writes", "B writes", "free")):
        node = small_node(4)
        node.reserve(C1, "A")
        node.step(write_of(C1, "A"))
        slow = node.work(StoreBlocks)
        mine = slots_of(node, C1)
        node.step(requests.AbortWrite(WRITER, "abort", C1))
        assert node.facts() == [reports.CopyFailed(C1, Reason.CANCELLED)]
        node.order(orders.Free(C1))
        node.reserve(C2, "B")
        assert not slots_of(node, C2) & mine
        node.reserve(C3, "more")
        assert node.facts()[-1] == reports.CopyFailed(C3, Reason.NO_SPACE)
        node.step(write_of(C2, "B"))
        fast = node.running(StoreBlocks)[-1]
        for what in order:
            if what == "A writes":
                node.complete(slow)
            elif what == "B writes":
                node.complete(fast)
            elif node.running(ReleaseInstance):
                node.complete(node.work(ReleaseInstance))
        node.complete_all()
        node.do(requests.EndWrite(WRITER, "end", C2, manifest_of("B")))
        assert node.read(C2).data == (content("B", 0), content("B", 1)), order
        assert freed_of(node, C1) == 1

    node = small_node(2)
    node.put(C1, "A")
    node.step(read_of(C1))
    load = node.work(LoadBlocks)
    node.order(orders.Free(C1))
    node.reserve(C2, "B")
    assert node.facts()[-1] == reports.CopyFailed(C2, Reason.NO_SPACE)
    node.complete(load)
    assert node.answers(requests.Blocks)[-1].data == (content("A", 0), content("A", 1))
    node.complete_all()
    node.reserve(C3, "B")
    assert len(slots_of(node, C3)) == 2


def test_c26_use_after_free_a_handle_is_of_one_registration_and_not_of_a_name() -> None:
    """NIXL #2027 and #2051. A prepared transfer remembered its peer by name; the peer went and came back under that name, and
    posting the old handle used registration data that were freed.

    Here a peer's guard carries the incarnation of its registration. The word that one is over ends its guards and no others; a
    handle of the earlier one is unknown, and a fetch from it ends with a failure that says so.
    """
    node = small_node(8)
    node.put(C1, "G")
    peer = Peer("node/n2")
    for incarnation in (5, 9):
        node.step(requests.Acquire(peer, f"g{incarnation}", f"peer:n2/{incarnation}", C1))
    old, new = (answer.guard for answer in node.answers(requests.Guarded))
    node.step(orders.PeerGone(0, 1, PEER, 5))
    node.refused(requests.Let(peer, "let", old), "UnknownGuard")
    node.changes_nothing(orders.PeerGone(0, 1, PEER, 5))  # told twice, or late: the newer registration is untouched
    node.order(orders.Free(C1))
    assert not node.running(ReleaseInstance)
    node.refused(requests.Acquire(peer, "again", "peer:n2/5", C1), "Freeing")
    node.step(requests.Let(peer, "let", new))
    node.complete_all()
    assert freed_of(node, C1) == 1

    # A fetch that ran when its source came back as another life: that life has no such copy.
    node.order(fetch_of("H", C2))
    ask = node.messages(requests.Read)[-1]
    node.step(requests.NodeRefused(PEER, ask.token, C9, Refusal("StaleCopy")))
    assert node.facts()[-1] == reports.CopyFailed(C2, Reason.FAILED)
    node.changes_nothing(fetched(node, "H"))
    node.order(orders.Free(C2))
    node.complete_all()
    node.order(fetch_of("H", C3))
    node.step(fetched(node, "H"))
    node.complete_all()
    assert node.facts()[-1] == reports.CopyDone(C3, manifest_of("H"))

    # The directory: the same boot announced again is the same registration, and nobody is told that a peer has gone.
    world = World()
    first = world.incarnation(N1)
    world.step(Register(N1, "b1", Peer("node/n1"), 100))
    assert world.incarnation(N1) == first
    assert not [message for _, message in world.sent if isinstance(message, orders.PeerGone)]
    world.register(N1, boot="b2")
    assert world.incarnation(N1) > first
    gone = [message for _, message in world.sent if isinstance(message, orders.PeerGone)]
    assert [(word.node, word.incarnation) for word in gone] == [(N1, first)]


class Staging(bytearray):
    """A buffer that somebody lends out again as soon as nobody refers to it any more."""


class Device(MemoryTier):
    """Writes wait until the test lets the device run."""

    def __init__(self) -> None:
        super().__init__()
        self.run = threading.Event()

    def write(self, *what: object) -> None:
        assert self.run.wait(20)
        super().write(*what)  # type: ignore[arg-type]


def test_c42_use_after_free_a_staging_buffer_is_not_lent_again_before_its_copy_has_run() -> None:
    """TensorRT-LLM #15546 (and PyTorch #130785, #86264). An asynchronous copy reads its source when it runs, not when it is
    queued. One staging buffer served step after step and was overwritten first; or the last reference to a pinned source died.

    The device here is a thread that runs when told to. The queued work keeps its buffers alive until then and lets go after;
    the verification of what it wrote waits behind it.
    """
    device, sample = Device(), make_sample(1)
    work = ThreadedByteWork({Tier.SSD: device}, workers=2)
    try:
        pool = [Staging(block) for block in sample.data]
        lent = [weakref.ref(buffer) for buffer in pool]
        work.submit(StoreBlocks(1, sample.instance, sample.spec, sample.blocks, sample.checksums, tuple(pool)))
        work.submit(VerifyInstance(2, sample.instance, sample.spec, sample.manifest))
        del pool
        gc.collect()
        assert all(ref() is not None for ref in lent)
        assert work.poll() == []
        device.run.set()
        done = settle_work(work, 2)
        assert done == [BlocksStored(1, sample.copy), InstanceVerified(2, sample.copy, sample.manifest)]
        gc.collect()
        assert all(ref() is None for ref in lent)
        work.submit(LoadBlocks(3, sample.instance, sample.spec, sample.blocks))
        (loaded,) = settle_work(work, 1)
        assert isinstance(loaded, events.BlocksLoaded)
        work.submit(ReleaseInstance(4, sample.instance))
        settle_work(work, 1)
        assert tuple(bytes(block) for block in loaded.data) == sample.data  # the reader's own, whatever becomes of the slots
    finally:
        device.run.set()
        assert work.close()
