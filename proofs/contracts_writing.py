"""Contracts of rows of WRITING. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

WRITING_SEALED_INCOMING = BY_NAME["WRITING/SEALED/INCOMING"]
WRITING_ENDED_INCOMING = BY_NAME["WRITING/ENDED/INCOMING"]
WRITING_DUE_RETIRING = BY_NAME["WRITING/DUE/RETIRING"]
WRITING_GONE_RETIRING = BY_NAME["WRITING/GONE/RETIRING"]
WRITING_GONE_FREEING = BY_NAME["WRITING/GONE/FREEING"]
WRITING_LAPSE_RETIRING = BY_NAME["WRITING/LAPSE/RETIRING"]
WRITING_RETURN_RETIRING = BY_NAME["WRITING/RETURN/RETIRING"]


def writing_sealed_incoming__any(v: Any) -> After:
    """
    pre: allowed(WRITING_SEALED_INCOMING, v)
    pre: given(WRITING_SEALED_INCOMING, v)
    post: holds(WRITING_SEALED_INCOMING, v, __return__)
    """
    return step(WRITING_SEALED_INCOMING, v)


def writing_sealed_incoming__named(v: Named) -> After:
    """
    pre: allowed(WRITING_SEALED_INCOMING, v)
    pre: given(WRITING_SEALED_INCOMING, v)
    post: holds(WRITING_SEALED_INCOMING, v, __return__)
    """
    return step(WRITING_SEALED_INCOMING, v)


def writing_ended_incoming__any(v: Any) -> After:
    """
    pre: allowed(WRITING_ENDED_INCOMING, v)
    pre: given(WRITING_ENDED_INCOMING, v)
    post: holds(WRITING_ENDED_INCOMING, v, __return__)
    """
    return step(WRITING_ENDED_INCOMING, v)


def writing_ended_incoming__named(v: Named) -> After:
    """
    pre: allowed(WRITING_ENDED_INCOMING, v)
    pre: given(WRITING_ENDED_INCOMING, v)
    post: holds(WRITING_ENDED_INCOMING, v, __return__)
    """
    return step(WRITING_ENDED_INCOMING, v)


def writing_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(WRITING_DUE_RETIRING, v)
    pre: given(WRITING_DUE_RETIRING, v)
    post: holds(WRITING_DUE_RETIRING, v, __return__)
    """
    return step(WRITING_DUE_RETIRING, v)


def writing_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(WRITING_DUE_RETIRING, v)
    pre: given(WRITING_DUE_RETIRING, v)
    post: holds(WRITING_DUE_RETIRING, v, __return__)
    """
    return step(WRITING_DUE_RETIRING, v)


def writing_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(WRITING_GONE_RETIRING, v)
    pre: given(WRITING_GONE_RETIRING, v)
    post: holds(WRITING_GONE_RETIRING, v, __return__)
    """
    return step(WRITING_GONE_RETIRING, v)


def writing_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(WRITING_GONE_RETIRING, v)
    pre: given(WRITING_GONE_RETIRING, v)
    post: holds(WRITING_GONE_RETIRING, v, __return__)
    """
    return step(WRITING_GONE_RETIRING, v)


def writing_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(WRITING_GONE_FREEING, v)
    pre: given(WRITING_GONE_FREEING, v)
    post: holds(WRITING_GONE_FREEING, v, __return__)
    """
    return step(WRITING_GONE_FREEING, v)


def writing_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(WRITING_GONE_FREEING, v)
    pre: given(WRITING_GONE_FREEING, v)
    post: holds(WRITING_GONE_FREEING, v, __return__)
    """
    return step(WRITING_GONE_FREEING, v)


def writing_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(WRITING_LAPSE_RETIRING, v)
    pre: given(WRITING_LAPSE_RETIRING, v)
    post: holds(WRITING_LAPSE_RETIRING, v, __return__)
    """
    return step(WRITING_LAPSE_RETIRING, v)


def writing_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(WRITING_LAPSE_RETIRING, v)
    pre: given(WRITING_LAPSE_RETIRING, v)
    post: holds(WRITING_LAPSE_RETIRING, v, __return__)
    """
    return step(WRITING_LAPSE_RETIRING, v)


def writing_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(WRITING_RETURN_RETIRING, v)
    pre: given(WRITING_RETURN_RETIRING, v)
    post: holds(WRITING_RETURN_RETIRING, v, __return__)
    """
    return step(WRITING_RETURN_RETIRING, v)


def writing_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(WRITING_RETURN_RETIRING, v)
    pre: given(WRITING_RETURN_RETIRING, v)
    post: holds(WRITING_RETURN_RETIRING, v, __return__)
    """
    return step(WRITING_RETURN_RETIRING, v)


def canary_writing_sealed_incoming__sealed_without_hash(v: Any) -> After:
    """
    pre: allowed(CANARIES[0].row, v)
    pre: given(CANARIES[0].row, v)
    post: check("COPY-1", CANARIES[0].row, v, __return__)
    """
    return step(CANARIES[0].row, v)


def canary_writing_ended_incoming__ended_in_local(v: Any) -> After:
    """
    pre: allowed(CANARIES[1].row, v)
    pre: given(CANARIES[1].row, v)
    post: check("TABLE", CANARIES[1].row, v, __return__)
    """
    return step(CANARIES[1].row, v)


def canary_writing_due_retiring__without_no_pins_on_it(v: Any) -> After:
    """
    pre: allowed(CANARIES[2].row, v)
    pre: given(CANARIES[2].row, v)
    post: check("USE-1", CANARIES[2].row, v, __return__)
    """
    return step(CANARIES[2].row, v)
