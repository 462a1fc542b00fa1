"""Seeded faults of the directory; `mutants.py` says what each is about."""

from __future__ import annotations

from typing import Any

from ..core import capacity, effects, ends, holds, housekeeping, ledger, membership, migration, reading, reconcile, rows, sessions
from ..core.answers import Answered
from ..core.commands import Command
from ..core.directory import Directory
from ..core.effects import Ready
from ..core.errors import Refusal
from ..core.ids import NO_COPY, CopyId, HoldKind, Reason, Role, SessionId, State
from ..core.records import evolve
from ..core.reports import Condition
from ..core.rows import Facts
from ..core.state import Copy, Group, Node
from ..core.table import On
from ..core.turn import Turn
from . import directory_site
from .planting import Planting


def reports_of_any_incarnation(p: Planting) -> None:
    def is_current(turn: Turn, name: Any, incarnation: int) -> Node | None:
        return turn.state.nodes.get(name)

    p.function(membership.is_current, is_current)


# ---- holds ---------------------------------------------------------------------------------------------------


def holds_outlive_sessions(p: Planting) -> None:
    p.function(holds.release_session, lambda turn, session: 0)


def lost_holds_vanish(p: Planting) -> None:
    lose = ledger.lose

    def gone(turn: Turn, hold_id: Any) -> None:
        lose(turn, hold_id)
        holds.drop(turn, turn.state.holds[hold_id])

    p.function(lose, gone)


def pinned_copies_are_freed(p: Planting) -> None:
    time_is_up = housekeeping._time_is_up

    def up(turn: Turn, group: Group, copy: Copy) -> int:
        if copy.role is Role.RETIRING and not copy.absent:
            ledger.happen(turn, group, On.DUE, copy, ledger.facts(turn, group, copy))
            return 1
        return time_is_up(turn, group, copy)

    p.function(time_is_up, up)
    p.guard_says_yes(rows.no_pins_on_it)


def evicts_ignore_pins(p: Planting) -> None:
    p.guard_says_yes(rows.unpinned)


def evicts_ignore_refs(p: Planting) -> None:
    p.guard_says_yes(rows.unreferenced)


def moves_ignore_pins(p: Planting) -> None:
    p.guard_says_yes(rows.unpinned_or_allowed)


# ---- writing and moving --------------------------------------------------------------------------------------


def writes_outlive_sessions(p: Planting) -> None:
    end_session = sessions.end_session

    def end(turn: Turn, number: SessionId) -> int:
        state = turn.state
        before = state.unsettled
        state.unsettled = {}
        released = end_session(turn, number)
        state.unsettled = {**before, **state.unsettled}
        return released

    p.function(end_session, end)


