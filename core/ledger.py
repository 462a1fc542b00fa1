"""The one place where a group's record changes: look up the row, check its guards, call its body, swap the result in.

Around the record the ledger keeps what follows from it: indexes, space (CAP-1), holds that ended as LOST, orders, and the groups
whose waiters must be looked at.
"""

from __future__ import annotations

from typing import Any

from . import effects, table
from .errors import InvariantViolation, Refusal
from .ids import NO_COPY, CopyId, HoldId, Role, SessionId, State
from .ordering import order_freeing, order_making
from .rows import NOWHERE, Facts, can_be_heir, is_readable
from .state import Copy, DirectoryState, Group, GroupRecord, Hold
from .table import READABLE, On, Row
from .turn import Turn

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
WRITING, LOCAL, MIGRATING_OUT, REMOTE, MIGRATING_IN, EVICTING, EVICTED = State
INCOMING, AUTHORITATIVE, REPLICA, RETIRING, FREEING = Role

UNSETTLED = (WRITING, MIGRATING_OUT, MIGRATING_IN, EVICTING, EVICTED)
NO_COPIES: tuple[Copy, ...] = ()


# ---- looking -------------------------------------------------------------------------------------------------


def authority_of(copies: tuple[Copy, ...]) -> Copy | None:
    """The authoritative copy, absent or not."""
    for copy in copies:
        if copy.role is AUTHORITATIVE:
            return copy
    return None


def copy_in(copies: tuple[Copy, ...], wanted: CopyId) -> Copy | None:
    for copy in copies:
        if copy.id == wanted:
            return copy
    return None


def is_kept(state: DirectoryState, g: Group, c: Copy) -> bool:
    """Does a retiring copy stay after its grace, because nothing else of the group can be read (`rows.not_the_last`)?"""
    return (
        c.role is RETIRING and g.state in READABLE and can_be_heir(g, c) and not any(map(is_readable, state.copies[g.id]))
    )


def facts(turn: Turn, g: Group, c: Copy, **known: Any) -> Facts:
    """The numbers of a record that rows may see; `known` are the caller's own."""
    state = turn.state
    config = turn.config
    copies = state.copies.get(g.id, NO_COPIES)
    authority = NO_COPY
    absent = False
    promote: Copy | None = None
    readable = readable_pins = others = 0
    alive = g.state in READABLE
    for copy in copies:
        if copy.id != c.id:
            others += 1
        if copy.role is AUTHORITATIVE:
            authority, absent = copy.id, copy.absent
        if is_readable(copy):
            readable += 1
            readable_pins += state.pinned.get(copy.id, 0)
        if alive and copy.id != c.id and can_be_heir(g, copy):
            if promote is None or (copy.role, copy.id) < (promote.role, promote.id):
                promote = copy
    now = turn.now
    values: dict[str, Any] = {
        "revision": turn.revision + 1,
        "now": now,
        "pins": state.pinned.get(c.id, 0),
        "readable_pins": readable_pins,
        "refs": state.referred.get(g.id, 0),
        "others": others,
        "readable": readable,
        "promote": promote.id if promote is not None else NO_COPY,
        "promote_store": promote is not None and promote.store,
        "authority": authority,
        "authority_absent": absent,
        "grace_due": now + config.grace_ms,
        "backoff_ms": min(config.backoff_ms << min(g.failures, 20), config.backoff_ms_max),
    }
    values.update(known)
    return Facts(**values)


def refuse(turn: Turn, g: Group, c: Copy, row: Row, guard: table.Guard) -> Refusal:
    """The refusal of one guard, with who stands in the way where that can be named."""
    return Refusal(
        guard.refusal, "", row.name, guard.name, _holder(turn, g, c, guard.refusal), _retry_after(turn, g, guard.refusal)
    )


def _retry_after(turn: Turn, g: Group, reason: str) -> int:
    if reason == "MoveTooSoon":
        return max(1, g.move_after - turn.now)
    return turn.config.retry_after_ms


def _holder(turn: Turn, g: Group, c: Copy, reason: str) -> str:
    state = turn.state
    if reason == "Pinned":
        for copy in state.copies.get(g.id, NO_COPIES):
            for hold in turn.holds_on(copy.id):
                return f"{hold} on {copy.id}"
    if reason == "Referenced":
        for hold in turn.holds_on(g.id):
            return f"{hold}"
    if reason == "MoveInProgress":
        return f"move {g.target}"
    return ""


# ---- changing ------------------------------------------------------------------------------------------------


