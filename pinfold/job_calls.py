"""Calls of a job's worker: the client library, several calls at once, and every refusal as a value.

    with Caller(endpoint, "c1", seed=7) as caller:
        [located] = caller.calls([Ask(Locate(...))], timeout_ms=5_000)        # answers in order

For jobs that replay, move and watch: they know what they ask and count what is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

from attrs import define

from .client import start
from .client_loop import CallFailed
from .core.calls import Done, Op
from .core.errors import Refusal
from .core.ids import NodeName

LEAVE_MS: Final = 5_000
LEASE_MS: Final = 3_000


@define
class Outcome:
    """The end of one call: a value or a refusal, and how long it took. `definite`: a refused call surely did not happen."""

    value: Any
    refusal: Refusal | None
    definite: bool
    ns: int

    @property
    def reason(self) -> str:
        return "" if self.refusal is None else self.refusal.reason


class Caller:
    """See the module. `near`: the node to read from; `session`: the session's name, to be found by in `Describe`."""

    def __init__(self, endpoint: str, session: str, *, seed: int = 0, near: str = "", lease_ms: int = LEASE_MS) -> None:
        config = {
            "seed": seed, "session_name": session, "near": NodeName(near), "lease_ms": lease_ms, "node_attempt_ms": 500,
        }  # fmt: skip
        self._loop = start(endpoint, None, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The session ends now, and with it its holds, not with its lease."""
        self._loop.close(end_session=True, timeout_ms=LEAVE_MS)

    def count(self, name: str) -> int:
        """One of the machine's counters (`retries`, `stale_routes`)."""
        return self._loop.machine.state.counters.get(name, 0)

    def calls(self, ops: Sequence[Op], timeout_ms: int) -> list[Outcome]:
        """All at once; the outcomes in the order of the calls. Raises WorldError when the library breaks its word (ANSWER-1)."""
        begun_ns = time.perf_counter_ns()
        ended_ns = [begun_ns] * len(ops)
        futures = []
        for place, op in enumerate(ops):
            future = self._loop.submit(op, timeout_ms)
            future.add_done_callback(_stamp(ended_ns, place))
            futures.append(future)
        return [self._outcome(future, timeout_ms, ended_ns, place, begun_ns) for place, future in enumerate(futures)]

    def call(self, op: Op, timeout_ms: int) -> Outcome:
        return self.calls([op], timeout_ms)[0]

    def _outcome(self, future: Future[Done], timeout_ms: int, ended_ns: list[int], place: int, begun_ns: int) -> Outcome:
        try:
            value = self._loop.wait(future, timeout_ms).value
        except CallFailed as error:
            return Outcome(None, error.refusal, error.definite, ended_ns[place] - begun_ns)
        return Outcome(value, None, True, ended_ns[place] - begun_ns)


def _stamp(ended_ns: list[int], place: int) -> Callable[[Future[Done]], None]:
    def stamp(_future: Future[Done]) -> None:
        ended_ns[place] = time.perf_counter_ns()

    return stamp
