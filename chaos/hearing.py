"""What a client in a world hears, learns from it, and believes afterwards."""

from __future__ import annotations

from typing import Any

from ..core import answers as a
from ..core import commands as c
from ..core import requests as r
from ..core.effects import Instance
from ..core.errors import InvariantViolation
from ..core.ids import NO_COPY, Peer
from ..core.records import evolve
from ..core.state import DirectoryState
from .actor import ActorSite, Held, Known, Touched, held_of
from .cast import Cast
from .memory import cells_of, found, manifest_of
from .node_site import NodeSite
from .properties import DOOR
from .script import Instruction, Script

Sends = tuple[tuple[str, Any], ...]
"""`(target, message)` of each message that goes out."""

# ---- hearing -------------------------------------------------------------------------------------------------


def hears(cast: Cast, script: Script, site: ActorSite, number: int) -> tuple[ActorSite, Sends]:
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


def _hears_node(cast: Cast, site: ActorSite, message: Any) -> tuple[ActorSite, Sends]:
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


def _give_back(cast: Cast, site: ActorSite, message: r.Guarded) -> Sends:
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
