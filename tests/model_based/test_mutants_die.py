"""The checks can fail: each of these faults, switched on in the machines, must be found by the seeded driver within a few seeds.

A mutant is a switch on one function or row. One that no seed notices fails the test: then a check is missing, or an action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pinfold.chaos import sim_actions as do
from pinfold.chaos import sim_trouble as go
from pinfold.chaos.sim_actions import Action
from pinfold.chaos.sim_run import Failure, Wheel, play, steps_of, wheel_of
from pinfold.chaos.sim_shape import STORMS
from pinfold.core import (
    client_steps,
    creating,
    directory,
    driver,
    ends,
    freeing,
    holds,
    housekeeping,
    ledger,
    membership,
    migration,
    node_links,
    reconcile,
    rows,
    sessions,
    table,
)
from pinfold.core.errors import InvariantViolation
from pinfold.core.ids import CopyId, Role, State
from pinfold.core.node_state import Stage
from pinfold.core.records import evolve
from pinfold.core.table import On, Row
from pinfold.transport.inproc import Faults

SEEDS_MAX = 40
STEPS = 150

Mutant = Callable[[pytest.MonkeyPatch], None]


def around(patch: pytest.MonkeyPatch, module: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put a function made from the right one in its place."""
    patch.setattr(module, name, make(getattr(module, name)))


# ---- fencing and repair ------------------------------------------------------------------------------------------


def the_gate_for_orders_is_open(patch: pytest.MonkeyPatch) -> None:
    """FENCE-1 off at the node: any order has its effect, however old."""

    def passes(turn: Any, order: Any) -> bool:
        link = turn.state.links.get(order.shard)
        if turn.state.fenced or link is None or link.incarnation == 0:
            return False
        node_links.adopt(turn, link, max(order.term, link.term), link.incarnation)
        turn.state.links[order.shard] = evolve(turn.state.links[order.shard], number=order.number)
        return True

    patch.setattr(node_links, "passes", passes)


def absence_counts_in_any_inventory(patch: pytest.MonkeyPatch) -> None:
    """INV-1 off: what an old inventory lacks is lost."""

    def make(right: Any) -> Any:
        return lambda turn, node, group, copy, entry, counts: right(turn, node, group, copy, entry, True)

    around(patch, reconcile, "_compare", make)


def strangers_stay(patch: pytest.MonkeyPatch) -> None:
    """A copy that is in no record is not freed."""
    patch.setattr(reconcile, "_unknown", lambda turn, node, copy_id, entry: None)


def reports_of_old_incarnations_count(patch: pytest.MonkeyPatch) -> None:
    """FENCE-1 off at the directory."""
    patch.setattr(membership, "is_current", lambda turn, name, incarnation: turn.state.nodes.get(name))


def what_is_away_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """At a lapse readable copies leave the record as if they were lost."""

    def lapse_copy(turn: Any, copy_id: CopyId, group_id: Any, limit_ms: int) -> None:
        group = turn.state.groups[group_id]
        copy = ledger.copy_in(turn.state.copies[group_id], copy_id)
        if copy is not None and copy.role is Role.AUTHORITATIVE:
            listed = tuple(one for one in turn.state.copies[group_id] if one.id != copy_id)
            turn.state.copies[group_id] = listed
        elif copy is not None:
            ends.gone(turn, group, copy, rows.Reason.NODE_LOST)

    patch.setattr(membership, "_lapse_copy", lapse_copy)


def absence_has_no_end(patch: pytest.MonkeyPatch) -> None:
    """Absent copies are never dropped."""

    def make(right: Any) -> Any:
        return lambda turn, group, copy: 0 if copy.absent else right(turn, group, copy)

    around(patch, housekeeping, "_time_is_up", make)


# ---- bytes -------------------------------------------------------------------------------------------------------


def free_does_not_wait_for_guards(patch: pytest.MonkeyPatch) -> None:
    """USE-1 off at the node: bytes go while somebody touches them."""

    def make(right: Any) -> Any:
        def let_go(turn: Any, copy: Any, *, wanted: bool) -> None:
            right(turn, copy, wanted=wanted)
            left = turn.state.copies.get(copy.copy)
            for place in left.places if left is not None else ():
                if place.stage is Stage.RETIRING:
                    left = turn.set_place(left, evolve(place, stage=Stage.RELEASING))
                    freeing.release(turn, left.copy, place.instance)

        return let_go

    around(patch, freeing, "let_go", make)


