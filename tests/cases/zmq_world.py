"""Real sockets on the loopback: wires alone, and machines behind them, all in one thread that a test turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pinfold.backends.bytework import InlineByteWork
from pinfold.backends.memory import MemoryStore
from pinfold.backends.memory_tier import MemoryTier
from pinfold.core.answers import Answered
from pinfold.core.directory import Directory
from pinfold.core.driver import Driver
from pinfold.core.events import Tick
from pinfold.core.ids import NodeName, Peer, Tier
from pinfold.core.node import Node
from pinfold.core.node_state import NodeConfig, TierRoom
from pinfold.core.state import RECORD_TYPES, DirectoryConfig
from pinfold.transport.base import CannotBind, Limits
from pinfold.transport.zmq import ClientWire, ServerWire
from tests.wiring import PATIENT

PATIENCE_S = 10.0
"""Only a failure waits so long."""

Wire = ClientWire | ServerWire


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def run(*wires: Wire, until: Callable[[list[Any]], Any]) -> list[Any]:
    """Turn the loops of several wires until a condition on what has arrived; gives `(source, message)` pairs."""
    got: list[Any] = []
    end = time.monotonic() + PATIENCE_S
    while not until(got):
        assert time.monotonic() < end, f"waited in vain; {len(got)} have come; {[wire.counters for wire in wires]}"
        for wire in wires:
            got += wire.poll(2)
    return got


def server_at(bind: str, limits: Limits = PATIENT) -> ServerWire:
    """A server at an address that another one has just left: the library lets go of it in the background."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ServerWire(bind, limits=limits)
        except CannotBind:
            assert time.monotonic() < end, f"{bind} stays in use"
            time.sleep(0.02)


class Replies:
    """Answers to whoever steps the machine by hand."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def reply(self, target: str, message: Any) -> None:
        self.got.append(message)


class Party:
    """A machine, its driver and its wire. `loses(message)` says which of its messages never leave."""

    def __init__(self, machine: Any, wire: ServerWire, *, store: Any = None, bytework: Any = None) -> None:
        self.machine = machine
        self.wire = wire
        self.bytework = bytework
        self.replies = Replies()
        self.loses: Callable[[Any], bool] = lambda message: False
        self.lost: list[Any] = []
        self.driver = Driver(machine, store=store, wire=self, bytework=bytework, replies=self.replies)

    def send(self, target: str, message: Any) -> None:
        if self.loses(message):
            self.lost.append(message)
        else:
            self.wire.send(target, message)

    def do(self, event: Any) -> list[Any]:
        """Step it by hand; the answers."""
        self.replies.got.clear()
        self.driver.handle(event, now_ms())
        self.driver.flush()
        self._complete()
        return list(self.replies.got)

    def command(self, event: Any) -> Any:
        (answered,) = self.do(event)
        return answered.answer if isinstance(answered, Answered) else answered

    def turn(self) -> None:
        for source, message in self.wire.poll(2):
            assert source
            self.driver.handle(message, now_ms())
        self.wire.unreachable()
        self._complete()
        if self.driver.alarm is not None and self.driver.alarm <= now_ms():
            self.driver.handle(Tick(), now_ms())
        self.driver.flush()

    def _complete(self) -> None:
        while self.bytework is not None and (done := self.bytework.poll()):
            for completion in done:
                self.driver.handle(completion, now_ms())
            self.driver.flush()


def directory_at(bind: str, store: MemoryStore, **config: Any) -> Party:
    """A directory from what the store has, in a new term."""
    tables = store.load()
    state = Directory.load(tables) if tables.get("meta") else Directory.blank(store.identity.store_id)
    machine = Directory(DirectoryConfig(repair_ms=50, **config), state)
    party = Party(machine, server_at(bind), store=store)
    party.driver.hold(machine.start(now_ms(), store.term))
    store.fence(machine.state.meta.term)
    party.driver.flush()
    return party


def new_store() -> MemoryStore:
    return MemoryStore(RECORD_TYPES, store_id="cases")


def node_at(directory: str, name: str = "n1", **more: Any) -> Party:
    wire = ServerWire(limits=PATIENT)
    config = NodeConfig(
        NodeName(name), wire.address, (Peer(directory),), (TierRoom(Tier.DRAM, 64),), group_slots=4, heartbeat_ms=50, **more
    )  # fmt: skip
    party = Party(Node(config, f"{name}-1"), wire, bytework=InlineByteWork({Tier.DRAM: MemoryTier()}))
    party.do(Tick())
    return party


def turn_all(*parties: Party, until: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, "waited in vain"
        for party in parties:
            party.turn()
