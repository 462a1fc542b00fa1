"""The DRAM slab, and the checksums that all tiers share."""

import sys
import zlib
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.backends import checksums as sums
from pinfold.backends.dram import DramTier
from pinfold.backends.memory_tier import PhantomTier
from pinfold.backends.tier import ByteTier, TierLost, TierRefused, runs
from pinfold.core.errors import InvariantViolation
from pinfold.core.ids import Tier
from pinfold.testing_samples import Sample, make_sample
from pinfold.testing_tiers import TierConformance, expect


class TestDramTier(TierConformance):
    """The slab obeys every law, with the default checksum."""

    slots = 64
    tier = Tier.DRAM

    def open_tier(self) -> ByteTier:
        return DramTier(self.slots, 128)

    def turn_a_bit(self, tier: ByteTier, sample: Sample, block: int) -> None:
        assert isinstance(tier, DramTier)
        tier._slab[sample.instance.slots[block], 0] ^= 1


class TestDramTierWithXxh3(TestDramTier):
    """And with the fast one."""

    checksum = "xxh3"


def sample(number: int, slots: tuple[int, ...]) -> Sample:
    return make_sample(number, (100, 60), slots=slots, tier=Tier.DRAM)


def test_a_slot_that_still_has_bytes_is_never_given_away() -> None:
    tier, one, two = DramTier(4, 128), sample(1, (0, 1)), sample(2, (1, 2))
    TierConformance.put(tier, one)
    with pytest.raises(InvariantViolation, match="USE-1"):
        TierConformance.write(tier, two)
    TierConformance.assert_readable(tier, one)
    tier.release(one.instance)
    TierConformance.put(tier, two)
    TierConformance.assert_readable(tier, two)


def test_one_slot_twice_is_a_bug_and_nothing_is_taken() -> None:
    tier = DramTier(4, 128)
    with pytest.raises(InvariantViolation, match="one slot twice"):
        TierConformance.write(tier, sample(1, (3, 3)))
    TierConformance.put(tier, sample(2, (3, 2)))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (sample(1, (0,)), "2 blocks and 1 slots"),
        (sample(1, (0, 4)), "slot 4 is not in a slab of 4"),
        (make_sample(1, (129,), slots=(0,)), "has 129 bytes; a slot has 128"),
    ],
)
def test_what_does_not_fit_the_slab_is_refused(made: Sample, sentence: str) -> None:
    tier = DramTier(4, 128)
    assert sentence in str(expect(TierRefused, TierConformance.write, tier, made))
    assert tier.copies() == ()


def test_a_slab_without_slots_is_refused() -> None:
    expect(TierRefused, DramTier, 0, 4096)
    expect(TierRefused, DramTier, 4, 0)


def test_slots_have_one_stride_and_the_slab_says_its_size() -> None:
    assert DramTier(10, 100).slab_bytes == 10 * 128
    assert DramTier(10, 4096).slab_bytes == 10 * 4096


def test_views_are_read_only_windows_and_loads_are_copies() -> None:
    tier, one = DramTier(4, 128), sample(1, (2, 0))
    expect(TierLost, tier.views, one.instance, one.spec, (0,))
    TierConformance.put(tier, one)
    known, windows = tier.views(one.instance, one.spec, one.blocks)
    _, copied = tier.load(one.instance, one.spec, one.blocks)
    assert known == one.checksums
    assert [bytes(window) for window in windows] == list(one.data)
    assert all(buffer.readonly for buffer in (*windows, *copied))
    tier._slab[2, 0] ^= 1
    assert bytes(windows[0]) != one.data[0]
    assert bytes(copied[0]) == one.data[0]


def test_any_contiguous_buffer_is_taken_and_no_other() -> None:
    tier, one = DramTier(4, 128), make_sample(1, (96,), slots=(0,))
    shaped = numpy.frombuffer(one.data[0], dtype=numpy.float32).reshape(4, 6)
    expect(TierRefused, tier.write, one.instance, one.spec, (0,), one.checksums, (shaped[:, ::2],))
    tier.write(one.instance, one.spec, (0,), one.checksums, (shaped,))
    tier.verify(one.instance, one.spec, one.manifest)
    TierConformance.assert_readable(tier, one)


def test_phantom_bytes_have_the_same_manifest_as_real_ones() -> None:
    tier, one = PhantomTier(), make_sample(1)
    tier.write(one.instance, one.spec, (0, 1, 2), one.checksums[:3], ())
    expect(TierLost, tier.verify, one.instance, one.spec, one.manifest)
    tier.write(one.instance, one.spec, (3,), one.checksums[3:], ())
    expect(TierLost, tier.load, one.instance, one.spec, (0,))
    assert tier.verify(one.instance, one.spec, one.manifest) == one.manifest
    assert tier.load(one.instance, one.spec, (2, 0)) == ((one.checksums[2], one.checksums[0]), ())
    assert tier.scan().found[0].checksums == one.checksums
    expect(TierRefused, tier.write, one.instance, one.spec, (0,), (), ())
    tier.release(one.instance)
    assert tier.copies() == ()


# ---- checksums -----------------------------------------------------------------------------------------------


def test_checksums_fit_63_bits_and_differ_by_algorithm() -> None:
    data: list[Any] = [b"", b"a", bytes(1000), memoryview(b"abc")]
    assert sums.checksums("crc32", data) == tuple(zlib.crc32(each) for each in data)
    fast = sums.checksums("xxh3", data)
    assert all(0 <= each < 2**63 for each in fast)
    assert len(set(fast)) == 4
    assert sums.NAMES == ("crc32", "xxh3")


def test_an_unknown_checksum_is_refused_by_name() -> None:
    assert "'md5'" in str(expect(TierRefused, sums.checksum, "md5"))


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_made", {})
    monkeypatch.setitem(sys.modules, "xxhash", None)
    assert "pip install 'pinfold[tiers]'" in str(expect(TierRefused, sums.checksum, "xxh3"))
    sums.checksum("crc32")


@given(st.lists(st.integers(0, 50), max_size=30), st.lists(st.integers(0, 100), max_size=60), st.integers(1, 200))
def test_runs_keep_the_order_and_the_bound(sizes: list[int], picks: list[int], bytes_max: int) -> None:
    blocks = [pick % len(sizes) for pick in picks] if sizes else []
    cut = list(runs(sizes, blocks, bytes_max))
    assert [block for run in cut for block in run] == blocks
    for run in cut:
        assert run == list(range(run[0], run[0] + len(run)))
        assert len(run) == 1 or sum(sizes[block] for block in run) <= bytes_max
