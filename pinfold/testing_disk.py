"""A disk that remembers what was asked of it, and what a power loss at any point of it could leave behind.

`RecordingFiles` is the real `Files` with a log. `crash_images` replays the log as the least that a file system promises: bytes
are durable after an fsync of their file, names after an fsync of the directory, and before that anything may have happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field

from pinfold.backends.files import Files


@define(frozen=True)
class Operation:
    """One call. `kind`: create, write, sync, rename, sync_directory, remove, or mark (a note by the test)."""

    kind: str
    name: str = ""
    new_name: str = ""
    offset: int = 0
    size: int = 0
    data: bytes = b""


class RecordingFiles(Files):
    """`Files` that logs every change after it has been made."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.log: list[Operation] = []

    def mark(self, text: str) -> None:
        """Note that something is known to the outside now: `crash_images` gives the marks before each crash."""
        self.log.append(Operation("mark", text))

    def create(self, name: str, size: int) -> None:
        super().create(name, size)
        self.log.append(Operation("create", name, size=size))

    def write(self, name: str, offset: int, buffers: Sequence[memoryview]) -> None:
        super().write(name, offset, buffers)
        self.log.append(Operation("write", name, offset=offset, data=b"".join(buffers)))

    def sync(self, name: str) -> None:
        super().sync(name)
        self.log.append(Operation("sync", name))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.log.append(Operation("rename", old, new))

    def sync_directory(self) -> None:
        super().sync_directory()
        self.log.append(Operation("sync_directory"))

    def remove(self, name: str) -> bool:
        there = super().remove(name)
        if there:
            self.log.append(Operation("remove", name))
        return there


@define(frozen=True)
class CrashImage:
    """What may be on the disk after a power loss: file contents by name, and the marks that were set before it."""

    files: dict[str, bytes]
    marks: tuple[str, ...]
    story: str

    def write_to(self, directory: Path) -> None:
        """Make `directory` (new) look like the image."""
        directory.mkdir()
        for name, content in self.files.items():
            (directory / name).write_bytes(content)


@define(eq=False)
class _File:
    current: bytearray
    durable: bytearray

    def torn(self) -> bytes:
        """The first half of what was not synced has arrived, the rest has not."""
        changed = [i for i, (new, old) in enumerate(zip(self.current, self.durable, strict=True)) if new != old]
        middle = changed[len(changed) // 2] if changed else 0
        return bytes(self.current[:middle] + self.durable[middle:])


@define(eq=False)
class _Disk:
    names: dict[str, _File] = field(factory=dict)
    durable_names: dict[str, _File] = field(factory=dict)
    marks: tuple[str, ...] = ()

    def apply(self, operation: Operation) -> None:
        name = operation.name
        match operation.kind:
            case "create":
                self.names[name] = _File(bytearray(operation.size), bytearray(operation.size))
            case "write":
                end = operation.offset + len(operation.data)
                self.names[name].current[operation.offset : end] = operation.data
            case "sync":
                self.names[name].durable[:] = self.names[name].current
            case "rename":
                self.names[operation.new_name] = self.names.pop(name)
            case "sync_directory":
                self.durable_names = dict(self.names)
            case "remove":
                self.names.pop(name, None)
            case _:
                self.marks = (*self.marks, name)

    def images(self, story: str) -> Iterator[CrashImage]:
        for kept, names in (("old names", self.durable_names), ("new names", self.names)):
            for how in ("synced bytes", "all bytes", "torn bytes"):
                files = {}
                for name, file in sorted(names.items()):
                    content = {"synced bytes": file.durable, "all bytes": file.current}.get(how)
                    files[name] = file.torn() if content is None else bytes(content)
                yield CrashImage(files, self.marks, f"{story}; {kept}, {how}")


def crash_images(log: Sequence[Operation]) -> Iterator[CrashImage]:
    """The images after each prefix of `log`: names as last synced or as now, bytes as last synced, as now, or torn."""
    disk = _Disk()
    seen: set[tuple[object, ...]] = set()
    for number, operation in enumerate(log):
        disk.apply(operation)
        for image in disk.images(f"after step {number} ({operation.kind} {operation.name})"):
            key = (tuple(sorted(image.files.items())), image.marks)
            if key not in seen:
                seen.add(key)
                yield image
