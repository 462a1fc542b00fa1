"""Questions that change nothing: Locate, Describe, List, Status (design section 5). `Explain` is in `core/explain.py`."""

from __future__ import annotations

from . import capacity, reading
from .answers import (
    CopyLine,
    Described,
    GroupLine,
    HoldLine,
    Listed,
    Located,
    NodeLine,
    QueryAnswer,
    Refused,
    Route,
    StatusReport,
)
from .commands import Describe, ListGroups, Locate, Status
from .errors import Refusal
from .ids import GroupId, NodeName, Peer, SessionId, Tier
from .ledger import NO_COPIES, authority_of
from .state import Access, Copy, Group, Hold
from .turn import Turn


def locate(turn: Turn, event: Locate) -> QueryAnswer:
    """The longest readable run, or each readable group of those asked for. Notes the use unless `touch` is off."""
    state = turn.state
    if len(event.groups) > turn.config.locate_groups_max:
        return Refused(
            Refusal("TooLarge", f"at most {turn.config.locate_groups_max} groups", guard="locate_groups_max"), turn.revision
        )
    routes: list[Route] = []
    stop, stop_state = GroupId(b""), -1
    for group_id in event.groups:
        group = state.groups.get(group_id)
        copy = reading.readable_copy(turn, group_id, event.near) if group is not None else None
        if group is not None and copy is not None:
            routes.append(reading.route(turn, group, copy))
            if event.touch:
                reading.touch(turn, group_id)
        elif not stop:
            stop, stop_state = group_id, -1 if group is None else int(group.state)
            if event.prefix:
                break
    return Located(tuple(routes), stop, stop_state)


def describe(turn: Turn, event: Describe) -> QueryAnswer:
    state = turn.state
    group = state.groups.get(event.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    copies = state.copies.get(group.id, NO_COPIES)
    holds = [hold for copy in copies for hold in turn.holds_on(copy.id)]
    holds += turn.holds_on(group.id)
    access = state.access.get(group.id) or Access(0, 0, 0)
    lines = [_hold_line(turn, state.holds[hold]) for hold in sorted(holds)]
    return Described(
        group.spec, group.state, group.epoch, group.version, group.reason, group.manifest, group.target, group.source,
        group.cause, group.leaving, tuple(_copy_line(turn, copy) for copy in copies), tuple(lines), access.last_ms, access.count,
    )  # fmt: skip


def _hold_line(turn: Turn, hold: Hold) -> HoldLine:
    session = turn.state.sessions.get(SessionId(hold.id.session))
    return HoldLine(hold.id, hold.kind, hold.copy, hold.request, session.name if session is not None else "")


def _copy_line(turn: Turn, copy: Copy) -> CopyLine:
    tier = turn.state.hints.get(copy.id, copy.tier)
    return CopyLine(copy.id, copy.node, tier, copy.role, copy.absent, turn.state.pinned.get(copy.id, 0), copy.store)


def list_groups(turn: Turn, event: ListGroups) -> QueryAnswer:
    """A page in id order. Request, block and node filters go through the indexes; the rest is compared."""
    state = turn.state
    if not 1 <= event.limit <= turn.config.list_max:
        return Refused(Refusal("BadRequest", f"a page has 1 to {turn.config.list_max} groups", guard="list_max"), turn.revision)
    if event.request:
        ids = list(state.by_request.get(event.request, ()))
    elif event.block:
        ids = list(state.by_block.get(event.block, ()))
    elif event.node:
        ids = list(dict.fromkeys(state.copies_at.get(event.node, {}).values()))
    else:
        ids = list(state.groups)
    found = [group_id for group_id in ids if group_id > event.after and _passes(turn, state.groups[group_id], event)]
    found.sort()
    page = found[: event.limit]
    return Listed(tuple(_group_line(turn, state.groups[group_id]) for group_id in page), len(found) > len(page))


def _passes(turn: Turn, group: Group, event: ListGroups) -> bool:
    key = group.spec.key
    if event.tenant not in ("", key.tenant) or event.model not in ("", key.model):
        return False
    if event.request not in ("", group.spec.request) or (event.block and event.block not in group.spec.block_ids):
        return False
    return not event.node or any(copy.node == event.node for copy in turn.state.copies.get(group.id, NO_COPIES))


def _group_line(turn: Turn, group: Group) -> GroupLine:
    state = turn.state
    copies = state.copies.get(group.id, NO_COPIES)
    authority = authority_of(copies)
    node, tier = NodeName(""), Tier.DRAM
    if authority is not None:
        node, tier = authority.node, state.hints.get(authority.id, authority.tier)
    key = group.spec.key
    return GroupLine(
        group.id, group.state, group.epoch, group.version, node, tier,
        len(copies), sum(state.pinned.get(copy.id, 0) for copy in copies), state.referred.get(group.id, 0),
        group.spec.size_bytes, len(group.spec.sizes), key.tenant, key.model, key.prefix,
    )  # fmt: skip


def status(turn: Turn, event: Status) -> QueryAnswer:
    state = turn.state
    lines = [_node_line(turn, name) for name in sorted(state.nodes)]
    lines += [_store_line(turn, store.name) for store in turn.config.stores]
    counters = tuple(sorted(state.counters.items()))
    return StatusReport(
        tuple(lines), len(state.sessions), len(state.groups), sum(1 for hold in state.holds.values() if not hold.lost),
        turn.now, state.meta.store_id, counters,
    )  # fmt: skip


def _node_line(turn: Turn, name: NodeName) -> NodeLine:
    state = turn.state
    node = state.nodes[name]
    link = state.links.get(name)
    ready = link is not None and link.ready
    return NodeLine(
        name, node.address, node.incarnation, node.alive, ready, node.draining, False, node.capacity, state.used.get(name, 0),
        capacity.withheld(state, name), len(state.copies_at.get(name, ())), link.tiers if link is not None else (),
        link.stuck if link is not None else (),
    )  # fmt: skip


def _store_line(turn: Turn, name: NodeName) -> NodeLine:
    state = turn.state
    return NodeLine(
        name, Peer(""), 0, True, True, False, True, capacity.capacity_of(turn, name), state.used.get(name, 0), 0,
        len(state.copies_at.get(name, ())), (), (),
    )  # fmt: skip
