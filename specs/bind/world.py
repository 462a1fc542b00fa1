"""A world of the real machines (`Directory`, `Node`), and its published projection to a state of the model.

The projection (specs/tla.md has it in words):

    copy 1, 2, ...          the copies in the order of their reservation; the machines' ids are revisions
    epoch                   how many different epochs the group's durable record has gone through
    registration 1, 2, ...  per node, the incarnations in the order in which they were given
    pins, refs              counts of live holds per session
    a node's copy           condition, job and running byte work, as one word; guards and loads, as `touch` and `serve`
    messages                reports are taken apart into facts; what the model does not know is not kept (`translate`)
"""

from __future__ import annotations

from typing import Any, Final

from attrs import define, field
from slices import BUDGETS, Slice
from values import States, record

from pinfold.core import effects, orders, reports, requests
from pinfold.core.commands import OpenSession, Spec
from pinfold.core.directory import Directory
from pinfold.core.effects import Ready
from pinfold.core.events import Tick
from pinfold.core.ids import NO_COPY, CopyId, Key, Layout, NodeName, Peer, Tier, group_id, manifest_hash
from pinfold.core.node import Node
from pinfold.core.node_state import Copy as NodeCopy
from pinfold.core.node_state import Kind, NodeConfig, NodeState, TierRoom
from pinfold.core.records import evolve
from pinfold.core.reports import Condition
from pinfold.core.state import DirectoryConfig

NOW: Final = 1
"""The one instant of a world. What is due when is left out: the steps make something due, and then give a Tick."""

DIRECTORY: Final = Peer("directory/0")
LAYOUT: Final = Layout(block_bytes=8)
KEY: Final = Key("t", "m", "1", LAYOUT, "g", 1)
SPEC: Final = Spec(group_id(KEY), KEY, (8,))
CHECKSUMS: Final = (7,)
MANIFEST: Final = manifest_hash(LAYOUT, SPEC.sizes, CHECKSUMS)
NEVER_MS: Final = 10**9
CONFIG: Final = DirectoryConfig(
    grace_ms=0, backoff_ms=0, high=1000, low=1000, repair_ms=NEVER_MS, absent_limit_ms=NEVER_MS, check_all_every=1
)
GONE: Final = record(role="GONE", node=None, absent=False)
NOTHING: Final = record(ph="none", touch=0, serve=frozenset(), bad=False)
CONDITIONS: Final = {Condition.RESERVED: "reserved", Condition.VERIFIED: "verified", Condition.FREEING: "freeing"}
FACTS: Final = {reports.Sealed: "sealed", reports.CopyDone: "done", reports.CopyFailed: "failed", reports.Freed: "freed"}
NOTICES: Final = (orders.Registered, orders.NameTaken, orders.RegisterAgain, orders.FencedOff, orders.HeartbeatSeen)
OPS: Final = {orders.Reserve: "reserve", orders.Fetch: "fetch", orders.Free: "free"}

View = tuple[int, int, frozenset[int], int]


def node_name(n: int) -> NodeName:
    return NodeName(f"n{n}")


def client_name(s: int) -> Peer:
    return Peer(f"client/s{s}")


def node_config(n: int) -> NodeConfig:
    return NodeConfig(
        node_name(n), Peer(f"node/n{n}"), (DIRECTORY,), (TierRoom(Tier.DRAM, 64, high_percent=100),), group_slots=1
    )


@define
class World:
    """Treated as frozen. `msgs`: what was ever sent, by its number in the pool: `(target, message)`. The rest is memory of what
    the machines' own numbers mean in the model."""

    directory: Directory
    nodes: tuple[Node, ...]
    msgs: dict[int, tuple[str, Any]]
    left: tuple[int, ...]
    sessions: tuple[int, ...]
    born: tuple[CopyId, ...] = ()
    epochs: tuple[int, ...] = ()
    incarnations: tuple[tuple[int, ...], ...] = ()
    boots: tuple[int, ...] = ()
    tokens: tuple[tuple[str, int], ...] = ()
    tables: dict[str, dict[Any, Any]] = field(factory=dict)
    """What is durable; kept where the slice has restarts."""
    parts: list[int] = field(factory=lambda: [-1, -1])
    """The numbers of directory and nodes as projected; -1: not yet."""


