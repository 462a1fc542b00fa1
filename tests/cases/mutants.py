"""The mutants of the casebook, as data: the case, the fault in one line, the switch. Run by `test_mutants_of_cases.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cases import faults_holds as holds
from tests.cases import faults_node as node
from tests.cases.switches import Mutant as Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant("C01", "a request's end releases only the groups that were read", holds.only_what_was_read),
    Mutant("C03", "a release of an unknown hold is a silent success", holds.unknown_release_is_silent),
    Mutant("C05", "a second release lowers the count, clamped at zero", holds.clamped_count),
    Mutant("C07", "the copy between tiers takes one more guard and keeps it", node.reference_in_the_codec),
    Mutant("C08", "a failed demotion is not cleaned up", node.no_cleanup_on_failure),
    Mutant("C09", "a move whose target has gone keeps its source and its state", holds.record_before_hold),
    Mutant("C12", "a copy that has gone is counted free once more", node.freed_again),
    Mutant("C13", "a copy is ordered to go whenever it is FREEING, not when it becomes so", holds.free_whenever_freeing),
    Mutant("C16", "a batch evicts past the guards", holds.batch_past_the_guards),
    Mutant("C17", "the source of a queued copy is let go at once", node.source_let_go_at_once),
    Mutant("C19", "a create gives no pin", holds.put_without_a_hold),
)


@contextmanager
def inherit(name: str) -> Iterator[None]:
    """In a child process: run under the mutant of this name, "" for none."""
    if not name:
        yield
        return
    with next(mutant for mutant in MUTANTS if mutant.name == name).on():
        yield
