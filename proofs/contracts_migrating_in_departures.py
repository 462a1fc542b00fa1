"""Contracts of rows of MIGRATING_IN. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_IN_GONE_AUTHORITATIVE = BY_NAME["MIGRATING_IN/GONE/AUTHORITATIVE"]
MIGRATING_IN_GONE_REPLICA = BY_NAME["MIGRATING_IN/GONE/REPLICA"]
MIGRATING_IN_LAPSE_REPLICA = BY_NAME["MIGRATING_IN/LAPSE/REPLICA"]
MIGRATING_IN_RETURN_REPLICA = BY_NAME["MIGRATING_IN/RETURN/REPLICA"]
MIGRATING_IN_DUE_RETIRING = BY_NAME["MIGRATING_IN/DUE/RETIRING"]
MIGRATING_IN_GONE_RETIRING = BY_NAME["MIGRATING_IN/GONE/RETIRING"]
MIGRATING_IN_GONE_FREEING = BY_NAME["MIGRATING_IN/GONE/FREEING"]
MIGRATING_IN_LAPSE_RETIRING = BY_NAME["MIGRATING_IN/LAPSE/RETIRING"]
MIGRATING_IN_RETURN_RETIRING = BY_NAME["MIGRATING_IN/RETURN/RETIRING"]


def migrating_in_gone_authoritative__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_AUTHORITATIVE, v)
    pre: given(MIGRATING_IN_GONE_AUTHORITATIVE, v)
    post: holds(MIGRATING_IN_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_IN_GONE_AUTHORITATIVE, v)


def migrating_in_gone_authoritative__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_AUTHORITATIVE, v)
    pre: given(MIGRATING_IN_GONE_AUTHORITATIVE, v)
    post: holds(MIGRATING_IN_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_IN_GONE_AUTHORITATIVE, v)


def migrating_in_gone_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_REPLICA, v)
    pre: given(MIGRATING_IN_GONE_REPLICA, v)
    post: holds(MIGRATING_IN_GONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_GONE_REPLICA, v)


def migrating_in_gone_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_REPLICA, v)
    pre: given(MIGRATING_IN_GONE_REPLICA, v)
    post: holds(MIGRATING_IN_GONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_GONE_REPLICA, v)


def migrating_in_lapse_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_LAPSE_REPLICA, v)
    pre: given(MIGRATING_IN_LAPSE_REPLICA, v)
    post: holds(MIGRATING_IN_LAPSE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_LAPSE_REPLICA, v)


def migrating_in_lapse_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_LAPSE_REPLICA, v)
    pre: given(MIGRATING_IN_LAPSE_REPLICA, v)
    post: holds(MIGRATING_IN_LAPSE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_LAPSE_REPLICA, v)


def migrating_in_return_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_RETURN_REPLICA, v)
    pre: given(MIGRATING_IN_RETURN_REPLICA, v)
    post: holds(MIGRATING_IN_RETURN_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_RETURN_REPLICA, v)


def migrating_in_return_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_RETURN_REPLICA, v)
    pre: given(MIGRATING_IN_RETURN_REPLICA, v)
    post: holds(MIGRATING_IN_RETURN_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_RETURN_REPLICA, v)


def migrating_in_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_DUE_RETIRING, v)
    pre: given(MIGRATING_IN_DUE_RETIRING, v)
    post: holds(MIGRATING_IN_DUE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_DUE_RETIRING, v)


def migrating_in_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_DUE_RETIRING, v)
    pre: given(MIGRATING_IN_DUE_RETIRING, v)
    post: holds(MIGRATING_IN_DUE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_DUE_RETIRING, v)


def migrating_in_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_RETIRING, v)
    pre: given(MIGRATING_IN_GONE_RETIRING, v)
    post: holds(MIGRATING_IN_GONE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_GONE_RETIRING, v)


def migrating_in_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_RETIRING, v)
    pre: given(MIGRATING_IN_GONE_RETIRING, v)
    post: holds(MIGRATING_IN_GONE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_GONE_RETIRING, v)


def migrating_in_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_FREEING, v)
    pre: given(MIGRATING_IN_GONE_FREEING, v)
    post: holds(MIGRATING_IN_GONE_FREEING, v, __return__)
    """
    return step(MIGRATING_IN_GONE_FREEING, v)


def migrating_in_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_GONE_FREEING, v)
    pre: given(MIGRATING_IN_GONE_FREEING, v)
    post: holds(MIGRATING_IN_GONE_FREEING, v, __return__)
    """
    return step(MIGRATING_IN_GONE_FREEING, v)


def migrating_in_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_LAPSE_RETIRING, v)
    pre: given(MIGRATING_IN_LAPSE_RETIRING, v)
    post: holds(MIGRATING_IN_LAPSE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_LAPSE_RETIRING, v)


def migrating_in_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_LAPSE_RETIRING, v)
    pre: given(MIGRATING_IN_LAPSE_RETIRING, v)
    post: holds(MIGRATING_IN_LAPSE_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_LAPSE_RETIRING, v)


def migrating_in_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_RETURN_RETIRING, v)
    pre: given(MIGRATING_IN_RETURN_RETIRING, v)
    post: holds(MIGRATING_IN_RETURN_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_RETURN_RETIRING, v)


def migrating_in_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_RETURN_RETIRING, v)
    pre: given(MIGRATING_IN_RETURN_RETIRING, v)
    post: holds(MIGRATING_IN_RETURN_RETIRING, v, __return__)
    """
    return step(MIGRATING_IN_RETURN_RETIRING, v)


def canary_migrating_in_gone_authoritative__promotes_all(v: Any) -> After:
    """
    pre: allowed(CANARIES[30].row, v)
    pre: given(CANARIES[30].row, v)
    post: check("COPY-2", CANARIES[30].row, v, __return__)
    """
    return step(CANARIES[30].row, v)
