"""A random walk of one directory among honest nodes, under everything that rule 7 to 10 allow to go wrong.

Messages are lost, repeated and reordered; nodes lapse, return in the same boot or a new one, lose copies; the directory restarts.
`World` checks every step. At the end faults stop, and everything must come to rest with directory and nodes of one mind (LIVE-1).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field

from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.ids import CopyId, HoldId, MovePolicy, NodeName, Reason, SessionId, Tier
from pinfold.core.reports import Condition, InventoryEntry

from .directory_world import CLIENT, N1, N2, N3, STORE, World, id_of, spec_of

NODES = (N1, N2, N3)
NAMES = ("A", "B", "C", "D")


@define
class Held:
    """What a node has of one copy. `job`: it is being made, and ends as CopyDone or CopyFailed."""

    condition: Condition
    manifest: bytes
    job: bool = False
    store: bool = False


@define
class HonestNode:
    """As much of a node as a directory can see: it takes orders by number, and says what is true."""

    name: NodeName
    boot: int = 1
    incarnation: int = 0
    term: int = 0
    number: int = 0
    cut_off: bool = False
    held: dict[CopyId, Held] = field(factory=dict)
    scans: list[tuple[int, int]] = field(factory=list)


class Walk:
    """`run(steps)`, then `settle()`. Everything is drawn from `seed`."""

    def __init__(self, seed: int, restarts: bool = True, stores: int = 6, remote: float = 0.25, **config: Any) -> None:
        self.random = Random(seed)
        self.remote = remote
        self.world = World(*NODES, capacity=8, stores=stores, absent_limit_ms=8_000, move_ms=4_000, write_ms=4_000, **config)
        self.nodes = {name: HonestNode(name, incarnation=self.world.incarnation(name), term=1) for name in NODES}
        self.objects: dict[CopyId, bytes] = {}
        self.orders: list[tuple[NodeName, orders.Order]] = []
        self.reports: list[Any] = []
        self.read = 0
        self.holds: list[tuple[SessionId, HoldId, bool]] = []
        self.sessions = [self.world.session, self.world.open(), self.world.open("named")]
        self.commands: list[c.Command] = []
        self.contents = 0
        self.restarts = restarts
        self.story: list[str] = []

    # ---- one step --------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (8, self.create), (8, self.pin), (4, self.ref), (8, self.release), (6, self.move), (2, self.cancel),
            (4, self.replicate), (2, self.drop_replica), (3, self.evict), (1, self.drain), (2, self.repeat),
            (1, self.session_ends), (2, self.look),
            (12, self.take_order), (12, self.work_ends), (12, self.deliver), (25, self.pump), (2, self.lose_copy),
            (6, self.beat), (3, self.inventory), (10, self.time), (2, self.heal),
            (2, self.cut), (1, self.reboot), (1 if self.restarts else 0, self.restart),
        ]  # fmt: skip
        weights = [weight if weight > 1 else weight / 3 for weight, _ in acts]
        for _ in range(steps):
            act = self.random.choices([act for _, act in acts], weights)[0]
            self.story.append(act.__name__)
            act()
            self.collect()

    def collect(self) -> None:
        """Orders go on their way; some are lost, some come twice."""
        while self.read < len(self.world.sent):
            target, message = self.world.sent[self.read]
            self.read += 1
            self.notice(self.nodes[NodeName(target[5:])], message)

    def notice(self, node: HonestNode, message: Any) -> None:
        if isinstance(message, orders.Order):
            for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 2))):
                self.orders.append((node.name, message))
        elif isinstance(message, orders.Registered):
            self.adopt(node, message.term, message.incarnation)
            self.tell_inventory(node)
        elif isinstance(message, orders.HeartbeatSeen) and not node.cut_off:
            self.adopt(node, message.term, message.incarnation)
            if message.inventory:
                self.tell_inventory(node)
        elif isinstance(message, orders.RegisterAgain) and not node.cut_off:
            self.register(node)
        elif isinstance(message, orders.NameTaken):
            self.register(node, message.incarnation)

    def adopt(self, node: HonestNode, term: int, incarnation: int) -> None:
        if term >= node.term and incarnation >= node.incarnation and (term, incarnation) != (node.term, node.incarnation):
            node.term, node.incarnation, node.number = term, incarnation, 0

    def next_of(self, queue: list[Any]) -> int:
        """As a rule the oldest: a network that always reorders would let nothing happen."""
        return 0 if self.random.random() < 0.8 else self.random.randrange(len(queue))

    def one(self, items: Any) -> Any:
        found = list(items)
        return self.random.choice(found) if found else None

    # ---- callers ---------------------------------------------------------------------------------------------

    def do(self, body: Any) -> Any:
        session = self.one(session for session in self.sessions if session in self.world.state.sessions)
        if session is None:
            self.sessions.append(self.world.open())
            return None
        self.commands.append(self.world.command(body, session))
        answer = self.world.do(body, session)
        hold = getattr(answer, "hold", None)
        if isinstance(hold, HoldId) and not isinstance(body, c.Unpin | c.Unref):
            self.holds.append((session, hold, isinstance(body, c.Ref)))
        return answer

    def name(self) -> str:
        return self.random.choice(NAMES)

    def create(self) -> None:
        self.do(c.Create(spec_of(self.name(), 2), self.random.choice((*NODES, NodeName("")))))

    def pin(self) -> None:
        policy = self.random.choice(list(MovePolicy))
        copy = self.one(self.world.state.group_of) if self.random.random() < 0.3 else None
        group = id_of(self.name(), 2) if copy is None else self.world.state.group_of[copy]
        body = c.Pin(group, policy=policy) if copy is None else c.Pin(group, copy, policy)
        self.do(body if self.random.random() < 0.8 else c.PinPrefix(tuple(id_of(name, 2) for name in NAMES)))

    def ref(self) -> None:
        self.do(c.Ref(id_of(self.name(), 2)))

    def release(self) -> None:
        if not self.holds:
            return
        session, hold, ref = self.holds.pop(self.random.randrange(len(self.holds)))
        if session in self.world.state.sessions:
            self.world.do(c.Unref(hold) if ref else c.Unpin(hold), session)

    def move(self) -> None:
        target = STORE if self.random.random() < self.remote else self.random.choice(NODES)
        self.do(c.Move(id_of(self.name(), 2), target, allow_pinned=self.random.random() < 0.5))

    def cancel(self) -> None:
        group = self.one(self.world.state.groups.values())
        if group is not None:
            self.do(c.CancelMove(group.id, group.target))

    def replicate(self) -> None:
        self.do(c.Replicate(id_of(self.name(), 2), self.random.choice(NODES)))

    def drop_replica(self) -> None:
        copy = self.one(self.world.state.group_of)
        if copy is not None:
            self.do(c.DropReplica(self.world.state.group_of[copy], copy))

    def evict(self) -> None:
        self.do(c.Evict(id_of(self.name(), 2), wait=self.random.random() < 0.5))

    def drain(self) -> None:
        self.do(c.Drain(self.random.choice(NODES), self.random.random() < 0.4))

    def repeat(self) -> None:
        """A late duplicate: the same answer, or no word, and nothing happens."""
        command = self.one(self.commands)
        if command is not None:
            stored = self.world.state.answers.get((command.session, command.sequence))
            ready = self.world.changes_nothing(command)
            if stored is not None:
                assert [reply.message for reply in ready.reply] == [stored]

    def session_ends(self) -> None:
        session = self.one(self.world.state.sessions)
        if session is not None:
            self.world.ask(c.CloseSession(CLIENT, "close", session))
        self.sessions.append(self.world.open())

    def look(self) -> None:
        self.world.query(c.Locate(CLIENT, "l", tuple(id_of(name, 2) for name in NAMES)))
        self.world.query(c.Explain(CLIENT, "e", self.world.session, c.Move(id_of(self.name(), 2), N2)))

    # ---- nodes -----------------------------------------------------------------------------------------------

    def take_order(self, chosen: int | None = None) -> None:
        if not self.orders:
            return
        name, order = self.orders.pop(self.next_of(self.orders) if chosen is None else chosen)
        node = self.nodes[name]
        if node.cut_off or order.incarnation != node.incarnation or (order.term, order.number) <= (node.term, node.number):
            return
        self.adopt(node, order.term, order.incarnation)
        node.number = order.number
        body = order.body
        if isinstance(body, orders.Reserve | orders.Fetch | orders.Spill):
            known = node.held.get(body.copy)
            if known is None:
                manifest = b"" if isinstance(body, orders.Reserve) else body.manifest
                node.held[body.copy] = Held(Condition.RESERVED, manifest, True, isinstance(body, orders.Spill))
            elif known.condition is Condition.VERIFIED:
                done = reports.CopyDone if isinstance(body, orders.Fetch) else reports.Sealed
                self.say(node, done(body.copy, known.manifest))
        elif isinstance(body, orders.Free):
            if body.copy in node.held and self.random.random() < 0.3:
                node.held[body.copy].condition = Condition.FREEING
            else:
                node.held.pop(body.copy, None)
                self.say(node, reports.Freed(body.copy))
        elif isinstance(body, orders.FreeObject):
            self.objects.pop(body.copy, None)
            node.held.pop(body.copy, None)
            self.say(node, reports.Freed(body.copy))
        else:
            self.say(node, reports.StoreScanned(STORE, order.term, order.number, tuple(sorted(self.objects))))

    def pump(self) -> None:
        """A quiet moment: what is under way arrives, most of what is being made is done."""
        for _ in range(6):
            self.take_order()
            self.deliver()
            self.work_ends()
            self.collect()

    def work_ends(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        working = [copy for copy, held in node.held.items() if held.job or held.condition is Condition.FREEING]
        if working:
            self.end_work(node, self.random.choice(working), self.random.random() < 0.15)

    def end_work(self, node: HonestNode, copy: CopyId, fails: bool) -> None:
        held = node.held[copy]
        if held.condition is Condition.FREEING:
            del node.held[copy]
            self.say(node, reports.Freed(copy))
            return
        held.job = False
        if fails:
            if held.store:
                del node.held[copy]
            self.say(node, reports.CopyFailed(copy, Reason.FAILED))
            return
        if held.store:
            self.objects[copy] = held.manifest
            del node.held[copy]
            self.say(node, reports.CopyDone(copy, held.manifest))
            return
        held.condition = Condition.VERIFIED
        if held.manifest:
            self.say(node, reports.CopyDone(copy, held.manifest))
            return
        self.contents += 1
        held.manifest = self.contents.to_bytes(16, "big")
        self.say(node, reports.Sealed(copy, held.manifest))

    def say(self, node: HonestNode, fact: Any) -> None:
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 1, 2))):
            self.reports.append(reports.Report(node.name, node.incarnation, (fact,)))

    def lose_copy(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        copy = self.one(copy for copy, held in node.held.items() if held.condition is Condition.VERIFIED)
        if copy is not None:
            del node.held[copy]
            self.say(node, reports.CopyLost(copy, Reason.LOST))
        elif self.objects and self.random.random() < 0.1:
            del self.objects[self.random.choice(sorted(self.objects))]

    def deliver(self) -> None:
        if self.reports:
            report = self.reports.pop(self.next_of(self.reports))
            if not self.nodes[report.node].cut_off:
                self.world.step(report)

    def beat(self) -> None:
        for node in self.nodes.values():
            if not node.cut_off:
                self.world.step(reports.Heartbeat(node.name, node.incarnation, node.term, node.number))

    def inventory(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        if not node.cut_off:
            self.tell_inventory(node)

    def tell_inventory(self, node: HonestNode) -> None:
        self.world.snapshots += 1
        entries = [
            InventoryEntry(copy, held.condition, held.manifest if held.condition is Condition.VERIFIED else b"", Tier.DRAM, 2)
            for copy, held in sorted(node.held.items())
            if not held.store
        ]
        self.reports.append(
            reports.Inventory(node.name, node.incarnation, node.term, node.number, self.world.snapshots, 0, 1, tuple(entries))
        )
        for copy, held in sorted(node.held.items()):
            if held.condition is Condition.RESERVED and not held.job and not held.store:
                self.say(node, reports.CopyFailed(copy, Reason.FAILED))

    def register(self, node: HonestNode, over: int = 0) -> None:
        self.world.step(reports.Register(node.name, f"b{node.boot}", f"node/{node.name}", 8, (), (STORE,), 0, over))

    # ---- faults ----------------------------------------------------------------------------------------------

    def time(self) -> None:
        self.world.tick(self.random.choice((0, 1, 50, 200, 400)))

    def cut(self) -> None:
        self.nodes[self.random.choice(NODES)].cut_off = True

    def heal(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        node.cut_off = False
        self.world.step(reports.Heartbeat(node.name, node.incarnation, node.term, node.number))

    def reboot(self) -> None:
        node = self.nodes[self.random.choice(NODES)]
        node.boot += 1
        node.held.clear()
        node.cut_off = False
        node.number = 0
        self.register(node)

    def restart(self) -> None:
        self.world.restart(self.random.choice((0, 100, 5_000)))

    # ---- rest ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Faults stop, every process runs, callers let go: everything must come to rest, and add up."""
        world = self.world
        for session in list(world.state.sessions):
            world.ask(c.CloseSession(CLIENT, "close", session))
        for name in NODES:
            self.nodes[name].cut_off = False
        keep = world.open()
        for name in NODES:
            world.do(c.Drain(name, False), keep)
        for _ in range(120):
            self.round(keep)
            if not world.state.unsettled and not world.state.timed and not self.differences() and not self.busy():
                return
        raise AssertionError(f"no rest: {self.differences()} unsettled {len(world.state.unsettled)} timed {world.state.timed}")

    def busy(self) -> bool:
        return any(held.job or held.condition is Condition.FREEING for node in self.nodes.values() for held in node.held.values())

    def round(self, keep: SessionId) -> None:
        world = self.world
        world.tick(500)
        world.ask(c.KeepAlive(CLIENT, "renew", keep))
        for node in self.nodes.values():
            world.step(reports.Heartbeat(node.name, node.incarnation, node.term, node.number))
            self.collect()
            self.tell_inventory(node)
            for copy in list(node.held):
                if node.held[copy].job or node.held[copy].condition is Condition.FREEING:
                    self.end_work(node, copy, False)
        while self.orders:
            self.take_order(0)
        while self.reports:
            world.step(self.reports.pop(0))
            self.collect()

    def differences(self) -> list[str]:
        """Copies that only one of the two sides has."""
        state = self.world.state
        found = []
        for name, node in self.nodes.items():
            listed = set(state.copies_at.get(name, {}))
            found += [f"{name}: {copy}" for copy in sorted(listed ^ {copy for copy, held in node.held.items() if not held.store})]
        found += [f"{STORE}: {copy}" for copy in sorted(set(state.copies_at.get(STORE, {})) ^ set(self.objects))]
        return found
