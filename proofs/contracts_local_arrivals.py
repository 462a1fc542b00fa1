"""Contracts of rows of LOCAL. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

LOCAL_COPY_DONE_REPLICA = BY_NAME["LOCAL/COPY_DONE/REPLICA"]
LOCAL_ENDED_REPLICA = BY_NAME["LOCAL/ENDED/REPLICA"]


def local_copy_done_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_COPY_DONE_REPLICA, v)
    pre: given(LOCAL_COPY_DONE_REPLICA, v)
    post: holds(LOCAL_COPY_DONE_REPLICA, v, __return__)
    """
    return step(LOCAL_COPY_DONE_REPLICA, v)


def local_copy_done_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_COPY_DONE_REPLICA, v)
    pre: given(LOCAL_COPY_DONE_REPLICA, v)
    post: holds(LOCAL_COPY_DONE_REPLICA, v, __return__)
    """
    return step(LOCAL_COPY_DONE_REPLICA, v)


def local_ended_replica__any(v: Any) -> After:
    """
    pre: allowed(LOCAL_ENDED_REPLICA, v)
    pre: given(LOCAL_ENDED_REPLICA, v)
    post: holds(LOCAL_ENDED_REPLICA, v, __return__)
    """
    return step(LOCAL_ENDED_REPLICA, v)


def local_ended_replica__named(v: Named) -> After:
    """
    pre: allowed(LOCAL_ENDED_REPLICA, v)
    pre: given(LOCAL_ENDED_REPLICA, v)
    post: holds(LOCAL_ENDED_REPLICA, v, __return__)
    """
    return step(LOCAL_ENDED_REPLICA, v)


def canary_local_copy_done_replica__two_authorities(v: Named) -> After:
    """
    pre: allowed(CANARIES[13].row, v)
    pre: given(CANARIES[13].row, v)
    post: check("COPY-2", CANARIES[13].row, v, __return__)
    """
    return step(CANARIES[13].row, v)
