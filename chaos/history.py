"""A history: what clients asked, when, and what they were told. One JSON object a line (`specs/history.md`).

    {"history": 1, "clock": "common", "complete": true}
    {"client": "client/a", "session": 3, "number": 1, "op": "pin", "group": "5f...", "invoke": 4, "return": 9,
     "outcome": "ok", "effect": true, "term": 1, "revision": 12, "epoch": 7, "copy": "c0.5.0", "hold": "h3.1.0", ...}

Answers carry the revision at which they were true, and routes the epoch of their group, so whether a history could have happened
is decided by sorting (`history_check.py`); `history_search.py` tries all orders instead, and is its oracle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, field, fields

from ..core.errors import PinfoldError

VERSION: Final = 1
CLOCKS: Final = ("common", "own")
OUTCOMES: Final = ("ok", "refused", "unknown", "cancelled")
TAKES: Final = ("pin", "pin_prefix", "ref", "create")
RELEASES: Final = ("unpin", "unref")


class BadHistory(PinfoldError):
    """Raised when a file is not a history. Nothing was decided; the sentence names file and line."""

    exit_code = 2


@define
class Op:
    """One operation of one client. Times are of the clock that the history's header names; `returned` None: never answered.

    `number` 0: a query. `effect`: the answer says that it changed something, at a revision of its own. `epoch` and `revision` 0:
    not told. `content` is what bytes that were read or written looked like: block -> checksum. `owner` is who the record said is
    authoritative. `held` of a refused release: what was said of the hold (`reason`).
    """

    client: str
    op: str
    invoke: int
    returned: int | None = None
    outcome: str = "unknown"
    session: int = 0
    number: int = 0
    item: int = 0
    group: str = ""
    effect: bool = False
    term: int = 0
    revision: int = 0
    epoch: int = 0
    copy: str = ""
    manifest: str = ""
    hold: str = ""
    owner: str = ""
    reason: str = ""
    request: str = ""
    waiting: bool = False
    pinned_too: bool = False
    """A move or drain that moves pinned copies as well."""
    content: dict[str, int] = field(factory=dict)
    line: int = 0
    """Where it stands in its file; 0 while it is in none."""

    def __str__(self) -> str:
        told = [f"{name} {value}" for name, value in self._told() if value]
        until = "never answered" if self.returned is None else f"{self.outcome} at {self.returned}"
        number = f" #{self.number}" if self.number else ""
        return f"line {self.line}: {self.client} {self.op}{number} asked at {self.invoke}, {until}: {', '.join(told)}"

    def _told(self) -> Iterator[tuple[str, Any]]:
        for name in ("reason", "group", "term", "revision", "epoch", "copy", "hold", "manifest", "owner"):
            value = getattr(self, name)
            yield name, value[:8] if name in ("group", "manifest") else value


DEFAULTS: Final[dict[str, Any]] = {one.name: None if one.name == "content" else one.default for one in fields(Op)}
_REQUIRED: Final = ("client", "op", "invoke")
_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys(("client", "op", "outcome", "group", "copy", "manifest", "hold", "owner", "reason", "request"), str),
    **dict.fromkeys(("invoke", "session", "number", "item", "term", "revision", "epoch"), int),
    **dict.fromkeys(("effect", "waiting", "pinned_too"), bool),
    "content": dict,
}


@define
class History:
    """`clock`: "common", all times are of one clock (or one count of events), or "own", each client has its own. `complete`: all
    that anybody asked is in it, so that what nobody asked has not happened."""

    ops: list[Op] = field(factory=list)
    clock: str = "common"
    complete: bool = False

    def lines(self) -> Iterator[str]:
        """The file, line by line."""
        yield json.dumps({"history": VERSION, "clock": self.clock, "complete": self.complete})
        for op in self.ops:
            yield json.dumps(_document(op), separators=(",", ":"))

    def save(self, path: Path) -> None:
        path.write_text("".join(f"{line}\n" for line in self.lines()), encoding="utf-8")


def _document(op: Op) -> dict[str, Any]:
    document = asdict(op)
    del document["line"]
    returned = document.pop("returned")
    kept = {name: value for name, value in document.items() if name in _REQUIRED or value not in (DEFAULTS[name], {})}
    return {**kept, "return": returned, "outcome": op.outcome}


# ---- reading -------------------------------------------------------------------------------------------------


def load(path: Path) -> History:
    """A history from its file. Raises `BadHistory`."""
    try:
        with path.open(encoding="utf-8") as file:
            return parse(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadHistory(f"cannot read the history {path}: {error}") from None


def parse(lines: Iterable[str], name: str = "history") -> History:
    """A history from its lines. An answer that was never written down is a `return` of null, not a broken line."""
    history: History | None = None
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError:
            raise BadHistory(f"{name}:{at}: this is no JSON") from None
        if not isinstance(document, dict):
            raise BadHistory(f"{name}:{at}: a line of a history is an object")
        if history is None:
            history = _header(document, f"{name}:{at}")
        else:
            history.ops.append(_op(document, at, f"{name}:{at}"))
    if history is None:
        raise BadHistory(f"{name}: a history begins with a line that has its version")
    return history


def _header(document: Mapping[str, Any], where: str) -> History:
    if document.get("history") != VERSION:
        raise BadHistory(f'{where}: the first line of a history has "history": {VERSION}')
    if document.get("clock", "common") not in CLOCKS:
        raise BadHistory(f"{where}: clock is one of {', '.join(CLOCKS)}")
    return History([], document.get("clock", "common"), bool(document.get("complete", False)))


def _op(document: dict[str, Any], line: int, where: str) -> Op:
    missing = [name for name in _REQUIRED if name not in document]
    if missing:
        raise BadHistory(f"{where}: an operation has {', '.join(missing)}")
    returned = document.pop("return", None)
    if returned is not None and type(returned) is not int:
        raise BadHistory(f"{where}: return is a number, or null")
    for name, value in document.items():
        kind = _TYPES.get(name)
        if kind is None:
            raise BadHistory(f"{where}: an operation has no {name!r}")
        if type(value) is not kind:
            raise BadHistory(f"{where}: {name} is a {kind.__name__}")
    op = Op(**document, returned=returned, line=line)
    if op.outcome not in OUTCOMES:
        raise BadHistory(f"{where}: outcome is one of {', '.join(OUTCOMES)}")
    if (op.returned is None) != (op.outcome == "unknown"):
        raise BadHistory(f"{where}: an operation without an answer is unknown, and one with an answer is not")
    if op.returned is not None and op.returned < op.invoke:
        raise BadHistory(f"{where}: it was answered before it was asked")
    return op


# ---- verdicts ------------------------------------------------------------------------------------------------


@define
class Violation:
    """What no correct run can show. `ops` is the smallest part of the history that shows it; `rule` is the invariant."""

    rule: str
    sentence: str
    ops: tuple[Op, ...]


@define
class Verdict:
    """`word`: "ok", "violated" or "unknown" (a search has met its bound). `bounds` say what was looked at, and how far."""

    word: str
    ops: int
    groups: int
    sessions: int
    bounds: str
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """The verdict for people."""
        for violation in self.violations:
            yield f"{violation.rule}: {violation.sentence}"
            yield from (f"    {op}" for op in violation.ops)
        yield f"{self.word}: {self.ops} operations, {self.groups} groups, {self.sessions} sessions; {self.bounds}"

    def document(self) -> dict[str, Any]:
        """The verdict for machines."""
        violations = [
            {"rule": each.rule, "sentence": each.sentence, "ops": [{"line": op.line, **_document(op)} for op in each.ops]}
            for each in self.violations
        ]
        return {
            "verdict": self.word, "ops": self.ops, "groups": self.groups, "sessions": self.sessions, "bounds": self.bounds,
            "violations": violations, "seconds": round(self.seconds, 3),
        }  # fmt: skip
