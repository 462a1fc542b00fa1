"""What a row can touch, as a fixed number of numbers: the group, the copy concerned, and others that stand for all the rest.

A record has a list of copies of any length. A row sees none of it: it gets the group `g`, the copy concerned `c`, and the facts
`k` that `ledger.facts` has read off the list; then `rest` is asked about each other copy `o`. So what is true after a row for
*every* copy is true if it is true for `c` and for one `o` of which nothing is known but what the invariants and the facts say
(`Any`); and where something has to *exist* after a row, it is `c` or one of the copies that the facts name: the authoritative
copy `a`, the copy to promote `p`, the target `t` (`Named`). `tests/test_proofs_view.py` checks against real lists and the
real `ledger` that the two views say what the lists say.

Numbers are unbounded. What rows only pass on (spec, node, tier, reason, cause, writer, request) is a constant here; the same
tests read the source of the rows to see that they look into nothing else.
"""

from __future__ import annotations

from typing import cast

from attrs import define

from pinfold.core.commands import Spec
from pinfold.core.ids import Cause, CopyId, GroupId, NodeName, Reason, Role, SessionId, State, Tier
from pinfold.core.rows import NOWHERE, Facts
from pinfold.core.state import Copy, Group
from pinfold.core.table import MOVING, On, Row

NONE = -1
"""The number of `NO_COPY`."""

INCOMING, AUTHORITATIVE, REPLICA, RETIRING, FREEING = (int(role) for role in Role)
ROLES = tuple(Role)

NEW = (On.CREATE, On.MOVE, On.REPLICATE)
"""Events whose copy concerned is made by the step: INCOMING, under the step's revision, not in the list yet."""
NOBODY = (On.REF, On.LEAVE, On.EVICT, On.DELETE)
"""Events without a copy concerned: `c` is `NOWHERE`."""
FACTLESS = (On.PIN, On.SEALED)
"""Events for which the door reads no list: of their facts only those that it names are known."""


NEEDED = frozenset((
    "can_take_over", "copy_is_readable", "is_replica", "no_pins_on_it", "not_last_readable", "not_the_last", "nothing_readable",
    "unreferenced",
))  # fmt: skip
"""The guards on which the invariants of a record rest: of each there is a canary that shows that a proof fails without it. No
proof asks the others. They keep what a caller was promised (an epoch, a policy, a pause, a pin that forbids a move or evict),
room, bytes (`matches_manifest`), or say again what the row's look-up and the callers of `ledger.happen` have made sure of."""


class Id(CopyId):
    """A copy id as a number. A directory gives one copy id per revision, so ids are told apart by it (and `NO_COPY` by -1)."""

    __slots__ = ()
    __hash__ = CopyId.__hash__

    def __eq__(self, other: object) -> bool:
        return self.revision == cast(CopyId, other).revision

    def __ne__(self, other: object) -> bool:
        return self.revision != cast(CopyId, other).revision


@define
class Seen:
    """One copy. `n` is the number of its id, `pins` its live pins; `role` is a number so that it need not be known at once."""

    n: int
    role: int
    slots: int
    incarnation: int
    due: int
    pins: int
    store: bool
    absent: bool


@define
class Base:
    """The group, the facts and the copy concerned. `others` counts the other copies in the list, `stay` those of them that an
    evict keeps in it; the rest is named as in `core/state.py` and `core/rows.py`. `manifest` and `told` (the one that a report
    brings) are 0 for none. `spare`: the copy to promote is a RETIRING one."""

    epoch: int
    version: int
    manifest: int
    told: int
    target: int
    source: int
    created: int
    move_after: int
    failures: int
    others: int
    stay: int
    readable: int
    readable_pins: int
    refs: int
    promote: int
    authority: int
    revision: int
    now: int
    due: int
    grace_due: int
    backoff_ms: int
    wanted_epoch: int
    incarnation: int
    promote_store: bool
    spare: bool
    authority_absent: bool
    leaving: bool
    allow_pinned: bool
    room: bool
    at_target: bool
    gone: bool
    c: Seen


@define
class Any(Base):
    """One other copy of which nothing else is known. It is there if `others` >= 1."""

    o: Seen


@define
class Named(Base):
    """The copies that the facts name: the authority, the copy to promote, the target. Each is there
    if the fact names one and it is not `c`."""

    a: Seen
    p: Seen
    t: Seen


View = Any | Named


@define
class End:
    """One copy after the row: `listed` tells whether it still (or now) is in the list."""

    n: int
    role: int
    slots: int
    incarnation: int
    pins: int
    store: bool
    absent: bool
    listed: bool


@define
class After:
    """The record after the row. `others` are the ends of `o`, or of `a`, `p` and `t`."""

    g: Group
    c: End
    others: tuple[End, ...]


def is_new(row: Row) -> bool:
    return row.on in NEW


def is_listed(row: Row) -> bool:
    """Is the copy concerned in the list before the row?"""
    return row.on not in NEW and row.on not in NOBODY


