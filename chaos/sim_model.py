"""What callers of a cluster may rely on, as a dictionary: which bytes each group may have, which holds are whose.

A `Run` is one cluster with its callers. Every answer of a client machine is compared with the dictionary the moment it comes;
`sim_end.py` ends a run and says what must be true then.
"""

from __future__ import annotations

import zlib
from typing import Any

from attrs import define, frozen

from ..core import answers as a
from ..core import commands as c
from ..core import requests as r
from ..core.calls import Ask, Do, Done, Failed, GetGroup, GotGroup, PutDone, PutGroup
from ..core.events import ProcessExited
from ..core.ids import NO_COPY, CopyId, GroupId, HoldId, HoldKind, Key, Layout, Peer, Role, State, group_id, manifest_hash
from ..core.reports import Condition
from ..core.state import DirectoryState
from .history import Verdict
from .sim_checks import broken
from .sim_shape import Shape
from .sim_trace import Trace
from .sim_world import World

BLOCK = 16
LAYOUT = Layout(block_bytes=BLOCK)
GROUPS = 6
CLIENTS = ("client/a", "client/b")
ENGINE = Peer("client/engine")
"""Touches bytes itself, under guards."""


def spec_of(number: int) -> c.Spec:
    """Groups of one to three blocks; each third begins a chain of prefixes."""
    key = Key("t", "m", "1", LAYOUT, f"g{number}", 1 + number % 3)
    parent = spec_of(number - 1).group if number % 3 else None
    blocks = tuple(f"g{number}.{block}" for block in range(key.blocks))
    return c.Spec(group_id(key), key, (BLOCK,) * key.blocks, blocks, f"r{number % 2}", parent=parent, recompute_cost=number)


SPECS = tuple(spec_of(number) for number in range(GROUPS))
NUMBER_OF = {spec.group: number for number, spec in enumerate(SPECS)}


def content(number: int, version: int) -> tuple[bytes, ...]:
    """What put `version` writes: no two puts of a group write the same, so that a read shows what it saw."""
    return tuple(f"{number}/{version}/{block}".encode().ljust(BLOCK, b".") for block in range(SPECS[number].key.blocks))


def checksums(data: tuple[bytes, ...]) -> tuple[int, ...]:
    return tuple(zlib.crc32(buffer) for buffer in data)


def manifest(number: int, version: int) -> bytes:
    return manifest_hash(LAYOUT, SPECS[number].sizes, checksums(content(number, version)))


@frozen
class Asked:
    """A call without an answer. `seals`: how often its group had been sealed when it was asked; `seen`: (term, revision)."""

    client: str
    life: int
    op: Any
    begun: int
    timeout_ms: int
    seals: int
    seen: tuple[int, int]


@define
class Kept:
    """A hold that a caller was given and has to give back. `route` is where a PIN's bytes are, None for a REF."""

    hold: HoldId
    kind: HoldKind
    group: GroupId
    request: str
    copy: CopyId = NO_COPY
    route: a.Route | None = None
    releasing: bool = False


@frozen
class Guarded:
    """A guard that the engine has, and the bytes that it must see until it lets go."""

    address: str
    boot: str
    number: r.Guarded
    data: dict[Any, bytes]


