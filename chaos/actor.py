"""A client in a world: it follows a script, sends real commands under rising numbers, and keeps what it has heard.

It is nobody's model of the client machine: only what the other two machines can see of a client. `hearing.py` has what it learns
and believes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from attrs import define

from ..core import commands as c
from ..core import requests as r
from ..core.ids import NO_COPY, CopyId, HoldId, NodeName, Peer, SessionId, Tier
from ..core.plain import pack
from ..core.records import evolve
from .cast import DIRECTORY, Cast
from .keys import Key
from .node_site import FREE, QUIET
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
