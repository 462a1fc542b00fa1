"""The lifecycle, written out: `specs/lifecycle.md` is made from `core/table.py` and from nothing else.

    python -m pinfold.lifecycle             print it
    python -m pinfold.lifecycle --write     write it
    python -m pinfold.lifecycle --check     exit 1 if the file is not what the table says
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .core.errors import REFUSALS
from .core.ids import Role, State
from .core.table import REFUSES, ROWS, TABLE, Guard, On, Row

FILE: Final = Path(__file__).resolve().parent.parent / "specs" / "lifecycle.md"

MEANINGS: Final[dict[State, tuple[str, str]]] = {
    State.WRITING: ("space reserved at the owner, blocks arriving, not sealed", "nowhere"),
    State.LOCAL: ("the owner node has the authoritative copy, in one of its tiers", "owner, replicas"),
    State.MIGRATING_OUT: (
        "as LOCAL, and a copy is being made elsewhere; if the source was lost: no authoritative copy until the move ends",
        "source, replicas",
    ),
    State.REMOTE: ("no node owns it; the authoritative copy is in the remote store", "store, replicas"),
    State.MIGRATING_IN: ("as REMOTE, and a node is pulling it in to own it", "store, replicas"),
    State.EVICTING: ("no authoritative copy (`reason` says why); some copies have not gone yet", "nowhere"),
    State.EVICTED: ("the list of copies is empty; the record may be deleted", "nowhere"),
}

EFFECTS: Final[dict[str, str]] = {
    "Reserve": "order the node to take slots for the writer",
    "Fetch": "order the target to make its copy from the source",
    "Spill": "order the owner to make an object in the store",
    "Free": "copies that became FREEING are ordered to go, once that is durable",
    "lose": "holds on what has gone end as LOST and stay until their holder has heard",
    "wake": "who waits for this group (`Await`) is told",
    "forget": "the record is deleted",
}

RESTS: Final[dict[str, str]] = {
    "create_rest": "what was coming is FREEING; what could be read is RETIRING and never counts as authoritative again",
    "move_ended_rest": "they stay; where the source was lost, as `create_rest`",
    "authority_retires": "the authoritative one is RETIRING for its grace period",
    "evict_rest": "the held are RETIRING, the absent leave, all others are FREEING",
    "authority_gone_rest": "the promoted replica is AUTHORITATIVE, a move's target FREEING; where none is left: as `create_rest`",
}

ROLES: Final = """\
## Rows

The role is that of the copy concerned. For `COPY_DONE` and `ENDED`, `REPLICA` stands for an INCOMING copy that is not the
record's `target`: a replica in the making.
"""

OTHER_ROLES: Final = """\
Where a pair has rows for some roles only, another role is refused as `StaleReport`: who speaks of it speaks of a past.
"""

HEAD: Final = """\
# The lifecycle of a group

Made from `core/table.py` by `python -m pinfold.lifecycle --write`; a test fails when the two differ. The words are those of
[glossary.md](glossary.md), the rules behind them those of [protocol.md](protocol.md).

A row says: in this state, when this event happens to a copy in this role, and every guard says yes, the record ends in one of
these states. Guards are asked in the order given; the first that says no is the refusal, and then nothing has changed
(REFUSE-1). What has no row is refused by the word in the last table.
"""


def text() -> str:
    """The whole document."""
    parts = [HEAD, _states(), _diagram(), _rows(), _guards(), _effects(), _refusals()]
    return "\n".join(parts)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; pipes in cells are escaped."""
    made = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    made += ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join(made) + "\n"


def _states() -> str:
    lines = [(f"`{state.name}`", *MEANINGS[state]) for state in State]
    return "## States\n\n" + table(("state", "meaning", "readable from"), lines)


# ---- the diagram ---------------------------------------------------------------------------------------------


def edges() -> dict[tuple[State, State], tuple[On, ...]]:
    """`(from, to)` -> the events that lead there, in the order of `On`. Rows that stay in their state are left out."""
    found: dict[tuple[State, State], dict[On, None]] = {}
    for row in sorted(ROWS, key=lambda row: (row.state, row.on)):
        for target in row.to:
            if target is not row.state:
                found.setdefault((row.state, target), {})[row.on] = None
    return {pair: tuple(events) for pair, events in sorted(found.items())}


