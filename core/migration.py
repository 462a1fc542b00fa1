"""Moves and replicas (rule 4): begin, cancel, and what the worker's report means.

The move id is the target's copy id. Space at the target counts from the commit that begins the move; the order leaves after it.
"""

from __future__ import annotations

from . import capacity, ends
from .answers import ItemAnswer, MoveAccepted, MoveCancelled, Refused, ReplicaAccepted, ReplicaDropped
from .commands import CancelMove, DropReplica, Move, Replicate
from .errors import Refusal
from .ids import NO_COPY, Cause, CopyId, NodeName, Reason, Role, Tier
from .ledger import NO_COPIES, authority_of, copy_in, facts, happen
from .rows import can_take_over
from .state import Copy, Group
from .table import MOVING, On
from .turn import Turn


def move(turn: Turn, body: Move) -> ItemAnswer:
    group = turn.state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    refusal = begin(
        turn,
        group,
        body.target,
        cause=body.cause,
        allow_pinned=body.allow_pinned,
        wanted_epoch=body.expected_epoch,
        deadline_ms=body.deadline_ms,
    )
    if refusal is not None:
        if refusal.reason == "NoSpace":
            capacity.press(turn, group.spec.sizes, body.target)
        return Refused(refusal, turn.revision)
    after = turn.state.groups[group.id]
    if after.target != NO_COPY:
        return MoveAccepted(group.id, after.target, after.epoch, False, turn.revision)
    authority = authority_of(turn.state.copies[group.id])
    return MoveAccepted(group.id, authority.id if authority is not None else NO_COPY, after.epoch, True, turn.revision)


def begin(
    turn: Turn,
    group: Group,
    target: NodeName,
    *,
    cause: Cause,
    allow_pinned: bool = False,
    wanted_epoch: int = 0,
    deadline_ms: int = 0,
) -> Refusal | None:
    """Begin a move to a node or store, or complete it at once where the target has the bytes already."""
    place = _target(turn, target, group.spec.sizes)
    if isinstance(place, Refusal):
        return place
    there = already_there(turn, group, target)
    known = {"wanted_epoch": wanted_epoch, "allow_pinned": allow_pinned, "cause": cause}
    for copy in there:
        if group.state not in MOVING and can_take_over(group, copy, facts(turn, group, copy)):
            refusal = happen(turn, group, On.ADOPT, copy, facts(turn, group, copy, **known))
            if refusal is None:
                turn.count("moves_committed")
                turn.count("moves_adopted")
            return refusal
    refusal = _out_of_reach(turn, group, target)
    if refusal is not None:
        return refusal
    copy = _incoming(turn, group, target, place, deadline_ms)
    room = capacity.has_room(turn, target, copy.slots)
    refusal = happen(turn, group, On.MOVE, copy, facts(turn, group, copy, room=room, at_target=bool(there), **known))
    if refusal is None:
        turn.count("moves_begun")
    return refusal


def _target(turn: Turn, target: NodeName, sizes: capacity.Sizes) -> bool | Refusal:
    """Is the target a store? Or a refusal when nothing can be placed there."""
    if capacity.is_store(turn, target):
        return True
    if target not in turn.state.nodes:
        return Refusal("UnknownNode", f"{target!r}", guard="known_target")
    if not capacity.usable(turn, target):
        return Refusal("NodeNotReady", f"{target}", guard="usable", retry_after_ms=turn.config.retry_after_ms)
    return capacity.too_large(turn, sizes, target) or False


def already_there(turn: Turn, group: Group, target: NodeName) -> list[Copy]:
    """Copies of the present content at the target, coming or going. What is older than the last `Create` is another content."""
    return [
        copy
        for copy in turn.state.copies.get(group.id, NO_COPIES)
        if copy.node == target and copy.role is not Role.FREEING and copy.id.revision >= group.created
    ]


