"""The rows' bodies and guards: what one table row does to one record. Pure functions of fixed shape.

    guard(g, c, k) -> bool                    may it happen?
    body(g, c, k)  -> (g', c')                the group and the copy concerned; c' None: the copy leaves the list
    rest(g, c, o, held, k) -> o'              any other copy `o` (`held`: it has live pins); None: it leaves the list

`g` is the record's fixed-shape part, `c` the copy concerned (`NOWHERE` when there is none), `k` the numbers that the door read
off the lists. No function here sees a list, so each can be proved for all sizes (the door in `core/ledger.py` iterates).
"""

from __future__ import annotations

from typing import Final

from attrs import define

from .ids import NO_COPY, Cause, CopyId, MovePolicy, NodeName, Reason, Role, SessionId, State, Tier
from .state import Copy, Group

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
WRITING, LOCAL, MIGRATING_OUT, REMOTE, MIGRATING_IN, EVICTING, EVICTED = State
INCOMING, AUTHORITATIVE, REPLICA, RETIRING, FREEING = Role
REASON_NONE = Reason.NONE
CAUSE_CALLER = Cause.CALLER
MOVEPOLICY_SOURCE = MovePolicy.SOURCE
MOVEPOLICY_CANCEL = MovePolicy.CANCEL
MOVEPOLICY_RECOMPUTE = MovePolicy.RECOMPUTE

NOWHERE: Final = Copy(NO_COPY, NodeName(""), False, Tier.DRAM, FREEING, 0)


@define
class Facts:
    """What a row may know besides the group and the copy concerned.

    `revision` is the one this step would get (the new epoch of a decision). `pins`: live pins on the copy concerned;
    `readable_pins`: on all readable copies; `refs`: on the group. `others`: other copies in the list. `readable`: readable
    copies in the list. `promote`: the copy to promote if the authoritative one is lost (NO_COPY: none), `promote_store`: it
    lies in a store. `gone`: the copy concerned is not there any more. `due`: clock value at which what begins here is
    given up, `grace_due`: at which a copy that retires here may be freed.
    """

    revision: int
    now: int = 0
    pins: int = 0
    readable_pins: int = 0
    refs: int = 0
    others: int = 0
    readable: int = 0
    promote: CopyId = NO_COPY
    promote_store: bool = False
    gone: bool = False
    reason: Reason = REASON_NONE
    manifest: bytes = b""
    wanted_epoch: int = 0
    allow_pinned: bool = False
    room: bool = True
    at_target: bool = False
    policy: MovePolicy = MOVEPOLICY_SOURCE
    cause: Cause = CAUSE_CALLER
    authority: CopyId = NO_COPY
    authority_absent: bool = False
    due: int = 0
    grace_due: int = 0
    backoff_ms: int = 0
    incarnation: int = 0
    writer: SessionId = SessionId(0)


# ---- building blocks -----------------------------------------------------------------------------------------


def decided(
    g: Group,
    k: Facts,
    state: State,
    *,
    reason: Reason = REASON_NONE,
    target: CopyId = NO_COPY,
    source: CopyId = NO_COPY,
    failures: int = 0,
    move_after: int = 0,
) -> Group:
    """`g` after an ownership or lifecycle decision: new epoch (EPOCH-1), and no move unless said. An accepted evict goes on
    waiting for as long as there is something to evict."""
    leaving = g.leaving and state is not EVICTING and state is not EVICTED
    return Group(
        g.id, g.spec, state, k.revision, g.version + 1, reason, g.manifest, target, source, k.cause, leaving, g.writer,
        g.created, failures, move_after or g.move_after,
    )  # fmt: skip


def noted(g: Group) -> Group:
    """`g` after a change of its list that is no decision: version rises, epoch stays."""
    return Group(
        g.id, g.spec, g.state, g.epoch, g.version + 1, g.reason, g.manifest, g.target, g.source, g.cause, g.leaving, g.writer,
        g.created, g.failures, g.move_after,
    )  # fmt: skip


def in_role(c: Copy, role: Role, due: int = 0) -> Copy:
    """`c` in another role. An absent copy keeps its own `due`: the instant at which it is dropped for good."""
    return Copy(c.id, c.node, c.store, c.tier, role, c.slots, c.incarnation, c.due if c.absent else due, c.absent)


def is_readable(c: Copy) -> bool:
    """Readable copies are authoritative or replica, and not absent."""
    return (c.role is AUTHORITATIVE or c.role is REPLICA) and not c.absent


def can_be_heir(g: Group, c: Copy) -> bool:
    """May `c` become authoritative without a transfer? RETIRING may go back, FREEING never (finding 6), and what is older than
    the last `Create` has other bytes."""
    return (c.role is REPLICA or c.role is RETIRING) and not c.absent and c.id.revision >= g.created


