"""The conformance kit for byte tiers: subclass `TierConformance`, or `FileTierConformance`, and give it your tier.

    class TestMyTier(TierConformance):      # FileTierConformance is in `testing_file_tiers`
        def open_tier(self):
            return MyTier(self.folder / "data")

        def turn_a_bit(self, tier, sample, block):
            ...    # change one bit of the kept bytes behind the tier's back

pytest finds the tests; `run_kit` runs them without it. Each test stands for one law of `backends/tier.py`, and for each there
is a tier in `testing_bad_tiers` that breaks this law only: that is how the kit itself is tested.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from attrs import evolve

from pinfold.backends.checksums import checksums
from pinfold.backends.tier import ByteTier, TierCorrupt, TierError, TierFull, TierLost, TierRefused
from pinfold.core.effects import Instance
from pinfold.core.ids import Tier

from .testing_samples import Sample, make_sample


def expect(error: type[TierError] | tuple[type[TierError], ...], call: Callable[..., Any], *args: Any) -> TierError:
    """The error that the call must raise; an AssertionError if it returns, or raises anything else."""
    try:
        result = call(*args)
    except error as raised:
        return raised
    except Exception as raised:
        raise AssertionError(f"expected {error}, got {type(raised).__name__}: {raised}") from raised
    raise AssertionError(f"expected {error}, but the call returned {result!r}")


class TierConformance:
    """The laws that every tier obeys. Override `open_tier` and `turn_a_bit`; set `slots` if instances need slots."""

    slots = 0
    """Number of slots of the tier that `open_tier` makes (at least 24), or 0 if it names instances by copy id."""
    checksum = "crc32"
    tier = Tier.SSD

    folder: Path
    """An empty directory for this test."""

    # -- hooks --

    def open_tier(self) -> ByteTier:
        """A fresh, empty tier. Called once per test; blocks have at most 128 bytes."""
        raise AssertionError(f"{type(self).__name__} does not say how to open its tier")

    def turn_a_bit(self, tier: ByteTier, sample: Sample, block: int) -> None:
        """Change one bit of the kept bytes of a block, not through the tier's own code."""
        raise AssertionError(f"{type(self).__name__} does not say how to turn a bit")

    def open_small_tier(self) -> ByteTier | None:
        """A tier with room for one sample but not for two, or None where room is the node's business (slabs)."""
        return None

    # -- set-up --

    def setup_method(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="pinfold-kit-")
        self.folder = Path(self._temporary.name)
        self._opened: list[ByteTier] = []
        self._slots_given = 0

    def teardown_method(self) -> None:
        for tier in self._opened:
            tier.close()
        self._temporary.cleanup()

    def fresh(self) -> ByteTier:
        """`open_tier`, closed at the end of the test."""
        return self.keep(self.open_tier())

    def keep(self, tier: ByteTier) -> ByteTier:
        self._opened.append(tier)
        return tier

    def sample(self, number: int, sizes: tuple[int, ...] = (), slots: tuple[int, ...] | None = None) -> Sample:
        """A sample with slots of its own (or those given), where the tier has slots."""
        made = make_sample(number, sizes, checksum=self.checksum, tier=self.tier)
        if not self.slots:
            return made
        if slots is None:
            slots = tuple(range(self._slots_given, self._slots_given + len(made.data)))
            self._slots_given += len(made.data)
        return evolve(made, instance=Instance(made.copy, self.tier, slots))

    @staticmethod
    def write(tier: ByteTier, sample: Sample, blocks: tuple[int, ...] | None = None) -> None:
        blocks = sample.blocks if blocks is None else blocks
        sums = tuple(sample.checksums[block] for block in blocks)
        data = tuple(sample.data[block] for block in blocks)
        tier.write(sample.instance, sample.spec, blocks, sums, data)

    @classmethod
    def put(cls, tier: ByteTier, sample: Sample) -> None:
        """Write all and seal."""
        cls.write(tier, sample)
        assert tier.verify(sample.instance, sample.spec, sample.manifest) == sample.manifest

    @staticmethod
    def assert_readable(tier: ByteTier, sample: Sample) -> None:
        sums, data = tier.load(sample.instance, sample.spec, sample.blocks)
        assert [bytes(buffer) for buffer in data] == list(sample.data)
        assert tuple(sums) == sample.checksums

    @staticmethod
    def assert_gone(tier: ByteTier, sample: Sample) -> None:
        expect(TierLost, tier.load, sample.instance, sample.spec, sample.blocks)
        expect(TierLost, tier.verify, sample.instance, sample.spec, sample.manifest)
        assert sample.copy not in [found.copy for found in tier.scan().found]
        assert sample.copy not in tier.copies()

    # -- reading and writing --

    def test_what_was_written_is_what_is_loaded(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.write(tier, one, (2,))
        self.write(tier, one, (3, 0, 1))
        tier.verify(one.instance, one.spec, one.manifest)
        self.assert_readable(tier, one)
        sums, data = tier.load(one.instance, one.spec, (3, 0, 3))
        assert [bytes(buffer) for buffer in data] == [one.data[3], one.data[0], one.data[3]]
        assert tuple(sums) == (one.checksums[3], one.checksums[0], one.checksums[3])
        assert tier.load(one.instance, one.spec, ()) == ((), ())

    def test_a_block_written_again_before_sealing_is_replaced(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        wrong = tuple(bytes(len(block)) for block in one.data)
        tier.write(one.instance, one.spec, one.blocks, checksums(self.checksum, wrong), wrong)
        self.put(tier, one)
        self.assert_readable(tier, one)

    def test_copies_never_see_each_others_bytes(self) -> None:
        tier = self.fresh()
        samples = [self.sample(number, (100, 50)) for number in range(1, 5)]
        for sample in samples:
            self.write(tier, sample, (0,))
        for sample in samples:
            self.write(tier, sample, (1,))
        for sample in samples:
            tier.verify(sample.instance, sample.spec, sample.manifest)
        for sample in samples:
            self.assert_readable(tier, sample)

    def test_given_buffers_are_not_kept(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        lent = tuple(bytearray(block) for block in one.data)
        tier.write(one.instance, one.spec, one.blocks, one.checksums, lent)
        for buffer in lent:
            buffer[:] = bytes(len(buffer))
        tier.verify(one.instance, one.spec, one.manifest)
        self.assert_readable(tier, one)

    def test_returned_buffers_belong_to_the_caller(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.put(tier, one)
        _, data = tier.load(one.instance, one.spec, one.blocks)
        tier.release(one.instance)
        self.put(tier, self.sample(8, slots=one.instance.slots))
        assert [bytes(buffer) for buffer in data] == list(one.data)

    def test_different_copies_may_be_used_from_different_threads(self) -> None:
        tier = self.fresh()
        samples = [self.sample(number) for number in range(1, 5)]
        failures: list[Exception] = []

        def work(sample: Sample) -> None:
            try:
                for _ in range(5):
                    self.put(tier, sample)
                    self.assert_readable(tier, sample)
                    tier.release(sample.instance)
            except Exception as error:  # noqa: BLE001  told by the thread that asserts
                failures.append(error)

        threads = [Thread(target=work, args=(sample,)) for sample in samples]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []

    # -- sealing --

    def test_an_unsealed_copy_cannot_be_read(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        expect(TierLost, tier.load, one.instance, one.spec, (0,))
        self.write(tier, one)
        expect(TierLost, tier.load, one.instance, one.spec, (0,))

    def test_a_copy_with_a_missing_block_is_not_sealed(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        expect(TierLost, tier.verify, one.instance, one.spec, one.manifest)
        self.write(tier, one, (0, 1, 2))
        expect(TierLost, tier.verify, one.instance, one.spec, one.manifest)
        self.write(tier, one, (3,))
        tier.verify(one.instance, one.spec, one.manifest)

    def test_bytes_of_another_manifest_are_not_sealed(self) -> None:
        tier, one, other = self.fresh(), self.sample(1), self.sample(2)
        self.write(tier, one)
        expect(TierCorrupt, tier.verify, one.instance, one.spec, other.manifest)
        self.put(tier, one)  # it has stayed unsealed, so it takes bytes

    def test_verification_reads_what_is_there(self) -> None:
        tier, one, two = self.fresh(), self.sample(1), self.sample(2)
        self.write(tier, one)
        self.turn_a_bit(tier, one, 2)
        expect(TierCorrupt, tier.verify, one.instance, one.spec, one.manifest)
        self.put(tier, two)
        self.turn_a_bit(tier, two, 3)
        expect(TierCorrupt, tier.verify, two.instance, two.spec, two.manifest)

    def test_a_turned_bit_is_never_returned(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.put(tier, one)
        self.turn_a_bit(tier, one, 2)
        expect(TierCorrupt, tier.load, one.instance, one.spec, (2,))
        expect(TierCorrupt, tier.load, one.instance, one.spec, one.blocks)

    def test_a_sealed_copy_is_never_written_again(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.put(tier, one)
        wrong = tuple(bytes(len(block)) for block in one.data)
        expect(TierError, tier.write, one.instance, one.spec, one.blocks, checksums(self.checksum, wrong), wrong)
        self.assert_readable(tier, one)

    def test_a_malformed_request_is_refused_and_changes_nothing(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        instance, spec, sums, data = one.instance, one.spec, one.checksums, one.data
        expect(TierRefused, tier.write, instance, spec, (0,), sums[:1], (data[0] + b"x",))
        expect(TierRefused, tier.write, instance, spec, (0,), sums[:1], (data[0][:-1],))
        expect(TierRefused, tier.write, instance, spec, (0,), sums[:1], ())
        expect(TierRefused, tier.write, instance, spec, (0, 2), sums[:1], (data[0], data[2]))
        expect(TierRefused, tier.write, instance, spec, (4,), sums[:1], data[:1])
        expect(TierRefused, tier.write, instance, spec, (-1,), sums[:1], data[3:])
        expect(TierRefused, tier.write, instance, spec, (0,), sums[:1], ("text",))
        layout = evolve(spec.key.layout, checksum="no-such-sum")
        unknown = evolve(spec, key=evolve(spec.key, layout=layout))
        expect(TierRefused, tier.write, instance, unknown, (0,), sums[:1], data[:1])
        assert tier.copies() == ()
        self.put(tier, one)
        expect(TierRefused, tier.load, instance, spec, (4,))
        expect(TierRefused, tier.load, instance, evolve(spec, sizes=(1, 2, 3, 4)), (0,))
        self.assert_readable(tier, one)

    # -- letting go --

    def test_a_released_copy_is_gone(self) -> None:
        tier, one, two = self.fresh(), self.sample(1), self.sample(2)
        self.put(tier, one)
        tier.release(one.instance)
        self.assert_gone(tier, one)
        self.write(tier, two)
        tier.release(two.instance)
        self.assert_gone(tier, two)

    def test_release_of_what_is_not_there_succeeds(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        tier.release(one.instance)
        self.put(tier, one)
        tier.release(one.instance)
        tier.release(one.instance)

    def test_release_leaves_other_copies_alone(self) -> None:
        tier, one, two, three = self.fresh(), self.sample(1), self.sample(2), self.sample(3)
        self.put(tier, one)
        self.put(tier, two)
        self.write(tier, three)
        tier.release(two.instance)
        self.assert_readable(tier, one)
        tier.verify(three.instance, three.spec, three.manifest)
        self.assert_readable(tier, three)

    def test_a_late_release_leaves_a_newer_instance_alone(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.put(tier, one)
        tier.release(one.instance)
        again = self.sample(1)
        self.put(tier, again)
        if self.slots:  # without slots the two instances have one name, and the node sees to the order
            tier.release(one.instance)
        self.assert_readable(tier, again)

    # -- telling --

    def test_scan_tells_every_sealed_copy_and_nothing_else(self) -> None:
        tier, samples = self.fresh(), [self.sample(number) for number in (3, 1, 2, 4)]
        for sample in samples[:3]:
            self.put(tier, sample)
        self.write(tier, samples[3])
        report = tier.scan()
        assert [found.copy.revision for found in report.found] == [1, 2, 3]
        for found, sample in zip(report.found, sorted(samples[:3], key=lambda each: each.copy), strict=True):
            assert (found.spec, found.manifest) == (sample.spec, sample.manifest)
            assert found.checksums == sample.checksums
        assert (report.damaged, report.refused, report.foreign) == ((), (), ())

    def test_copies_names_all_that_takes_room(self) -> None:
        tier, samples = self.fresh(), [self.sample(number) for number in (3, 1, 2)]
        assert tier.copies() == ()
        self.put(tier, samples[0])
        self.write(tier, samples[1])
        self.write(tier, samples[2], (0,))
        assert [copy.revision for copy in tier.copies()] == [1, 2, 3]

    def test_a_full_tier_says_so_and_has_room_again_after_release(self) -> None:
        tier = self.open_small_tier()
        if tier is None:
            return
        self.keep(tier)
        one, two, three = self.sample(1), self.sample(2), self.sample(3)
        self.put(tier, one)
        expect(TierFull, self.write, tier, two)
        expect(TierLost, tier.verify, two.instance, two.spec, two.manifest)
        self.assert_readable(tier, one)
        tier.release(one.instance)
        self.put(tier, three)
        self.assert_readable(tier, three)

    def test_a_closed_tier_refuses_and_closes_twice(self) -> None:
        tier, one = self.fresh(), self.sample(1)
        self.put(tier, one)
        tier.close()
        tier.close()
        expect(TierRefused, self.write, tier, self.sample(2))
        expect(TierRefused, tier.load, one.instance, one.spec, (0,))
        expect(TierRefused, tier.verify, one.instance, one.spec, one.manifest)
        expect(TierRefused, tier.release, one.instance)
        expect(TierRefused, tier.scan)
        expect(TierRefused, tier.copies)


def kit_tests(kit: type[TierConformance]) -> list[str]:
    """The names of a kit's tests, in the order in which they are written."""
    names: dict[str, None] = {}
    for base in reversed(kit.__mro__):
        names.update(dict.fromkeys(name for name in vars(base) if name.startswith("test_")))
    return list(names)


def run_kit(kit: type[TierConformance]) -> dict[str, Exception]:
    """Run a kit without pytest: the tests that failed, with what they raised."""
    failed: dict[str, Exception] = {}
    for name in kit_tests(kit):
        case = kit()
        case.setup_method()
        try:
            getattr(case, name)()
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            failed[name] = error
        finally:
            case.teardown_method()
    return failed
