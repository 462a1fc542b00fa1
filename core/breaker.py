"""The circuit breaker of one peer: after some consecutive failures nothing is sent for a while, then one probe.

    closed --(failures in a row)--> open --(pause is over)--> half-open --(any answer)--> closed
                                     ^------(probe unanswered; the pause doubles)-----'

Pure functions from a record to a record. A failure is a time-out or the wire's word that the peer can't be reached;
a refusal is an answer and closes the breaker: a peer that says no is alive.
"""

from __future__ import annotations

from attrs import define


@define(frozen=True)
class BreakerLimits:
    """`failures` in a row open it; the pause starts at `pause_ms` and doubles up to `pause_max_ms`. Failures closer together
    than `spacing_ms` count once: requests that were sent side by side time out side by side. A probe that is not answered
    within `probe_ms` lets another one pass."""

    failures: int = 5
    pause_ms: int = 200
    pause_max_ms: int = 3_000
    spacing_ms: int = 50
    probe_ms: int = 1_000


@define
class Breaker:
    """`open_until_ms` 0: closed. `opened` counts openings since the last answer. `probe_until_ms`: a probe is out."""

    failures: int = 0
    failed_at_ms: int = -1
    opened: int = 0
    open_until_ms: int = 0
    probe_until_ms: int = 0


CLOSED = Breaker()


def phase(breaker: Breaker, now: int) -> str:
    """`closed`, `open` or `half-open`."""
    if breaker.open_until_ms == 0:
        return "closed"
    return "open" if now < breaker.open_until_ms else "half-open"


def held_until(breaker: Breaker, now: int) -> int:
    """The instant before which nothing may be sent; 0 when something may be sent now."""
    until = max(breaker.open_until_ms, breaker.probe_until_ms)
    return until if until > now else 0


def sent(breaker: Breaker, now: int, limits: BreakerLimits) -> Breaker:
    """Something has been sent: in `half-open` that is the probe."""
    if breaker.open_until_ms == 0:
        return breaker
    return Breaker(
        breaker.failures, breaker.failed_at_ms, breaker.opened, breaker.open_until_ms, now + limits.probe_ms
    )


def failed(breaker: Breaker, now: int, limits: BreakerLimits) -> Breaker:
    """A time-out or an unreachable peer. Late time-outs of an open breaker change nothing."""
    if now < breaker.open_until_ms:
        return breaker
    if breaker.failed_at_ms >= 0 and now - breaker.failed_at_ms < limits.spacing_ms:
        return breaker
    failures = breaker.failures + 1
    if failures < limits.failures and breaker.opened == 0:
        return Breaker(failures, now)
    pause = min(limits.pause_max_ms, limits.pause_ms << min(breaker.opened, 32))
    return Breaker(failures, now, breaker.opened + 1, now + pause)
