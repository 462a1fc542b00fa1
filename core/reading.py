"""Pin, Ref, Locate: what readers ask, and where a route comes from (rule 5)."""

from __future__ import annotations

from . import ends, holds, table
from .answers import ItemAnswer, Pinned, PrefixPinned, Referred, Refused, Route
from .commands import Pin, PinPrefix, Ref
from .errors import Refusal
from .ids import NO_COPY, GroupId, HoldId, HoldKind, MovePolicy, NodeName, Peer, Reason, Role, SessionId
from .ledger import NO_COPIES, copy_in, facts
from .rows import NOWHERE, Facts, is_readable
from .state import Access, Copy, Group
from .table import On
from .turn import Turn

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
AUTHORITATIVE = Role.AUTHORITATIVE
HOLDKIND_PIN = HoldKind.PIN
ON_PIN = On.PIN


def touch(turn: Turn, group: GroupId) -> None:
    """Note one use: the order of touches is what LRU goes by."""
    state = turn.state
    state.touches += 1
    access = state.access.get(group)
    state.access[group] = Access(state.touches, turn.now, 1 if access is None else access.count + 1)


def route(turn: Turn, group: Group, copy: Copy) -> Route:
    """The hint that a reader needs to ask the copy's node; a store has no address."""
    spec = group.spec
    address = Peer("") if copy.store else turn.state.nodes[copy.node].address
    hints = turn.state.hints
    tier = hints.get(copy.id, copy.tier) if hints else copy.tier
    return Route(
        group.id, copy.id, copy.node, address, tier, group.epoch, group.manifest, len(spec.sizes), sum(spec.sizes),
        group.target is not NO_COPY and group.target != NO_COPY,
    )  # fmt: skip


def best(readable: list[Copy], near: NodeName) -> Copy:
    """The copy to read: at `near` if there is one, else the authoritative one, else the lowest id. Nodes before stores."""
    first = readable[0]
    if len(readable) == 1:
        return first
    return min(readable, key=lambda copy: (copy.node != near, copy.store, copy.role is not AUTHORITATIVE, copy.id))


def readable_copy(turn: Turn, group: GroupId, near: NodeName) -> Copy | None:
    readable = [copy for copy in turn.state.copies.get(group, NO_COPIES) if is_readable(copy)]
    return best(readable, near) if readable else None


def pin(turn: Turn, session: SessionId, hold: HoldId, body: Pin) -> ItemAnswer:
    state = turn.state
    group = state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    refusal = holds.full(turn, session)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    if body.copy is NO_COPY or body.copy == NO_COPY:
        wanted = readable_copy(turn, group.id, body.near)
        if wanted is None:
            return Refused(_unreadable(turn, group), turn.revision)
    else:
        wanted = copy_in(state.copies.get(group.id, NO_COPIES), body.copy)
        if wanted is None:
            return Refused(Refusal("StaleCopy", f"{body.copy}", f"{group.state.name}/PIN", "copy_is_readable"), turn.revision)
    known = Facts(turn.revision, turn.now, policy=body.policy)
    if body.policy is MovePolicy.CANCEL and allowed(turn, group, ON_PIN, wanted, known) is None:
        group = _without_move(turn, group)
    refusal = pin_copy(turn, hold, group, wanted, known, body.request)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    return Pinned(group.id, route(turn, group, wanted), hold, turn.revision)


def _without_move(turn: Turn, group: Group) -> Group:
    """The group with its live move cancelled, if its source can be read. Called when nothing can refuse any more (REFUSE-1)."""
    if group.state in table.MOVING and group.source != NO_COPY:
        source = copy_in(turn.state.copies[group.id], group.source)
        if source is not None and is_readable(source):
            ends.end_incoming(turn, group, group.target, Reason.CANCELLED)
    return turn.state.groups[group.id]


def _unreadable(turn: Turn, group: Group) -> Refusal:
    word = table.REFUSES[ON_PIN].get(group.state, "Unreadable")
    detail = "" if word != "Unreadable" else f"{group.state.name}, reason {group.reason.name}"
    return Refusal(word, detail, f"{group.state.name}/PIN", "copy_is_readable", "", turn.config.retry_after_ms)


def pin_copy(turn: Turn, hold: HoldId, group: Group, copy: Copy, k: Facts, request: str) -> Refusal | None:
    """Take a PIN on one copy through its table row."""
    refusal = allowed(turn, group, ON_PIN, copy, k)
    if refusal is not None:
        return refusal
    turn.next_revision()
    holds.take(turn, hold, HOLDKIND_PIN, group.id, copy.id, request)
    touch(turn, group.id)
    return None


def allowed(turn: Turn, group: Group, on: On, copy: Copy, k: Facts) -> Refusal | None:
    """The guards of a row whose body changes no field (PIN, REF)."""
    row = table.find(group, on, copy)
    if row is None:
        return Refusal(table.refusal_of(group, on), "", f"{group.state.name}/{on.name}", "legal", "", turn.config.retry_after_ms)
    for guard in row.guards:
        if not guard.check(group, copy, k):
            holder = f"move {group.target}" if guard.refusal == "MoveInProgress" else ""
            return Refusal(guard.refusal, "", row.name, guard.name, holder, turn.config.retry_after_ms)
    return None


def pin_prefix(turn: Turn, session: SessionId, first: HoldId, body: PinPrefix) -> ItemAnswer:
    """Pin the longest run of readable groups from the front; hold ordinals rise from `first`. A run that a limit ends is a run;
    where not even one hold would fit it is refused, so that nobody takes "full" for "not there"."""
    state = turn.state
    limit = turn.config.locate_groups_max
    if len(body.groups) > limit:
        return Refused(Refusal("TooLarge", f"at most {limit} groups", guard="locate_groups_max"), turn.revision)
    refusal = holds.full(turn, session)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    routes: list[Route] = []
    taken: list[HoldId] = []
    known = Facts(turn.revision, turn.now)
    for group_id in body.groups:
        group = state.groups.get(group_id)
        copy = readable_copy(turn, group_id, body.near) if group is not None else None
        if group is None or copy is None or holds.full(turn, session) is not None:
            break
        hold = HoldId(first.session, first.sequence, first.ordinal + len(taken))
        if pin_copy(turn, hold, group, copy, known, body.request) is not None:
            break
        routes.append(route(turn, group, copy))
        taken.append(hold)
    return PrefixPinned(tuple(routes), tuple(taken), turn.revision)


def ref(turn: Turn, session: SessionId, hold: HoldId, body: Ref) -> ItemAnswer:
    group = turn.state.groups.get(body.group)
    if group is None:
        return Refused(Refusal("UnknownGroup", guard="known"), turn.revision)
    refusal = holds.full(turn, session) or allowed(turn, group, On.REF, NOWHERE, facts(turn, group, NOWHERE))
    if refusal is not None:
        return Refused(refusal, turn.revision)
    turn.next_revision()
    holds.take(turn, hold, HoldKind.REF, group.id, NO_COPY, body.request)
    touch(turn, group.id)
    return Referred(group.id, hold, turn.revision)
