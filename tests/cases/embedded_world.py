"""A cluster of the shipped machines in one process, with bytes, for cases that need all three kinds of machine."""

from __future__ import annotations

import zlib
from typing import Any

from pinfold.backends.memory_tier import MemoryTier
from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core.calls import Call, Do, Done, Failed, GetGroup, GotGroup, PutDone, PutGroup
from pinfold.core.client import Client
from pinfold.core.client_state import ClientConfig, audit
from pinfold.core.ids import GroupId, Key, Layout, NodeName, Peer, Tier, group_id
from pinfold.core.state import DirectoryConfig, StoreSpec
from pinfold.embedded import DIRECTORY, EmbeddedCluster, EmbeddedConfig

BLOCK = 16
LAYOUT = Layout(block_bytes=BLOCK)
STORE = NodeName("s1")


def spec_of(name: str, blocks: int = 2, **more: Any) -> c.Spec:
    key = Key(more.pop("tenant", "t"), "m", "1", LAYOUT, name, blocks)
    return c.Spec(group_id(key), key, (BLOCK,) * blocks, **more)


def id_of(name: str, blocks: int = 2) -> GroupId:
    return spec_of(name, blocks).group


def content(name: str, block: int) -> bytes:
    return f"{name}/{block}".encode().ljust(BLOCK, b".")[:BLOCK]


def put_of(name: str, blocks: int = 2, **more: Any) -> PutGroup:
    data = tuple(content(name, block) for block in range(blocks))
    return PutGroup(spec_of(name, blocks), tuple(zlib.crc32(buffer) for buffer in data), data, **more)


class Cluster(EmbeddedCluster):
    """Nodes with one DRAM tier of `slots` each (or `tiers`), a store of `stores` slots, and a client `client/a`."""

    def __init__(self, *nodes: str, slots: int = 16, stores: int = 0, **more: Any) -> None:
        specs = (StoreSpec(STORE, stores),) if stores else ()
        given = {
            "nodes": nodes or ("n1",),
            "tiers": more.pop("tiers", ((Tier.DRAM, slots),)),
            "group_slots": 4,
            "with_bytes": True,
            "directory": DirectoryConfig(stores=specs, **more.pop("directory", {})),
        }
        super().__init__(EmbeddedConfig(**{**given, **more.pop("cluster", {})}), **more)
        self.settle()
        self.client("a")

    def client(self, name: str, **more: Any) -> str:
        peer = Peer(f"client/{name}")
        self.add_client(ClientConfig(peer, (DIRECTORY,), f"boot-{name}", seed=len(self.members), **more))
        return peer

    # ---- asking ----------------------------------------------------------------------------------------------

    def do(self, body: Any, client: str = "client/a", timeout_ms: int = 5_000) -> Any:
        """One command: the directory's answer, or the refusal's reason."""
        reply = self.call(client, Do(body), timeout_ms)
        return reply.value if isinstance(reply, Done) else reply.refusal.reason

    def put(self, name: str, client: str = "client/a", blocks: int = 2, **more: Any) -> PutDone:
        reply = self.call(client, put_of(name, blocks, **more))
        assert isinstance(reply, Done), reply
        assert isinstance(reply.value, PutDone)
        return reply.value

    def get(self, name: str, client: str = "client/a", timeout_ms: int = 5_000, **more: Any) -> str:
        """"" and every byte is right, or the reason of the failure."""
        return self.judge(name, self.call(client, GetGroup(id_of(name), layout=LAYOUT, **more), timeout_ms))

    def judge(self, name: str, reply: Done | Failed) -> str:
        if isinstance(reply, Failed):
            return reply.refusal.reason
        got = reply.value
        assert isinstance(got, GotGroup)
        assert [bytes(block) for block in got.data] == [content(name, block) for block in got.blocks]
        return ""

    def begin(self, client: str, call: Any, op: Any, timeout_ms: int = 5_000) -> None:
        """Start a call and let nothing else happen yet."""
        self.tell(client, Call(call, op, timeout_ms))

    def reply(self, client: str, call: Any) -> Done | Failed | None:
        """The answer to a call that was begun, if it has come."""
        found = [message for target, message in self.members[client].replies if target == call]
        assert len(found) <= 1, f"call {call} was answered {len(found)} times"
        return found[0] if found else None

    # ---- looking ---------------------------------------------------------------------------------------------

    def used(self, place: str = "n1") -> int:
        """Slots that the directory counts; a node's own count must be the same (call it at rest)."""
        if f"node/{place}" in self.members:
            own = sum(slots.used for slots in self.node(place).state.slots.values())
            assert own == self.state.used.get(NodeName(place), 0), (place, own)
        return self.state.used.get(NodeName(place), 0)

    def tier(self, node: str, tier: Tier = Tier.DRAM) -> MemoryTier:
        bytework = self.members[f"node/{node}"].bytework
        assert bytework is not None
        found = bytework._set.tiers[tier]
        assert isinstance(found, MemoryTier)
        return found

    def machine(self, client: str) -> Client:
        machine = self.members[client].machine
        assert isinstance(machine, Client)
        return machine

    def rest(self, ms: int = 3_000) -> None:
        """Time passes; then directory, nodes and clients agree, nothing is held, nothing is on its way."""
        self.advance(ms)
        self.check()
        assert self.findings() == []
        for member in self.members.values():
            if isinstance(member.machine, Client):
                assert audit(member.machine.state, member.machine.config) == ()
                assert not member.machine.state.holds


def readable(cluster: Cluster, name: str, client: str = "client/a") -> bool:
    """Whether `Locate` shows it: what `exists` means."""
    located = cluster.call(client, _locate(name))
    assert isinstance(located, Done)
    assert isinstance(located.value, a.Located)
    return bool(located.value.routes)


def _locate(name: str) -> Any:
    from pinfold.core.calls import Ask

    return Ask(c.Locate(Peer(""), "", (id_of(name),), touch=False))
