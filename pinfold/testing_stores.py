"""The conformance kit for metadata stores: a class to subclass, a test for each duty of `backends.base.MetadataStore`.

    class TestMyStore(StoreConformance):
        def make_store(self, schema): ...         # a new, empty store
        def reopen(self, store): ...              # close it, open the same again
        def crash(self, store): ...               # pull the plug, open what is left

pytest collects the subclass; `run_store_kit` runs it without pytest. `usurp` and `inject` are optional: where they are not
given, the tests that need them are skipped and say so. `pinfold.testing_bad_stores` has, for each test, a store that fails it.

What is here is the second part, on crashes, outcomes and terms; `testing_store_contents` is the first.
"""

from __future__ import annotations

from contextlib import suppress

from pinfold.backends.base import MetadataStore, StoreClosed, StoreError, StoreFenced, StoreUncertain
from pinfold.backends.memory import Fault
from pinfold.core.driver import Outcome

from .testing_records import Small
from .testing_store_contents import StoreContents
from .testing_store_tools import check, refused, run_store_kit

__all__ = ["StoreConformance", "run_store_kit"]

BATCH = [("small", n, Small(n)) for n in range(4)]
"""A commit that is easily torn."""


class StoreConformance(StoreContents):
    """The whole kit."""

    # ---- durable and whole -----------------------------------------------------------------------------------

    def test_earlier_commits_survive_a_crash(self) -> None:
        store = self.new()
        for n in range(5):
            self.put(store, ("small", n, Small(n)))
        with self.crash(store) as store:
            missing = {0, 1, 2, 3} - set(self.rows(store, "small"))
            check(not missing, f"commits {missing} of 5 were answered DONE and are lost")

    def test_each_commit_is_durable_when_it_is_answered(self) -> None:
        store = self.new()
        for n in range(4):
            self.put(store, ("small", n, Small(n)))
            store = self.crash(store)
            check(n in self.rows(store, "small"), f"commit {n} was answered DONE and is lost")
        store.close()

    def test_a_commit_is_whole_after_a_crash(self) -> None:
        store = self.new()
        self.put(store, *BATCH)
        with self.crash(store) as store:
            self._whole(store, "after a crash")

    def _whole(self, store: MetadataStore, when: str) -> bool:
        """Whether BATCH is there; nothing in between."""
        found = len(self.rows(store, "small"))
        check(found in (0, len(BATCH)), f"{found} of the {len(BATCH)} writes of one commit are there {when}")
        return found > 0

    # ---- outcomes --------------------------------------------------------------------------------------------

    def test_a_commit_that_did_not_happen_has_left_nothing(self) -> None:
        store = self.new()
        self.inject(store, Fault.REFUSED)
        if store.commit(BATCH) is Outcome.NOT_DONE:
            check(self.rows(store, "small") == {}, "answered NOT_DONE, and part of it is there")
            with self.reopen(store) as store:
                check(self.rows(store, "small") == {}, "answered NOT_DONE, and part of it is there after opening again")

    def test_after_a_commit_that_did_not_happen_the_same_writes_may_be_tried_again(self) -> None:
        with self.new() as store:
            self.inject(store, Fault.REFUSED)
            store.commit(BATCH)
            self.put(store, *BATCH)
            check(store.failure is None, "a commit was DONE, and `failure` still tells of the one before")

    def test_a_failure_is_not_answered_done(self) -> None:
        with self.new() as store:
            self.inject(store, Fault.REFUSED)
            outcome = store.commit(BATCH)
            check(outcome is not Outcome.DONE, "a commit that failed was answered DONE")
            check(isinstance(store.failure, StoreError), "a commit failed, and `failure` does not say why")

    def test_not_done_is_never_said_of_what_has_happened(self) -> None:
        store = self.new()
        self.inject(store, Fault.UNKNOWN_DONE)
        outcome = store.commit(BATCH)
        with self.reopen(store) as store:
            check(outcome is not Outcome.NOT_DONE or not self.rows(store, "small"), "answered NOT_DONE, and it has happened")

    def test_done_is_never_said_of_what_may_not_have_happened(self) -> None:
        store = self.new()
        self.inject(store, Fault.UNKNOWN_LOST)
        outcome = store.commit(BATCH)
        with self.reopen(store) as store:
            check(outcome is not Outcome.DONE or bool(self.rows(store, "small")), "answered DONE, and it has not happened")

    def test_a_commit_of_unknown_outcome_is_whole(self) -> None:
        for fault in (Fault.UNKNOWN_DONE, Fault.UNKNOWN_LOST):
            store = self.new()
            self.inject(store, fault)
            store.commit(BATCH)
            with self.reopen(store) as store:
                self._whole(store, "after an unknown outcome")

    def test_after_an_unknown_outcome_nothing_is_served_until_the_store_is_opened_again(self) -> None:
        store = self.new()
        self.inject(store, Fault.UNKNOWN_LOST)
        if store.commit(BATCH) is Outcome.UNKNOWN:
            refused(lambda: store.commit(BATCH), StoreUncertain, "a commit after an unknown outcome")
            refused(store.load, StoreUncertain, "a load after an unknown outcome")
            with self.reopen(store) as store:
                self.put(store, *BATCH)

    # ---- terms -----------------------------------------------------------------------------------------------

    def test_terms_only_rise(self) -> None:
        store = self.new()
        check(store.term == 0, f"a new store has term {store.term}")
        store.fence(5)
        store.fence(5)
        check(store.term == 5, f"term {store.term} instead of 5")
        refused(lambda: store.fence(4), StoreFenced, "claiming a lower term")
        with self.reopen(store) as store:
            check(store.term >= 5, "the term went back when the store was opened again")
            refused(lambda: store.fence(5), StoreFenced, "claiming a term that another handle has claimed")
            store.fence(6)

    def test_a_term_survives_a_crash(self) -> None:
        store = self.new()
        store.fence(7)
        with self.crash(store) as store:
            check(store.term == 7, f"term {store.term} instead of 7 after a crash")

    def test_a_deposed_writer_cannot_commit(self) -> None:
        with self.new() as store:
            store.fence(1)
            self.put(store, ("others", 1, Small(1)))
            self.usurp(store, 2)
            refused(lambda: store.commit([("others", 1, Small(2))]), StoreFenced, "a commit of an older term")
            check(self.rows(store, "others") == {1: Small(1)}, "a refused commit of an older term has an effect")

    def test_a_handle_without_a_term_cannot_commit_to_a_claimed_store(self) -> None:
        store = self.new()
        store.fence(1)
        with self.reopen(store) as store:
            refused(lambda: store.commit([("others", 1, Small(1))]), StoreFenced, "a commit without a term")
            with suppress(StoreFenced):
                store.fence(2)
                self.put(store, ("others", 1, Small(2)))

    # ---- the handle ------------------------------------------------------------------------------------------

    def test_the_identity_stays(self) -> None:
        store = self.new()
        identity = store.identity
        store = self.reopen(store)
        check(store.identity == identity, f"{store.identity} instead of {identity} after opening again")
        with self.crash(store) as store:
            check(store.identity == identity, f"{store.identity} instead of {identity} after a crash")

    def test_no_two_stores_have_one_identity(self) -> None:
        with self.new() as one, self.new() as two:
            check(one.identity.store_id != two.identity.store_id, "two stores have the same id")

    def test_a_closed_store_refuses(self) -> None:
        store = self.new()
        store.close()
        store.close()
        refused(lambda: store.commit(BATCH), StoreClosed, "a commit after `close`")
        refused(store.load, StoreClosed, "a load after `close`")
        refused(lambda: store.fence(1), StoreClosed, "a claim after `close`")
