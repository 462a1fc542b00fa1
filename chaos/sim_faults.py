"""What may go wrong in one simulated process or medium, and how often it really did: clocks, deaths, stores, tiers.

Each part counts into a `Counts` when a fault has had its effect, not when it was planned: what nobody met has not happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from ..backends.memory import Fault, MemoryStore
from ..backends.memory_tier import MemoryTier
from ..backends.tier import TierCorrupt, TierFull, TierIo
from ..core.commands import Spec
from ..core.driver import Outcome
from ..core.effects import Instance, Write
from ..core.requests import Payload


@define
class Counts:
    """How often each fault has happened, by name."""

    by_name: dict[str, int] = field(factory=dict)

    def note(self, name: str, times: int = 1) -> None:
        if times:
            self.by_name[name] = self.by_name.get(name, 0) + times


@define
class Clock:
    """A process's own clock, in ms: `local` at virtual time `since`, then `rate` thousandths of a local ms per virtual ms."""

    local: int
    since: int = 0
    rate: int = 1_000

    def at(self, now: int) -> int:
        """What it shows at virtual time `now`."""
        return self.local + (now - self.since) * self.rate // 1_000

    def when(self, local: int) -> int:
        """The first virtual time at which it shows `local` or more."""
        return self.since - (-(local - self.local) * 1_000 // self.rate)

    def set(self, now: int, *, jump: int = 0, rate: int = 0) -> None:
        """From `now` on: `jump` ms later (or earlier), going at `rate` (0: as before)."""
        self.local, self.since, self.rate = self.at(now) + jump, now, rate or self.rate


class ProcessDied(Exception):
    """Raised in the middle of a process's outputs; what it has not said, it will never say."""


@define
class Fuse:
    """Stands before every output of a process. Once lit, `left` outputs leave, and the process dies before the next."""

    left: int | None = None

    def burn(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise ProcessDied
            self.left -= 1


class Outlet:
    """A process's outputs (messages, byte work, replies), each behind its fuse."""

    def __init__(self, fuse: Fuse, *, wire: Any = None, work: Any = None, replies: Any = None) -> None:
        self._fuse, self._wire, self._work, self._replies = fuse, wire, work, replies

    def send(self, target: str, message: Any) -> None:
        self._fuse.burn()
        self._wire.send(target, message)

    def submit(self, work: Any) -> None:
        self._fuse.burn()
        self._work.submit(work)

    def reply(self, target: Any, message: Any) -> None:
        self._fuse.burn()
        self._replies.reply(target, message)


_MET = {
    Fault.REFUSED: "commits refused",
    Fault.UNKNOWN_DONE: "commits done and not known",
    Fault.UNKNOWN_LOST: "commits lost and not known",
}


class SimStore(MemoryStore):
    """A memory store that counts the faults it has met."""

    counts: Counts

    def commit(self, writes: Sequence[Write]) -> Outcome:
        fault = self._faults[0] if self._faults and writes and not self.full else None
        outcome = super().commit(writes)
        if fault is not None:
            self.counts.note(_MET[fault])
        elif outcome is Outcome.NOT_DONE:
            self.counts.note("commits without room")
        return outcome

    def rival_of(self) -> SimStore:
        """A second handle, which counts into the same counts."""
        rival = self.rival()
        rival.counts = self.counts
        return rival

    @property
    def is_faulty(self) -> bool:
        """The next commit won't go well."""
        return self.full or bool(self._faults)

    def repair(self) -> None:
        """No fault is left, met or not."""
        self._faults.clear()
        self.full = False


class SimTier(MemoryTier):
    """A tier that counts the faults it has met. Its bytes can be looked at."""

    def __init__(self, counts: Counts, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self._counts = counts

    def _strike(self, operation: str) -> None:
        try:
            super()._strike(operation)
        except TierFull:
            self._counts.note("tiers full")
            raise
        except TierIo:
            self._counts.note(f"tier {operation} failed")
            raise

    def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
        try:
            return super().verify(instance, spec, manifest)
        except TierCorrupt:
            self._counts.note("rotten bytes found")
            raise

    def load(self, instance: Instance, spec: Spec, blocks: Sequence[int]) -> tuple[tuple[int, ...], Payload]:
        try:
            return super().load(instance, spec, blocks)
        except TierCorrupt:
            self._counts.note("rotten bytes found")
            raise

    def bytes_of(self, copy: Any) -> dict[Any, bytes]:
        """What is kept of a copy, by block."""
        return {key: kept for key, kept in self._bytes.items() if key[0] == copy}

    def byte_at(self, key: Any) -> bytes | None:
        return self._bytes.get(key)

    def repair(self) -> None:
        """No fault on command is left."""
        self._faults.clear()
        self.capacity_bytes = None
