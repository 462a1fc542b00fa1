"""The cluster of a transcript: a directory, real nodes, callers who are names, and a wire that the story moves by hand."""

from __future__ import annotations

from typing import Any

from attrs import define

from pinfold.backends.memory import MemoryStore
from pinfold.core import answers, commands, events, orders, reports, requests
from pinfold.core.directory import Directory
from pinfold.core.effects import GROUPS, Instance, Ready
from pinfold.core.ids import CopyId, NodeName, Peer, Tier
from pinfold.core.invariants import check_all, check_progress
from pinfold.core.node_state import TierRoom
from pinfold.core.state import RECORD_TYPES, DirectoryConfig, StoreSpec

from .node_world import NodeWorld, config_of
from .story_text import Names

DIRECTORY = Peer("directory/0")


@define
class Letter:
    """One message under way."""

    source: str
    target: str
    message: Any
    text: str


class StoryNode(NodeWorld):
    """A node whose tiers share one dictionary with those of all other nodes, so that a remote store is one store."""

    def __init__(self, name: str, slots: int, stores: tuple[NodeName, ...], shared: dict[Any, bytes], boot: str) -> None:
        config = config_of(
            name=NodeName(name), address=Peer(f"node/{name}"), directories=(DIRECTORY,), stores=stores,
            tiers=(TierRoom(Tier.DRAM, slots),),
        )  # fmt: skip
        super().__init__(config, boot)
        self.name = name
        self.bytes = shared
        self.stalled = False
        self.crashed = False

    def keys(self, instance: Instance, blocks: int) -> list[tuple[Any, ...]]:
        keys = super().keys(instance, blocks)
        return keys if instance.place else [(self.name, self.node.boot, *key) for key in keys]


