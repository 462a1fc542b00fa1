"""Seeded faults of reports and routes: what is retried, lost, or believed."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import (
    applying,
    events,
    guards,
    jobs,
    migration,
    node,
    node_links,
    reconcile,
    reports,
    sessions,
    table,
)
from pinfold.core.answers import BatchAnswer, Refused
from pinfold.core.ids import HoldId
from pinfold.core.node_turn import Turn
from tests.cases.switches import everywhere, wrapped, wrapped_method


def overwrite_on_retry(patch: pytest.MonkeyPatch) -> None:
    """A job that is ordered again begins again, over what it has."""
    everywhere(patch, jobs._is_known, lambda turn, copy_id: False)


def asserts_at_completion(patch: pytest.MonkeyPatch) -> None:
    def done(whole: Any, turn: Any, group: Any, copy: Any, manifest: bytes) -> Any:
        assert group.state in table.MOVING, f"completion of {copy.id} in {group.state.name}"
        return whole(turn, group, copy, manifest)

    wrapped(patch, migration.done, done)


def loss_is_not_told(patch: pytest.MonkeyPatch) -> None:
    def tell(whole: Any, turn: Any, fact: Any, shard: int) -> None:
        if not isinstance(fact, reports.CopyLost):
            whole(turn, fact, shard)

    wrapped_method(patch, Turn, "tell", tell)


def place_from_the_dump(patch: pytest.MonkeyPatch) -> None:
    """The place of an inventory in the order of events is taken from its entries."""

    def reconcile_(whole: Any, turn: Any, node: Any, term: int, number: int, entries: Any) -> None:
        whole(turn, node, term, len(entries), entries)

    wrapped(patch, reconcile._reconcile, reconcile_)


def batch_stops_at_the_first_no(patch: pytest.MonkeyPatch) -> None:
    def apply_batch(turn: Any, session: Any, first: Any, batch: Any) -> Any:
        answers: list[Any] = []
        for ordinal, body in enumerate(batch.items):
            if answers and isinstance(answers[-1], Refused):
                answers.append(answers[-1])
            else:
                answers.append(applying.apply(turn, session, HoldId(first.session, first.sequence, ordinal), body))
        return BatchAnswer(tuple(answers), turn.revision)

    everywhere(patch, applying.apply_batch, apply_batch)


# ---- fencing -------------------------------------------------------------------------------------------------


def leases_of_waiters_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A session that waited when its lease was looked at lives on."""

    def end_session(whole: Any, turn: Any, number: Any) -> int:
        if turn.state.waiters:
            turn.state.session_due.pop(number, None)
            return 0
        ended: int = whole(turn, number)
        return ended

    wrapped(patch, sessions.end_session, end_session)


def the_first_owner_is_remembered(patch: pytest.MonkeyPatch) -> None:
    """A node goes on taking the orders of the term that it took the first from, and no other's."""

    def passes(whole: Any, turn: Any, order: Any) -> bool:
        link = turn.state.links[order.shard]
        return (link.number == 0 or order.term == link.term) and whole(turn, order)

    wrapped(patch, node_links.passes, passes)


def takeover_frees_the_room(patch: pytest.MonkeyPatch) -> None:
    """Whether a late writer can be ruled out is not asked."""
    patch.setitem(node.HANDLERS, events.WriterUncertain, lambda turn, event: turn.drop())


def anybody_may_end(patch: pytest.MonkeyPatch) -> None:
    def why_unwritable(whole: Any, copy: Any, client: str) -> Any:
        return whole(copy, client if copy is None else copy.writer)

    wrapped(patch, guards.why_unwritable, why_unwritable)
