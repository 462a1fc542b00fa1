"""A client machine with the world around it played by hand: a test reads what the client sends and answers it."""

from __future__ import annotations

from typing import Any

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.calls import Call, CancelCall, Failed, PutGroup
from pinfold.core.client import Client
from pinfold.core.client_state import ClientConfig, audit
from pinfold.core.effects import Ready
from pinfold.core.errors import Refusal
from pinfold.core.events import Tick
from pinfold.core.ids import (
    CopyId,
    HoldId,
    Key,
    Layout,
    NodeName,
    Peer,
    SessionId,
    Tier,
    group_id,
    manifest_hash,
)

CLIENT = Peer("client/1")
DIRECTORY = Peer("directory/0")
NODE = Peer("node/n1")
COPY = CopyId(0, 5, 0)
LAYOUT = Layout(block_bytes=4)


def spec_of(name: str, blocks: int = 2) -> c.Spec:
    key = Key("tenant", "model", "1", LAYOUT, name, blocks)
    return c.Spec(group_id(key), key, (4,) * blocks)


def put_of(name: str, blocks: int = 2, **changes: Any) -> PutGroup:
    checksums = tuple(range(1, blocks + 1))
    data = tuple(f"{name[:3]:3}{index}".encode() for index in range(blocks))
    return PutGroup(spec_of(name, blocks), checksums, data, **changes)


def manifest_of(put: PutGroup) -> bytes:
    return manifest_hash(put.spec.key.layout, put.spec.sizes, put.checksums)


def config_of(**changes: Any) -> ClientConfig:
    return ClientConfig(CLIENT, (DIRECTORY,), "boot", seed=1, **changes)


class Script:
    """A client, the time, and what it has sent and answered since somebody looked."""

    def __init__(self, **changes: Any) -> None:
        self.client = Client(config_of(**changes))
        self.now = 1_000
        self.sent: list[Any] = []
        self.replies: dict[Any, Any] = {}
        self.alarm: int | None = None

    def step(self, event: Any) -> Ready:
        ready = self.client.step(event, self.now)
        self.alarm = ready.alarm
        self.sent += [(send.target, send.message) for send in ready.send]
        for reply in ready.reply:
            assert reply.target not in self.replies, f"second answer to call {reply.target}"
            self.replies[reply.target] = reply.message
        assert audit(self.client.state, self.client.config) == ()
        return ready

    def call(self, call: Any, op: Any, timeout_ms: int = 10_000) -> None:
        self.step(Call(call, op, timeout_ms))

    def cancel(self, call: Any) -> None:
        self.step(CancelCall(call))

    def pass_ms(self, ms: int) -> None:
        """Let time pass, with a Tick at each alarm on the way."""
        until = self.now + ms
        while self.alarm is not None and self.alarm <= until:
            self.now = max(self.now, self.alarm)
            self.step(Tick())
        self.now = until
        self.step(Tick())

    def take(self, kind: type) -> Any:
        """The oldest message of `kind` that was sent and not looked at; messages before it are forgotten."""
        while self.sent:
            _, message = self.sent.pop(0)
            if isinstance(message, kind):
                return message
        raise AssertionError(f"no {kind.__name__} was sent")

    def body(self, kind: type) -> c.Command:
        """The oldest command with a body of `kind`."""
        while True:
            command: c.Command = self.take(c.Command)
            if isinstance(command.body, kind):
                return command

    def none_sent(self, kind: type) -> bool:
        """Whether neither a message nor a command body of `kind` was sent since somebody looked."""
        found = [m for _, m in self.sent if isinstance(m, kind) or isinstance(getattr(m, "body", None), kind)]
        return not found

    def tell(self, token: str, answer: a.QueryAnswer, revision: int = 1, term: int = 1) -> None:
        self.step(a.Told(0, term, revision, token, answer))

    def answer(self, command: c.Command, answer: Any, term: int = 1) -> None:
        self.step(a.Answered(0, term, command.session, command.sequence, answer))

    def refuse(self, command: c.Command, reason: str, **changes: Any) -> None:
        self.answer(command, a.Refused(Refusal(reason, **changes), 1))

    def deny(self, request: Any, reason: str, **changes: Any) -> None:
        self.step(r.NodeRefused(NodeName("n1"), request.token, request.copy, Refusal(reason, **changes)))

    def open(self, session: int = 7, lease_ms: int = 9_000) -> None:
        """Answer the `OpenSession` that must have been sent."""
        opening = self.take(c.OpenSession)
        self.tell(opening.token, a.SessionOpened(SessionId(session), 1, lease_ms, False))

    def failed(self, call: Any) -> str:
        reply = self.replies[call]
        assert isinstance(reply, Failed), reply
        return reply.refusal.reason


def hold_of(command: c.Command, ordinal: int = 0) -> HoldId:
    return HoldId(command.session, command.sequence, ordinal)


def route_of(put: PutGroup, copy: CopyId = COPY, address: Peer = NODE) -> a.Route:
    spec = put.spec
    node = NodeName("n1" if address else "store")
    return a.Route(spec.group, copy, node, address, Tier.DRAM, 5, manifest_of(put), len(spec.sizes), spec.size_bytes)


def pinned(command: c.Command, put: PutGroup, **changes: Any) -> a.Pinned:
    return a.Pinned(put.spec.group, route_of(put, **changes), hold_of(command), 6)


def blocks_of(read: r.Read, put: PutGroup) -> r.Blocks:
    checksums = tuple(put.checksums[block] for block in read.blocks)
    data = tuple(put.data[block] for block in read.blocks)
    return r.Blocks(NodeName("n1"), read.token, read.copy, read.blocks, checksums, Tier.DRAM, data)
