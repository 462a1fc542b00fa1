"""The conformance kit for tiers that outlive their process: what a restart, a power loss and damaged files may do to them."""

from __future__ import annotations

from pathlib import Path

from pinfold.backends.tier import ByteTier, TierLost, TierRefused
from pinfold.core.effects import Instance

from .testing_disk import RecordingFiles, crash_images
from .testing_samples import Sample
from .testing_tiers import TierConformance, expect


class FileTierConformance(TierConformance):
    """The laws of tiers that outlive their process: give it `open_in`, and set `exclusive` for a directory of one's own."""

    exclusive = False

    def open_in(self, directory: Path, files: RecordingFiles | None = None) -> ByteTier:
        """The tier over `directory`; its changes go through `files`, if given, so that a crash can be worked out."""
        raise AssertionError(f"{type(self).__name__} does not say how to open its tier in a directory")

    def open_tier(self) -> ByteTier:
        return self.open_in(self.folder / "tier")

    def turn_a_bit(self, tier: ByteTier, sample: Sample, block: int) -> None:
        for path in (self.folder / "tier").iterdir():
            raw = bytearray(path.read_bytes())
            at = raw.find(sample.data[block])
            if at >= 0:
                raw[at] ^= 4
                path.write_bytes(raw)

    def test_sealed_copies_survive_reopening(self) -> None:
        tier, samples = self.fresh(), [self.sample(1), self.sample(2)]
        for sample in samples:
            self.put(tier, sample)
        tier.close()
        tier = self.fresh()
        assert [found.copy.revision for found in tier.scan().found] == [1, 2]
        for sample in samples:
            self.assert_readable(tier, sample)

    def test_unsealed_copies_are_not_readable_after_reopening(self) -> None:
        tier, one, two = self.fresh(), self.sample(1), self.sample(2)
        self.write(tier, one)
        self.write(tier, two, (0,))
        tier.close()
        tier = self.fresh()
        for sample in (one, two):
            expect(TierLost, tier.load, sample.instance, sample.spec, (0,))
            expect(TierLost, tier.verify, sample.instance, sample.spec, sample.manifest)
        assert tier.scan().found == ()
        for sample in (one, two):
            tier.release(sample.instance)
        assert tier.copies() == ()

    def test_a_power_loss_at_any_point_leaves_whole_copies_or_none(self) -> None:
        files = RecordingFiles(self.folder / "tier")
        tier = self.keep(self.open_in(self.folder / "tier", files))
        samples = {sample.copy: sample for sample in (self.sample(1), self.sample(2))}
        for sample in samples.values():
            self.put(tier, sample)
            files.mark(str(sample.copy))
        tier.close()
        for number, image in enumerate(crash_images(files.log)):
            directory = self.folder / f"image-{number}"
            image.write_to(directory)
            after = self.open_in(directory)
            try:
                report = after.scan()
                assert report.damaged == (), f"{image.story}: {report.damaged}"
                told = {str(found.copy) for found in report.found}
                assert told >= set(image.marks), f"{image.story}: a copy that was reported as sealed has gone"
                for found in report.found:
                    self.assert_readable(after, samples[found.copy])
            finally:
                after.close()

    def test_scan_reports_damage_by_name_and_leaves_strangers_alone(self) -> None:
        directory = self.folder / "tier"
        tier = self.fresh()
        samples = [self.sample(number) for number in (1, 2, 3)]
        for sample in samples:
            self.put(tier, sample)
        self.turn_a_bit(tier, samples[0], 2)
        for path in directory.iterdir():
            if path.name.startswith(f"{samples[1].copy}."):
                path.write_bytes(path.read_bytes()[:-1])
        (directory / "README").write_text("a stranger")
        report = tier.scan()
        assert [found.copy.revision for found in report.found] == [3]
        assert [damage.copy.revision for damage in report.damaged] == [1, 2]
        assert all(damage.sentence for damage in report.damaged)
        assert report.foreign == ("README",)
        assert (directory / "README").read_text() == "a stranger"
        for damage in report.damaged:
            tier.release(Instance(damage.copy, self.tier))
        assert [copy.revision for copy in tier.copies()] == [3]

    def test_a_directory_of_ones_own_is_not_shared(self) -> None:
        tier = self.fresh()
        if self.exclusive:
            expect(TierRefused, self.open_in, self.folder / "tier")
            tier.close()
        other, one = self.fresh(), self.sample(1)
        self.put(other, one)
        if not self.exclusive:
            self.assert_readable(tier, one)
            tier.release(one.instance)
            self.assert_gone(other, one)
