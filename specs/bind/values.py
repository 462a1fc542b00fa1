"""TLA+ values as Python values, and numbers for those that were met: how a state of TLC's and one of the machines' compare.

A record is a sorted tuple of its fields, a function over 1..n or a sequence is a tuple, a set is a frozenset, a model value is
its name, `None` is `None`. Equal values have equal numbers (`Pool`), whichever side they came from.
"""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r'\s*("[^"]*"|\|->|<<|>>|[A-Za-z_]\w*|-?\d+|[\[\]{},])')


def record(**fields: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(fields.items()))


def parse(text: str) -> Any:
    """One value as TLC prints it."""
    tokens = _TOKEN.findall(text)
    value, at = _value(tokens, 0)
    if at != len(tokens):
        raise ValueError(f"more than one value: {text[:200]}")
    return value


def _value(tokens: list[str], at: int) -> tuple[Any, int]:
    token = tokens[at]
    if token == "[":
        return _record(tokens, at + 1)
    if token in ("<<", "{"):
        end = ">>" if token == "<<" else "}"
        items: list[Any] = []
        at += 1
        while tokens[at] != end:
            item, at = _value(tokens, at)
            items.append(item)
            if tokens[at] == ",":
                at += 1
        return (tuple(items) if end == ">>" else frozenset(items)), at + 1
    if token.startswith('"'):
        return token[1:-1], at + 1
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", at + 1
    if token == "None":
        return None, at + 1
    return (int(token) if token.lstrip("-").isdigit() else token), at + 1


def _record(tokens: list[str], at: int) -> tuple[Any, int]:
    fields: list[tuple[str, Any]] = []
    while tokens[at] != "]":
        name = tokens[at]
        value, at = _value(tokens, at + 2)
        fields.append((name, value))
        if tokens[at] == ",":
            at += 1
    return tuple(sorted(fields)), at + 1


class Pool:
    """Numbers for values, in the order in which they were met."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.items: list[Any] = []

    def put(self, value: Any) -> int:
        known = self.number.get(value)
        if known is None:
            known = self.number[value] = len(self.items)
            self.items.append(value)
        return known


class States:
    """States in four parts, each by number: `(directory, nodes, messages, budgets)`."""

    def __init__(self) -> None:
        self.parts = Pool()
        self.messages = Pool()
        self._texts: dict[str, int] = {}
        self._sets: dict[str, frozenset[int]] = {}

    def of_text(self, dir_: str, node: str, msgs: str, left: str) -> tuple[int, int, frozenset[int], int]:
        """A state from the texts of its four variables."""
        return self._part(dir_), self._part(node), self._messages(msgs), self._part(left)

    def _part(self, text: str) -> int:
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self.parts.put(parse(text))
        return known

    def _messages(self, text: str) -> frozenset[int]:
        known = self._sets.get(text)
        if known is None:
            inner = text.strip()[1:-1]
            numbers = []
            for one in _records(inner):
                number = self._texts.get(one)
                if number is None:
                    number = self._texts[one] = self.messages.put(parse(one))
                numbers.append(number)
            known = self._sets[text] = frozenset(numbers)
        return known


def _records(text: str) -> list[str]:
    """The records of a set, as texts."""
    found: list[str] = []
    depth = begin = 0
    for match in re.finditer(r"[\[\]]", text):
        if match[0] == "[":
            if depth == 0:
                begin = match.start()
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                found.append(text[begin : match.end()])
    return found
