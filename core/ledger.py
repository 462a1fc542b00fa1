"""The one place where a group's record changes: look up the row, check its guards, call its body, swap the result in.

`Turn` is one step in progress: the state, the clock, and what will become the `Ready`. Around the record the ledger keeps
what follows from it: indexes, space (CAP-1), holds that ended as LOST, orders, and the groups whose waiters must be looked at.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from . import effects, orders, table
from .effects import Reply, Send, Write
from .errors import InvariantViolation, Refusal
from .ids import NO_COPY, CopyId, GroupId, HoldId, NodeName, Peer, Role, State
from .rows import NOWHERE, Facts, is_readable
from .state import Copy, DirectoryConfig, DirectoryState, Group, GroupRecord, Hold
from .table import On, Row

UNSETTLED = (State.WRITING, State.MIGRATING_OUT, State.MIGRATING_IN, State.EVICTING, State.EVICTED)
NO_COPIES: tuple[Copy, ...] = ()


@define
class Turn:
    """One step in progress. `now` is directory time (ms); the lists become the `Ready`."""

    state: DirectoryState
    config: DirectoryConfig
    now: int
    persist: list[Write] = field(factory=list)
    send: list[Send] = field(factory=list)
    reply: list[Reply] = field(factory=list)
    touched: dict[GroupId, None] = field(factory=dict)
    """Groups whose record changed: their local invariants are checked, and their waiters answered, at the end of the step."""
    revision: int = 0

    def next_revision(self) -> int:
        """The revision of a change that is being made now."""
        self.revision += 1
        return self.revision

    def wake(self, at: int) -> None:
        """A Tick is wanted at `at` (directory time) or earlier."""
        if at < self.state.alarm_at:
            self.state.alarm_at = at

    def count(self, name: str, by: int = 1) -> None:
        counters = self.state.counters
        counters[name] = counters.get(name, 0) + by

    def order(self, node: NodeName, body: orders.Instruction, copy: CopyId) -> int:
        """Send an order under the node's next number; 0 when the node is not alive (repair sends it later, rule 8)."""
        state = self.state
        record = state.nodes.get(node)
        if record is None or not record.alive:
            return 0
        number = state.numbers.get(node, 0) + 1
        state.numbers[node] = number
        if copy is not NO_COPY:
            state.ordered[copy] = number
        meta = state.meta
        self.send.append(Send(record.address, orders.Order(meta.shard, meta.term, record.incarnation, number, body)))
        return number


# ---- looking -------------------------------------------------------------------------------------------------


def authority_of(copies: tuple[Copy, ...]) -> Copy | None:
    """The authoritative copy, absent or not."""
    for copy in copies:
        if copy.role is Role.AUTHORITATIVE:
            return copy
    return None


def copy_in(copies: tuple[Copy, ...], wanted: CopyId) -> Copy | None:
    for copy in copies:
        if copy.id == wanted:
            return copy
    return None


