"""The trace of a simulated run: one JSON object a line, the same bytes for the same seed.

    {"n": 17, "at": 203, "who": "node/n1", "event": "Fetch(c0.9.0) (order 1.1.2)", "out": ["work LoadBlocks"], "sum": "5ac0..."}

`n` counts events, `at` is virtual time in ms, `who` the process (`*`: what happens to the cluster), `out` what left it or is to
leave with its next commit, in order; `sum` is a digest of the event and of all outputs with all their fields. The digest of a run
is that of its trace: equal digests are equal events, times, outputs, records and order (DET-1).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

from attrs import define

from ..core.effects import Ready
from ..core.events import Tick
from ..core.orders import HeartbeatSeen
from ..core.reports import Heartbeat
from . import words

NOISE: Final = (Tick, Heartbeat, HeartbeatSeen)
"""What a story for people leaves out, unless something came of it."""


@define(frozen=True)
class Names:
    """How groups are called. What `words` needs of a cast."""

    groups: tuple[str, ...]
    group_at: Mapping[Any, int]


class Trace:
    """Takes the events of one run. `tail`: how many lines are kept for a story; None keeps all of them."""

    def __init__(self, groups: Iterable[Any], tail: int | None = 400) -> None:
        known = tuple(groups)
        self._names: Any = Names(tuple(f"g{at}" for at in range(len(known))), {group: at for at, group in enumerate(known)})
        self._digest = blake2b(digest_size=16)
        self.count = 0
        self.lines: deque[str] = deque(maxlen=tail)
        self.story: deque[str] = deque(maxlen=400)
        """The last lines that are no noise."""

    def event(self, now: int, who: str, event: Any, ready: Ready | None = None) -> None:
        """One event at one process, and what came of it; without `ready`, what happens to the cluster."""
        document: dict[str, Any] = {"n": self.count + 1, "at": now, "who": who}
        if ready is None:
            document["event"] = str(event)
        else:
            document["event"] = words.message(self._names, event)
            document["out"] = [*self._outputs(ready)]
            document["sum"] = blake2b(f"{event!r}{ready!r}".encode(), digest_size=8).hexdigest()
        line = json.dumps(document, separators=(",", ":"))
        self.count += 1
        self._digest.update(line.encode() + b"\n")
        self.lines.append(line)
        if type(event) not in NOISE or document["out"]:
            self.story.append(line)

    def digest(self) -> str:
        """Of all lines so far."""
        return self._digest.hexdigest()

    def _outputs(self, ready: Ready) -> Iterable[str]:
        if ready.persist:
            yield f"persist {len(ready.persist)}"
        for send in ready.send:
            yield f"{send.target} {words.message(self._names, send.message)}"
        for work in ready.transfer:
            yield f"work {type(work).__name__}"
        for reply in ready.reply:
            yield f"reply {reply.target} {words.message(self._names, reply.message)}"


def first_difference(one: Iterable[str], other: Iterable[str]) -> tuple[int, str, str] | None:
    """Where two traces part: `(line number from 1, line of one, line of the other)`, "" for an ended one; None if equal."""
    mine, theirs = list(one), list(other)
    for at in range(max(len(mine), len(theirs))):
        pair = [lines[at] if at < len(lines) else "" for lines in (mine, theirs)]
        if pair[0] != pair[1]:
            return at + 1, pair[0], pair[1]
    return None
