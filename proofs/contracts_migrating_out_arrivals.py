"""Contracts of rows of MIGRATING_OUT. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_OUT_COPY_DONE_INCOMING = BY_NAME["MIGRATING_OUT/COPY_DONE/INCOMING"]
MIGRATING_OUT_ENDED_INCOMING = BY_NAME["MIGRATING_OUT/ENDED/INCOMING"]
MIGRATING_OUT_COPY_DONE_REPLICA = BY_NAME["MIGRATING_OUT/COPY_DONE/REPLICA"]
MIGRATING_OUT_ENDED_REPLICA = BY_NAME["MIGRATING_OUT/ENDED/REPLICA"]


def migrating_out_copy_done_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_COPY_DONE_INCOMING, v)
    pre: given(MIGRATING_OUT_COPY_DONE_INCOMING, v)
    post: holds(MIGRATING_OUT_COPY_DONE_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_COPY_DONE_INCOMING, v)


def migrating_out_copy_done_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_COPY_DONE_INCOMING, v)
    pre: given(MIGRATING_OUT_COPY_DONE_INCOMING, v)
    post: holds(MIGRATING_OUT_COPY_DONE_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_COPY_DONE_INCOMING, v)


def migrating_out_ended_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_ENDED_INCOMING, v)
    pre: given(MIGRATING_OUT_ENDED_INCOMING, v)
    post: holds(MIGRATING_OUT_ENDED_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_ENDED_INCOMING, v)


def migrating_out_ended_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_ENDED_INCOMING, v)
    pre: given(MIGRATING_OUT_ENDED_INCOMING, v)
    post: holds(MIGRATING_OUT_ENDED_INCOMING, v, __return__)
    """
    return step(MIGRATING_OUT_ENDED_INCOMING, v)


def migrating_out_copy_done_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_COPY_DONE_REPLICA, v)
    pre: given(MIGRATING_OUT_COPY_DONE_REPLICA, v)
    post: holds(MIGRATING_OUT_COPY_DONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_COPY_DONE_REPLICA, v)


def migrating_out_copy_done_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_COPY_DONE_REPLICA, v)
    pre: given(MIGRATING_OUT_COPY_DONE_REPLICA, v)
    post: holds(MIGRATING_OUT_COPY_DONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_COPY_DONE_REPLICA, v)


def migrating_out_ended_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_OUT_ENDED_REPLICA, v)
    pre: given(MIGRATING_OUT_ENDED_REPLICA, v)
    post: holds(MIGRATING_OUT_ENDED_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_ENDED_REPLICA, v)


def migrating_out_ended_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_OUT_ENDED_REPLICA, v)
    pre: given(MIGRATING_OUT_ENDED_REPLICA, v)
    post: holds(MIGRATING_OUT_ENDED_REPLICA, v, __return__)
    """
    return step(MIGRATING_OUT_ENDED_REPLICA, v)


def canary_migrating_out_copy_done_incoming__committed_in_old_epoch(v: Any) -> After:
    """
    pre: allowed(CANARIES[22].row, v)
    pre: given(CANARIES[22].row, v)
    post: check("OWN-1", CANARIES[22].row, v, __return__)
    """
    return step(CANARIES[22].row, v)


def canary_migrating_out_copy_done_incoming__nobody_else_changes(v: Named) -> After:
    """
    pre: allowed(CANARIES[23].row, v)
    pre: given(CANARIES[23].row, v)
    post: check("COPY-2", CANARIES[23].row, v, __return__)
    """
    return step(CANARIES[23].row, v)


def canary_migrating_out_ended_incoming__aborted_in_silence(v: Named) -> After:
    """
    pre: allowed(CANARIES[24].row, v)
    pre: given(CANARIES[24].row, v)
    post: check("COPY-2", CANARIES[24].row, v, __return__)
    """
    return step(CANARIES[24].row, v)
