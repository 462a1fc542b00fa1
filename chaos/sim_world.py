"""A whole cluster of the real machines on virtual time, and everything that may go wrong with it.

Each machine has a clock of its own (an offset from virtual time), byte work takes time and ends in another order than it was
asked for, a directory's commits come late and in batches, so that a crash loses what was not committed. SSD tiers and remote
stores outlive their processes. After every step: the machine's invariants, what may never go back, and the records of the
directory against what the nodes really have (`sim_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..backends.bytework import TierSet
from ..core.calls import Call
from ..core.client import Client
from ..core.client_state import audit
from ..core.directory import Directory
from ..core.driver import TermEnded
from ..core.effects import META
from ..core.errors import InvariantViolation
from ..core.events import Tick
from ..core.ids import Tier
from ..core.invariants import check_all, check_progress
from ..core.node import Node
from ..core.node_invariants import check_node, links_never_fall
from ..core.records import evolve
from ..core.state import FACTS, RECORD_TYPES, DirectoryState
from ..transport.inproc import Faults, InprocWire
from . import sim_deposed
from .record import Recorder
from .sim_bytework import SLOW_MS, SlowByteWork
from .sim_checks import answers_are_kept, copies_are_there, decisions_have_reasons, nobody_knows_more, whole_state
from .sim_faults import Clock, Counts, ProcessDied, SimStore, SimTier
from .sim_member import Member, new_member
from .sim_shape import DIRECTORY, STORE, Chance, Shape, client_config, directory_config, node_config
from .sim_trace import Trace


class World:
    """The cluster. `on_reply(client, call, outcome)` is told every answer of a client machine; `on_message` what comes for a
    peer that is no machine (the engine that holds guards)."""

    STEPS_MAX = 3_000
    WHOLE_EVERY = 200
    """After so many steps all of everything is looked at, also what the step did not touch."""

    def __init__(self, shape: Shape, on_reply: Callable[[str, Any, Any], None], trace: Trace) -> None:
        self.shape = shape
        self.trace = trace
        self.counts = Counts()
        self.recorder = Recorder()
        self.now = 0
        self.steps = 0
        self.chance = Chance(shape.seed)
        self.config = directory_config(shape)
        self.wire = InprocWire(seed=shape.seed, faults=shape.wire, through_codec=shape.through_codec)
        self.store = SimStore(RECORD_TYPES, store_id="model")
        self.store.counts = self.counts
        self.commit_ms = shape.commit_ms
        self.members: dict[str, Member] = {}
        self.deposed: Member | None = None
        self.boots: dict[str, int] = {}
        self.disks: dict[str, SimTier] = {}
        self.remote = SimTier(self.counts, durable=True)
        self.damaged: dict[Any, None] = {}
        """Copies whose bytes were damaged or lost on purpose."""
        self.checks: list[Callable[[], None]] = []
        self.on_reply = on_reply
        self.on_message: dict[str, Callable[[Any], None]] = {}
        self.plans: list[tuple[int, int, Callable[[], None]]] = []
        """What ends by itself: `(when, order, what to do)`."""
        self.durable: DirectoryState | None = None
        self.attempted: DirectoryState | None = None
        """What a commit of unknown outcome would have made durable."""

    def start(self) -> None:
        """All that the shape names comes to life."""
        self.start_directory()
        for name in self.shape.names:
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
        process = new_member(DIRECTORY, directory, self.wire.port(DIRECTORY), self._clock(), store=self.store)
        self.members[DIRECTORY] = process
        process.driver.hold(directory.start(process.clock.at(self.now), self.store.term))
        if directory.state.meta.term <= self.store.term:
            raise InvariantViolation("EPOCH-1", f"a start in term {directory.state.meta.term}, after term {self.store.term}")
        self.store.fence(directory.state.meta.term)
        self._flush(process)

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
        self.durable, self.attempted = state.copy(), None
        nobody_knows_more(self, state)

    def revive_directory(self) -> None:
        """Until a start succeeds."""
        if self.directory is None:
            self.start_directory()

    def _clock(self) -> Clock:
        """Of a process that starts now: no two show the same, nor go alike where clocks drift."""
        local, drift = self.chance.below(100_000), self.chance.below(201) - 100
        return Clock(local, self.now, 1_000 + (drift if self.shape.drift else 0))

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
        dead = False
        try:
            member.driver.flush()
        except TermEnded:
            self.counts.note("terms ended by a commit")
            self.attempted = member.machine.state
            self.crash_directory()
            self.after(1 + self.chance.below(200), self.revive_directory)
            return
        except ProcessDied:
            dead = True
        if member.address == DIRECTORY:
            self.durable = member.machine.state.copy()
            check_all(member.machine.state, self.config)
        if dead:
            self.counts.note("deaths between two outputs")
            member.death()

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def start_node(self, name: str, address: str = "") -> None:
        """A new boot: DRAM is empty, the disk has what was published on it. A twin (another address) has a disk of its own."""
        address = address or f"node/{name}"
        boot = self.boots[name] = self.boots.get(name, 0) + 1
        config = node_config(self.shape, name, address)
        node = Node(config, f"{name}-{boot}")
        disk = self.disks.setdefault(address, SimTier(self.counts, durable=True))
        disk.crash()
        tiers = {Tier.DRAM: SimTier(self.counts), Tier.SSD: disk}
        places = TierSet(tiers, {STORE: self.remote} if self.shape.with_store else {})
        luck = Chance(self.chance.below(1 << 30))
        work = SlowByteWork(places, luck, self.shape.work_ms, lambda: self.now, self.counts)
        process = new_member(address, node, self.wire.port(address), self._clock(), work=work, tiers=tiers)
        self.members[address] = process
        for found in disk.scan().found:
            self.step(process, found.event(Tier.SSD))
        self.step(process, Tick())

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
        process = new_member(client, machine, self.wire.port(client), self._clock(), replies=_Replies(client, self))
        self.members[client] = process
        self.recorder.watch(client, process.driver)

    def crash_client(self, client: str) -> None:
        self.wire.remove(client)
        del self.members[client]

    def call(self, client: str, number: int, op: Any, timeout_ms: int) -> None:
        self.step(self.members[client], Call(number, op, timeout_ms))

    # ---- stepping ------------------------------------------------------------------------------------------------

    def step(self, member: Member, event: Any) -> None:
        if self.members.get(member.address) is not member:
            return  # it has died since
        if member.paused_at is not None:
            member.inbox.append(event)
            return
        self.steps += 1
        machine = member.machine
        before: Any = None if isinstance(machine, Client) else machine.state.copy()
        self.trace.event(self.now, member.address, event, member.driver.handle(event, member.clock.at(self.now)))
        if isinstance(machine, Directory):
            self._check_directory(before, machine.state)
            if self.commit_ms and member.flush_at is None and member.driver.holding:
                member.flush_at = self.now + self.chance.below(self.commit_ms + 1)
                if member.flush_at - self.now >= SLOW_MS:
                    self.counts.note("commits slow")
            if member.flush_at is None:
                self._flush(member)
        else:
            self._flush(member)
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
        if self.steps % self.WHOLE_EVERY == 0:
            whole_state(self)

    def _check_directory(self, before: DirectoryState, after: DirectoryState) -> None:
        check_progress(before, after)
        for name, was in before.nodes.items():
            if not was.alive and (now := after.nodes.get(name)) is not None and now.alive and now.boot == was.boot:
                self.counts.note("lapses and returns in one boot")
        decisions_have_reasons(self, before, after)
        if after.halted:
            raise InvariantViolation("DUR-1", f"the directory has stopped: {after.halted}")

    def resume(self, member: Member) -> None:
        """What came meanwhile is read first, in order; then the clock."""
        if member.paused_at is None or self.members.get(member.address) is not member:
            return
        if self.now - member.paused_at > self.config.node_lease_ms:
            self.counts.note("pauses longer than a lease")
        member.paused_at = None
        waiting, member.inbox = member.inbox, []
        for event in waiting:
            self.step(member, event)

    def pause(self, member: Member) -> None:
        """It stops where it is; messages for it wait."""
        self.counts.note("pauses")
        member.paused_at = self.now

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
            elif delivery.target == DIRECTORY and sim_deposed.hears(self):
                sim_deposed.step(self, delivery.message)
            elif delivery.target in self.members:
                self.step(self.members[delivery.target], delivery.message)
        for member in list(self.members.values()):
            if self.members.get(member.address) is member and member.paused_at is None:
                busy |= self._serve(member)
        return sim_deposed.tick(self) or busy

    def _serve(self, member: Member) -> bool:
        busy = False
        if member.work is not None:
            for completion in member.work.poll():
                busy = True
                self.step(member, completion)
        for unreachable in member.port.unreachable():
            if member.address != DIRECTORY:
                self.step(member, unreachable)
        if self.members.get(member.address) is not member:
            return True
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
        if (alarm := sim_deposed.due_at(self.deposed)) is not None:
            yield alarm
        for member in self.members.values():
            if member.paused_at is None:
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
        self.deposed = None
        self.wire.set_all_faults(Faults(delay_ms=(0, 2)))
        self.wire.heal_all()
        self.commit_ms = self.shape.commit_ms
        broken_store = self.store.is_faulty
        self.store.repair()
        self.remote.repair()
        for member in list(self.members.values()):
            member.fuse.left = None
            member.clock.set(self.now, rate=1_000)
            if member.work is not None:
                member.work.most_ms = self.shape.work_ms
            for tier in member.tiers.values():
                tier.repair()
            self.resume(member)
        for member in self.nodes():
            if member.address.endswith("x"):
                self.crash_node(member.address)
        self.replace_fenced()
        for name in self.shape.names:
            if f"node/{name}" not in self.members:
                self.start_node(name)
        if self.directory is not None and broken_store:
            self.crash_directory()
        if self.directory is None:
            self.start_directory()


class _Replies:
    def __init__(self, client: str, world: World) -> None:
        self._client = client
        self._world = world

    def reply(self, target: Any, message: Any) -> None:
        self._world.on_reply(self._client, target, message)
