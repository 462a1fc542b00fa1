"""What a run of the machines has gone through: rows of the table, refusals of their guards, reasons given, events taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Any, Final, get_args

from attrs import define, field

from ..core import calls, commands, events, orders, reports, table
from ..core.client import Client
from ..core.directory import Directory
from ..core.errors import REFUSALS, Refusal
from ..core.node import Node
from ..core.records import evolve
from ..core.rows import Facts
from ..core.state import Copy, Group
from ..core.table import Guard, Row

MACHINES: Final[dict[str, tuple[Any, Any]]] = {
    "directory": (Directory, events.DirectoryEvent), "node": (Node, events.NodeEvent), "client": (Client, calls.ClientEvent),
}  # fmt: skip
"""Each machine's class, and the union of what it takes."""

INSIDE: Final[dict[Any, Any]] = {
    commands.Command: commands.Body | commands.Batch,
    orders.Order: orders.Instruction,
    reports.Report: reports.Fact,
    calls.Call: calls.Op,
}
"""Events that carry something of which each kind counts by itself."""


def _kinds(union: Any) -> list[type]:
    return [kind for one in get_args(union) for kind in _kinds(one)] if isinstance(union, UnionType) else [union]


def all_events() -> list[str]:
    """`machine: Event` or `machine: Event Kind` of everything that a machine takes."""
    found = []
    for machine, (_, union) in MACHINES.items():
        for kind in _kinds(union):
            inner = _kinds(INSIDE[kind]) if kind in INSIDE else []
            found += [f"{machine}: {kind.__name__} {one.__name__}" for one in inner] or [f"{machine}: {kind.__name__}"]
    return found


def all_guards() -> list[str]:
    """`row: guard` of each guard of each row."""
    return [f"{row.name}: {guard.name}" for row in table.ROWS for guard in row.guards]


@define
class Coverage:
    """`taken`: names of rows whose body ran (for PIN and REF, whose body changes nothing: whose guards all said yes). `refused`:
    `row: guard` of each guard that said no. `given`: `machine: Reason` of each refusal that a machine made in a step. `events`:
    as `all_events` has them."""

    taken: set[str] = field(factory=set)
    refused: set[str] = field(factory=set)
    given: set[str] = field(factory=set)
    events: set[str] = field(factory=set)

    def rows_never_taken(self) -> list[str]:
        return [row.name for row in table.ROWS if row.name not in self.taken]

    def guards_never_refused(self) -> list[str]:
        return [name for name in all_guards() if name not in self.refused]

    def reasons_never_given(self) -> list[str]:
        given = {name.partition(": ")[2] for name in self.given}
        return [reason for reason in REFUSALS if reason not in given]

    def events_never_taken(self) -> list[str]:
        return [name for name in all_events() if name not in self.events]

    def join(self, other: Coverage) -> None:
        self.taken |= other.taken
        self.refused |= other.refused
        self.given |= other.given
        self.events |= other.events


@contextmanager
def watched() -> Iterator[Coverage]:
    """Watch the table and the machines while the block runs. A fault that is planted is planted outside."""
    coverage = Coverage()
    stepping: list[str] = []
    steps = {machine: owner.step for machine, (owner, _) in MACHINES.items()}
    made_before = Refusal.__init__
    before = dict(table.TABLE)
    made: dict[int, Row] = {}
    for key, row in before.items():
        table.TABLE[key] = made.setdefault(id(row), _watched(coverage, row, stepping))
    for machine, (owner, _) in MACHINES.items():
        owner.step = _stepping(coverage, machine, owner.step, stepping)

    def making(refusal: Refusal, reason: str, *arguments: Any, **named: Any) -> None:
        made_before(refusal, reason, *arguments, **named)
        if stepping and stepping[-1]:
            coverage.given.add(f"{stepping[-1]}: {reason}")

    Refusal.__init__ = making  # type: ignore[method-assign,assignment]
    try:
        yield coverage
    finally:
        Refusal.__init__ = made_before  # type: ignore[method-assign]
        for machine, (owner, _) in MACHINES.items():
            owner.step = steps[machine]
        table.TABLE.clear()
        table.TABLE.update(before)


def _stepping(coverage: Coverage, machine: str, step: Callable[..., Any], stepping: list[str]) -> Callable[..., Any]:
    def stepped(self: Any, event: Any, now: int) -> Any:
        _note_event(coverage, machine, event)
        stepping.append("" if type(event) is commands.Explain else machine)  # which asks all guards, and nobody is refused
        try:
            return step(self, event, now)
        finally:
            stepping.pop()
            if getattr(self.state, "halted", ""):
                coverage.given.add(f"{machine}: {self.state.halted.partition(':')[0]}")

    return stepped


def _note_event(coverage: Coverage, machine: str, event: Any) -> None:
    kind = type(event)
    name = f"{machine}: {kind.__name__}"
    if kind not in INSIDE:
        coverage.events.add(name)
    elif kind is reports.Report:
        coverage.events.update([f"{name} {type(fact).__name__}" for fact in event.facts])
    else:
        inner = event.op if kind is calls.Call else event.body
        coverage.events.add(f"{name} {type(inner).__name__}")


def _watched(coverage: Coverage, row: Row, stepping: list[str]) -> Row:
    body = row.body
    last = len(row.guards) - 1

    def noted(g: Group, c: Copy, k: Facts) -> Any:
        if stepping and stepping[-1]:
            coverage.taken.add(row.name)
        return body(g, c, k)

    def asked(at: int, guard: Guard) -> Guard:
        def check(g: Group, c: Copy, k: Facts) -> bool:
            said = guard.check(g, c, k)
            if not stepping or not stepping[-1]:
                return said
            if not said:
                coverage.refused.add(f"{row.name}: {guard.name}")
            elif at == last and row.on in (table.On.PIN, table.On.REF, table.On.DELETE):
                coverage.taken.add(row.name)
            return said

        return evolve(guard, check=check)

    return evolve(row, body=noted, guards=tuple(asked(at, guard) for at, guard in enumerate(row.guards)))
