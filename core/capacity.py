"""Room: where a new copy goes, and what has to go when there is none (rule 11).

Space counts from the commit that reserves a copy until the copy leaves its record's list, whatever its role (CAP-1). A `Create`
or a move without room is refused and leaves `pressure`, a note that is no fact; the next Tick evicts.
"""

from __future__ import annotations

from . import placement
from .errors import Refusal
from .ids import NodeName, Tier
from .placement import PlaceView
from .state import DirectoryState, Node
from .turn import Turn


def quarantined(state: DirectoryState, node: NodeName) -> int:
    """Slots that the node reports as quarantined: they count until it says otherwise."""
    link = state.links.get(node)
    if link is None or not link.tiers:
        return 0
    return sum([fill.quarantined for fill in link.tiers])


def capacity_of(turn: Turn, place: NodeName) -> int:
    """Slots of a node or store; 0 for an unknown one."""
    node = turn.state.nodes.get(place)
    if node is not None:
        return node.capacity
    for store in turn.config.stores:
        if store.name == place:
            return store.capacity
    return 0


def is_store(turn: Turn, place: NodeName) -> bool:
    return any(store.name == place for store in turn.config.stores)


def usable(turn: Turn, node: NodeName) -> bool:
    """May new copies be placed there: registered, its lease holds, not draining, and its first full inventory is in."""
    record = turn.state.nodes.get(node)
    if record is None or not record.alive or record.draining:
        return False
    link = turn.state.links.get(node)
    return link is not None and link.ready


def takes(node: Node, slots: int) -> bool:
    """Would the node ever take a group of so many slots: is it empty enough when empty, and not too large for one tier?"""
    return slots <= node.capacity and (node.group_slots == 0 or slots <= node.group_slots)


def too_large(turn: Turn, slots: int, place: NodeName) -> Refusal | None:
    """A group that `place` (or, for "", every registered node) would not even take when empty; waiting for room is in vain."""
    nodes = [node for node in turn.state.nodes.values() if place in ("", node.name)]
    if not nodes or any(takes(node, slots) for node in nodes):
        return None
    return Refusal("TooLarge", f"{place or 'every node'} is too small for a group of {slots} slots", guard="group_slots")


def has_room(turn: Turn, place: NodeName, slots: int) -> bool:
    state = turn.state
    return state.used.get(place, 0) + quarantined(state, place) + slots <= capacity_of(turn, place)


def choose(turn: Turn, slots: int, wish: NodeName, prefer: tuple[NodeName, ...], avoid: tuple[NodeName, ...] = ()) -> NodeName:
    """The node for a new copy, "" when nobody has room. Pure but for the counter that turns round robin."""
    state, config = turn.state, turn.config
    if wish and wish not in avoid and usable(turn, wish) and takes(state.nodes[wish], slots) and has_room(turn, wish, slots):
        return wish
    fit = []
    for name, node in state.nodes.items():
        if name not in avoid and usable(turn, name):
            used = state.used.get(name, 0) + quarantined(state, name)
            if used + slots <= node.capacity and takes(node, slots):
                fit.append((node, used))
    if len(fit) <= 1:
        return fit[0][0].name if fit else NodeName("")
    views = [PlaceView(node.name, node.capacity, used, locality=node.name in prefer) for node, used in fit]
    found = placement.place(views, slots, placement.PLACEMENTS[config.placement], None, state.placed, prefer)
    return found if found is not None else NodeName("")


def press(turn: Turn, slots: int, wish: NodeName) -> None:
    """Note that `slots` were wanted in vain, at `wish` or at the node that is easiest to free."""
    state = turn.state
    place = wish if is_store(turn, wish) or (usable(turn, wish) and capacity_of(turn, wish) >= slots) else NodeName("")
    if not place:
        open_nodes = [node for node in state.nodes.values() if usable(turn, node.name) and takes(node, slots)]
        if not open_nodes:
            return
        place = min(open_nodes, key=lambda node: (state.used.get(node.name, 0) * 1000 // max(1, node.capacity), node.name)).name
    state.pressure[place] = max(state.pressure.get(place, 0), slots)
    turn.wake(turn.now)


REMOTE_TIERS = Tier.REMOTE_DRAM


def tier_wish(tier: Tier) -> Tier:
    """Stores are asked for by name; a wish for their tier at a node means its slowest local one."""
    return Tier.SSD if tier >= REMOTE_TIERS else tier
