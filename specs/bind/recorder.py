"""Runs of the embedded cluster, recorded as actions of the model.

Every step of a directory or node that changes its projection, or sends something new, becomes one action, or several where the
model takes one step as several (then only the last is observed). A step that no action stands for raises `Unmapped`. One that is
beyond the model (a session that is opened later, one copy more than it has) ends the trace before it.
"""

from __future__ import annotations

import random
from typing import Any

from attrs import define, field
from slices import Slice
from values import States, record
from world import FACTS, SPEC, Projection, World, heard, learnt, node_name

from pinfold.backends.bytework import InlineByteWork
from pinfold.backends.memory import MemoryStore
from pinfold.core import commands, orders, reports, requests
from pinfold.core.commands import Command
from pinfold.core.effects import Ready
from pinfold.core.events import Tick
from pinfold.core.ids import Role
from pinfold.core.node import Node
from pinfold.core.records import evolve
from pinfold.core.state import RECORD_TYPES
from pinfold.embedded import DIRECTORY, EmbeddedCluster, EmbeddedConfig, Member

ROLES = ("GONE", "INCOMING", "AUTHORITATIVE", "REPLICA", "RETIRING", "FREEING")
PHASES = (
    "none", "reserved", "storing", "stored", "verifying", "asked", "filling", "checking", "verified", "failed", "freeing"
)  # fmt: skip
PATHS = {
    ("reserved", "storing"): ("Write",), ("stored", "storing"): ("WriteAgain",), ("storing", "stored"): ("Stored",),
    ("storing", "verifying"): ("Stored", "EndWrite"), ("stored", "verifying"): ("EndWrite",),
    ("verifying", "verified"): ("Verified",),
    ("asked", "filling"): ("BlocksCame",), ("filling", "checking"): ("Filled",), ("checking", "verified"): ("Checked",),
}  # fmt: skip
"""From what a node had of a copy to what it has: the actions."""

Action = tuple[str, tuple[Any, ...]]


class Unmapped(Exception):
    """Raised when a machine does what no action of the model stands for."""


@define
class Event:
    """One action of a trace; `observed` None inside a step."""

    name: str
    arguments: tuple[Any, ...]
    observed: tuple[Any, ...] | None = None


@define
class Trace:
    """What was recorded of one run, and why it ends."""

    seed: int
    events: list[Event] = field(factory=list)
    ends: str = ""


class SlowWork:
    """Byte work that takes its time, so that other things happen meanwhile."""

    def __init__(self, inner: InlineByteWork, cluster: EmbeddedCluster, chance: random.Random) -> None:
        self._inner = inner
        self._cluster = cluster
        self._chance = chance
        self._waiting: list[tuple[int, Any]] = []

    def submit(self, work: Any) -> None:
        self._inner.submit(work)

    def poll(self) -> list[Any]:
        now = self._cluster.now
        self._waiting += [(now + self._chance.choice((0, 0, 3, 30, 300)), done) for done in self._inner.poll()]
        due = [done for at, done in self._waiting if at <= now]
        self._waiting = [(at, done) for at, done in self._waiting if at > now]
        return due


