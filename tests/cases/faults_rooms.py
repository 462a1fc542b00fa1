"""Seeded faults of counts, of housekeeping, and of what waits."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import (
    applying,
    client_steps,
    commands,
    creating,
    events,
    freeing,
    housekeeping,
    ledger,
    node,
    node_links,
    orders,
    waiting,
)
from pinfold.core.answers import Created
from pinfold.core.ids import NO_COPY, State
from pinfold.core.records import evolve
from pinfold.core.table import READABLE
from tests.cases.switches import everywhere, wrapped


def wrapped_create(patch: pytest.MonkeyPatch, around: Any) -> None:
    whole = applying._BODIES[commands.Create]
    patch.setitem(applying._BODIES, commands.Create, lambda *given: around(whole, *given))


def counted_down_by_eviction_only(patch: pytest.MonkeyPatch) -> None:
    def left(whole: Any, turn: Any, copy: Any) -> None:
        whole(turn, copy)
        if copy.role is not ledger.FREEING:
            turn.state.used[copy.node] = turn.state.used.get(copy.node, 0) + copy.slots

    wrapped(patch, ledger._left, left)


def reserve_before_looking(patch: pytest.MonkeyPatch) -> None:
    def create(whole: Any, turn: Any, session: Any, hold: Any, body: Any) -> Any:
        group = turn.state.groups.get(body.spec.group)
        if group is not None and group.state in READABLE:
            copy = turn.state.copies[group.id][0]
            turn.state.used[copy.node] += copy.slots
        return whole(turn, session, hold, body)

    wrapped_create(patch, create)


def one_stage_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An abort of a job of which bytes are being stored leaves the job."""

    def end_job(whole: Any, turn: Any, copy: Any) -> None:
        job = turn.state.jobs.get(copy)
        if job is None or not job.storing:
            whole(turn, copy)

    wrapped(patch, freeing.end_job, end_job)


def sizes_are_summed(patch: pytest.MonkeyPatch) -> None:
    """An entry counts the blocks of its group, not the slots that it has."""

    def entry(whole: Any, config: Any, copy: Any) -> Any:
        return evolve(whole(config, copy), slots=len(copy.spec.sizes))

    wrapped(patch, node_links._entry, entry)


def acknowledged_when_admitting(patch: pytest.MonkeyPatch) -> None:
    """Ends of copies between tiers are heard when something is reserved, and not before."""
    waiting_ends: list[Any] = []
    kind, whole = node.DONE[events.InstanceCloned]
    reserve = node.ORDERS[orders.Reserve]

    def take_reserve(turn: Any, order: Any, body: Any) -> None:
        while waiting_ends:
            whole(turn, *waiting_ends.pop())
        reserve(turn, order, body)

    patch.setitem(node.DONE, events.InstanceCloned, (kind, lambda turn, work, event: waiting_ends.append((work, event))))
    patch.setitem(node.ORDERS, orders.Reserve, take_reserve)


def swept_when_creating(patch: pytest.MonkeyPatch) -> None:
    sweep = housekeeping._timed_copies
    patch.setattr(housekeeping, "_timed_copies", lambda turn: None)

    def create(whole: Any, turn: Any, session: Any, hold: Any, body: Any) -> Any:
        sweep(turn)
        return whole(turn, session, hold, body)

    wrapped_create(patch, create)


def asks_again_at_once(patch: pytest.MonkeyPatch) -> None:
    """A call that has to wait does not wait."""

    def sleep(turn: Any, record: Any, after_ms: int = 0) -> None:
        turn.update(record, step="pause", waits=record.waits + 1, sleep_until=turn.now)

    everywhere(patch, client_steps.sleep, sleep)


def dropped_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """The record of a copy goes when it is told to go."""

    def let_go(whole: Any, turn: Any, copy: Any, *, wanted: bool) -> None:
        whole(turn, copy, wanted=wanted)
        turn.state.copies.pop(copy.copy, None)

    wrapped(patch, freeing.let_go, let_go)


# ---- crowds --------------------------------------------------------------------------------------------------


def no_joining(patch: pytest.MonkeyPatch) -> None:
    """Whoever creates a group that is being written is taken for its writer, too."""

    def found(whole: Any, turn: Any, hold: Any, body: Any, group: Any) -> Any:
        if group.state is State.WRITING:
            copy = turn.state.copies[group.id][0]
            address = turn.state.nodes[copy.node].address
            return Created(group.id, group.target, copy.node, address, hold, group.epoch, turn.revision)
        return whole(turn, hold, body, group)

    wrapped(patch, creating._joined_or_exists, found)


def all_wait_for_all(patch: pytest.MonkeyPatch) -> None:
    """Nobody who waits is told anything while anything at all is being written."""

    def outcome(whole: Any, turn: Any, waiter: Any) -> str:
        if any(group.state is State.WRITING for group in turn.state.groups.values()):
            return ""
        told: str = whole(turn, waiter)
        return told

    wrapped(patch, waiting._outcome, outcome)


def tries_in_a_tight_loop(patch: pytest.MonkeyPatch) -> None:
    """While somebody is in the way the next look is now."""

    def next_due(whole: Any, turn: Any) -> int:
        due: int = whole(turn)
        return turn.now if turn.state.strained else due

    wrapped(patch, housekeeping.next_due, next_due)


def accepted_between_guard_and_write(patch: pytest.MonkeyPatch) -> None:
    """A second decision is guarded by the state that the first one saw."""

    def happen(whole: Any, turn: Any, g: Any, on: Any, c: Any, k: Any) -> Any:
        if on is ledger.On.MOVE and g.state in (State.MIGRATING_OUT, State.MIGRATING_IN):
            g = evolve(g, state=State.LOCAL, target=NO_COPY, source=NO_COPY)
        return whole(turn, g, on, c, k)

    wrapped(patch, ledger.happen, happen)