class Wrong(Exception):
    """Raised when the machines break what the model takes for granted; its text says what."""


class Projection:
    """From worlds to numbered states of the model."""

    def __init__(self, one: Slice, states: States) -> None:
        self.slice = one
        self.states = states
        self.copies = range(1, one.copies + 1)

    # ---- the whole -------------------------------------------------------------------------------------------

    def view(self, world: World) -> View:
        put, parts = self.states.parts.put, world.parts
        if parts[0] < 0:
            parts[0] = put(self._directory(world))
        if parts[1] < 0:
            parts[1] = put(tuple([self._node(world, n) for n in range(1, self.slice.nodes + 1)]))
        return parts[0], parts[1], frozenset(world.msgs), put(record(**dict(zip(BUDGETS, world.left, strict=True))))

    def _directory(self, world: World) -> Any:
        state = world.directory.state
        group = state.groups.get(SPEC.group)
        listed = {copy.id: copy for copy in state.copies.get(SPEC.group, ())}
        pins: dict[tuple[int, CopyId], int] = {}
        refs: dict[int, int] = {}
        for hold in state.holds.values():
            if not hold.lost and hold.copy == NO_COPY:
                refs[hold.id.session] = refs.get(hold.id.session, 0) + 1
            elif not hold.lost:
                pins[(hold.id.session, hold.copy)] = pins.get((hold.id.session, hold.copy), 0) + 1
        ids = [world.born[c - 1] if c <= len(world.born) else NO_COPY for c in self.copies]
        names = [node_name(n) for n in range(1, self.slice.nodes + 1)]
        nodes = [state.nodes[name] for name in names]
        writing = group is not None and group.state.name == "WRITING"
        return record(
            term=state.meta.term,
            state="NONE" if group is None else group.state.name,
            reason="NONE" if group is None else group.reason.name,
            epoch=len(world.epochs),
            leaving=group is not None and group.leaving,
            target=0 if group is None else self.ordinal(world, group.target),
            writer=world.sessions.index(group.writer) + 1 if writing and group is not None else None,
            created=0 if group is None else [c.revision for c in world.born].index(group.created) + 1,
            born=len(world.born),
            list=tuple([self._copy(listed[i]) if i in listed else GONE for i in ids]),
            pins=tuple([tuple([pins.get((s, i), 0) for i in ids]) for s in world.sessions]),
            refs=tuple([refs.get(s, 0) for s in world.sessions]),
            open=tuple([s in state.sessions for s in world.sessions]),
            alive=tuple([node.alive for node in nodes]),
            inc=tuple([world.incarnations[n].index(node.incarnation) + 1 for n, node in enumerate(nodes)]),
            boot=tuple([int(node.boot.rpartition("-")[2]) for node in nodes]),
            ready=tuple([name in state.links and state.links[name].ready for name in names]),
            num=tuple([state.numbers.get(node.name, 0) if node.alive else 0 for node in nodes]),
            ordered=tuple([state.ordered.get(i, 0) for i in ids]),
            out=frozenset(),
        )

    def _copy(self, copy: Any) -> Any:
        return record(role=copy.role.name, node=int(copy.node[1:]), absent=copy.absent)

    def ordinal(self, world: World, copy: CopyId) -> int:
        return 0 if copy == NO_COPY else world.born.index(copy) + 1

    # ---- a node ----------------------------------------------------------------------------------------------

    def _node(self, world: World, n: int) -> Any:
        state = world.nodes[n - 1].state
        link = state.links[0]
        known = world.incarnations[n - 1]
        held = [state.copies.get(world.born[c - 1]) if c <= len(world.born) else None for c in self.copies]
        return record(
            boot=world.boots[n - 1],
            inc=known.index(link.incarnation) + 1 if link.incarnation else 0,
            term=link.term,
            num=link.number,
            reg=link.registered,
            over=known.index(link.over) + 1 if link.over else 0,
            fenced=state.fenced,
            has=tuple([NOTHING if copy is None else self._held(world, state, copy) for copy in held]),
        )

    def _held(self, world: World, state: NodeState, copy: NodeCopy) -> Any:
        tokens = dict(world.tokens)
        loads = [w for w in state.works.values() if w.kind is Kind.LOAD and w.copy == copy.copy and w.token in tokens]
        serve = frozenset([tokens[work.token] for work in loads])
        touch = sum(place.guards for place in copy.places) - len(loads)
        return record(ph=phase(state, copy), touch=touch, serve=serve, bad=bool(copy.failed))

    # ---- messages --------------------------------------------------------------------------------------------

    def translate(self, world: World, ready: Ready) -> dict[int, tuple[str, Any]]:
        """What a step has sent, as messages of the model. What the model has no word for is left out: answers to clients,
        `PeerGone`, and a `HeartbeatSeen` that asks for nothing."""
        found: dict[int, tuple[str, Any]] = {}
        for one in (*ready.send, *ready.reply):
            for target, message in taken_apart(one.target, one.message):
                named = self._named(world, target, message)
                if named is not None:
                    found[self.states.messages.put(named)] = (target, message)
        return found

    def _named(self, world: World, target: str, message: Any) -> Any:
        n = int(target[6:]) if target.startswith("node/") else 0
        if isinstance(message, orders.Order):
            return self._order(world, n, message)
        if isinstance(message, NOTICES):
            return self._notice(world, n, message)
        if isinstance(message, requests.Read):
            c = dict(world.tokens)[message.token]
            return record(k="read", n=n, src=self.ordinal(world, message.copy), c=c)
        if n and isinstance(message, requests.Blocks | requests.NodeRefused):
            if isinstance(message, requests.NodeRefused) and message.refusal.reason == "NotVerified":
                return None
            return record(k="blocks" if isinstance(message, requests.Blocks) else "refused", c=dict(world.tokens)[message.token])
        if isinstance(message, reports.Register):
            n = int(message.node[1:])
            over = self._inc(world, n, message.over) if message.over else 0
            return record(k="register", n=n, boot=int(message.boot.rpartition("-")[2]), over=over)
        if isinstance(message, reports.Report):
            fact = message.facts[0]
            return record(
                k="fact", n=int(message.node[1:]), inc=self._inc(world, int(message.node[1:]), message.incarnation),
                f=FACTS[type(fact)], c=self.ordinal(world, fact.copy),
            )  # fmt: skip
        if isinstance(message, reports.Inventory):
            return self._inventory(world, message)
        return None

    def _inc(self, world: World, n: int, incarnation: int) -> int:
        return world.incarnations[n - 1].index(incarnation) + 1

    def _order(self, world: World, n: int, order: orders.Order) -> Any:
        body = order.body
        src = self.ordinal(world, body.source_copy) if isinstance(body, orders.Fetch) else 0
        at = int(body.source[1:]) if isinstance(body, orders.Fetch) else None
        return record(
            k="order", n=n, term=order.term, inc=self._inc(world, n, order.incarnation), num=order.number,
            op=OPS[type(body)], c=self.ordinal(world, body.copy), src=src, at=at,
        )  # fmt: skip

    def _notice(self, world: World, n: int, notice: Any) -> Any:
        inc = self._inc(world, n, notice.incarnation)
        if isinstance(notice, orders.Registered):
            return record(k="registered", n=n, term=notice.term, boot=int(notice.boot.rpartition("-")[2]), inc=inc)
        if isinstance(notice, orders.NameTaken):
            return record(k="taken", n=n, term=notice.term, boot=int(notice.boot.rpartition("-")[2]), inc=inc)
        if isinstance(notice, orders.RegisterAgain):
            return record(k="again", n=n, term=notice.term, inc=inc)
        if isinstance(notice, orders.FencedOff):
            return record(k="fenced", n=n, term=notice.term, inc=inc, boot=int(notice.boot.rpartition("-")[2]))
        return record(k="ask", n=n, term=notice.term, inc=inc) if notice.inventory else None

    def _inventory(self, world: World, message: reports.Inventory) -> Any:
        n = int(message.node[1:])
        there = {entry.copy: CONDITIONS[entry.condition] for entry in message.entries}
        has = [there.get(world.born[c - 1], "none") if c <= len(world.born) else "none" for c in self.copies]
        inc = self._inc(world, n, message.incarnation)
        return record(k="inventory", n=n, inc=inc, term=message.term, num=message.number, has=tuple(has))


