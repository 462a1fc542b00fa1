"""A whole cluster of the real machines on virtual time, and everything that may go wrong with it.

Each machine has a clock of its own (an offset from virtual time), byte work takes time and ends in another order than it was
asked for, a directory's commits come late and in batches, so that a crash loses what was not committed. SSD tiers and remote
stores outlive their processes. After every step: the machine's invariants, what may never go back, and the records of the
directory against what the nodes really have (`sim_checks`).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from ..backends.bytework import TierSet
from ..backends.memory import MemoryStore
from ..backends.memory_tier import MemoryTier
from ..core.calls import Call
from ..core.client import Client
from ..core.client_state import audit
from ..core.directory import Directory
from ..core.driver import Driver, TermEnded
from ..core.effects import META
from ..core.errors import InvariantViolation
from ..core.events import Tick
from ..core.ids import Tier
from ..core.invariants import check_all, check_progress
from ..core.node import Node
from ..core.node_invariants import check_node, links_never_fall
from ..core.orders import HeartbeatSeen
from ..core.records import evolve
from ..core.reports import Heartbeat
from ..core.state import RECORD_TYPES, DirectoryState
from ..transport.inproc import Faults, InprocWire, Port
from .sim_bytework import SlowByteWork
from .sim_checks import answers_are_kept, copies_are_there, decisions_have_reasons, nobody_knows_more
from .sim_shape import (
    DIRECTORY,
    STORE,
    Chance,
    Shape,
    client_config,
    directory_config,
    node_config,
)

FACTS = ("groups", "copies", "holds", "sessions", "answers", "nodes")
NOISE = (Tick, Heartbeat, HeartbeatSeen)
"""What a story leaves out."""


@define
class Member:
    """One process: a machine, its driver, its place at the wire, its clock."""

    address: str
    machine: Any
    driver: Driver
    port: Port
    offset: int
    work: SlowByteWork | None = None
    tiers: dict[Tier, MemoryTier] = field(factory=dict)
    paused: bool = False
    inbox: list[Any] = field(factory=list)
    flush_at: int | None = None

    @property
    def alarm_at(self) -> int | None:
        """Virtual time of the Tick that the machine wants."""
        return None if self.driver.alarm is None else self.driver.alarm - self.offset


class World:
    """The cluster. `on_reply(client, call, outcome)` is told every answer of a client machine; `on_message` what comes for a
    peer that is no machine (the engine that holds guards)."""

    STEPS_MAX = 3_000

    def __init__(self, shape: Shape, on_reply: Callable[[str, Any, Any], None]) -> None:
        self.shape = shape
        self.now = 0
        self.steps = 0
        self.mark = 0
        """A running checksum of who was told what when (DET-1)."""
        self.chance = Chance(shape.seed)
        self.config = directory_config(shape)
        self.wire = InprocWire(seed=shape.seed, faults=shape.wire, through_codec=shape.through_codec)
        self.store = MemoryStore(RECORD_TYPES, store_id="model")
        self.members: dict[str, Member] = {}
        self.boots: dict[str, int] = {}
        self.disks: dict[str, MemoryTier] = {}
        self.remote = MemoryTier(durable=True)
        self.damaged: dict[Any, None] = {}
        """Copies whose bytes were damaged or lost on purpose."""
        self.story: deque[tuple[int, str, Any]] = deque(maxlen=2_000)
        self.checks: list[Callable[[], None]] = []
        self.on_reply = on_reply
        self.on_message: dict[str, Callable[[Any], None]] = {}
        self.plans: list[tuple[int, int, Callable[[], None]]] = []
        """What ends by itself: `(when, order, what to do)`."""
        self.durable: DirectoryState | None = None
        self.attempted: DirectoryState | None = None
        """What a commit of unknown outcome would have made durable."""
        self.start_directory()
        for name in shape.names:
            self.start_node(name)

    # ---- the directory -------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Directory | None:
        member = self.members.get(DIRECTORY)
        return None if member is None else member.machine

    def start_directory(self) -> None:
        """From what the store has. Its first commit may fail as any other: then it is down again."""
        tables = self.store.load()
        state = Directory.load(tables) if tables.get(META) else Directory.blank(self.store.identity.store_id)
        self._compare_with_durable(state)
        directory = Directory(self.config, state)
        port = self.wire.port(DIRECTORY)
        member = Member(DIRECTORY, directory, Driver(directory, store=self.store, wire=port), port, self.chance.below(100_000))
        self.members[DIRECTORY] = member
        member.driver.hold(directory.start(self.now + member.offset, self.store.term))
        self.store.fence(directory.state.meta.term)
        self._flush(member)

    def _compare_with_durable(self, state: DirectoryState) -> None:
        """DUR-1: what the store gives back is what was committed last; or, after an unknown outcome, that commit as well."""
        if self.durable is None:
            return
        meta = self.durable.meta
        self.durable.meta = evolve(meta, clock_ms=min(meta.clock_ms, state.meta.clock_ms))  # a look alone is not committed
        check_progress(self.durable, state)
        possible = [self.durable] if self.attempted is None else [self.durable, self.attempted]
        if not any(all(getattr(one, name) == getattr(state, name) for name in FACTS) for one in possible):
            raise InvariantViolation("DUR-1", "the store gives back something else than what was committed")
        self.attempted = None
        nobody_knows_more(self, state)

    def revive_directory(self) -> None:
        """Until a start succeeds."""
        if self.directory is None:
            self.start_directory()

    def crash_directory(self) -> None:
        self.wire.remove(DIRECTORY)
        del self.members[DIRECTORY]
        self.store.crash()

    def flush_directory(self) -> None:
        """Commit what is held, without waiting for its time."""
        if DIRECTORY in self.members:
            self._flush(self.members[DIRECTORY])

    def _flush(self, member: Member) -> None:
        member.flush_at = None
        if member.address != DIRECTORY:
            member.driver.flush()
            return
        state: DirectoryState = member.machine.state
        try:
            member.driver.flush()
        except TermEnded:
            self.attempted = state
            self.crash_directory()
            self.after(1 + self.chance.below(200), self.revive_directory)
            return
        self.durable = state.copy()
        check_all(state, self.config)

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def start_node(self, name: str, address: str = "") -> None:
        """A new boot: DRAM is empty, the disk has what was published on it. A twin (another address) has a disk of its own."""
        address = address or f"node/{name}"
        boot = self.boots[name] = self.boots.get(name, 0) + 1
        config = node_config(self.shape, name, address)
        node = Node(config, f"{name}-{boot}")
        disk = self.disks.setdefault(address, MemoryTier(durable=True))
        disk.crash()
        tiers = {Tier.DRAM: MemoryTier(), Tier.SSD: disk}
        stores = {STORE: self.remote} if self.shape.with_store else {}
        work = SlowByteWork(TierSet(tiers, stores), Chance(self.chance.below(1 << 30)), self.shape.work_ms, lambda: self.now)
        port = self.wire.port(address)
        member = Member(address, node, Driver(node, wire=port, bytework=work), port, self.chance.below(100_000), work, tiers)
        self.members[address] = member
        for found in disk.scan().found:
            self.step(member, found.event(Tier.SSD))
        self.step(member, Tick())

    def crash_node(self, address: str) -> None:
        member = self.members.pop(address)
        self.wire.remove(address)
        assert member.work is not None
        member.work.die()

    def nodes(self) -> list[Member]:
        return [member for member in self.members.values() if isinstance(member.machine, Node)]

    def clients(self) -> list[Member]:
        return [member for member in self.members.values() if isinstance(member.machine, Client)]

    # ---- clients -------------------------------------------------------------------------------------------------

    def start_client(self, client: str) -> None:
        life = self.boots[client] = self.boots.get(client, 0) + 1
        machine = Client(client_config(self.shape, client, life))
        port = self.wire.port(client)
        driver = Driver(machine, wire=port, replies=_Replies(client, self))
        self.members[client] = Member(client, machine, driver, port, self.chance.below(100_000))

    def crash_client(self, client: str) -> None:
        self.wire.remove(client)
        del self.members[client]

    def call(self, client: str, number: int, op: Any, timeout_ms: int) -> None:
        self.step(self.members[client], Call(number, op, timeout_ms))

    # ---- stepping ------------------------------------------------------------------------------------------------

    def step(self, member: Member, event: Any) -> None:
        if member.paused:
            member.inbox.append(event)
            return
        self.steps += 1
        if type(event) not in NOISE:
            self.story.append((self.now, member.address, event))
        self.mark = zlib.crc32(f"{self.now} {member.address} {type(event).__name__}".encode(), self.mark)
        machine = member.machine
        before: Any = None if isinstance(machine, Client) else machine.state.copy()
        member.driver.handle(event, self.now + member.offset)
        if isinstance(machine, Directory):
            self._check_directory(before, machine.state)
            if self.shape.commit_ms and member.flush_at is None and member.driver.holding:
                member.flush_at = self.now + self.chance.below(self.shape.commit_ms + 1)
            if member.flush_at is None:
                self._flush(member)
        else:
            member.driver.flush()
            if isinstance(machine, Node):
                check_node(machine.state, machine.config)
                links_never_fall(before, machine.state)
                if machine.state.fenced and not before.fenced:
                    self.after(1 + self.chance.below(200), self.replace_fenced)
            elif wrong := audit(machine.state, machine.config):
                raise InvariantViolation("ANSWER-1", f"{member.address}: {'; '.join(wrong)}")
        copies_are_there(self)
        answers_are_kept(self)
        for check in self.checks:
            check()

    def _check_directory(self, before: DirectoryState, after: DirectoryState) -> None:
        check_progress(before, after)
        decisions_have_reasons(self, before, after)
        if after.halted:
            raise InvariantViolation("DUR-1", f"the directory has stopped: {after.halted}")

    def resume(self, member: Member) -> None:
        """What came meanwhile is read first, in order; then the clock."""
        member.paused = False
        waiting, member.inbox = member.inbox, []
        for event in waiting:
            if self.members.get(member.address) is member:
                self.step(member, event)

    def after(self, ms: int, what: Callable[[], None]) -> None:
        """Plan something: faults end by themselves."""
        self.plans.append((self.now + ms, self.steps, what))

    def _round(self) -> bool:
        busy = False
        for plan in sorted((plan for plan in self.plans if plan[0] <= self.now), key=lambda plan: plan[:2]):
            busy = True
            self.plans.remove(plan)
            plan[2]()
        while (delivery := self.wire.deliver_next(self.now)) is not None:
            busy = True
            if delivery.target in self.on_message:
                self.on_message[delivery.target](delivery.message)
            elif delivery.target in self.members:
                self.step(self.members[delivery.target], delivery.message)
        for member in list(self.members.values()):
            if self.members.get(member.address) is member and not member.paused:
                busy |= self._serve(member)
        return busy

    def _serve(self, member: Member) -> bool:
        busy = False
        if member.work is not None:
            for completion in member.work.poll():
                busy = True
                self.step(member, completion)
        for unreachable in member.port.unreachable():
            if member.address != DIRECTORY:
                self.step(member, unreachable)
        if member.flush_at is not None and member.flush_at <= self.now:
            busy = True
            self._flush(member)
        at = member.alarm_at
        if at is not None and at <= self.now and self.members.get(member.address) is member:
            self.step(member, Tick())
            busy = True  # one that wants another Tick at once gets it: a machine that never has enough is caught by `settle`
        return busy

    def _instants(self) -> Iterable[int]:
        if self.wire.next_ms is not None:
            yield self.wire.next_ms
        for at, _, _ in self.plans:
            yield at
        for member in self.members.values():
            if not member.paused:
                for wanted in (member.alarm_at, member.flush_at, None if member.work is None else member.work.next_ms):
                    if wanted is not None:
                        yield wanted

    def settle(self) -> None:
        begun = self.steps
        while self._round():
            if self.steps - begun > self.STEPS_MAX:
                raise InvariantViolation("LIVE-1", f"{self.STEPS_MAX} steps at one instant: the machines talk in circles")

    def advance(self, ms: int) -> None:
        """Let `ms` pass, stopping wherever something is due."""
        end = self.now + ms
        self.settle()
        while (later := [at for at in self._instants() if at > self.now]) and min(later) <= end:
            self.now = min(later)
            self.settle()
        self.now = end
        self.settle()

    # ---- the end of faults ---------------------------------------------------------------------------------------

    def replace_fenced(self) -> None:
        """What a supervisor does: a process that stops because it was replaced is started anew, a superfluous one is not."""
        for member in self.nodes():
            if member.machine.state.fenced:
                self.crash_node(member.address)
                if not member.address.endswith("x"):
                    self.start_node(member.machine.config.name)

    def heal(self) -> None:
        """From now on nothing goes wrong; who is dead, fenced or superfluous is replaced or gone."""
        self.plans.clear()
        self.wire.set_all_faults(Faults(delay_ms=(0, 2)))
        self.wire.heal_all()
        tiers = [self.remote, *(tier for member in self.nodes() for tier in member.tiers.values())]
        for tier in tiers:
            tier._faults.clear()
            tier.capacity_bytes = None
        for member in list(self.members.values()):
            if member.paused:
                self.resume(member)
        for member in self.nodes():
            if member.address.endswith("x"):
                self.crash_node(member.address)
        self.replace_fenced()
        for name in self.shape.names:
            if f"node/{name}" not in self.members:
                self.start_node(name)
        if self.directory is not None and self.store._faults:
            self.crash_directory()
        if self.directory is None:
            self.start_directory()


class _Replies:
    def __init__(self, client: str, world: World) -> None:
        self._client = client
        self._world = world

    def reply(self, target: Any, message: Any) -> None:
        self._world.on_reply(self._client, target, message)
