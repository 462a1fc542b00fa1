"""A whole cluster inside one process, on virtual time: the machines that production runs, over the in-process wire.

    cluster = EmbeddedCluster(EmbeddedConfig(nodes=("n1", "n2")))
    cluster.settle()
    cluster.call("client/a", Call(1, PutGroup(...)))         # -> the client machine's reply
    cluster.crash_node("n1"); cluster.restart_node("n1")
    cluster.check()                                           # every invariant, and directory against nodes

For embedders, tests, lessons and `pinfold replay --embedded`. Same seed and same calls: same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from .backends.bytework import InlineByteWork
from .backends.memory import MemoryStore
from .core import calls, invariants
from .core.audit import Finding, audit
from .core.client import Client
from .core.client_state import ClientConfig
from .core.directory import Directory
from .core.driver import Driver
from .core.effects import META
from .core.errors import InvariantViolation, WorldError
from .core.events import Tick
from .core.ids import NodeName, Peer, Tier
from .core.node import Node
from .core.node_invariants import check_node
from .core.node_state import NodeConfig, TierRoom
from .core.state import FACTS, RECORD_TYPES, DirectoryConfig, DirectoryState
from .transport.inproc import PERFECT, Faults, InprocWire, Port

DIRECTORY = Peer("directory/0")


@define(frozen=True)
class EmbeddedConfig:
    """What the cluster is made of. `tiers` are those of every node, `(tier, slots)`, fastest first."""

    nodes: tuple[str, ...] = ("n1",)
    tiers: tuple[tuple[Tier, int], ...] = ((Tier.DRAM, 1_024),)
    group_slots: int = 8
    directory: DirectoryConfig = DirectoryConfig()
    seed: int = 0
    faults: Faults = PERFECT
    through_codec: bool = False
    heartbeat_ms: int = 500
    inventory_ms: int = 2_000
    with_bytes: bool = False
    checks: bool = True


@define
class Member:
    """One machine with its driver and its place at the wire."""

    driver: Driver
    port: Port
    machine: Any
    bytework: InlineByteWork | None = None
    replies: list[tuple[Any, Any]] = field(factory=list)


class _Replies:
    """Collects a client machine's answers to its caller."""

    def __init__(self, sink: list[tuple[Any, Any]]) -> None:
        self._sink = sink

    def reply(self, target: str, message: Any) -> None:
        self._sink.append((target, message))


