"""What nodes report, and level-triggered repair: wanted versus reported state (rules 7 and 8)."""

from __future__ import annotations

from . import ends, membership, migration, orders
from .errors import Refusal
from .ids import NO_COPY, CopyId, NodeName, Reason, Role, State, Tier
from .ledger import NO_COPIES, copy_in, facts, happen
from .ordering import order_freeing, order_making
from .reports import (
    Condition,
    CopyDone,
    CopyFailed,
    CopyLost,
    Fact,
    Freed,
    Inventory,
    InventoryEntry,
    Report,
    Sealed,
    StoreScanned,
    TierChanged,
)
from .rows import Facts
from .state import Copy, Group, Link, Node, Parts, ScanNote
from .table import On
from .turn import Turn

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
WRITING = State.WRITING
INCOMING, AUTHORITATIVE, REPLICA, RETIRING, FREEING = Role
ON_SEALED = On.SEALED


def report(turn: Turn, event: Report) -> None:
    """Facts of the current incarnation, in order; each is idempotent. Older incarnations have no say (FENCE-1)."""
    node = membership.is_current(turn, event.node, event.incarnation)
    if node is None:
        membership.refuse_incarnation(turn, event.node, event.incarnation)
        return
    for fact in event.facts:
        refusal = _fact(turn, node, fact)
        if refusal is not None:
            turn.count("stale_facts")
        if turn.state.halted:
            return


def _fact(turn: Turn, node: Node, fact: Fact) -> Refusal | None:
    if isinstance(fact, StoreScanned):
        _scanned(turn, node, fact)
        return None
    state = turn.state
    group_id = state.group_of.get(fact.copy)
    if group_id is None:
        if isinstance(fact, Sealed | CopyDone):
            _unknown(turn, node, fact.copy, None)
        return Refusal("StaleReport", f"{fact.copy} is in no record", guard="listed")
    group = state.groups[group_id]
    copy = copy_in(state.copies[group_id], fact.copy)
    if copy is None or not _speaks_for(turn, node, group, copy):
        return Refusal("StaleReport", f"{node.name} does not answer for {fact.copy}", guard="speaks_for")
    if isinstance(fact, Sealed):
        return _sealed(turn, group, copy, fact.manifest)
    if isinstance(fact, CopyDone):
        return migration.done(turn, group, copy, fact.manifest)
    if isinstance(fact, CopyFailed):
        return ends.end_incoming(turn, group, copy.id, fact.reason)
    if isinstance(fact, TierChanged):
        _tier(turn, copy, fact.tier)
        return None
    if isinstance(fact, CopyLost):
        return ends.gone(turn, group, copy, fact.reason)
    assert isinstance(fact, Freed)
    return ends.gone(turn, group, copy, Reason.NONE if copy.role is FREEING else Reason.LOST)


def _speaks_for(turn: Turn, node: Node, group: Group, copy: Copy) -> bool:
    """A node answers for its own copies; for a store's, the worker of the move and the steward do."""
    if not copy.store:
        return copy.node == node.name
    return copy.node in node.stores


def _sealed(turn: Turn, group: Group, copy: Copy, manifest: bytes) -> Refusal | None:
    if not manifest:
        return Refusal("ManifestMismatch", f"{copy.id} was sealed without a manifest hash", guard="manifest_given")
    return happen(turn, group, ON_SEALED, copy, Facts(turn.revision + 1, turn.now, manifest=manifest))


def _tier(turn: Turn, copy: Copy, tier: Tier) -> None:
    """A hint: no revision, no version, not persisted."""
    hints = turn.state.hints
    before = hints.get(copy.id, copy.tier)
    if before is not tier:
        turn.count("demotions" if tier > before else "promotions")
    if copy.tier is tier:
        hints.pop(copy.id, None)
    else:
        hints[copy.id] = tier


# ---- inventories ---------------------------------------------------------------------------------------------


def inventory(turn: Turn, event: Inventory) -> None:
    """Gather the parts of one snapshot, then reconcile. Parts of another snapshot, term or incarnation start over."""
    node = membership.is_current(turn, event.node, event.incarnation)
    if node is None:
        membership.refuse_incarnation(turn, event.node, event.incarnation)
        return
    state = turn.state
    if not 1 <= event.parts <= turn.config.inventory_parts_max or not 0 <= event.part < event.parts:
        turn.count("bad_inventories")
        return
    arriving = state.arriving.get(node.name)
    stamp = (event.incarnation, event.term, event.number, event.snapshot)
    if arriving is None or (arriving.incarnation, arriving.term, arriving.number, arriving.snapshot) != stamp:
        if arriving is not None and arriving.snapshot > event.snapshot and arriving.incarnation == event.incarnation:
            return
        arriving = Parts(*stamp, ())
    parts = (*(part for part in arriving.parts if part[0] != event.part), (event.part, event.entries))
    if len(parts) < event.parts:
        state.arriving[node.name] = Parts(*stamp, parts)
        return
    state.arriving.pop(node.name, None)
    entries = {entry.copy: entry for _, part in sorted(parts, key=lambda part: part[0]) for entry in part}
    _reconcile(turn, node, event.term, event.number, entries)


