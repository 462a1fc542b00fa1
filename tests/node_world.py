"""One node and a world around it, by hand: byte work waits until the test completes it, in any order.

Bytes are real, small and in a dictionary keyed by tier and slot (or by tier, place and copy id where files are named by copy
id), so a slot that is reused under a reader gives wrong bytes here as it would in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

from pinfold.core import events, orders, reports, requests
from pinfold.core.commands import Spec
from pinfold.core.effects import (
    CloneInstance,
    Instance,
    ListStore,
    LoadBlocks,
    Ready,
    ReleaseInstance,
    StoreBlocks,
    Transfer,
    VerifyInstance,
)  # fmt: skip
from pinfold.core.ids import CopyId, Key, Layout, NodeName, Peer, Reason, Tier, group_id, manifest_hash
from pinfold.core.node import Node
from pinfold.core.node_invariants import check_node, links_never_fall
from pinfold.core.node_state import NodeConfig, TierRoom, fills

BLOCK = 16
LAYOUT = Layout(block_bytes=BLOCK)
DIRECTORY = Peer("directory/0")
WRITER = Peer("client/w")
READER = Peer("client/r")
STORE = NodeName("s1")
N2 = NodeName("n2")
NODE2 = Peer("node/n2")
C9 = CopyId(0, 9, 0)
T = TypeVar("T")


def copy_id(revision: int, shard: int = 0) -> CopyId:
    return CopyId(shard, revision, 0)


def spec_of(name: str, blocks: int = 2) -> Spec:
    key = Key("t", "m", "1", LAYOUT, name, blocks)
    return Spec(group_id(key), key, (BLOCK,) * blocks)


def content(name: str, block: int) -> bytes:
    return f"{name}/{block}".encode().ljust(BLOCK, b".")


def checksums_of(name: str, blocks: int = 2) -> tuple[int, ...]:
    return tuple(zlib.crc32(content(name, block)) for block in range(blocks))


def manifest_of(name: str, blocks: int = 2) -> bytes:
    return manifest_hash(LAYOUT, (BLOCK,) * blocks, checksums_of(name, blocks))


def config_of(dram: int = 8, ssd: int = 8, **more: Any) -> NodeConfig:
    """A node with a slab and a file tier, and a slack that tests can count with."""
    given: dict[str, Any] = {
        "name": NodeName("n1"),
        "address": Peer("node/n1"),
        "directories": (DIRECTORY,),
        "tiers": (TierRoom(Tier.DRAM, dram, high_percent=75, low_percent=50), TierRoom(Tier.SSD, ssd, slab=False)),
        "stores": (STORE,),
        "group_slots": 4,
        **more,
    }
    return NodeConfig(**given)


class NodeWorld:
    """`step` checks all invariants and that a step that says nothing about bytes persists nothing either."""

    def __init__(self, config: NodeConfig | None = None, boot: str = "b1") -> None:
        self.node = Node(config or config_of(), boot)
        self.now = 0
        self.term = 1
        self.incarnation = 1
        self.numbers = 0
        self.bytes: dict[tuple[Any, ...], bytes] = {}
        self.works: dict[int, Transfer] = {}
        self.sent: list[tuple[Peer, Any]] = []
        self.replies: list[tuple[Peer, Any]] = []
        self.ready = Ready()

    # ---- stepping ------------------------------------------------------------------------------------------------

    def step(self, event: Any) -> Ready:
        before = self.node.state.copy()
        ready = self.node.step(event, self.now)
        check_node(self.node.state, self.node.config)
        links_never_fall(before, self.node.state)
        assert ready.persist == ()
        self.sent += [(send.target, send.message) for send in ready.send]
        self.replies += [(reply.target, reply.message) for reply in ready.reply]
        for work in ready.transfer:
            assert work.job not in self.works
            self.works[work.job] = work
        self.ready = ready
        return ready

    def tick(self, after_ms: int = 0) -> Ready:
        self.now += after_ms
        return self.step(events.Tick())

    def changes_nothing(self, event: Any) -> Ready:
        before = self.node.state.copy()
        ready = self.step(event)
        assert self.node.state == before
        assert not ready.transfer
        assert not ready.send
        return ready

    def refused(self, event: Any, reason: str, guard: str = "") -> requests.NodeRefused:
        """The event is refused for this reason (and by this guard, if one is named), and nothing has changed."""
        self.changes_nothing(event)
        answer = self.replies[-1][1]
        assert isinstance(answer, requests.NodeRefused)
        assert answer.refusal.reason == reason
        assert guard in ("", answer.refusal.guard)
        assert answer.token == event.token
        return answer

    def register(self) -> None:
        self.tick()
        node = self.node
        self.step(orders.Registered(0, self.term, node.config.name, node.boot, self.incarnation, 10_000))

    def order(self, body: Any) -> Ready:
        self.numbers += 1
        return self.step(orders.Order(0, self.term, self.incarnation, self.numbers, body))

    # ---- what was said -------------------------------------------------------------------------------------------

    def facts(self) -> list[Any]:
        return [f for _, m in self.sent if isinstance(m, reports.Report) for f in m.facts]

    def messages(self, kind: type[T]) -> list[T]:
        return [message for _, message in self.sent if isinstance(message, kind)]

    def answers(self, kind: type[T]) -> list[T]:
        return [message for _, message in self.replies if isinstance(message, kind)]

    def work(self, kind: type[T]) -> T:
        """The oldest waiting byte work of this kind."""
        return next(work for work in self.works.values() if isinstance(work, kind))

    def running(self, kind: type[T]) -> list[T]:
        return [work for work in self.works.values() if isinstance(work, kind)]

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def keys(self, instance: Instance, blocks: int) -> list[tuple[Any, ...]]:
        if instance.slots:
            return [(instance.tier, slot) for slot in instance.slots]
        return [(instance.tier, instance.place, instance.copy, block) for block in range(blocks)]

    def there(self, instance: Instance, spec: Spec) -> list[bytes]:
        return [self.bytes.get(key, b"") for key in self.keys(instance, len(spec.sizes))]

    def manifest_there(self, instance: Instance, spec: Spec) -> bytes:
        return manifest_hash(LAYOUT, spec.sizes, tuple(zlib.crc32(data) for data in self.there(instance, spec)))

    def complete(self, work: Any) -> Ready:
        """Do waiting byte work and tell the node of its end."""
        del self.works[work.job]
        return self.step(self.perform(work))

    def perform(self, work: Any) -> Any:
        if isinstance(work, StoreBlocks):
            keys = self.keys(work.instance, len(work.spec.sizes))
            for block, data in zip(work.blocks, work.data, strict=True):
                self.bytes[keys[block]] = bytes(data)
            return events.BlocksStored(work.job, work.instance.copy)
        if isinstance(work, VerifyInstance):
            found = self.manifest_there(work.instance, work.spec)
            return events.InstanceVerified(work.job, work.instance.copy, found)
        if isinstance(work, LoadBlocks):
            there = self.there(work.instance, work.spec)
            data = tuple(there[block] for block in work.blocks)
            return events.BlocksLoaded(work.job, work.instance.copy, tuple(zlib.crc32(d) for d in data), data)
        if isinstance(work, CloneInstance):
            return self.clone(work)
        if isinstance(work, ListStore):
            names = sorted({key[2] for key in self.bytes if key[0] is Tier.REMOTE_SSD and key[1] == work.store})
            return events.StoreListed(work.job, work.store, tuple(names))
        assert isinstance(work, ReleaseInstance)
        for key in list(self.bytes):
            if key in self.keys(work.instance, 64):
                del self.bytes[key]
        return events.InstanceReleased(work.job, work.instance.copy)

    def clone(self, work: CloneInstance) -> Any:
        there = self.there(work.source, work.spec)
        found = self.manifest_there(work.source, work.spec)
        if found != work.manifest:
            reason = Reason.CORRUPT if any(there) else Reason.LOST
            return events.WorkFailed(work.job, work.target.copy, reason)
        for key, data in zip(self.keys(work.target, len(there)), there, strict=True):
            self.bytes[key] = data
        return events.InstanceCloned(work.job, work.target.copy, found)

    def fail(self, work: Any, reason: Reason = Reason.FAILED) -> Ready:
        del self.works[work.job]
        instance = work.target if isinstance(work, CloneInstance) else getattr(work, "instance", None)
        copy = instance.copy if instance is not None else copy_id(0)
        return self.step(events.WorkFailed(work.job, copy, reason, "by the test"))

    def complete_all(self) -> None:
        while self.works:
            self.complete(next(iter(self.works.values())))

    def scribble(self, instance: Instance) -> None:
        """Damage what is stored."""
        for key in self.keys(instance, 64):
            if key in self.bytes:
                self.bytes[key] = b"damaged"

    # ---- stories that many tests begin with ----------------------------------------------------------------------

    def reserve(self, copy: CopyId, name: str, blocks: int = 2, tier: Tier = Tier.DRAM) -> None:
        self.order(orders.Reserve(copy, spec_of(name, blocks), tier, WRITER))

    def put(self, copy: CopyId, name: str, blocks: int = 2, tier: Tier = Tier.DRAM) -> None:
        """Reserve, write and seal; byte work of others goes on waiting."""
        self.reserve(copy, name, blocks, tier)
        self.do(write_of(copy, name, range(blocks)))
        self.do(requests.EndWrite(WRITER, f"end {copy}", copy, manifest_of(name, blocks)))
        assert reports.Sealed(copy, manifest_of(name, blocks)) in self.facts()

    def do(self, event: Any) -> None:
        """Step and complete the byte work that the step itself asked for, but for local moves."""
        for work in self.step(event).transfer:
            if not isinstance(work, CloneInstance):
                self.complete(work)

    def read(self, copy: CopyId, *blocks: int) -> requests.Blocks:
        self.do(read_of(copy, *blocks))
        answer = self.replies[-1][1]
        assert isinstance(answer, requests.Blocks), answer
        return answer

    def node_fills(self) -> tuple[reports.TierFill, ...]:
        return fills(self.node.state)

    def used(self, tier: Tier = Tier.DRAM) -> int:
        return self.node.state.slots[tier].used


def write_of(copy: CopyId, name: str, blocks: Any = (0, 1), token: str = "") -> requests.Write:
    numbers = tuple(blocks)
    data = tuple(content(name, block) for block in numbers)
    checksums = tuple(zlib.crc32(buffer) for buffer in data)
    return requests.Write(WRITER, token or f"write {copy} {numbers}", copy, numbers, checksums, data)


def read_of(copy: CopyId, *blocks: int, token: str = "read") -> requests.Read:
    return requests.Read(READER, token, copy, blocks or (0, 1))


def fetch_of(name: str, copy: CopyId, blocks: int = 2, deadline_ms: int = 5_000) -> orders.Fetch:
    """Fetch `copy` from copy `C9` at node n2."""
    return orders.Fetch(
        copy, spec_of(name, blocks), manifest_of(name, blocks), C9, N2, NODE2, Tier.DRAM, deadline_ms
    )


def instances(world: NodeWorld, copy: CopyId) -> Iterator[Instance]:
    for place in world.node.state.copies[copy].places:
        yield place.instance
