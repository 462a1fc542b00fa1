"""The pipes of a job's workers: lines of JSON from the parent on stdin, to it on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def lines() -> Iterator[dict[str, Any]]:
    """What the parent says, until it closes the pipe or is gone."""
    for line in sys.stdin.buffer:
        found: dict[str, Any] = json.loads(line)
        yield found


def say(what: dict[str, Any]) -> None:
    """One line to the parent. Where it is gone, so is the point of going on."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
