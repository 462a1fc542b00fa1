"""What each row's body leaves in every field of the record: whole records compared, from one in which no field is at its default.

The table test compares states, guards and roles with a second opinion; numbers that only later steps ask for (the spacing of
moves, deadlines, reasons, who began it) are said here.
"""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import rows
from pinfold.core.ids import NO_COPY, Cause, CopyId, NodeName, Reason, Role, SessionId, State, Tier
from pinfold.core.records import evolve
from pinfold.core.rows import Facts
from pinfold.core.state import Copy, Group

from .directory_world import spec_of

SPEC = spec_of("bodies")
IT, OTHER, SOURCE, TARGET = (CopyId(0, number, 1) for number in (11, 12, 13, 14))
REVISION, NOW = 50, 1_000


def group(state: State) -> Group:
    return Group(
        SPEC.group, SPEC, state, 20, 3, Reason.DRAINED, b"m", TARGET, SOURCE, Cause.DRAIN, True, SessionId(5), 7, 2, 900
    )  # fmt: skip


def copy(role: Role, **changes: Any) -> Copy:
    return evolve(Copy(IT, NodeName("n1"), False, Tier.SSD, role, 4, 6, 700), **changes)


def facts(**changes: Any) -> Facts:
    known: dict[str, Any] = {
        "now": NOW, "grace_due": NOW + 30, "backoff_ms": 40, "due": NOW + 500, "cause": Cause.PRESSURE, "incarnation": 8,
    }  # fmt: skip
    return Facts(REVISION, **(known | changes))


def decided(before: Group, state: State, **changes: Any) -> Group:
    """A decision: new epoch, no reason, no move, unless `changes` say so. The cause is who decided."""
    default: dict[str, Any] = {
        "reason": Reason.NONE, "target": NO_COPY, "source": NO_COPY, "cause": Cause.PRESSURE, "failures": 0,
        "leaving": state not in (State.EVICTING, State.EVICTED),
    }  # fmt: skip
    return evolve(before, **(default | {"state": state, "epoch": REVISION, "version": 4} | changes))


def noted(before: Group, **changes: Any) -> Group:
    return evolve(before, version=4, **changes)


def test_a_create_begins_anew() -> None:
    """Nothing of the content before is left: no reason, no spacing of its moves, no evict that waited."""
    new = copy(Role.INCOMING)
    after, kept = rows.create(group(State.EVICTED), new, facts(writer=SessionId(9)))
    assert after == Group(
        SPEC.group, SPEC, State.WRITING, REVISION, 4, target=IT, writer=SessionId(9), created=REVISION, failures=0, move_after=0
    )
    assert kept is new


@pytest.mark.parametrize(
    ("role", "becomes", "due"),
    [
        (Role.INCOMING, Role.FREEING, 0),
        (Role.AUTHORITATIVE, Role.RETIRING, NOW),
        (Role.REPLICA, Role.RETIRING, NOW),
        (Role.RETIRING, Role.RETIRING, 700),
        (Role.FREEING, Role.FREEING, 700),
    ],
)
def test_what_was_there_at_a_create_is_on_its_way_out(role: Role, becomes: Role, due: int) -> None:
    other = copy(role, id=OTHER)
    expected = evolve(other, role=becomes, due=due)
    assert rows.create_rest(group(State.LOCAL), copy(Role.INCOMING), other, False, facts()) == expected
    lost = facts(promote=NO_COPY)
    done = evolve(group(State.LOCAL), target=NO_COPY)
    assert rows.authority_gone_rest(done, copy(Role.AUTHORITATIVE), other, False, lost) == expected
    assert rows.move_ended_rest(done, copy(Role.INCOMING), other, False, lost) == expected


def test_a_seal_makes_the_writers_copy_the_authoritative_one() -> None:
    before = group(State.WRITING)
    after, kept = rows.sealed(before, copy(Role.INCOMING), facts(manifest=b"new"))
    assert after == evolve(
        before, state=State.LOCAL, epoch=REVISION, version=4, reason=Reason.NONE, manifest=b"new", target=NO_COPY, source=NO_COPY,
        cause=Cause.CALLER, leaving=False, failures=0,
    )  # fmt: skip
    assert kept == copy(Role.AUTHORITATIVE, due=0)


