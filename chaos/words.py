"""A world's events in words: messages, labels and outputs as short stable text, for people."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import attrs

from ..core.commands import Command, Spec
from ..core.ids import CopyId, HoldId
from ..core.orders import Order
from ..core.reports import Heartbeat, Inventory, Register, Report
from .cast import Cast
from .parties import Label

BORING = {"client", "shard", "spec", "low", "snapshot", "part", "parts", "address", "tiers", "stuck", "data", "retry_after_ms"}
"""Fields that a reader of a story can do without."""


def value(cast: Cast, thing: Any) -> str:
    """One value: groups by name, copies and holds as everywhere else, bytes by their beginning."""
    if isinstance(thing, bytes):
        at = cast.group_at.get(thing)  # type: ignore[call-overload]
        return cast.groups[at] if at is not None else thing.hex()[:6]
    if isinstance(thing, Spec):
        return value(cast, thing.group)
    if isinstance(thing, CopyId | HoldId):
        return str(thing)
    if isinstance(thing, IntEnum):
        return thing.name
    if isinstance(thing, tuple):
        return "[" + ", ".join(value(cast, one) for one in thing) + "]"
    if attrs.has(type(thing)):
        return message(cast, thing)
    return str(thing)


def message(cast: Cast, body: Any) -> str:
    """A message: its name and what is not its default."""
    name = type(body).__name__
    if isinstance(body, Command):
        return f"{message(cast, body.body)} #{body.sequence}"
    if isinstance(body, Order):
        return f"{message(cast, body.body)} (order {body.term}.{body.incarnation}.{body.number})"
    if isinstance(body, Inventory):
        entries = ", ".join(f"{entry.copy} {entry.condition.name}" for entry in body.entries)
        return f"Inventory({body.node}/{body.incarnation} after order {body.term}.{body.number}: {entries or 'nothing'})"
    if isinstance(body, Report):
        return f"Report({body.node}/{body.incarnation}: {', '.join(message(cast, fact) for fact in body.facts)})"
    if isinstance(body, Heartbeat):
        return f"Heartbeat({body.node}/{body.incarnation} after order {body.term}.{body.number})"
    if isinstance(body, Register):
        return f"Register({body.node}, boot {body.boot}{f' over {body.over}' if body.over else ''})"
    parts = []
    for field in attrs.fields(type(body)):
        inner = getattr(body, field.name)
        if field.name in BORING or inner in ((), "", False, None) or (field.name == "token" and "/" not in str(inner)):
            continue
        if field.default is not attrs.NOTHING and inner == field.default:
            continue
        parts.append(value(cast, inner) if isinstance(inner, CopyId | HoldId | bytes) else f"{field.name}={value(cast, inner)}")
    return f"{name}({', '.join(parts)})" if parts else name


def what_happened(cast: Cast, words: Sequence[Any]) -> str:
    """The label of a step in words."""
    messages = cast.messages.items
    head = words[0] if words else "begin"
    said = [
        f"{messages[word].target} takes {message(cast, messages[word].body)}" if is_message(words, at) else str(word)
        for at, word in enumerate(words)
        if word != ""
    ]
    if head in ("deliver", "duplicate", "drop", "nobody is there") or str(head).startswith(("deliver to", "crash in")):
        number = words[1]
        body = message(cast, messages[number].body)
        target = messages[number].target
        rest = " ".join(said[2:])
        text = {
            "deliver": f"{target} takes {body}",
            "duplicate": f"{target} takes {body}, which comes again",
            "drop": f"lost on the way to {target}: {body}",
            "nobody is there": f"lost, {target} is down: {body}",
        }.get(head, f"{head}: {body}")
        return f"{text} {rest}".rstrip()
    return " ".join(said)


def is_message(words: Sequence[Any], at: int) -> bool:
    """Whether a word of a label is the number of a message."""
    if type(words[at]) is not int or at == 0:
        return False
    before = words[at - 1]
    return before in ("deliver", "duplicate", "drop", "nobody is there", "and the answer is lost:") or (
        type(before) is str and before.startswith(("deliver to", "crash in"))
    )


def let_out(cast: Cast, label: Label) -> list[str]:
    """What a step let out, a line each."""
    sent, heard = label[1]
    ways = [("->", number) for number in sent] + [("=>", number) for _, number in heard]
    messages = cast.messages.items
    return [f"{way} {messages[number].target}  {message(cast, messages[number].body)}" for way, number in ways]
