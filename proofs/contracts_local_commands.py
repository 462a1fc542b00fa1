"""Contracts of rows of LOCAL. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

LOCAL_MOVE_INCOMING = BY_NAME["LOCAL/MOVE/INCOMING"]
LOCAL_PIN = BY_NAME["LOCAL/PIN"]
LOCAL_REF = BY_NAME["LOCAL/REF"]
LOCAL_LEAVE = BY_NAME["LOCAL/LEAVE"]
LOCAL_EVICT = BY_NAME["LOCAL/EVICT"]
LOCAL_ADOPT = BY_NAME["LOCAL/ADOPT"]
LOCAL_REPLICATE_INCOMING = BY_NAME["LOCAL/REPLICATE/INCOMING"]
LOCAL_DROP_REPLICA = BY_NAME["LOCAL/DROP_REPLICA"]
LOCAL_CREATE = BY_NAME["LOCAL/CREATE"]


def local_move_incoming__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_MOVE_INCOMING, v)
    pre: given(LOCAL_MOVE_INCOMING, v)
    post: holds(LOCAL_MOVE_INCOMING, v, __return__)
    """
    return step(LOCAL_MOVE_INCOMING, v)


def local_move_incoming__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_MOVE_INCOMING, v)
    pre: given(LOCAL_MOVE_INCOMING, v)
    post: holds(LOCAL_MOVE_INCOMING, v, __return__)
    """
    return step(LOCAL_MOVE_INCOMING, v)


def local_pin__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_PIN, v)
    pre: given(LOCAL_PIN, v)
    post: holds(LOCAL_PIN, v, __return__)
    """
    return step(LOCAL_PIN, v)


def local_pin__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_PIN, v)
    pre: given(LOCAL_PIN, v)
    post: holds(LOCAL_PIN, v, __return__)
    """
    return step(LOCAL_PIN, v)


def local_ref__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_REF, v)
    pre: given(LOCAL_REF, v)
    post: holds(LOCAL_REF, v, __return__)
    """
    return step(LOCAL_REF, v)


def local_ref__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_REF, v)
    pre: given(LOCAL_REF, v)
    post: holds(LOCAL_REF, v, __return__)
    """
    return step(LOCAL_REF, v)


def local_leave__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_LEAVE, v)
    pre: given(LOCAL_LEAVE, v)
    post: holds(LOCAL_LEAVE, v, __return__)
    """
    return step(LOCAL_LEAVE, v)


def local_leave__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_LEAVE, v)
    pre: given(LOCAL_LEAVE, v)
    post: holds(LOCAL_LEAVE, v, __return__)
    """
    return step(LOCAL_LEAVE, v)


def local_evict__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_EVICT, v)
    pre: given(LOCAL_EVICT, v)
    post: holds(LOCAL_EVICT, v, __return__)
    """
    return step(LOCAL_EVICT, v)


def local_evict__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_EVICT, v)
    pre: given(LOCAL_EVICT, v)
    post: holds(LOCAL_EVICT, v, __return__)
    """
    return step(LOCAL_EVICT, v)


def local_adopt__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_ADOPT, v)
    pre: given(LOCAL_ADOPT, v)
    post: holds(LOCAL_ADOPT, v, __return__)
    """
    return step(LOCAL_ADOPT, v)


def local_adopt__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_ADOPT, v)
    pre: given(LOCAL_ADOPT, v)
    post: holds(LOCAL_ADOPT, v, __return__)
    """
    return step(LOCAL_ADOPT, v)


def local_replicate_incoming__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_REPLICATE_INCOMING, v)
    pre: given(LOCAL_REPLICATE_INCOMING, v)
    post: holds(LOCAL_REPLICATE_INCOMING, v, __return__)
    """
    return step(LOCAL_REPLICATE_INCOMING, v)


def local_replicate_incoming__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_REPLICATE_INCOMING, v)
    pre: given(LOCAL_REPLICATE_INCOMING, v)
    post: holds(LOCAL_REPLICATE_INCOMING, v, __return__)
    """
    return step(LOCAL_REPLICATE_INCOMING, v)


def local_drop_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_DROP_REPLICA, v)
    pre: given(LOCAL_DROP_REPLICA, v)
    post: holds(LOCAL_DROP_REPLICA, v, __return__)
    """
    return step(LOCAL_DROP_REPLICA, v)


def local_drop_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_DROP_REPLICA, v)
    pre: given(LOCAL_DROP_REPLICA, v)
    post: holds(LOCAL_DROP_REPLICA, v, __return__)
    """
    return step(LOCAL_DROP_REPLICA, v)


def local_create__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_CREATE, v)
    pre: given(LOCAL_CREATE, v)
    post: holds(LOCAL_CREATE, v, __return__)
    """
    return step(LOCAL_CREATE, v)


def local_create__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_CREATE, v)
    pre: given(LOCAL_CREATE, v)
    post: holds(LOCAL_CREATE, v, __return__)
    """
    return step(LOCAL_CREATE, v)


def canary_local_move_incoming__moved_without_target(v: Any) -> After:
    """
    pre: allowed(CANARIES[3].row, v)
    pre: given(CANARIES[3].row, v)
    post: check("MOVE-1", CANARIES[3].row, v, __return__)
    """
    return step(CANARIES[3].row, v)


def canary_local_pin__without_copy_is_readable(v: Any) -> After:
    """
    pre: allowed(CANARIES[4].row, v)
    pre: given(CANARIES[4].row, v)
    post: check("USE-1", CANARIES[4].row, v, __return__)
    """
    return step(CANARIES[4].row, v)


def canary_local_evict__without_unreferenced(v: Named) -> After:
    """
    pre: allowed(CANARIES[5].row, v)
    pre: given(CANARIES[5].row, v)
    post: check("HOLD-1", CANARIES[5].row, v, __return__)
    """
    return step(CANARIES[5].row, v)


def canary_local_evict__frees_what_is_held(v: Any) -> After:
    """
    pre: allowed(CANARIES[6].row, v)
    pre: given(CANARIES[6].row, v)
    post: check("USE-1", CANARIES[6].row, v, __return__)
    """
    return step(CANARIES[6].row, v)


def canary_local_adopt__without_can_take_over(v: Any) -> After:
    """
    pre: allowed(CANARIES[7].row, v)
    pre: given(CANARIES[7].row, v)
    post: check("COPY-3", CANARIES[7].row, v, __return__)
    """
    return step(CANARIES[7].row, v)


def canary_local_drop_replica__without_is_replica(v: Named) -> After:
    """
    pre: allowed(CANARIES[8].row, v)
    pre: given(CANARIES[8].row, v)
    post: check("COPY-2", CANARIES[8].row, v, __return__)
    """
    return step(CANARIES[8].row, v)


def canary_local_drop_replica__without_not_last_readable(v: Named) -> After:
    """
    pre: allowed(CANARIES[9].row, v)
    pre: given(CANARIES[9].row, v)
    post: check("HOLD-1", CANARIES[9].row, v, __return__)
    """
    return step(CANARIES[9].row, v)


def canary_local_create__without_nothing_readable(v: Named) -> After:
    """
    pre: allowed(CANARIES[17].row, v)
    pre: given(CANARIES[17].row, v)
    post: check("HOLD-1", CANARIES[17].row, v, __return__)
    """
    return step(CANARIES[17].row, v)
