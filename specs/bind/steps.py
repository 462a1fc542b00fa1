"""Everything that can happen in a world: `(label, world after)`; labels are the names of the model's actions.

Commands are tried in every state, also where the machines refuse them: what changes something must be a step of the model, what
is refused must change nothing. Each step goes through a machine's one door; nothing here knows a rule of the protocol. What is
due is not modelled: a step makes one thing due and then gives a Tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slices import BUDGETS
from world import (
    CHECKSUMS,
    DIRECTORY,
    MANIFEST,
    NOW,
    SPEC,
    Projection,
    World,
    client_name,
    heard,
    learnt,
    node_config,
    node_name,
    phase,
    written,
)

from pinfold.core import commands, events, orders, reports, requests
from pinfold.core.commands import Body, Command
from pinfold.core.directory import Directory
from pinfold.core.events import Tick
from pinfold.core.ids import NO_COPY, CopyId, Role
from pinfold.core.node import Node
from pinfold.core.node_state import Kind, NodeState, Work
from pinfold.core.records import evolve
from pinfold.core.state import DirectoryState

Step = tuple[str, World]
WRITING = {"reserved", "storing", "stored", "verifying"}
FETCHING = {"asked", "filling", "checking"}


class Steps:
    """The steps of the worlds of one slice."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self.slice = projection.slice

    def of(self, world: World) -> Iterator[Step]:
        yield from self._commands(world)
        yield from self._times(world)
        for number, (target, message) in sorted(world.msgs.items()):
            yield from self._deliver(world, number, target, message)
        for n in range(1, self.slice.nodes + 1):
            if not world.nodes[n - 1].state.fenced:
                yield from self._at_node(world, n)
            yield from self._death(world, n)

    # ---- stepping --------------------------------------------------------------------------------------------

    def _directory(
        self, world: World, event: Any, prepare: Callable[[DirectoryState], None] | None = None, spend: str = ""
    ) -> World:
        """The directory steps; its commit is durable and its messages are under way."""
        directory = world.directory.copy()
        if prepare is not None:
            prepare(directory.state)
        ready = directory.step(event, NOW)
        tables = written(world.tables, ready.persist) if world.tables else world.tables
        after = evolve(world, directory=directory, tables=tables, left=spent(world.left, spend), parts=[-1, world.parts[1]])
        return self._sent(learnt(after, ready), ready)

    def _node(
        self, world: World, n: int, event: Any, prepare: Callable[[NodeState], None] | None = None, spend: str = ""
    ) -> World:
        """A node steps."""
        node = world.nodes[n - 1].copy()
        if prepare is not None:
            prepare(node.state)
        ready = node.step(event, NOW)
        after = evolve(world, nodes=swapped(world.nodes, n, node), left=spent(world.left, spend), parts=[world.parts[0], -1])
        return self._sent(heard(after, node), ready)

    def _sent(self, world: World, ready: Any) -> World:
        sent = self.projection.translate(world, ready)
        if sent.keys() <= world.msgs.keys():
            return world
        return evolve(world, msgs={**sent, **world.msgs})

    # ---- commands --------------------------------------------------------------------------------------------

    def _command(self, world: World, s: int, body: Body, spend: str = "") -> World:
        number = world.sessions[s - 1]
        applied, _ = world.directory.state.progress[number]
        command = Command(client_name(s), number, applied + 1, applied + 1, body)
        return self._directory(world, command, spend=spend)

    def _open(self, world: World) -> list[int]:
        state = world.directory.state
        return [s for s, number in enumerate(world.sessions, 1) if number in state.sessions]

    def _commands(self, world: World) -> Iterator[Step]:
        sessions = self._open(world)
        for s in sessions:
            yield from self._holds(world, s)
            for n in range(1, self.slice.nodes + 1):
                if has(world, "create"):
                    after = self._command(world, s, commands.Create(SPEC, node_name(n)), "create")
                    if len(world.born) < len(after.born) <= self.slice.copies:
                        yield "Create", after
        if not sessions:
            return
        s = sessions[0]
        yield "Evict", self._command(world, s, commands.Evict(SPEC.group))
        waiting = self._command(world, s, commands.Evict(SPEC.group, wait=True))
        group = waiting.directory.state.groups.get(SPEC.group)
        yield ("EvictWaiting" if group is not None and group.leaving else "Evict"), waiting
        yield from self._moves(world, s)

    def _holds(self, world: World, s: int) -> Iterator[Step]:
        state, number = world.directory.state, world.sessions[s - 1]
        mine = [hold for hold in state.holds.values() if hold.id.session == number and not hold.lost]
        for copy in world.born:
            pins = [hold for hold in mine if hold.copy == copy]
            if len(pins) < self.slice.pins:
                yield "Pin", self._command(world, s, commands.Pin(SPEC.group, copy))
            if pins:
                yield "Unpin", self._command(world, s, commands.Unpin(pins[0].id))
        refs = [hold for hold in mine if hold.copy == NO_COPY]
        if len(refs) < self.slice.pins:
            yield "Ref", self._command(world, s, commands.Ref(SPEC.group))
        if refs:
            yield "Unref", self._command(world, s, commands.Unref(refs[0].id))
        if has(world, "close"):
            closing = commands.CloseSession(client_name(s), "close", number)
            yield "CloseSession", self._directory(world, closing, spend="close")

    def _moves(self, world: World, s: int) -> Iterator[Step]:
        group = world.directory.state.groups.get(SPEC.group)
        for n in range(1, self.slice.nodes + 1):
            for allow in (False, True):
                if has(world, "move"):
                    after = self._command(world, s, commands.Move(SPEC.group, node_name(n), allow_pinned=allow), "move")
                    if self._accepted(world, after):
                        yield ("Move" if len(after.born) > len(world.born) else "Adopt"), after
            if has(world, "replicate"):
                after = self._command(world, s, commands.Replicate(SPEC.group, node_name(n)), "replicate")
                if self._accepted(world, after):
                    yield "Replicate", after
        if group is not None and group.target != NO_COPY:
            yield "CancelMove", self._command(world, s, commands.CancelMove(SPEC.group, group.target))
        for copy in world.born:
            yield "DropReplica", self._command(world, s, commands.DropReplica(SPEC.group, copy))

    def _accepted(self, world: World, after: World) -> bool:
        """A refused command has used up nothing; one that needs more copies than the slice has is beyond its bound."""
        return len(after.born) <= self.slice.copies and self.projection.view(after)[0] != self.projection.view(world)[0]

    # ---- time at the directory -------------------------------------------------------------------------------

    def _times(self, world: World) -> Iterator[Step]:
        state = world.directory.state
        yield "Tick", self._directory(world, Tick())
        for s in self._open(world):
            if has(world, "close"):
                number = world.sessions[s - 1]
                yield "Expire", self._directory(world, Tick(), lambda d, i=number: d.session_due.update({i: NOW}), "close")
        for copy in state.copies.get(SPEC.group, ()):
            if copy.absent or copy.role is Role.INCOMING:
                label = "AbsentLimit" if copy.absent else "Deadline"
                yield label, self._directory(world, Tick(), lambda d, i=copy.id: make_due(d, i))
        for node in state.nodes.values():
            if node.alive and has(world, "lapse"):
                yield "Lapse", self._directory(world, Tick(), lambda d, i=node.name: d.node_due.update({i: NOW}), "lapse")
        if has(world, "restart"):
            yield "Restart", self._restart(world)

    def _restart(self, world: World) -> World:
        """A new term, from what is durable alone: the writes of all commits so far (DUR-1)."""
        directory = world.directory
        again = Directory(directory.config, Directory.load(world.tables))
        tables = written(world.tables, again.start(NOW).persist)
        return evolve(world, directory=again, tables=tables, left=spent(world.left, "restart"), parts=[-1, world.parts[1]])

    # ---- messages --------------------------------------------------------------------------------------------

    def _deliver(self, world: World, number: int, target: str, message: Any) -> Iterator[Step]:
        if target == DIRECTORY:
            yield from self._to_directory(world, message)
            return
        n = int(target[6:])
        state = world.nodes[n - 1].state
        if state.fenced:
            return
        if isinstance(message, requests.Read):
            copy = state.copies.get(message.copy)
            serving = any(work.token == message.token for work in state.works.values())
            if not serving or (copy is not None and phase(state, copy) != "verified"):
                yield "DoServeRead", self._node(world, n, message)
            return
        if isinstance(message, orders.HeartbeatSeen):
            if has(world, "tell") and passes_ask(state, message):
                yield "DoTakeAsk", self._node(world, n, message, spend="tell")
            return
        yield TO_NODE[type(message)], self._node(world, n, message)

    def _to_directory(self, world: World, message: Any) -> Iterator[Step]:
        state = world.directory.state
        node = state.nodes[message.node]
        if isinstance(message, reports.Register):
            again = node.alive if node.boot == message.boot else node.incarnation != message.over
            if again or has(world, "register"):
                yield "DoHearRegister", self._directory(world, message, spend="" if again else "register")
            return
        if not node.alive or node.incarnation != message.incarnation:
            yield "DoStaleReport", self._directory(world, message)
        elif isinstance(message, reports.Inventory):
            if has(world, "hear"):
                yield "DoHearInventory", self._directory(world, message, spend="hear")
        else:
            fact = message.facts[0]
            strange = fact.copy not in state.group_of and isinstance(fact, reports.Sealed | reports.CopyDone)
            if not strange or has(world, "hear"):
                yield "DoHearFact", self._directory(world, message, spend="hear" if strange else "")

    # ---- at a node -------------------------------------------------------------------------------------------

    def _at_node(self, world: World, n: int) -> Iterator[Step]:
        state = world.nodes[n - 1].state
        for work in state.works.values():
            yield self._completed(world, n, work)
        for copy in state.copies.values():
            word = phase(state, copy)
            if word in WRITING:
                yield from self._writer(world, n, copy.copy, word, copy.writer)
            elif word == "verified" and has(world, "twist"):
                end = requests.EndWrite(client_name(1), "again", copy.copy, MANIFEST)
                yield "EndWriteAgain", self._node(world, n, end, spend="twist")
            elif word in FETCHING and has(world, "twist"):
                yield "JobDeadline", self._node(world, n, Tick(), lambda x, i=copy.copy: job_due(x, i), "twist")
            guards = [guard for guard in state.guards.values() if guard.copy == copy.copy]
            if len(guards) < self.slice.touch:
                asked = requests.Acquire(client_name(1), f"r{copy.copy}.{len(guards)}", "process:reader", copy.copy)
                yield "ReaderComes", self._node(world, n, asked)
            if guards:
                label = "ReaderGoes" if word == "verified" else "TouchEnds"
                yield label, self._node(world, n, requests.Let(client_name(1), "let", guards[-1].guard))
        link = state.links[0]
        if link.registered:
            node = world.directory.state.nodes[node_name(n)]
            current = node.alive and node.incarnation == link.incarnation
            if not current or has(world, "tell"):
                yield "Heartbeat", self._heartbeat(world, n)
            if has(world, "tell"):
                due = evolve(link, inventory_at=NOW)
                yield "TellInventory", self._node(world, n, Tick(), lambda x: x.links.update({0: due}), "tell")

    def _heartbeat(self, world: World, n: int) -> World:
        """The node beats and the directory hears it at once: late heartbeats say nothing that a present one does not."""
        node = world.nodes[n - 1].copy()
        node.state.links[0] = evolve(node.state.links[0], heartbeat_at=NOW)
        beats = [send.message for send in node.step(Tick(), NOW).send if isinstance(send.message, reports.Heartbeat)]
        return self._directory(evolve(world, nodes=swapped(world.nodes, n, node)), beats[0])

    def _writer(self, world: World, n: int, copy: CopyId, word: str, writer: Any) -> Iterator[Step]:
        write = requests.Write(writer, f"w{copy}", copy, (0,), CHECKSUMS)
        if word == "reserved":
            yield "Write", self._node(world, n, write)
        if word == "stored":
            yield "EndWrite", self._node(world, n, requests.EndWrite(writer, f"e{copy}", copy, MANIFEST))
        if word == "stored" and has(world, "twist"):
            yield "WriteAgain", self._node(world, n, write, spend="twist")
        if has(world, "twist"):
            yield "AbortWrite", self._node(world, n, requests.AbortWrite(writer, f"a{copy}", copy), spend="twist")

    def _completed(self, world: World, n: int, work: Work) -> Step:
        """Byte work comes to its end."""
        state = world.nodes[n - 1].state
        word = phase(state, state.copies[work.copy])
        if work.kind is Kind.RELEASE:
            return "Released", self._node(world, n, events.InstanceReleased(work.job, work.copy))
        if work.kind is Kind.LOAD:
            return "DoServed", self._node(world, n, events.BlocksLoaded(work.job, work.copy, CHECKSUMS))
        label = COMPLETED.get(word, "TouchEnds")
        if work.kind is Kind.STORE:
            return label, self._node(world, n, events.BlocksStored(work.job, work.copy))
        return label, self._node(world, n, events.InstanceVerified(work.job, work.copy, MANIFEST))

    def _death(self, world: World, n: int) -> Iterator[Step]:
        """The process dies and a new boot begins, with nothing; its first Tick registers."""
        if not has(world, "crash"):
            return
        boot = world.boots[n - 1] + 1
        node = Node(node_config(n), f"{node_name(n)}-{boot}")
        ready = node.step(Tick(), NOW)
        boots = (*world.boots[: n - 1], boot, *world.boots[n:])
        left = spent(world.left, "crash")
        after = evolve(world, nodes=swapped(world.nodes, n, node), boots=boots, left=left, parts=[world.parts[0], -1])
        yield "Crash", self._sent(after, ready)