def source_goes_at_the_commit(p: Planting) -> None:
    def freed(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
        return rows.in_role(o, Role.FREEING) if o.role is Role.AUTHORITATIVE else o

    p.body(rows.authority_retires, freed)


def two_owners(p: Planting) -> None:
    p.body(rows.authority_retires, lambda g, c, o, held, k: o)


def freeing_comes_back(p: Planting) -> None:
    def can_take_over(g: Group, c: Copy, k: Facts) -> bool:
        return c.role in (Role.REPLICA, Role.RETIRING, Role.FREEING) and not c.absent and c.id.revision >= g.created

    def already_there(turn: Turn, group: Group, target: Any) -> list[Copy]:
        return [copy for copy in turn.state.copies.get(group.id, ()) if copy.node == target and copy.id.revision >= group.created]

    p.guard_says_yes(rows.can_take_over)
    p.function(rows.can_take_over, can_take_over)
    p.function(migration.already_there, already_there)


def last_bytes_go(p: Planting) -> None:
    p.guard_says_yes(rows.not_the_last)
    p.function(ledger.is_kept, lambda state, g, c: False)


def retired_are_no_heirs(p: Planting) -> None:
    facts = ledger.facts

    def without(turn: Turn, g: Group, c: Copy, **known: Any) -> Facts:
        k = facts(turn, g, c, **known)
        named = ledger.copy_in(turn.state.copies.get(g.id, ()), k.promote)
        if named is not None and named.role is Role.RETIRING:
            k.promote, k.promote_store = NO_COPY, False
        return k

    p.function(facts, without)


def aborts_keep_the_epoch(p: Planting) -> None:
    def ended(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
        after, left = rows.move_ended(g, c, k)
        after.epoch = g.epoch
        return after, left

    p.body(rows.move_ended, ended)


def lost_source_ends_the_move(p: Planting) -> None:
    def gone(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
        after, left = rows.authority_gone(g, c, k)
        if after.target != NO_COPY:
            after.state, after.target, after.reason = State.EVICTING, NO_COPY, Reason.LOST
        return after, left

    def rest(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
        return rows.create_rest(g, c, o, held, k)

    p.body(rows.authority_gone, gone)
    p.body(rows.authority_gone_rest, rest)


# ---- capacity ------------------------------------------------------------------------------------------------


def space_back_at_the_abort(p: Planting) -> None:
    def ended(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
        return rows.move_ended(g, c, k)[0], None

    p.body(rows.move_ended, ended)


def freeing_takes_no_room(p: Planting) -> None:
    has_room = capacity.has_room

    def room(turn: Turn, place: Any, slots: int) -> bool:
        state = turn.state
        freeing = sum(
            copy.slots for copies in state.copies.values() for copy in copies if copy.node == place and copy.role is Role.FREEING
        )
        return has_room(turn, place, slots - freeing)

    p.function(has_room, room)


# ---- exactly once, durable, in order -------------------------------------------------------------------------


def commands_apply_twice(p: Planting) -> None:
    admit = sessions.admit

    def admitted(turn: Turn, command: Command) -> Refusal | Answered | None:
        said = admit(turn, command)
        return None if isinstance(said, Answered) else said

    p.function(admit, admitted)


def numbers_in_any_order(p: Planting) -> None:
    admit = sessions.admit

    def admitted(turn: Turn, command: Command) -> Refusal | Answered | None:
        said = admit(turn, command)
        return None if isinstance(said, Refusal) and said.reason == "Early" else said

    p.function(admit, admitted)


def answers_are_not_durable(p: Planting) -> None:
    record = sessions.record

    def recorded(turn: Turn, command: Command, answered: Answered) -> None:
        before = len(turn.persist)
        record(turn, command, answered)
        turn.persist[before:] = [write for write in turn.persist[before:] if write[0] != effects.ANSWERS]

    p.function(record, recorded)


def holds_are_not_durable(p: Planting) -> None:
    take = holds.take

    def taken(turn: Turn, hold_id: Any, kind: HoldKind, group: Any, copy: CopyId, request: str) -> None:
        take(turn, hold_id, kind, group, copy, request)
        turn.persist.pop()

    p.function(take, taken)


def terms_do_not_rise(p: Planting) -> None:
    start = Directory.start

    def started(self: Directory, now: int, _claimed: int = 0) -> Ready:
        self.state.meta = evolve(self.state.meta, term=self.state.meta.term - 1)
        return start(self, now)

    p.method(Directory, "start", started)


def speaks_before_the_commit(p: Planting) -> None:
    takes = directory_site.takes

    def hasty(cast: Any, site: Any, event: Any, prepared: Any = None) -> Any:
        step = takes(cast, site, event, prepared)
        if not step.site.held or step.site.held == site.held:
            return step
        *before, last = step.site.held
        held = (*before, Ready(last.persist))
        silent = directory_site.DirectorySite(step.site.machine, step.site.tables, held)
        return directory_site.Step(silent, (last,), step.persisted)

    p.function(takes, hasty)


# ---- inventories ---------------------------------------------------------------------------------------------


def absence_always_counts(p: Planting) -> None:
    compare = reconcile._compare
    p.function(compare, lambda turn, node, group, copy, entry, counts: compare(turn, node, group, copy, entry, True))


def reserved_means_lost(p: Planting) -> None:
    compare = reconcile._compare

    def compared(turn: Turn, node: Any, group: Group, copy: Copy, entry: Any, counts: bool) -> None:
        kept = copy.role in (Role.AUTHORITATIVE, Role.REPLICA, Role.RETIRING)
        if kept and counts and entry is not None and entry.condition is Condition.RESERVED:
            ends.gone(turn, group, copy, Reason.LOST)
        else:
            compare(turn, node, group, copy, entry, counts)

    p.function(compare, compared)


def unknown_copies_stay(p: Planting) -> None:
    p.function(reconcile._unknown, lambda turn, node, copy_id, entry: None)


def orders_are_not_repeated(p: Planting) -> None:
    p.function(reconcile._order_again, lambda turn, group, copy: None)


# ---- lapse and return ----------------------------------------------------------------------------------------


def absent_copies_are_pinned(p: Planting) -> None:
    def readable(c: Copy) -> bool:
        return c.role is Role.AUTHORITATIVE or c.role is Role.REPLICA

    def best(turn: Turn, group: Any, near: Any) -> Copy | None:
        there = [copy for copy in turn.state.copies.get(group, ()) if readable(copy)]
        return reading.best(there, near) if there else None

    p.function(reading.readable_copy, best)
    p.guard_says_yes(rows.copy_is_readable)


def lapse_breaks_holds(p: Planting) -> None:
    lapse_copy = membership._lapse_copy

    def lapsed(turn: Turn, copy_id: CopyId, group_id: Any, limit_ms: int) -> None:
        for hold in turn.holds_on(copy_id):
            ledger.lose(turn, hold)
        lapse_copy(turn, copy_id, group_id, limit_ms)

    p.function(lapse_copy, lapsed)


def lapse_keeps_what_was_coming(p: Planting) -> None:
    lapse_copy = membership._lapse_copy

    def lapsed(turn: Turn, copy_id: CopyId, group_id: Any, limit_ms: int) -> None:
        copy = next(one for one in turn.state.copies[group_id] if one.id == copy_id)
        if copy.role is not Role.INCOMING:
            lapse_copy(turn, copy_id, group_id, limit_ms)

    p.function(lapse_copy, lapsed)


def recreated_owner_stays(p: Planting) -> None:
    p.body(rows.create_rest, lambda g, c, o, held, k: o)


# ---- stores --------------------------------------------------------------------------------------------------


def stores_are_not_scanned(p: Planting) -> None:
    def only_frees(turn: Turn) -> None:
        for store in turn.config.stores:
            for copy_id, group_id in list(turn.state.copies_at.get(store.name, {}).items()):
                housekeeping._repeat_free(turn, copy_id, group_id)

    p.function(housekeeping._stores, only_frees)


def frees_of_objects_are_not_repeated(p: Planting) -> None:
    p.function(housekeeping._repeat_free, lambda turn, copy_id, group_id: None)


