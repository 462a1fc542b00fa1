"""Contracts of rows of LOCAL. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

LOCAL_GONE_AUTHORITATIVE = BY_NAME["LOCAL/GONE/AUTHORITATIVE"]
LOCAL_GONE_REPLICA = BY_NAME["LOCAL/GONE/REPLICA"]
LOCAL_LAPSE_REPLICA = BY_NAME["LOCAL/LAPSE/REPLICA"]
LOCAL_RETURN_REPLICA = BY_NAME["LOCAL/RETURN/REPLICA"]
LOCAL_LAPSE_AUTHORITATIVE = BY_NAME["LOCAL/LAPSE/AUTHORITATIVE"]
LOCAL_RETURN_AUTHORITATIVE = BY_NAME["LOCAL/RETURN/AUTHORITATIVE"]
LOCAL_DUE_RETIRING = BY_NAME["LOCAL/DUE/RETIRING"]
LOCAL_GONE_RETIRING = BY_NAME["LOCAL/GONE/RETIRING"]
LOCAL_GONE_FREEING = BY_NAME["LOCAL/GONE/FREEING"]
LOCAL_LAPSE_RETIRING = BY_NAME["LOCAL/LAPSE/RETIRING"]
LOCAL_RETURN_RETIRING = BY_NAME["LOCAL/RETURN/RETIRING"]


def local_gone_authoritative__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_GONE_AUTHORITATIVE, v)
    pre: given(LOCAL_GONE_AUTHORITATIVE, v)
    post: holds(LOCAL_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_GONE_AUTHORITATIVE, v)


def local_gone_authoritative__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_GONE_AUTHORITATIVE, v)
    pre: given(LOCAL_GONE_AUTHORITATIVE, v)
    post: holds(LOCAL_GONE_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_GONE_AUTHORITATIVE, v)


def local_gone_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_GONE_REPLICA, v)
    pre: given(LOCAL_GONE_REPLICA, v)
    post: holds(LOCAL_GONE_REPLICA, v, __return__)
    """
    return step(LOCAL_GONE_REPLICA, v)


def local_gone_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_GONE_REPLICA, v)
    pre: given(LOCAL_GONE_REPLICA, v)
    post: holds(LOCAL_GONE_REPLICA, v, __return__)
    """
    return step(LOCAL_GONE_REPLICA, v)


def local_lapse_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_LAPSE_REPLICA, v)
    pre: given(LOCAL_LAPSE_REPLICA, v)
    post: holds(LOCAL_LAPSE_REPLICA, v, __return__)
    """
    return step(LOCAL_LAPSE_REPLICA, v)


def local_lapse_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_LAPSE_REPLICA, v)
    pre: given(LOCAL_LAPSE_REPLICA, v)
    post: holds(LOCAL_LAPSE_REPLICA, v, __return__)
    """
    return step(LOCAL_LAPSE_REPLICA, v)


def local_return_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_RETURN_REPLICA, v)
    pre: given(LOCAL_RETURN_REPLICA, v)
    post: holds(LOCAL_RETURN_REPLICA, v, __return__)
    """
    return step(LOCAL_RETURN_REPLICA, v)


def local_return_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_RETURN_REPLICA, v)
    pre: given(LOCAL_RETURN_REPLICA, v)
    post: holds(LOCAL_RETURN_REPLICA, v, __return__)
    """
    return step(LOCAL_RETURN_REPLICA, v)


def local_lapse_authoritative__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_LAPSE_AUTHORITATIVE, v)
    pre: given(LOCAL_LAPSE_AUTHORITATIVE, v)
    post: holds(LOCAL_LAPSE_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_LAPSE_AUTHORITATIVE, v)


def local_lapse_authoritative__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_LAPSE_AUTHORITATIVE, v)
    pre: given(LOCAL_LAPSE_AUTHORITATIVE, v)
    post: holds(LOCAL_LAPSE_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_LAPSE_AUTHORITATIVE, v)


def local_return_authoritative__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_RETURN_AUTHORITATIVE, v)
    pre: given(LOCAL_RETURN_AUTHORITATIVE, v)
    post: holds(LOCAL_RETURN_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_RETURN_AUTHORITATIVE, v)


def local_return_authoritative__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_RETURN_AUTHORITATIVE, v)
    pre: given(LOCAL_RETURN_AUTHORITATIVE, v)
    post: holds(LOCAL_RETURN_AUTHORITATIVE, v, __return__)
    """
    return step(LOCAL_RETURN_AUTHORITATIVE, v)


