"""The invariants of design section 7 as named functions (`specs/invariants.md` says where each is checked and what kills it).

Three shapes: `check_group` on one record, after every step that touched it; `check_all` on a whole directory, every N steps and at
the end of runs; `check_progress` on two states of one directory, for what may never go back. Those of a node are in
`core/node_invariants.py`. Each raises `InvariantViolation` with its id; nobody catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from attrs import define

from . import node_invariants as node
from .errors import InvariantViolation
from .ids import NO_COPY, GroupId, Reason, Role, State
from .ledger import NO_COPIES, UNSETTLED, authority_of, copy_in
from .rows import can_be_heir, is_readable
from .state import Copy, DirectoryConfig, DirectoryState, Group, Lease
from .table import MOVING, READABLE


def _fail(invariant: str, what: str, state: DirectoryState, group_id: GroupId | None = None) -> None:
    story: list[str] = []
    if group_id is not None:
        group = state.groups.get(group_id)
        if group is not None:
            story.append(
                f"group {group_id.hex()[:8]} {group.state.name} epoch {group.epoch} version {group.version} "
                f"target {group.target} source {group.source} reason {group.reason.name}"
            )
        story += [
            f"copy {copy.id} {copy.role.name}{' absent' if copy.absent else ''} at {copy.node}, pins {state.pinned.get(copy.id, 0)}"
            for copy in state.copies.get(group_id, NO_COPIES)
        ]
    raise InvariantViolation(invariant, what, tuple(story))


# ---- local to a record ---------------------------------------------------------------------------------------


def one_authority(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """COPY-2: exactly one authoritative copy where the state says so, at the kind of place that the state says."""
    found = [copy for copy in copies if copy.role is Role.AUTHORITATIVE]
    carried = g.state in MOVING and g.source == NO_COPY
    wanted = 1 if g.state in READABLE and not carried else 0
    if len(found) != wanted:
        _fail("COPY-2", f"{g.state.name} with {len(found)} authoritative copies", state, g.id)
    if found and found[0].store is not (g.state in (State.REMOTE, State.MIGRATING_IN)):
        _fail("COPY-2", f"{g.state.name}, but the authoritative copy is at {found[0].node}", state, g.id)


def one_owner(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """OWN-1: the owner of (group, epoch) is the node of the one authoritative copy; nobody else answers for it."""
    owners = {(copy.node, copy.incarnation) for copy in copies if copy.role is Role.AUTHORITATIVE and not copy.store}
    if len(owners) > 1:
        _fail("OWN-1", f"owners {sorted(owners)}", state, g.id)


def live_move(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """MOVE-1: a move names its two copies, and they are what it says; nothing moves in a state that does not."""
    target = copy_in(copies, g.target)
    if (g.state is State.WRITING or g.state in MOVING) != (target is not None and target.role is Role.INCOMING):
        _fail("MOVE-1", "the target does not fit the state", state, g.id)
    if g.target != NO_COPY and target is None:
        _fail("MOVE-1", "the target is not in the list", state, g.id)
    source = copy_in(copies, g.source)
    if g.source != NO_COPY and (g.state not in MOVING or source is None or source.role is not Role.AUTHORITATIVE):
        _fail("MOVE-1", "the source is not the authoritative copy of a moving group", state, g.id)
    if g.state in (State.EVICTING, State.EVICTED) and any(copy.role is Role.INCOMING for copy in copies):
        _fail("MOVE-1", "something is being made of a group that is going", state, g.id)
    if g.state is State.EVICTED and copies:
        _fail("MOVE-1", "EVICTED with copies", state, g.id)


def readable_is_sealed(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """COPY-1: nothing is readable without the manifest hash that its node verified."""
    if any(is_readable(copy) for copy in copies) and (g.state not in READABLE or not g.manifest):
        _fail("COPY-1", "a readable copy of a group that is not sealed", state, g.id)


def ids_are_unique(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """COPY-3: a copy id names one holding, is not newer than the revision, and is indexed under its group alone."""
    for copy in copies:
        if copy.id.revision > state.meta.revision or state.group_of.get(copy.id) != g.id:
            _fail("COPY-3", f"{copy.id} is newer than the directory or indexed elsewhere", state, g.id)
    if len({copy.id for copy in copies}) != len(copies):
        _fail("COPY-3", "a copy id twice in one list", state, g.id)


def held_is_not_freed(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """USE-1, MOVE-2: a copy with a hold is not FREEING; only copies that keep bytes can be absent."""
    for copy in copies:
        if copy.role is Role.FREEING and copy.id in state.pinned:
            _fail("USE-1", f"{copy.id} is FREEING under a pin", state, g.id)
        if copy.absent and copy.role in (Role.INCOMING, Role.FREEING):
            _fail("MOVE-2", f"{copy.id} is {copy.role.name} and absent", state, g.id)


def numbers_rise(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """EPOCH-1: an epoch is a revision that has been; the version counts changes."""
    if not 0 <= g.epoch <= state.meta.revision or g.version < 1:
        _fail("EPOCH-1", f"epoch {g.epoch} at revision {state.meta.revision}", state, g.id)


def leaving_is_readable(state: DirectoryState, g: Group, copies: tuple[Copy, ...]) -> None:
    """HOLD-1: only a group that can still be read can be waited out."""
    if g.leaving and g.state not in READABLE:
        _fail("HOLD-1", f"leaving in {g.state.name}", state, g.id)


LOCAL: Final = (
    one_authority,
    one_owner,
    live_move,
    readable_is_sealed,
    ids_are_unique,
    held_is_not_freed,
    numbers_rise,
    leaving_is_readable,
)


def check_group(state: DirectoryState, group_id: GroupId) -> None:
    """All invariants that one record can show. A record that was forgotten shows none."""
    group = state.groups.get(group_id)
    if group is not None:
        copies = state.copies.get(group_id, NO_COPIES)
        for check in LOCAL:
            check(state, group, copies)


# ---- the whole directory -------------------------------------------------------------------------------------


def space_adds_up(state: DirectoryState, config: DirectoryConfig) -> None:
    """CAP-1, directory side: used = sum over listed copies, and not above capacity."""
    used: dict[Any, int] = {}
    for copies in state.copies.values():
        for copy in copies:
            used[copy.node] = used.get(copy.node, 0) + copy.slots
    if used != state.used:
        _fail("CAP-1", f"used {state.used}, recounted {used}", state)
    capacity = {store.name: store.capacity for store in config.stores if store.name not in state.shrunk}
    capacity.update({name: node.capacity for name, node in state.nodes.items() if node.alive and name not in state.shrunk})
    for name, limit in capacity.items():
        if used.get(name, 0) > limit:
            _fail("CAP-1", f"{name}: {used[name]} slots used of {limit}", state)


def holds_add_up(state: DirectoryState, config: DirectoryConfig) -> None:
    """HOLD-1, HOLD-2: counts equal live records; each names what is in a record; each has a live session."""
    pins: dict[Any, int] = {}
    refs: dict[Any, int] = {}
    for hold_id, hold in state.holds.items():
        if hold_id.session not in state.sessions:
            _fail("HOLD-2", f"{hold_id} has no session", state)
        if hold.lost:
            continue
        if hold.group not in state.groups:
            _fail("HOLD-1", f"{hold_id} names a group that is in no record", state)
        if hold.copy == NO_COPY:
            refs[hold.group] = refs.get(hold.group, 0) + 1
        else:
            pins[hold.copy] = pins.get(hold.copy, 0) + 1
            if copy_in(state.copies[hold.group], hold.copy) is None:
                _fail("HOLD-1", f"{hold_id} names {hold.copy}, which is in no record", state, hold.group)
    if pins != state.pinned or refs != state.referred:
        _fail("HOLD-1", "counts differ from live hold records", state)


def answers_add_up(state: DirectoryState, config: DirectoryConfig) -> None:
    """ONCE-1: each session keeps exactly the answers from `low` to its last applied number."""
    for session, (applied, low) in state.progress.items():
        if session not in state.sessions:
            _fail("ONCE-1", f"progress of a session {session} that has ended", state)
        if any((session, number) not in state.answers for number in range(low, applied + 1)):
            _fail("ONCE-1", f"session {session} lacks an answer between {low} and {applied}", state)
    if len(state.answers) != sum(applied + 1 - low for applied, low in state.progress.values() if applied):
        _fail("ONCE-1", "answers outside of every window", state)


def indexes_agree(state: DirectoryState, config: DirectoryConfig) -> None:
    """DUR-1: the indexes are what a restart would rebuild from the facts, and what is remembered beside them is about what is there:
    tables that only grew would outlive every bound."""
    at: dict[Any, dict[Any, Any]] = {}
    group_of = {}
    timed = {}
    for group_id, copies in state.copies.items():
        for copy in copies:
            at.setdefault(copy.node, {})[copy.id] = group_id
            group_of[copy.id] = group_id
            if copy.due:
                timed[copy.id] = group_id
    unsettled = {g.id for g in state.groups.values() if g.state in UNSETTLED or g.leaving}
    requests = {(g.spec.request, g.id) for g in state.groups.values() if g.spec.request}
    blocks = {(block, g.id) for g in state.groups.values() for block in g.spec.block_ids}
    pairs = {
        "group_of": (group_of, state.group_of),
        "copies_at": (at, state.copies_at),
        "timed": (timed, state.timed),
        "unsettled": (unsettled, set(state.unsettled)),
        "by_request": (requests, {(key, g) for key, groups in state.by_request.items() for g in groups}),
        "by_block": (blocks, {(key, g) for key, groups in state.by_block.items() for g in groups}),
    }
    for name, (wanted, kept) in pairs.items():
        if wanted != kept:
            _fail("DUR-1", f"index {name} differs from the records", state)
    soft: tuple[tuple[str, Collection[Any], Collection[Any]], ...] = (
        ("ordered", state.ordered, group_of), ("hints", state.hints, group_of), ("access", state.access, state.groups),
    )  # fmt: skip
    for name, remembered, known in soft:
        if any(key not in known for key in remembered):
            _fail("DUR-1", f"{name} remembers what is in no record", state)


def leases_end_as_fixed(state: DirectoryState, config: DirectoryConfig) -> None:
    """DUR-1: each session and each living node has a lease that is counted, and one that a start has fixed ends then."""
    living = {name for name, node in state.nodes.items() if node.alive}
    _leases_of("session", set(state.sessions), state.session_due, state.session_leases, state)
    _leases_of("node", living, state.node_due, state.node_leases, state)


def _leases_of(kind: str, holders: set[Any], counted: dict[Any, int], fixed: dict[Any, Lease], state: DirectoryState) -> None:
    if not fixed.keys() <= holders:
        _fail("DUR-1", f"the lease of a {kind} is fixed that is not there", state)
    if state.last_now is None:
        return  # before its start a directory counts nothing
    if holders != counted.keys():
        _fail("DUR-1", f"the {kind} leases that are counted are not those that there are", state)
    for key, lease in fixed.items():
        if counted[key] != lease.due:
            _fail("DUR-1", f"the lease of {kind} {key} was fixed to {lease.due} and is counted to {counted[key]}", state)


WHOLE: Final = (space_adds_up, holds_add_up, answers_add_up, indexes_agree, leases_end_as_fixed)


def check_all(state: DirectoryState, config: DirectoryConfig) -> None:
    """Every record and the whole."""
    for group_id in state.groups:
        check_group(state, group_id)
    for check in WHOLE:
        check(state, config)


# ---- two states of one directory -----------------------------------------------------------------------------


def check_progress(before: DirectoryState, after: DirectoryState) -> None:
    """EPOCH-1, COPY-3, MOVE-1, MOVE-2, DUR-1: what may never go back, or be given up, between two states of one store, restarts
    included."""
    for name in ("term", "revision", "clock_ms"):
        if getattr(after.meta, name) < getattr(before.meta, name):
            _fail("EPOCH-1", f"{name} went back", after)
    for name, registered in before.nodes.items():
        if name not in after.nodes or after.nodes[name].incarnation < registered.incarnation:
            _fail("EPOCH-1", f"incarnation of {name} went back", after)
    _leases_stay_fixed(before.session_leases, after.session_leases, after)
    _leases_stay_fixed(before.node_leases, after.node_leases, after)
    for group_id, group in before.groups.items():
        later = after.groups.get(group_id)
        if later is None or later.created != group.created:
            continue
        if later.epoch < group.epoch or later.version < group.version:
            _fail("EPOCH-1", "epoch or version went back", after, group_id)
        if later.epoch == group.epoch and (later.state is not group.state or _owner(before, group_id) != _owner(after, group_id)):
            _fail("OWN-1", f"owner or state changed within epoch {group.epoch}", after, group_id)
        if group.state in READABLE:
            _heirs_are_kept(before, after, group, later)
    for copy_id, group_id in after.group_of.items():
        was = copy_in(before.copies.get(group_id, NO_COPIES), copy_id)
        now = copy_in(after.copies[group_id], copy_id)
        if was is None and copy_id.revision <= before.meta.revision:
            _fail("COPY-3", f"{copy_id} came back after it had left", after, group_id)
        if was is not None and was.role is Role.FREEING and now is not None and now.role is not Role.FREEING:
            _fail("COPY-3", f"{copy_id} counts again after FREEING", after, group_id)


def _leases_stay_fixed(was: dict[Any, Lease], now: dict[Any, Lease], state: DirectoryState) -> None:
    """No start gives a lease more than an earlier one has."""
    for key, lease in was.items():
        if now.get(key, lease) != lease:
            _fail("DUR-1", f"the lease of {key} was fixed to {lease.due} and then to {now[key].due}", state)


def _heirs_are_kept(before: DirectoryState, after: DirectoryState, group: Group, later: Group) -> None:
    """No loss is said over an intact copy, and while nothing can be read none is let go."""
    was = {copy.id: copy for copy in before.copies[group.id] if can_be_heir(group, copy)}
    copies = after.copies[group.id]
    if later.state in (State.EVICTING, State.EVICTED) and later.reason is Reason.LOST:
        if any(copy.id in was and can_be_heir(later, copy) for copy in copies):
            _fail("MOVE-1", "a loss is said while an intact copy is there", after, group.id)
    elif later.state in READABLE and not any(map(is_readable, (*before.copies[group.id], *copies))):
        if any(copy.id in was and copy.role is Role.FREEING for copy in copies):
            _fail("MOVE-2", "the last intact copy is let go", after, group.id)


def _owner(state: DirectoryState, group_id: GroupId) -> Any:
    authority = authority_of(state.copies.get(group_id, NO_COPIES))
    return authority.id if authority is not None else None


# ---- the list ------------------------------------------------------------------------------------------------


@define(frozen=True)
class Invariant:
    """One line of the design's list. `checks` are the functions here and in `core/node_invariants.py` that state it; those
    without any are properties of histories and runs, and `where` says what checks them."""

    statement: str
    checks: tuple[Callable[..., None], ...]
    where: str


def _listed() -> dict[str, Invariant]:
    return {
        "OWN-1": Invariant("at most one accepted owner per (group, epoch)", (one_owner, check_progress), "every step; two states"),
        "EPOCH-1": Invariant("epoch, version, revision, term, incarnation never go back", (numbers_rise, check_progress), "every step; two states"),
        "FENCE-1": Invariant("old orders and old reports have no effect", node.NODE_INVARIANTS.get("FENCE-1", ()), "node machine; tests"),
        "INV-1": Invariant("no inventory changes a copy ordered after it was taken, except by presence", (), "transcripts; cluster machine"),
        "COPY-1": Invariant("readable only after verification", (readable_is_sealed, *node.NODE_INVARIANTS.get("COPY-1", ())), "every step"),
        "COPY-2": Invariant("exactly one authoritative copy, verified at its node", (one_authority, *node.NODE_INVARIANTS.get("COPY-2", ())), "every step; quiescence"),
        "COPY-3": Invariant("a copy id names one holding for ever", (ids_are_unique, check_progress), "every step; two states"),
        "BYTES-1": Invariant("bytes returned are the bytes sealed", node.NODE_INVARIANTS.get("BYTES-1", ()), "every read in tests and the main job"),
        "USE-1": Invariant("bytes under a guard are not freed, reused or overwritten", (held_is_not_freed, *node.NODE_INVARIANTS.get("USE-1", ())), "every step"),
        "HOLD-1": Invariant("counts equal live hold records; each ends exactly once", (leaving_is_readable, holds_add_up), "every step; whole state"),
        "HOLD-2": Invariant("every hold has a live session", (holds_add_up,), "whole state"),
        "ONCE-1": Invariant("a repeated command gives the same answer and no second effect", (answers_add_up,), "whole state; tests"),
        "REFUSE-1": Invariant("a refused command leaves everything as it was", (), "product of states and events; tests"),
        "MOVE-1": Invariant("a move is all or nothing", (live_move, check_progress), "every step; two states"),
        "MOVE-2": Invariant("source bytes go only after commit, FREEING durable, holds and guards gone", (held_is_not_freed, check_progress), "every step; two states; cluster machine"),
        "DUR-1": Invariant("nothing leaves before what it rests on is durable", (indexes_agree, leases_end_as_fixed, check_progress), "whole state; two states; store crash points"),
        "CAP-1": Invariant("space is accounted for", (space_adds_up, *node.NODE_INVARIANTS.get("CAP-1", ())), "whole state; every node step"),
        "ROUTE-1": Invariant("a stale route costs bounded attempts and never wrong bytes", (), "client tests; main job"),
        "ANSWER-1": Invariant("every accepted request and waiter gets exactly one answer within a bound", (), "client and cluster machines"),
        "LIVE-1": Invariant("once faults stop, every state reaches quiescence", (), "cluster machine; main job"),
        "DET-1": Invariant("same events, times and seed: same states, effects and order", (), "digest tests under two hash seeds"),
        "LIN-1": Invariant("changes are linearizable per group", (), "revision-stamped answers; client tests"),
    }  # fmt: skip


INVARIANTS: Final[dict[str, Invariant]] = _listed()
"""By id, in the design's order."""
