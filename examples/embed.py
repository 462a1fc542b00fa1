"""Embedding the core in an engine of your own: no files, no sockets, no threads, nothing but attrs.

    python examples/embed.py

The engine brings four small ports (a store, a wire, byte work, a clock) and lets `pinfold.core.driver.Driver` run the machines
over them. Here the store is a dict, the wire a queue, the bytes lie in a dict, and the clock is counted by hand; in yours they
are whatever you have. The machines are the ones that the cluster runs.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import Any

from pinfold.core import answers, commands, effects, events, invariants, requests
from pinfold.core.directory import Directory
from pinfold.core.driver import Driver, Outcome
from pinfold.core.ids import CopyId, Key, Layout, NodeName, Peer, SessionId, Tier, group_id, manifest_hash
from pinfold.core.node import Node
from pinfold.core.node_state import NodeConfig, TierRoom
from pinfold.core.state import DirectoryConfig

DIRECTORY, ENGINE = Peer("directory/0"), Peer("engine")


class DictStore:
    """Durable records. `commit` is atomic; here it is a dict, so a crash loses it: use a real store to survive one."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, Any]] = {name: {} for name in effects.TABLES}

    def commit(self, writes: Any) -> Outcome:
        for table, key, record in writes:
            if record is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = record
        return Outcome.DONE

    def load(self) -> dict[str, dict[Any, Any]]:
        return {name: dict(rows) for name, rows in self.tables.items()}


class DictBytes:
    """The engine's own memory: does the byte work that a node asks for, and answers with its completions."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[CopyId, Tier, int], bytes] = {}
        self.done: deque[Any] = deque()

    def submit(self, work: Any) -> None:
        if isinstance(work, effects.CloneInstance | effects.ListStore):
            raise TypeError(f"this engine has one tier and no stores, so nobody should ask for {type(work).__name__}")
        copy, tier = work.instance.copy, work.instance.tier
        if isinstance(work, effects.StoreBlocks):
            for block, data in zip(work.blocks, work.data, strict=True):
                self.blocks[copy, tier, block] = bytes(data)
            self.done.append(events.BlocksStored(work.job, copy))
        elif isinstance(work, effects.VerifyInstance):
            held = [self.blocks[copy, tier, block] for block in range(work.spec.key.blocks)]
            found = manifest_hash(work.spec.key.layout, work.spec.sizes, tuple(zlib.crc32(data) for data in held))
            self.done.append(events.InstanceVerified(work.job, copy, found))
        elif isinstance(work, effects.LoadBlocks):
            read = tuple(self.blocks[copy, tier, block] for block in work.blocks)
            self.done.append(events.BlocksLoaded(work.job, copy, tuple(zlib.crc32(data) for data in read), read))
        elif isinstance(work, effects.ReleaseInstance):
            for place in [place for place in self.blocks if place[:2] == (copy, tier)]:
                del self.blocks[place]
            self.done.append(events.InstanceReleased(work.job, copy))


class Engine:
    """Two nodes' worth of memory, one directory, one loop. Everything happens in `run`."""

    def __init__(self) -> None:
        self.now = 0
        self.mail: deque[tuple[str, Any]] = deque()
        self.inbox: list[Any] = []
        self.sequence = 0
        self.store = DictStore()
        directory = Directory(DirectoryConfig(check_all_every=1), Directory.blank("embedded"))
        self.directory = directory
        self.drivers: dict[str, Driver] = {DIRECTORY: Driver(directory, store=self.store, wire=self)}
        self.bytes: dict[str, DictBytes] = {}
        self.drivers[DIRECTORY].hold(directory.start(self.now))
        for name in ("n1", "n2"):
            config = NodeConfig(NodeName(name), Peer(f"node/{name}"), (DIRECTORY,), (TierRoom(Tier.DRAM, 64),))
            memory = self.bytes[f"node/{name}"] = DictBytes()
            self.drivers[f"node/{name}"] = Driver(Node(config, boot=f"{name}-1"), wire=self, bytework=memory)
            self.drivers[f"node/{name}"].handle(events.Tick(), self.now)
        self.run()

    def send(self, target: str, message: Any) -> None:
        """The wire port: a queue."""
        self.mail.append((target, message))

    def run(self) -> None:
        """Deliver, complete and tick until nothing is due."""
        while True:
            for driver in self.drivers.values():
                driver.flush()
            if self.mail:
                target, message = self.mail.popleft()
                if target == ENGINE:
                    self.inbox.append(message)
                else:
                    self.drivers[target].handle(message, self.now)
                continue
            finished = [(name, memory.done.popleft()) for name, memory in self.bytes.items() if memory.done]
            for name, completion in finished:
                self.drivers[name].handle(completion, self.now)
            due = [driver for driver in self.drivers.values() if driver.alarm is not None and driver.alarm <= self.now]
            for driver in due:
                driver.handle(events.Tick(), self.now)
            if not finished and not self.mail and not any(driver.holding for driver in self.drivers.values()):
                return

    def ask(self, target: str, message: Any) -> Any:
        """Send one message and give back its answer."""
        self.inbox.clear()
        self.send(target, message)
        self.run()
        answer = self.inbox[-1]
        return getattr(answer, "answer", answer)

    def command(self, session: SessionId, body: Any) -> Any:
        self.sequence += 1
        return self.ask(DIRECTORY, commands.Command(ENGINE, session, self.sequence, self.sequence, body))


def main() -> None:
    engine = Engine()
    session = engine.ask(DIRECTORY, commands.OpenSession(ENGINE, "engine-token")).session
    key = Key("tenant", "model", "r1", Layout(block_bytes=8), prefix="the quick brown fox", blocks=2)
    blocks = (b"k-and-v0", b"k-and-v1")
    sums = tuple(zlib.crc32(block) for block in blocks)

    made = engine.command(session, commands.Create(commands.Spec(group_id(key), key, (8, 8))))
    print(f"created {made.copy} at {made.node}; pinned by {made.hold}")
    engine.ask(made.address, requests.Write(ENGINE, "w", made.copy, (0, 1), sums, blocks))
    ended = engine.ask(made.address, requests.EndWrite(ENGINE, "e", made.copy, manifest_hash(key.layout, (8, 8), sums)))
    print(f"sealed {ended.copy}: {engine.directory.state.groups[made.group].state.name}")

    refused = engine.command(session, commands.Evict(made.group))
    print(f"evict: {refused.refusal}")
    engine.command(session, commands.Unpin(made.hold))
    moved = engine.command(session, commands.Move(made.group, NodeName("n2")))
    pinned = engine.command(session, commands.Pin(made.group))
    read = engine.ask(pinned.route.address, requests.Read(ENGINE, "r", pinned.route.copy, (0, 1)))
    assert isinstance(read, requests.Blocks)
    assert read.data == blocks
    print(f"moved as {moved.move}; read {b''.join(read.data)!r} from {pinned.route.node} at epoch {pinned.route.epoch}")
    engine.command(session, commands.Unpin(pinned.hold))

    closed = engine.ask(DIRECTORY, commands.CloseSession(ENGINE, "bye", session))
    assert isinstance(closed, answers.SessionClosed)
    invariants.check_all(engine.directory.state, engine.directory.config)
    again = Directory.load(engine.store.load())
    assert again.groups == engine.directory.state.groups, "the store has all there is to know"
    print(f"{len(again.groups)} group in the store, {len(again.holds)} holds: every invariant holds")


if __name__ == "__main__":
    main()