def _reconcile(turn: Turn, node: Node, term: int, number: int, entries: dict[CopyId, InventoryEntry]) -> None:
    state = turn.state
    if any(_regressed(turn, node.name, copy_id) for copy_id in entries):
        return
    current_term = term == state.meta.term
    for copy_id, group_id in tuple(state.copies_at.get(node.name, {}).items()):
        copy = copy_in(state.copies.get(group_id, NO_COPIES), copy_id)
        if copy is None:
            continue
        # Absence counts only if nothing was ordered about the copy after the inventory was taken (INV-1).
        counts = current_term and number >= state.ordered.get(copy_id, 0)
        _compare(turn, node, state.groups[group_id], copy, entries.get(copy_id), counts)
    for copy_id, entry in entries.items():
        group_id_of = state.group_of.get(copy_id)
        if group_id_of is None or _place(turn, group_id_of, copy_id) != node.name:
            _unknown(turn, node, copy_id, entry)
    if current_term:
        link = state.links.get(node.name) or Link()
        state.links[node.name] = Link(max(link.seen, number), turn.now, True, link.tiers, link.stuck)


def _place(turn: Turn, group_id: object, copy_id: CopyId) -> NodeName:
    copy = copy_in(turn.state.copies[group_id], copy_id)  # type: ignore[index]
    return copy.node if copy is not None else NodeName("")


def _compare(turn: Turn, node: Node, group: Group, copy: Copy, entry: InventoryEntry | None, counts: bool) -> None:
    """One listed copy against what its node says of it. Presence always counts; absence, and what is being freed, only if
    `counts`."""
    role = copy.role
    if entry is None:
        if counts:
            ends.gone(turn, group, copy, Reason.NONE if role is FREEING else Reason.LOST)
        else:
            _order_again(turn, group, copy)
        return
    if role is FREEING:
        if entry.condition is not Condition.FREEING and counts:
            order_freeing(turn, copy)
        elif entry.condition is not Condition.FREEING:
            _order_again(turn, group, copy)
        return
    if entry.condition is Condition.VERIFIED:
        _present(turn, node, group, copy, entry)
        return
    if role is INCOMING:
        if entry.condition is Condition.FREEING and counts:
            ends.end_incoming(turn, group, copy.id, Reason.FAILED)
        return
    # RESERVED says nothing: a copy that the record calls readable was verified later, and the report of that has overtaken this
    # inventory. FREEING is final: its node has let it go, which the record had not asked for, so it is lost.
    if entry.condition is Condition.FREEING and counts:
        ends.gone(turn, group, copy, Reason.LOST)


def _present(turn: Turn, node: Node, group: Group, copy: Copy, entry: InventoryEntry) -> None:
    if copy.role is INCOMING:
        if group.state is WRITING:
            _sealed(turn, group, copy, entry.manifest)
        else:
            migration.done(turn, group, copy, entry.manifest)
        return
    if entry.manifest != group.manifest and copy.id.revision >= group.created:
        ends.gone(turn, group, copy, Reason.CORRUPT)
        return
    if copy.absent:
        happen(turn, group, On.RETURN, copy, facts(turn, group, copy, incarnation=node.incarnation))
        turn.count("returns")
    _tier(turn, copy, entry.tier)


def _order_again(turn: Turn, group: Group, copy: Copy) -> None:
    """The last order about the copy was not taken when the inventory was made: send it again under a new number (rule 7)."""
    if copy.role is FREEING:
        order_freeing(turn, copy)
    elif copy.role is INCOMING:
        order_making(turn, group, copy)


def _unknown(turn: Turn, node: Node, copy_id: CopyId, entry: InventoryEntry | None) -> None:
    """A copy in no record is freed, unless its id is newer than this directory."""
    if copy_id.shard != turn.state.meta.shard or _regressed(turn, node.name, copy_id):
        return
    if entry is None or entry.condition is not Condition.FREEING:
        turn.order(node.name, orders.Free(copy_id), NO_COPY)


def _regressed(turn: Turn, place: NodeName, copy_id: CopyId) -> bool:
    """A copy newer than this directory: its store is an old one, and it stops before it frees what it knows nothing of.

    Newer than before this step: what the step itself decides must not make an id look old.
    """
    meta = turn.state.meta
    if copy_id.shard != meta.shard or copy_id.revision <= meta.revision:
        return False
    turn.state.halted = f"StoreRegressed: {place} has {copy_id}, the store ends at revision {meta.revision}"
    return True


# ---- stores --------------------------------------------------------------------------------------------------


def _scanned(turn: Turn, node: Node, fact: StoreScanned) -> None:
    """A steward's list of a store's objects, against the record; counts only for the scan that was ordered last."""
    state = turn.state
    note = state.scans.get(fact.store)
    if (
        note is None
        or (state.meta.term, note.node, note.number) != (fact.term, node.name, fact.number)
        or fact.store not in node.stores
        or len(fact.objects) > turn.config.scan_objects_max
    ):
        turn.count("stale_scans")
        return
    if any(_regressed(turn, fact.store, copy_id) for copy_id in fact.objects):
        return
    state.scans[fact.store] = ScanNote(NodeName(""), note.number, note.revision, note.due)
    objects = dict.fromkeys(fact.objects)
    for copy_id, group_id in tuple(state.copies_at.get(fact.store, {}).items()):
        if copy_id in objects:
            continue
        group = state.groups[group_id]
        copy = copy_in(state.copies[group_id], copy_id)
        if copy is None:
            continue
        if copy.role is FREEING and state.ordered.get(copy_id, 0) <= fact.number:
            ends.gone(turn, group, copy, Reason.NONE)
        elif copy.role is AUTHORITATIVE and group.epoch <= note.revision:
            ends.gone(turn, group, copy, Reason.LOST)
    for copy_id in fact.objects:
        if copy_id.shard != state.meta.shard or copy_id in state.group_of:
            continue
        if copy_id.revision <= note.revision:
            turn.order(node.name, orders.FreeObject(copy_id, fact.store), NO_COPY)
            turn.count("garbage_objects")
