"""What is checked: of each step of a machine, of what lies in its tiers, and between the parties of a world.

A step is checked once per distinct (state, event), a pair of parties once per distinct pair. Everything here raises
`InvariantViolation` with the id of the invariant that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core import invariants, node_invariants
from ..core.answers import Answered, BatchAnswer, EvictAccepted, MoveAccepted, Refused
from ..core.commands import Batch, Command, Move, OpenSession
from ..core.directory import Directory
from ..core.effects import Ready
from ..core.errors import InvariantViolation
from ..core.events import InstanceCloned, InstanceFound, InstanceVerified, Tick
from ..core.ids import NO_COPY, CopyId, GroupId, NodeName, Reason, Role, State
from ..core.node import Node
from ..core.node_state import Stage
from ..core.orders import Order
from ..core.reports import Condition, CopyFailed, Heartbeat, Inventory, Register, Report
from ..core.rows import is_readable
from ..core.state import FACTS, Copy, DirectoryState
from ..core.table import MOVING
from .cast import NOW, said
from .keys import node_key
from .memory import Cells, cells_of, found, manifest_of
from .world_file import WorldFile

BOOKS = ("groups", "copies", "holds", "sessions", "nodes")
"""The facts that a refused command leaves alone: all but the answer itself, and that its session's lease is renewed."""
INDEXES = ("group_of", "copies_at", "used", "pinned", "referred", "held", "lost", "progress", "timed", "unsettled")
REPEATABLE = (Command, OpenSession, Register, Report, Inventory, Heartbeat)
DOOR = ("Early", "WindowFull", "SessionEnded", "Overloaded")


def _must(true: bool, invariant: str, what: str) -> None:
    if not true:
        raise InvariantViolation(invariant, what)


def same(a: DirectoryState, b: DirectoryState, tables: Iterable[str]) -> str:
    """The first of these tables in which two states differ, or ""."""
    for name in tables:
        if getattr(a, name) != getattr(b, name):
            return name
    return ""


# ---- one step of a directory ---------------------------------------------------------------------------------


def after_directory_step(before: Directory, after: Directory, event: Any, ready: Ready) -> None:
    invariants.check_all(after.state, after.config)
    invariants.check_progress(before.state, after.state)
    record_is_ordered(after.state)
    if type(event) is not Tick:
        _repeated(after, event, ready)
    else:
        _goes_on(before.state, after.state)
    if type(event) is Command:
        _refused(before, after, ready)
        _granted(before, event, ready)
    holds_are_kept(before.state, after.state)
    if type(event) is Report or type(event) is Inventory:
        _stale_report(before, after, event)


def _repeated(after: Directory, event: Any, ready: Ready) -> None:
    """ONCE-1: a second delivery changes no fact, and answers a command as the first did."""
    if type(event) not in REPEATABLE or after.state.halted:
        return
    twice = after.copy()
    again = twice.step(event, NOW)
    table = same(after.state, twice.state, FACTS)
    _must(not table, "ONCE-1", f"a second {type(event).__name__} changed {table}")
    if type(event) is Command:
        _must(again.reply == ready.reply or not again.reply, "ONCE-1", "a repeated command has another answer")


def _refused(before: Directory, after: Directory, ready: Ready) -> None:
    """REFUSE-1: a refused command leaves everything as it was."""
    for reply in ready.reply:
        answer = reply.message.answer if isinstance(reply.message, Answered) else None
        if isinstance(answer, BatchAnswer) or not isinstance(answer, Refused) or answer.refusal.reason == "HoldLost":
            continue
        table = same(before.state, after.state, (*BOOKS, "answers") if answer.refusal.reason in DOOR else BOOKS)
        _must(not table, "REFUSE-1", f"a command refused as {answer.refusal.reason} changed {table}")
        _must(before.state.used == after.state.used, "REFUSE-1", "a refused command changed reservations")
        others = {number: lease for number, lease in before.state.session_leases.items() if number != reply.message.session}
        renewed = after.state.session_leases in (others, before.state.session_leases)
        renewed = renewed and after.state.node_leases == before.state.node_leases
        _must(renewed, "REFUSE-1", "a refused command changed other leases than its sender's")


def _granted(before: Directory, event: Command, ready: Ready) -> None:
    """HOLD-1: an evict at once needs a group that nobody holds, a move one that nobody pins, or leave for that."""
    state = before.state
    answer = ready.reply[0].message.answer if ready.reply and isinstance(ready.reply[0].message, Answered) else None
    body = event.body
    replayed = event.session in state.progress and event.sequence <= state.progress[event.session][0]
    if replayed or not isinstance(answer, EvictAccepted | MoveAccepted) or isinstance(body, Batch):
        return
    copies = state.copies.get(answer.group, ())
    pinned = any(copy.id in state.pinned for copy in copies if is_readable(copy))
    if isinstance(answer, EvictAccepted) and not answer.waiting:
        _must(not pinned and answer.group not in state.referred, "HOLD-1", "an evict was accepted at once under holds")
    elif isinstance(body, Move) and not body.allow_pinned:
        _must(not pinned, "HOLD-1", "a move was accepted under pins without leave")


