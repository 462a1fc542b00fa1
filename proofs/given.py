"""What is known before a row: the invariants as a view shows them, what the facts say of the list, and what the door has checked.

`given` is the precondition of every contract. Of the record and the facts it may say only what is true of every record that the
invariants allow, as `ledger.facts` reads it: `tests/test_proofs_view.py` compares it with real lists. `asked` is what the callers
of `ledger.happen` make sure of, event by event.
"""

from __future__ import annotations

from pinfold.core.ids import State
from pinfold.core.table import READABLE, On, Row

from .logic import every, implies, no, some
from .view import (
    AUTHORITATIVE,
    FREEING,
    INCOMING,
    NONE,
    REPLICA,
    RETIRING,
    Any,
    Base,
    Named,
    Seen,
    View,
    is_listed,
    is_making,
    is_moving,
    names,
    role_before,
)


def in_store(state: State) -> bool:
    """Does the authoritative copy lie in a remote store?"""
    return state in (State.REMOTE, State.MIGRATING_IN)


def can_be_read(role: int, absent: bool) -> bool:
    return every(some(role == AUTHORITATIVE, role == REPLICA), no(absent))


def is_spare(state: State, v: Base, s: Seen, role: int) -> bool:
    """Is this a retiring copy that may go back (`rows.can_be_heir`)?"""
    return every(role == RETIRING, no(s.absent), s.n >= v.created, state in READABLE)


def stays(s: Seen) -> bool:
    """Does an evict keep this copy in the list?"""
    return some(no(s.absent), s.pins > 0)


def given(row: Row, v: View) -> bool:
    """Everything that is known before the row, but for its guards."""
    common = every(group_is_sound(row.state, v), asked(row, v), facts_are_sound(row, v))
    if is_listed(row):
        common = every(common, copy_is_sound(row.state, v, v.c, role_before(row, v.c)))
    if isinstance(v, Any):
        return every(common, implies(v.others >= 1, other_is_sound(row, v)))
    return every(common, named_are_sound(row, v))


# ---- the record ----------------------------------------------------------------------------------------------


def group_is_sound(state: State, v: Base) -> bool:
    """The group by itself. While a move lives its source is the authority, or both are lost."""
    move = is_moving(state)
    return every(
        v.epoch >= 0,
        v.epoch < v.revision,
        v.version >= (0 if state is State.EVICTED else 1),
        v.created >= 0,
        v.created <= v.epoch,
        v.target >= 0 if is_making(state) else v.target == NONE,
        v.source == (v.authority if move else NONE),
        v.authority >= NONE if move else v.authority >= 0 if state in READABLE else v.authority == NONE,
        v.manifest != 0 if state in READABLE else True,
        True if state in READABLE else no(v.leaving),
        v.others == 0 if state is State.EVICTED else v.others >= 0,
    )


def copy_is_sound(state: State, v: Base, s: Seen, role: int) -> bool:
    """One listed copy: every invariant that speaks of a single copy, and what the facts say of it."""
    making = role == INCOMING
    authority = role == AUTHORITATIVE
    parts = [
        s.n >= 0,
        s.n < v.revision,
        s.pins >= 0,
        implies(role == FREEING, s.pins == 0),
        implies(s.absent, every(role != INCOMING, role != FREEING, no(s.store))),
        implies(role <= REPLICA, s.n >= v.created),
    ]
    if state in READABLE:
        parts += [
            authority == (s.n == v.authority),
            implies(authority, every(s.absent == v.authority_absent, s.store == in_store(state))),
            implies(making, s.pins == 0),
            implies(s.n == v.target, making) if is_moving(state) else True,
        ]
    elif state is State.WRITING:
        parts += [making == (s.n == v.target), implies(making, no(s.store)), role != AUTHORITATIVE, role != REPLICA]
    else:
        parts += [role >= RETIRING]
    return every(*parts)


# ---- the facts -----------------------------------------------------------------------------------------------


