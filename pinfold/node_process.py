"""A node as a process: its machine, its tiers, worker threads for disk and stores, a ZeroMQ wire, one loop.

A life begins with a boot id that was never used before and with a scan of the SSD tier: every file is read and verified, and what
is whole becomes `InstanceFound`, before the first `Tick` registers the node. It ends when asked to (0), when a later registration
of its name has replaced it (5: `Fenced`), or when its tiers or address can't be used (1).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final, get_args

from .backends.bytework import ThreadedByteWork
from .backends.dram import DramTier
from .backends.remote import RemoteDirectoryStore
from .backends.ssd import SsdTier
from .backends.tier import ByteTier, TierIo
from .core import events, requests
from .core.driver import Driver
from .core.effects import Instance, Ready
from .core.ids import NodeName, Peer, Tier
from .core.node import HANDLERS, Node
from .logs import Log, fields_of
from .serving import POLL_MS_MAX, Ending, announce, clock_ms
from .settings import Settings
from .transport.zmq import ServerWire

ROUNDS_MAX: Final = 64
"""How often one turn looks for completions of work that it has just submitted; then it looks at the wire again."""

LOCAL: Final = frozenset((*get_args(events.Completion), *get_args(events.LocalFact), events.PeerUnreachable, events.Tick))
"""Events that come from this process itself, never from a peer."""

TAKES: Final = frozenset(HANDLERS) - LOCAL


def new_boot(name: str) -> str:
    """An id for one life of a node's memory: never used before, and readable."""
    return f"{name}-{time.time_ns():x}-{os.urandom(8).hex()}"


