"""What the client believes about places (hints, never facts), and what it advises when nothing can be read.

A route is stamped with `(term, revision)`; an older one never replaces a newer one (monotonic reads). A wrong one costs a
bounded number of attempts (ROUTE-1) and never wrong bytes: a node that does not have the copy says so.
"""

from __future__ import annotations

from typing import Final

from . import answers as a
from . import commands as c
from .calls import Failed
from .client_state import CachedRoute, Degradation
from .client_wire import Turn
from .errors import Refusal
from .ids import NO_COPY, CopyId, GroupId, NodeName

# ---- the cache -----------------------------------------------------------------------------------------------


def remember(turn: Turn, route: a.Route, near: NodeName, term: int, revision: int) -> None:
    """Keep a route, unless a newer one is known; the least recently used one makes room."""
    routes = turn.state.routes
    known = routes.get(route.group)
    if known is not None and (known.term, known.revision) > (term, revision):
        return
    routes.pop(route.group, None)
    if len(routes) >= turn.config.routes_max:
        del routes[next(iter(routes))]
    routes[route.group] = CachedRoute(route, near, term, revision)


def recall(turn: Turn, group: GroupId) -> CachedRoute | None:
    """The cached route of a group; it is now the most recently used."""
    found = turn.state.routes.pop(group, None)
    if found is not None:
        turn.state.routes[group] = found
    return found


def forget(turn: Turn, group: GroupId, copy: CopyId = NO_COPY) -> None:
    """Drop the route (of this copy, if one is named)."""
    known = turn.state.routes.get(group)
    if known is not None and copy in (NO_COPY, known.route.copy):
        del turn.state.routes[group]


def learn(turn: Turn, body: c.Body, answer: a.ItemAnswer, term: int) -> None:
    """What the answer to a command says about places."""
    near: NodeName = getattr(body, "near", NodeName(""))
    if isinstance(answer, a.Pinned | a.Exists):
        remember(turn, answer.route, near, term, answer.revision)
    elif isinstance(answer, a.PrefixPinned):
        for route in answer.routes:
            remember(turn, route, near, term, answer.revision)
    elif isinstance(answer, a.MoveAccepted | a.EvictAccepted | a.Created):
        forget(turn, answer.group)
    elif isinstance(answer, a.ReplicaDropped):
        forget(turn, answer.group, answer.copy)


# ---- degradation ---------------------------------------------------------------------------------------------

UNREACHED: Final = frozenset({"Unreachable", "BreakerOpen", "DeadlineReached", "AttemptsUsed"})
"""The directory or the node could not be reached in time."""

UNREADABLE: Final = frozenset(
    {"Unreadable", "UnknownGroup", "NotSealed", "Leaving", "NodeNotReady", "StaleCopy", "Freeing", "NotVerified",
     "TierFailed", "Corrupt", "ManifestMismatch", "MoveInProgress"}
)  # fmt: skip
"""It was reached, and there is nothing to read now."""


def degrade(mode: Degradation, refusal: Refusal, definite: bool, reading: bool) -> Failed:
    """The failure that a caller is told, with the configured advice. `Degraded` says that nothing has happened, so it never
    takes the place of a failure whose outcome is not known."""
    if refusal.reason == "Recompute":
        return Failed(refusal, definite, "recompute")
    if refusal.reason not in UNREACHED and not (reading and refusal.reason in UNREADABLE):
        return Failed(refusal, definite)
    if mode is Degradation.RECOMPUTE:
        return Failed(refusal, definite, "recompute")
    if mode is Degradation.REFUSE:
        return Failed(_degraded("refuse", refusal) if definite else refusal, definite, "refuse")
    if mode is Degradation.LOCAL_ONLY:
        return Failed(_degraded("local only", refusal) if definite else refusal, definite)
    return Failed(refusal, definite)


def _degraded(mode: str, refusal: Refusal) -> Refusal:
    return Refusal("Degraded", f"{mode}: {refusal}", refusal.row, refusal.guard, refusal.holder, refusal.retry_after_ms)
