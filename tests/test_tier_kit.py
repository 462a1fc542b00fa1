"""The kit itself: every known-bad tier fails the test that was made for it, and no other."""

import pytest

from pinfold.testing_bad_file_tiers import SsdTierKit
from pinfold.testing_bad_tiers import BAD_TIERS, BadTier, MemoryTierKit
from pinfold.testing_tiers import kit_tests, run_kit


class TestMemoryTier(MemoryTierKit):
    """The tier on which the bad ones in memory are built obeys every law."""


@pytest.mark.parametrize("bad", BAD_TIERS, ids=lambda bad: bad.tier.__name__)
def test_a_bad_tier_fails_its_own_test_and_no_other(bad: BadTier) -> None:
    failed = run_kit(bad.conformance())
    assert set(failed) == {bad.test}, failed


@pytest.mark.parametrize("kit", [MemoryTierKit, SsdTierKit])
def test_every_test_of_the_kit_has_a_bad_tier(kit: type[MemoryTierKit] | type[SsdTierKit]) -> None:
    assert set(kit_tests(kit)) <= {bad.test for bad in BAD_TIERS}
