"""Nodes come, renew, lapse, return, drain (rules 7 and 9)."""

from __future__ import annotations

from . import capacity, effects, ends, leases, orders
from .answers import DrainAccepted, ItemAnswer, Refused
from .commands import Drain
from .effects import Send
from .errors import Refusal
from .ids import CopyId, GroupId, NodeName, Peer, Reason, Role
from .ledger import copy_in, facts, happen
from .records import evolve
from .reports import Heartbeat, Register
from .state import Link, Node
from .table import On
from .turn import Turn

ON_RECORD = Peer("")
"""No address of its own: the one on record."""


def register(turn: Turn, event: Register) -> None:
    """Give the registration its incarnation: the same for the same boot while its lease holds, else a new one.

    Of two processes with one name the later registration fences the earlier (rule 9). It must say which one it replaces, so that
    the late word of a boot that has died since replaces nobody.
    """
    state, config = turn.state, turn.config
    if (
        not event.node
        or len(event.node.encode("utf-8", "surrogatepass")) > config.name_chars_max
        or event.capacity < 0
        or event.group_slots < 0
        or event.block_bytes < 0
        or any(s.name == event.node for s in config.stores)
    ):
        turn.count("refused_registrations")
        return
    known = state.nodes.get(event.node)
    if known is not None and known.boot == event.boot and known.alive:
        _welcome(turn, known, event)
        return
    meta = state.meta
    if known is not None and known.boot != event.boot and known.incarnation != event.over:
        notice = orders.NameTaken(meta.shard, meta.term, event.node, event.boot, known.incarnation)
        turn.send.append(Send(event.address, notice))
        turn.count("names_taken")
        return
    if known is not None and known.alive:
        lapse(turn, known)
    incarnation = turn.next_revision()
    draining = known is not None and known.draining
    record = Node(
        event.node, event.address, event.boot, incarnation, event.capacity, event.stores, True, draining, event.group_slots,
        event.block_bytes,
    )  # fmt: skip
    state.nodes[event.node] = record
    state.links[event.node] = Link(0, turn.now, False, event.tiers)
    state.numbers.pop(event.node, None)  # the node counts orders anew in each incarnation
    turn.persist.append((effects.NODES, event.node, record))
    turn.count("registrations")
    if known is not None:
        for other in state.nodes.values():
            if other.alive and other.name != event.node:
                turn.send.append(Send(other.address, orders.PeerGone(meta.shard, meta.term, event.node, known.incarnation)))
    _welcome(turn, record, event)


def _welcome(turn: Turn, node: Node, event: Register) -> None:
    state, config = turn.state, turn.config
    told = evolve(
        node, address=event.address, capacity=event.capacity, stores=event.stores, group_slots=event.group_slots,
        block_bytes=event.block_bytes,
    )  # fmt: skip
    if told != node:
        node = told
        state.nodes[node.name] = node
        turn.persist.append((effects.NODES, node.name, node))
    state.shrunk.pop(node.name, None)
    if state.used.get(node.name, 0) > node.capacity:
        state.shrunk[node.name] = None
    leases.renew_node(turn, node.name)
    turn.wake(turn.now + config.node_lease_ms)
    meta = state.meta
    turn.send.append(
        Send(
            event.address, orders.Registered(meta.shard, meta.term, node.name, event.boot, node.incarnation, config.node_lease_ms)
        )
    )


def heartbeat(turn: Turn, event: Heartbeat) -> None:
    """Renew the lease of the current incarnation; tell others to register again."""
    state = turn.state
    meta = state.meta
    node = state.nodes.get(event.node)
    if node is None or not node.alive or event.incarnation != node.incarnation:
        refuse_incarnation(turn, event.node, event.incarnation, event.address)
        return
    leases.renew_node(turn, node.name)
    link = state.links.get(node.name) or Link()
    same_term = event.term == meta.term
    seen = event.number if same_term else 0
    # An order that the node has not taken for a whole repair interval was lost or dropped: an inventory tells which.
    behind = (
        same_term
        and seen < state.numbers.get(node.name, 0)
        and link.seen == seen
        and turn.now - link.seen_at >= turn.config.repair_ms
    )
    seen_at = link.seen_at if link.seen == seen and not behind else turn.now
    withheld = capacity.withheld(state, node.name)
    state.links[node.name] = Link(seen, seen_at, link.ready, event.tiers, event.stuck)
    if capacity.withheld(state, node.name) > withheld:
        turn.wake(turn.now)
    for name, incarnation in event.peers:
        peer = state.nodes.get(name)
        if peer is not None and peer.incarnation > incarnation:
            turn.send.append(Send(node.address, orders.PeerGone(meta.shard, meta.term, name, incarnation)))
    wanted = not link.ready or not same_term or behind
    turn.send.append(Send(node.address, orders.HeartbeatSeen(meta.shard, meta.term, node.incarnation, wanted)))