@pytest.mark.parametrize(
    ("gone", "others", "state"), [(False, 0, State.EVICTING), (True, 1, State.EVICTING), (True, 0, State.EVICTED)]
)
def test_a_write_that_ends_leaves_a_copy_to_free_or_none(gone: bool, others: int, state: State) -> None:
    before = group(State.WRITING)
    after, kept = rows.write_ended(before, copy(Role.INCOMING), facts(gone=gone, others=others))
    assert after == decided(before, state, reason=Reason.WRITE_ENDED)
    assert kept == (None if gone else copy(Role.FREEING, due=0))


@pytest.mark.parametrize(("home", "moving"), [(State.LOCAL, State.MIGRATING_OUT), (State.REMOTE, State.MIGRATING_IN)])
def test_a_move_keeps_the_count_of_failures_and_the_spacing(home: State, moving: State) -> None:
    before, new = group(home), copy(Role.INCOMING)
    after, kept = rows.move(before, new, facts(authority=OTHER))
    assert after == decided(before, moving, target=IT, source=OTHER, failures=2)
    assert after.move_after == 900
    assert kept is new


@pytest.mark.parametrize("body", [rows.move_done, rows.adopt])
@pytest.mark.parametrize(("store", "state"), [(False, State.LOCAL), (True, State.REMOTE)])
def test_a_move_that_is_done_spaces_the_next_and_forgets_the_failures(body: Any, store: bool, state: State) -> None:
    before = group(State.MIGRATING_OUT)
    after, kept = body(before, copy(Role.INCOMING, store=store), facts())
    assert after == decided(before, state, move_after=NOW + 40)
    assert kept == copy(Role.AUTHORITATIVE, store=store, due=0)


def test_the_source_of_a_move_that_is_done_retires_for_its_grace() -> None:
    source, replica = copy(Role.AUTHORITATIVE, id=SOURCE), copy(Role.REPLICA, id=OTHER)
    now = copy(Role.INCOMING)
    assert rows.authority_retires(group(State.MIGRATING_OUT), now, source, True, facts()) == evolve(
        source, role=Role.RETIRING, due=NOW + 30
    )
    assert rows.authority_retires(group(State.MIGRATING_OUT), now, replica, True, facts()) is replica


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(("moving", "home"), [(State.MIGRATING_OUT, State.LOCAL), (State.MIGRATING_IN, State.REMOTE)])
def test_a_move_that_fails_counts_and_spaces_the_next(moving: State, home: State, gone: bool) -> None:
    before = group(moving)
    after, kept = rows.move_ended(before, copy(Role.INCOMING), facts(authority=SOURCE, gone=gone))
    assert after == decided(before, home, failures=3, move_after=NOW + 40)
    assert kept == (None if gone else copy(Role.FREEING, due=0))


@pytest.mark.parametrize(("store", "state"), [(False, State.LOCAL), (True, State.REMOTE)])
def test_a_replica_takes_over_where_the_source_is_lost(store: bool, state: State) -> None:
    """At the end of a move without its source, and at the loss itself: where the replica lies decides the state."""
    before, known = group(State.MIGRATING_OUT), facts(promote=OTHER, promote_store=store)
    after, _ = rows.move_ended(before, copy(Role.INCOMING), known)
    assert after == decided(before, state, failures=3)
    after, kept = rows.authority_gone(before, copy(Role.AUTHORITATIVE), known)
    assert after == decided(before, state, failures=2)
    assert kept is None
    heir, target, third = copy(Role.REPLICA, id=OTHER), copy(Role.INCOMING, id=TARGET), copy(Role.REPLICA, id=SOURCE)
    gone = copy(Role.AUTHORITATIVE)
    promoted = evolve(heir, role=Role.AUTHORITATIVE, due=0)
    assert rows.authority_gone_rest(before, gone, heir, False, known) == promoted
    assert rows.authority_gone_rest(before, gone, target, False, known) == evolve(target, role=Role.FREEING, due=0)
    assert rows.authority_gone_rest(before, gone, third, False, known) is third
    assert rows.move_ended_rest(before, target, heir, False, known) == promoted
    assert rows.move_ended_rest(before, target, third, False, known) is third


def test_a_move_goes_on_where_its_source_is_lost_and_nobody_can_take_over() -> None:
    before = group(State.MIGRATING_OUT)
    after, kept = rows.authority_gone(before, copy(Role.AUTHORITATIVE), facts(others=1))
    assert after == decided(before, State.MIGRATING_OUT, target=TARGET, failures=2)
    assert kept is None
    target = copy(Role.INCOMING, id=TARGET)
    assert rows.authority_gone_rest(before, copy(Role.AUTHORITATIVE), target, False, facts()) is target


