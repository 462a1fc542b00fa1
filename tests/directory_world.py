"""One directory and a world around it, played by hand: nodes are names, what they report is what the test says.

Each step is committed to a memory store and checked: every invariant, what may never go back, that a restart from the store
would give the same facts and indexes (DUR-1), and that a refused command has left facts and policy order as they were (REFUSE-1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pinfold.backends.memory import MemoryStore
from pinfold.core import commands as c
from pinfold.core import orders, reports
from pinfold.core.answers import Answered, Created, Refused, Told
from pinfold.core.directory import Directory
from pinfold.core.driver import Outcome
from pinfold.core.effects import Ready
from pinfold.core.events import Tick
from pinfold.core.ids import (
    CopyId,
    GroupId,
    HoldId,
    Key,
    Layout,
    NodeName,
    Peer,
    Reason,
    Role,
    SessionId,
    State,
    Tier,
    group_id,
)
from pinfold.core.invariants import check_all, check_progress
from pinfold.core.reports import Condition, Inventory, InventoryEntry, Register, Report
from pinfold.core.state import FACTS, LEASES, RECORD_TYPES, Copy, DirectoryConfig, DirectoryState, Group, StoreSpec

T = TypeVar("T")

BLOCK = 4096
LAYOUT = Layout()
MANIFEST = b"m" * 16
OTHER_MANIFEST = b"o" * 16
CLIENT = Peer("client/a")
N1, N2, N3 = NodeName("n1"), NodeName("n2"), NodeName("n3")
STORE = NodeName("s1")

INDEXES = (
    "group_of", "copies_at", "used", "by_request", "by_block", "pinned", "referred", "held", "requested", "lost",
    "tokens", "named", "progress", "timed", "unsettled",
)  # fmt: skip
DOOR = ("Early", "WindowFull", "SessionEnded")  # they leave the number unused; `BadRequest` and `Overloaded` may do either


def spec_of(name: str, blocks: int = 1, **more: Any) -> c.Spec:
    """A group whose key is its name."""
    key = Key("t", "m", "1", LAYOUT, name, blocks)
    more.setdefault("block_ids", tuple(f"{name}{index}" for index in range(blocks)))
    return c.Spec(group_id(key), key, (BLOCK,) * blocks, **more)


def id_of(name: str, blocks: int = 1) -> GroupId:
    return spec_of(name, blocks).group


def entry(copy: CopyId, condition: Condition = Condition.VERIFIED, manifest: bytes = MANIFEST, slots: int = 1) -> InventoryEntry:
    return InventoryEntry(copy, condition, manifest if condition is Condition.VERIFIED else b"", Tier.DRAM, slots)


class World:
    """A directory with registered, ready nodes and one session. `step` is the only way in."""

    def __init__(self, *nodes: NodeName, capacity: int = 100, stores: int = 0, **config: Any) -> None:
        specs = (StoreSpec(STORE, stores),) if stores else ()
        self.config = DirectoryConfig(stores=specs, **config)
        self.store = MemoryStore(RECORD_TYPES, store_id="hand")
        self.now = 0
        self.sent: list[tuple[Peer, Any]] = []
        self.ready = Ready()
        self.sequences: dict[SessionId, int] = {}
        self.reaches = (STORE,) if stores else ()
        self.boots: dict[NodeName, str] = {}
        self.snapshots = 0
        self.tokens = 0
        self.directory = Directory(self.config, Directory.blank("hand"))
        self._begin()
        self.session = self.open()
        for name in nodes or (N1, N2):
            self.register(name, capacity=capacity)

    # ---- stepping --------------------------------------------------------------------------------------------

    @property
    def state(self) -> DirectoryState:
        return self.directory.state

    def step(self, event: Any) -> Ready:
        before = self.state.copy()
        ready = self.directory.step(event, self.now)
        self._commit(ready)
        check_all(self.state, self.config)
        check_progress(before, self.state)
        self._check_durable()
        if not self.state.halted:
            assert ready.alarm is not None
            assert self.now <= ready.alarm <= self.now + self.config.max_step_ms
        assert ready.transfer == ()
        self.ready = ready
        self.sent += [(send.target, send.message) for send in ready.send]
        return ready

    def _commit(self, ready: Ready) -> None:
        assert self.store.commit(ready.persist) is Outcome.DONE

    def _check_durable(self) -> None:
        again = Directory.load(self.store.load())
        for name in (*FACTS, *INDEXES):
            assert getattr(again, name) == getattr(self.state, name), f"DUR-1: {name}"
        meta, live = again.meta, self.state.meta
        assert (meta.term, meta.revision) == (live.term, live.revision)
        assert meta.clock_ms <= live.clock_ms

    def _begin(self) -> None:
        ready = self.directory.start(self.now)
        self.store.fence(self.state.meta.term)
        self._commit(ready)

    def restart(self, pause_ms: int = 0) -> None:
        """The process dies and comes back `pause_ms` later: only what is in the store is known."""
        durable = Directory.load(self.store.load())
        self.store.reopen()
        self.now += pause_ms
        self.directory = Directory(self.config, Directory.load(self.store.load()))
        check_progress(durable, self.state)
        self._begin()
        assert self.state.meta.term == durable.meta.term + 1
        check_progress(durable, self.state)

    def changes_nothing(self, event: Any) -> Ready:
        """The event leaves facts, indexes and policy order as they were, and persists nothing but a lease lifted."""
        before = self.state.copy()
        ready = self.step(event)
        self.same(before)
        lifted = sum(len(getattr(before, name)) - len(getattr(self.state, name)) for name in LEASES)
        assert len(ready.persist) == (2 if lifted else 0), "the lease and the meta record, or nothing"
        return ready

    def same(self, before: DirectoryState, *, but: tuple[str, ...] = ()) -> None:
        for name in (*FACTS, *INDEXES, "access", "touches", "placed"):
            if name not in (*but, *LEASES):
                assert getattr(self.state, name) == getattr(before, name), f"REFUSE-1: {name} has changed"
        for name in LEASES:  # whatever a holder says lifts its own, however it is answered (rule 10)
            was, now = getattr(before, name), getattr(self.state, name)
            assert now == {key: was.get(key) for key in now}, f"REFUSE-1: {name} has changed"
        assert self.state.meta.revision == before.meta.revision

    # ---- time ------------------------------------------------------------------------------------------------

    def tick(self, after_ms: int = 0) -> Ready:
        self.now += after_ms
        return self.step(Tick())

    def advance(self, ms: int, alive: bool = True) -> None:
        """Time passes in pieces of at most half a second; nodes and sessions renew if `alive`."""
        while ms > 0:
            piece = min(ms, 500)
            ms -= piece
            self.now += piece
            if alive:
                self.renew()
            self.tick()

    def renew(self) -> None:
        for name, node in self.state.nodes.items():
            if node.alive:
                self.beat(name)
        for session in list(self.state.sessions):
            self.ask(c.KeepAlive(CLIENT, "renew", session))

    # ---- sessions and commands -------------------------------------------------------------------------------

    def open(self, name: str = "", token: str = "", lease_ms: int = 10_000) -> SessionId:
        self.tokens += 1
        opened = self.ask(c.OpenSession(CLIENT, token or f"open-{self.tokens}", name, lease_ms))
        self.sequences.setdefault(opened.session, opened.next_sequence - 1)
        return opened.session

    def ask(self, event: Any) -> Any:
        """A query or session call: its one answer, to whoever asked."""
        told = [reply for reply in self.step(event).reply if isinstance(reply.message, Told)]
        own = [reply.message.answer for reply in told if (reply.target, reply.message.token) == (event.client, event.token)]
        assert len(own) == 1
        return own[0]

    def query(self, event: Any) -> Any:
        """A query: its answer, and nothing has changed but, perhaps, access data."""
        before = self.state.copy()
        answer = self.ask(event)
        self.same(before, but=("access", "touches"))
        assert self.ready.persist == ()
        return answer

    def command(self, body: Any, session: SessionId | None = None, sequence: int = 0, low: int = 0) -> c.Command:
        """The next command of a session, without sending it."""
        session = self.session if session is None else session
        sequence = sequence or self.sequences.get(session, 0) + 1
        return c.Command(CLIENT, session, sequence, low or sequence, body)

    def send(self, command: c.Command) -> Answered:
        """Send a command: its one answer. A refused one is held to REFUSE-1."""
        before = self.state.copy()
        replies = [reply.message for reply in self.step(command).reply if isinstance(reply.message, Answered)]
        (answered,) = replies
        if isinstance(answered.answer, Refused):
            reason = answered.answer.refusal.reason
            used = self.state.progress.get(command.session) != before.progress.get(command.session)
            assert not (used and reason in DOOR)
            if reason != "HoldLost":
                self.same(before, but=("answers", "progress") if used else ())
        return answered

    def do(self, body: Any, session: SessionId | None = None) -> Any:
        """The next command of a session, sent once: its answer."""
        command = self.command(body, session)
        answered = self.send(command)
        if (command.session, command.sequence) in self.state.answers:
            self.sequences[command.session] = command.sequence
        return answered.answer

    def refused(self, body: Any, reason: str, session: SessionId | None = None) -> Any:
        """The command is refused for this reason; returns the refusal."""
        answer = self.do(body, session)
        assert isinstance(answer, Refused), answer
        assert answer.refusal.reason == reason, answer.refusal
        return answer.refusal

    # ---- nodes -----------------------------------------------------------------------------------------------

    def register(self, name: NodeName, boot: str = "b1", capacity: int = 100, ready: bool = True, **more: Any) -> int:
        self.boots[name] = boot
        more.setdefault("stores", self.reaches)
        if name in self.state.nodes and self.state.nodes[name].boot != boot:
            more.setdefault("over", self.incarnation(name))
        self.step(Register(name, boot, Peer(f"node/{name}"), capacity, **more))
        if ready:
            self.inventory(name)
        return self.incarnation(name)

    def incarnation(self, name: NodeName) -> int:
        return self.state.nodes[name].incarnation

    def beat(self, name: NodeName, number: int | None = None, incarnation: int = 0) -> Any:
        """A heartbeat, as a rule of a node that has taken every order; the notice that answers it."""
        taken = self.state.numbers.get(name, 0) if number is None else number
        ready = self.step(reports.Heartbeat(name, incarnation or self.incarnation(name), self.state.meta.term, taken))
        return ready.send[-1].message if ready.send else None

    def entries(self, name: NodeName) -> list[InventoryEntry]:
        """What `name` has if it has done all that the record says."""
        found = []
        for copy_id, group in self.state.copies_at.get(name, {}).items():
            copy = self.copy(copy_id)
            condition = {Role.INCOMING: Condition.RESERVED, Role.FREEING: Condition.FREEING}.get(copy.role, Condition.VERIFIED)
            found.append(entry(copy_id, condition, self.state.groups[group].manifest or MANIFEST, copy.slots))
        return found

    def inventory(
        self,
        name: NodeName,
        entries: Iterable[InventoryEntry] | None = None,
        number: int | None = None,
        term: int | None = None,
        incarnation: int = 0,
    ) -> Ready:
        """A whole inventory in one part; by default a true one, taken now."""
        self.snapshots += 1
        return self.step(
            Inventory(
                name,
                incarnation or self.incarnation(name),
                self.state.meta.term if term is None else term,
                self.state.numbers.get(name, 0) if number is None else number,
                self.snapshots,
                0,
                1,
                tuple(self.entries(name) if entries is None else entries),
            )
        )

    def report(self, name: NodeName, *facts: Any, incarnation: int = 0) -> Ready:
        return self.step(Report(name, incarnation or self.incarnation(name), tuple(facts)))

    def _speaker(self, copy: CopyId) -> NodeName:
        listed = self.copy(copy)
        return N1 if listed.store else listed.node

    def sealed(self, copy: CopyId, manifest: bytes = MANIFEST) -> Ready:
        return self.report(self._speaker(copy), reports.Sealed(copy, manifest))

    def done(self, copy: CopyId, manifest: bytes = MANIFEST) -> Ready:
        return self.report(self._speaker(copy), reports.CopyDone(copy, manifest))

    def failed(self, copy: CopyId, reason: Reason = Reason.FAILED) -> Ready:
        return self.report(self._speaker(copy), reports.CopyFailed(copy, reason))

    def freed(self, copy: CopyId) -> Ready:
        return self.report(self._speaker(copy), reports.Freed(copy))

    def lost(self, copy: CopyId, reason: Reason = Reason.LOST) -> Ready:
        return self.report(self._speaker(copy), reports.CopyLost(copy, reason))

    def lapse(self, name: NodeName) -> None:
        """Everybody but `name` renews until its lease is over."""
        due = self.state.node_due[name]
        while self.state.nodes[name].alive:
            self.now += 500
            for other, node in list(self.state.nodes.items()):
                if node.alive and other != name:
                    self.beat(other)
            for session in list(self.state.sessions):
                self.ask(c.KeepAlive(CLIENT, "renew", session))
            self.tick()
            assert self.state.meta.clock_ms < due + 1_000

    # ---- looking ---------------------------------------------------------------------------------------------

    def group(self, name: str, blocks: int = 1) -> Group:
        return self.state.groups[id_of(name, blocks)]

    def is_in(self, name: str, state: State, blocks: int = 1) -> bool:
        group = self.state.groups.get(id_of(name, blocks))
        return group is not None and group.state is state

    def copy(self, copy: CopyId) -> Copy:
        return next(listed for listed in self.state.copies[self.state.group_of[copy]] if listed.id == copy)

    def role(self, copy: CopyId) -> Role | None:
        """None: it has left the record."""
        return self.copy(copy).role if copy in self.state.group_of else None

    def orders(self, kind: type[T], name: NodeName | None = None) -> list[T]:
        """Bodies of the orders of one kind that were ever sent."""
        return [
            message.body
            for target, message in self.sent
            if isinstance(message, orders.Order) and isinstance(message.body, kind) and name in (None, target[5:])
        ]

    def counter(self, name: str) -> int:
        return self.state.counters.get(name, 0)

    # ---- stories that many tests begin with ------------------------------------------------------------------

    def create(self, name: str, node: NodeName = N1, blocks: int = 1, session: SessionId | None = None, **more: Any) -> Created:
        created = self.do(c.Create(spec_of(name, blocks, **more), node), session)
        assert isinstance(created, Created), created
        return created

    def put(self, name: str, node: NodeName = N1, blocks: int = 1, manifest: bytes = MANIFEST, **more: Any) -> CopyId:
        """A sealed group that nobody holds; its copy."""
        created = self.create(name, node, blocks, **more)
        self.sealed(created.copy, manifest)
        self.do(c.Unpin(created.hold))
        return created.copy

    def pin(self, name: str, session: SessionId | None = None, blocks: int = 1, **more: Any) -> HoldId:
        pinned = self.do(c.Pin(id_of(name, blocks), **more), session)
        assert not isinstance(pinned, Refused), pinned
        hold = pinned.hold
        assert isinstance(hold, HoldId)
        return hold

    def ref(self, name: str, session: SessionId | None = None) -> HoldId:
        referred = self.do(c.Ref(id_of(name)), session)
        assert not isinstance(referred, Refused), referred
        hold = referred.hold
        assert isinstance(hold, HoldId)
        return hold

    def move(self, name: str, target: NodeName = N2, **more: Any) -> CopyId:
        """A move that has begun; its id."""
        accepted = self.do(c.Move(id_of(name), target, **more))
        assert not isinstance(accepted, Refused), accepted
        assert not accepted.done
        move = accepted.move
        assert isinstance(move, CopyId)
        return move

    def moved(self, name: str, target: NodeName = N2, **more: Any) -> CopyId:
        """A move that has committed."""
        move = self.move(name, target, **more)
        self.done(move)
        return move

    def replica(self, name: str, target: NodeName = N2) -> CopyId:
        accepted = self.do(c.Replicate(id_of(name), target))
        assert not isinstance(accepted, Refused), accepted
        self.done(accepted.copy)
        return accepted.copy  # type: ignore[no-any-return]
