"""Contracts of rows of REMOTE. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

REMOTE_COPY_DONE_REPLICA = BY_NAME["REMOTE/COPY_DONE/REPLICA"]
REMOTE_ENDED_REPLICA = BY_NAME["REMOTE/ENDED/REPLICA"]


def remote_copy_done_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_COPY_DONE_REPLICA, v)
    pre: given(REMOTE_COPY_DONE_REPLICA, v)
    post: holds(REMOTE_COPY_DONE_REPLICA, v, __return__)
    """
    return step(REMOTE_COPY_DONE_REPLICA, v)


def remote_copy_done_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_COPY_DONE_REPLICA, v)
    pre: given(REMOTE_COPY_DONE_REPLICA, v)
    post: holds(REMOTE_COPY_DONE_REPLICA, v, __return__)
    """
    return step(REMOTE_COPY_DONE_REPLICA, v)


def remote_ended_replica__any(v: Any) -> After:
    """
    pre: allowed(REMOTE_ENDED_REPLICA, v)
    pre: given(REMOTE_ENDED_REPLICA, v)
    post: holds(REMOTE_ENDED_REPLICA, v, __return__)
    """
    return step(REMOTE_ENDED_REPLICA, v)


def remote_ended_replica__named(v: Named) -> After:
    """
    pre: allowed(REMOTE_ENDED_REPLICA, v)
    pre: given(REMOTE_ENDED_REPLICA, v)
    post: holds(REMOTE_ENDED_REPLICA, v, __return__)
    """
    return step(REMOTE_ENDED_REPLICA, v)


def canary_remote_ended_replica__lapse(v: Any) -> After:
    """
    pre: allowed(CANARIES[14].row, v)
    pre: given(CANARIES[14].row, v)
    post: check("MOVE-2", CANARIES[14].row, v, __return__)
    """
    return step(CANARIES[14].row, v)