@pytest.mark.parametrize(("others", "state"), [(0, State.EVICTED), (1, State.EVICTING), (2, State.EVICTING)])
def test_the_last_copy_is_lost(others: int, state: State) -> None:
    before = evolve(group(State.LOCAL), target=NO_COPY)
    assert rows.authority_gone(before, copy(Role.AUTHORITATIVE), facts(others=others)) == (
        decided(before, state, reason=Reason.LOST), None
    )  # fmt: skip
    gone = facts(others=others, gone=True)
    assert rows.move_ended(before, copy(Role.INCOMING), gone) == (decided(before, state, reason=Reason.LOST), None)


@pytest.mark.parametrize(("others", "state"), [(0, State.EVICTED), (1, State.EVICTING)])
def test_an_evict_says_why(others: int, state: State) -> None:
    before, it = group(State.LOCAL), copy(Role.REPLICA)
    after, kept = rows.evict(before, it, facts(others=others, reason=Reason.NO_SPACE))
    assert after == decided(before, state, reason=Reason.NO_SPACE)
    assert kept is it
    known = facts()
    assert rows.evict_rest(before, it, it, True, known) == evolve(it, role=Role.RETIRING, due=NOW)
    assert rows.evict_rest(before, it, it, False, known) == evolve(it, role=Role.FREEING, due=0)
    assert rows.evict_rest(before, it, evolve(it, absent=True), False, known) is None


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("state", [State.EVICTING, State.LOCAL])
def test_the_last_copy_that_leaves_ends_an_eviction_with_its_reason(state: State, others: int, absent: bool) -> None:
    before, known = group(state), facts(others=others)
    last = state is State.EVICTING and others == 0
    ended = decided(before, State.EVICTED, reason=Reason.DRAINED)
    after, kept = rows.due(before, copy(Role.RETIRING, absent=absent), known)
    assert after == (ended if last and absent else noted(before))
    assert kept == (None if absent else copy(Role.FREEING, due=0))
    assert rows.spare_gone(before, copy(Role.FREEING), known) == (ended if last else noted(before), None)


def test_notes_about_copies_leave_the_epoch() -> None:
    before = group(State.MIGRATING_OUT)
    replica, making = copy(Role.REPLICA), copy(Role.INCOMING)
    assert rows.replica_done(before, making, facts()) == (noted(before), copy(Role.REPLICA, due=0))
    assert rows.replica_ended(before, making, facts()) == (noted(before), copy(Role.FREEING, due=0))
    assert rows.replica_ended(before, making, facts(gone=True)) == (noted(before), None)
    assert rows.replicate(before, making, facts()) == (noted(before), making)
    assert rows.drop_replica(before, replica, facts()) == (noted(before), copy(Role.RETIRING, due=NOW + 30))
    assert rows.leave(evolve(before, leaving=False), replica, facts()) == (noted(before), replica)
    assert rows.unchanged(before, replica, facts()) == (before, replica)
    assert rows.lapse(before, replica, facts()) == (noted(before), copy(Role.REPLICA, due=NOW + 500, absent=True))


@pytest.mark.parametrize(
    ("role", "due", "epoch"), [(Role.AUTHORITATIVE, 0, REVISION), (Role.REPLICA, 0, 20), (Role.RETIRING, NOW, 20)]
)
def test_what_comes_back_counts_in_the_new_incarnation(role: Role, due: int, epoch: int) -> None:
    before = group(State.LOCAL)
    after, back = rows.come_back(before, copy(role, absent=True), facts())
    assert after == noted(before, epoch=epoch)
    assert back == copy(role, incarnation=8, due=due)


@pytest.mark.parametrize("absent", [False, True])
def test_an_absent_copy_keeps_the_instant_at_which_it_is_dropped(absent: bool) -> None:
    it = copy(Role.REPLICA, absent=absent)
    assert rows.in_role(it, Role.RETIRING, 55) == evolve(it, role=Role.RETIRING, due=700 if absent else 55)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("revision", [6, 7])
@pytest.mark.parametrize("readable", [0, 1])
def test_the_last_copy_of_the_present_content_stays(role: Role, absent: bool, revision: int, readable: int) -> None:
    """A copy may inherit if it is a replica or retiring, there, and not older than the last `Create` (revision 7)."""
    it = copy(role, id=CopyId(0, revision, 1), absent=absent)
    heir = role in (Role.REPLICA, Role.RETIRING) and not absent and revision == 7
    before = group(State.LOCAL)
    assert rows.can_be_heir(before, it) is heir
    assert rows.not_the_last(before, it, facts(readable=readable)) is (readable > 0 or not heir)
