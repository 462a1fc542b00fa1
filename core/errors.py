"""Every way of saying no.

    PinfoldError
    |-- RefusalError   the caller's: a guard said no; nothing changed           carries a `Refusal`
    |-- PeerError      a broken or foreign message; the sender's fault
    |-- WorldError     disk full, device lost, store damaged, peer unreachable
    `-- InvariantViolation   ours. Never caught: it carries the group's story.

A `Refusal` is the value that travels: machines never raise one, they answer it. `REFUSALS` is the closed list of
reasons, with what the caller may do next and the command line's exit code for it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from attrs import define


class Retry(IntEnum):
    """What may be sent again after a refusal."""

    NEVER = 0
    SAME_ID = 1
    AFTER = 2


@define(frozen=True)
class ReasonInfo:
    """One reason's contract: did it surely not happen, what may be retried, exit code, and the sentence for people."""

    definite: bool
    retry: Retry
    exit_code: int
    meaning: str


_N, _S, _A = Retry.NEVER, Retry.SAME_ID, Retry.AFTER

REFUSALS: Final[dict[str, ReasonInfo]] = {
    # at the door: the number is not used up
    "Early": ReasonInfo(True, _S, 1, "an earlier number of this session has not been applied yet"),
    "WindowFull": ReasonInfo(True, _S, 1, "too many unanswered numbers in this session"),
    "Overloaded": ReasonInfo(True, _S, 1, "the machine is at a named limit; repeat the same number later"),
    "SessionEnded": ReasonInfo(False, _N, 5, "the session is closed or has expired; its holds are gone"),
    "SequenceConflict": ReasonInfo(True, _N, 5, "this number was already used for another command"),
    "TooLarge": ReasonInfo(True, _N, 2, "the request is larger than a named limit"),
    "WrongShard": ReasonInfo(True, _N, 5, "this shard does not keep that group"),
    "BadRequest": ReasonInfo(True, _N, 2, "the request contradicts itself"),
    # holds
    "AlreadyDone": ReasonInfo(True, _N, 1, "this hold has already ended"),
    "UnknownHold": ReasonInfo(True, _N, 6, "there never was such a hold"),
    "HoldLost": ReasonInfo(True, _N, 1, "the hold had ended because the bytes were lost"),
    "Leaving": ReasonInfo(True, _A, 1, "an eviction is waiting for the last holds; no new ones"),
    "Pinned": ReasonInfo(True, _A, 1, "a copy is pinned"),
    "Referenced": ReasonInfo(True, _A, 1, "the group is referenced"),
    "LastReadable": ReasonInfo(True, _N, 1, "this is the last readable copy of a referenced group"),
    "TooManyHolds": ReasonInfo(True, _A, 1, "the session holds as much as the named limit allows"),
    # groups and copies
    "UnknownGroup": ReasonInfo(True, _N, 6, "no such group"),
    "NotSealed": ReasonInfo(True, _A, 1, "the group is still being written"),
    "Unreadable": ReasonInfo(True, _A, 6, "no copy of the group can be read now"),
    "StaleCopy": ReasonInfo(True, _A, 5, "that copy no longer counts; ask for the group again"),
    "StaleEpoch": ReasonInfo(True, _N, 5, "the group has changed since the epoch that was named"),
    "StaleReport": ReasonInfo(True, _N, 5, "the report is about a copy or a decision that has passed"),
    "StaleMove": ReasonInfo(True, _N, 5, "that move is over"),
    "MoveInProgress": ReasonInfo(True, _A, 1, "the group is moving"),
    "MoveTooSoon": ReasonInfo(True, _A, 1, "moves of one group are spaced by a growing back-off"),
    "AlreadyThere": ReasonInfo(True, _N, 6, "the target has a copy already"),
    "AlreadyEvicting": ReasonInfo(True, _N, 6, "the group is being evicted"),
    "Recompute": ReasonInfo(True, _N, 1, "the group is moving and the caller prefers to recompute"),
    "LayoutMismatch": ReasonInfo(True, _N, 2, "the same group id was named with another key or layout"),
    "ManifestMismatch": ReasonInfo(True, _N, 1, "the bytes are not those of the manifest"),
    # places
    "NoSpace": ReasonInfo(True, _A, 1, "no room now; eviction has been started"),
    "UnknownNode": ReasonInfo(True, _N, 6, "no such node or store is registered"),
    "NodeNotReady": ReasonInfo(True, _A, 1, "the node has lapsed, is draining or has not told its inventory yet"),
    "Fenced": ReasonInfo(True, _N, 5, "a later registration, term or number has replaced the sender"),
    "StoreRegressed": ReasonInfo(True, _N, 5, "a node has a copy newer than the directory's store; the store is an old one"),
    # nodes
    "Incomplete": ReasonInfo(True, _N, 1, "not all blocks have been written"),
    "NotVerified": ReasonInfo(True, _A, 1, "the copy is not verified yet"),
    "Freeing": ReasonInfo(True, _A, 5, "the copy is being freed; no new guards"),
    "UnknownGuard": ReasonInfo(True, _N, 6, "no such guard"),
    "TierFailed": ReasonInfo(False, _A, 1, "the tier failed"),
    "Corrupt": ReasonInfo(True, _N, 1, "the bytes do not match their checksums"),
    # clients
    "DeadlineReached": ReasonInfo(False, _N, 3, "the deadline came before the answer; the outcome may be unknown"),
    "Unreachable": ReasonInfo(True, _A, 4, "no answer came from the peer and nothing was sent that could have an effect"),
    "BreakerOpen": ReasonInfo(True, _A, 4, "the peer failed repeatedly; calls to it are held back"),
    "RateLimited": ReasonInfo(True, _A, 1, "the client's own rate limit"),
    "AttemptsUsed": ReasonInfo(True, _A, 5, "the named number of attempts is used up"),
    "Degraded": ReasonInfo(True, _N, 1, "the configured degradation says no"),
    "Cancelled": ReasonInfo(True, _N, 1, "the caller cancelled it and it surely did not happen"),
}