def role_before(row: Row, c: Seen) -> int:
    """The role of the copy concerned as far as the row fixes it: `find` looks the target's rivals up under REPLICA."""
    if row.on in NEW or row.on in (On.COPY_DONE, On.ENDED):
        return INCOMING
    return c.role if row.role is None else int(row.role)


def role_named(number: int) -> Role:
    """The role of this number (one path for each that is possible)."""
    for role in ROLES[:-1]:
        if number == role:
            return role
    return ROLES[-1]


# ---- the arguments of a row, made from a view ----------------------------------------------------------------


def group_of(row: Row, v: View) -> Group:
    return Group(
        GroupId(b"g"), cast(Spec, "spec"), row.state, v.epoch, v.version, Reason.NONE, cast(bytes, v.manifest),
        Id(0, v.target, 0), Id(0, v.source, 0), Cause.CALLER, v.leaving, SessionId(0), v.created, v.failures, v.move_after,
    )  # fmt: skip


def copy_of(s: Seen, role: Role) -> Copy:
    return Copy(Id(0, s.n, 0), NodeName("node"), s.store, Tier.DRAM, role, s.slots, s.incarnation, s.due, s.absent)


def subject_of(row: Row, v: View) -> Copy:
    """The copy concerned."""
    if row.on in NOBODY:
        return NOWHERE
    return copy_of(v.c, role_named(role_before(row, v.c)))


def facts_of(row: Row, v: View) -> Facts:
    """What the door tells the row. A row of `FACTLESS` is told nothing of the list."""
    told = cast(bytes, v.told)
    if row.on in FACTLESS:
        return Facts(v.revision, v.now, manifest=told)
    return Facts(
        v.revision, v.now, pins=v.c.pins, readable_pins=v.readable_pins, refs=v.refs, readable=v.readable,
        others=v.stay if row.on is On.EVICT else v.others, promote=Id(0, v.promote, 0), promote_store=v.promote_store,
        gone=v.gone, reason=Reason.FAILED, manifest=told, wanted_epoch=v.wanted_epoch, allow_pinned=v.allow_pinned, room=v.room,
        at_target=v.at_target, authority=Id(0, v.authority, 0), authority_absent=v.authority_absent, due=v.due,
        grace_due=v.grace_due, backoff_ms=v.backoff_ms, incarnation=v.incarnation,
    )  # fmt: skip


def allowed(row: Row, v: View) -> bool:
    """Do the guards of the row say yes on which an invariant rests?"""
    g, c, k = group_of(row, v), subject_of(row, v), facts_of(row, v)
    return all(guard.check(g, c, k) for guard in row.guards if guard.name in NEEDED)


# ---- the step ------------------------------------------------------------------------------------------------


def step(row: Row, v: View) -> After:
    """The row's body and rest, as `ledger.change` calls them, and the copies as `ledger` lists them afterwards."""
    g, c, k = group_of(row, v), subject_of(row, v), facts_of(row, v)
    after, subject = row.body(g, c, k)
    takes = 1 if row.on in (On.PIN, On.CREATE) else 0
    if row.on in NOBODY:
        concerned = End(NONE, FREEING, 0, 0, 0, False, False, False)
    else:
        concerned = _end(v.c, subject, role_before(row, v.c), takes)
    if isinstance(v, Any):
        return After(after, concerned, (_other(row, g, c, v.o, None, v.others >= 1, k),))
    there = names(row, v)
    roles = (Role.AUTHORITATIVE, None, Role.INCOMING)
    ends = [_other(row, g, c, s, role, here, k) for s, role, here in zip((v.a, v.p, v.t), roles, there, strict=True)]
    return After(after, concerned, tuple(ends))


def names(row: Row, v: Base) -> tuple[bool, bool, bool]:
    """Are the authority, the copy to promote and the target other copies than `c`?"""
    if is_listed(row):
        return (v.authority >= 0) & (v.authority != v.c.n), v.promote >= 0, (v.target >= 0) & (v.target != v.c.n)
    return v.authority >= 0, v.promote >= 0, v.target >= 0


def _other(row: Row, g: Group, c: Copy, s: Seen, role: Role | None, there: bool, k: Facts) -> End:
    if row.rest is None or not there:
        return End(s.n, s.role if role is None else int(role), s.slots, s.incarnation, s.pins, s.store, s.absent, there)
    known = role_named(s.role) if role is None else role
    return _end(s, row.rest(g, c, copy_of(s, known), s.pins > 0, k), int(known), 0)


def _end(s: Seen, kept: Copy | None, role: int, takes: int) -> End:
    """A copy after the row; its pins end as LOST when it becomes FREEING or leaves (`ledger._changed`, `ledger._left`)."""
    if kept is None:
        return End(s.n, role, s.slots, s.incarnation, 0, s.store, s.absent, False)
    freed = kept.role is Role.FREEING and role != FREEING
    pins = 0 if freed else s.pins + takes
    return End(kept.id.revision, int(kept.role), kept.slots, kept.incarnation, pins, kept.store, kept.absent, True)


def is_moving(state: State) -> bool:
    return state in MOVING


def is_making(state: State) -> bool:
    """Is something being written or moved, so that the record has a target?"""
    return state is State.WRITING or state in MOVING
