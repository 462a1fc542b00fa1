"""A token bucket in integers, for the client's rate limit and for its retry budget.

Levels are in thousandths of a token, so that `per_s` tokens a second are `per_s` thousandths a millisecond and no
fraction is ever rounded differently on another machine.
"""

from __future__ import annotations

from attrs import define


@define
class TokenBucket:
    """`level` thousandths at the instant `at_ms`; it fills up to a burst."""

    level: int
    at_ms: int = 0


def full(burst: int) -> TokenBucket:
    return TokenBucket(burst * 1000)


def level_at(bucket: TokenBucket, now: int, per_s: int, burst: int) -> int:
    """Thousandths of a token at `now`. A clock that seems to go back fills nothing."""
    return min(burst * 1000, bucket.level + max(0, now - bucket.at_ms) * per_s)


def take(bucket: TokenBucket, now: int, per_s: int, burst: int) -> tuple[TokenBucket, int]:
    """Take one token: `(bucket, 0)`; or the bucket as it was and the milliseconds until there is one."""
    level = level_at(bucket, now, per_s, burst)
    if level >= 1000:
        return TokenBucket(level - 1000, max(now, bucket.at_ms)), 0
    missing = 1000 - level
    return bucket, max(1, -(-missing // per_s)) if per_s > 0 else NEVER_MS


NEVER_MS = 3_600_000
"""The wait that is told where a bucket does not fill at all; a call's deadline always comes first."""