def copy_ids_come_back(patch: pytest.MonkeyPatch) -> None:
    """COPY-3 off: ids are taken from a small set."""
    for module in (creating, migration):
        patch.setattr(module, "CopyId", lambda shard, revision, ordinal: CopyId(shard, 1 + revision % 11, ordinal))


def what_is_going_is_used_again(patch: pytest.MonkeyPatch) -> None:
    """A move to where a copy is FREEING takes that copy back (finding 6)."""

    def make(right: Any) -> Any:
        def begin(turn: Any, group: Any, target: Any, **known: Any) -> Any:
            copies = turn.state.copies.get(group.id, ())
            going = [copy for copy in copies if copy.node == target and copy.role is Role.FREEING]
            turn.state.copies[group.id] = tuple(
                rows.in_role(copy, Role.RETIRING) if copy in going else copy for copy in copies
            )
            return right(turn, group, target, **known)

        return begin

    around(patch, migration, "begin", make)


def a_late_sealed_counts(patch: pytest.MonkeyPatch) -> None:
    """A write that was given up becomes readable when its node says so at last."""
    row = Row(State.EVICTING, On.SEALED, Role.FREEING, (State.LOCAL,), (), rows.sealed)
    patch.setitem(table.TABLE, (State.EVICTING, On.SEALED, Role.FREEING), row)


def the_first_content_is_remembered(patch: pytest.MonkeyPatch) -> None:
    """A group that is written anew keeps the manifest of what it was before."""
    first: dict[Any, bytes] = {}
    row = next(row for row in table.ROWS if row.on is On.SEALED)
    right = row.body

    def sealed(g: Any, c: Any, k: Any) -> Any:
        after, copy = right(g, c, k)
        after.manifest = first.setdefault(g.id, k.manifest)
        return after, copy

    wrong = Row(row.state, row.on, row.role, row.to, row.guards, sealed, row.rest, row.effects)
    patch.setitem(table.TABLE, (State.WRITING, On.SEALED, Role.INCOMING), wrong)


# ---- decisions ---------------------------------------------------------------------------------------------------


def nobody_is_promoted(patch: pytest.MonkeyPatch) -> None:
    """The authoritative copy is lost, and its replicas with it."""

    def make(right: Any) -> Any:
        def facts(*args: Any, **known: Any) -> Any:
            found = right(*args, **known)
            found.promote = rows.NO_COPY
            return found

        return facts

    around(patch, ends, "facts", make)


def an_epoch_lasts_for_ever(patch: pytest.MonkeyPatch) -> None:
    """EPOCH-1 off: decisions leave the epoch as it was."""

    def make(right: Any) -> Any:
        def decided(g: Any, k: Any, *args: Any, **known: Any) -> Any:
            after = right(g, k, *args, **known)
            after.epoch = g.epoch
            return after

        return decided

    around(patch, rows, "decided", make)


def pins_are_no_reason(patch: pytest.MonkeyPatch) -> None:
    """An eviction does not ask who has a pin."""
    for row in table.ROWS:
        if row.on is On.EVICT:
            guards = tuple(guard for guard in row.guards if guard.check is not rows.unpinned)
            wrong = Row(row.state, row.on, row.role, row.to, guards, row.body, row.rest, row.effects)
            for role in Role:
                patch.setitem(table.TABLE, (row.state, row.on, role), wrong)


def room_is_back_at_the_decision(patch: pytest.MonkeyPatch) -> None:
    """CAP-1 off: space is given back when a copy is to be freed, not when it has gone."""

    def make(right: Any) -> Any:
        def changed(turn: Any, was: Any, copy: Any) -> None:
            right(turn, was, copy)
            if copy.role is Role.FREEING and was.role is not Role.FREEING:
                turn.state.used[copy.node] -= copy.slots

        return changed

    around(patch, ledger, "_changed", make)


# ---- sessions, holds, commits ------------------------------------------------------------------------------------


def holds_outlive_their_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(holds, "release_session", lambda turn, session: 0)