def happen(turn: Turn, g: Group, on: On, c: Copy, k: Facts) -> Refusal | None:
    """Let `on` happen to `c` of `g`: None, and the record is changed; or a refusal, and nothing is."""
    row = table.find(g, on, c)
    if row is None:
        return Refusal(
            table.refusal_of(g, on),
            "",
            f"{g.state.name}/{on.name}/{c.role.name}",
            "legal",
            _holder(turn, g, c, "MoveInProgress") if g.target != NO_COPY else "",
            turn.config.retry_after_ms,
        )
    for guard in row.guards:
        if not guard.check(g, c, k):
            return refuse(turn, g, c, row, guard)
    turn.next_revision()
    change(turn, g, row, c, k)
    return None


def change(turn: Turn, g: Group, row: Row, c: Copy, k: Facts) -> None:
    """Apply a row whose guards have said yes."""
    state = turn.state
    before = state.copies.get(g.id, NO_COPIES)
    after, subject = row.body(g, c, k)
    if after.state not in row.to:
        raise InvariantViolation("EPOCH-1", f"row {row.name} ended in {after.state.name}, which the table does not allow")
    if len(before) <= 1 and (not before or before[0].id == c.id):
        listed = NO_COPIES if subject is None or subject.id == NO_COPY else (subject,)
    else:
        listed = _listed(state, g, row, c, subject, before, k)
    _swap(turn, before, after, listed)


def _listed(
    state: DirectoryState, g: Group, row: Row, c: Copy, subject: Copy | None, before: tuple[Copy, ...], k: Facts
) -> tuple[Copy, ...]:
    """The list after a row: the copy concerned as its body left it, the others as its `rest` does."""
    rest = row.rest
    listed: list[Copy] = []
    found = False
    for copy in before:
        if copy.id == c.id:
            found = True
            if subject is not None:
                listed.append(subject)
        elif rest is None:
            listed.append(copy)
        else:
            kept = rest(g, c, copy, copy.id in state.pinned, k)
            if kept is not None:
                listed.append(kept)
    if not found and subject is not None and subject.id != NO_COPY:
        listed.append(subject)
    return tuple(listed)


def _swap(turn: Turn, before: tuple[Copy, ...], after: Group, listed: tuple[Copy, ...]) -> None:
    """Put the new record in, and follow each copy that is new, changed or gone."""
    state = turn.state
    group = after.id
    state.groups[group] = after
    state.copies[group] = listed
    turn.persist.append((effects.GROUPS, group, GroupRecord(after, listed)))
    turn.touched[group] = None
    if listed is not before:
        _follow(turn, after, before, listed)
    now_in = after.state
    if (now_in is LOCAL or now_in is REMOTE) and not after.leaving:
        state.unsettled.pop(group, None)
        return
    state.unsettled[group] = None
    if now_in is EVICTING or now_in is EVICTED:
        for hold in turn.holds_on(group):
            lose(turn, hold)
        if now_in is EVICTED:
            turn.wake(turn.now)


def _follow(turn: Turn, g: Group, before: tuple[Copy, ...], listed: tuple[Copy, ...]) -> None:
    """Each copy that is new, changed or gone."""
    for copy in listed:
        was = copy_in(before, copy.id) if before else None
        if was is None:
            _enter(turn, g, copy)
        elif was is not copy:
            _changed(turn, was, copy)
        elif copy.role is RETIRING and copy.due <= turn.now:
            turn.wake(turn.now)  # it may have been kept, and need be no more
    for copy in before:
        if copy_in(listed, copy.id) is None:
            _left(turn, copy)


def _enter(turn: Turn, g: Group, copy: Copy) -> None:
    """Index a copy that is new, count its space, and order it to be made."""
    state = turn.state
    copy_id, place = copy.id, copy.node
    state.group_of[copy_id] = g.id
    here = state.copies_at.get(place)
    if here is None:
        state.copies_at[place] = {copy_id: g.id}
    else:
        here[copy_id] = g.id
    state.used[place] = used = state.used.get(place, 0) + copy.slots
    node = state.nodes.get(place)
    if node is None or used * 1000 > turn.config.high * node.capacity:
        turn.wake(turn.now)
    if copy.due:
        state.timed[copy_id] = g.id
        turn.wake(copy.due)
    order_making(turn, g, copy)


def _changed(turn: Turn, was: Copy, copy: Copy) -> None:
    """A copy in another role, or at another `due`: what waits for it, and what FREEING orders."""
    state = turn.state
    if copy.due:
        state.timed[copy.id] = state.group_of[copy.id]
        turn.wake(copy.due)
    else:
        state.timed.pop(copy.id, None)
    if copy.role is FREEING and was.role is not FREEING:
        if was.role is not INCOMING and copy.id in state.pinned:
            # Pair assertion to the guard `no_pins_on_it`: only a writer's own pin may end by the end of its write.
            raise InvariantViolation("USE-1", f"{copy.id} would be freed under {', '.join(map(str, turn.holds_on(copy.id)))}")
        for hold in turn.holds_on(copy.id):
            lose(turn, hold)
        order_freeing(turn, copy)