def taken_apart(target: str, message: Any) -> list[tuple[str, Any]]:
    """A report of several facts as several reports of one: finer than any wire delivers it."""
    if isinstance(message, reports.Report):
        return [(target, reports.Report(message.node, message.incarnation, (fact,))) for fact in message.facts]
    return [(target, message)]


def phase(state: NodeState, copy: NodeCopy) -> str:
    """What a node has of a copy, as one word of the model."""
    if copy.condition is Condition.VERIFIED:
        return "verified"
    if copy.condition is Condition.FREEING:
        return "freeing"
    if copy.failed:
        return "failed"
    kinds = [work.kind for work in state.works.values() if work.copy == copy.copy]
    if copy.copy in state.jobs:
        return "filling" if Kind.STORE in kinds else "checking" if Kind.VERIFY in kinds else "asked"
    if Kind.STORE in kinds:
        return "storing"
    if Kind.VERIFY in kinds:
        return "verifying"
    return "stored" if copy.stored else "reserved"


# ---- the beginning -------------------------------------------------------------------------------------------


def first(one: Slice) -> World:
    """Every node is registered and has told its first inventory; every session is open. Nothing is under way."""
    directory = Directory(CONFIG, Directory.blank("spec"))
    kept = [directory.start(NOW)]
    nodes, incarnations, sessions = [], [], []
    for n in range(1, one.nodes + 1):
        node = Node(node_config(n), f"n{n}-1")
        nodes.append(node)
        kept += talk(directory, node, Tick())
        incarnations.append((directory.state.nodes[node_name(n)].incarnation,))
    for s in range(1, one.sessions + 1):
        kept.append(directory.step(OpenSession(client_name(s), f"token{s}", "", 100_000), NOW))
        sessions.append(kept[-1].reply[0].message.answer.session)
    tables: dict[str, dict[Any, Any]] = {}
    for ready in kept if one.budget.get("restart") else ():
        tables = written(tables, ready.persist)
    return World(
        directory, tuple(nodes), {}, one.left(), tuple(sessions), incarnations=tuple(incarnations), boots=(1,) * one.nodes,
        tables=tables,
    )  # fmt: skip