def _goes_on(before: DirectoryState, after: DirectoryState) -> None:
    """MOVE-1: a source that is given up by time ends no move whose target is still being made in time."""
    for group_id, group in before.groups.items():
        target = _copy(before, group_id, group.target)
        later = after.groups.get(group_id)
        if group.state not in MOVING or target is None or target.due <= before.meta.clock_ms or target.store:
            continue
        if target.node in after.nodes and after.nodes[target.node].alive:
            lost = later is None or later.reason is Reason.LOST
            _must(not lost, "MOVE-1", f"a group was declared lost while {target.id} is being made")


def holds_are_kept(before: DirectoryState, after: DirectoryState) -> None:
    """USE-1, HOLD-1: no step breaks a hold by its own decision; HOLD-1: nobody gets a hold on what can't be read."""
    for hold_id, hold in after.holds.items():
        was = before.holds.get(hold_id)
        if was is None and hold.copy != NO_COPY and not hold.lost:
            copy = _copy(after, hold.group, hold.copy)
            _must(copy is not None and not copy.absent, "COPY-2", f"{hold_id} was given on a copy whose node is away")
        if was is None or was.lost or not hold.lost:
            continue
        kept = _copy(after, hold.group, hold.copy)
        _must(kept is None or kept.role not in KEEPS_BYTES, "HOLD-1", f"{hold_id} was broken, and its copy is kept")
        held = _copy(before, hold.group, hold.copy)
        given_up = held is not None and held.role in KEEPS_BYTES and kept is not None and kept.role is Role.FREEING
        _must(not given_up, "USE-1", f"{hold_id} was broken by freeing its copy")


def _copy(state: DirectoryState, group: GroupId, copy_id: CopyId) -> Copy | None:
    return next((copy for copy in state.copies.get(group, ()) if copy.id == copy_id), None)


def record_is_ordered(state: DirectoryState) -> None:
    """Rules 3 and 9: who writes has a session; what is being made or freed is at a node that can be told so."""
    for group in state.groups.values():
        _must(group.state is not State.WRITING or group.writer in state.sessions, "HOLD-2", "a write goes on without its session")
    for copies in state.copies.values():
        for copy in copies:
            if not copy.store and copy.role in (Role.INCOMING, Role.FREEING):
                _must(state.nodes[copy.node].alive, "MOVE-1", f"{copy.id} is {copy.role.name} at a node whose lease is over")


def _stale_report(before: Directory, after: Directory, event: Report | Inventory) -> None:
    """FENCE-1: a report of another incarnation, or of a node that has lapsed, has no effect."""
    node = before.state.nodes.get(event.node)
    if node is not None and node.alive and node.incarnation == event.incarnation:
        return
    table = same(before.state, after.state, FACTS)
    _must(not table, "FENCE-1", f"a {type(event).__name__} of incarnation {event.incarnation} changed {table}")


def durable_before_said(machine: Directory, tables: dict[str, dict[Any, Any]], readies: Iterable[Ready]) -> None:
    """DUR-1: when outputs leave, a restart from what is durable would find the facts that they rest on."""
    again = Directory.load(tables)
    table = same(machine.state, again, (*FACTS, *INDEXES))
    _must(not table, "DUR-1", f"{table} is not what a restart would find")
    durable = again.meta
    for ready in readies:
        for one in said(ready):
            term = getattr(one.message, "term", durable.term)
            _must(term <= durable.term, "DUR-1", f"{type(one.message).__name__} tells of term {term}, which is not durable")
            answer = getattr(one.message, "answer", None)
            revision = getattr(answer, "revision", 0)
            _must(revision <= durable.revision, "DUR-1", f"an answer tells of revision {revision}, which is not durable")


def after_restart(durable: DirectoryState, machine: Directory) -> None:
    invariants.check_all(machine.state, machine.config)
    invariants.check_progress(durable, machine.state)
    _must(machine.state.meta.term > durable.meta.term, "EPOCH-1", "a restart began no new term")


# ---- one step of a node --------------------------------------------------------------------------------------


def after_node_step(before: Node, after: Node, event: Any, ready: Ready) -> None:
    node_invariants.check_node(after.state, after.config)
    node_invariants.links_never_fall(before.state, after.state)
    if type(event) is Order:
        _order(before, after, event, ready)
        _room(before, event, ready)
    _verified(before, after, event)


def _order(before: Node, after: Node, event: Order, ready: Ready) -> None:
    """FENCE-1: a node acts on an order of its incarnation under a number above the last, and on each once."""
    link = before.state.links[event.shard]
    fresh = event.incarnation == link.incarnation and (event.term, event.number) > (link.term, link.number)
    spoke = bool(ready.send or ready.transfer or ready.reply)
    if not fresh or before.state.fenced:
        unseen = not spoke and node_key(before.state) == node_key(after.state)
        _must(unseen, "FENCE-1", "an order had an effect that was not its turn")
    twice = after.copy()
    again = twice.step(event, NOW)
    quiet = not (again.send or again.transfer or again.reply)
    _must(quiet and node_key(after.state) == node_key(twice.state), "FENCE-1", "an order had an effect twice")