def _left(turn: Turn, copy: Copy) -> None:
    state = turn.state
    for hold in turn.holds_on(copy.id):
        lose(turn, hold)
    state.timed.pop(copy.id, None)
    state.ordered.pop(copy.id, None)
    state.hints.pop(copy.id, None)
    del state.group_of[copy.id]
    here = state.copies_at[copy.node]
    del here[copy.id]
    if not here:
        del state.copies_at[copy.node]
    left = state.used[copy.node] - copy.slots
    if left:
        state.used[copy.node] = left
    else:
        del state.used[copy.node]


def forget(turn: Turn, g: Group) -> Refusal | None:
    """Delete a record, if its row for DELETE says so: EVICTED, list empty, nobody refers to it."""
    state = turn.state
    row = table.find(g, On.DELETE, NOWHERE)
    if row is None:
        return Refusal(table.refusal_of(g, On.DELETE), "", f"{g.state.name}/DELETE", "legal")
    known = facts(turn, g, NOWHERE)
    for guard in row.guards:
        if not guard.check(g, NOWHERE, known):
            return refuse(turn, g, NOWHERE, row, guard)
    turn.next_revision()
    del state.groups[g.id]
    state.copies.pop(g.id, None)
    state.unsettled.pop(g.id, None)
    state.access.pop(g.id, None)
    unindex(state, g)
    turn.persist.append((effects.GROUPS, g.id, None))
    turn.touched[g.id] = None
    return None


def index(state: DirectoryState, g: Group) -> None:
    """Enter a new record, or a re-created one with other request or blocks, into the look-up maps."""
    if g.spec.request:
        state.by_request.setdefault(g.spec.request, {})[g.id] = None
    for block in g.spec.block_ids:
        known = state.by_block.get(block)
        state.by_block[block] = (g.id,) if known is None else tuple(sorted((*known, g.id)))  # as after a restart


def unindex(state: DirectoryState, g: Group) -> None:
    """Take a record out of the look-up maps again."""
    drop_from(state.by_request, g.spec.request, g.id)
    for block in g.spec.block_ids:
        kept = tuple([group for group in state.by_block[block] if group != g.id])
        if kept:
            state.by_block[block] = kept
        else:
            del state.by_block[block]


def drop_from(index_map: dict[Any, dict[Any, None]], key: Any, item: Any) -> None:
    """Take `item` out of `index_map[key]`, and the key out with its last item."""
    inner = index_map.get(key)
    if inner is not None:
        inner.pop(item, None)
        if not inner:
            del index_map[key]


# ---- holds that end by loss ----------------------------------------------------------------------------------


def lose(turn: Turn, hold_id: HoldId) -> None:
    """A hold ends as LOST: it no longer counts, and stays as a record until its holder has heard (rule 2)."""
    state = turn.state
    hold = state.holds[hold_id]
    uncount(turn, hold)
    marked = Hold(hold.id, hold.kind, hold.group, hold.copy, hold.request, True)
    state.holds[hold_id] = marked
    state.lost.setdefault(SessionId(hold_id.session), {})[hold_id] = None
    turn.persist.append((effects.HOLDS, hold_id, marked))
    turn.count("holds_lost")


def count_in(state: DirectoryState, hold: Hold) -> None:
    """Enter a live hold into the counts."""
    if hold.copy == NO_COPY:
        state.referred[hold.group] = state.referred.get(hold.group, 0) + 1
    else:
        state.pinned[hold.copy] = state.pinned.get(hold.copy, 0) + 1


def uncount(turn: Turn, hold: Hold) -> None:
    """Take a hold that ends out of the counts. Whoever waits for that (an evict, a retiring copy, room) is looked at next."""
    state = turn.state
    if state.timed or state.unsettled or state.strained:
        _wake_for(turn, hold)
    if hold.copy == NO_COPY:
        left = state.referred[hold.group] - 1
        if left:
            state.referred[hold.group] = left
        else:
            del state.referred[hold.group]
        return
    left = state.pinned[hold.copy] - 1
    if left:
        state.pinned[hold.copy] = left
    else:
        del state.pinned[hold.copy]


def _wake_for(turn: Turn, hold: Hold) -> None:
    group = turn.state.groups.get(hold.group)
    if (
        turn.state.strained
        or hold.copy in turn.state.timed
        or (group is not None and (group.leaving or group.state is EVICTED))
    ):
        turn.wake(turn.now)
