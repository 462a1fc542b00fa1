"""Contracts of rows of MIGRATING_IN. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_IN_PIN = BY_NAME["MIGRATING_IN/PIN"]
MIGRATING_IN_REF = BY_NAME["MIGRATING_IN/REF"]
MIGRATING_IN_LEAVE = BY_NAME["MIGRATING_IN/LEAVE"]
MIGRATING_IN_EVICT = BY_NAME["MIGRATING_IN/EVICT"]
MIGRATING_IN_REPLICATE_INCOMING = BY_NAME["MIGRATING_IN/REPLICATE/INCOMING"]
MIGRATING_IN_DROP_REPLICA = BY_NAME["MIGRATING_IN/DROP_REPLICA"]


def migrating_in_pin__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_PIN, v)
    pre: given(MIGRATING_IN_PIN, v)
    post: holds(MIGRATING_IN_PIN, v, __return__)
    """
    return step(MIGRATING_IN_PIN, v)


def migrating_in_pin__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_PIN, v)
    pre: given(MIGRATING_IN_PIN, v)
    post: holds(MIGRATING_IN_PIN, v, __return__)
    """
    return step(MIGRATING_IN_PIN, v)


def migrating_in_ref__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_REF, v)
    pre: given(MIGRATING_IN_REF, v)
    post: holds(MIGRATING_IN_REF, v, __return__)
    """
    return step(MIGRATING_IN_REF, v)


def migrating_in_ref__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_REF, v)
    pre: given(MIGRATING_IN_REF, v)
    post: holds(MIGRATING_IN_REF, v, __return__)
    """
    return step(MIGRATING_IN_REF, v)


def migrating_in_leave__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_LEAVE, v)
    pre: given(MIGRATING_IN_LEAVE, v)
    post: holds(MIGRATING_IN_LEAVE, v, __return__)
    """
    return step(MIGRATING_IN_LEAVE, v)


def migrating_in_leave__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_LEAVE, v)
    pre: given(MIGRATING_IN_LEAVE, v)
    post: holds(MIGRATING_IN_LEAVE, v, __return__)
    """
    return step(MIGRATING_IN_LEAVE, v)


def migrating_in_evict__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_EVICT, v)
    pre: given(MIGRATING_IN_EVICT, v)
    post: holds(MIGRATING_IN_EVICT, v, __return__)
    """
    return step(MIGRATING_IN_EVICT, v)


def migrating_in_evict__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_EVICT, v)
    pre: given(MIGRATING_IN_EVICT, v)
    post: holds(MIGRATING_IN_EVICT, v, __return__)
    """
    return step(MIGRATING_IN_EVICT, v)


def migrating_in_replicate_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_REPLICATE_INCOMING, v)
    pre: given(MIGRATING_IN_REPLICATE_INCOMING, v)
    post: holds(MIGRATING_IN_REPLICATE_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_REPLICATE_INCOMING, v)


def migrating_in_replicate_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_REPLICATE_INCOMING, v)
    pre: given(MIGRATING_IN_REPLICATE_INCOMING, v)
    post: holds(MIGRATING_IN_REPLICATE_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_REPLICATE_INCOMING, v)


def migrating_in_drop_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_DROP_REPLICA, v)
    pre: given(MIGRATING_IN_DROP_REPLICA, v)
    post: holds(MIGRATING_IN_DROP_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_DROP_REPLICA, v)


def migrating_in_drop_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_DROP_REPLICA, v)
    pre: given(MIGRATING_IN_DROP_REPLICA, v)
    post: holds(MIGRATING_IN_DROP_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_DROP_REPLICA, v)


def canary_migrating_in_drop_replica__dropped_at_once(v: Any) -> After:
    """
    pre: allowed(CANARIES[28].row, v)
    pre: given(CANARIES[28].row, v)
    post: check("USE-1", CANARIES[28].row, v, __return__)
    """
    return step(CANARIES[28].row, v)
