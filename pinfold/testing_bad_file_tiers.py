"""Tiers on disk that are wrong in one way each (the list, with the test for each, is in `testing_bad_tiers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pinfold.backends.blockfile import Header, encode
from pinfold.backends.files import Files
from pinfold.backends.filetier import Writing, partial_name, published_name
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import ByteTier, ScanReport, TierError
from pinfold.core.commands import Spec
from pinfold.core.effects import Instance
from pinfold.core.ids import CopyId, manifest_hash
from pinfold.core.requests import Payload

from .testing_disk import RecordingFiles
from .testing_file_tiers import FileTierConformance


class SsdTierKit(FileTierConformance):
    """The kit over `SsdTier`."""

    exclusive = True
    make: Callable[..., ByteTier] = SsdTier

    def open_in(self, directory: Path, files: RecordingFiles | None = None) -> ByteTier:
        return type(self).make(directory, files=files)

    def open_small_tier(self) -> ByteTier | None:
        return type(self).make(self.folder / "small", capacity_bytes=6000)


class PublishesInOrder(SsdTier):
    """Base of those that do the steps of publishing in a wrong order, or leave one out."""

    steps: tuple[str, ...] = ("write", "sync", "rename", "sync_directory")

    def _publish(self, copy: CopyId, writing: Writing, header: Header) -> None:
        part, final = partial_name(copy), published_name(copy)
        text = memoryview(encode(copy, header.spec, header.checksums, header.manifest))
        actions: dict[str, Callable[[], object]] = {
            "write": lambda: self._files.write(part, 0, [text]),
            "sync": lambda: self._files.sync(part),
            "rename": lambda: self._files.rename(part, final),
            "sync_directory": self._files.sync_directory,
        }
        for step in self.steps:
            actions[step]()
        del self._writing[copy]
        self._published(header)


class NeverSyncs(PublishesInOrder):
    """Renames bytes that are not on the disk yet."""

    steps = ("write", "rename", "sync_directory")


class SyncsBeforeHeader(PublishesInOrder):
    """Writes the header after the last sync of the file."""

    steps = ("sync", "write", "rename", "sync_directory")


class ForgetsTheDirectory(PublishesInOrder):
    """Reports as sealed what has no durable name."""

    steps = ("write", "sync", "rename")


class WritesInPlace(SsdTier):
    """Lets a torn write be seen: the published name is there before the bytes are."""

    def _publish(self, copy: CopyId, writing: Writing, header: Header) -> None:
        part, final = partial_name(copy), published_name(copy)
        body = self._files.read(part, 0, header.geometry.file_bytes)
        text = encode(copy, header.spec, header.checksums, header.manifest)
        self._files.create(final, len(body))
        self._files.write(final, 0, [memoryview(text + body[len(text) :])])
        self._files.sync(final)
        self._files.sync_directory()
        self._files.remove(part)
        del self._writing[copy]
        self._published(header)


class ResurrectsUnpublished(SsdTier):
    """Takes every file that looks whole for published when it opens, also one that was never verified."""

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        super().write(instance, spec, blocks, checksums, data)
        writing = self._writing[instance.copy]
        sums = tuple([each for each in writing.checksums if each is not None])
        if len(sums) == len(spec.sizes):
            text = encode(instance.copy, spec, sums, manifest_hash(spec.key.layout, spec.sizes, sums))
            self._files.write(partial_name(instance.copy), 0, [memoryview(text)])

    def _take_stock(self) -> None:
        for name in [name for name in self._files.names() if name.endswith(".part")]:
            path = self._files.directory / name
            final = path.rename(path.with_suffix(".blocks"))
            try:
                header = self._read_header(CopyId(*map(int, name[1:-5].split("."))))
                self._compare(
                    header.copy, final.name, header.geometry, header.spec, header.checksums, header.manifest
                )
            except TierError:
                final.unlink()
        super()._take_stock()


class TrustsHeaders(SsdTier):
    """Scans without reading the blocks."""

    def scan(self, *, verify_bytes: bool = True) -> ScanReport:
        return super().scan(verify_bytes=False)


class SharesItsDirectory(SsdTier):
    """Opens a directory that another tier has open."""

    def __init__(self, directory: Path, *, capacity_bytes: int | None = None, files: Files | None = None) -> None:
        files = Files(directory) if files is None else files
        files.lock = lambda name: None  # type: ignore[method-assign]
        super().__init__(directory, capacity_bytes=capacity_bytes, files=files)


class EmptiesOnClose(SsdTier):
    """Takes its files along when it closes."""

    def close(self) -> None:
        for path in self._files.directory.glob("*.blocks"):
            path.unlink()
        super().close()


class DeletesStrangers(SsdTier):
    """Cleans up what is not its own."""

    def scan(self, *, verify_bytes: bool = True) -> ScanReport:
        report = super().scan(verify_bytes=verify_bytes)
        for name in report.foreign:
            (self._files.directory / name).unlink()
        return report