class RecordedCluster(EmbeddedCluster):
    """An embedded cluster that writes its steps down, from `record` on."""

    def __init__(self, config: EmbeddedConfig, one: Slice, seed: int) -> None:
        self.trace = Trace(seed)
        self._world: World | None = None
        self._projection = Projection(one, States())
        self._chance = random.Random(seed)
        super().__init__(config, store=MemoryStore(RECORD_TYPES, store_id="spec"))

    def was_registered(self, name: str) -> bool:
        """Whether this boot's `Register` was sent since the recording began, so that it may arrive once more."""
        assert self._world is not None
        sent = {"k": "register", "n": int(name[1:]), "boot": self.boots[name], "over": 0}
        number = self._projection.states.messages.number.get(record(**sent))
        return number in self._world.msgs

    def deliver(self, message: Any, to: str = DIRECTORY) -> None:
        """A message arrives, late or repeated."""
        self._step(self.members[to], message)

    def _bytework(self, name: str) -> Any:
        return SlowWork(super()._bytework(name), self, self._chance)

    def record(self) -> None:
        """The model's first state: every node registered and ready, sessions open, nothing under way."""
        state = self.state
        count = self._projection.slice.nodes
        self._world = World(
            self.directory, tuple([self.node(str(node_name(n))) for n in range(1, count + 1)]), {}, (),
            tuple(state.sessions), incarnations=tuple([(state.nodes[node_name(n)].incarnation,) for n in range(1, count + 1)]),
            boots=(1,) * count,
        )  # fmt: skip

    # ---- stepping --------------------------------------------------------------------------------------------

    def _step(self, member: Member, event: Any) -> None:
        world = self._world
        if world is None or self.trace.ends or member.port.name.startswith("client/"):
            super()._step(member, event)
            return
        if member.port.name == DIRECTORY:
            causes = self._causes() if isinstance(event, Tick) else None
            before, answered = self._directory_part(world), world
            ready = self._handle(member, event)
            self._after_directory(answered, event, before, causes, ready)
        else:
            n = int(member.port.name[6:])
            before = self._node_part(world, n)
            ready = self._handle(member, event)
            self._after_node(world, n, event, before, ready)

    def _handle(self, member: Member, event: Any) -> Ready:
        self.steps += 1
        ready = member.driver.handle(event, self.now)
        member.driver.flush()
        return ready

    def _directory_part(self, world: World) -> dict[str, Any]:
        return dict(self._projection._directory(world))

    def _node_part(self, world: World, n: int) -> dict[str, Any]:
        return dict(self._projection._node(world, n))

    def _write(self, actions: list[Action], observed: tuple[Any, ...]) -> None:
        for name, arguments in actions[:-1]:
            self.trace.events.append(Event(name, arguments))
        name, arguments = actions[-1]
        self.trace.events.append(Event(name, arguments, observed))

    def _sent(self, world: World, ready: Ready) -> tuple[World, bool]:
        sent = self._projection.translate(world, ready)
        fresh = not sent.keys() <= world.msgs.keys()
        return (evolve(world, msgs={**sent, **world.msgs}) if fresh else world), fresh

    # ---- the directory ---------------------------------------------------------------------------------------

    def _causes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """What is due at the Tick that comes: sessions, nodes, copies."""
        assert self._world is not None
        state, config = self.state, self.directory.config
        last = self.now if state.last_now is None else state.last_now
        clock = state.meta.clock_ms + min(max(0, self.now - last), config.max_step_ms)
        sessions = [self._session(number) for number, due in state.session_due.items() if due <= clock]
        nodes = [int(name[1:]) for name, due in state.node_due.items() if due <= clock]
        copies = [
            self._world.born.index(copy.id) + 1
            for copy in state.copies.get(SPEC.group, ())
            if copy.due and copy.due <= clock and (copy.absent or copy.role is Role.INCOMING)
        ]
        return tuple(sorted(sessions)), tuple(sorted(nodes)), tuple(sorted(copies))

    def _session(self, number: int) -> int:
        assert self._world is not None
        if number not in self._world.sessions:
            self.trace.ends = "a new session"
            return 1
        return self._world.sessions.index(number) + 1

    def _after_directory(self, world: World, event: Any, before: dict[str, Any], causes: Any, ready: Ready) -> None:
        if any(number not in world.sessions for number in self.state.sessions):
            self.trace.ends = "a new session"
            return
        world = learnt(world, ready)
        if len(world.born) > self._projection.slice.copies:
            self.trace.ends = "as many copies as the model has"
            return
        after = self._directory_part(world)
        self._world, fresh = self._sent(world, ready)
        if self.trace.ends or (before == after and not fresh):
            return
        actions = self._named(event, before, after, causes, ready)
        if not actions:
            raise Unmapped(f"the directory at {event}: {before} -> {after}")
        self._write(actions, seen_directory(after))

    def _named(self, event: Any, before: dict[str, Any], after: dict[str, Any], causes: Any, ready: Ready) -> list[Action]:
        world = self._world
        assert world is not None
        if isinstance(event, Tick):
            return [("Tick", tuple([frozenset(some) for some in causes]))]
        if isinstance(event, Command):
            return self._commanded(world.sessions.index(event.session) + 1, event.body, before, after)
        if isinstance(event, commands.CloseSession):
            return [("CloseSession", (world.sessions.index(event.session) + 1,))]
        n = int(event.node[1:])
        if isinstance(event, reports.Register):
            over = world.incarnations[n - 1].index(event.over) + 1 if event.over else 0
            return [("HearRegister", (n, int(event.boot.rpartition("-")[2]), over))]
        inc = world.incarnations[n - 1].index(event.incarnation) + 1
        if isinstance(event, reports.Heartbeat):
            return [("HearHeartbeat", (n, inc, event.term))]
        current = before["alive"][n - 1] and before["inc"][n - 1] == inc
        if isinstance(event, reports.Inventory):
            if not current:
                return [("StaleReport", ("inventory", n, inc))]
            has = dict(self._projection._inventory(world, event))["has"]
            return [("HearInventory", (n, inc, event.term, event.number, has))]
        if isinstance(event, reports.Report):
            if not current:
                return [("StaleReport", ("fact", n, inc))]
            return [("HearFact", (n, inc, FACTS[type(fact)], world.born.index(fact.copy) + 1)) for fact in event.facts]
        return []

    def _commanded(self, s: int, body: Any, before: dict[str, Any], after: dict[str, Any]) -> list[Action]:
        pins = [b - a for a, b in zip(before["pins"][s - 1], after["pins"][s - 1], strict=True)]
        refs = after["refs"][s - 1] - before["refs"][s - 1]
        if after["born"] > before["born"]:
            place = dict(after["list"][after["born"] - 1])["node"]
            if isinstance(body, commands.Create):
                return [("Create", (s, place))]
            if isinstance(body, commands.Replicate):
                return [("Replicate", (place,))]
            return [("Move", (place, body.allow_pinned))]
        if isinstance(body, commands.Move):
            return [("Adopt", (int(body.target[1:]), body.allow_pinned))]
        if isinstance(body, commands.Evict):
            return [("EvictWaiting" if after["leaving"] else "Evict", ())]
        if isinstance(body, commands.CancelMove):
            return [("CancelMove", ())]
        if isinstance(body, commands.DropReplica):
            assert self._world is not None
            return [("DropReplica", (self._world.born.index(body.copy) + 1,))]
        actions: list[Action] = []
        for c, change in enumerate(pins, 1):
            actions += [("Pin" if change > 0 else "Unpin", (s, c))] * abs(change)
        return actions + [("Ref" if refs > 0 else "Unref", (s,))] * abs(refs)

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _after_node(self, world: World, n: int, event: Any, before: dict[str, Any], ready: Ready) -> None:
        world = heard(world, self.node(str(node_name(n))))
        after = self._node_part(world, n)
        self._world, fresh = self._sent(world, ready)
        if before == after and not fresh:
            return
        actions = self._at_node(n, event, before, after, ready)
        if not actions:
            raise Unmapped(f"{node_name(n)} at {event}: {before} -> {after}")
        self._write(actions, seen_node(after))

    def _at_node(self, n: int, event: Any, before: dict[str, Any], after: dict[str, Any], ready: Ready) -> list[Action]:
        world = self._world
        assert world is not None
        if isinstance(event, orders.Order):
            inc = world.incarnations[n - 1].index(event.incarnation) + 1
            return [("TakeOrder", (n, inc, event.term, event.number))]
        if type(event) in NOTICES:
            inc = world.incarnations[n - 1].index(event.incarnation) + 1
            return [(NOTICES[type(event)], (n, inc, event.term))]
        if isinstance(event, requests.Read) and event.token in dict(world.tokens):
            return [("ServeRead", (n, dict(world.tokens)[event.token]))]
        actions: list[Action] = []
        for c, (was, now) in enumerate(zip(before["has"], after["has"], strict=True), 1):
            actions += self._changed(n, c, event, dict(was), dict(now))
        if any(isinstance(send.message, reports.Inventory) for send in ready.send):
            actions.append(("TellInventory", (n,)))
        if not actions and isinstance(event, requests.EndWrite):
            actions.append(("EndWriteAgain", (n, world.born.index(event.copy) + 1)))
        return actions

    def _changed(self, n: int, c: int, event: Any, was: dict[str, Any], now: dict[str, Any]) -> list[Action]:
        """What happened to one copy at a node, by what has become of it."""
        ended = [("Served", (n, c, t)) for t in sorted(was["serve"] - now["serve"])]
        if (was["ph"], now["ph"]) in PATHS:
            return [(name, (n, c)) for name in PATHS[(was["ph"], now["ph"])]]
        if was["ph"] == "freeing" and now["ph"] == "none":
            return [("Released", (n, c))]
        if now["ph"] == "failed" and was["ph"] != "failed":
            if isinstance(event, requests.AbortWrite):
                return [("AbortWrite", (n, c))]
            return [("SourceRefused" if isinstance(event, requests.NodeRefused) else "JobDeadline", (n, c))]
        if was["ph"] != now["ph"]:
            raise Unmapped(f"{node_name(n)} at {event}: copy {c} {was} -> {now}")
        change = now["touch"] - was["touch"]
        if change > 0:
            return [*ended, *[("ReaderComes", (n, c))] * change]
        return [*ended, *[("ReaderGoes" if now["ph"] == "verified" else "TouchEnds", (n, c))] * -change]

    # ---- life and death --------------------------------------------------------------------------------------

    def start_directory(self) -> None:
        super().start_directory()
        if self._world is not None and not self.trace.ends:
            self._world = evolve(self._world, directory=self.directory)
            self._write([("Restart", ())], seen_directory(self._directory_part(self._world)))

    def start_node(self, name: str) -> None:
        """The model's crash is the death of one boot and the first word of the next."""
        world, self._world = self._world, None
        super().start_node(name)
        if world is None or self.trace.ends:
            self._world = world
            return
        n = int(name[1:])
        machine: Node = self.node(name)
        boots = (*world.boots[: n - 1], self.boots[name], *world.boots[n:])
        world = evolve(world, nodes=(*world.nodes[: n - 1], machine, *world.nodes[n:]), boots=boots)
        register = self._projection.states.messages.put(record(k="register", n=n, boot=self.boots[name], over=0))
        self._world = evolve(world, msgs={**world.msgs, register: (DIRECTORY, None)})
        self._write([("Crash", (n,))], seen_node(self._node_part(self._world, n)))


