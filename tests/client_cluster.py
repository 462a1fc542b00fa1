"""A small model of a directory and a node for the client machine to talk to: it answers by itself, applies each number once and
in order, and remembers everything that it did."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests as r
from pinfold.core.errors import Refusal
from pinfold.core.events import Tick
from pinfold.core.ids import CopyId, GroupId, HoldId, MovePolicy, NodeName, Peer, Reason, SessionId, Tier
from tests.client_world import NODE, Script


@define
class FakeCopy:
    """`sealed` None: being written."""

    put: c.Spec
    blocks: dict[int, tuple[int, Any]] = field(factory=dict)
    sealed: bytes | None = None
    over: bool = False


@define
class FakeCluster:
    """A directory that applies numbers exactly once and in order, and a node that keeps bytes by copy id.

    `applied` counts how often each thing that a command asked for was done: a body's request name -> times.
    """

    window: int = 32
    revision: int = 0
    sessions: dict[int, dict[str, Any]] = field(factory=dict)
    tokens: dict[str, int] = field(factory=dict)
    holds: dict[HoldId, tuple[str, GroupId, CopyId]] = field(factory=dict)
    copies: dict[CopyId, FakeCopy] = field(factory=dict)
    groups: dict[GroupId, CopyId] = field(factory=dict)
    applied: dict[str, int] = field(factory=dict)
    overloaded: int = 0
    """How many of the next commands are refused at the door."""
    full: int = 0
    """How many of the next creates find no room."""
    node_down: bool = False
    node_address: Peer = NODE

    def receive(self, target: Peer, message: Any) -> list[Any]:
        """What comes back to the client for one message."""
        if target == self.node_address:
            return [] if self.node_down else [self.node(message)]
        if isinstance(message, c.Command):
            return [self.command(message)]
        answer: Any
        if isinstance(message, c.OpenSession):
            answer = self.open(message)
        elif isinstance(message, c.KeepAlive):
            live = message.session in self.sessions
            answer = a.KeptAlive(message.session, 9_000, ()) if live else a.Refused(Refusal("SessionEnded"), self.revision)
        elif isinstance(message, c.CloseSession):
            answer = a.SessionClosed(message.session, self.end(message.session))
        elif isinstance(message, c.Await):
            answer = self.await_(message)
        else:
            assert isinstance(message, c.Locate), message
            found = [self.route(group) for group in message.groups]
            answer = a.Located(tuple(route for route in found if route is not None), GroupId(b""), -1)
        return [a.Told(0, 1, self.revision, message.token, answer)]

    # -- sessions

    def open(self, message: c.OpenSession) -> a.QueryAnswer:
        session = self.tokens.get(message.token)
        resumed = session is not None
        if session is None:
            self.revision += 1
            session = self.tokens[message.token] = self.revision
            self.sessions[session] = {"applied": 0, "low": 1, "answers": {}}
        if session not in self.sessions:
            return a.Refused(Refusal("SessionEnded"), self.revision)
        return a.SessionOpened(SessionId(session), self.sessions[session]["applied"] + 1, 9_000, resumed)

    def end(self, session: int) -> int:
        """Close or expire a session: its holds are gone, and what it was writing is over."""
        self.sessions.pop(session, None)
        mine = [hold for hold in self.holds if hold.session == session]
        for hold in mine:
            self.release(hold)
        return len(mine)

    def release(self, hold: HoldId) -> None:
        kind, group, copy = self.holds.pop(hold)
        record = self.copies.get(copy)
        if kind == "writer" and record is not None and record.sealed is None:
            record.over = True
            self.groups.pop(group, None)

    # -- commands

    def command(self, message: c.Command) -> a.Answered:
        session = self.sessions.get(message.session)

        def answered(answer: Any) -> a.Answered:
            return a.Answered(0, 1, message.session, message.sequence, answer)

        def door(reason: str) -> a.Answered:
            return answered(a.Refused(Refusal(reason), self.revision))

        if session is None:
            return door("SessionEnded")
        if message.sequence <= session["applied"]:
            stored = session["answers"].get(message.sequence)
            return answered(stored) if stored is not None else door("AlreadyDone")
        if self.overloaded:
            self.overloaded -= 1
            return door("Overloaded")
        if message.sequence >= message.low + self.window:
            return door("WindowFull")
        if message.sequence != session["applied"] + 1:
            return door("Early")
        session["low"] = max(session["low"], message.low)
        for sequence in [s for s in session["answers"] if s < session["low"]]:
            del session["answers"][sequence]
        session["applied"] = message.sequence
        self.revision += 1
        if isinstance(message.body, c.Batch):
            items = tuple(self.apply(message, item, index) for index, item in enumerate(message.body.items))
            answer: Any = a.BatchAnswer(items, self.revision)
        else:
            answer = self.apply(message, message.body, 0)
        session["answers"][message.sequence] = answer
        return answered(answer)

    def apply(self, message: c.Command, body: Any, ordinal: int) -> a.ItemAnswer:
        hold = HoldId(message.session, message.sequence, ordinal)
        request = getattr(body, "request", "")
        if request:
            self.applied[request] = self.applied.get(request, 0) + 1
        if isinstance(body, c.Cancel):
            return a.CommandCancelled(self.revision)
        if isinstance(body, c.Unpin | c.Unref):
            if body.hold not in self.holds:
                return a.Refused(Refusal("AlreadyDone"), self.revision)
            group = self.holds[body.hold][1]
            self.release(body.hold)
            return a.Released(group, body.hold, self.revision)
        if isinstance(body, c.Ref):
            self.holds[hold] = ("ref", body.group, CopyId(-1, -1, -1))
            return a.Referred(body.group, hold, self.revision)
        if isinstance(body, c.Create):
            return self.create(body, hold)
        assert isinstance(body, c.Pin), body
        if body.policy is MovePolicy.RECOMPUTE:
            return a.Refused(Refusal("Recompute"), self.revision)
        route = self.route(body.group)
        if route is None:
            return a.Refused(Refusal("Unreadable"), self.revision)
        if body.copy.shard >= 0 and body.copy != route.copy:
            return a.Refused(Refusal("StaleCopy"), self.revision)
        self.holds[hold] = ("pin", body.group, route.copy)
        return a.Pinned(body.group, route, hold, self.revision)

    def create(self, body: c.Create, hold: HoldId) -> a.ItemAnswer:
        group = body.spec.group
        if self.full:
            self.full -= 1
            return a.Refused(Refusal("NoSpace", retry_after_ms=5), self.revision)
        route = self.route(group)
        if route is not None:
            self.holds[hold] = ("pin", group, route.copy)
            return a.Exists(group, route, hold, self.revision)
        if group in self.groups:
            return a.Joined(group, self.groups[group], self.revision)
        copy = CopyId(0, self.revision, 0)
        self.groups[group] = copy
        self.copies[copy] = FakeCopy(body.spec)
        self.holds[hold] = ("writer", group, copy)
        return a.Created(group, copy, NodeName("n1"), self.node_address, hold, self.revision, self.revision)

    def route(self, group: GroupId) -> a.Route | None:
        copy = self.groups.get(group)
        record = None if copy is None else self.copies[copy]
        if copy is None or record is None or record.sealed is None:
            return None
        spec = record.put
        count = len(spec.sizes)
        return a.Route(group, copy, NodeName("n1"), self.node_address, Tier.DRAM, 1, record.sealed, count, spec.size_bytes)

    def evict(self, group: GroupId) -> None:
        """The directory gives a group up behind everybody's back (unless it is held)."""
        held = any(group == held for _, held, _ in self.holds.values())
        if not held and group in self.groups:
            self.revision += 1
            self.copies[self.groups.pop(group)].over = True

    def await_(self, message: c.Await) -> a.Awaited:
        outcome = "timeout"
        if self.route(message.group) is not None:
            outcome = "readable"
        elif message.group not in self.groups:
            outcome = "gone"
        return a.Awaited(message.group, outcome, 0, 0, Reason.NONE)

    # -- the node

    def node(self, message: Any) -> Any:
        name = NodeName("n1")
        record = self.copies.get(message.copy)

        def refused(reason: str) -> r.NodeRefused:
            return r.NodeRefused(name, message.token, message.copy, Refusal(reason))

        if record is None or record.over:
            return refused("StaleCopy")
        if isinstance(message, r.Read):
            if record.sealed is None:
                return refused("NotVerified")
            found = [record.blocks[block] for block in message.blocks]
            checksums, data = tuple(item[0] for item in found), tuple(item[1] for item in found)
            return r.Blocks(name, message.token, message.copy, message.blocks, checksums, Tier.DRAM, data)
        if isinstance(message, r.EndWrite) and record.sealed == message.manifest:
            return r.WriteEnded(name, message.token, message.copy, message.manifest)
        if record.sealed is not None:
            return refused("BadRequest")
        if isinstance(message, r.Write):
            for block, checksum, data in zip(message.blocks, message.checksums, message.data, strict=True):
                record.blocks[block] = (checksum, data)
            return r.Written(name, message.token, message.copy, message.blocks)
        if isinstance(message, r.AbortWrite):
            record.over = True
            self.groups = {group: copy for group, copy in self.groups.items() if copy != message.copy}
            return r.WriteAborted(name, message.token, message.copy)
        assert isinstance(message, r.EndWrite), message
        if len(record.blocks) != len(record.put.sizes):
            return refused("Incomplete")
        self.revision += 1
        record.sealed = message.manifest
        return r.WriteEnded(name, message.token, message.copy, message.manifest)


def run_to_quiet(script: Script, cluster: FakeCluster, rounds: int = 500) -> None:
    """A perfect network: deliver everything at once, and let time pass, until nobody has anything to do."""
    for _ in range(rounds):
        sent, script.sent = script.sent, []
        for target, message in sent:
            for answer in cluster.receive(target, message):
                script.step(answer)
        state = script.client.state
        if script.sent:
            continue
        if not (state.calls or state.numbers or state.queue or state.releases or state.exchanges):
            return
        assert script.alarm is not None, "nothing is on its way, and no alarm is set"
        script.now = max(script.now + 1, script.alarm)
        script.step(Tick())
    raise AssertionError("it never becomes quiet")
