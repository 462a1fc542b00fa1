"""The pipes of a job's workers: lines of JSON from the parent on stdin, to it on stdout."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

from .job_calls import Caller

WAIT_MS: Final = 1_000


def first_line() -> dict[str, Any]:
    """The job. Takes nothing of what follows it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise SystemExit(0)  # the parent has thought better of it
        line += byte
    found: dict[str, Any] = json.loads(line)
    return found


def say(what: dict[str, Any]) -> None:
    """One line to the parent. Where it is gone, so is the point of going on."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Lines:
    """What follows the job, read while the caller's session is kept alive."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._buffer = b""

    def next(self) -> dict[str, Any] | None:
        """The next line; None at the end."""
        descriptor = sys.stdin.fileno()
        while b"\n" not in self._buffer:
            if descriptor not in self._caller.turn(WAIT_MS, (descriptor,)):
                continue
            more = os.read(descriptor, 65_536)
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found