def facts(turn: Turn, g: Group, c: Copy, **known: Any) -> Facts:
    """The numbers of a record that rows may see; `known` are the caller's own."""
    state = turn.state
    config = turn.config
    copies = state.copies.get(g.id, NO_COPIES)
    authority = NO_COPY
    absent = False
    promote: Copy | None = None
    readable = readable_pins = others = 0
    for copy in copies:
        if copy.id != c.id:
            others += 1
        if copy.role is Role.AUTHORITATIVE:
            authority, absent = copy.id, copy.absent
        if is_readable(copy):
            readable += 1
            readable_pins += len(state.pinned.get(copy.id, ()))
            if copy.role is Role.REPLICA and copy.id != c.id and (promote is None or copy.id < promote.id):
                promote = copy
    now = turn.now
    values: dict[str, Any] = {
        "revision": turn.revision + 1,
        "now": now,
        "pins": len(state.pinned.get(c.id, ())),
        "readable_pins": readable_pins,
        "refs": len(state.referred.get(g.id, ())),
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
            for hold in state.pinned.get(copy.id, ()):
                return f"{hold} on {copy.id}"
    if reason == "Referenced":
        for hold in state.referred.get(g.id, ()):
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
    for copy in listed:
        was = copy_in(before, copy.id) if before else None
        if was is not copy:
            _follow(turn, after, was, copy)
    for copy in before:
        if copy_in(listed, copy.id) is None:
            _left(turn, copy)
    now_in = after.state
    if now_in is State.LOCAL or now_in is State.REMOTE:
        if not after.leaving:
            state.unsettled.pop(group, None)
            return
    elif (now_in is State.EVICTING or now_in is State.EVICTED) and group in state.referred:
        for hold in tuple(state.referred[group]):
            lose(turn, hold)
    if now_in is State.EVICTED:
        turn.wake(turn.now)
    state.unsettled[group] = None


def _follow(turn: Turn, g: Group, was: Copy | None, copy: Copy) -> None:
    """Index a copy that is new or has changed, and order what its new role needs."""
    state = turn.state
    if copy.due:
        state.timed[copy.id] = g.id
        turn.wake(copy.due)
    else:
        state.timed.pop(copy.id, None)
    if was is None:
        state.group_of[copy.id] = g.id
        state.copies_at.setdefault(copy.node, {})[copy.id] = g.id
        state.used[copy.node] = used = state.used.get(copy.node, 0) + copy.slots
        node = state.nodes.get(copy.node)
        if node is None or used * 1000 > turn.config.high * node.capacity:
            turn.wake(turn.now)
        order_making(turn, g, copy)
    elif copy.role is Role.FREEING and was.role is not Role.FREEING:
        for hold in tuple(state.pinned.get(copy.id, ())):
            lose(turn, hold)
        order_freeing(turn, copy)


def _left(turn: Turn, copy: Copy) -> None:
    state = turn.state
    for hold in tuple(state.pinned.get(copy.id, ())):
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
        state.by_block.setdefault(block, {})[g.id] = None


def unindex(state: DirectoryState, g: Group) -> None:
    drop_from(state.by_request, g.spec.request, g.id)
    for block in g.spec.block_ids:
        drop_from(state.by_block, block, g.id)


def drop_from(index_map: dict[Any, dict[Any, None]], key: Any, item: Any) -> None:
    """Take `item` out of `index_map[key]`, and the key out with its last item."""
    inner = index_map.get(key)
    if inner is not None:
        inner.pop(item, None)
        if not inner:
            del index_map[key]


# ---- orders --------------------------------------------------------------------------------------------------


def order_making(turn: Turn, g: Group, copy: Copy) -> None:
    """Order an INCOMING copy to be made: reserved for its writer, fetched, or spilled to a store by the source's node."""
    state = turn.state
    if g.state is State.WRITING:
        session = state.sessions.get(g.writer)
        if session is not None:
            turn.order(copy.node, orders.Reserve(copy.id, g.spec, copy.tier, session.client), copy.id)
        return
    copies = state.copies[g.id]
    source = authority_of(copies)
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


# ---- holds that end by loss ----------------------------------------------------------------------------------


def lose(turn: Turn, hold_id: HoldId) -> None:
    """A hold ends as LOST: it no longer counts, and stays as a record until its holder has heard (rule 2)."""
    state = turn.state
    hold = state.holds[hold_id]
    uncount(turn, hold)
    marked = Hold(hold.id, hold.kind, hold.group, hold.copy, hold.request, True)
    state.holds[hold_id] = marked
    state.lost.setdefault(_session(hold_id), {})[hold_id] = None
    turn.persist.append((effects.HOLDS, hold_id, marked))
    turn.count("holds_lost")


def _session(hold: HoldId) -> Any:
    return hold.session


def count_in(state: DirectoryState, hold: Hold) -> None:
    """Enter a live hold into the counts."""
    if hold.copy is NO_COPY or hold.copy == NO_COPY:
        counts: dict[Any, dict[HoldId, None]] = state.referred
        key: Any = hold.group
    else:
        counts, key = state.pinned, hold.copy
    inner = counts.get(key)
    if inner is None:
        counts[key] = {hold.id: None}
    else:
        inner[hold.id] = None


def uncount(turn: Turn, hold: Hold) -> None:
    """Take a hold that ends out of the counts. Whoever waits for that (an evict, a retiring copy, room) is looked at next."""
    state = turn.state
    if state.timed or state.unsettled or state.strained:
        _wake_for(turn, hold)
    if hold.copy == NO_COPY:
        drop_from(state.referred, hold.group, hold.id)
    else:
        drop_from(state.pinned, hold.copy, hold.id)


def _wake_for(turn: Turn, hold: Hold) -> None:
    group = turn.state.groups.get(hold.group)
    if (
        turn.state.strained
        or hold.copy in turn.state.timed
        or (group is not None and (group.leaving or group.state is State.EVICTED))
    ):
        turn.wake(turn.now)
