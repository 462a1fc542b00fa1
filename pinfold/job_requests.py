"""What a job serves: the requests of a trace, or of the built-in generator."""

from __future__ import annotations

from collections.abc import Sequence

from . import workload
from .trace import TraceRequest, read_trace


def load_requests(trace: str, seed: int, requests: int | None) -> list[TraceRequest]:
    """The first `requests` (None: all) of file `trace`; "": as many from the generator. Raises TraceError."""
    if trace:
        return list(read_trace(trace, requests))
    if requests is None:
        raise ValueError("the generator has no end: say how many requests")
    return list(workload.generate(seed, requests))


def distinct_blocks(requests: Sequence[TraceRequest]) -> int:
    """Blocks that differ: what an unbounded cache with one-block groups would end up with."""
    return len(set().union(*(request.hash_ids for request in requests)))
