"""A node and its directories: registration, heartbeats, inventories, and the gate that orders pass (rules 7 to 9).

One link per shard. `(term, incarnation)` is adopted when it is not lower in either; the last number taken then starts again
at 0, and a full inventory follows, because the directory has to learn what is here before it may rely on absence.
"""

from __future__ import annotations

from .guards import peers_of, stuck_lines
from .ids import NO_COPY, CopyId
from .jobs import tell_again
from .node_state import Copy, Link, NodeConfig, NodeState, fills, readable_place
from .node_turn import Turn
from .orders import FencedOff, HeartbeatSeen, NameTaken, Order, RegisterAgain, Registered
from .records import evolve
from .reports import Heartbeat, Inventory, InventoryEntry, Register
from .requests import CopiesListed, ListCopies


def registered(turn: Turn, event: Registered) -> None:
    """Our registration counts. An answer to another boot or to an older registration is not for us."""
    link = turn.state.links.get(event.shard)
    if link is None or (event.node, event.boot) != (turn.config.name, turn.boot):
        turn.drop()
        return
    if event.incarnation < link.incarnation or event.term < link.term:
        turn.drop()
        return
    if link.registered and (event.term, event.incarnation) == (link.term, link.incarnation):
        turn.drop()
        return
    adopt(turn, link, event.term, event.incarnation)
    link = turn.state.links[event.shard]
    beat_at = turn.now + turn.config.heartbeat_ms
    turn.state.links[event.shard] = evolve(link, registered=True, register_tries=0, heartbeat_at=beat_at)
    turn.inventories[event.shard] = None


def name_taken(turn: Turn, event: NameTaken) -> None:
    """The name is another boot's. We take it over, if we are the newcomer; if we had it before, we have been replaced."""
    link = turn.state.links.get(event.shard)
    ours = (event.node, event.boot) == (turn.config.name, turn.boot) and not turn.state.fenced
    if link is None or not ours or link.registered or event.incarnation <= max(link.over, link.incarnation):
        turn.drop()
    elif link.incarnation:
        turn.state.fenced = True
    else:
        turn.state.links[event.shard] = evolve(link, over=event.incarnation, register_tries=0)
        _register(turn, turn.state.links[event.shard])


def adopt(turn: Turn, link: Link, term: int, incarnation: int) -> None:
    """A new term or incarnation: orders count from its beginning, and a full inventory is due. The same one: nothing."""
    if (term, incarnation) != (link.term, link.incarnation):
        turn.state.links[link.shard] = evolve(link, term=term, incarnation=incarnation, number=0)
        turn.inventories[link.shard] = None


def heartbeat_seen(turn: Turn, event: HeartbeatSeen) -> None:
    link = turn.state.links.get(event.shard)
    if link is None or event.incarnation != link.incarnation or event.term < link.term:
        turn.drop()
        return
    if event.term == link.term and not event.inventory:
        turn.drop()
        return
    adopt(turn, link, event.term, event.incarnation)
    turn.inventories[event.shard] = None


def register_again(turn: Turn, event: RegisterAgain) -> None:
    """Come back under the same boot. Asked twice, it is done once: the interval of `Register` decides about repetition."""
    link = turn.state.links.get(event.shard)
    if link is None or event.incarnation != link.incarnation or event.term < link.term or not link.registered:
        turn.drop()
        return
    turn.state.links[event.shard] = evolve(link, registered=False, register_at=turn.now, register_tries=0)
    _register(turn, turn.state.links[event.shard])


def fenced_off(turn: Turn, event: FencedOff) -> None:
    """Another boot has our name. It is final, whatever shard says so: a node that one shard can't use moves nothing.

    If it is our own boot, we have replaced ourselves and not heard of it: `Registered` was lost or is late (rule 9).
    """
    link = turn.state.links.get(event.shard)
    if link is None or event.incarnation != link.incarnation or turn.state.fenced:
        turn.drop()
    elif event.boot == turn.boot:
        register_again(turn, RegisterAgain(event.shard, event.term, event.incarnation))
    else:
        turn.state.fenced = True


def passes(turn: Turn, order: Order) -> bool:
    """FENCE-1: the current incarnation, and a `(term, number)` above the last taken. Takes the number if so."""
    link = turn.state.links.get(order.shard)
    if turn.state.fenced or link is None or order.incarnation != link.incarnation or link.incarnation == 0:
        return False
    if (order.term, order.number) <= (link.term, link.number):
        return False
    adopt(turn, link, order.term, order.incarnation)
    turn.state.links[order.shard] = evolve(turn.state.links[order.shard], number=order.number)
    return True


