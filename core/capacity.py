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


def withheld(state: DirectoryState, node: NodeName) -> int:
    """Slots that the node reports as quarantined, or as more than its media hold: they count until it says otherwise."""
    link = state.links.get(node)
    if link is None or not link.tiers:
        return 0
    return sum([fill.quarantined + fill.short for fill in link.tiers])


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


Sizes = tuple[int, ...]
"""The blocks of a group, in bytes; each takes a slot."""


def _holds(node: Node, slots: int) -> bool:
    return slots <= node.capacity and (node.group_slots == 0 or slots <= node.group_slots)


def takes(node: Node, sizes: Sizes) -> bool:
    """Would the node ever take this group: has it room when empty, in one tier, and slots in which each block fits?"""
    return _holds(node, len(sizes)) and (node.block_bytes == 0 or max(sizes) <= node.block_bytes)


def too_large(turn: Turn, sizes: Sizes, place: NodeName) -> Refusal | None:
    """A group that `place` (or, for "", every registered node) would not even take when empty; waiting for room is in vain."""
    nodes = [node for node in turn.state.nodes.values() if place in ("", node.name)]
    if not nodes or any(takes(node, sizes) for node in nodes):
        return None
    who, slots = place or "every node", len(sizes)
    if not any(_holds(node, slots) for node in nodes):
        return Refusal("TooLarge", f"{who} is too small for a group of {slots} slots", guard="group_slots")
    largest = max(node.block_bytes for node in nodes if _holds(node, slots))
    what = f"{who} has slots of at most {largest} bytes, and a block of this group has {max(sizes)}"
    return Refusal("TooLarge", what, guard="block_bytes")


def has_room(turn: Turn, place: NodeName, slots: int) -> bool:
    state = turn.state
    return state.used.get(place, 0) + withheld(state, place) + slots <= capacity_of(turn, place)


def choose(turn: Turn, sizes: Sizes, wish: NodeName, prefer: tuple[NodeName, ...], avoid: tuple[NodeName, ...] = ()) -> NodeName:
    """The node for a new copy, "" when nobody has room. Pure but for the counter that turns round robin."""
    state, config, slots = turn.state, turn.config, len(sizes)
    if wish and wish not in avoid and usable(turn, wish) and takes(state.nodes[wish], sizes) and has_room(turn, wish, slots):
        return wish
    fit = []
    for name, node in state.nodes.items():
        if name not in avoid and usable(turn, name):
            used = state.used.get(name, 0) + withheld(state, name)
            if used + slots <= node.capacity and takes(node, sizes):
                fit.append((node, used))
    if len(fit) <= 1:
        return fit[0][0].name if fit else NodeName("")
    views = [PlaceView(node.name, node.capacity, used, locality=node.name in prefer) for node, used in fit]
    found = placement.place(views, slots, placement.PLACEMENTS[config.placement], None, state.placed, prefer)
    return found if found is not None else NodeName("")


def press(turn: Turn, sizes: Sizes, wish: NodeName) -> None:
    """Note that room for a group was wanted in vain, at `wish` or at the node that is easiest to free."""
    state = turn.state
    place = wish if is_store(turn, wish) or (usable(turn, wish) and takes(state.nodes[wish], sizes)) else NodeName("")
    if not place:
        open_nodes = [node for node in state.nodes.values() if usable(turn, node.name) and takes(node, sizes)]
        if not open_nodes:
            return
        place = min(open_nodes, key=lambda node: (state.used.get(node.name, 0) * 1000 // max(1, node.capacity), node.name)).name
    state.pressure[place] = max(state.pressure.get(place, 0), len(sizes))
    turn.wake(turn.now)


REMOTE_TIERS = Tier.REMOTE_DRAM


def tier_wish(tier: Tier) -> Tier:
    """Stores are asked for by name; a wish for their tier at a node means its slowest local one."""
    return Tier.SSD if tier >= REMOTE_TIERS else tier