NOTICES: dict[type, str] = {
    orders.Registered: "TakeRegistered",
    orders.HeartbeatSeen: "TakeAsk",
    orders.NameTaken: "TakeTaken",
    orders.RegisterAgain: "TakeAgain",
    orders.FencedOff: "TakeFenced",
}


# ---- what is observed ----------------------------------------------------------------------------------------


def code(digits: list[int]) -> int:
    return sum(digit * 12**at for at, digit in enumerate(digits))


def seen_directory(part: dict[str, Any]) -> tuple[Any, ...]:
    """The twin of `SeenDirectory` in specs/pinfold_trace.tla."""
    listed = [dict(copy) for copy in part["list"]]
    roles = [ROLES.index(copy["role"]) + (6 if copy["absent"] else 0) for copy in listed]
    held = [sum(1 for pins in part["pins"] if pins[c] > 0) for c in range(len(listed))]
    return part["state"], part["term"], part["epoch"], part["born"], code(roles), code(held), part["leaving"]


def seen_node(part: dict[str, Any]) -> tuple[Any, ...]:
    """The twin of `SeenNode`."""
    has = [dict(copy) for copy in part["has"]]
    phases = code([PHASES.index(copy["ph"]) for copy in has])
    return part["term"], part["inc"], part["num"], phases, sum(copy["touch"] for copy in has)