class EmbeddedCluster:
    """See the module. `tiers_of(node name)` gives a node's byte tiers and `stores` the shared ones; without bytes by default."""

    STEPS_MAX = 1_000_000
    """Steps within one `settle`, after which machines that talk in circles are reported."""

    def __init__(
        self,
        config: EmbeddedConfig,
        *,
        store: MemoryStore | None = None,
        tiers_of: Callable[[str], Mapping[Tier, Any]] | None = None,
        stores: Mapping[NodeName, Any] | None = None,
    ) -> None:
        self.config = config
        self.now = 0
        self.steps = 0
        self.wire = InprocWire(seed=config.seed, faults=config.faults, through_codec=config.through_codec)
        self.store = store if store is not None else MemoryStore(RECORD_TYPES, store_id="embedded", check=config.checks)
        self.members: dict[str, Member] = {}
        self.boots: dict[str, int] = {}
        self._tiers_of = tiers_of
        self._shared = dict(stores) if stores is not None else None
        self.start_directory()
        for name in config.nodes:
            self.start_node(name)

    # ---- life and death --------------------------------------------------------------------------------------

    def start_directory(self) -> None:
        """From what the store has; a new term."""
        tables = self.store.load()
        state = Directory.load(tables) if tables.get(META) else Directory.blank(self.store.identity.store_id)
        directory = Directory(self.config.directory, state)
        port = self.wire.port(DIRECTORY)
        member = Member(Driver(directory, store=self.store, wire=port), port, directory)
        self.members[DIRECTORY] = member
        member.driver.hold(directory.start(self.now, self.store.term))
        self.store.fence(directory.state.meta.term)
        member.driver.flush()

    def crash_directory(self) -> None:
        """Its memory is gone; the store has what was committed."""
        self.wire.remove(DIRECTORY)
        del self.members[DIRECTORY]
        self.store.reopen()

    def start_node(self, name: str) -> None:
        """A new boot: volatile tiers are empty."""
        boot = self.boots[name] = self.boots.get(name, 0) + 1
        rooms = tuple(TierRoom(tier, slots) for tier, slots in self.config.tiers)
        stores = tuple(spec.name for spec in self.config.directory.stores)
        config = NodeConfig(
            NodeName(name),
            Peer(f"node/{name}"),
            (DIRECTORY,),
            rooms,
            stores,
            group_slots=self.config.group_slots,
            heartbeat_ms=self.config.heartbeat_ms,
            inventory_ms=self.config.inventory_ms,
        )
        node = Node(config, f"{name}-{boot}")
        bytework = self._bytework(name)
        port = self.wire.port(f"node/{name}")
        self.members[f"node/{name}"] = member = Member(Driver(node, wire=port, bytework=bytework), port, node, bytework)
        self._step(member, Tick())

    def _bytework(self, name: str) -> InlineByteWork:
        if self._shared is None:
            from .backends.memory_tier import MemoryTier, PhantomTier

            tier = MemoryTier if self.config.with_bytes else PhantomTier
            self._shared = {spec.name: tier() for spec in self.config.directory.stores}
        if self._tiers_of is not None:
            return InlineByteWork(self._tiers_of(name), self._shared)
        if not self.config.with_bytes:
            return InlineByteWork.without_bytes((tier for tier, _ in self.config.tiers), self._shared)
        from .backends.memory_tier import MemoryTier

        return InlineByteWork({tier: MemoryTier() for tier, _ in self.config.tiers}, self._shared)

    def crash_node(self, name: str) -> None:
        self.wire.remove(f"node/{name}")
        del self.members[f"node/{name}"]

    def restart_node(self, name: str) -> None:
        if f"node/{name}" in self.members:
            self.crash_node(name)
        self.start_node(name)

    def add_client(self, config: ClientConfig) -> None:
        client = Client(config)
        port = self.wire.port(config.client)
        member = Member(Driver(client, wire=port), port, client)
        member.driver = Driver(client, wire=port, replies=_Replies(member.replies))
        self.members[config.client] = member

    def remove_client(self, client: str) -> None:
        """The client dies as it is: its holds end with its lease."""
        self.wire.remove(client)
        del self.members[client]

    # ---- time ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run until nothing is due at this instant: no message, no completion, no alarm."""
        begun = self.steps
        while self._round():
            if self.steps - begun > self.STEPS_MAX:
                raise WorldError(f"{self.STEPS_MAX} steps at one instant and no end: the machines talk in circles")

    def _round(self) -> bool:
        busy = False
        while (delivery := self.wire.deliver_next(self.now)) is not None:
            busy = True
            member = self.members.get(delivery.target)
            if member is not None:
                self._step(member, delivery.message)
        for member in list(self.members.values()):
            if member.bytework is not None:
                for completion in member.bytework.poll():
                    busy = True
                    self._step(member, completion)
            for unreachable in member.port.unreachable():
                if member.port.name != DIRECTORY:
                    self._step(member, unreachable)
            alarm = member.driver.alarm
            if alarm is not None and alarm <= self.now:
                busy |= self._tick(member)
        return busy

    def _tick(self, member: Member) -> bool:
        self._step(member, Tick())
        alarm = member.driver.alarm
        return alarm is None or alarm > self.now or member.driver.holding > 0 or self.wire.in_flight > 0

    def _step(self, member: Member, event: Any) -> None:
        self.steps += 1
        ready = member.driver.handle(event, self.now)
        member.driver.flush()
        if self.config.checks and isinstance(member.machine, Node):
            check_node(member.machine.state, member.machine.config)
        del ready

    def advance(self, ms: int) -> None:
        """Let `ms` of virtual time pass, stopping at each instant at which something is due."""
        end = self.now + ms
        self.settle()
        while True:
            instants = [member.driver.alarm for member in self.members.values() if member.driver.alarm is not None]
            if self.wire.next_ms is not None:
                instants.append(self.wire.next_ms)
            later = [instant for instant in instants if instant > self.now]
            if not later or min(later) > end:
                break
            self.now = min(later)
            self.settle()
        self.now = end
        self.settle()

    # ---- calls -----------------------------------------------------------------------------------------------

    def tell(self, client: str, event: Any) -> None:
        """Give a client machine an event (`Call`, `CancelCall`)."""
        self._step(self.members[client], event)

    def call(self, client: str, op: Any, timeout_ms: int = 10_000) -> calls.Done | calls.Failed:
        """One call to its end; time passes only as far as it must."""
        member = self.members[client]
        number = self.steps
        self._step(member, calls.Call(number, op, timeout_ms))
        while True:
            self.settle()
            for at, (target, message) in enumerate(member.replies):
                if target == number:
                    del member.replies[at]
                    assert isinstance(message, calls.Done | calls.Failed)
                    return message
            instants = [other.driver.alarm for other in self.members.values() if other.driver.alarm is not None]
            if self.wire.next_ms is not None:
                instants.append(self.wire.next_ms)
            later = [instant for instant in instants if instant > self.now]
            if not later:
                raise WorldError(f"call {number} has no answer, and nothing will ever happen again")
            self.now = min(later)

    # ---- looking ---------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Directory:
        machine = self.members[DIRECTORY].machine
        assert isinstance(machine, Directory)
        return machine

    @property
    def state(self) -> DirectoryState:
        return self.directory.state

    def node(self, name: str) -> Node:
        machine = self.members[f"node/{name}"].machine
        assert isinstance(machine, Node)
        return machine

    def check(self) -> None:
        """Every invariant of every machine, and that the store gives back what the directory has (DUR-1)."""
        invariants.check_all(self.state, self.config.directory)
        for member in self.members.values():
            if isinstance(member.machine, Node):
                check_node(member.machine.state, member.machine.config)
        again = Directory.load(self.store.load())
        for table in FACTS:
            if getattr(again, table) != getattr(self.state, table):
                raise InvariantViolation("DUR-1", f"{table} in the store differ from those in memory")

    def findings(self) -> list[Finding]:
        """What does not add up between directory and nodes. Empty at quiescence."""
        nodes = {
            NodeName(member.machine.config.name): member.machine.inventory()
            for member in self.members.values()
            if isinstance(member.machine, Node)
        }
        return audit(self.state, nodes, self.config.directory)