class NodeProcess:
    """See the module."""

    def __init__(self, settings: Settings, log: Log, *, ready_file: str = "", parent_fd: int = -1) -> None:
        self.settings = settings
        self.log = log
        self.boot = new_boot(settings.node.name)
        self.counters: dict[str, int] = {}
        self._ready_file = ready_file
        self._parent_fd = parent_fd
        self._incarnation = 0

    # ---- a life ----------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until asked to end; the exit code. Raises TierError, CannotBind."""
        own = self.settings.node
        with ExitStack() as stack:
            tiers, stores = self._open_tiers(stack)
            wire = ServerWire(own.bind, advertise=own.advertise)
            stack.callback(wire.close)
            self.machine = Node(self.settings.node_config(wire.address), self.boot)
            bytework = ThreadedByteWork(tiers, stores, workers=own.workers, limit=own.work_max)
            stack.callback(self._end_work, bytework)
            self._driver = Driver(self.machine, wire=wire, bytework=bytework)
            self._recover(tiers.get(Tier.SSD))
            with Ending(self._parent_fd) as ending:
                self._step(events.Tick())
                self._driver.flush()
                announce({"ready": "node", "node": own.name, "endpoint": wire.address, "boot": self.boot}, self._ready_file)
                self.log.info("serves", peer=wire.address, boot=self.boot, copies=len(self.machine.state.copies))
                return self._serve(wire, bytework, ending)

    def _open_tiers(self, stack: ExitStack) -> tuple[Mapping[Tier, ByteTier], Mapping[NodeName, ByteTier]]:
        rooms = {room.tier: room for room in self.settings.node_config(Peer("")).tiers}
        tiers: dict[Tier, ByteTier] = {}
        if Tier.SSD in rooms:
            data = self.settings.node.data
            try:
                data.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise TierIo(f"cannot use {data} for the SSD tier: {error.strerror}") from None
            tiers[Tier.SSD] = SsdTier(data / "ssd")
            stack.callback(tiers[Tier.SSD].close)
        if Tier.DRAM in rooms:
            tiers[Tier.DRAM] = DramTier(rooms[Tier.DRAM].slots, self.settings.blocks.bytes)
            stack.callback(tiers[Tier.DRAM].close)
        stores: dict[NodeName, ByteTier] = {}
        for name, store in self.settings.stores.items():
            stores[NodeName(name)] = RemoteDirectoryStore(store.path)
            stack.callback(stores[NodeName(name)].close)
        return tiers, stores

    def _recover(self, ssd: ByteTier | None) -> None:
        """Tell the machine what is whole on disk. What is damaged gives its room back: the directory hears that it is missing."""
        if ssd is None:
            return
        report = ssd.scan()
        for found in report.found:
            self._step(found.event(Tier.SSD))
        for damage in report.damaged:
            self.log.warning("damaged copy released", copy=damage.copy, device=Tier.SSD.name, reason=damage.sentence)
            ssd.release(Instance(damage.copy, Tier.SSD))
        for damage in report.refused:
            self.log.warning("unreadable copy kept", copy=damage.copy, device=Tier.SSD.name, reason=damage.sentence)
        for name in report.foreign:
            self.log.warning("foreign file left alone", device=Tier.SSD.name, file=name)
        self.log.info(
            "recovered", device=Tier.SSD.name, copies=len(report.found),
            damaged=len(report.damaged), unpublished=len(report.removed),
        )

    def _end_work(self, bytework: ThreadedByteWork) -> None:
        if not bytework.close():
            self.log.warning("byte work did not end", pending=bytework.pending)

    def _serve(self, wire: ServerWire, bytework: ThreadedByteWork, ending: Ending) -> int:
        while True:
            self._turn(wire, bytework, ending)
            if self.machine.state.fenced:
                self.log.error("replaced by a later registration of this name", incarnation=self._incarnation)
                return 5
            if ending.reason:
                self.log.info("ends", reason=ending.reason)
                return 0

    # ---- one turn --------------------------------------------------------------------------------------------

    def _turn(self, wire: ServerWire, bytework: ThreadedByteWork, ending: Ending) -> None:
        alarm = self._driver.alarm
        wait = POLL_MS_MAX if alarm is None else min(max(0, alarm - clock_ms()), POLL_MS_MAX)
        found = wire.poll(wait, (bytework.fileno(), *ending.fds))
        ending.look(wire.ready_fds)
        for source, message in found:
            self._take(source, message)
        for unreachable in wire.unreachable():
            self._step(unreachable)
        for problem in wire.take_problems():
            self.log.sparse(problem.kind, "refused a message", peer=problem.peer, detail=problem.detail)
        self._finish(bytework)
        if self._driver.alarm is not None and self._driver.alarm <= clock_ms():
            self._step(events.Tick())
            self._finish(bytework)

    def _finish(self, bytework: ThreadedByteWork) -> None:
        """Let outputs leave, and take completions, which for work in memory are there at once."""
        for _ in range(ROUNDS_MAX):
            self._driver.flush()
            done = bytework.poll()
            if not done:
                return
            for completion in done:
                self._step(completion)
        self._driver.flush()

    def _take(self, source: Peer, message: Any) -> None:
        if type(message) not in TAKES:
            why = "is not for a node"
        elif isinstance(message, requests.NodeRequest) and message.client != source:
            why = "speaks for another client"
        else:
            self._step(message)
            return
        self.log.sparse(type(message).__name__, "dropped a message", why=why, peer=source)

    def _step(self, event: Any) -> None:
        ready = self._driver.handle(event, clock_ms())
        if isinstance(event, events.WorkFailed):
            self.log.warning("byte work failed", copy=event.copy, reason=event.reason.name, detail=event.detail)
        incarnation = max((link.incarnation for link in self.machine.state.links.values()), default=0)
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self.log = self.log.bind(incarnation=incarnation)
            self.log.info("registered")
        if self.log.enabled("debug") and not isinstance(event, events.Tick):
            self._tell(event, ready)

    def _tell(self, event: Any, ready: Ready) -> None:
        self.log.debug("took", **fields_of(event))
        for reply in ready.reply:
            self.log.debug("answers", **(fields_of(reply.message) | {"peer": reply.target}))


def main(settings: Settings, log: Log, *, ready_file: str = "", parent_fd: int = -1) -> int:
    """Run a node to its end; the exit code."""
    return NodeProcess(settings, log.bind(node=settings.node.name), ready_file=ready_file, parent_fd=parent_fd).run()
