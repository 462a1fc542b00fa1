"""What must be true between machines after every step: the directory's decisions, and what nodes and clients really have.

The machines' own invariants can't see each other. These look at all of them at one instant, which no message can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.directory import Directory
from ..core.errors import InvariantViolation
from ..core.ids import CopyId, HoldKind, Reason, Role, State
from ..core.invariants import check_all
from ..core.node_invariants import check_node
from ..core.node_state import Stage
from ..core.reports import Condition
from ..core.rows import is_readable
from ..core.state import FACTS, Copy, DirectoryState, Group

if TYPE_CHECKING:
    from .sim_member import Member
    from .sim_world import World

GOING = (State.EVICTING, State.EVICTED)


def broken(invariant: str, what: str) -> InvariantViolation:
    return InvariantViolation(invariant, what)


# ---- one step of the directory -----------------------------------------------------------------------------------


def decisions_have_reasons(world: World, before: DirectoryState, after: DirectoryState) -> None:
    """A loss is a loss, and nothing is evicted from under a hold."""
    for of, was in before.groups.items():
        now = after.groups.get(of)
        if now is was:
            continue
        left = {copy.id: copy for copy in after.copies.get(of, ())}
        for copy in before.copies[of]:
            if copy.id not in left:
                _has_gone(world, after, was, copy)
        if now is not None and now.state in GOING and was.state not in GOING:
            _is_going(before, after, now, left)


def _has_gone(world: World, after: DirectoryState, group: Group, copy: Copy) -> None:
    """INV-1: what leaves the record without having been freed is not there any more, while its node lives."""
    if copy.absent or copy.store or copy.role in (Role.INCOMING, Role.FREEING) or copy.id in world.damaged:
        return
    record = after.nodes[copy.node]
    for member in world.nodes():
        node = member.machine
        if record.alive and record.incarnation == copy.incarnation and node.boot == record.boot:
            there = node.state.copies.get(copy.id)
            if there is not None and there.condition is Condition.VERIFIED and there.manifest == group.manifest:
                raise broken("INV-1", f"{copy.id} is said to be gone, and {node.boot} has it")


def _is_going(before: DirectoryState, after: DirectoryState, now: Group, left: dict[CopyId, Copy]) -> None:
    readable = [copy.id for copy in before.copies[now.id] if is_readable(copy)]
    if now.reason is Reason.LOST:
        if kept := [copy_id for copy_id in readable if copy_id in left]:
            raise broken("MOVE-1", f"said to be lost while {kept[0]} could be read")
    elif now.reason in (Reason.EVICTED, Reason.DRAINED):
        # An absent copy's pins keep it in the record, retiring; they don't keep the group.
        if pinned := [copy_id for copy_id in readable if copy_id in after.pinned and not left[copy_id].absent]:
            raise broken("USE-1", f"evicted while {pinned[0]} is pinned")
        for hold_id in set(after.holds) & set(before.holds):
            hold = after.holds[hold_id]
            if hold.kind is HoldKind.REF and hold.group == now.id and hold.lost and not before.holds[hold_id].lost:
                raise broken("HOLD-1", f"evicted while {hold_id} refers to it")


def nobody_knows_more(world: World, found: DirectoryState) -> None:
    """DUR-1: what the store gives back at a start is all that was ever told to anybody."""
    for member in world.clients():
        if member.machine.state.revision > found.meta.revision:
            raise broken("DUR-1", f"{member.address} was told of revision {member.machine.state.revision}, which is not durable")
    for member in world.nodes():
        for copy_id in member.machine.state.copies:
            if copy_id.revision > found.meta.revision:
                raise broken("DUR-1", f"{member.address} was told of {copy_id}, which is not durable")


# ---- all machines at one instant ---------------------------------------------------------------------------------


def copies_are_there(world: World) -> None:
    """COPY-2, USE-1: what a registered node is on record for, it has, verified; unless we have damaged it."""
    if world.directory is None:
        return
    state = world.directory.state
    for member in world.nodes():
        node = member.machine
        record = state.nodes.get(node.config.name)
        if record is not None and record.alive and record.boot == node.boot and not node.state.fenced:
            for copy_id, of in state.copies_at.get(record.name, {}).items():
                _is_there(world, state.groups[of], _copy(state, of, copy_id), node.state.copies.get(copy_id))


def _copy(state: DirectoryState, of: Any, copy_id: CopyId) -> Copy:
    return next(copy for copy in state.copies[of] if copy.id == copy_id)


def _is_there(world: World, group: Group, copy: Copy, there: Any) -> None:
    if copy.absent or copy.role in (Role.INCOMING, Role.FREEING) or copy.id in world.damaged:
        return
    if there is None or there.condition is not Condition.VERIFIED:
        what = "nothing" if there is None else there.condition.name
        raise broken("COPY-2", f"{copy.id} is {copy.role.name} at {copy.node}, which has {what}")
    if copy.role is not Role.RETIRING and there.manifest != group.manifest:
        raise broken("COPY-1", f"{copy.id} at {copy.node} has other bytes than the record says")


def answers_are_kept(world: World) -> None:
    """ONCE-1: an answer that its client has not acknowledged is still there to be repeated."""
    if world.directory is not None:
        for member in world.clients():
            _answers_of(world.directory.state, member)


def _answers_of(state: DirectoryState, member: Member) -> None:
    session = member.machine.state.session.session
    applied, _ = state.progress.get(session, (0, 0))
    for number in member.machine.state.numbers:
        if number <= applied and (session, number) not in state.answers:
            raise broken("ONCE-1", f"the answer to {member.address}'s number {number} was dropped, and nobody has it")


def whole_state(world: World) -> None:
    """All invariants of all machines, whatever the last step touched; what the store has; the bytes behind verified copies."""
    if world.directory is not None:
        check_all(world.directory.state, world.config)
        if world.attempted is None and world.durable is not None:
            same_facts(Directory.load(world.store.load()), world.durable)
    for member in world.nodes():
        check_node(member.machine.state, member.machine.config)
        for copy in member.machine.state.copies.values():
            for place in copy.places:
                tier = world.remote if place.instance.place else member.tiers[place.instance.tier]
                if place.stage is Stage.VERIFIED and copy.copy not in world.damaged and not tier.bytes_of(copy.copy):
                    raise broken("COPY-2", f"{member.address} has verified {copy.copy}, and no bytes of it")


def same_facts(found: DirectoryState, wanted: DirectoryState) -> None:
    """DUR-1: what a restart would find is what was committed."""
    for name in FACTS:
        if getattr(found, name) != getattr(wanted, name):
            raise broken("DUR-1", f"{name} in the store differ from those that were committed")
