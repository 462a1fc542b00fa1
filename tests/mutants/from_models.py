"""The mutants of the cluster model that nobody else has."""

from __future__ import annotations

from tests.model_based import test_mutants_die as model
from tests.mutants.record import Mutant, switched

SAME: dict[str, str] = {
    "the_gate_for_orders_is_open": "orders_under_any_number",
    "absence_counts_in_any_inventory": "absence_always_counts",
    "strangers_stay": "unknown_copies_stay",
    "reports_of_old_incarnations_count": "reports_of_any_incarnation",
    "free_does_not_wait_for_guards": "free_ignores_guards",
    "what_is_going_is_used_again": "freeing_comes_back",
    "pins_are_no_reason": "evicts_ignore_pins",
    "holds_outlive_their_session": "holds_outlive_sessions",
    "a_repeated_number_is_a_new_one": "commands_apply_twice",
    "words_leave_before_they_are_durable": "speaks_before_the_commit",
}
"""Faults that are written down elsewhere as well: one mutant, under the other name."""

KINDS: dict[str, tuple[str, str, str]] = {
    "what_is_away_is_forgotten": ("lapse and return", "rule 9, finding 7, COPY-2", "at a lapse readable copies leave the record"),
    "absence_has_no_end": ("lapse and return", "rule 9, finding 7, LIVE-1", "absent copies are never dropped"),
    "copy_ids_come_back": ("move", "design 3, finding 4, COPY-3", "copy ids are taken from a small set"),
    "a_late_sealed_counts": ("writing", "rule 3, finding 16, COPY-1", "a write that was given up becomes readable after all"),
    "the_first_content_is_remembered": (
        "writing", "rule 3, finding 8, BYTES-1", "a group that is written anew keeps the manifest of what it was before",
    ),
    "nobody_is_promoted": ("move", "finding 18, MOVE-1", "the authoritative copy is lost, and its replicas with it"),
    "an_epoch_lasts_for_ever": ("fencing", "finding 27, EPOCH-1, OWN-1", "decisions leave the epoch as it was"),
    "room_is_back_at_the_decision": ("capacity", "rule 11, finding 11, CAP-1", "room is back when a copy is told to go"),
    "answers_are_dropped_early": ("exactly-once", "rule 1, finding 14, ONCE-1", "an answer is kept until the next number comes"),
    "clients_keep_what_they_took": ("client", "rule 2, finding 13, HOLD-2", "a get that is over does not give its PIN back"),
}  # fmt: skip


def by_name() -> dict[str, model.Mutant]:
    return {switch.__name__: switch for switch in model.MUTANTS}


def from_models() -> list[Mutant]:
    """All of them but those that have another name already."""
    return [
        Mutant(name, family, breaks, what, lambda name=name: switched(by_name()[name]))  # type: ignore[misc]
        for name, (family, breaks, what) in KINDS.items()
    ]
