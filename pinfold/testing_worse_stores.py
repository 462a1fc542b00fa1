"""Known-bad stores, second part: commits that are torn, lost, wrongly answered, or of a deposed writer; and the list of all."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinfold.backends.base import StoreError
from pinfold.backends.memory import Batch, Fault
from pinfold.core.driver import Outcome
from pinfold.core.effects import Write

from . import testing_bad_stores
from .testing_bad_stores import BadStore

# ---- the order and the whole of a commit ---------------------------------------------------------------------


class AppliesTheFirstWrite(BadStore):
    """Collects a commit in a dictionary and does not replace what is there."""

    seen_by = ("test_the_last_write_to_a_key_counts", "test_deletes_and_puts_of_one_commit_keep_their_order")

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        kept: dict[tuple[str, bytes], Any] = {}
        for table, key, frozen in super()._freeze(writes):
            kept.setdefault((table, key), frozen)
        return tuple((table, key, frozen) for (table, key), frozen in kept.items())


class DeletesLast(BadStore):
    """Sends the puts of a commit first and its deletes after them."""

    seen_by = ("test_deletes_and_puts_of_one_commit_keep_their_order",)

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        return tuple(sorted(super()._freeze(writes), key=lambda write: write[2] is None))


class ForgetsDeletes(BadStore):
    """Writes what there is to write."""

    seen_by = ("test_deleted_records_are_gone", "test_deleted_records_stay_gone", "test_tables_stay_apart")

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        return tuple(write for write in super()._freeze(writes) if write[2] is not None)


class DeletesUntilReopened(BadStore):
    """Marks records as deleted in memory only."""

    seen_by = ("test_deleted_records_stay_gone",)
    buried: Batch = ()

    def _open(self) -> None:
        super()._open()
        self._medium.apply(self.buried)

    def _apply(self, batch: Batch) -> None:
        tables = self._medium.tables
        self.buried += tuple((table, key, tables[table].get(key)) for table, key, frozen in batch if frozen is None)
        super()._apply(batch)


class RefusesEmptyCommits(BadStore):
    """Takes nothing to do for a mistake."""

    seen_by = ("test_an_empty_commit_is_done",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        return super().commit(writes) if writes else Outcome.NOT_DONE


class CutsLargeCommits(BadStore):
    """Sends at most 128 writes in one transaction."""

    seen_by = ("test_a_large_commit_is_one_commit",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = Outcome.DONE
        for start in range(0, len(writes) or 1, 128):
            outcome = super().commit(writes[start : start + 128])
        return outcome


class AppliesUntilItFails(BadStore):
    """Encodes and writes record by record."""

    seen_by = ("test_a_write_that_does_not_fit_changes_nothing", "test_a_large_commit_is_one_commit")

    def _freeze(self, writes: Sequence[Write]) -> Batch:
        batch: list[Any] = []
        try:
            for write in writes:
                batch.extend(super()._freeze([write]))
        except StoreError:
            self._apply(tuple(batch))
            raise
        return tuple(batch)


# ---- durability ----------------------------------------------------------------------------------------------


class _Unsynced(BadStore):
    """Answers before it is durable; what is not durable at a crash is lost."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__(schema, sync=False)

    def reopen(self) -> None:
        self.sync()
        super().reopen()


class LosesWhatItNeverSynced(_Unsynced):
    """Syncs when it is closed."""

    seen_by = ("test_earlier_commits_survive_a_crash", "test_each_commit_is_durable_when_it_is_answered")


class SaysDoneBeforeItIsDurable(_Unsynced):
    """Syncs a commit when the next one comes."""

    seen_by = ("test_each_commit_is_durable_when_it_is_answered",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        self.sync()
        return super().commit(writes)


class TearsCommits(BadStore):
    """Writes each record in place: a crash finds the last commit half done."""

    seen_by = ("test_a_commit_is_whole_after_a_crash",)
    last: Batch = ()

    def _apply(self, batch: Batch) -> None:
        self.last = batch
        super()._apply(batch)

    def crash(self, lost: int | None = None) -> None:
        self._medium.apply(tuple((table, key, None) for table, key, _ in self.last[1 : 1 + len(self.last) // 2]))
        super().crash(lost)


class ForgetsItsTerm(BadStore):
    """Keeps the term in memory, and notes it when it is closed."""

    seen_by = ("test_a_term_survives_a_crash",)

    def crash(self, lost: int | None = None) -> None:
        super().crash(lost)
        self._medium.term = 0


# ---- answers -------------------------------------------------------------------------------------------------


class LeavesHalfOfWhatFailed(BadStore):
    """Does not roll back."""

    seen_by = ("test_a_commit_that_did_not_happen_has_left_nothing",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        if outcome is Outcome.NOT_DONE:
            self._apply(self._freeze(writes)[: len(writes) // 2])
        return outcome


class SwallowsErrors(BadStore):
    """Catches what goes wrong, and goes on."""

    seen_by = ("test_a_failure_is_not_answered_done",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        return Outcome.DONE if outcome is Outcome.NOT_DONE else outcome


class KeepsItsOldFailure(BadStore):
    """Never forgets an error."""

    seen_by = ("test_after_a_commit_that_did_not_happen_the_same_writes_may_be_tried_again",)
    first: StoreError | None = None

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        self.failure = self.first = self.first or self.failure
        return outcome


class CallsUnknownNotDone(BadStore):
    """Takes a time-out for a no."""

    seen_by = ("test_not_done_is_never_said_of_what_has_happened",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        return Outcome.NOT_DONE if outcome is Outcome.UNKNOWN else outcome


class CallsUnknownDone(BadStore):
    """Takes a time-out for a yes."""

    seen_by = ("test_done_is_never_said_of_what_may_not_have_happened",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        return Outcome.DONE if outcome is Outcome.UNKNOWN else outcome


class TearsWhatIsUnknown(BadStore):
    """Stops in the middle when the disk does not answer."""

    seen_by = ("test_a_commit_of_unknown_outcome_is_whole",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        torn = bool(self._faults) and self._faults[0] is Fault.UNKNOWN_LOST
        outcome = super().commit(writes)
        if torn and outcome is Outcome.UNKNOWN:
            self._apply(self._freeze(writes)[: len(writes) // 2])
        return outcome


class GoesOnAfterUnknown(BadStore):
    """Takes the next commit as if nothing were the matter."""

    seen_by = ("test_after_an_unknown_outcome_nothing_is_served_until_the_store_is_opened_again",)

    def commit(self, writes: Sequence[Write]) -> Outcome:
        outcome = super().commit(writes)
        self._uncertain = False
        return outcome


# ---- terms ---------------------------------------------------------------------------------------------------


class IgnoresTheTerm(BadStore):
    """Trusts its lock."""

    seen_by = (
        "test_a_deposed_writer_cannot_commit",
        "test_a_handle_without_a_term_cannot_commit_to_a_claimed_store",
    )

    def commit(self, writes: Sequence[Write]) -> Outcome:
        self._term = self._medium.term
        return super().commit(writes)


class TakesAnyTerm(BadStore):
    """Writes down whatever term it is told."""

    seen_by = ("test_terms_only_rise",)

    def fence(self, term: int) -> None:
        self._check_usable()
        self._medium.term = self._term = term


BAD_STORES: Final[tuple[type[BadStore], ...]] = tuple(
    kind
    for module in (testing_bad_stores, sys.modules[__name__])
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, BadStore) and kind.seen_by and kind.__module__ == module.__name__
)
"""All of them. `MemoryStore` itself passes the whole kit."""