def talk(directory: Directory, node: Node, event: Any) -> list[Ready]:
    """Give a node an event, and carry what the two say to each other until they are silent. Returns the directory's steps."""
    steps = []
    waiting = list(node.step(event, NOW).send)
    while waiting:
        send = waiting.pop(0)
        if send.target == DIRECTORY:
            steps.append(directory.step(send.message, NOW))
            waiting += steps[-1].send
        elif send.target == node.config.address:
            waiting += node.step(send.message, NOW).send
    return steps


def written(tables: dict[str, dict[Any, Any]], writes: tuple[effects.Write, ...]) -> dict[str, dict[Any, Any]]:
    """The tables after one commit; those before are left alone."""
    after = dict(tables)
    for table in {table: None for table, _, _ in writes}:
        after[table] = dict(after.get(table, {}))
    for table, key, row in writes:
        if row is None:
            after[table].pop(key, None)
        else:
            after[table][key] = row
    return after


def learnt(world: World, ready: Ready) -> World:
    """What a step of the directory says about its own numbers. The epochs are those that it has made durable, one by one."""
    state = world.directory.state
    born = sorted([copy.id for copy in state.copies.get(SPEC.group, ()) if copy.id not in world.born])
    epochs = list(world.epochs)
    for table, _, row in ready.persist:
        if table == effects.GROUPS and row is not None:
            epoch = row.group.epoch
            if epochs and epoch < epochs[-1]:
                raise Wrong(f"EPOCH-1: epoch {epoch} after {epochs[-1]}")
            if not epochs or epoch > epochs[-1]:
                epochs.append(epoch)
    given = []
    for n, known in enumerate(world.incarnations, 1):
        incarnation = state.nodes[node_name(n)].incarnation
        given.append(known if incarnation in known else (*known, incarnation))
    return evolve(world, born=(*world.born, *born), epochs=tuple(epochs), incarnations=tuple(given))


def heard(world: World, node: Node) -> World:
    """What a node's tokens stand for."""
    tokens = dict(world.tokens)
    for token, copy in node.state.tokens.items():
        tokens.setdefault(token, world.born.index(copy) + 1)
    return evolve(world, tokens=tuple(tokens.items()))