def local_due_retiring__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_DUE_RETIRING, v)
    pre: given(LOCAL_DUE_RETIRING, v)
    post: holds(LOCAL_DUE_RETIRING, v, __return__)
    """
    return step(LOCAL_DUE_RETIRING, v)


def local_due_retiring__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_DUE_RETIRING, v)
    pre: given(LOCAL_DUE_RETIRING, v)
    post: holds(LOCAL_DUE_RETIRING, v, __return__)
    """
    return step(LOCAL_DUE_RETIRING, v)


def local_gone_retiring__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_GONE_RETIRING, v)
    pre: given(LOCAL_GONE_RETIRING, v)
    post: holds(LOCAL_GONE_RETIRING, v, __return__)
    """
    return step(LOCAL_GONE_RETIRING, v)


def local_gone_retiring__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_GONE_RETIRING, v)
    pre: given(LOCAL_GONE_RETIRING, v)
    post: holds(LOCAL_GONE_RETIRING, v, __return__)
    """
    return step(LOCAL_GONE_RETIRING, v)


def local_gone_freeing__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_GONE_FREEING, v)
    pre: given(LOCAL_GONE_FREEING, v)
    post: holds(LOCAL_GONE_FREEING, v, __return__)
    """
    return step(LOCAL_GONE_FREEING, v)


def local_gone_freeing__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_GONE_FREEING, v)
    pre: given(LOCAL_GONE_FREEING, v)
    post: holds(LOCAL_GONE_FREEING, v, __return__)
    """
    return step(LOCAL_GONE_FREEING, v)


def local_lapse_retiring__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_LAPSE_RETIRING, v)
    pre: given(LOCAL_LAPSE_RETIRING, v)
    post: holds(LOCAL_LAPSE_RETIRING, v, __return__)
    """
    return step(LOCAL_LAPSE_RETIRING, v)


def local_lapse_retiring__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_LAPSE_RETIRING, v)
    pre: given(LOCAL_LAPSE_RETIRING, v)
    post: holds(LOCAL_LAPSE_RETIRING, v, __return__)
    """
    return step(LOCAL_LAPSE_RETIRING, v)


def local_return_retiring__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_RETURN_RETIRING, v)
    pre: given(LOCAL_RETURN_RETIRING, v)
    post: holds(LOCAL_RETURN_RETIRING, v, __return__)
    """
    return step(LOCAL_RETURN_RETIRING, v)


def local_return_retiring__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_RETURN_RETIRING, v)
    pre: given(LOCAL_RETURN_RETIRING, v)
    post: holds(LOCAL_RETURN_RETIRING, v, __return__)
    """
    return step(LOCAL_RETURN_RETIRING, v)


def canary_local_gone_authoritative__nobody_else_changes(v: Named) -> After:
    """
    pre: allowed(CANARIES[10].row, v)
    pre: given(CANARIES[10].row, v)
    post: check("COPY-2", CANARIES[10].row, v, __return__)
    """
    return step(CANARIES[10].row, v)


def canary_local_due_retiring__without_not_the_last(v: Any) -> After:
    """
    pre: allowed(CANARIES[11].row, v)
    pre: given(CANARIES[11].row, v)
    post: check("MOVE-2", CANARIES[11].row, v, __return__)
    """
    return step(CANARIES[11].row, v)


def canary_local_gone_authoritative__lost_and_still_leaving(v: Any) -> After:
    """
    pre: allowed(CANARIES[12].row, v)
    pre: given(CANARIES[12].row, v)
    post: check("HOLD-1", CANARIES[12].row, v, __return__)
    """
    return step(CANARIES[12].row, v)


def canary_local_return_authoritative__back_in_old_epoch(v: Any) -> After:
    """
    pre: allowed(CANARIES[15].row, v)
    pre: given(CANARIES[15].row, v)
    post: check("OWN-1", CANARIES[15].row, v, __return__)
    """
    return step(CANARIES[15].row, v)


def canary_local_return_replica__back_and_smaller(v: Any) -> After:
    """
    pre: allowed(CANARIES[16].row, v)
    pre: given(CANARIES[16].row, v)
    post: check("CAP-1", CANARIES[16].row, v, __return__)
    """
    return step(CANARIES[16].row, v)
