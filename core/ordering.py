"""Orders that follow from a copy's role: made, or let go (rules 4 and 8)."""

from __future__ import annotations

from . import orders
from .ids import NodeName, Peer, Role, State
from .state import Copy, DirectoryState, Group
from .turn import Turn

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
WRITING = State.WRITING
AUTHORITATIVE = Role.AUTHORITATIVE


def order_making(turn: Turn, g: Group, copy: Copy) -> None:
    """Order an INCOMING copy to be made: reserved for its writer, fetched, or spilled to a store by the source's node."""
    state = turn.state
    if g.state is WRITING:
        session = state.sessions.get(g.writer)
        if session is not None:
            turn.order(copy.node, orders.Reserve(copy.id, g.spec, copy.tier, session.client), copy.id)
        return
    copies = state.copies[g.id]
    source = next((one for one in copies if one.role is AUTHORITATIVE), None)
    if source is None or source.absent:
        return
    left_ms = max(1, copy.due - turn.now)
    if copy.store:
        body: orders.Instruction = orders.Spill(copy.id, g.spec, g.manifest, source.id, copy.node, left_ms)
        turn.order(source.node, body, copy.id)
        return
    address = Peer("") if source.store else state.nodes[source.node].address
    body = orders.Fetch(copy.id, g.spec, g.manifest, source.id, source.node, address, copy.tier, left_ms)
    turn.order(copy.node, body, copy.id)


def order_freeing(turn: Turn, copy: Copy) -> None:
    """Order a FREEING copy to go, by its node or by its store's steward."""
    if copy.store:
        steward = steward_of(turn.state, copy.node)
        if steward:
            turn.order(steward, orders.FreeObject(copy.id, copy.node), copy.id)
    elif not copy.absent:
        turn.order(copy.node, orders.Free(copy.id), copy.id)


def steward_of(state: DirectoryState, store: NodeName) -> NodeName:
    """The node that acts for a remote store: the first alive one, by name, that can reach it; "" when there is none."""
    alive = [node.name for node in state.nodes.values() if node.alive and store in node.stores]
    return min(alive) if alive else NodeName("")