def answers_are_dropped_early(patch: pytest.MonkeyPatch) -> None:
    """An answer is kept until the next number comes, not until the caller has it."""

    def make(right: Any) -> Any:
        return lambda turn, command, answered: right(turn, evolve(command, low=command.sequence), answered)

    around(patch, sessions, "record", make)


def words_leave_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    """DUR-1 off in the driver: outputs first, then the commit."""

    def flush(self: Any) -> None:
        held, self._held = self._held, []
        for ready in held:
            self._run(ready.send, ready.transfer, ready.reply)
        self._commit([write for ready in held for write in ready.persist])

    patch.setattr(driver.Driver, "flush", flush)


def clients_keep_what_they_took(patch: pytest.MonkeyPatch) -> None:
    """A get that is over does not give its PIN back."""
    patch.setattr(client_steps, "release", lambda turn, hold: None)


def a_repeated_number_is_a_new_one(patch: pytest.MonkeyPatch) -> None:
    """ONCE-1 off: a command that comes again has its effect again."""

    def make(right: Any) -> Any:
        def admit(turn: Any, command: Any) -> Any:
            answer = right(turn, command)
            return None if answer is turn.state.answers.get((command.session, command.sequence)) else answer

        return admit

    around(patch, directory.sessions, "admit", make)


# ---- what finds them ---------------------------------------------------------------------------------------------

STORM = Faults(loss=0.1, duplicate=0.3, reorder=0.5, reorder_ms=800, delay_ms=(0, 20))
OFTEN: dict[str, Any] = {"wire": STORMS[2], "inventory_ms": 60}
_PUTS: dict[Action, int] = {do.put: 8, do.release_request: 3, do.advance: 12}

DIETS: dict[Mutant, tuple[Wheel, dict[str, Any]]] = {
    the_gate_for_orders_is_open: (wheel_of(_PUTS | {do.move: 6, do.evict: 2}), {"wire": STORM}),
    absence_counts_in_any_inventory: (wheel_of(_PUTS | {do.move: 6, do.replicate: 6, do.evict: 2}), OFTEN),
    reports_of_old_incarnations_count: (
        wheel_of(_PUTS | {do.move: 4, go.twin: 3, go.pause_node: 2, go.cut: 2}, length=range(4, 7), kind=range(1)), OFTEN
    ),
    absence_has_no_end: (wheel_of(_PUTS | {do.wait: 3, go.crash_node: 2}, length=range(7, 8)), {}),
    a_late_sealed_counts: (
        wheel_of(_PUTS | {do.evict: 1, do.close_session: 2}, timeout=range(1), which=range(1)), {"wire": STORM}
    ),
    nobody_is_promoted: (wheel_of(_PUTS | {do.replicate: 16, go.crash_node: 2}, length=range(2, 5)), {}),
    words_leave_before_they_are_durable: (wheel_of(_PUTS | {go.commit_fault: 3}, kind=range(3, 4)), {}),
}
"""Where a seed's own actions would take long: actions, and changes of the cluster, that lead there."""

MUTANTS: tuple[Mutant, ...] = (
    the_gate_for_orders_is_open,
    absence_counts_in_any_inventory,
    strangers_stay,
    reports_of_old_incarnations_count,
    what_is_away_is_forgotten,
    absence_has_no_end,
    free_does_not_wait_for_guards,
    copy_ids_come_back,
    what_is_going_is_used_again,
    a_late_sealed_counts,
    the_first_content_is_remembered,
    nobody_is_promoted,
    an_epoch_lasts_for_ever,
    pins_are_no_reason,
    room_is_back_at_the_decision,
    holds_outlive_their_session,
    answers_are_dropped_early,
    words_leave_before_they_are_durable,
    clients_keep_what_they_took,
    a_repeated_number_is_a_new_one,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_dies(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    wheel, changes = DIETS.get(mutant, (None, {}))
    for seed in range(SEEDS_MAX):
        outcome = play(seed, steps_of(seed, STEPS, wheel), **changes)
        if isinstance(outcome, Failure):
            assert isinstance(outcome.error, InvariantViolation), f"seed {seed}: {outcome.error!r}"
            return
    pytest.fail(f"nothing was noticed in {SEEDS_MAX} seeds", pytrace=False)


def test_there_are_mutants_of_many_kinds() -> None:
    assert len(MUTANTS) >= 12
