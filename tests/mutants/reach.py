"""Which code a point runs, and which code a mutant replaces: where they don't meet, the point can't see the fault.

A fault that this can't place (it changes another library) is taken to be everywhere.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pinfold.core.table import Row
from tests.mutants.deaths import PRODUCT, ROOT
from tests.mutants.record import Mutant

WATCHED = (*PRODUCT, "chaos/")


@cache
def name_of(code: CodeType) -> str:
    """`core/rows.py:evict`, or "" for code that no mutant changes."""
    path = Path(code.co_filename)
    if ".venv" in path.parts or not path.is_absolute():
        return ""
    path = path.resolve()
    if not path.is_relative_to(ROOT):
        return ""
    name = path.relative_to(ROOT).as_posix()
    return f"{name}:{code.co_qualname}" if name.startswith(WATCHED) else ""


@contextmanager
def watched() -> Iterator[set[CodeType]]:
    """The code of every function that is called meanwhile, in any thread that begins meanwhile."""
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        seen.add(frame.f_code)

    threading.settrace(called)
    sys.settrace(called)
    try:
        yield seen
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def names(seen: set[CodeType]) -> list[str]:
    return sorted({name for code in seen if (name := name_of(code))})


# ---- what a mutant replaces ----------------------------------------------------------------------------------


Place = tuple[str, Any]


def _things() -> dict[Place, Any]:
    """Every name, entry of a table and attribute of a class of the product, with what it is now."""
    found: dict[Place, Any] = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != "pinfold":
            continue
        for name, value in list(vars(module).items()):
            if name.startswith("__"):
                continue
            place = f"{module_name}.{name}"
            found[place, None] = value
            if type(value) is dict:
                found.update({(place, repr(key)): entry for key, entry in value.items()})
            elif isinstance(value, type) and value.__module__ == module_name:
                found.update({(place, key): entry for key, entry in vars(value).items() if key[:2] != "__" or callable(entry)})
    return found


def _code_of(thing: Any, other: Any) -> Iterator[CodeType]:
    """The code that is run where `thing` is used; of a class that is replaced by one made from it, what the new one has anew."""
    if isinstance(thing, functools.partial):
        thing = thing.func
    if isinstance(thing, Row):
        for function in (thing.body, thing.rest, *(guard.check for guard in thing.guards)):
            if function is not None:
                yield function.__code__
    elif isinstance(thing, tuple):
        for part in thing:
            yield from _code_of(part, None)
    elif isinstance(thing, type):
        for base in getattr(other, "__mro__", ()):
            if base is thing:
                break
            for name in vars(base):
                yield from _code_of(getattr(thing, name, None), None)
    elif isinstance(thing, staticmethod | classmethod):
        yield from _code_of(thing.__func__, None)
    else:
        code = getattr(thing, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def replaced_by(mutant: Mutant, things: Callable[[], dict[Place, Any]] = _things) -> set[str]:
    """The names of the code that a mutant replaces; empty if it can't be told."""
    before = things()
    with mutant.plant():
        after = things()
    found: set[str] = set()
    for place, thing in before.items():
        other = after.get(place)
        if other is not thing:
            found.update(name for code in _code_of(thing, other) if (name := name_of(code)))
    return found
