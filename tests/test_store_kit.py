"""The conformance kit for stores can see: each known-bad store fails the tests made for it, and only those."""

import pytest

from pinfold.testing import BAD_STORES, BadStore, MemoryStoreKit, run_store_kit


def names_of_the_kit() -> set[str]:
    return {name for name in dir(MemoryStoreKit) if name.startswith("test_")}


@pytest.mark.parametrize("bad", BAD_STORES, ids=lambda bad: bad.__name__)
def test_a_bad_store_fails_the_tests_made_for_it_and_no_others(bad: type[BadStore]) -> None:
    failed = run_store_kit(MemoryStoreKit.over(bad))
    assert set(failed) == set(bad.seen_by), failed


def test_the_reference_store_fails_none() -> None:
    assert run_store_kit(MemoryStoreKit()) == {}


def test_each_test_of_the_kit_has_a_store_that_fails_it() -> None:
    assert names_of_the_kit() - {name for bad in BAD_STORES for name in bad.seen_by} == set()
