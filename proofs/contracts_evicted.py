"""Contracts of rows of EVICTED. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

EVICTED_CREATE = BY_NAME["EVICTED/CREATE"]
EVICTED_DELETE = BY_NAME["EVICTED/DELETE"]


def evicted_create__any(v: Any) -> After:
    """
    pre: allowed(EVICTED_CREATE, v)
    pre: given(EVICTED_CREATE, v)
    post: holds(EVICTED_CREATE, v, __return__)
    """
    return step(EVICTED_CREATE, v)


def evicted_create__named(v: Named) -> After:
    """
    pre: allowed(EVICTED_CREATE, v)
    pre: given(EVICTED_CREATE, v)
    post: holds(EVICTED_CREATE, v, __return__)
    """
    return step(EVICTED_CREATE, v)


def evicted_delete__any(v: Any) -> After:
    """
    pre: allowed(EVICTED_DELETE, v)
    pre: given(EVICTED_DELETE, v)
    post: holds(EVICTED_DELETE, v, __return__)
    """
    return step(EVICTED_DELETE, v)


def evicted_delete__named(v: Named) -> After:
    """
    pre: allowed(EVICTED_DELETE, v)
    pre: given(EVICTED_DELETE, v)
    post: holds(EVICTED_DELETE, v, __return__)
    """
    return step(EVICTED_DELETE, v)


def canary_evicted_create__created_without_version(v: Any) -> After:
    """
    pre: allowed(CANARIES[34].row, v)
    pre: given(CANARIES[34].row, v)
    post: check("EPOCH-1", CANARIES[34].row, v, __return__)
    """
    return step(CANARIES[34].row, v)


def canary_evicted_delete__deleted_with_a_trace(v: Any) -> After:
    """
    pre: allowed(CANARIES[35].row, v)
    pre: given(CANARIES[35].row, v)
    post: check("LIVE-1", CANARIES[35].row, v, __return__)
    """
    return step(CANARIES[35].row, v)
