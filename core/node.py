"""The node machine: owns the bytes of its tiers; one door, `Node.step(event, now) -> Ready`.

Laws:

1. Memory in use is never reused: a slot is free only after nobody touches it and its release is done (USE-1).
2. A copy is readable only after all its bytes were verified against its manifest (COPY-1), and what is read is compared
   before it is given away (BYTES-1).
3. An order has an effect only in the current incarnation and under a number above the last taken (FENCE-1).
4. A refused, late or repeated event changes nothing.

`Ready.persist` is always empty. An instance in a file tier describes itself (copy id, layout, checksums) and is published
durably before its completion arrives, so before anything is reported of it: that is a node's DUR-1. What is in volatile
tiers dies with the boot, and the directory learns that from the next boot's registration. Incarnations and order numbers
come from the directory, and a new boot gets a new incarnation, so a number that was forgotten fences nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import events, freeing, guards, jobs, local_moves, node_io, node_links, orders, requests, shortfall
from .effects import Instance, Ready
from .ids import Reason
from .node_state import Copy, Kind, NodeConfig, NodeState, Place, Stage, Work, new_state, place_of
from .node_turn import Turn
from .records import evolve
from .reports import Condition, InventoryEntry

Handler = Callable[[Turn, Any], None]


class Node:
    """One boot of one node. `boot` names this life of its memory and is never used again (rule 9).

    `InstanceFound` events come before the first `Tick`, which registers.
    """

    def __init__(self, config: NodeConfig, boot: str, state: NodeState | None = None) -> None:
        self.config = config
        self.boot = boot
        self.state = new_state(config) if state is None else state

    def copy(self) -> Node:
        """An independent machine in the same state; cheap, records are shared."""
        return Node(self.config, self.boot, self.state.copy())

    def inventory(self, shard: int = 0) -> list[InventoryEntry]:
        """What this node has of one shard, in id order; for audits."""
        return node_links.inventory_of(self.state, self.config, shard)

    def step(self, event: events.NodeEvent, now: int) -> Ready:
        """Take one event at `now` (ms, the caller's monotonic clock). Raises `TypeError` for what is no event of a node."""
        handler = HANDLERS.get(type(event))
        if handler is None:
            raise TypeError(f"a node takes no {type(event).__name__}")
        turn = Turn(self.state, self.config, self.boot, now)
        handler(turn, event)
        if not turn.quiet:
            local_moves.relieve(turn)
            node_links.speak(turn)
        return turn.ready(alarm_of(self.state))


def alarm_of(state: NodeState) -> int | None:
    """The next instant at which time alone changes something; None once fenced."""
    if state.fenced:
        return None
    instants = [unreleased.at for unreleased in state.unreleased.values() if unreleased.at]
    for link in state.links.values():
        if link.registered:
            instants += [link.heartbeat_at, link.inventory_at]
        else:
            instants.append(link.register_at)
    for job in state.jobs.values():
        instants.append(job.deadline)
        if job.ask_at:
            instants.append(job.ask_at)
    return min(instants, default=None)


# ---- time and the start --------------------------------------------------------------------------------------


def tick(turn: Turn, _event: events.Tick) -> None:
    """Nothing due: nothing happens."""
    freeing.retry_releases(turn)
    jobs.drive_jobs(turn)
    if not turn.state.fenced:
        node_links.drive_links(turn)


def instance_found(turn: Turn, event: events.InstanceFound) -> None:
    """A copy that survived in a file tier. One that does not fit (the tier was made smaller) or is there twice is released:
    bytes that nobody counts would be a leak (CAP-1)."""
    state = turn.state
    if state.started or event.tier not in state.slots:
        turn.drop()
        return
    before = state.copies.get(event.copy)
    if before is not None and place_of(before, event.tier) is not None:
        turn.drop()
        return
    place = turn.allocate(event.copy, len(event.spec.sizes), event.tier)
    if before is not None or place is None:
        extra = Place(Instance(event.copy, event.tier), () if place is None else place.slots, Stage.RETIRING)
        places = (extra,) if before is None else (*before.places, extra)
        copy = before or Copy(event.copy, event.spec, Condition.FREEING, ())
        turn.put(evolve(copy, places=places))
        freeing.settle(turn, event.copy)
        return
    copy = turn.put(Copy(event.copy, event.spec, Condition.VERIFIED, (place,), event.manifest))
    turn.set_place(copy, evolve(place, stage=Stage.VERIFIED))


# ---- orders --------------------------------------------------------------------------------------------------

ORDERS: Final[dict[type, Callable[[Turn, orders.Order, Any], None]]] = {
    orders.Reserve: jobs.take_reserve,
    orders.Fetch: jobs.take_fetch,
    orders.Spill: jobs.take_spill,
    orders.Free: freeing.take_free,
    orders.FreeObject: freeing.take_free_object,
    orders.Scan: freeing.take_scan,
}


def order(turn: Turn, event: orders.Order) -> None:
    """The gate first; what does not pass is unseen."""
    if node_links.passes(turn, event):
        ORDERS[type(event.body)](turn, event, event.body)
    else:
        turn.drop()


# ---- requests ------------------------------------------------------------------------------------------------


def unless_fenced(handler: Handler) -> Handler:
    """A node that was replaced refuses everything."""

    def handle(turn: Turn, request: Any) -> None:
        if turn.state.fenced:
            turn.deny(request, "Fenced", guard="not_fenced")
        else:
            handler(turn, request)

    return handle


# ---- completions ---------------------------------------------------------------------------------------------


def _stored(turn: Turn, work: Work, _event: events.BlocksStored) -> None:
    if work.client:
        node_io.write_stored(turn, work)
    else:
        jobs.fetch_stored(turn, work)


def _verified(turn: Turn, work: Work, event: events.InstanceVerified) -> None:
    if turn.state.copies[work.copy].writer:
        node_io.write_verified(turn, work, event)
    else:
        jobs.fetch_verified(turn, work, event)


def _cloned(turn: Turn, work: Work, event: events.InstanceCloned) -> None:
    if local_moves.is_local(work, work.copy):
        local_moves.moved(turn, work, event)
    else:
        jobs.cloned(turn, work, event)


def _store_failed(turn: Turn, work: Work, event: events.WorkFailed) -> None:
    if work.client:
        node_io.write_failed(turn, work, event)
    else:
        jobs.fetch_failed(turn, work, event)


def _verify_failed(turn: Turn, work: Work, event: events.WorkFailed) -> None:
    if turn.state.copies[work.copy].writer:
        node_io.write_not_verified(turn, work, event)
    else:
        jobs.fetch_failed(turn, work, event)


def _clone_failed(turn: Turn, work: Work, event: events.WorkFailed) -> None:
    if local_moves.is_local(work, work.copy):
        local_moves.not_moved(turn, work, event)
    else:
        jobs.not_cloned(turn, work, event)


def _list_failed(_turn: Turn, _work: Work, _event: events.WorkFailed) -> None:
    """The directory orders scans again until one is told."""


DONE: Final[dict[type, tuple[Kind, Callable[[Turn, Work, Any], None]]]] = {
    events.BlocksStored: (Kind.STORE, _stored),
    events.InstanceVerified: (Kind.VERIFY, _verified),
    events.BlocksLoaded: (Kind.LOAD, node_io.blocks_loaded),
    events.InstanceCloned: (Kind.CLONE, _cloned),
    events.InstanceReleased: (Kind.RELEASE, freeing.released),
    events.StoreListed: (Kind.LIST, freeing.store_listed),
}

FAILED: Final[dict[Kind, Callable[[Turn, Work, events.WorkFailed], None]]] = {
    Kind.STORE: _store_failed,
    Kind.VERIFY: _verify_failed,
    Kind.LOAD: node_io.load_failed,
    Kind.CLONE: _clone_failed,
    Kind.RELEASE: freeing.release_failed,
    Kind.LIST: _list_failed,
}


def done(turn: Turn, event: Any) -> None:
    """A completion. One for work that does not run, or of another kind, is dropped; else the work's guards end first, so that
    its handler sees who else touches the bytes."""
    kind, handler = DONE[type(event)]
    work = turn.state.works.get(event.job)
    if work is None or work.kind is not kind or (kind is not Kind.LIST and work.copy != event.copy):
        turn.drop()
        return
    turn.end(work)
    if kind is Kind.STORE or kind is Kind.CLONE:
        shortfall.had_room(turn, work)
    handler(turn, work, event)


def failed(turn: Turn, event: events.WorkFailed) -> None:
    """Byte work has ended without success; it touches nothing any more. A reason that no work can have counts as FAILED."""
    work = turn.state.works.get(event.job)
    if work is None or (work.kind is not Kind.LIST and work.copy != event.copy):
        turn.drop()
        return
    if event.reason not in (Reason.FAILED, Reason.CORRUPT, Reason.LOST, Reason.NO_SPACE):
        event = evolve(event, reason=Reason.FAILED)
    turn.end(work)
    if event.reason is Reason.NO_SPACE:
        shortfall.fell_short(turn, work)
    FAILED[work.kind](turn, work, event)


HANDLERS: Final[dict[type, Handler]] = {
    events.Tick: tick,
    orders.Order: order,
    orders.Registered: node_links.registered,
    orders.NameTaken: node_links.name_taken,
    orders.HeartbeatSeen: node_links.heartbeat_seen,
    orders.RegisterAgain: node_links.register_again,
    orders.FencedOff: node_links.fenced_off,
    orders.PeerGone: guards.peer_gone,
    requests.Write: unless_fenced(node_io.write),
    requests.EndWrite: unless_fenced(node_io.end_write),
    requests.AbortWrite: unless_fenced(node_io.abort_write),
    requests.Read: unless_fenced(node_io.read),
    requests.NodeStat: unless_fenced(node_io.node_stat),
    requests.ListCopies: unless_fenced(node_links.list_copies),
    requests.Acquire: unless_fenced(guards.acquire),
    requests.Let: unless_fenced(guards.let),
    requests.Blocks: jobs.blocks_came,
    requests.NodeRefused: jobs.peer_refused,
    **dict.fromkeys(DONE, done),
    events.WorkFailed: failed,
    events.ProcessExited: guards.owner_gone,
    events.RegistrationWithdrawn: guards.owner_gone,
    events.WriterUncertain: freeing.writer_uncertain,
    events.QuarantineLifted: freeing.quarantine_lifted,
    events.InstanceFound: instance_found,
    events.PeerUnreachable: jobs.peer_unreachable,
}