class Run:
    """One cluster, its callers, and what they were told."""

    def __init__(self, shape: Shape, trace_tail: int | None = 400) -> None:
        self.calls = 0
        self.versions = 0
        self.asked: dict[int, Asked] = {}
        self.answers: dict[str, int] = {}
        self.kept: dict[str, dict[HoldId, Kept]] = {client: {} for client in CLIENTS}
        self.released: dict[HoldId, None] = {}
        self.moves: dict[str, dict[GroupId, CopyId]] = {client: {} for client in CLIENTS}
        self.seen: dict[str, tuple[int, int]] = dict.fromkeys(CLIENTS, (0, 0))
        self.sealed: dict[GroupId, list[bytes]] = {spec.group: [] for spec in SPECS}
        """Manifests in the order in which they became readable."""
        self.version_of: dict[bytes, int] = {}
        self.gone: dict[GroupId, int] = dict.fromkeys(self.sealed, 0)
        """Seals that an accepted eviction has ended: nobody may read them by asking later."""
        self.owners: dict[tuple[GroupId, int], Any] = {}
        self.coming: list[tuple[GroupId, int, bytes, int, Any]] = []
        """What the directory has decided and not yet committed: group, creation, manifest, epoch, owner."""
        self.creations: dict[GroupId, int] = {}
        self.guards: dict[tuple[str, str, int], Guarded] = {}
        self.let: dict[tuple[str, str, int], None] = {}
        """Guards that the engine has let go: a late second answer does not give them back."""
        self.tokens = 0
        self.followed: DirectoryState | None = None
        self.directory: Any = None
        self.revision = -1
        self.faults: dict[str, int] = {}
        """What had gone wrong, and how often, when faults stopped."""
        self.verdict: Verdict | None = None
        """Of the history, once it has been judged."""
        self.world = World(shape, self.on_reply, Trace((spec.group for spec in SPECS), trace_tail))
        self.world.on_message[ENGINE] = self.on_guard
        self.engine = self.world.wire.port(ENGINE)
        self.world.checks += [self.follow, self.guarded_bytes_stay]

    def start(self) -> None:
        """Everybody comes to life."""
        self.world.start()
        for client in CLIENTS:
            self.world.start_client(client)

    # ---- asking --------------------------------------------------------------------------------------------------

    def ask(self, client: str, op: Any, timeout_ms: int) -> int:
        """Give a client machine a call."""
        self.calls += 1
        group: Any = getattr(op, "group", None) or getattr(getattr(op, "spec", None), "group", None)
        floor = max(len(self.sealed[group]) - 1, self.gone[group]) if group in self.sealed else 0
        life = self.world.boots[client]
        self.asked[self.calls] = Asked(client, life, op, self.world.now, timeout_ms, floor, self.seen[client])
        self.world.call(client, self.calls, op, timeout_ms)
        return self.calls

    def put(self, client: str, number: int, node: Any, keep: bool, timeout_ms: int) -> None:
        self.versions += 1
        data = content(number, self.versions)
        self.version_of[manifest(number, self.versions)] = self.versions
        op = PutGroup(SPECS[number], checksums(data), data, node, request=self.request(), keep_pin=keep)
        self.ask(client, op, timeout_ms)

    def request(self) -> str:
        """A request id that a few calls in a row share."""
        return f"q{self.calls // 3}"

    def token(self) -> str:
        self.tokens += 1
        return f"engine.{self.tokens}"

    # ---- answers -------------------------------------------------------------------------------------------------

    def on_reply(self, client: str, number: int, outcome: Any) -> None:
        self.follow()
        asked = self.asked.pop(number, None)
        if asked is None:
            raise broken("ANSWER-1", f"call {number} is answered twice: {outcome}")
        word = type(outcome.value).__name__ if isinstance(outcome, Done) else outcome.refusal.reason
        name = f"{type(getattr(asked.op, 'body', asked.op)).__name__}:{word}"
        self.answers[name] = self.answers.get(name, 0) + 1
        if isinstance(outcome, Failed):
            self._failed(asked, outcome)
            return
        value: Any = outcome.value
        body: Any = getattr(asked.op, "body", None)
        if isinstance(asked.op, Ask) and (outcome.term, outcome.revision) < asked.seen:
            raise broken("LIN-1", f"call {number}: {outcome.term, outcome.revision} is older than {asked.seen}")
        if isinstance(asked.op, Ask | Do):
            self.seen[client] = max(self.seen[client], (outcome.term, outcome.revision))
        if isinstance(value, a.BatchAnswer):
            for each, item in zip(body.items, value.items, strict=True):
                self._item(client, each, item)
        elif isinstance(asked.op, Do):
            self._item(client, body, value)
        elif isinstance(value, GotGroup):
            self._got(asked, value)
        elif isinstance(value, PutDone):
            self._was_put(asked, value)

    def _failed(self, asked: Asked, outcome: Failed) -> None:
        body = getattr(asked.op, "body", None)
        if isinstance(body, c.Unpin | c.Unref):
            kept = self.kept[asked.client].get(body.hold)
            reason = outcome.refusal.reason
            if reason in ("AlreadyDone", "UnknownHold", "HoldLost", "SessionEnded"):
                if kept is not None and reason != "HoldLost" and not self._may_be_over(asked, kept):
                    raise broken("HOLD-1", f"{body.hold} was given to {asked.client} and not back: {outcome}")
                self.kept[asked.client].pop(body.hold, None)

    def _may_be_over(self, asked: Asked, kept: Kept) -> bool:
        """Whether the session has ended, or the hold was lost, or another call gave it back."""
        if kept.releasing or asked.life != self.world.boots[asked.client]:
            return True
        member = self.world.members[asked.client]
        return kept.hold not in member.machine.state.holds

    def _item(self, client: str, body: Any, answer: Any) -> None:
        kept = self.kept[client]
        if isinstance(answer, a.Pinned):
            self._keep(client, Kept(answer.hold, HoldKind.PIN, answer.group, body.request, answer.route.copy, answer.route))
        elif isinstance(answer, a.PrefixPinned):
            for route, hold in zip(answer.routes, answer.holds, strict=True):
                self._keep(client, Kept(hold, HoldKind.PIN, route.group, body.request, route.copy, route))
        elif isinstance(answer, a.Exists):
            self._keep(client, Kept(answer.hold, HoldKind.PIN, answer.group, body.request, answer.route.copy, answer.route))
        elif isinstance(answer, a.Created):
            self._keep(client, Kept(answer.hold, HoldKind.PIN, answer.group, body.request, answer.copy))
        elif isinstance(answer, a.Referred):
            self._keep(client, Kept(answer.hold, HoldKind.REF, answer.group, body.request))
        elif isinstance(answer, a.Released):
            if answer.hold in self.released:
                raise broken("HOLD-1", f"{answer.hold} has ended twice")
            self.released[answer.hold] = None
            kept.pop(answer.hold, None)
        elif isinstance(answer, a.RequestReleased):
            holds = self.world.members[client].machine.state.holds
            for hold in [one.hold for one in kept.values() if one.request == answer.request and one.hold not in holds]:
                del kept[hold]
        elif isinstance(answer, a.MoveAccepted):
            self.moves[client][answer.group] = answer.move
        elif isinstance(answer, a.EvictAccepted) and not answer.waiting:
            self._evicted(answer)

    def _evicted(self, answer: a.EvictAccepted) -> None:
        """What was sealed before the eviction is not readable by asking any more. (A replayed answer may be old.)"""
        directory = self.world.directory
        state = None if directory is None else directory.state
        group = None if state is None else state.groups.get(answer.group)
        if group is None or group.created <= answer.epoch:
            self.gone[answer.group] = max(self.gone[answer.group], len(self.sealed[answer.group]))

    def _keep(self, client: str, kept: Kept) -> None:
        if kept.hold in self.kept[client]:
            raise broken("HOLD-1", f"{kept.hold} is given twice")
        self.kept[client][kept.hold] = kept

    def _got(self, asked: Asked, got: GotGroup) -> None:
        """A read shows exactly what one put has sealed, and nothing that was over before it was asked for."""
        number = NUMBER_OF[got.group]
        version = self.version_of.get(got.route.manifest)
        wanted = () if version is None else tuple(content(number, version)[block] for block in got.blocks)
        if tuple(bytes(buffer) for buffer in got.data) != wanted or checksums(wanted) != got.checksums:
            raise broken("BYTES-1", f"g{number} read as {got.data} from {got.route.copy}, sealed was {wanted}")
        if isinstance(asked.op, GetGroup):
            seals = self.sealed[got.group]
            last = max((index for index, sealed in enumerate(seals) if sealed == got.route.manifest), default=-1)
            if last < 0:
                raise broken("COPY-1", f"g{number}: version {version} was read and is not sealed")
            if last < asked.seals and not self.world.shape.optimistic:
                raise broken("LIN-1", f"g{number}: read version {version}, which was over when the read began")
        if got.hold is not None:
            self._keep(asked.client, Kept(got.hold, HoldKind.PIN, got.group, asked.op.request, got.route.copy, got.route))

    def _was_put(self, asked: Asked, done: PutDone) -> None:
        op: PutGroup = asked.op
        mine = manifest_hash(LAYOUT, op.spec.sizes, op.checksums)
        if (mine if done.created else None) not in (None, *self.sealed[done.group]) or not self.sealed[done.group]:
            raise broken("COPY-1", f"g{NUMBER_OF[done.group]} is said to be written and was never sealed")
        if done.hold is not None:
            self._keep(asked.client, Kept(done.hold, HoldKind.PIN, done.group, op.request, done.copy))

    # ---- the engine ----------------------------------------------------------------------------------------------

    def on_guard(self, message: Any) -> None:
        """From now on these bytes must not change, whatever the directory says."""
        if not isinstance(message, r.Guarded):
            return
        for member in self.world.nodes():
            copy = member.machine.state.copies.get(message.copy)
            guard = member.machine.state.guards.get(message.guard)
            if copy is None or guard is None or guard.copy != message.copy or copy.condition is not Condition.VERIFIED:
                continue
            tier = member.tiers[message.tier]
            data = tier.bytes_of(message.copy)
            key = (member.address, member.machine.boot, message.guard)
            if key not in self.let:
                self.guards[key] = Guarded(member.address, member.machine.boot, message, data)

    def let_go(self, guarded: Guarded) -> None:
        key = (guarded.address, guarded.boot, guarded.number.guard)
        self.guards.pop(key, None)
        self.let[key] = None
        self.engine.send(guarded.address, r.Let(ENGINE, self.token(), guarded.number.guard))

    def engine_exits(self) -> None:
        """The kernel's word at every node."""
        self.guards.clear()
        for member in self.world.nodes():
            self.world.step(member, ProcessExited("process:engine"))

    # ---- checks after every step -----------------------------------------------------------------------------------

    def follow(self) -> None:
        """What has been decided, and, once it is durable, who sealed what and who owns which epoch (OWN-1)."""
        directory, durable = self.world.directory, self.world.durable
        if directory is not self.directory:
            self.directory, self.revision = directory, -1
            self.coming.clear()
        if directory is not None and directory.state.meta.revision != self.revision:
            self.revision = directory.state.meta.revision
            for of, group in directory.state.groups.items():
                copies = directory.state.copies[of]
                owner = next(((x.node, x.incarnation, x.id) for x in copies if x.role is Role.AUTHORITATIVE), None)
                sealed = group.manifest if group.state is not State.WRITING else b""
                self.coming.append((of, group.created, sealed, group.epoch, owner))
        if durable is not self.followed:
            self.followed = durable
            for news in self.coming:
                self._is_durable(*news)
            self.coming.clear()

    def _is_durable(self, group: GroupId, created: int, sealed: bytes, epoch: int, owner: Any) -> None:
        if sealed and self.creations.get(group, 0) < created:
            self.creations[group] = created
            self.sealed[group].append(sealed)
        known = self.owners.setdefault((group, epoch), owner)
        if known != owner:
            raise broken("OWN-1", f"epoch {epoch} of g{NUMBER_OF[group]} has owners {known} and {owner}")

    def guarded_bytes_stay(self) -> None:
        """USE-1: under a guard nothing is freed, reused or overwritten."""
        for key, guarded in list(self.guards.items()):
            member = self.world.members.get(guarded.address)
            if member is None or member.machine.boot != guarded.boot:
                del self.guards[key]
                continue
            tier = member.tiers[guarded.number.tier]
            for where, kept in guarded.data.items():
                if tier.byte_at(where) != kept and where[0] not in self.world.damaged:
                    raise broken("USE-1", f"{guarded.number.copy} changed under guard {guarded.number.guard}")

