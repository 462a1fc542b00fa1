"""The mutants of the casebook, put into families and under the rules that they break."""

from __future__ import annotations

from tests.cases.mutants import MUTANTS
from tests.mutants.record import Mutant

SAME: dict[str, str] = {
    "C21 a": "free_ignores_guards",
    "C29": "seals_without_looking",
    "C61 a": "reports_of_any_incarnation",
}
"""Faults that are written down elsewhere as well: one mutant, under the other name."""

KINDS: dict[str, tuple[str, str]] = {
    "C01": ("holds", "rule 2, finding 13, HOLD-1"),
    "C03": ("holds", "rule 2, finding 15, HOLD-1"),
    "C05": ("holds", "rule 2, finding 15, HOLD-1"),
    "C07": ("guards", "rule 12, USE-1"),
    "C08": ("capacity", "rule 12, CAP-1"),
    "C09": ("move", "rule 4.7, MOVE-1"),
    "C12": ("capacity", "rule 11, CAP-1"),
    "C13": ("move", "rule 4.6, rule 7"),
    "C16": ("holds", "rule 2, finding 17, HOLD-1"),
    "C17": ("guards", "rule 6, rule 12, USE-1"),
    "C19": ("writing", "rule 2, finding 16, HOLD-1"),
    "C21 b": ("guards", "rule 6, finding 1, LIVE-1"),
    "C22": ("move", "rule 4.7, finding 21, ANSWER-1"),
    "C24": ("guards", "rule 6, finding 1, USE-1"),
    "C25": ("capacity", "rule 11, finding 11, CAP-1"),
    "C26": ("guards", "rule 6, finding 12, USE-1"),
    "C31": ("guards", "rule 6, rule 12, USE-1"),
    "C32": ("move", "rule 4.4, COPY-1"),
    "C35": ("writing", "rule 5, COPY-1"),
    "C36": ("tier", "rule 11, CAP-1"),
    "C37": ("move", "rule 4.1, LIVE-1"),
    "C38 a": ("durability order", "rule 10, DUR-1"),
    "C38 b": ("lapse and return", "rule 9, MOVE-1, COPY-2"),
    "C40": ("move", "rule 4.3, finding 19"),
    "C41": ("move", "rule 4.4, finding 19, COPY-1"),
    "C42": ("tier", "rule 6, USE-1, BYTES-1"),
    "C43": ("inventory", "rule 8, COPY-2"),
    "C44": ("inventory", "rule 8, finding 3, INV-1"),
    "C45": ("exactly-once", "rule 1, ANSWER-1"),
    "C47": ("wire", "rule 8, INV-1, LIVE-1"),
    "C48": ("fencing", "rule 7, finding 10, LIVE-1"),
    "C49": ("lapse and return", "rule 10, finding 22, HOLD-2"),
    "C50": ("fencing", "rule 7, finding 10, FENCE-1"),
    "C52 a": ("lapse and return", "rule 10, finding 22, HOLD-2"),
    "C52 b": ("lapse and return", "rule 10, finding 22, DUR-1"),
    "C52 c": ("durability order", "rule 10, finding 22, DUR-1"),
    "C54": ("tier", "rule 4.4, BYTES-1"),
    "C55": ("guards", "rule 6, finding 1, COPY-1"),
    "C56": ("durability order", "rule 10, DUR-1"),
    "C57": ("client", "rule 5, ROUTE-1"),
    "C59": ("move", "rule 7, finding 22"),
    "C60 a": ("guards", "rule 6, findings 2 and 12, USE-1"),
    "C60 b": ("writing", "rule 3, finding 16"),
    "C61 b": ("fencing", "rule 9, finding 7, FENCE-1"),
    "C62": ("capacity", "rule 11, finding 11, CAP-1"),
    "C63": ("capacity", "rule 11, CAP-1"),
    "C65": ("capacity", "rule 4.7, CAP-1"),
    "C66": ("capacity", "rule 11, CAP-1"),
    "C67": ("capacity", "rule 12, rule 14, LIVE-1"),
    "C68": ("writing", "rule 3, finding 16, LIVE-1"),
    "C69": ("client", "rule 13, finding 21"),
    "C71": ("wire", "rule 14, LIVE-1"),
    "C73": ("capacity", "rule 11, finding 11, CAP-1"),
    "C74": ("tier", "rule 6, BYTES-1"),
    "C77": ("move", "rule 4.5, finding 18"),
    "C79": ("tier", "rule 14"),
    "C81": ("client", "rule 14, finding 21"),
    "C82 a": ("tier", "rule 4.4, COPY-1"),
    "C82 b": ("tier", "rule 11, CAP-1"),
    "C83 a": ("writing", "rule 3, finding 16, OWN-1"),
    "C83 b": ("writing", "rule 14, ANSWER-1"),
    "C86": ("holds", "rule 13, finding 21"),
    "C87": ("move", "rule 13"),
    "C88": ("store", "rule 10, finding 9, DUR-1"),
    "C89": ("store", "rule 10, DUR-1"),
    "C90": ("store", "rule 10, finding 10, OWN-1"),
    "C92": ("store", "rule 10, DUR-1"),
    "C94": ("wire", "rule 13, ANSWER-1"),
    "C96": ("wire", "rule 14"),
    "C97": ("client", "rule 5, BYTES-1"),
    "C98": ("wire", "rule 14"),
    "C99": ("wire", "rule 13"),
    "C100 a": ("wire", "BYTES-1"),
    "C100 b": ("capacity", "rule 11, BYTES-1"),
    "C102": ("wire", "DET-1"),
    "C103": ("wire", "rule 13"),
    "C105": ("move", "rule 4.1, finding 18, MOVE-1"),
    "C108": ("client", "rule 2, finding 13, HOLD-2"),
}

MADE_FOR: dict[str, str] = {
    "C16": "test_an_eviction_in_a_batch_meets_the_guards",
    "C42": "test_bytes_that_were_given_to_be_stored",
    "C50": "test_a_new_term_restarts_the_numbers",
    "C59": "test_a_deadline_travels_as_the_time_that_is_left",
    "C79": "test_a_tier_that_fails_ends_its_work",
    "C82 a": "test_a_write_that_the_medium_has_no_room_for",
    "C82 b": "test_a_write_without_room_tells_at_once",
    "C89": "test_a_handle_is_of_no_use_in_a_forked_child",
    "C100 b": "test_a_group_goes_only_where_its_blocks_fit",
}
"""Unit tests that state by themselves what a fault of a case breaks: the first words of their names."""


def from_cases() -> list[Mutant]:
    """All of them but those that have another name already."""
    return [
        Mutant(
            one.switch.__name__,
            *KINDS.get(one.name, ("", "")),
            one.fault,
            one.on,
            case=one.case,
            tests=(MADE_FOR[one.name],) if one.name in MADE_FOR else (),
        )
        for one in MUTANTS
        if one.name not in SAME
    ]
