"""The list of what has to be proved: each row of the table x each record-level invariant; and the files that state it.

    python -m proofs.obligations            the list
    python -m proofs.obligations --write    make contracts_*.py anew
    python -m proofs.obligations --check    are they what the table says? (tests/test_proofs.py asks too)

A contract is one function with a precondition and a postcondition. A row has two: `any` (every copy) and `named` (what must
exist). The postcondition is the conjunction of all invariants that the view can show, so that one search over all paths settles
them together; an obligation `(row, invariant)` is confirmed if both contracts of its row are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from attrs import define

from pinfold.core.ids import State
from pinfold.core.table import ROWS, On, Row

from .canaries import CANARIES, Canary
from .properties import IDS

HERE: Final = Path(__file__).resolve().parent

PARTS: Final = {
    "commands": (On.CREATE, On.PIN, On.REF, On.MOVE, On.ADOPT, On.LEAVE, On.EVICT, On.REPLICATE, On.DROP_REPLICA, On.DELETE),
    "arrivals": (On.SEALED, On.COPY_DONE, On.ENDED),
    "departures": (On.DUE, On.GONE, On.LAPSE, On.RETURN),
}
"""The files of one readable state: what commands bring, what becomes of copies in the making, and of copies that were there."""

COVERED_ELSEWHERE: Final[dict[tuple[str, str], str]] = {}
"""`(row, invariant)` -> the explorer bound that covers it, for those that no proof settles. There are none."""


@define(frozen=True)
class Obligation:
    """`invariant` holds after `row`, if all of them held before."""

    row: str
    invariant: str


@define(frozen=True)
class Contract:
    """One function of a contract file. `breaks` is "" for a proof; for a canary the invariant that must be refuted."""

    module: str
    function: str
    row: str
    view: str
    breaks: str = ""


def applies(row: Row, invariant: str) -> bool:
    """LIVE-1 speaks of EVICTING alone; everything else of every row."""
    return invariant != "LIVE-1" or State.EVICTING in row.to


def obligations() -> tuple[Obligation, ...]:
    """All of them, in the table's order."""
    return tuple(Obligation(row.name, invariant) for row in ROWS for invariant in IDS if applies(row, invariant))


def module_of(row: Row) -> str:
    """The contract file that a row belongs to."""
    if row.state in (State.WRITING, State.EVICTING, State.EVICTED):
        return f"contracts_{row.state.name.lower()}"
    part = next(part for part, events in PARTS.items() if row.on in events)
    return f"contracts_{row.state.name.lower()}_{part}"


def function_of(name: str, view: str) -> str:
    return f"{name.lower().replace('/', '_')}__{view.lower()}"


def contracts() -> tuple[Contract, ...]:
    """The proofs and the canaries."""
    proofs = [Contract(module_of(row), function_of(row.name, view), row.name, view) for row in ROWS for view in ("Any", "Named")]
    return (*proofs, *(_canary_contract(canary) for canary in CANARIES))


def _canary_contract(canary: Canary) -> Contract:
    name = f"canary_{function_of(canary.row.name, canary.name)}"
    return Contract(module_of(canary.row), name, canary.row.name, canary.view, canary.breaks)


# ---- the files -----------------------------------------------------------------------------------------------


def modules() -> tuple[str, ...]:
    return tuple(dict.fromkeys(module_of(row) for row in ROWS))


HEAD: Final = '''\
"""Contracts of rows of {states}. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

'''


def text(module: str) -> str:
    """The contract file, as it must be."""
    mine = [row for row in ROWS if module_of(row) == module]
    states = ", ".join(dict.fromkeys(row.state.name for row in mine))
    parts = [HEAD.format(states=states)]
    parts += [f'{_constant(row.name)} = BY_NAME["{row.name}"]\n' for row in mine]
    for row in mine:
        parts += [_function(function_of(row.name, view), view, _constant(row.name), "holds(") for view in ("Any", "Named")]
    for at, canary in enumerate(CANARIES):
        if module_of(canary.row) == module:
            contract = _canary_contract(canary)
            parts.append(_function(contract.function, canary.view, f"CANARIES[{at}].row", f'check("{canary.breaks}", '))
    return "".join(parts)


def _constant(name: str) -> str:
    return name.replace("/", "_")


def _function(name: str, view: str, row: str, post: str) -> str:
    return (
        f"\n\ndef {name}(v: {view}) -> After:\n"
        f'    """\n'
        f"    pre: allowed({row}, v)\n"
        f"    pre: given({row}, v)\n"
        f"    post: {post}{row}, v, __return__)\n"
        f'    """\n'
        f"    return step({row}, v)\n"
    )


def stale() -> list[str]:
    """Contract files that are not what they must be."""
    wanted = {f"{module}.py": text(module) for module in modules()}
    found = {path.name: path.read_text(encoding="utf-8") for path in HERE.glob("contracts_*.py")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        for path in HERE.glob("contracts_*.py"):
            path.unlink()
        for module in modules():
            (HERE / f"{module}.py").write_text(text(module), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        for name in stale():
            print(f"proofs/{name} is not what the table says: python -m proofs.obligations --write", file=sys.stderr)
        return 1 if stale() else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for one in obligations():
        print(f"{one.row:40} {one.invariant}")
    print(f"{len(obligations())} obligations: {len(ROWS)} rows x {len(IDS)} invariants, where they apply")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
