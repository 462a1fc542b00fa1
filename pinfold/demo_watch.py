"""What the directory says of itself while a job runs: counters over all its terms, fill of the tiers, nodes, sessions.

Counters are soft state and begin anew with each term; a `Watch` keeps the last that each term has told and adds them up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from . import probe
from .core.answers import NodeLine, StatusReport
from .core.commands import Status
from .core.errors import WorldError
from .report import add_up

LOOK_S: Final = 0.25
ANSWER_MS: Final = 1_000


class Watch:
    """Asks for the status a few times a second, in a thread of its own, from `start` to `stop`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.terms: dict[int, dict[str, int]] = {}
        self.latest: StatusReport | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def look(self) -> StatusReport | None:
        """One question now; None when nobody answers."""
        try:
            told = probe.ask(self.endpoint, Status, ANSWER_MS)
        except probe.NoAnswer:
            return None
        if not isinstance(told.answer, StatusReport):
            return None
        with self._lock:
            self.terms[told.term] = dict(told.answer.counters)
            self.latest = told.answer
        return told.answer

    def counters(self) -> dict[str, int]:
        """Summed over the terms."""
        total: dict[str, int] = {}
        with self._lock:
            for counters in self.terms.values():
                add_up(total, counters)
        return total

    def fill(self) -> dict[str, float]:
        """By tier, share of 1, over all nodes; `remote` is the stores'."""
        latest = self.latest
        if latest is None:
            return {}
        used: dict[str, int] = {}
        room: dict[str, int] = {}
        for line in latest.nodes:
            if line.store:
                add_up(used, {"remote": line.used})
                add_up(room, {"remote": line.capacity})
            elif line.alive:
                for tier in line.tiers:
                    add_up(used, {tier.tier.name.lower(): tier.used})
                    add_up(room, {tier.tier.name.lower(): tier.capacity})
        return {tier: round(used[tier] / slots, 4) for tier, slots in room.items() if slots}

    def wait_for(self, what: str, check: Callable[[StatusReport], bool], timeout_s: float) -> None:
        """Until the directory's status passes. Raises WorldError."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until and not self._stop.is_set():
            found = self.look()
            if found is not None and check(found):
                return
            time.sleep(0.05)
        raise WorldError(f"within {timeout_s:.0f} s it did not come to this: {what}")

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()


def line_of(status: StatusReport, node: str) -> NodeLine | None:
    return next((line for line in status.nodes if line.node == node), None)
