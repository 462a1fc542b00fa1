"""Contracts of rows of EVICTING. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

EVICTING_CREATE = BY_NAME["EVICTING/CREATE"]
EVICTING_DUE_RETIRING = BY_NAME["EVICTING/DUE/RETIRING"]
EVICTING_GONE_RETIRING = BY_NAME["EVICTING/GONE/RETIRING"]
EVICTING_GONE_FREEING = BY_NAME["EVICTING/GONE/FREEING"]
EVICTING_LAPSE_RETIRING = BY_NAME["EVICTING/LAPSE/RETIRING"]
EVICTING_RETURN_RETIRING = BY_NAME["EVICTING/RETURN/RETIRING"]


def evicting_create__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_CREATE, v)
    pre: given(EVICTING_CREATE, v)
    post: holds(EVICTING_CREATE, v, __return__)
    """
    return step(EVICTING_CREATE, v)


def evicting_create__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_CREATE, v)
    pre: given(EVICTING_CREATE, v)
    post: holds(EVICTING_CREATE, v, __return__)
    """
    return step(EVICTING_CREATE, v)


def evicting_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_DUE_RETIRING, v)
    pre: given(EVICTING_DUE_RETIRING, v)
    post: holds(EVICTING_DUE_RETIRING, v, __return__)
    """
    return step(EVICTING_DUE_RETIRING, v)


def evicting_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_DUE_RETIRING, v)
    pre: given(EVICTING_DUE_RETIRING, v)
    post: holds(EVICTING_DUE_RETIRING, v, __return__)
    """
    return step(EVICTING_DUE_RETIRING, v)


def evicting_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_GONE_RETIRING, v)
    pre: given(EVICTING_GONE_RETIRING, v)
    post: holds(EVICTING_GONE_RETIRING, v, __return__)
    """
    return step(EVICTING_GONE_RETIRING, v)


def evicting_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_GONE_RETIRING, v)
    pre: given(EVICTING_GONE_RETIRING, v)
    post: holds(EVICTING_GONE_RETIRING, v, __return__)
    """
    return step(EVICTING_GONE_RETIRING, v)


def evicting_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_GONE_FREEING, v)
    pre: given(EVICTING_GONE_FREEING, v)
    post: holds(EVICTING_GONE_FREEING, v, __return__)
    """
    return step(EVICTING_GONE_FREEING, v)


def evicting_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_GONE_FREEING, v)
    pre: given(EVICTING_GONE_FREEING, v)
    post: holds(EVICTING_GONE_FREEING, v, __return__)
    """
    return step(EVICTING_GONE_FREEING, v)


def evicting_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_LAPSE_RETIRING, v)
    pre: given(EVICTING_LAPSE_RETIRING, v)
    post: holds(EVICTING_LAPSE_RETIRING, v, __return__)
    """
    return step(EVICTING_LAPSE_RETIRING, v)


def evicting_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_LAPSE_RETIRING, v)
    pre: given(EVICTING_LAPSE_RETIRING, v)
    post: holds(EVICTING_LAPSE_RETIRING, v, __return__)
    """
    return step(EVICTING_LAPSE_RETIRING, v)


def evicting_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(EVICTING_RETURN_RETIRING, v)
    pre: given(EVICTING_RETURN_RETIRING, v)
    post: holds(EVICTING_RETURN_RETIRING, v, __return__)
    """
    return step(EVICTING_RETURN_RETIRING, v)


def evicting_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(EVICTING_RETURN_RETIRING, v)
    pre: given(EVICTING_RETURN_RETIRING, v)
    post: holds(EVICTING_RETURN_RETIRING, v, __return__)
    """
    return step(EVICTING_RETURN_RETIRING, v)


def canary_evicting_gone_freeing__never_over(v: Any) -> After:
    """
    pre: allowed(CANARIES[31].row, v)
    pre: given(CANARIES[31].row, v)
    post: check("LIVE-1", CANARIES[31].row, v, __return__)
    """
    return step(CANARIES[31].row, v)


def canary_evicting_gone_retiring__over_too_early(v: Any) -> After:
    """
    pre: allowed(CANARIES[32].row, v)
    pre: given(CANARIES[32].row, v)
    post: check("MOVE-1", CANARIES[32].row, v, __return__)
    """
    return step(CANARIES[32].row, v)


def canary_evicting_return_retiring__goes_back(v: Any) -> After:
    """
    pre: allowed(CANARIES[33].row, v)
    pre: given(CANARIES[33].row, v)
    post: check("COPY-3", CANARIES[33].row, v, __return__)
    """
    return step(CANARIES[33].row, v)
