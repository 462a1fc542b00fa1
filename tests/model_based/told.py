"""What a state machine of Hypothesis did, as a transcript that can be pasted into tests/scenarios, and played again from it.

    model node                          a machine of this folder, by name
    reserve blocks=3 tier=DRAM          one of its rules; its invariants are checked after each
    rest                                its teardown: everything is let go, and what must be true at the end is checked

A rule whose precondition does not hold does nothing, so that a transcript of a fault is a run of the right machine too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.stateful import initialize as hypothesis_initialize
from hypothesis.stateful import rule as hypothesis_rule

Body = Callable[..., None]


class Told(RuleBasedStateMachine):
    """A machine that notes its steps, and prints them with a failure. `teardown` is the subclass's `end`."""

    NAME = ""
    COMMAND = ""
    """How its tests are run."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.depth = 0

    def end(self) -> None:
        """Everything is let go; what must be true then."""

    def teardown(self) -> None:
        note(f"REPRODUCE: {self.COMMAND}")
        note(self.transcript())
        self.end()

    def transcript(self) -> str:
        lines = [f"# Found by the {self.NAME} model.", "", f"model {self.NAME}", "", *self.steps, "rest", "----", "at rest"]
        return "\n".join(lines) + "\n"


def rule(**strategies: st.SearchStrategy[Any]) -> Callable[[Body], Any]:
    """A rule of Hypothesis whose steps are noted."""
    return lambda body: hypothesis_rule(**strategies)(_told(body))


def initialize(**strategies: st.SearchStrategy[Any]) -> Callable[[Body], Any]:
    return lambda body: hypothesis_initialize(**strategies)(_told(body))


def _told(body: Body) -> Body:
    @functools.wraps(body)
    def step(self: Told, *args: Any, **given: Any) -> None:
        if self.depth == 0:
            self.steps.append(" ".join([body.__name__, *(f"{key}={_text(value)}" for key, value in given.items())]))
        self.depth += 1
        try:
            body(self, *args, **given)
        finally:
            self.depth -= 1

    return step


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)


def _value(hint: Any, text: str) -> Any:
    if get_origin(hint) in (list, tuple):
        return get_origin(hint)(_value(get_args(hint)[0], piece) for piece in text.split(","))
    if hint is bool:
        return {"true": True, "false": False}[text]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[text]
    return hint(text)


class ModelPlay:
    """A machine played by hand, line by line. `lines`: what it has said since somebody took them away."""

    def __init__(self, machine: type[Told]) -> None:
        self.machine = machine()
        self.lines: list[str] = []
        self._known = machine.setup_state()
        self._rules = {each.function.__name__: each for each in (*self._known.rules, *self._known.initializers)}

    def do(self, words: Sequence[str]) -> None:
        """One line: a rule with its arguments, or `rest`."""
        if list(words) == ["rest"]:
            self.machine.end()
            self.lines.append("at rest")
            return
        found = self._rules[words[0]]
        if all(allowed(self.machine) for allowed in found.preconditions):
            hints = get_type_hints(found.function)
            given = dict(word.split("=", 1) for word in words[1:])
            found.function(self.machine, **{key: _value(hints[key], text) for key, text in given.items()})
        for each in self._known.invariants:
            each.function(self.machine)