def _out_of_reach(turn: Turn, group: Group, target: NodeName) -> Refusal | None:
    """Between a store and a node only a node that can reach the store can work, report and free."""
    authority = authority_of(turn.state.copies.get(group.id, NO_COPIES))
    if authority is None or authority.store == capacity.is_store(turn, target):
        return None
    node, store = (target, authority.node) if authority.store else (authority.node, target)
    if store in turn.state.nodes[node].stores:
        return None
    return Refusal("UnknownNode", f"{node} cannot reach {store}", guard="reaches_store")


def _incoming(turn: Turn, group: Group, target: NodeName, store: bool, deadline_ms: int) -> Copy:
    state, config = turn.state, turn.config
    copy_id = CopyId(state.meta.shard, turn.revision + 1, 0)
    tier = Tier.REMOTE_SSD if store else Tier.DRAM
    incarnation = 0 if store else state.nodes[target].incarnation
    due = turn.now + min(deadline_ms or config.move_ms, config.move_ms)
    return Copy(copy_id, target, store, tier, Role.INCOMING, len(group.spec.sizes), incarnation, due)


def cancel(turn: Turn, body: CancelMove) -> ItemAnswer:
    group = turn.state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    if group.state not in MOVING or group.target != body.move:
        return Refused(Refusal("StaleMove", f"{body.move}", f"{group.state.name}/ENDED", "is_target"), turn.revision)
    if group.source == NO_COPY:
        # The source was lost: the target is the only copy there may ever be. Ending it would be a loss by request.
        return Refused(
            Refusal(
                "Unreadable",
                "the source is lost; the move brings the only copy",
                f"{group.state.name}/ENDED",
                "authority_present",
            ),
            turn.revision,
        )
    refusal = ends.end_incoming(turn, group, body.move, Reason.CANCELLED)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    return MoveCancelled(group.id, body.move, turn.state.groups[group.id].epoch, turn.revision)


def replicate(turn: Turn, body: Replicate) -> ItemAnswer:
    group = turn.state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    place = _target(turn, body.target, group.spec.sizes)
    if isinstance(place, Refusal):
        return Refused(place, turn.revision)
    refusal = _out_of_reach(turn, group, body.target)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    there = bool(already_there(turn, group, body.target))
    copy = _incoming(turn, group, body.target, place, body.deadline_ms)
    room = capacity.has_room(turn, body.target, copy.slots)
    refusal = happen(turn, group, On.REPLICATE, copy, facts(turn, group, copy, room=room, at_target=there))
    if refusal is not None:
        if refusal.reason == "NoSpace":
            capacity.press(turn, group.spec.sizes, body.target)
        return Refused(refusal, turn.revision)
    return ReplicaAccepted(group.id, copy.id, turn.revision)


def drop_replica(turn: Turn, body: DropReplica) -> ItemAnswer:
    group = turn.state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    copy = copy_in(turn.state.copies.get(group.id, NO_COPIES), body.copy)
    if copy is None:
        return Refused(Refusal("StaleCopy", f"{body.copy}", f"{group.state.name}/DROP_REPLICA", "listed"), turn.revision)
    refusal = happen(turn, group, On.DROP_REPLICA, copy, facts(turn, group, copy))
    if refusal is not None:
        return Refused(refusal, turn.revision)
    return ReplicaDropped(group.id, copy.id, turn.revision)


def done(turn: Turn, group: Group, copy: Copy, manifest: bytes) -> Refusal | None:
    """A worker's CopyDone. For the live move's target this is the commit point, and nothing else needs to match (4.5)."""
    moving = group.state in MOVING and copy.id == group.target
    refusal = happen(turn, group, On.COPY_DONE, copy, facts(turn, group, copy, manifest=manifest))
    if refusal is None and moving:
        turn.count("moves_committed")
    if refusal is not None and refusal.reason == "ManifestMismatch":
        ends.end_incoming(turn, group, copy.id, Reason.CORRUPT)
    return refusal