# ---- guards --------------------------------------------------------------------------------------------------


def is_target(g: Group, c: Copy, k: Facts) -> bool:
    return c.role is INCOMING and c.id == g.target


def is_incoming(g: Group, c: Copy, k: Facts) -> bool:
    return c.role is INCOMING


def matches_manifest(g: Group, c: Copy, k: Facts) -> bool:
    return k.manifest == g.manifest


def not_leaving(g: Group, c: Copy, k: Facts) -> bool:
    return not g.leaving


def copy_is_readable(g: Group, c: Copy, k: Facts) -> bool:
    return is_readable(c)


def some_copy_readable(g: Group, c: Copy, k: Facts) -> bool:
    return k.readable > 0


def nothing_readable(g: Group, c: Copy, k: Facts) -> bool:
    return k.readable == 0


def not_being_brought(g: Group, c: Copy, k: Facts) -> bool:
    """False while a move goes on without its source: somebody is bringing the only copy."""
    return k.authority != NO_COPY


def policy_allows_moving(g: Group, c: Copy, k: Facts) -> bool:
    return k.policy is MOVEPOLICY_SOURCE or k.policy is MOVEPOLICY_CANCEL


def not_recompute(g: Group, c: Copy, k: Facts) -> bool:
    return k.policy is not MOVEPOLICY_RECOMPUTE


def epoch_as_expected(g: Group, c: Copy, k: Facts) -> bool:
    return k.wanted_epoch in (0, g.epoch)


def authority_present(g: Group, c: Copy, k: Facts) -> bool:
    return k.authority != NO_COPY and not k.authority_absent


def unpinned_or_allowed(g: Group, c: Copy, k: Facts) -> bool:
    return k.allow_pinned or k.readable_pins == 0


def unpinned(g: Group, c: Copy, k: Facts) -> bool:
    return k.readable_pins == 0


def unreferenced(g: Group, c: Copy, k: Facts) -> bool:
    return k.refs == 0


def backed_off(g: Group, c: Copy, k: Facts) -> bool:
    return k.now >= g.move_after


def not_at_target(g: Group, c: Copy, k: Facts) -> bool:
    return not k.at_target


def has_room(g: Group, c: Copy, k: Facts) -> bool:
    return k.room


def target_is_node(g: Group, c: Copy, k: Facts) -> bool:
    return not c.store


def can_take_over(g: Group, c: Copy, k: Facts) -> bool:
    return can_be_heir(g, c)


def is_replica(g: Group, c: Copy, k: Facts) -> bool:
    return c.role is REPLICA


def not_last_readable(g: Group, c: Copy, k: Facts) -> bool:
    return k.refs == 0 or k.readable > (1 if is_readable(c) else 0)


def no_pins_on_it(g: Group, c: Copy, k: Facts) -> bool:
    return k.pins == 0


def not_the_last(g: Group, c: Copy, k: Facts) -> bool:
    """While nothing can be read, an intact copy stays: it is what is promoted if the authoritative one does not come back."""
    return k.readable > 0 or not can_be_heir(g, c)


def grace_over(g: Group, c: Copy, k: Facts) -> bool:
    return c.absent or k.now >= c.due


def keeps_bytes(g: Group, c: Copy, k: Facts) -> bool:
    return c.role in (AUTHORITATIVE, REPLICA, RETIRING)


def is_absent(g: Group, c: Copy, k: Facts) -> bool:
    return c.absent


def list_empty(g: Group, c: Copy, k: Facts) -> bool:
    return k.others == 0


# ---- bodies --------------------------------------------------------------------------------------------------


