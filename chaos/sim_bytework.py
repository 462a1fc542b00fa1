"""Byte work that takes its time: done some time after it was asked for, and about one copy in the order of its asking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.bytework import TierSet, copies_of
from ..core.effects import Transfer
from ..core.events import Completion
from .sim_faults import Counts
from .sim_shape import Chance

SLOW_MS = 100
"""From here on work counts as slow."""


class SlowByteWork:
    """Byte work of one process: done some time after it was asked for; work about one copy in the order of its asking."""

    def __init__(self, tiers: TierSet, chance: Chance, most_ms: int, now: Callable[[], int], counts: Counts) -> None:
        self._set = tiers
        self._counts = counts
        self._chance = chance
        self.most_ms = most_ms
        self._now = now
        self._waiting: list[tuple[int, int, Transfer]] = []
        self._after: dict[Any, int] = {}
        self._count = 0

    def submit(self, work: Transfer) -> None:
        copies = copies_of(work)
        at = self._now() + self._chance.below(self.most_ms + 1)
        if at - self._now() >= SLOW_MS:
            self._counts.note("byte work slow")
        at = max([at, *(self._after.get(copy, 0) for copy in copies)])
        for copy in copies:
            self._after[copy] = at
        self._count += 1
        self._waiting.append((at, self._count, work))

    def poll(self) -> list[Completion]:
        now = self._now()
        due = sorted((entry for entry in self._waiting if entry[0] <= now), key=lambda entry: entry[:2])
        if due:
            self._waiting = [entry for entry in self._waiting if entry[0] > now]
        return [self._set.run(work) for _, _, work in due]

    @property
    def next_ms(self) -> int | None:
        return min((entry[0] for entry in self._waiting), default=None)

    def die(self) -> None:
        """The process is killed: some of what was asked for has happened all the same."""
        for _, _, work in sorted(self._waiting, key=lambda entry: entry[:2]):
            if self._chance.below(2):
                self._set.run(work)
        self._waiting.clear()
