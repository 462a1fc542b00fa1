"""A counterexample told: a transcript for people, JSON lines for tools, a Mermaid diagram for pages."""

from __future__ import annotations

import json
from typing import Any

from ..core.answers import Answered, Told
from ..core.commands import Command
from ..core.orders import Order
from ..core.plain import pack
from ..core.requests import Acquire, Blocks, EndWrite, Let, Read, Write
from .cast import Cast
from .explorer import Found
from .words import is_message, let_out, message, what_happened

DIRECTORY = "directory/0"


def transcript(cast: Cast, found: Found) -> list[str]:
    """One step a paragraph: what happened, then what it let out (`->` under way, `=>` heard by a client)."""
    lines = [f"world {cast.file.name}: {cast.file.about}"]
    for number, (_, label) in enumerate(found.path, 1):
        lines.append(f"{number:3}  {what_happened(cast, label[0])}")
        lines += [f"       {line}" for line in let_out(cast, label)]
    if found.loop:
        lines.append("and round, for ever:")
        lines += [f"  ..   {what_happened(cast, label[0])}" for label in found.loop]
    lines.append(f"{found.outcome.name}: {found.what}")
    return lines


def json_lines(cast: Cast, found: Found) -> list[str]:
    """A step a line: number, label, and messages in plain form (bytes as hex)."""
    lines = []
    for number, (_, label) in enumerate(found.path, 1):
        words, (sent, heard) = label
        step: dict[str, Any] = {"step": number, "text": what_happened(cast, words)}
        taken = [word for at, word in enumerate(words) if is_message(words, at)]
        if taken:
            step["message"] = _plain(cast, taken[0])
        step["sent"] = [_plain(cast, one) for one in sent]
        step["heard"] = [_plain(cast, one) for _, one in heard]
        lines.append(json.dumps(step, separators=(",", ":")))
    end = {"outcome": found.outcome.name, "invariant": found.invariant, "what": found.what}
    lines.append(json.dumps(end, separators=(",", ":")))
    return lines


def _plain(cast: Cast, number: int) -> dict[str, Any]:
    one = cast.messages.items[number]
    return {"to": one.target, "type": type(one.body).__name__, "fields": _jsonable(pack(one.body))}


def _jsonable(plain: Any) -> Any:
    if isinstance(plain, bytes):
        return plain.hex()
    if isinstance(plain, tuple):
        return [_jsonable(one) for one in plain]
    return plain


def mermaid(cast: Cast, found: Found) -> list[str]:
    """A sequence diagram of the same steps."""
    names = [DIRECTORY, *(f"node/{node}" for node in cast.nodes), *(f"client/{client}" for client in cast.clients)]
    lines = ["sequenceDiagram", *(f"    participant {_id(name)} as {name}" for name in names)]
    for _, label in found.path:
        words, (_, heard) = label
        taken = [word for at, word in enumerate(words) if is_message(words, at)]
        if taken and words[0] in ("deliver", "duplicate"):
            one = cast.messages.items[taken[0]]
            lines.append(f"    {_id(source_of(one.body))}->>{_id(one.target)}: {_safe(message(cast, one.body))}")
        else:
            lines.append(f"    Note over {_id(DIRECTORY)}: {_safe(what_happened(cast, words))}")
        for _, number in heard:
            one = cast.messages.items[number]
            lines.append(f"    {_id(source_of(one.body))}-->>{_id(one.target)}: {_safe(message(cast, one.body))}")
    lines.append(f"    Note over {_id(DIRECTORY)}: {found.outcome.name} {_safe(found.what.splitlines()[0])}")
    return lines


def _id(name: str) -> str:
    return name.replace("/", "_")


def _safe(text: str) -> str:
    return text.replace(";", ",").replace("#", "no. ")


def source_of(body: Any) -> str:
    """Who says such a thing."""
    if isinstance(body, Command | Write | EndWrite | Read | Acquire | Let):
        return str(body.client)
    if isinstance(body, Answered | Told | Order):
        return DIRECTORY
    if isinstance(body, Blocks):
        return f"node/{body.node}"
    node = getattr(body, "node", "")
    if node and not hasattr(body, "term"):
        return f"node/{node}"
    return f"node/{node}" if type(body).__name__ in ("Inventory", "Heartbeat") else DIRECTORY
