"""Making room: which groups go when a place is above its high mark or was asked for room in vain (rule 11)."""

from __future__ import annotations

from . import ends, eviction, migration
from .capacity import capacity_of, has_room, withheld
from .eviction import Candidate, Watermarks
from .ids import Cause, CopyId, GroupId, NodeName, Reason, Role, State
from .ledger import is_kept
from .rows import is_readable
from .state import Copy, DirectoryState, Group
from .table import READABLE
from .turn import Turn

WEIGHTS = eviction.Weights()


def places(turn: Turn) -> list[NodeName]:
    """Nodes in placement, then stores, in a stated order."""
    nodes = sorted(name for name, node in turn.state.nodes.items() if node.alive)
    return [*nodes, *(store.name for store in turn.config.stores)]


def _excess(turn: Turn, place: NodeName) -> int:
    """Slots to free at `place`, beyond those that are on their way out already."""
    state, config = turn.state, turn.config
    used, capacity = state.used.get(place, 0), max(0, capacity_of(turn, place) - withheld(state, place))
    wanted = eviction.to_free(used, capacity, state.pressure.get(place, 0), Watermarks(config.high, config.low))
    return wanted - leaving_slots(turn, place) if wanted else 0


def leaving_slots(turn: Turn, place: NodeName) -> int:
    """Slots of copies at `place` that are on their way out: freeing, retiring without a pin, or the source of a move."""
    state = turn.state
    total = 0
    for copy_id, group_id in state.copies_at.get(place, {}).items():
        group = state.groups[group_id]
        for copy in state.copies[group_id]:
            if copy.id == copy_id and _is_leaving(state, group, copy):
                total += copy.slots
    return total


def _is_leaving(state: DirectoryState, group: Group, copy: Copy) -> bool:
    if copy.role is Role.RETIRING:
        return copy.id not in state.pinned and not is_kept(state, group, copy)
    return copy.role is Role.FREEING or copy.id == group.source


def relieve(turn: Turn) -> None:
    """Evict, or spill to a store, at every place above its high mark or pressed, down to its low mark.

    Where holds are in the way, `strained` stays set: the next hold that ends asks for another look.
    """
    state = turn.state
    for place in places(turn):
        excess = _excess(turn, place)
        if excess > 0:
            _relieve_place(turn, place, excess)
    state.strained = any(_excess(turn, place) > 0 for place in places(turn))
    state.pressure.clear()


def _relieve_place(turn: Turn, place: NodeName, excess: int) -> None:
    """Victims are spilled while their node has moves to spare, else evicted; those that nobody waits for wait for a spill."""
    state, config = turn.state, turn.config
    spilling = config.spill and bool(config.stores) and place in state.nodes
    spills = config.spill_moves_max - _moves_from(turn, place) if spilling else 0
    urgent = _urgent(turn, place) if spilling else excess
    if urgent <= 0 and spills < max(1, config.spill_moves_max // 2):
        return
    victims = eviction.pick_victims(_candidates(turn, place), excess, eviction.POLICIES[config.eviction], WEIGHTS, turn.now)
    for group_id in victims:
        group = state.groups[group_id]
        if spilling and spills <= 0 and urgent <= 0:
            return
        urgent -= len(group.spec.sizes)
        if spills > 0 and _spill(turn, group):
            spills -= 1
        elif ends.evict(turn, group, Reason.EVICTED) is None:
            turn.count("evictions")


def _urgent(turn: Turn, place: NodeName) -> int:
    """Slots that a `Create` or move wanted in vain and that what is leaving will not give."""
    state = turn.state
    wanted = state.pressure.get(place, 0)
    taken = state.used.get(place, 0) + withheld(state, place) - leaving_slots(turn, place)
    return taken + wanted - capacity_of(turn, place) if wanted else 0


def _moves_from(turn: Turn, place: NodeName) -> int:
    """Live moves whose source lies at `place`: its node works at them, and has a limit on how many."""
    state = turn.state
    sources = state.copies_at.get(place, {})
    return sum(1 for group_id in state.unsettled if state.groups[group_id].source in sources)


def _candidates(turn: Turn, place: NodeName) -> list[Candidate]:
    """Groups whose authoritative copy lies at `place` and that nothing holds, with how many readable children each has."""
    state = turn.state
    children: dict[GroupId, int] = {}
    for group in state.groups.values():
        parent = group.spec.parent
        if parent is not None and group.state in READABLE:
            children[parent] = children.get(parent, 0) + 1
    found = []
    for copy_id, group_id in state.copies_at.get(place, {}).items():
        if copy_id in state.pinned or group_id in state.referred:
            continue
        group = state.groups[group_id]
        if group.state is not State.LOCAL and group.state is not State.REMOTE:
            continue
        copies = state.copies[group_id]
        if _may_go(state, copies, copy_id):
            found.append(_candidate(state, group, copies, children.get(group_id, 0)))
    return found


def _may_go(state: DirectoryState, copies: tuple[Copy, ...], copy_id: CopyId) -> bool:
    for copy in copies:
        if copy.id == copy_id:
            if copy.role is not Role.AUTHORITATIVE or copy.absent:
                return False
        elif is_readable(copy) and copy.id in state.pinned:
            return False
    return True


def _candidate(state: DirectoryState, group: Group, copies: tuple[Copy, ...], children: int) -> Candidate:
    spec = group.spec
    access = state.access.get(group.id)
    touch, last_ms, count = (access.touch, access.last_ms, access.count) if access is not None else (0, 0, 0)
    return Candidate(
        group.id, len(spec.sizes), touch, last_ms, count, group.created, spec.ttl_ms, spec.recompute_cost, spec.priority,
        0, len(copies) - 1, children, spec.parent,
    )  # fmt: skip


def _spill(turn: Turn, group: Group) -> bool:
    """Move a victim to a remote store with room, if configured. False: it has to be evicted."""
    if group.state is not State.LOCAL:
        return False
    slots = len(group.spec.sizes)
    for store in turn.config.stores:
        if has_room(turn, store.name, slots) and migration.begin(turn, group, store.name, cause=Cause.PRESSURE) is None:
            turn.count("spills")
            return True
    return False
