"""A client in a world: it follows a script, sends real commands under rising numbers, and keeps what it has heard.

It is nobody's model of the client machine: only what the other two machines can see of a client. It believes what it was told,
and that is checked: a repeated answer is the same (ONCE-1), an answered number stays applied (DUR-1), a hold that it was given
is in the record (HOLD-1), bytes under its guard are the bytes that it was promised (USE-1, BYTES-1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from attrs import define

from ..core import answers as a
from ..core import commands as c
from ..core import requests as r
from ..core.effects import Instance
from ..core.errors import InvariantViolation
from ..core.ids import NO_COPY, CopyId, HoldId, NodeName, Peer, SessionId, Tier
from ..core.plain import pack
from ..core.records import evolve
from ..core.state import DirectoryState
from .cast import DIRECTORY, Cast
from .keys import Key
from .memory import cells_of, found, manifest_of
from .node_site import FREE, QUIET, NodeSite
from .properties import DOOR
from .script import COMMANDS, Instruction, Script

CRASH: Final = "crash_client"


@define
class Known:
    """A copy that the client has heard of. `writes`: it is its writer."""

    group: int
    copy: CopyId
    node: Peer
    manifest: bytes
    writes: bool


@define
class Held:
    group: int
    hold: HoldId
    copy: CopyId


@define
class Touched:
    """Bytes that the client reads in place, under a guard."""

    group: int
    node: Peer
    guard: int
    copy: CopyId
    tier: Tier
    slots: tuple[int, ...]
    checksums: tuple[int, ...]


@define
class Asked:
    """A command without an answer. `again`: it was refused at the door and may be sent again at once."""

    sequence: int
    line: int
    which: int
    message: c.Command
    again: bool = False


@define
class ActorSite:
    """Treated as frozen."""

    at: int
    session: SessionId
    alive: bool = True
    ended: bool = False
    """It has been told that its session is over."""
    line: int = 0
    next_sequence: int = 1
    asked: tuple[Asked, ...] = ()
    request: tuple[int, str, Any] | None = None
    """`(group, phase, message)`: a request to a node that has no answer yet."""
    heard: tuple[tuple[int, int], ...] = ()
    """`(sequence, message)` of the answers that the directory may still replay."""
    known: tuple[Known, ...] = ()
    moves: tuple[tuple[int, CopyId], ...] = ()
    holds: tuple[Held, ...] = ()
    touched: tuple[Touched, ...] = ()

    @property
    def key(self) -> Key:
        if not self.alive:
            return (self.at, "dead")
        request = self.request
        return (
            self.at, self.ended, self.line, self.next_sequence,
            tuple([(q.sequence, q.line, q.which, q.again, pack(q.message)) for q in self.asked]),
            None if request is None else (request[0], request[1], type(request[2]).__name__, pack(request[2])),
            self.heard,
            tuple([(k.group, *k.copy, k.node, k.manifest, k.writes) for k in self.known]),
            tuple([(group, *copy) for group, copy in self.moves]),
            tuple([(h.group, *h.hold, *h.copy) for h in self.holds]),
            tuple([(t.group, t.node, t.guard, *t.copy, int(t.tier), t.slots, t.checksums) for t in self.touched]),
        )  # fmt: skip


@define
class Move:
    label: tuple[Any, ...]
    when: str
    site: ActorSite
    send: tuple[tuple[str, Any], ...] = ()


def known_of(site: ActorSite, group: int) -> Known | None:
    return next((one for one in reversed(site.known) if one.group == group), None)


def held_of(site: ActorSite, group: int, *, pin: bool) -> Held | None:
    return next((one for one in site.holds if one.group == group and (one.copy != NO_COPY) is pin), None)


# ---- acting --------------------------------------------------------------------------------------------------


def moves(cast: Cast, script: Script, site: ActorSite) -> Iterator[Move]:
    """What the client may do next."""
    if not site.alive:
        return
    name = cast.clients[site.at]
    if cast.file.budget(CRASH):
        yield Move(("client dies", name), CRASH, dead(site))
    for asked in site.asked:
        when = FREE if asked.again else QUIET
        kept = tuple([evolve(one, again=False) if one is asked else one for one in site.asked])
        yield Move(("again", name, asked.sequence), when, evolve(site, asked=kept), ((DIRECTORY, asked.message),))
    if site.request is not None:
        _, phase, message = site.request
        node = _target(site, message)
        yield Move(("again", name, phase), QUIET, site, ((node, message),))
        yield Move(("gives up", name, phase), QUIET, evolve(site, request=None))
        return
    if any(not script[asked.line][asked.which].is_async for asked in site.asked):
        return
    yield from _next(cast, script, site, name)


def dead(site: ActorSite) -> ActorSite:
    return ActorSite(site.at, site.session, alive=False)


def _target(site: ActorSite, message: Any) -> str:
    if isinstance(message, r.Let):
        return message.token.partition("@")[2]
    return str(next(one.node for one in site.known if one.copy == message.copy))


def _next(cast: Cast, script: Script, site: ActorSite, name: str) -> Iterator[Move]:
    """The next line that can be followed."""
    while site.line < len(script):
        found = False
        for which, instruction in enumerate(script[site.line]):
            move = _follow(cast, script, site, instruction, which, name)
            if move is not None:
                found = True
                yield move
        if found:
            return
        site = evolve(site, line=site.line + 1)


def _follow(cast: Cast, script: Script, site: ActorSite, one: Instruction, which: int, name: str) -> Move | None:
    """One instruction begun; None if its subject is not there."""
    label = (name, one.verb, *filter(None, (one.group, one.place, one.flag)))
    if one.verb == "die":
        return Move(label, FREE, dead(site))
    if one.verb == "close":
        if site.asked:
            return None
        close = c.CloseSession(Peer(f"client/{name}"), "close", site.session)
        return Move(label, FREE, dead(site), ((DIRECTORY, close),))
    if one.verb in COMMANDS:
        if site.ended or not _has_subject(cast, site, one):
            return None
        number = site.next_sequence
        low = min([asked.sequence for asked in site.asked], default=number)
        group = cast.groups.index(one.group) if one.group else -1
        message = c.Command(Peer(f"client/{name}"), site.session, number, low, _body(cast, site, one, group))
        sending = evolve(
            site, line=site.line + 1, next_sequence=number + 1,
            asked=(*site.asked, Asked(number, site.line, which, message)),
            heard=tuple([one for one in site.heard if one[0] >= low]),
        )  # fmt: skip
        return Move((*label, f"#{number}"), FREE, sending, ((DIRECTORY, message),))
    return _request(cast, site, one, label)


def _has_subject(cast: Cast, site: ActorSite, one: Instruction) -> bool:
    group = cast.groups.index(one.group) if one.group else -1
    if one.verb == "unpin":
        return held_of(site, group, pin=True) is not None
    if one.verb == "unref":
        return held_of(site, group, pin=False) is not None
    if one.verb in ("cancel", "drop"):
        return any(which == group for which, _ in site.moves)
    return True


def _body(cast: Cast, site: ActorSite, one: Instruction, group: int) -> c.Body:
    verb, place = one.verb, NodeName(one.place)
    spec = cast.specs[group] if group >= 0 else None
    if verb == "create":
        assert spec is not None
        return c.Create(spec, place)
    if verb in ("unpin", "unref"):
        held = held_of(site, group, pin=verb == "unpin")
        hold = held.hold if held is not None else HoldId(0, 0, 0)
        return c.Unpin(hold) if verb == "unpin" else c.Unref(hold)
    if verb == "release":
        return c.ReleaseRequest("")
    if verb == "drain":
        return c.Drain(place, one.flag != "off")
    assert spec is not None
    if verb in ("cancel", "drop"):
        copy = next(copy for which, copy in reversed(site.moves) if which == group)
        return c.CancelMove(spec.group, copy) if verb == "cancel" else c.DropReplica(spec.group, copy)
    if verb == "move":
        return c.Move(spec.group, place, one.flag == "pinned")
    if verb == "replicate":
        return c.Replicate(spec.group, place)
    if verb == "evict":
        return c.Evict(spec.group, 0, one.flag == "wait")
    return c.Pin(spec.group, near=place) if verb == "pin" else c.Ref(spec.group)


def _request(cast: Cast, site: ActorSite, one: Instruction, label: tuple[str, ...]) -> Move | None:
    """A request to a node."""
    group = cast.groups.index(one.group)
    known = known_of(site, group)
    touched = next((other for other in site.touched if other.group == group), None)
    name = cast.clients[site.at]
    peer = Peer(f"client/{name}")
    token = f"{one.verb}{site.line}"
    message: Any
    blocks = tuple(range(len(cast.specs[group].sizes)))
    if one.verb == "let":
        if touched is None:
            return None
        message = r.Let(peer, f"{token}@{touched.node}", touched.guard)
        left = tuple([other for other in site.touched if other is not touched])
        asking = evolve(site, line=site.line + 1, request=(group, "let", message), touched=left)
        return Move(label, FREE, asking, ((str(touched.node), message),))
    if known is None or not known.node or (one.verb == "write") is not known.writes:
        return None
    if one.verb == "write":
        message = r.Write(peer, token, known.copy, blocks, cast.content(group, site.at))
    elif one.verb == "read":
        message = r.Read(peer, token, known.copy, blocks)
    else:
        message = r.Acquire(peer, token, f"process:{name}", known.copy)
    asking = evolve(site, line=site.line + 1, request=(group, one.verb, message))
    return Move(label, FREE, asking, ((str(known.node), message),))


# ---- hearing -------------------------------------------------------------------------------------------------


def hears(cast: Cast, script: Script, site: ActorSite, number: int) -> tuple[ActorSite, tuple[tuple[str, Any], ...]]:
    """A message arrives; the client may go on with the second half of a write at once."""
    message = cast.messages.items[number].body
    if not site.alive:
        return site, ()
    if isinstance(message, a.Answered):
        return _hears_answer(cast, script, site, number, message), ()
    if isinstance(message, a.Told):
        return site, ()
    return _hears_node(cast, site, message)


def _hears_answer(cast: Cast, script: Script, site: ActorSite, number: int, message: a.Answered) -> ActorSite:
    answer = message.answer
    refused = isinstance(answer, a.Refused) and answer.refusal.reason
    sequence = message.sequence
    if refused in DOOR:
        if refused == "SessionEnded":
            return evolve(site, ended=True, asked=(), holds=(), heard=())
        kept = tuple([evolve(one, again=True) if one.sequence == sequence else one for one in site.asked])
        return evolve(site, asked=kept)
    before = dict(site.heard).get(sequence)
    if before is not None:
        if before != number:
            raise InvariantViolation("ONCE-1", f"number {sequence} was answered twice, and not alike")
        return site
    asked = next((one for one in site.asked if one.sequence == sequence), None)
    if asked is None:
        return site
    left = tuple([one for one in site.asked if one is not asked])
    site = evolve(site, asked=left, heard=(*site.heard, (sequence, number)))
    instruction = script[asked.line][asked.which]
    return _learns(cast, site, instruction, answer)


def _learns(cast: Cast, site: ActorSite, one: Instruction, answer: Any) -> ActorSite:
    if one.verb in ("unpin", "unref"):
        group = cast.groups.index(one.group)
        ended = held_of(site, group, pin=one.verb == "unpin")
        return evolve(site, holds=tuple([held for held in site.holds if held is not ended]))
    if isinstance(answer, a.RequestReleased):
        return evolve(site, holds=())
    if isinstance(answer, a.Created):
        group = cast.group_at[answer.group]
        known = Known(group, answer.copy, answer.address, cast.manifest(group, site.at), True)
        return evolve(site, known=_with(site.known, known), holds=(*site.holds, Held(group, answer.hold, answer.copy)))
    if isinstance(answer, a.Exists | a.Pinned):
        route = answer.route
        group = cast.group_at[answer.group]
        known = Known(group, route.copy, route.address, route.manifest, False)
        return evolve(site, known=_with(site.known, known), holds=(*site.holds, Held(group, answer.hold, route.copy)))
    if isinstance(answer, a.Referred):
        return evolve(site, holds=(*site.holds, Held(cast.group_at[answer.group], answer.hold, NO_COPY)))
    if isinstance(answer, a.MoveAccepted):
        return evolve(site, moves=(*site.moves, (cast.group_at[answer.group], answer.move)))
    if isinstance(answer, a.ReplicaAccepted):
        return evolve(site, moves=(*site.moves, (cast.group_at[answer.group], answer.copy)))
    return site


def _with(known: tuple[Known, ...], new: Known) -> tuple[Known, ...]:
    return (*[one for one in known if one.group != new.group], new)


def _hears_node(cast: Cast, site: ActorSite, message: Any) -> tuple[ActorSite, tuple[tuple[str, Any], ...]]:
    """An answer of a node to the request that is out; anything else is late and dropped."""
    if site.request is None or message.token != site.request[2].token:
        if isinstance(message, r.Guarded):
            return site, _give_back(cast, site, message)
        return site, ()
    group, _, request = site.request
    done = evolve(site, request=None)
    if isinstance(message, r.Written):
        end = r.EndWrite(request.client, f"end-{request.token}", request.copy, cast.manifest(group, site.at))
        known = next(one for one in site.known if one.copy == request.copy)
        return evolve(site, request=(group, "end", end)), ((str(known.node), end),)
    if isinstance(message, r.WriteEnded):
        kept = tuple([evolve(one, writes=False) if one.copy == message.copy else one for one in site.known])
        return evolve(done, known=kept), ()
    if isinstance(message, r.Guarded):
        known = next(one for one in site.known if one.copy == message.copy)
        writers = [w for w in range(len(cast.clients) + 1) if cast.manifest(group, w) == known.manifest]
        content = cast.content(group, writers[0]) if writers else ()
        touch = Touched(group, known.node, message.guard, message.copy, message.tier, message.slots, content)
        return evolve(done, touched=(*site.touched, touch)), ()
    if isinstance(message, r.Blocks):
        known = next(one for one in site.known if one.copy == message.copy)
        if manifest_of(cast.specs[group], message.checksums) != known.manifest:
            raise InvariantViolation("BYTES-1", f"a read of {message.copy} gave other bytes than were sealed")
    return done, ()


def _give_back(cast: Cast, site: ActorSite, message: r.Guarded) -> tuple[tuple[str, Any], ...]:
    """A guard that came after its client had given up is let go at once, unless it is one that the client has."""
    if any(one.guard == message.guard and str(one.node) == f"node/{message.node}" for one in site.touched):
        return ()
    name = cast.clients[site.at]
    node = f"node/{message.node}"
    return ((node, r.Let(Peer(f"client/{name}"), f"late@{node}", message.guard)),)


# ---- what it believes ----------------------------------------------------------------------------------------


def believes_record(site: ActorSite, state: DirectoryState) -> None:
    """HOLD-1, DUR-1: while the session lives, what it was told is in the record."""
    if not site.alive or site.ended or site.session not in state.sessions:
        return
    applied, _ = state.progress[site.session]
    told = max([sequence for sequence, _ in site.heard], default=0)
    if applied < told:
        raise InvariantViolation("DUR-1", f"number {told} was answered, and the record ends at {applied}")
    ending = [asked.message.body for asked in site.asked]
    if any(isinstance(body, c.ReleaseRequest) for body in ending):
        return
    for held in site.holds:
        if held.hold not in state.holds and not any(getattr(body, "hold", None) == held.hold for body in ending):
            raise InvariantViolation("HOLD-1", f"{held.hold} was given and not released, and is in no record")


def believes_bytes(cast: Cast, site: ActorSite, node: NodeSite) -> None:
    """USE-1: what it reads in place, under a guard that it has not let go, is what it was promised."""
    machine = node.machine
    if machine is None:
        return
    for touch in site.touched:
        if touch.node != machine.config.address:
            continue
        guard = machine.state.guards.get(touch.guard)
        if guard is None or guard.copy != touch.copy:
            if node.boot == 1:
                raise InvariantViolation("USE-1", f"guard {touch.guard} on {touch.copy} ended while its holder reads")
            continue
        blocks = len(cast.specs[touch.group].sizes)
        values = found(node.cells, cells_of(Instance(touch.copy, touch.tier, touch.slots), blocks))
        if values != touch.checksums and not node.injured:
            raise InvariantViolation("USE-1", f"the bytes of {touch.copy} changed under guard {touch.guard}")