def _room(before: Node, event: Order, ready: Ready) -> None:
    """CAP-1, rule 11: a node refuses for room only because of bytes that the directory no longer counts."""
    failed = [
        fact
        for one in ready.send
        if isinstance(one.message, Report)
        for fact in one.message.facts
        if isinstance(fact, CopyFailed) and fact.reason is Reason.NO_SPACE and fact.copy == getattr(event.body, "copy", None)
    ]
    fresh = failed and failed[0].copy not in before.state.copies
    deferred = any(copy.condition is Condition.FREEING for copy in before.state.copies.values()) or before.state.quarantine
    link = before.state.links[event.shard]
    # What came back with an older registration may be in no record any more, so that nobody counts it until it is freed.
    older = any(copy_id.revision < link.incarnation for copy_id in before.state.copies)
    current = event.term == link.term and not older
    _must(not fresh or bool(deferred) or not current, "CAP-1", "a node had no room for what the directory had counted")


def _verified(before: Node, after: Node, event: Any) -> None:
    """COPY-1: nothing becomes readable but by the word of the byte work that has looked at all of it."""
    if isinstance(event, InstanceVerified | InstanceCloned | InstanceFound):
        return
    for copy_id, copy in after.state.copies.items():
        was = before.state.copies.get(copy_id)
        new = copy.condition is Condition.VERIFIED and (was is None or was.condition is not Condition.VERIFIED)
        _must(not new, "COPY-1", f"{copy_id} became readable, and nobody has looked at its bytes")


def bytes_are_there(machine: Node | None, cells: Cells, injured: bool) -> None:
    """COPY-1, USE-1: what a node calls verified really is the content of its manifest, in the place where it says."""
    if machine is None or injured:
        return
    for copy in machine.state.copies.values():
        for place in copy.places:
            if place.stage is Stage.VERIFIED:
                values = found(cells, cells_of(place.instance, len(copy.spec.sizes)))
                _must(values is not None, "USE-1", f"{copy.copy} is verified, and its bytes are not there")
                assert values is not None
                same_bytes = manifest_of(copy.spec, values) == copy.manifest
                _must(same_bytes, "BYTES-1", f"{copy.copy} has other bytes than were verified")


# ---- directory against node ----------------------------------------------------------------------------------

KEEPS_BYTES = (Role.AUTHORITATIVE, Role.REPLICA, Role.RETIRING)


def record_and_node(state: DirectoryState, machine: Node, boot: str, injured: bool) -> None:
    """COPY-2, MOVE-2: while a node is registered, it has the verified bytes of all copies that its record lists as kept."""
    name = machine.config.name
    record = state.nodes.get(name)
    link = machine.state.links[0]
    if record is None or not record.alive or machine.state.fenced:
        return
    if (record.boot, record.incarnation) != (boot, link.incarnation):
        return
    _must(link.term <= state.meta.term, "EPOCH-1", f"{name} knows a term that has not begun")
    if injured:
        return
    for copy_id, group_id in state.copies_at.get(name, {}).items():
        copy = next(one for one in state.copies[group_id] if one.id == copy_id)
        if copy.role not in KEEPS_BYTES or copy.absent:
            continue
        kept = machine.state.copies.get(copy_id)
        there = kept is not None and kept.condition is Condition.VERIFIED
        _must(there, "MOVE-2" if copy.role is Role.RETIRING else "COPY-2", f"{name} lacks {copy_id}, which is {copy.role.name}")
        if kept is not None and copy.role is not Role.RETIRING:
            _must(kept.manifest == state.groups[group_id].manifest, "COPY-1", f"{name} has other bytes for {copy_id}")


def record_and_stores(state: DirectoryState, store: Cells, names: Iterable[str]) -> None:
    """COPY-2: what the record says lies in a remote store lies there."""
    objects = {cell[:3] for cell in store}
    for name in names:
        for copy_id, group_id in state.copies_at.get(NodeName(name), {}).items():
            copy = next(one for one in state.copies[group_id] if one.id == copy_id)
            if copy.role in KEEPS_BYTES:
                there = (name, copy_id.revision, copy_id.ordinal) in objects
                _must(there, "COPY-2", f"{name} lacks {copy_id}, which is {copy.role.name}")


HARMFUL = ("crash_node", "crash_client", "expire", "lapse", "early", "fail", "rot")
"""Faults by which a group, a hold or a write may be lost. Lost, late and doubled messages are not among them."""


def nothing_lost_without_a_fault(state: DirectoryState, file: WorldFile, left: tuple[int, ...]) -> None:
    """INV-1, MOVE-1: no group is said to be lost where no fault has happened that could lose it."""
    if any(had != now for (fault, had), now in zip(file.faults, left, strict=True) if fault in HARMFUL):
        return
    for group in state.groups.values():
        _must(group.reason is not Reason.LOST, "INV-1", "a group was declared lost, and nothing has been lost")
