"""Seeded faults of holds, releases and evictions, in the directory and in the client."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import applying, client_steps, creating, holds, ledger, ordering, table
from pinfold.core.answers import EvictAccepted, Refused, Released, RequestReleased
from pinfold.core.commands import Batch, Evict
from pinfold.core.ids import GroupId
from pinfold.core.ledger import change, facts
from pinfold.core.rows import NOWHERE
from pinfold.core.state import Copy
from pinfold.core.table import On
from tests.cases.switches import wrapped

READ_AFTER_THE_PIN = 3
"""Uses of a group that was put, pinned and then read."""


def only_what_was_read(patch: pytest.MonkeyPatch) -> None:
    def release_request(turn: Any, session: Any, request: str) -> RequestReleased:
        state = turn.state
        found = [state.holds[hold] for hold in state.requested.get((session, request), ())]
        read = [hold for hold in found if state.access[hold.group].count >= READ_AFTER_THE_PIN]
        turn.next_revision()
        for hold in read:
            holds.drop(turn, hold)
        return RequestReleased(request, len(read), turn.revision)

    patch.setattr(holds, "release_request", release_request)


def unknown_release_is_silent(patch: pytest.MonkeyPatch) -> None:
    def quiet(release: Any, turn: Any, session: Any, hold_id: Any, kind: Any) -> Any:
        answer = release(turn, session, hold_id, kind)
        if isinstance(answer, Refused) and answer.refusal.reason == "UnknownHold":
            return Released(GroupId(b""), hold_id, turn.revision)
        return answer

    wrapped(patch, holds.release, quiet)


def clamped_count(patch: pytest.MonkeyPatch) -> None:
    """An ended hold lowers the count of whatever is pinned, not below zero."""

    def clamped(release: Any, turn: Any, session: Any, hold_id: Any, kind: Any) -> Any:
        if hold_id not in turn.state.holds and turn.state.pinned:
            copy = next(iter(turn.state.pinned))
            ended = turn.state.pinned.pop(copy) - 1
            if ended > 0:
                turn.state.pinned[copy] = ended
            return Released(turn.state.group_of[copy], hold_id, turn.revision)
        return release(turn, session, hold_id, kind)

    wrapped(patch, holds.release, clamped)


def record_before_hold(patch: pytest.MonkeyPatch) -> None:
    """A move whose target has gone loses its target from the list, and nothing else."""
    for (state, on, role), row in list(table.TABLE.items()):
        if on is On.ENDED and state in table.MOVING and role == 0:

            def body(g: Any, c: Any, k: Any, whole: Any = row.body) -> Any:
                return (g, None) if k.gone else whole(g, c, k)

            patch.setitem(
                table.TABLE,
                (state, on, role),
                table.Row(row.state, on, row.role, (*row.to, state), row.guards, body, row.rest, row.effects),
            )


def free_whenever_freeing(patch: pytest.MonkeyPatch) -> None:
    """A copy is ordered to go at each change that leaves it FREEING, not at the one that makes it so."""

    def again(changed: Any, turn: Any, was: Copy, copy: Copy) -> None:
        changed(turn, was, copy)
        if copy.role is was.role is ledger.FREEING:
            ordering.order_freeing(turn, copy)

    wrapped(patch, ledger._changed, again)


def batch_past_the_guards(patch: pytest.MonkeyPatch) -> None:
    def apply(turn: Any, session: Any, hold: Any, body: Any) -> Any:
        group = turn.state.groups.get(body.group) if isinstance(body, Evict) else None
        row = None if group is None else table.find(group, On.EVICT, NOWHERE)
        if group is None or row is None:
            return real(turn, session, hold, body)
        known = facts(turn, group, NOWHERE, others=1)
        turn.next_revision()
        change(turn, group, row, NOWHERE, known)
        return EvictAccepted(group.id, False, turn.revision, turn.revision)

    def apply_batch(batch: Any, turn: Any, session: Any, first: Any, body: Batch) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(applying, "apply", apply)
            return batch(turn, session, first, body)

    real = applying.apply
    wrapped(patch, applying.apply_batch, apply_batch)


def put_without_a_hold(patch: pytest.MonkeyPatch) -> None:
    def reserve(whole: Any, turn: Any, session: Any, hold: Any, body: Any, group: Any) -> Any:
        answer = whole(turn, session, hold, body, group)
        if hold in turn.state.holds:
            holds.drop(turn, turn.state.holds[hold])
        return answer

    wrapped(patch, creating._reserve, reserve)


def release_from_reading_only(patch: pytest.MonkeyPatch) -> None:
    """A call that ends gives its hold back only if it was reading."""

    def let_go(whole: Any, turn: Any, record: Any) -> Any:
        if record.hold is not None and record.step != "read":
            record = turn.update(record, hold=None)
        return whole(turn, record)

    wrapped(patch, client_steps.let_go, let_go)