FOREIGN: Final = ReasonInfo(False, _N, 1, "a reason that this version does not know")


@define
class Refusal:
    """One no. `guard` names the check, `row` the table row (`STATE/event`), `holder` who stands in the way."""

    reason: str
    detail: str = ""
    row: str = ""
    guard: str = ""
    holder: str = ""
    retry_after_ms: int = 0

    @property
    def info(self) -> ReasonInfo:
        """The reason's contract. A word from a peer that is not on our list promises nothing."""
        return REFUSALS.get(self.reason, FOREIGN)

    def __str__(self) -> str:
        parts = [self.reason, self.detail or self.info.meaning]
        for label, value in (("row", self.row), ("guard", self.guard), ("holder", self.holder)):
            if value:
                parts.append(f"{label} {value}")
        return "; ".join(parts)


class PinfoldError(Exception):
    """Everything pinfold raises."""

    exit_code = 1


class RefusalError(PinfoldError):
    """Raised when a call was refused: the caller's to handle; `refusal.info.retry` says what may be sent again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
        self.exit_code = refusal.info.exit_code


class PeerError(PinfoldError):
    """Raised when bytes from a peer are no message of ours; the bytes are dropped, the peer is named."""


class WorldError(PinfoldError):
    """Raised when a disk, device, store or network failed. `definite`: did it surely not happen?"""

    def __init__(self, message: str, *, definite: bool = True) -> None:
        super().__init__(message)
        self.definite = definite


class InvariantViolation(AssertionError):
    """Raised when an invariant of design section 7 is broken. A bug of ours: never caught, never retried."""

    def __init__(self, invariant: str, what: str, story: tuple[str, ...] = ()) -> None:
        tail = "".join(f"\n    {line}" for line in story)
        super().__init__(f"{invariant}: {what}{tail}")
        self.invariant = invariant
        self.story = story
