"""Who takes part in a world: names, addresses, groups and the machines' settings; and the messages that are under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attrs import define

from ..core.commands import Spec
from ..core.effects import Ready, Reply, Send
from ..core.ids import Key, Layout, NodeName, Peer, group_id
from ..core.node_state import NodeConfig, TierRoom
from ..core.state import DirectoryConfig, StoreSpec
from .keys import message_key
from .memory import manifest_of
from .pool import Pool, digest_of
from .world_file import BLOCK_BYTES, WorldFile

NOW: Final = 1
"""The one instant of every world: no clock moves (see `keys.py`)."""

DIRECTORY: Final = Peer("directory/0")
TO_DIRECTORY, TO_NODE, TO_CLIENT = 0, 1, 2

Heard = tuple[tuple[int, int], ...]
"""`(client, message)`: what clients hear at once."""

Out = tuple[tuple[int, ...], Heard]
"""What a step lets out: messages under way, and what clients hear."""

SILENCE: Final[Out] = ((), ())


def said(ready: Ready) -> list[Send | Reply]:
    """What a step sends and answers, in order."""
    return [*ready.send, *ready.reply]


@define
class Message:
    """A message under way."""

    kind: int
    at: int
    """The node's or client's index."""
    target: str
    body: Any


class Cast:
    """The parties of one world by index, and the pool of its messages."""

    def __init__(self, file: WorldFile) -> None:
        self.file = file
        self.nodes = [shape.name for shape in file.nodes]
        self.clients = [name for name, _ in file.clients]
        self.stores = [name for name, _ in file.stores]
        self.groups = [shape.name for shape in file.groups]
        self.specs: list[Spec] = []
        for shape in file.groups:
            key = Key("t", "m", "1", Layout(block_bytes=BLOCK_BYTES), shape.name, shape.blocks)
            parent = self.specs[self.groups.index(shape.parent)].group if shape.parent else None
            self.specs.append(Spec(group_id(key), key, (BLOCK_BYTES,) * shape.blocks, parent=parent))
        self.group_at = {spec.group: at for at, spec in enumerate(self.specs)}
        self.node_at = {NodeName(name): at for at, name in enumerate(self.nodes)}
        self.messages: Pool[Message] = Pool()
        stores = tuple(StoreSpec(NodeName(name), slots) for name, slots in file.stores)
        self.directory_config = DirectoryConfig(stores=stores, backoff_ms=0, high=1000, low=1000, spill=file.spill)
        self.node_configs = [self._node_config(at) for at in range(len(self.nodes))]

    def _node_config(self, at: int) -> NodeConfig:
        shape = self.file.nodes[at]
        rooms = tuple(
            TierRoom(tier, slots, slab=tier.name != "SSD", high_percent=shape.high_percent, low_percent=shape.low_percent)
            for tier, slots in shape.tiers
        )
        return NodeConfig(
            NodeName(shape.name), Peer(f"node/{shape.name}"), (DIRECTORY,), rooms, tuple(NodeName(name) for name in self.stores),
            group_slots=max(group.blocks for group in self.file.groups), fetch_tries_max=self.file.fetch_tries,
        )  # fmt: skip

    def content(self, group: int, writer: int) -> tuple[int, ...]:
        """The checksums of what a client writes of a group: another writer recomputes other bytes."""
        blocks = len(self.specs[group].sizes)
        return tuple([1_000 * (group + 1) + 100 * (writer + 1) + block for block in range(blocks)])

    def manifest(self, group: int, writer: int) -> bytes:
        return manifest_of(self.specs[group], self.content(group, writer))

    # ---- messages --------------------------------------------------------------------------------------------

    def post(self, target: str, body: Any) -> int:
        """The number of a message to `target`."""
        digest = digest_of(message_key(target, body))
        known = self.messages.find(digest)
        if known is not None:
            return known
        kind, _, name = target.partition("/")
        if kind == "directory":
            message = Message(TO_DIRECTORY, 0, target, body)
        elif kind == "node":
            message = Message(TO_NODE, self.nodes.index(name), target, body)
        else:
            message = Message(TO_CLIENT, self.clients.index(name) if name in self.clients else -1, target, body)
        return self.messages.put(digest, message)

    def let_out(self, ready: Ready) -> Out:
        """What a `Ready` sends and answers."""
        return self.let_all_out((ready,))

    def let_all_out(self, readies: Iterable[Ready]) -> Out:
        under_way: list[int] = []
        heard: list[tuple[int, int]] = []
        for ready in readies:
            for one in said(ready):
                number = self.post(one.target, one.message)
                message = self.messages.items[number]
                if message.kind != TO_CLIENT:
                    under_way.append(number)
                elif 0 <= message.at < len(self.clients):
                    heard.append((message.at, number))
        return tuple(under_way), tuple(heard)
