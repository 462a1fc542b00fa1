"""Calls of one process to a cluster: the client machine, a ZeroMQ wire, and a loop that runs while somebody waits.

    with Caller(endpoint, "c1", seed=7) as caller:
        [located] = caller.calls([Ask(Locate(...))], timeout_ms=5_000)        # several at once, answers in order

For jobs that replay, move and watch: they know what they ask and want to see every refusal. One thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, get_args

from attrs import define

from .core.calls import Call, CloseSessionOp, Done, Failed, Op
from .core.client import Client
from .core.client_state import ClientConfig
from .core.driver import Driver
from .core.errors import Refusal, WorldError
from .core.events import ClientMessage, Tick
from .core.ids import NodeName, Peer
from .serving import clock_ms
from .transport.zmq import ClientWire

TAKES: Final = frozenset(get_args(ClientMessage)) | frozenset(
    kind for union in get_args(ClientMessage) for kind in get_args(union)
)
WAIT_MS_MAX: Final = 200
GRACE_MS: Final = 5_000
"""How much later than its deadline a call's answer may be before the machine is said to have broken ANSWER-1."""


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

    def __init__(
        self, endpoint: str, name: str, *, seed: int = 0, near: str = "", session: str = "", lease_ms: int = 3_000
    ) -> None:
        boot = f"{name}-{os.urandom(8).hex()}"
        peer = Peer(f"client/{boot}")
        self.machine = Client(
            ClientConfig(
                peer,
                (Peer(endpoint),),
                boot,
                seed=seed,
                session_name=session,
                lease_ms=lease_ms,
                near=NodeName(near),
                node_attempt_ms=500,
            )
        )
        self._wire = ClientWire(peer)
        self._driver = Driver(self.machine, wire=self._wire, replies=self)
        self._ended: dict[int, tuple[Done | Failed, int]] = {}
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._wire.close()

    def reply(self, target: str | int, message: Any) -> None:
        """The driver's port for answers."""
        self._ended[int(target)] = (message, time.perf_counter_ns())

    def count(self, name: str) -> int:
        """One of the machine's counters (`retries`, `stale_routes`)."""
        return self.machine.state.counters.get(name, 0)

    def calls(self, ops: Sequence[Op], timeout_ms: int) -> list[Outcome]:
        """All at once; the outcomes in the order of the calls. Never raises for what the cluster does."""
        begun, until = time.perf_counter_ns(), clock_ms() + timeout_ms + GRACE_MS
        numbers = range(self._number, self._number + len(ops))
        self._number += len(ops)
        for number, op in zip(numbers, ops, strict=True):
            self._driver.handle(Call(number, op, timeout_ms), clock_ms())
        self._driver.flush()
        while any(number not in self._ended for number in numbers):
            if clock_ms() > until:
                raise WorldError(f"a call had no answer {GRACE_MS} ms after its deadline (ANSWER-1)")
            self.turn(WAIT_MS_MAX)
        return [_outcome(*self._ended.pop(number), begun) for number in numbers]

    def call(self, op: Op, timeout_ms: int) -> Outcome:
        return self.calls([op], timeout_ms)[0]

    def turn(self, wait_ms: int, fds: Sequence[int] = ()) -> tuple[int, ...]:
        """Take what comes within `wait_ms`; which of `fds` can be read. Keeps the session alive while nobody calls."""
        alarm = self._driver.alarm
        wait = wait_ms if alarm is None else min(max(0, alarm - clock_ms()), wait_ms)
        for _, message in self._wire.poll(wait, fds):
            if type(message) in TAKES:
                self._driver.handle(message, clock_ms())
        for unreachable in self._wire.unreachable():
            self._driver.handle(unreachable, clock_ms())
        alarm = self._driver.alarm
        if alarm is not None and alarm <= clock_ms():
            self._driver.handle(Tick(), clock_ms())
        self._driver.flush()
        return self._wire.ready_fds

    def leave(self, timeout_ms: int = 5_000) -> Outcome:
        """Close the session: its holds end now and not with its lease."""
        return self.call(CloseSessionOp(), timeout_ms)


def _outcome(message: Done | Failed, at_ns: int, begun_ns: int) -> Outcome:
    ns = max(0, at_ns - begun_ns)
    if isinstance(message, Done):
        return Outcome(message.value, None, True, ns)
    return Outcome(None, message.refusal, message.definite, ns)