COMPLETED = {"storing": "Stored", "verifying": "Verified", "filling": "Filled", "checking": "Checked"}
TO_NODE: dict[type, str] = {
    orders.Order: "DoTakeOrder",
    orders.Registered: "DoTakeRegistered",
    orders.NameTaken: "DoTakeTaken",
    orders.RegisterAgain: "DoTakeAgain",
    orders.FencedOff: "DoTakeFenced",
    requests.Blocks: "DoBlocksCame",
    requests.NodeRefused: "DoSourceRefused",
}


def has(world: World, what: str) -> bool:
    return world.left[BUDGETS.index(what)] > 0


def spent(left: tuple[int, ...], what: str) -> tuple[int, ...]:
    if not what:
        return left
    at = BUDGETS.index(what)
    return (*left[:at], left[at] - 1, *left[at + 1 :])


def swapped(nodes: tuple[Node, ...], n: int, node: Node) -> tuple[Node, ...]:
    return (*nodes[: n - 1], node, *nodes[n:])


def passes_ask(state: NodeState, ask: orders.HeartbeatSeen) -> bool:
    """Whether the node does anything about it: only then is it counted."""
    return ask.incarnation == state.links[0].incarnation and ask.term >= state.links[0].term


def make_due(state: DirectoryState, copy: CopyId) -> None:
    """This copy's own time has come."""
    listed = state.copies[SPEC.group]
    state.copies[SPEC.group] = tuple([evolve(one, due=NOW) if one.id == copy else one for one in listed])


def job_due(state: NodeState, copy: CopyId) -> None:
    state.jobs[copy] = evolve(state.jobs[copy], deadline=NOW)