# ---- what the node says of itself ----------------------------------------------------------------------------


def drive_links(turn: Turn) -> None:
    """On Tick: register, or beat and tell the inventory, where it is due."""
    turn.state.started = True
    for link in list(turn.state.links.values()):
        if not link.registered:
            if link.register_at <= turn.now:
                _register(turn, link)
            continue
        if link.heartbeat_at <= turn.now:
            _beat(turn, link)
        if link.inventory_at <= turn.now:
            turn.inventories[link.shard] = None


def _register(turn: Turn, link: Link) -> None:
    config = turn.config
    interval = min(config.register_ms << min(link.register_tries, 20), config.register_ms_max)
    turn.state.links[link.shard] = evolve(
        link, register_at=turn.now + interval, register_tries=link.register_tries + 1
    )
    turn.send(
        link.peer,
        Register(
            config.name, turn.boot, config.address, config.capacity, fills(turn.state), config.stores, config.group_slots,
            link.over, config.block_bytes,
        ),
    )


def _beat(turn: Turn, link: Link) -> None:
    config = turn.config
    stuck = stuck_lines(turn.state, turn.now, config.guard_stuck_ms, config.stuck_max)
    turn.state.links[link.shard] = evolve(link, heartbeat_at=turn.now + config.heartbeat_ms)
    turn.send(
        link.peer,
        Heartbeat(
            config.name, link.incarnation, link.term, link.number, fills(turn.state), stuck, config.address,
            peers_of(turn.state, link.shard),
        ),
    )


def speak(turn: Turn) -> None:
    """At the end of a step, per shard: quarantine that has changed, then facts, then the inventory, which is thus never older
    than the facts beside it."""
    for link in list(turn.state.links.values()):
        due = link.shard in turn.inventories and link.registered
        if due:
            for copy in turn.state.copies.values():
                if copy.copy.shard == link.shard and copy.failed:
                    tell_again(turn, copy)  # an inventory can't say "failed"
        if turn.heartbeat and link.registered:
            _beat(turn, link)
        turn.facts(link)
        if due:
            _tell_inventory(turn, turn.state.links[link.shard])


def _tell_inventory(turn: Turn, link: Link) -> None:
    """All local copies of one shard, in parts. Objects in stores are not in it: they are no copies at this node."""
    config = turn.config
    entries = inventory_of(turn.state, config, link.shard)
    snapshot = link.snapshot + 1
    turn.state.links[link.shard] = evolve(
        link, snapshot=snapshot, inventory_at=turn.now + config.inventory_ms
    )
    size = config.inventory_part
    parts = max(1, -(-len(entries) // size))
    for part in range(parts):
        piece = tuple(entries[part * size : (part + 1) * size])
        turn.send(
            link.peer,
            Inventory(config.name, link.incarnation, link.term, link.number, snapshot, part, parts, piece),
        )


def inventory_of(state: NodeState, config: NodeConfig, shard: int, after: CopyId = NO_COPY) -> list[InventoryEntry]:
    """What the node has of one shard, in id order. Objects in stores are not in it: they are no copies at this node."""
    copies = [copy for copy_id, copy in state.copies.items() if copy_id.shard == shard and not copy.store and copy_id > after]
    copies.sort(key=lambda copy: copy.copy)
    return [_entry(config, copy) for copy in copies]


def list_copies(turn: Turn, request: ListCopies) -> None:
    """A page of the inventory of the shard of `after` (`NO_COPY`: shard 0), for audits. A page has at most
    `inventory_part` entries, whatever was asked for; `more` says whether that was all."""
    if request.limit < 1:
        turn.deny(request, "BadRequest", "a page has at least one entry", guard="limit_positive")
        return
    entries = inventory_of(turn.state, turn.config, max(0, request.after.shard), request.after)
    page = tuple(entries[: min(request.limit, turn.config.inventory_part)])
    turn.reply(request.client, CopiesListed(turn.config.name, request.token, page, len(entries) > len(page)))


def _entry(config: NodeConfig, copy: Copy) -> InventoryEntry:
    place = readable_place(copy, config) or (copy.places[0] if copy.places else None)
    tier = config.tiers[0].tier if place is None else place.instance.tier
    slots = sum(len(place.slots) for place in copy.places)
    return InventoryEntry(copy.copy, copy.condition, copy.manifest, tier, slots)
