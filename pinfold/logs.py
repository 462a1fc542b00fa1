"""Structured logs: one event a line, with the names of what it is about, on stderr and nowhere else.

    log = make_log("directory", level="info", form="json", shard=0)
    log.info("lease lapsed", node="n1", epoch=7)

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "process": "directory", "event": "lease lapsed", "node": "n1", ...}

An event is a fixed sentence and never has values in it; values are fields, so that lines can be counted and searched by them.
`WORDS` are the fields that mean the same everywhere; `fields_of` finds them in any message of the protocol.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Any, Final, TextIO

from attrs import define, field

from .core.ids import CopyId, HoldId, Tier

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

WORDS: Final = (
    "request", "session", "group", "copy", "block", "model", "model_revision", "tenant",
    "node", "device", "epoch", "revision", "term", "incarnation", "number", "sequence", "peer",
)  # fmt: skip
"""The fields with one meaning, in the order in which a line shows them."""

SPARSE_MAX: Final = 10
SPARSE_S: Final = 60.0
"""What a peer can cause at will is told so often in so many seconds; then only how often it was."""

TEXT_MAX: Final = 512
"""Characters of one value; what comes from a peer must not fill a disk."""


def plain(value: Any) -> Any:
    """A value as JSON has it: ids as people write them, long texts cut."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, bytes | memoryview):
        text = bytes(value).hex()
    elif isinstance(value, str | CopyId | HoldId):
        text = str(value)
    elif isinstance(value, Iterable):
        return [plain(item) for item in list(value)[:32]]
    else:
        text = str(value)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


@define
class Log:
    """`threshold` as in `LEVELS`; `form` is `human` or `json`. A stream that is gone (a closed pipe) ends nothing."""

    process: str
    threshold: int = LEVELS["info"]
    form: str = "human"
    stream: TextIO = field(factory=lambda: sys.stderr)
    bound: dict[str, Any] = field(factory=dict)
    _told: dict[tuple[str, str], tuple[float, int]] = field(factory=dict)

    def bind(self, **fields: Any) -> Log:
        """A log whose lines all have these fields too."""
        return Log(self.process, self.threshold, self.form, self.stream, self.bound | fields, self._told)

    def enabled(self, level: str) -> bool:
        """Whether a line of this level would be told; for fields that are dear to make."""
        return LEVELS[level] >= self.threshold

    def debug(self, event: str, **fields: Any) -> None:
        self.tell("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self.tell("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.tell("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self.tell("error", event, fields)

    def sparse(self, kind: str, event: str, **fields: Any) -> None:
        """A warning about something that a peer can cause at will; `kind` is what is counted, together with the event."""
        now = time.monotonic()
        began, count = self._told.get((event, kind), (now, 0))
        if now - began >= SPARSE_S:
            if count > SPARSE_MAX:
                self.warning("and more of the same", said=event, kind=kind, count=count - SPARSE_MAX)
            began, count = now, 0
        self._told[(event, kind)] = began, count + 1
        if count < SPARSE_MAX:
            self.warning(event, kind=kind, **fields)

    def tell(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self.threshold:
            return
        found = {name: plain(value) for name, value in (self.bound | fields).items() if value not in (None, "", b"", ())}
        ordered = {name: found.pop(name) for name in WORDS if name in found} | found
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        if self.form == "json":
            head = {"time": stamp, "level": level, "process": self.process, "event": event}
            line = json.dumps(head | ordered, ensure_ascii=False)
        else:
            shown = " ".join(f"{name}={_human(value)}" for name, value in ordered.items())
            line = f"{stamp} {level:7} {self.process}: {event}" + (f"  {shown}" if shown else "")
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.threshold = 1_000  # nobody can read it any more


def _human(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c.isspace() or c == '"' for c in text) else text


def make_log(process: str, *, level: str = "info", form: str = "human", **bound: Any) -> Log:
    return Log(process, LEVELS[level], form, bound=bound)


# ---- fields of a message -------------------------------------------------------------------------------------

_INNER: Final = ("body", "spec", "key", "answer", "refusal", "op")
"""Fields that lead to another record in which there may be more."""

_ALSO: Final = {"blocks": "block", "client": "peer", "tier": "device", "hold": "hold", "target": "target", "reason": "reason"}


def fields_of(message: Any) -> dict[str, Any]:
    """What a message of the protocol is about: the `WORDS` found in it and in what it carries, the outermost counts."""
    found: dict[str, Any] = {"kind": type(message).__name__}
    inner = [message]
    while inner:
        record = inner.pop(0)
        kind = type(record)
        names = getattr(kind, "__attrs_attrs__", ())
        if record is not message and names:
            found.setdefault("body", kind.__name__)
        for attribute in names:
            name = attribute.name
            value = getattr(record, name)
            if name in _INNER and not isinstance(value, str):
                inner.append(value)
            elif name in WORDS or name in _ALSO:
                word = name if name in WORDS else _ALSO[name]
                if isinstance(value, Tier):
                    value = value.name
                if value not in ("", b"", None):
                    found.setdefault(word, value)
    return found