def refuse_incarnation(turn: Turn, name: NodeName, incarnation: int, address: Peer = ON_RECORD) -> None:
    """A report of an old incarnation has no effect (FENCE-1). Its sender learns why: replaced for good, or only lapsed."""
    state = turn.state
    node = state.nodes.get(name)
    meta = state.meta
    turn.count("stale_reports")
    if node is None:
        return
    notice: orders.RegisterAgain | orders.FencedOff
    if node.alive and incarnation < node.incarnation:
        notice = orders.FencedOff(meta.shard, meta.term, incarnation, node.boot)
    else:
        notice = orders.RegisterAgain(meta.shard, meta.term, incarnation)
    turn.send.append(Send(address or node.address, notice))


def is_current(turn: Turn, name: NodeName, incarnation: int) -> Node | None:
    """The node, if the report is of its living incarnation."""
    node = turn.state.nodes.get(name)
    if node is None or not node.alive or node.incarnation != incarnation:
        return None
    return node


def lapse(turn: Turn, node: Node) -> None:
    """The lease is over: what was coming or going leaves the record, the rest is absent, holds stay (rule 9)."""
    state, config = turn.state, turn.config
    turn.next_revision()
    lapsed = evolve(node, alive=False)
    state.nodes[node.name] = lapsed
    turn.persist.append((effects.NODES, node.name, lapsed))
    state.node_due.pop(node.name, None)
    leases.lift_node(turn, node.name)
    state.arriving.pop(node.name, None)
    state.links[node.name] = Link(0, turn.now, False)
    turn.count("lapses")
    for copy_id, group_id in tuple(state.copies_at.get(node.name, {}).items()):
        _lapse_copy(turn, copy_id, group_id, config.absent_limit_ms)
    _end_spills(turn, node)


def _lapse_copy(turn: Turn, copy_id: CopyId, group_id: GroupId, limit_ms: int) -> None:
    state = turn.state
    state.ordered.pop(copy_id, None)
    group = state.groups[group_id]
    copy = copy_in(state.copies[group_id], copy_id)
    if copy is None:
        return
    if copy.role is Role.INCOMING:
        ends.end_incoming(turn, group, copy_id, Reason.NODE_LOST, gone=True)
    elif copy.role is Role.FREEING:
        ends.gone(turn, group, copy, Reason.NODE_LOST)
    elif not copy.absent:
        happen(turn, group, On.LAPSE, copy, facts(turn, group, copy, due=turn.now + limit_ms))


def _end_spills(turn: Turn, node: Node) -> None:
    """Moves to a store whose worker is the lapsed node abort: nobody else makes that object. Its steward frees what there is."""
    state = turn.state
    for store in node.stores:
        for copy_id, group_id in tuple(state.copies_at.get(store, {}).items()):
            group = state.groups[group_id]
            if group.target != copy_id:
                continue
            source = copy_in(state.copies[group_id], group.source)
            if source is not None and source.node == node.name:
                ends.end_incoming(turn, group, copy_id, Reason.NODE_LOST)


def drain(turn: Turn, body: Drain) -> ItemAnswer:
    """Mark a node for emptying (or not); housekeeping moves what is there."""
    state = turn.state
    node = state.nodes.get(body.node)
    if node is None:
        return Refused(Refusal("UnknownNode", f"{body.node!r}", guard="known_node"), turn.revision)
    if node.draining != body.on:
        turn.next_revision()
        changed = evolve(node, draining=body.on)
        state.nodes[node.name] = changed
        turn.persist.append((effects.NODES, node.name, changed))
        turn.wake(turn.now)
    return DrainAccepted(node.name, len(state.copies_at.get(node.name, {})), turn.revision)
