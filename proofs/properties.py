"""What must be true after a row: the record-level invariants of `specs/invariants.md`, one function each.

Each takes `(row, view, after)`. Those in `ANY` speak of every copy, by `c` and one arbitrary `o`; those in `NAMED` of what must
exist, by `c` and the copies that the facts name. Together, for each id, they say what `core/invariants.py` checks on a whole
record (`one_authority`, `live_move`, ...) and on two states of it (`check_progress`), and what the design says of one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from pinfold.core.ids import State
from pinfold.core.table import MOVING, READABLE, On, Row

from .given import can_be_read, in_store, is_spare, stays
from .logic import every, implies, no, one_of, some
from .view import (
    AUTHORITATIVE,
    FREEING,
    INCOMING,
    NOBODY,
    NONE,
    REPLICA,
    RETIRING,
    After,
    Any,
    End,
    Named,
    Seen,
    View,
    is_listed,
    is_making,
    names,
    role_before,
)

Property = Callable[[Row, View, After], bool]

ORDER: Final = {
    (INCOMING, AUTHORITATIVE), (INCOMING, REPLICA), (INCOMING, FREEING),
    (AUTHORITATIVE, RETIRING), (AUTHORITATIVE, FREEING),
    (REPLICA, AUTHORITATIVE), (REPLICA, RETIRING), (REPLICA, FREEING),
    (RETIRING, AUTHORITATIVE), (RETIRING, FREEING),
}  # fmt: skip
"""Roles a copy may change to (design section 4): RETIRING may go back, FREEING is final."""


def _is(end: End, role: int) -> bool:
    return every(end.listed, end.role == role)


def _read(end: End) -> bool:
    return every(end.listed, can_be_read(end.role, end.absent))


def _both(row: Row, v: View, after: After) -> tuple[tuple[Seen, int, bool, End], ...]:
    """`(before, its role, was it in the list, after)` of the copy concerned (if any) and of `o`."""
    assert isinstance(v, Any)
    other = (v.o, v.o.role, v.others >= 1, after.others[0])
    if row.on in NOBODY:
        return (other,)
    return (v.c, role_before(row, v.c), is_listed(row), after.c), other


# ---- every copy ----------------------------------------------------------------------------------------------


def ends_where_the_table_says(row: Row, v: View, after: After) -> bool:
    """TABLE: a row ends in one of its states."""
    return after.g.state in row.to


def readable_is_sealed(row: Row, v: View, after: After) -> bool:
    """COPY-1: a readable group has the manifest hash of its content, which only sealing gives it, and a readable copy is of a
    readable group."""
    g = after.g
    readable = g.state in READABLE
    copies = [implies(_read(end), readable) for _, _, _, end in _both(row, v, after)]
    if row.on is On.CREATE:
        return every(*copies, not readable)
    manifest = cast(int, g.manifest)
    return every(*copies, manifest == (v.told if row.on is On.SEALED else v.manifest), manifest != 0 if readable else True)


def authority_where_it_may_be(row: Row, v: View, after: After) -> bool:
    """COPY-2: an authoritative or replica copy only in a readable state, the authority at the kind of place that the state says;
    and of the others only those become authoritative that the facts name."""
    assert isinstance(v, Any)
    state = after.g.state
    ends = [end for _, _, _, end in _both(row, v, after)]
    other = after.others[0]
    return every(
        *[implies(_is(end, AUTHORITATIVE), every(state in READABLE, end.store == in_store(state))) for end in ends],
        *[implies(_is(end, REPLICA), state in READABLE) for end in ends],
        implies(_is(other, AUTHORITATIVE), some(other.n == v.authority, other.n == v.promote)),
    )


def ids_stay(row: Row, v: View, after: After) -> bool:
    """COPY-3: a copy keeps its id, roles change in their order, and FREEING is final. A new copy begins INCOMING."""
    parts = []
    for seen, role, _, end in _both(row, v, after):
        legal = [every(role == a, end.role == b) for a, b in ORDER]
        parts += [end.n == seen.n, implies(end.listed, some(role == end.role, *legal))]
    return every(*parts, after.c.role == INCOMING if row.on in (On.CREATE, On.MOVE, On.REPLICATE) else True)


def one_owner_per_epoch(row: Row, v: View, after: After) -> bool:
    """OWN-1: within an epoch neither the state nor who is authoritative changes, nor the incarnation that owns."""
    parts = [after.g.state is row.state]
    for seen, role, listed, end in _both(row, v, after):
        was = every(listed, role == AUTHORITATIVE)
        parts += [was == _is(end, AUTHORITATIVE), implies(was, seen.incarnation == end.incarnation)]
    return implies(after.g.epoch == v.epoch, every(*parts))


def numbers_rise(row: Row, v: View, after: After) -> bool:
    """EPOCH-1: epoch and version never go back, an epoch is a revision that has been, and a change has a new version."""
    same = row.on in (On.PIN, On.REF, On.DELETE)
    g = after.g
    return every(
        v.epoch <= g.epoch,
        g.epoch <= v.revision,
        g.version >= 1,
        g.version == v.version if same else g.version > v.version,
        g.epoch == v.epoch if same else True,
    )


def move_is_live(row: Row, v: View, after: After) -> bool:
    """MOVE-1: no target and no source but in a state that has them; nothing is made of a group that is going; an EVICTED one has
    no copies; a writer is alone, at a node; and no loss is said while an intact copy is there."""
    g = after.g
    state = g.state
    target, source = g.target.revision, g.source.revision
    parts = [target >= 0 if is_making(state) else target == NONE, True if state in MOVING else source == NONE]
    assert isinstance(v, Any)
    intact = some(every(v.o.role == REPLICA, no(v.o.absent)), is_spare(row.state, v, v.o, v.o.role))
    if row.state in READABLE and row.on is not On.EVICT:
        parts.append(implies(every(v.others >= 1, intact), state not in (State.EVICTING, State.EVICTED)))
    for _, _, _, end in _both(row, v, after):
        parts += [
            implies(every(end.listed, end.n == target), every(end.role == INCOMING, is_making(state))),
            implies(every(end.listed, end.n == source), end.role == AUTHORITATIVE),
        ]
        if state in MOVING:
            parts.append(implies(_is(end, AUTHORITATIVE), end.n == source))
        if state is State.WRITING:
            parts.append(implies(_is(end, INCOMING), every(end.n == target, no(end.store))))
        elif state not in READABLE:
            parts.append(no(_is(end, INCOMING)))
        if state is State.EVICTED:
            parts.append(no(end.listed))
    return every(*parts)


def absent_keeps_bytes(row: Row, v: View, after: After) -> bool:
    """MOVE-2: only copies that keep bytes, at a node, are absent, and an authoritative copy becomes FREEING by an evict alone: a
    source that was moved from retires first, and stays while nothing can be read."""
    parts = []
    for seen, role, listed, end in _both(row, v, after):
        parts.append(implies(every(end.listed, end.absent), every(end.role != INCOMING, end.role != FREEING, no(end.store))))
        parts.append(implies(every(listed, role == AUTHORITATIVE, _is(end, FREEING)), row.on is On.EVICT))
        last = every(listed, v.readable == 0, is_spare(row.state, v, seen, role))
        parts.append(implies(every(last, _is(end, FREEING)), row.on is On.EVICT))
    return every(*parts)


def held_is_not_freed(row: Row, v: View, after: After) -> bool:
    """USE-1: a copy that keeps bytes and has a hold neither becomes FREEING nor leaves, unless it is lost; a copy that is FREEING
    has none."""
    parts = []
    for i, (seen, role, listed, end) in enumerate(_both(row, v, after)):
        held = every(listed, seen.pins > 0, role != INCOMING)
        lost = row.on is On.GONE and i == 0
        parts += [
            implies(held, no(_is(end, FREEING))),
            implies(held, True if lost else end.listed),
            implies(_is(end, FREEING), end.pins == 0),
            implies(end.listed, end.pins >= 0),
        ]
    return every(*parts)


def holds_are_kept(row: Row, v: View, after: After) -> bool:
    """HOLD-1: only a readable group can be waited out; a copy that is being made has no hold but its writer's; a hold that is
    taken counts."""
    state = after.g.state
    parts = [implies(after.g.leaving, state in READABLE)]
    for _, _, _, end in _both(row, v, after):
        parts.append(implies(every(_is(end, INCOMING), end.pins > 0), state is State.WRITING))
    if row.on in (On.PIN, On.CREATE):
        parts.append(every(after.c.listed, after.c.pins == v.c.pins + 1))
    return every(*parts)


def bytes_are_of_this_creation(row: Row, v: View, after: After) -> bool:
    """BYTES-1: what is readable, or may become so, was reserved by the last `Create` or since: older bytes are other bytes. Only
    `Create` says when that was."""
    g = after.g
    ends = [end for _, _, _, end in _both(row, v, after)]
    return every(
        *[implies(every(end.listed, end.role <= REPLICA), end.n >= g.created) for end in ends],
        g.created == (v.revision if row.on is On.CREATE else v.created),
        g.created <= g.epoch,
    )


def space_is_kept(row: Row, v: View, after: After) -> bool:
    """CAP-1: a copy keeps its place and size, and leaves the list only where the design says so: the copy concerned when it is
    gone, given up as gone, or due while absent; another one when an evict drops an absent copy that nobody holds."""
    assert isinstance(v, Any)
    parts = [every(end.slots == seen.slots, end.store == seen.store) for seen, _, _, end in _both(row, v, after)]
    left = every(v.others >= 1, no(after.others[0].listed))
    parts.append(implies(left, every(row.on is On.EVICT, v.o.absent, v.o.pins == 0)))
    if is_listed(row):
        may_go = row.on is On.GONE or (v.gone if row.on is On.ENDED else every(row.on is On.DUE, v.c.absent))
        parts.append(implies(no(after.c.listed), may_go))
    return every(*parts)


def evicting_has_something_to_wait_for(row: Row, v: View, after: After) -> bool:
    """LIVE-1: EVICTING ends with the last copy, so there is one: `c`, or an `o` that stays."""
    assert isinstance(v, Any)
    if after.g.state is not State.EVICTING:
        return True
    counted = v.stay if row.on is On.EVICT else v.others
    witness = every(counted >= 1, stays(v.o)) if row.on is On.EVICT else counted >= 1
    return every(implies(counted == 0, after.c.listed), implies(witness, some(after.c.listed, after.others[0].listed)))


# ---- what must exist -----------------------------------------------------------------------------------------


def exactly_one_authority(row: Row, v: View, after: After) -> bool:
    """COPY-2: exactly one authoritative copy where the state says so: readable, and not carried by a move without its source."""
    ends = [_is(end, AUTHORITATIVE) for end in (after.c, *after.others)]
    state = after.g.state
    wanted = after.g.source.revision >= 0 if state in MOVING else state in READABLE
    return every(one_of(*ends), some(*ends) == wanted)


def move_names_its_copies(row: Row, v: View, after: After) -> bool:
    """MOVE-1: target and source are in the list, in their roles; a move that ends without success leaves the record as it was
    before, or promotes, or says the loss."""
    assert isinstance(v, Named)
    g = after.g
    state = g.state
    ends = (after.c, *after.others)
    target = some(*[every(_is(end, INCOMING), end.n == g.target.revision) for end in ends])
    source = some(*[every(_is(end, AUTHORITATIVE), end.n == g.source.revision) for end in ends])
    parts = [target if is_making(state) else True, implies(g.source.revision >= 0, source)]
    if row.on is On.ENDED and row.state in MOVING and row.role is not None and int(row.role) == INCOMING:
        home = State.LOCAL if row.state is State.MIGRATING_OUT else State.REMOTE
        lost = v.authority < 0
        source_end, promoted = after.others[:2]
        parts += [
            implies(no(lost), every(state is home, _is(source_end, AUTHORITATIVE), source_end.absent == v.a.absent)),
            implies(every(lost, v.promote >= 0), every(state in (State.LOCAL, State.REMOTE), _is(promoted, AUTHORITATIVE))),
            implies(every(lost, v.promote < 0), state in (State.EVICTING, State.EVICTED)),
            g.epoch > v.epoch,
        ]
    return every(*parts)


def last_readable_is_kept(row: Row, v: View, after: After) -> bool:
    """HOLD-1: while somebody refers to the group, no step but a loss gives the last readable copy up."""
    assert isinstance(v, Named)
    if row.on in (On.GONE, On.LAPSE):
        return True
    there = names(row, v)
    was = [every(there[0], no(v.a.absent)), every(there[1], no(v.spare))]
    if is_listed(row):
        was.append(can_be_read(role_before(row, v.c), v.c.absent))
    return implies(every(v.refs > 0, some(*was)), some(*[_read(end) for end in (after.c, *after.others)]))


# ---- the list ------------------------------------------------------------------------------------------------

ANY: Final[dict[str, Property]] = {
    "TABLE": ends_where_the_table_says,
    "OWN-1": one_owner_per_epoch,
    "EPOCH-1": numbers_rise,
    "COPY-1": readable_is_sealed,
    "COPY-2": authority_where_it_may_be,
    "COPY-3": ids_stay,
    "BYTES-1": bytes_are_of_this_creation,
    "USE-1": held_is_not_freed,
    "HOLD-1": holds_are_kept,
    "MOVE-1": move_is_live,
    "MOVE-2": absent_keeps_bytes,
    "CAP-1": space_is_kept,
    "LIVE-1": evicting_has_something_to_wait_for,
}
"""By id: what holds of every copy."""

NAMED: Final[dict[str, Property]] = {
    "COPY-2": exactly_one_authority,
    "MOVE-1": move_names_its_copies,
    "HOLD-1": last_readable_is_kept,
}
"""By id: what exists."""


IDS: Final = tuple(ANY)
"""Every id, in the order of `ANY`; those of `NAMED` are among them."""

ONLY: list[str] = []
"""While not empty: the ids to look at. A contract that is not confirmed is run again id by id, so that a failure has a name."""


def check(invariant: str, row: Row, v: View, after: After) -> bool:
    """What this view can show of one invariant."""
    found = (ANY if isinstance(v, Any) else NAMED).get(invariant)
    return True if found is None else found(row, v, after)


def holds(row: Row, v: View, after: After) -> bool:
    """All of them: the postcondition of every contract."""
    return every(*[check(invariant, row, v, after) for invariant in ONLY or IDS])
