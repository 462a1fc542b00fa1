"""Seeded faults: what a world must find before its silence counts for anything.

Each is one function, row or guard of the shipped machines made wrong, in the family of the rule that it breaks. A world file
names those that it must find. `planted(name)` seeds one while a block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define

from . import mutants_directory as d
from . import mutants_node as n
from .planting import Planting


@define(frozen=True)
class Mutant:
    """`breaks`: the rule of the design, or the finding, by number; and the invariant that dies of it."""

    name: str
    family: str
    breaks: str
    what: str
    plant: Callable[[Planting], None]


def _of(family: str, breaks: str, what: str, plant: Callable[[Planting], None]) -> Mutant:
    return Mutant(plant.__name__, family, breaks, what, plant)


def _listed() -> list[Mutant]:
    return [
        _of("fencing", "rule 7, finding 3, FENCE-1", "a node takes repeated and late orders", n.orders_under_any_number),
        _of("fencing", "rule 7, FENCE-1", "a node takes orders of another registration", n.orders_of_any_incarnation),
        _of("fencing", "rule 7, FENCE-1", "the directory believes reports of an older registration", d.reports_of_any_incarnation),
        _of("fencing", "rule 7, LIVE-1", "after a restart a node drops the new term's orders", n.orders_compared_without_term),
        _of("holds", "rule 2, HOLD-2", "a session ends and its holds stay", d.holds_outlive_sessions),
        _of("holds", "rule 2, finding 15, HOLD-1", "a hold that was lost leaves no record for its holder", d.lost_holds_vanish),
        _of("holds", "rule 2, finding 5, USE-1", "a retiring copy goes under its pins", d.pinned_copies_are_freed),
        _of("holds", "rule 2, HOLD-1", "an evict is accepted under pins", d.evicts_ignore_pins),
        _of("holds", "rule 2, HOLD-1", "an evict is accepted under refs", d.evicts_ignore_refs),
        _of("holds", "rule 2, finding 17, HOLD-1", "a move is accepted under pins without leave", d.moves_ignore_pins),
        _of("guards", "rule 6, finding 1, USE-1", "bytes are released under a guard", n.free_ignores_guards),
        _of("guards", "rule 6, finding 1, USE-1", "a node that has lapsed forgets its guards", n.guards_end_with_the_lease),
        _of("guards", "rule 6, LIVE-1", "a dead process keeps its guards", n.exits_are_not_noticed),
        _of("guards", "rule 6, ANSWER-1", "a repeated Acquire gets a second guard", n.acquires_are_not_remembered),
        _of("guards", "rule 6, finding 12, USE-1", "bytes are released under a running read", n.loads_are_no_guards),
        _of("writing", "rule 3, finding 8, COPY-1", "a write ends without its bytes being read back", n.seals_without_looking),
        _of("writing", "rule 3, finding 16", "a write goes on when its writer's session is over", d.writes_outlive_sessions),
        _of("move", "rule 4.4, COPY-1", "a fetch is done when its blocks are stored", n.done_without_looking),
        _of("move", "rule 4.6, MOVE-2, USE-1", "the source of a move is freed at once, pinned or not", d.source_goes_at_the_commit),
        _of("move", "rule 4.5, COPY-2", "the source stays authoritative after the commit", d.two_owners),
        _of("move", "finding 6, COPY-3", "a copy whose Free has left is used again", d.freeing_comes_back),
        _of("move", "rule 4.7, OWN-1", "an aborted move leaves the epoch as it was", d.aborts_keep_the_epoch),
        _of("move", "rule 4.7, finding 18, MOVE-1", "a loss is said while the target is still being made", d.lost_source_ends_the_move),
        _of("move", "rule 4, MOVE-2", "old bytes go at the end of their grace though nothing else can be read", d.last_bytes_go),
        _of("move", "rule 4.7, MOVE-1", "a loss is said while the old bytes are still there", d.retired_are_no_heirs),
        _of("capacity", "rule 11, finding 11, CAP-1", "an aborted move gives its space back at the decision", d.space_back_at_the_abort),
        _of("capacity", "rule 11, CAP-1", "space of copies that are being freed is given away", d.freeing_takes_no_room),
        _of("capacity", "rule 6, finding 1, USE-1", "slots are free before their release is done", n.slots_back_before_release),
        _of("exactly-once", "rule 1, finding 14, ONCE-1", "a repeated command is applied again", d.commands_apply_twice),
        _of("exactly-once", "rule 1, finding 13, ONCE-1", "a number is applied before an earlier one", d.numbers_in_any_order),
        _of("durability order", "rule 1, DUR-1", "the answer is not in the commit of its effect", d.answers_are_not_durable),
        _of("durability order", "rule 10, DUR-1", "a pin is answered and not persisted", d.holds_are_not_durable),
        _of("durability order", "rule 10, finding 10, EPOCH-1", "a restart begins no new term", d.terms_do_not_rise),
        _of("durability order", "rule 10, finding 9, DUR-1", "outputs leave while their commit is under way", d.speaks_before_the_commit),
        _of("inventory", "rule 8, finding 3, INV-1", "an inventory from before an order ends what was ordered", d.absence_always_counts),
        _of("inventory", "rule 8, INV-1", "an inventory from before the verification ends a copy", d.reserved_means_lost),
        _of("inventory", "rule 8, LIVE-1", "a copy in no record is left where it is", d.unknown_copies_stay),
        _of("inventory", "rule 7, LIVE-1", "an order that was lost is not sent again", d.orders_are_not_repeated),
        _of("lapse and return", "rule 9, finding 7, COPY-2", "a copy whose node is away is readable", d.absent_copies_are_pinned),
        _of("lapse and return", "rule 9, HOLD-1", "a lapse ends the holds on the node's copies", d.lapse_breaks_holds),
        _of("lapse and return", "rule 9", "what was being made at a lapsed node stays in the record", d.lapse_keeps_what_was_coming),
        _of("lapse and return", "design 4, finding 7, COPY-2", "an absent owner still counts after its group was created again", d.recreated_owner_stays),
        _of("store", "rule 4.4, finding 20, COPY-2", "a spill is reported done before the object is there", n.spill_done_at_once),
        _of("store", "rule 8, finding 20, LIVE-1", "an object in no record stays for ever", d.stores_are_not_scanned),
        _of("store", "rule 8, finding 20, LIVE-1", "a lost Free of an object is not sent again", d.frees_of_objects_are_not_repeated),
    ]  # fmt: skip


MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in _listed()}


@contextmanager
def planted(name: str) -> Iterator[Mutant]:
    """Seed one fault while the block runs. Raises `KeyError` for a name that is none."""
    mutant = MUTANTS[name]
    planting = Planting()
    try:
        mutant.plant(planting)
        yield mutant
    finally:
        planting.undo()
