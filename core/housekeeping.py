"""Tick: what time decides, and what has to be looked at again and again (rules 9, 10, 14).

Every decision here is a commit like any other. Each pass is bounded by `housekeeping_items`; what is left over is done at the
next Tick, which the alarm asks for at once.
"""

from __future__ import annotations

from . import capacity, ends, ledger, membership, migration, ordering, orders, relief, sessions, waiting
from .ids import NO_COPY, Cause, CopyId, GroupId, NodeName, Reason, Role, State
from .ledger import NO_COPIES, copy_in, facts, happen
from .rows import NOWHERE
from .state import Copy, Group, Node, ScanNote
from .table import MOVING, On
from .turn import Turn

RETIRING = Role.RETIRING


def tick(turn: Turn) -> None:
    """Everything that is due now, in a fixed order."""
    state, now = turn.state, turn.now
    for session in [number for number, due in state.session_due.items() if due <= now]:
        left = sessions.end_session(turn, session)
        if left:
            turn.count("holds_expired", left)
    for name in [name for name, due in state.node_due.items() if due <= now]:
        membership.lapse(turn, state.nodes[name])
    _timed_copies(turn)
    _unsettled(turn)
    relief.relieve(turn)
    for node in [node for node in state.nodes.values() if node.draining]:
        _drain(turn, node)
    if now >= state.repair_at:
        state.repair_at = now + turn.config.repair_ms
        _stores(turn)
    waiting.expire(turn)


def _timed_copies(turn: Turn) -> None:
    """Deadlines of what is being made and limits of what is absent, then the grace of what retires: it may be needed by then."""
    state, now = turn.state, turn.now
    left = turn.config.housekeeping_items
    for retired in (False, True):
        for copy_id, group_id in list(state.timed.items()):
            copy = copy_in(state.copies.get(group_id, NO_COPIES), copy_id)
            if copy is None or copy.due > now or (copy.role is RETIRING and not copy.absent) is not retired:
                continue
            if left == 0:
                return
            left -= _time_is_up(turn, state.groups[group_id], copy)


def _time_is_up(turn: Turn, group: Group, copy: Copy) -> int:
    """Act on one copy whose `due` has come. Returns 1 if it cost a change."""
    if copy.absent:
        ends.gone(turn, group, copy, Reason.LOST)
        return 1
    if copy.role is Role.INCOMING:
        ends.end_incoming(turn, group, copy.id, Reason.DEADLINE)
        return 1
    if copy.role is RETIRING and copy.id not in turn.state.pinned:
        return happen(turn, group, On.DUE, copy, facts(turn, group, copy)) is None
    return 0


def _unsettled(turn: Turn) -> None:
    """Waiting evictions that may go now, and ended records that may be forgotten."""
    state = turn.state
    left = turn.config.housekeeping_items
    for group_id in list(state.unsettled):
        if left == 0:
            return
        group = state.groups.get(group_id)
        if group is None:
            continue
        if group.state is State.EVICTED:
            left -= ledger.forget(turn, group) is None
        elif group.leaving and ends.evict(turn, group, Reason.EVICTED) is None:
            turn.count("evictions_asked")
            left -= 1


# ---- draining ------------------------------------------------------------------------------------------------


def _drain(turn: Turn, node: Node) -> None:
    """Move what is authoritative at a draining node, let its replicas go; a bounded number of moves at once (rule 14)."""
    state, config = turn.state, turn.config
    if not node.alive:
        return
    moving = sum(1 for group_id in state.unsettled if _moves_from(turn, state.groups[group_id], node.name))
    for copy_id, group_id in list(state.copies_at.get(node.name, {}).items()):
        group = state.groups[group_id]
        copy = copy_in(state.copies[group_id], copy_id)
        if copy is None or copy.absent:
            continue
        if copy.role is Role.REPLICA:
            happen(turn, group, On.DROP_REPLICA, copy, facts(turn, group, copy))
        elif copy.role is Role.AUTHORITATIVE and group.state not in MOVING and moving < config.drain_moves_max:
            moving += _drain_one(turn, group, node)


def _moves_from(turn: Turn, group: Group, name: NodeName) -> bool:
    if group.state not in MOVING:
        return False
    source = copy_in(turn.state.copies[group.id], group.source)
    return source is not None and source.node == name


def _drain_one(turn: Turn, group: Group, node: Node) -> int:
    """To another node, else to a store, else evict what nothing holds. Returns the moves begun."""
    slots = len(group.spec.sizes)
    target = capacity.choose(turn, group.spec.sizes, NodeName(""), (), (node.name,))
    targets = [target] if target else []
    targets += [
        store.name for store in turn.config.stores if store.name in node.stores and capacity.has_room(turn, store.name, slots)
    ]
    for name in targets:
        refusal = migration.begin(turn, group, name, cause=Cause.DRAIN, allow_pinned=True)
        if refusal is None:
            return 1
        if refusal.reason == "MoveTooSoon":
            return 0
    if not targets and ends.evict(turn, group, Reason.DRAINED) is None:
        turn.count("evictions")
    elif not targets and not group.leaving:
        happen(turn, group, On.LEAVE, NOWHERE, facts(turn, group, NOWHERE))
    return 0


# ---- remote stores -------------------------------------------------------------------------------------------


def _stores(turn: Turn) -> None:
    """Free orders to a store's steward are repeated, and its objects are scanned from time to time (rule 8)."""
    state, now = turn.state, turn.now
    for store in turn.config.stores:
        steward = ordering.steward_of(state, store.name)
        if not steward:
            continue
        for copy_id, group_id in list(state.copies_at.get(store.name, {}).items()):
            _repeat_free(turn, copy_id, group_id)
        note = state.scans.get(store.name)
        if note is None or note.due <= now:
            number = turn.order(steward, orders.Scan(store.name), NO_COPY)
            state.scans[store.name] = ScanNote(steward, number, turn.revision, now + turn.config.scan_ms)


def _repeat_free(turn: Turn, copy_id: CopyId, group_id: GroupId) -> None:
    copy = copy_in(turn.state.copies[group_id], copy_id)
    if copy is not None and copy.role is Role.FREEING:
        ordering.order_freeing(turn, copy)


# ---- the alarm -----------------------------------------------------------------------------------------------


def next_due(turn: Turn) -> int:
    """The next instant (directory time) at which something here is due. Computed in full after each Tick; between Ticks
    `Turn.wake` lowers it, and an early Tick is harmless."""
    state, now = turn.state, turn.now
    due = [*state.session_due.values(), *state.node_due.values()]
    due += [waiter.due for waiter in state.waiters.values()]
    for copy_id, group_id in state.timed.items():
        copy = copy_in(state.copies[group_id], copy_id)
        if copy is None or (copy.role is RETIRING and not copy.absent and _stays(turn, group_id, copy)):
            continue
        due.append(copy.due)
    for group_id in state.unsettled:
        group = state.groups[group_id]
        if group.state is State.EVICTED and group_id not in state.referred:
            due.append(now)
    if state.strained or state.pressure:
        due.append(now + turn.config.retry_after_ms)
    if turn.config.stores or any(node.draining and state.copies_at.get(node.name) for node in state.nodes.values()):
        due.append(state.repair_at)
    return min(due, default=now + turn.config.repair_ms)


def _stays(turn: Turn, group_id: GroupId, copy: Copy) -> bool:
    """Does a retiring copy stay whatever the time is? What ends that wakes the directory."""
    state = turn.state
    return copy.id in state.pinned or (copy.due <= turn.now and ledger.is_kept(state, state.groups[group_id], copy))
