"""Contracts of rows of MIGRATING_IN. Made by `python -m proofs.obligations --write`, not by hand."""
# ruff: noqa: F401  (the conditions in the docstrings are code: CrossHair reads them)

from __future__ import annotations

from .canaries import BY_NAME, CANARIES
from .given import given
from .properties import check, holds
from .view import After, Any, Named, allowed, step

MIGRATING_IN_COPY_DONE_INCOMING = BY_NAME["MIGRATING_IN/COPY_DONE/INCOMING"]
MIGRATING_IN_ENDED_INCOMING = BY_NAME["MIGRATING_IN/ENDED/INCOMING"]
MIGRATING_IN_COPY_DONE_REPLICA = BY_NAME["MIGRATING_IN/COPY_DONE/REPLICA"]
MIGRATING_IN_ENDED_REPLICA = BY_NAME["MIGRATING_IN/ENDED/REPLICA"]


def migrating_in_copy_done_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_COPY_DONE_INCOMING, v)
    pre: given(MIGRATING_IN_COPY_DONE_INCOMING, v)
    post: holds(MIGRATING_IN_COPY_DONE_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_COPY_DONE_INCOMING, v)


def migrating_in_copy_done_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_COPY_DONE_INCOMING, v)
    pre: given(MIGRATING_IN_COPY_DONE_INCOMING, v)
    post: holds(MIGRATING_IN_COPY_DONE_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_COPY_DONE_INCOMING, v)


def migrating_in_ended_incoming__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_ENDED_INCOMING, v)
    pre: given(MIGRATING_IN_ENDED_INCOMING, v)
    post: holds(MIGRATING_IN_ENDED_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_ENDED_INCOMING, v)


def migrating_in_ended_incoming__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_ENDED_INCOMING, v)
    pre: given(MIGRATING_IN_ENDED_INCOMING, v)
    post: holds(MIGRATING_IN_ENDED_INCOMING, v, __return__)
    """
    return step(MIGRATING_IN_ENDED_INCOMING, v)


def migrating_in_copy_done_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_COPY_DONE_REPLICA, v)
    pre: given(MIGRATING_IN_COPY_DONE_REPLICA, v)
    post: holds(MIGRATING_IN_COPY_DONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_COPY_DONE_REPLICA, v)


def migrating_in_copy_done_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_COPY_DONE_REPLICA, v)
    pre: given(MIGRATING_IN_COPY_DONE_REPLICA, v)
    post: holds(MIGRATING_IN_COPY_DONE_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_COPY_DONE_REPLICA, v)


def migrating_in_ended_replica__any(v: Any) -> After:
    """
    pre: allowed(MIGRATING_IN_ENDED_REPLICA, v)
    pre: given(MIGRATING_IN_ENDED_REPLICA, v)
    post: holds(MIGRATING_IN_ENDED_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_ENDED_REPLICA, v)


def migrating_in_ended_replica__named(v: Named) -> After:
    """
    pre: allowed(MIGRATING_IN_ENDED_REPLICA, v)
    pre: given(MIGRATING_IN_ENDED_REPLICA, v)
    post: holds(MIGRATING_IN_ENDED_REPLICA, v, __return__)
    """
    return step(MIGRATING_IN_ENDED_REPLICA, v)


def canary_migrating_in_ended_incoming__aborted_away_from_home(v: Any) -> After:
    """
    pre: allowed(CANARIES[29].row, v)
    pre: given(CANARIES[29].row, v)
    post: check("COPY-2", CANARIES[29].row, v, __return__)
    """
    return step(CANARIES[29].row, v)
