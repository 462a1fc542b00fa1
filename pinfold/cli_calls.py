"""A command's own client: the client machine over a ZeroMQ wire, in the command's thread, one call at a time.

The library (`pinfold.client`) has a thread, because engines call it from anywhere; a command has nothing to do but wait.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self, get_args

from .cli_shared import Given
from .client_loop import CallFailed
from .core import calls
from .core.client import Client
from .core.client_state import SessionPhase
from .core.driver import Driver
from .core.errors import Refusal, RefusalError, WorldError
from .core.events import ClientMessage, Tick
from .core.ids import Peer
from .serving import clock_ms
from .transport.zmq import ClientWire

MESSAGES: Final = frozenset(get_args(ClientMessage))
CLOSE_MS: Final = 500
"""How long the end of a command may take to give back what it has."""
NAMED_LEASE_MS: Final = 600_000
"""The lease of a named session, which has to last from one command to the next."""


class Caller:
    """See the module. `session`: the name of one to resume or open, which outlives this command; else it has one of its own,
    which ends with it."""

    def __init__(self, given: Given, *, session: str = "", lease_ms: int = 0) -> None:
        token = os.urandom(8).hex()
        changes: dict[str, Any] = {"session_name": session}
        if lease_ms or session:
            changes["lease_ms"] = lease_ms or NAMED_LEASE_MS
        identity = Peer(f"client/{token}")
        self.config = given.config.settings.client_config(identity, token, **changes)
        self.client = Client(self.config)
        self.wire = ClientWire(identity)
        self._driver = Driver(self.client, wire=self.wire, replies=self)
        self._answers: dict[int, calls.Done | calls.Failed] = {}
        self._number = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(RefusalError, WorldError):
                self._give_back()
        finally:
            self.wire.close()
            if self._before is not None:
                signal.signal(signal.SIGTERM, self._before)

    # ---- calls -----------------------------------------------------------------------------------------------

    def call(self, op: calls.Op, timeout_ms: int = 0) -> Any:
        """The `value` of the `Done`. `timeout_ms` 0: the configured one. Raises CallFailed, IdentityTaken."""
        self._number = number = self._number + 1
        self._step(calls.Call(number, op, timeout_ms))
        while number not in self._answers:
            self.turn()
        answer = self._answers.pop(number)
        if isinstance(answer, calls.Failed):
            raise CallFailed(answer)
        return answer.value

    def do(self, body: Any, timeout_ms: int = 0) -> Any:
        """One numbered command; its answer."""
        return self.call(calls.Do(body), timeout_ms)

    def ask(self, query: Any, timeout_ms: int = 0) -> Any:
        """One query (its client and token are filled in); its answer."""
        return self.call(calls.Ask(query), timeout_ms)

    def turn(self, wait_ms: int = 1_000, fds: tuple[int, ...] = ()) -> None:
        """One turn of the loop: leases are renewed and answers come. For those who wait for something else (`fds`)."""
        now = clock_ms()
        alarm = self._driver.alarm
        wait = wait_ms if alarm is None else max(0, min(wait_ms, alarm - now))
        for _, message in self.wire.poll(wait, fds):
            if type(message) in MESSAGES:
                self._step(message)
        for unreachable in self.wire.unreachable():
            self._step(unreachable)
        if self._driver.alarm is not None and self._driver.alarm <= clock_ms():
            self._step(Tick())

    def reply(self, target: Any, message: Any) -> None:
        """The driver's port for answers."""
        self._answers[target] = message

    def _step(self, event: Any) -> None:
        self._driver.handle(event, clock_ms())
        self._driver.flush()

    def _give_back(self) -> None:
        """The end of a session of our own, or what a named one still has to release. The lease does the rest."""
        state = self.client.state
        if state.session.phase is SessionPhase.NONE:
            return
        if not self.config.session_name:
            self.call(calls.CloseSessionOp(), CLOSE_MS)
            return
        until = clock_ms() + CLOSE_MS
        while (state.numbers or state.releases) and clock_ms() < until:
            self.turn(until - clock_ms())


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def refused(reason: str, detail: str = "") -> CallFailed:
    """A refusal of the command itself, as the directory would have said it."""
    return CallFailed(calls.Failed(Refusal(reason, detail), definite=True))
