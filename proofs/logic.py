"""And, or, not, implies: without a branch.

`a and b` asks for the truth of `a`, and an engine that runs all paths then runs two. `a & b` of two truth values is one value,
symbolic or plain, so a whole condition is one question. What a row fixes folds here and is not asked at all; constants are told
by `id`, because `a is True` is a question too when `a` is symbolic.
"""

from __future__ import annotations

from typing import Final

_TRUE: Final = id(True)
_FALSE: Final = id(False)


def no(a: bool) -> bool:
    """Not `a`."""
    if id(a) == _TRUE:
        return False
    if id(a) == _FALSE:
        return True
    return a ^ True


def implies(a: bool, b: bool) -> bool:
    """`b`, if `a`."""
    if id(a) == _TRUE:
        return b
    if id(a) == _FALSE or id(b) == _TRUE:
        return True
    if id(b) == _FALSE:
        return a ^ True
    return (a ^ True) | b


def every(*parts: bool) -> bool:
    """All of them."""
    whole = True
    for part in parts:
        if id(part) == _FALSE:
            return False
        if id(part) != _TRUE:
            whole = part if id(whole) == _TRUE else whole & part
    return whole


def some(*parts: bool) -> bool:
    """At least one of them."""
    whole = False
    for part in parts:
        if id(part) == _TRUE:
            return True
        if id(part) != _FALSE:
            whole = part if id(whole) == _FALSE else whole | part
    return whole


def one_of(*parts: bool) -> bool:
    """At most one of them."""
    clear = []
    for i, first in enumerate(parts):
        clear += [no(every(first, second)) for second in parts[i + 1 :]]
    return every(*clear)
