"""When a world is at rest: directory, nodes and stores have nothing to do, and agree to the copy (CAP-1, COPY-2, HOLD-2); and
when repair has something to do: a heartbeat, an inventory, a scan."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.ids import NodeName, Role, State
from ..core.ordering import steward_of
from ..core.reports import Condition
from ..core.state import DirectoryState
from .cast import Cast
from .directory_site import DirectorySite
from .memory import Cells
from .node_site import NodeSite

HOME = (State.LOCAL, State.REMOTE)


def why_not(cast: Cast, directory: DirectorySite, nodes: Sequence[NodeSite], store: Cells) -> str:
    """The first thing that still has to happen, or ""."""
    if directory.machine is None:
        return "the directory is down"
    if directory.held:
        return "a commit is under way"
    state = directory.machine.state
    if state.halted:
        return state.halted
    found = _record(state)
    for site in nodes:
        found = found or _node(cast, state, site)
    return found or _stores(cast, state, store)


def _record(state: DirectoryState) -> str:
    if state.holds:
        return f"{next(iter(state.holds))} is held"
    if state.pressure or state.strained:
        return "room is wanted"
    for group_id, group in state.groups.items():
        if group.state not in HOME or group.leaving:
            return f"a group is {group.state.name}"
        for copy in state.copies[group_id]:
            if copy.role not in (Role.AUTHORITATIVE, Role.REPLICA) or copy.absent:
                return f"{copy.id} is {copy.role.name}{' and absent' if copy.absent else ''}"
    return ""


def _node(cast: Cast, state: DirectoryState, site: NodeSite) -> str:
    name = cast.nodes[site.at]
    record = state.nodes.get(cast.node_configs[site.at].name)
    listed = state.copies_at.get(cast.node_configs[site.at].name, {})
    if site.machine is None:
        if record is not None and record.alive:
            return f"{name} is down and nobody has noticed"
        return f"{name} is down and has copies" if listed else ""
    node = site.machine.state
    link = node.links[0]
    if record is None or not record.alive or record.incarnation != link.incarnation or not link.registered:
        return f"{name} is not registered"
    if not state.links[record.name].ready:
        return f"{name} has told no inventory"
    if link.term != state.meta.term:
        return f"{name} does not know the term"
    if site.works or node.jobs or node.unreleased or node.guards:
        return f"{name} has work or guards"
    local = {copy_id for copy_id, copy in node.copies.items() if not copy.store}
    if local != set(listed):
        return f"{name} and its record differ"
    if any(copy.condition is not Condition.VERIFIED for copy in node.copies.values()):
        return f"{name} has a copy that is not verified"
    if record.draining and listed:
        return f"{name} is draining"
    return ""


def _stores(cast: Cast, state: DirectoryState, store: Cells) -> str:
    for name in cast.stores:
        objects = {(cell[1], cell[2]) for cell in store if cell[0] == name}
        listed = {(copy.revision, copy.ordinal) for place, copies in state.copies_at.items() if place == name for copy in copies}
        if objects != listed:
            return f"{name} and its record differ"
    return ""


# ---- repair --------------------------------------------------------------------------------------------------


def node_needs_repair(state: DirectoryState, site: NodeSite) -> bool:
    """Whether a heartbeat or an inventory of this node could tell the directory something, or a reply could tell the node."""
    if site.machine is None:
        return False
    node = site.machine.state
    link = node.links[0]
    name = site.machine.config.name
    record = state.nodes.get(name)
    if record is None or not record.alive or (record.incarnation, state.meta.term) != (link.incarnation, link.term):
        return True
    if not link.registered or not state.links[name].ready:
        return True
    listed = state.copies_at.get(name, {})
    if {copy_id for copy_id, copy in node.copies.items() if not copy.store} != set(listed):
        return True
    for copy_id, group_id in listed.items():
        copy = next(one for one in state.copies[group_id] if one.id == copy_id)
        kept = node.copies[copy_id]
        coming = copy.role is Role.INCOMING
        if copy.absent or copy.role is Role.FREEING or kept.failed or kept.condition is Condition.FREEING:
            return True
        if coming and kept.condition is Condition.VERIFIED:
            return True
    return False


def stores_need(cast: Cast, state: DirectoryState, nodes: Sequence[NodeSite], store: Cells) -> str:
    """What a steward that hears has to do: `repair` frees what the record lets go; then a `scan` finds what is in no record."""
    found = ""
    for name in cast.stores:
        steward = steward_of(state, NodeName(name))
        if not steward or not _hears(state, nodes[cast.node_at[steward]]):
            continue
        machine = nodes[cast.node_at[steward]].machine
        under_way = machine.state.copies if machine is not None else {}
        listed = state.copies_at.get(NodeName(name), {})
        for copy_id, group in listed.items():
            freeing = any(copy.id == copy_id and copy.role is Role.FREEING for copy in state.copies[group])
            if freeing and copy_id not in under_way:
                return "repair"
        known = {(copy_id.revision, copy_id.ordinal) for copy_id in (*listed, *under_way)}
        if any(cell[0] == name and cell[1:3] not in known for cell in store):
            found = "scan"
    return found


def _hears(state: DirectoryState, site: NodeSite) -> bool:
    """Whether orders of this directory have an effect at the node."""
    if site.machine is None:
        return False
    link = site.machine.state.links[0]
    return link.incarnation == state.nodes[site.machine.config.name].incarnation