def facts_are_sound(row: Row, v: Base) -> bool:
    """What the facts of a list say of each other, whoever else is in it."""
    listed = is_listed(row)
    readable_c = can_be_read(role_before(row, v.c), v.c.absent) if listed else False
    authority, promote, target = names(row, v)
    readable_a = every(authority, no(v.authority_absent))
    seen = readable_c + readable_a
    unseen = v.others - authority - target
    return every(
        v.stay >= 0,
        v.stay <= v.others,
        v.refs >= 0,
        v.now >= 0,
        v.others >= authority + promote + target,
        implies(v.authority == NONE, no(v.authority_absent)),
        v.authority < v.revision,
        v.target < v.revision,
        implies(no(promote), every(v.promote == NONE, no(v.promote_store), no(v.spare))),
        implies(some(no(promote), v.spare), v.readable == seen),
        implies(
            promote,
            every(
                v.promote < v.revision,
                v.promote >= v.created,
                v.promote != v.authority,
                v.promote != v.target,
                v.promote != v.c.n if listed else True,
                implies(no(v.spare), every(v.readable > seen, v.readable <= seen + unseen)),
            ),
        ),
        True if row.state in READABLE else v.promote == NONE,
        v.readable_pins >= 0,
        implies(readable_c, v.readable_pins >= v.c.pins),
        implies(v.readable == readable_c, v.readable_pins == v.c.pins * readable_c),
        some(listed, v.others >= 1) if row.state is State.EVICTING else True,
    )


def other_is_sound(row: Row, v: Any) -> bool:
    """`o` is in the list: what the invariants and the facts say of it."""
    o = v.o
    listed = is_listed(row)
    authority, promote, target = names(row, v)
    readable_c = can_be_read(role_before(row, v.c), v.c.absent) if listed else False
    readable_o = can_be_read(o.role, o.absent)
    replica = every(o.role == REPLICA, no(o.absent))
    spare = is_spare(row.state, v, o, o.role)
    another_a = every(authority, o.n != v.authority)
    another_p = every(promote, o.n != v.promote)
    another_t = every(target, o.n != v.target)
    return every(
        o.role >= INCOMING,
        o.role <= FREEING,
        o.n != v.c.n if listed else True,
        copy_is_sound(row.state, v, o, o.role),
        implies(replica, every(v.promote >= 0, no(v.spare), v.promote <= o.n)),
        implies(spare, every(v.promote >= 0, implies(v.spare, v.promote <= o.n))),
        implies(o.n == v.promote, every(implies(no(v.spare), replica), implies(v.spare, spare), o.store == v.promote_store)),
        v.others >= 1 + another_a + another_p + another_t,
        v.readable >= readable_c + readable_o + every(another_a, no(v.authority_absent)) + every(another_p, no(v.spare)),
        implies(readable_o, v.readable_pins >= o.pins + v.c.pins * readable_c),
        implies(stays(o), v.stay >= 1),
        implies(no(stays(o)), v.stay < v.others),
    )


def named_are_sound(row: Row, v: Named) -> bool:
    """The copies that the facts name, where they are others than `c`."""
    authority, promote, target = names(row, v)
    state = row.state
    return every(
        implies(authority, every(v.a.n == v.authority, copy_is_sound(state, v, v.a, AUTHORITATIVE))),
        implies(
            promote,
            every(
                v.p.n == v.promote,
                no(v.p.absent),
                v.p.store == v.promote_store,
                implies(no(v.spare), v.p.role == REPLICA),
                implies(v.spare, is_spare(state, v, v.p, v.p.role)),
                copy_is_sound(state, v, v.p, v.p.role),
            ),
        ),
        implies(target, every(v.t.n == v.target, copy_is_sound(state, v, v.t, INCOMING))),
    )


# ---- what the door has checked -------------------------------------------------------------------------------


def asked(row: Row, v: Base) -> bool:
    """What callers of `ledger.happen` make sure of before they let an event happen."""
    on, c = row.on, v.c
    role = role_before(row, c)
    parts = [v.now >= 0, role >= INCOMING, role <= FREEING]
    if on in (On.CREATE, On.MOVE, On.REPLICATE):
        parts += [c.n == v.revision, no(c.absent), c.pins == 0]
    if on is On.CREATE:
        parts.append(no(c.store))  # a writer writes at a node
    if on is On.SEALED:
        parts.append(v.told != 0)  # `reconcile._sealed` refuses a report without a manifest hash
    if on in (On.COPY_DONE, On.ENDED):
        parts.append(c.role == INCOMING)
        parts.append(c.n == v.target if row.role is not None and int(row.role) == INCOMING else c.n != v.target)  # `find`
    if on is On.GONE:
        parts.append(v.gone)
    if on is On.LAPSE:
        parts += [no(c.absent), no(c.store)]  # `membership._lapse_copy`: the copies at a node
    if on is On.DELETE:
        parts.append(v.version >= 1)  # a record without a change was never stored
    return every(*parts)
