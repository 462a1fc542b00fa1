"""Contracts of rows of MIGRATING_OUT. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_OUT_PIN = BY_NAME["MIGRATING_OUT/PIN"]
MIGRATING_OUT_REF = BY_NAME["MIGRATING_OUT/REF"]
MIGRATING_OUT_LEAVE = BY_NAME["MIGRATING_OUT/LEAVE"]
MIGRATING_OUT_EVICT = BY_NAME["MIGRATING_OUT/EVICT"]
MIGRATING_OUT_REPLICATE_INCOMING = BY_NAME["MIGRATING_OUT/REPLICATE/INCOMING"]
MIGRATING_OUT_DROP_REPLICA = BY_NAME["MIGRATING_OUT/DROP_REPLICA"]
MIGRATING_OUT_CREATE = BY_NAME["MIGRATING_OUT/CREATE"]


def migrating_out_pin__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_PIN, v)
    pre: given(MIGRATING_OUT_PIN, v)
    post: holds(MIGRATING_OUT_PIN, v, __return__)
    """
    return step(MIGRATING_OUT_PIN, v)


def migrating_out_pin__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_PIN, v)
    pre: given(MIGRATING_OUT_PIN, v)
    post: holds(MIGRATING_OUT_PIN, v, __return__)
    """
    return step(MIGRATING_OUT_PIN, v)


def migrating_out_ref__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_REF, v)
    pre: given(MIGRATING_OUT_REF, v)
    post: holds(MIGRATING_OUT_REF, v, __return__)
    """
    return step(MIGRATING_OUT_REF, v)


def migrating_out_ref__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_REF, v)
    pre: given(MIGRATING_OUT_REF, v)
    post: holds(MIGRATING_OUT_REF, v, __return__)
    """
    return step(MIGRATING_OUT_REF, v)


def migrating_out_leave__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_LEAVE, v)
    pre: given(MIGRATING_OUT_LEAVE, v)
    post: holds(MIGRATING_OUT_LEAVE, v, __return__)
    """
    return step(MIGRATING_OUT_LEAVE, v)


def migrating_out_leave__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_LEAVE, v)
    pre: given(MIGRATING_OUT_LEAVE, v)
    post: holds(MIGRATING_OUT_LEAVE, v, __return__)
    """
    return step(MIGRATING_OUT_LEAVE, v)


def migrating_out_evict__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_EVICT, v)
    pre: given(MIGRATING_OUT_EVICT, v)
    post: holds(MIGRATING_OUT_EVICT, v, __return__)
    """
    return step(MIGRATING_OUT_EVICT, v)


def migrating_out_evict__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_EVICT, v)
    pre: given(MIGRATING_OUT_EVICT, v)
    post: holds(MIGRATING_OUT_EVICT, v, __return__)
    """
    return step(MIGRATING_OUT_EVICT, v)


def migrating_out_replicate_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_REPLICATE_INCOMING, v)
    pre: given(MIGRATING_OUT_REPLICATE_INCOMING, v)
    post: holds(MIGRATING_OUT_REPLICATE_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_REPLICATE_INCOMING, v)


def migrating_out_replicate_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_REPLICATE_INCOMING, v)
    pre: given(MIGRATING_OUT_REPLICATE_INCOMING, v)
    post: holds(MIGRATING_OUT_REPLICATE_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_REPLICATE_INCOMING, v)


def migrating_out_drop_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_DROP_REPLICA, v)
    pre: given(MIGRATING_OUT_DROP_REPLICA, v)
    post: holds(MIGRATING_OUT_DROP_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_DROP_REPLICA, v)


def migrating_out_drop_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_DROP_REPLICA, v)
    pre: given(MIGRATING_OUT_DROP_REPLICA, v)
    post: holds(MIGRATING_OUT_DROP_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_DROP_REPLICA, v)


def migrating_out_create__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_CREATE, v)
    pre: given(MIGRATING_OUT_CREATE, v)
    post: holds(MIGRATING_OUT_CREATE, v, __return__)
    """
    return step(MIGRATING_OUT_CREATE, v)


def migrating_out_create__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_CREATE, v)
    pre: given(MIGRATING_OUT_CREATE, v)
    post: holds(MIGRATING_OUT_CREATE, v, __return__)
    """
    return step(MIGRATING_OUT_CREATE, v)


def canary_migrating_out_drop_replica__dropped_at_once(v: Any) -> After:
    """
    pre: allowed(CANARIES[20].row, v)
    pre: given(CANARIES[20].row, v)
    post: check("USE-1", CANARIES[20].row, v, __return__)
    """
    return step(CANARIES[20].row, v)


def canary_migrating_out_evict__drops_what_is_there(v: Any) -> After:
    """
    pre: allowed(CANARIES[21].row, v)
    pre: given(CANARIES[21].row, v)
    post: check("CAP-1", CANARIES[21].row, v, __return__)
    """
    return step(CANARIES[21].row, v)


def canary_migrating_out_create__created_in_place(v: Any) -> After:
    """
    pre: allowed(CANARIES[26].row, v)
    pre: given(CANARIES[26].row, v)
    post: check("BYTES-1", CANARIES[26].row, v, __return__)
    """
    return step(CANARIES[26].row, v)


def canary_migrating_out_create__nobody_else_changes(v: Any) -> After:
    """
    pre: allowed(CANARIES[27].row, v)
    pre: given(CANARIES[27].row, v)
    post: check("BYTES-1", CANARIES[27].row, v, __return__)
    """
    return step(CANARIES[27].row, v)
