"""Contracts of rows of MIGRATING_OUT. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_OUT_GONE_AUTHORITATIVE = BY_NAME["MIGRATING_OUT/GONE/AUTHORITATIVE"]
MIGRATING_OUT_GONE_REPLICA = BY_NAME["MIGRATING_OUT/GONE/REPLICA"]
MIGRATING_OUT_LAPSE_REPLICA = BY_NAME["MIGRATING_OUT/LAPSE/REPLICA"]
MIGRATING_OUT_RETURN_REPLICA = BY_NAME["MIGRATING_OUT/RETURN/REPLICA"]
MIGRATING_OUT_LAPSE_AUTHORITATIVE = BY_NAME["MIGRATING_OUT/LAPSE/AUTHORITATIVE"]
MIGRATING_OUT_RETURN_AUTHORITATIVE = BY_NAME["MIGRATING_OUT/RETURN/AUTHORITATIVE"]
MIGRATING_OUT_DUE_RETIRING = BY_NAME["MIGRATING_OUT/DUE/RETIRING"]
MIGRATING_OUT_GONE_RETIRING = BY_NAME["MIGRATING_OUT/GONE/RETIRING"]
MIGRATING_OUT_GONE_FREEING = BY_NAME["MIGRATING_OUT/GONE/FREEING"]
MIGRATING_OUT_LAPSE_RETIRING = BY_NAME["MIGRATING_OUT/LAPSE/RETIRING"]
MIGRATING_OUT_RETURN_RETIRING = BY_NAME["MIGRATING_OUT/RETURN/RETIRING"]


def migrating_out_gone_authoritative__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_GONE_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_AUTHORITATIVE, v)


def migrating_out_gone_authoritative__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_GONE_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_AUTHORITATIVE, v)


def migrating_out_gone_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_REPLICA, v)
    pre: given(MIGRATING_OUT_GONE_REPLICA, v)
    post: holds(MIGRATING_OUT_GONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_REPLICA, v)


def migrating_out_gone_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_REPLICA, v)
    pre: given(MIGRATING_OUT_GONE_REPLICA, v)
    post: holds(MIGRATING_OUT_GONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_REPLICA, v)


def migrating_out_lapse_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_REPLICA, v)
    pre: given(MIGRATING_OUT_LAPSE_REPLICA, v)
    post: holds(MIGRATING_OUT_LAPSE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_REPLICA, v)


def migrating_out_lapse_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_REPLICA, v)
    pre: given(MIGRATING_OUT_LAPSE_REPLICA, v)
    post: holds(MIGRATING_OUT_LAPSE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_REPLICA, v)


def migrating_out_return_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_REPLICA, v)
    pre: given(MIGRATING_OUT_RETURN_REPLICA, v)
    post: holds(MIGRATING_OUT_RETURN_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_REPLICA, v)


def migrating_out_return_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_REPLICA, v)
    pre: given(MIGRATING_OUT_RETURN_REPLICA, v)
    post: holds(MIGRATING_OUT_RETURN_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_REPLICA, v)


def migrating_out_lapse_authoritative__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)


def migrating_out_lapse_authoritative__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_AUTHORITATIVE, v)


def migrating_out_return_authoritative__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_RETURN_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)


def migrating_out_return_authoritative__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)
    pre: given(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)
    post: holds(MIGRATING_OUT_RETURN_AUTHORITATIVE, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_AUTHORITATIVE, v)


def migrating_out_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_DUE_RETIRING, v)
    pre: given(MIGRATING_OUT_DUE_RETIRING, v)
    post: holds(MIGRATING_OUT_DUE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_DUE_RETIRING, v)


def migrating_out_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_DUE_RETIRING, v)
    pre: given(MIGRATING_OUT_DUE_RETIRING, v)
    post: holds(MIGRATING_OUT_DUE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_DUE_RETIRING, v)


def migrating_out_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_RETIRING, v)
    pre: given(MIGRATING_OUT_GONE_RETIRING, v)
    post: holds(MIGRATING_OUT_GONE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_RETIRING, v)


def migrating_out_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_RETIRING, v)
    pre: given(MIGRATING_OUT_GONE_RETIRING, v)
    post: holds(MIGRATING_OUT_GONE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_RETIRING, v)


def migrating_out_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_FREEING, v)
    pre: given(MIGRATING_OUT_GONE_FREEING, v)
    post: holds(MIGRATING_OUT_GONE_FREEING, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_FREEING, v)


def migrating_out_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_GONE_FREEING, v)
    pre: given(MIGRATING_OUT_GONE_FREEING, v)
    post: holds(MIGRATING_OUT_GONE_FREEING, v, __return__)
    """
    return step(MIGRATING_OUT_GONE_FREEING, v)


def migrating_out_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_RETIRING, v)
    pre: given(MIGRATING_OUT_LAPSE_RETIRING, v)
    post: holds(MIGRATING_OUT_LAPSE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_RETIRING, v)


def migrating_out_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_LAPSE_RETIRING, v)
    pre: given(MIGRATING_OUT_LAPSE_RETIRING, v)
    post: holds(MIGRATING_OUT_LAPSE_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_LAPSE_RETIRING, v)


def migrating_out_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_RETIRING, v)
    pre: given(MIGRATING_OUT_RETURN_RETIRING, v)
    post: holds(MIGRATING_OUT_RETURN_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_RETIRING, v)


def migrating_out_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_RETURN_RETIRING, v)
    pre: given(MIGRATING_OUT_RETURN_RETIRING, v)
    post: holds(MIGRATING_OUT_RETURN_RETIRING, v, __return__)
    """
    return step(MIGRATING_OUT_RETURN_RETIRING, v)


def canary_migrating_out_gone_authoritative__lost_with_its_source(v: Named) -> After:
    """
    pre: allowed(CANARIES[25].row, v)
    pre: given(CANARIES[25].row, v)
    post: check("MOVE-1", CANARIES[25].row, v, __return__)
    """
    return step(CANARIES[25].row, v)