def create(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """A new writer; whatever was there is only a list entry from now on."""
    return Group(
        g.id, g.spec, WRITING, k.revision, g.version + 1, REASON_NONE, b"", c.id, NO_COPY, CAUSE_CALLER, False, k.writer,
        k.revision, 0, 0,
    ), c  # fmt: skip


def create_rest(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    """An absent copy that somebody has re-created never counts as authoritative again (design section 4)."""
    if o.role is INCOMING:
        return in_role(o, FREEING)
    if o.role is AUTHORITATIVE or o.role is REPLICA:
        return in_role(o, RETIRING, k.now)
    return o


def sealed(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The only way from WRITING to LOCAL (rule 3)."""
    return Group(
        g.id, g.spec, LOCAL, k.revision, g.version + 1, REASON_NONE, k.manifest, NO_COPY, NO_COPY, CAUSE_CALLER, False,
        g.writer, g.created, 0, g.move_after,
    ), Copy(c.id, c.node, False, c.tier, AUTHORITATIVE, c.slots, c.incarnation)  # fmt: skip


def write_ended(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    left = None if k.gone else in_role(c, FREEING)
    state = EVICTED if left is None and k.others == 0 else EVICTING
    return decided(g, k, state, reason=Reason.WRITE_ENDED), left


def move(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    state = MIGRATING_OUT if g.state is LOCAL else MIGRATING_IN
    return decided(g, k, state, target=c.id, source=k.authority, failures=g.failures), c


def adopt(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The target has the bytes already, as a replica or retiring copy: nothing is copied."""
    state = REMOTE if c.store else LOCAL
    return decided(g, k, state, move_after=k.now + k.backoff_ms), in_role(c, AUTHORITATIVE)


def authority_retires(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    return in_role(o, RETIRING, k.grace_due) if o.role is AUTHORITATIVE else o


def move_done(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The commit point of a move (MOVE-1)."""
    state = REMOTE if c.store else LOCAL
    return decided(g, k, state, move_after=k.now + k.backoff_ms), in_role(c, AUTHORITATIVE)


def replica_done(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return noted(g), in_role(c, REPLICA)


def move_ended(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """Every abort path: back to the state before at a higher epoch. If the source was lost meanwhile, a replica that has come
    since is promoted, or the loss is said."""
    left = None if k.gone else in_role(c, FREEING)
    if k.authority == NO_COPY and k.promote != NO_COPY:
        return decided(g, k, REMOTE if k.promote_store else LOCAL, failures=g.failures + 1), left
    if k.authority == NO_COPY:
        state = EVICTED if left is None and k.others == 0 else EVICTING
        return decided(g, k, state, reason=Reason.LOST), left
    state = LOCAL if g.state is MIGRATING_OUT else REMOTE
    return decided(g, k, state, failures=g.failures + 1, move_after=k.now + k.backoff_ms), left


def move_ended_rest(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    if k.authority != NO_COPY:
        return o
    if k.promote != NO_COPY:
        return in_role(o, AUTHORITATIVE) if o.id == k.promote else o
    return create_rest(g, c, o, held, k)


def replica_ended(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return noted(g), None if k.gone else in_role(c, FREEING)


def leave(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """An evict waits for holds; no new ones from now on, so that it ends."""
    after = noted(g)
    after.leaving = True
    return after, c


def evict(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """`others` counts the copies that stay in the list (the absent ones without pins leave at once)."""
    state = EVICTING if k.others else EVICTED
    return decided(g, k, state, reason=k.reason), c


def evict_rest(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    if held:
        return in_role(o, RETIRING, k.now)
    return None if o.absent else in_role(o, FREEING)


def due(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """A retiring copy may go: FREEING, which is final. An absent one leaves; its node is told when it returns."""
    left = None if c.absent else in_role(c, FREEING)
    if left is None and k.others == 0 and g.state is EVICTING:
        return decided(g, k, EVICTED, reason=g.reason), left
    return noted(g), left


def spare_gone(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """A copy that was not authoritative has left."""
    if g.state is EVICTING and k.others == 0:
        return decided(g, k, EVICTED, reason=g.reason), None
    return noted(g), None


def authority_gone(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The authoritative copy is lost: a replica is promoted and a move aborts; else a move goes on alone; else LOST."""
    if k.promote != NO_COPY:
        state = REMOTE if k.promote_store else LOCAL
        return decided(g, k, state, failures=g.failures), None
    if g.target != NO_COPY:
        return decided(g, k, g.state, target=g.target, failures=g.failures), None
    state = EVICTING if k.others else EVICTED
    return decided(g, k, state, reason=Reason.LOST), None


def authority_gone_rest(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    if k.promote != NO_COPY:
        if o.id == k.promote:
            return in_role(o, AUTHORITATIVE)
        return in_role(o, FREEING) if o.id == g.target else o
    if g.target != NO_COPY:
        return o
    return create_rest(g, c, o, held, k)


def lapse(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The copy's node is away: not readable, no new holds; existing holds stay (rule 9)."""
    return noted(g), Copy(c.id, c.node, c.store, c.tier, c.role, c.slots, c.incarnation, k.due, True)


def come_back(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """Present and verified in a new incarnation: it counts again, at a new epoch where it is authoritative."""
    back = Copy(c.id, c.node, c.store, c.tier, c.role, c.slots, k.incarnation, k.now if c.role is RETIRING else 0, False)
    after = noted(g)
    if c.role is AUTHORITATIVE:
        after.epoch = k.revision
    return after, back


def replicate(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return noted(g), c


def drop_replica(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return noted(g), in_role(c, RETIRING, k.grace_due)


def unchanged(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """Holds live beside the record; taking one changes no field of it."""
    return g, c
