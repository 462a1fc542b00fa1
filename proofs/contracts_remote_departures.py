"""Contracts of rows of REMOTE. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

REMOTE_GONE_AUTHORITATIVE = BY_NAME["REMOTE/GONE/AUTHORITATIVE"]
REMOTE_GONE_REPLICA = BY_NAME["REMOTE/GONE/REPLICA"]
REMOTE_LAPSE_REPLICA = BY_NAME["REMOTE/LAPSE/REPLICA"]
REMOTE_RETURN_REPLICA = BY_NAME["REMOTE/RETURN/REPLICA"]
REMOTE_DUE_RETIRING = BY_NAME["REMOTE/DUE/RETIRING"]
REMOTE_GONE_RETIRING = BY_NAME["REMOTE/GONE/RETIRING"]
REMOTE_GONE_FREEING = BY_NAME["REMOTE/GONE/FREEING"]
REMOTE_LAPSE_RETIRING = BY_NAME["REMOTE/LAPSE/RETIRING"]
REMOTE_RETURN_RETIRING = BY_NAME["REMOTE/RETURN/RETIRING"]


def remote_gone_authoritative__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_GONE_AUTHORITATIVE, v)
    pre: given(REMOTE_GONE_AUTHORITATIVE, v)
    post: holds(REMOTE_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(REMOTE_GONE_AUTHORITATIVE, v)


def remote_gone_authoritative__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_GONE_AUTHORITATIVE, v)
    pre: given(REMOTE_GONE_AUTHORITATIVE, v)
    post: holds(REMOTE_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(REMOTE_GONE_AUTHORITATIVE, v)


def remote_gone_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_GONE_REPLICA, v)
    pre: given(REMOTE_GONE_REPLICA, v)
    post: holds(REMOTE_GONE_REPLICA, v, __return__)
    """
    return step(REMOTE_GONE_REPLICA, v)


def remote_gone_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_GONE_REPLICA, v)
    pre: given(REMOTE_GONE_REPLICA, v)
    post: holds(REMOTE_GONE_REPLICA, v, __return__)
    """
    return step(REMOTE_GONE_REPLICA, v)


def remote_lapse_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_LAPSE_REPLICA, v)
    pre: given(REMOTE_LAPSE_REPLICA, v)
    post: holds(REMOTE_LAPSE_REPLICA, v, __return__)
    """
    return step(REMOTE_LAPSE_REPLICA, v)


def remote_lapse_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_LAPSE_REPLICA, v)
    pre: given(REMOTE_LAPSE_REPLICA, v)
    post: holds(REMOTE_LAPSE_REPLICA, v, __return__)
    """
    return step(REMOTE_LAPSE_REPLICA, v)


def remote_return_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_RETURN_REPLICA, v)
    pre: given(REMOTE_RETURN_REPLICA, v)
    post: holds(REMOTE_RETURN_REPLICA, v, __return__)
    """
    return step(REMOTE_RETURN_REPLICA, v)


def remote_return_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_RETURN_REPLICA, v)
    pre: given(REMOTE_RETURN_REPLICA, v)
    post: holds(REMOTE_RETURN_REPLICA, v, __return__)
    """
    return step(REMOTE_RETURN_REPLICA, v)


def remote_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_DUE_RETIRING, v)
    pre: given(REMOTE_DUE_RETIRING, v)
    post: holds(REMOTE_DUE_RETIRING, v, __return__)
    """
    return step(REMOTE_DUE_RETIRING, v)


def remote_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_DUE_RETIRING, v)
    pre: given(REMOTE_DUE_RETIRING, v)
    post: holds(REMOTE_DUE_RETIRING, v, __return__)
    """
    return step(REMOTE_DUE_RETIRING, v)


def remote_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_GONE_RETIRING, v)
    pre: given(REMOTE_GONE_RETIRING, v)
    post: holds(REMOTE_GONE_RETIRING, v, __return__)
    """
    return step(REMOTE_GONE_RETIRING, v)


def remote_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_GONE_RETIRING, v)
    pre: given(REMOTE_GONE_RETIRING, v)
    post: holds(REMOTE_GONE_RETIRING, v, __return__)
    """
    return step(REMOTE_GONE_RETIRING, v)


def remote_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_GONE_FREEING, v)
    pre: given(REMOTE_GONE_FREEING, v)
    post: holds(REMOTE_GONE_FREEING, v, __return__)
    """
    return step(REMOTE_GONE_FREEING, v)


def remote_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_GONE_FREEING, v)
    pre: given(REMOTE_GONE_FREEING, v)
    post: holds(REMOTE_GONE_FREEING, v, __return__)
    """
    return step(REMOTE_GONE_FREEING, v)


def remote_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_LAPSE_RETIRING, v)
    pre: given(REMOTE_LAPSE_RETIRING, v)
    post: holds(REMOTE_LAPSE_RETIRING, v, __return__)
    """
    return step(REMOTE_LAPSE_RETIRING, v)


def remote_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_LAPSE_RETIRING, v)
    pre: given(REMOTE_LAPSE_RETIRING, v)
    post: holds(REMOTE_LAPSE_RETIRING, v, __return__)
    """
    return step(REMOTE_LAPSE_RETIRING, v)


def remote_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_RETURN_RETIRING, v)
    pre: given(REMOTE_RETURN_RETIRING, v)
    post: holds(REMOTE_RETURN_RETIRING, v, __return__)
    """
    return step(REMOTE_RETURN_RETIRING, v)


def remote_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_RETURN_RETIRING, v)
    pre: given(REMOTE_RETURN_RETIRING, v)
    post: holds(REMOTE_RETURN_RETIRING, v, __return__)
    """
    return step(REMOTE_RETURN_RETIRING, v)


def canary_remote_due_retiring__freed_while_absent(v: Any) -> After:
    """
    pre: allowed(CANARIES[19].row, v)
    pre: given(CANARIES[19].row, v)
    post: check("MOVE-2", CANARIES[19].row, v, __return__)
    """
    return step(CANARIES[19].row, v)
