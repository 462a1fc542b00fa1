"""Contracts of rows of REMOTE. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

REMOTE_MOVE_INCOMING = BY_NAME["REMOTE/MOVE/INCOMING"]
REMOTE_PIN = BY_NAME["REMOTE/PIN"]
REMOTE_REF = BY_NAME["REMOTE/REF"]
REMOTE_LEAVE = BY_NAME["REMOTE/LEAVE"]
REMOTE_EVICT = BY_NAME["REMOTE/EVICT"]
REMOTE_ADOPT = BY_NAME["REMOTE/ADOPT"]
REMOTE_REPLICATE_INCOMING = BY_NAME["REMOTE/REPLICATE/INCOMING"]
REMOTE_DROP_REPLICA = BY_NAME["REMOTE/DROP_REPLICA"]


def remote_move_incoming__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_MOVE_INCOMING, v)
    pre: given(REMOTE_MOVE_INCOMING, v)
    post: holds(REMOTE_MOVE_INCOMING, v, __return__)
    """
    return step(REMOTE_MOVE_INCOMING, v)


def remote_move_incoming__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_MOVE_INCOMING, v)
    pre: given(REMOTE_MOVE_INCOMING, v)
    post: holds(REMOTE_MOVE_INCOMING, v, __return__)
    """
    return step(REMOTE_MOVE_INCOMING, v)


def remote_pin__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_PIN, v)
    pre: given(REMOTE_PIN, v)
    post: holds(REMOTE_PIN, v, __return__)
    """
    return step(REMOTE_PIN, v)


def remote_pin__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_PIN, v)
    pre: given(REMOTE_PIN, v)
    post: holds(REMOTE_PIN, v, __return__)
    """
    return step(REMOTE_PIN, v)


def remote_ref__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_REF, v)
    pre: given(REMOTE_REF, v)
    post: holds(REMOTE_REF, v, __return__)
    """
    return step(REMOTE_REF, v)


def remote_ref__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_REF, v)
    pre: given(REMOTE_REF, v)
    post: holds(REMOTE_REF, v, __return__)
    """
    return step(REMOTE_REF, v)


def remote_leave__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_LEAVE, v)
    pre: given(REMOTE_LEAVE, v)
    post: holds(REMOTE_LEAVE, v, __return__)
    """
    return step(REMOTE_LEAVE, v)


def remote_leave__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_LEAVE, v)
    pre: given(REMOTE_LEAVE, v)
    post: holds(REMOTE_LEAVE, v, __return__)
    """
    return step(REMOTE_LEAVE, v)


def remote_evict__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_EVICT, v)
    pre: given(REMOTE_EVICT, v)
    post: holds(REMOTE_EVICT, v, __return__)
    """
    return step(REMOTE_EVICT, v)


def remote_evict__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_EVICT, v)
    pre: given(REMOTE_EVICT, v)
    post: holds(REMOTE_EVICT, v, __return__)
    """
    return step(REMOTE_EVICT, v)


def remote_adopt__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_ADOPT, v)
    pre: given(REMOTE_ADOPT, v)
    post: holds(REMOTE_ADOPT, v, __return__)
    """
    return step(REMOTE_ADOPT, v)


def remote_adopt__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_ADOPT, v)
    pre: given(REMOTE_ADOPT, v)
    post: holds(REMOTE_ADOPT, v, __return__)
    """
    return step(REMOTE_ADOPT, v)


def remote_replicate_incoming__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_REPLICATE_INCOMING, v)
    pre: given(REMOTE_REPLICATE_INCOMING, v)
    post: holds(REMOTE_REPLICATE_INCOMING, v, __return__)
    """
    return step(REMOTE_REPLICATE_INCOMING, v)


def remote_replicate_incoming__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_REPLICATE_INCOMING, v)
    pre: given(REMOTE_REPLICATE_INCOMING, v)
    post: holds(REMOTE_REPLICATE_INCOMING, v, __return__)
    """
    return step(REMOTE_REPLICATE_INCOMING, v)


def remote_drop_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_DROP_REPLICA, v)
    pre: given(REMOTE_DROP_REPLICA, v)
    post: holds(REMOTE_DROP_REPLICA, v, __return__)
    """
    return step(REMOTE_DROP_REPLICA, v)


def remote_drop_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_DROP_REPLICA, v)
    pre: given(REMOTE_DROP_REPLICA, v)
    post: holds(REMOTE_DROP_REPLICA, v, __return__)
    """
    return step(REMOTE_DROP_REPLICA, v)


def canary_remote_adopt__nobody_else_changes(v: Named) -> After:
    """
    pre: allowed(CANARIES[18].row, v)
    pre: given(CANARIES[18].row, v)
    post: check("COPY-2", CANARIES[18].row, v, __return__)
    """
    return step(CANARIES[18].row, v)