class StoryWorld:
    """Machines and wire. Every step is printed to `lines` unless it is idle or `quiet`; every step is checked."""

    def __init__(self, nodes: dict[str, int], stores: dict[str, int], config: dict[str, Any]) -> None:
        specs = tuple(StoreSpec(NodeName(name), slots) for name, slots in stores.items())
        self.config = DirectoryConfig(stores=specs, **config)
        self.names = Names()
        self.store = MemoryStore(RECORD_TYPES, store_id="story")
        self.shared: dict[tuple[Any, ...], bytes] = {}
        self.slots = nodes
        self.now = 0
        self.lines: list[str] = []
        self.quiet = True
        self.wire: list[Letter] = []
        self.kept: list[Letter] = []
        self.filters: list[tuple[str, tuple[str, ...]]] = []
        self.cut: set[str] = set()
        self.alarms: dict[str, int | None] = {}
        self.directory: Directory | None = None
        self.inbox: list[Any] = []
        self.nodes: dict[str, StoryNode] = {}
        self.boots = dict.fromkeys(nodes, 0)
        self.start_directory()
        for name in nodes:
            self.boot(name)
        self.run()
        self.quiet = False

    # ---- life and death --------------------------------------------------------------------------------------

    def start_directory(self) -> None:
        tables = self.store.load()
        state = Directory.load(tables) if tables.get("meta") else Directory.blank("story")
        self.directory = Directory(self.config, state)
        ready = self.directory.start(self.now)
        self.store.fence(self.directory.state.meta.term)
        self.store.commit(ready.persist)
        self.alarms[DIRECTORY] = ready.alarm
        self.say(f"directory: begins term {self.directory.state.meta.term}")
        for text in (self.names.write(*write) for write in ready.persist):
            if text:
                self.say(f"  persist {text}")

    def crash_directory(self) -> None:
        self.directory = None
        self.alarms[DIRECTORY] = None
        self.store.reopen()

    def boot(self, name: str) -> None:
        self.boots[name] += 1
        stores = tuple(spec.name for spec in self.config.stores)
        self.nodes[name] = StoryNode(name, self.slots[name], stores, self.shared, f"{name}-{self.boots[name]}")
        self.step_node(name, events.Tick())

    def crash(self, name: str) -> None:
        self.nodes[name].crashed = True
        self.alarms[f"node/{name}"] = None

    # ---- steps -----------------------------------------------------------------------------------------------

    def step_directory(self, event: Any, source: str = "") -> None:
        directory = self.directory
        if directory is None:
            return
        before = directory.state.copy()
        ready = directory.step(event, self.now)
        self.store.commit(ready.persist)
        check_all(directory.state, self.config)
        check_progress(before, directory.state)
        for table, _, record in ready.persist:
            if table == GROUPS and record is not None:
                self.names.learn_copies(record)
        self.learn_sessions(ready)
        self.alarms[DIRECTORY] = ready.alarm
        self.tell("directory", source, event, ready)
        self.post(DIRECTORY, ready)

    def learn_sessions(self, ready: Ready) -> None:
        for reply in ready.reply:
            answer = getattr(reply.message, "answer", None)
            if isinstance(answer, answers.SessionOpened):
                self.names.sessions.setdefault(answer.session, reply.target.removeprefix("client/"))

    def step_node(self, name: str, event: Any, source: str = "") -> None:
        world = self.nodes[name]
        if world.crashed:
            return
        world.now = self.now
        ready = world.step(event)
        self.alarms[f"node/{name}"] = ready.alarm
        self.tell(name, source, event, ready)
        self.post(f"node/{name}", ready)

    def tell(self, machine: str, source: str, event: Any, ready: Ready) -> None:
        """The step as text: the event, then its effects in the order in which they happen."""
        shown: list[str] = []
        for table, key, record in ready.persist:
            text = self.names.write(table, key, record)
            shown += [f"  persist {text}"] if text else []
        for send in ready.send:
            if not isinstance(send.message, reports.Heartbeat | reports.Inventory | orders.HeartbeatSeen):
                shown.append(f"  send {short(send.target)}: {self.names.message(send.message)}")
        shown += [f"  work {self.names.message(work)}" for work in ready.transfer]
        for reply in ready.reply:
            shown.append(f"  reply {short(reply.target)}: {self.names.message(reply.message)}")
        if shown or not isinstance(event, IDLE):
            self.say(f"{machine}: {self.event_text(source, event)}", *shown)

    def event_text(self, source: str, event: Any) -> str:
        text = self.names.message(event)
        return f"{short(source)} {text}" if source and not isinstance(event, commands.Command) else text

    def say(self, *lines: str) -> None:
        if not self.quiet:
            self.lines += lines

    # ---- the wire --------------------------------------------------------------------------------------------

    def post(self, source: str, ready: Ready) -> None:
        for sent in (*ready.send, *ready.reply):
            self.put(source, sent.target, sent.message)

    def put(self, source: str, target: str, message: Any) -> Letter | None:
        """On the wire, unless a filter of the story says otherwise."""
        text = f"{short(source)} {short(target)} {self.names.message(message)}"
        if target.startswith("client/"):
            self.inbox.append(message)
            return None
        if self.is_cut(source) or self.is_cut(target):
            return None
        letter = Letter(source, target, message, text)
        verdict = next((verb for verb, words in self.filters if all(word in text.split() for word in words)), "")
        if verdict == "keep":
            self.kept.append(letter)
            self.say(f"  (kept: {text})")
        elif verdict == "lose":
            self.say(f"  (lost: {text})")
        elif verdict == "twice":
            self.wire += [letter, letter]
        else:
            self.wire.append(letter)
            return letter
        return None

    def is_cut(self, peer: str) -> bool:
        return short(peer) in self.cut

    def deliver(self, letter: Letter) -> None:
        self.wire.remove(letter)
        if self.is_cut(letter.source) or self.is_cut(letter.target):
            return
        if letter.target == DIRECTORY:
            self.step_directory(letter.message, letter.source)
        else:
            name = short(letter.target)
            if name in self.nodes:
                self.step_node(name, letter.message, letter.source)

    # ---- rest ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until nothing is left to do at this instant: letters in their order, then byte work, then alarms that are due."""
        for _ in range(10_000):
            if self.wire:
                self.deliver(self.wire[0])
            elif not self.work() and not self.due():
                return
        raise AssertionError("the machines talk in circles")

    def work(self) -> bool:
        for name, world in self.nodes.items():
            if world.works and not world.stalled and not world.crashed:
                self.finish(name, next(iter(world.works.values())))
                return True
        return False

    def finish(self, name: str, work: Any, event: Any = None) -> None:
        world = self.nodes[name]
        del world.works[work.job]
        self.step_node(name, world.perform(work) if event is None else event)

    def due(self) -> bool:
        for peer, alarm in list(self.alarms.items()):
            if alarm is not None and alarm <= self.now:
                self.tick(peer)
                after = self.alarms.get(peer)
                if self.wire or after is None or after > self.now:
                    return True
        return False

    def tick(self, peer: str) -> None:
        if peer == DIRECTORY:
            self.step_directory(events.Tick())
        else:
            self.step_node(short(peer), events.Tick())

    def advance(self, ms: int) -> None:
        """Time passes, with a stop at each instant at which a machine wants to be woken."""
        end = self.now + ms
        self.run()
        while True:
            instants = [alarm for alarm in self.alarms.values() if alarm is not None and self.now < alarm <= end]
            if not instants:
                break
            self.now = min(instants)
            self.run()
        self.now = end
        self.run()


IDLE = (
    events.Tick, events.BlocksLoaded, reports.Heartbeat, reports.Inventory, orders.HeartbeatSeen, requests.Blocks,
    commands.KeepAlive,
)  # fmt: skip
"""Events that are worth a line only when something follows from them."""


def short(peer: str) -> str:
    return "directory" if peer == DIRECTORY else peer.partition("/")[2] or peer


def named_copy(names: Names, text: str) -> CopyId:
    """The copy that the story calls `text`."""
    return next(copy for copy, name in names.copies.items() if name == text)