def diagram() -> str:
    """The Mermaid state diagram: every change of state, and no row that stays where it is."""
    lines = ["stateDiagram-v2", "    [*] --> WRITING: CREATE"]
    for (source, target), events in edges().items():
        lines.append(f"    {source.name} --> {target.name}: {', '.join(on.name for on in events)}")
    lines.append("    EVICTED --> [*]: DELETE")
    return "\n".join(lines) + "\n"


def _diagram() -> str:
    return f"## Diagram\n\n```mermaid\n{diagram()}```\n"


# ---- rows, guards, effects -----------------------------------------------------------------------------------


def _rows() -> str:
    """One table per state. COPY_DONE and ENDED of REPLICA speak of an INCOMING copy that is not the record's target."""
    parts = [ROLES]
    head = ("event", "role", "ends in", "guards, in order", "other copies", "what may follow")
    for state in State:
        lines = [_row_line(row) for row in sorted(ROWS, key=_order) if row.state is state]
        parts.append(f"### {state.name}\n\n" + table(head, lines))
    lines = [(f"`{name}`", said) for name, said in RESTS.items()]
    parts.append("### What becomes of the other copies\n\n" + table(("function", "meaning"), lines))
    return "\n".join(parts)


def _order(row: Row) -> tuple[int, int]:
    return (row.on, -1 if row.role is None else row.role)


def _row_line(row: Row) -> tuple[str, ...]:
    guards = ", ".join(f"`{guard.name}`" for guard in row.guards) or "-"
    role = "any" if row.role is None else row.role.name
    rest = "stay" if row.rest is None else f"`{row.rest.__name__}`"
    return (f"`{row.on.name}`", role, ", ".join(state.name for state in row.to), guards, rest, ", ".join(row.effects) or "-")


def guards() -> list[Guard]:
    """Every guard of every row once, by name."""
    found = {(guard.name, guard.refusal): guard for row in ROWS for guard in row.guards}
    return [found[key] for key in sorted(found)]


def condition(function: Callable[..., Any]) -> str:
    """The expression that a guard returns, as it stands in the code."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            return ast.unparse(node.value)
    raise ValueError(f"{function.__name__} returns nothing")


def _guards() -> str:
    lines = [(f"`{g.name}`", f"`{condition(g.check)}`", f"`{g.refusal}`", REFUSALS[g.refusal].meaning) for g in guards()]
    return (
        "## Guards\n\n`g` is the group's record, `c` the copy concerned, `k` the numbers read off its lists (`Facts` in "
        "`core/rows.py`).\n\n" + table(("guard", "says yes when", "else", "meaning"), lines)
    )


def _effects() -> str:
    lines = [(f"`{name}`", said) for name, said in EFFECTS.items()]
    return "## What may follow from a row\n\n" + table(("effect", "meaning"), lines)


# ---- refusals ------------------------------------------------------------------------------------------------


def without_row() -> Iterator[tuple[On, State]]:
    """The pairs that have no row for any role."""
    for on in On:
        for state in State:
            if not any((state, on, role) in TABLE for role in Role):
                yield on, state


def _refusals() -> str:
    missing = set(without_row())
    lines = []
    for on in On:
        words = [f"`{REFUSES[on][state]}`" if (on, state) in missing else "row" for state in State]
        lines.append((f"`{on.name}`", *words))
    return f"## Refusals\n\n{OTHER_ROLES}\n" + table(("event", *(state.name for state in State)), lines)


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--write"]:
        FILE.write_text(text(), encoding="utf-8")
    elif list(arguments) == ["--check"]:
        if not FILE.is_file() or FILE.read_text(encoding="utf-8") != text():
            print("specs/lifecycle.md is not what core/table.py says: run python -m pinfold.lifecycle --write", file=sys.stderr)
            return 1
    elif arguments:
        print("usage: python -m pinfold.lifecycle [--write | --check]", file=sys.stderr)
        return 2
    else:
        sys.stdout.write(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
