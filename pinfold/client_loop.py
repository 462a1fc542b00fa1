"""The thread behind a connection: it alone owns the wire and the client machine; callers post calls and wait on futures.

    caller --submit--> inbox --wake--> [ loop: machine, wire ] --reply--> future --> caller

A future that is cancelled cancels its call; whatever its answer brings after all is given back. Every call ends by its
deadline (ANSWER-1), so nobody waits for ever; if the loop itself dies, all futures get the reason.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, Protocol, get_args

from .core.answers import BatchAnswer, Created, Exists, Pinned, PrefixPinned, Referred
from .core.calls import Call, CancelCall, CloseSessionOp, Do, Done, Failed, GotGroup, Op, PutDone
from .core.client import Client
from .core.client_holds import holds_in
from .core.client_numbers import gives_back
from .core.client_state import ClientConfig
from .core.commands import Command, Unpin, Unref
from .core.driver import Driver
from .core.errors import Refusal, RefusalError, WorldError
from .core.events import ClientMessage, PeerUnreachable, Tick
from .core.ids import HoldId
from .transport.base import MisuseError, Problem, WireClosed

TURN_MS_MAX: Final = 1_000
"""The loop turns at least this often."""
GRACE_MS: Final = 5_000
"""How long after its deadline an answer may still come before the loop is said to have died."""
PROBLEMS_MAX: Final = 64

MESSAGES: Final = frozenset(kind for union in get_args(ClientMessage) for kind in get_args(union) or (union,))
"""What a client takes; a server that sends something else is not answered."""


class CallFailed(RefusalError):
    """Raised when a call was refused, or had no answer in time.

    `definite`: it surely did not happen. `action`: what the configured degradation advises ("", "recompute", "refuse").
    """

    def __init__(self, failed: Failed) -> None:
        from .exit_codes import exit_code  # here, because `python -m pinfold.exit_codes` must be the first to load it

        super().__init__(failed.refusal)
        self.definite = failed.definite
        self.action = failed.action
        self.exit_code = exit_code(failed.refusal, failed.definite)


class ConnectionEnded(WorldError):
    """Raised for calls on a connection that was closed, has died, or belongs to the parent of a forked process."""

    exit_code = 4


class LoopWire(Protocol):
    """What the loop needs of a wire; `transport.zmq.ClientWire` is one."""

    def send(self, target: str, message: Any) -> None: ...

    def poll(self, timeout_ms: int) -> Sequence[tuple[Any, Any]]: ...

    def unreachable(self) -> Sequence[PeerUnreachable]: ...

    def take_problems(self) -> Sequence[Problem]: ...

    def wake(self) -> None: ...

    def close(self) -> Any: ...


def clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Loop:
    """See the module. `make_wire` is called in the loop's thread, which then owns the wire; what it raises is raised here."""

    def __init__(self, config: ClientConfig, make_wire: Callable[[], LoopWire]) -> None:
        self.config = config
        self.machine = Client(config)
        self.problems: deque[Problem] = deque(maxlen=PROBLEMS_MAX)
        self._process = os.getpid()
        self._lock = threading.Lock()  # over the five below
        self._inbox: deque[Call | CancelCall] = deque()
        self._futures: dict[int, Future[Done]] = {}
        self._number = 0
        self._closed = False
        self._ended = False
        self._stop_ms: int | None = None
        self._cause: BaseException | None = None
        self._wire: LoopWire
        self._driver: Driver
        # Not an argument of the thread, which would keep alive whatever it refers to (perhaps our owner) as long as itself.
        self._make_wire: Callable[[], LoopWire] | None = make_wire
        started = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(started,), name="pinfold-client", daemon=True)
        self._thread.start()
        started.wait()
        cause = self._died()
        if cause is not None:
            self._thread.join()
            raise cause

    # ---- for callers, from any thread --------------------------------------------------------------------------

    def submit(self, op: Op, timeout_ms: int = 0, *, closing: bool = False) -> Future[Done]:
        """Post a call (`closing`: also while the connection is being closed). Its future gets the `Done`, or `CallFailed`.
        Raises ConnectionEnded."""
        self._check_process()
        future: Future[Done] = Future()
        back = isinstance(op, CloseSessionOp) or (isinstance(op, Do) and gives_back(op.body))
        with self._lock:
            self._check(closing)
            if len(self._inbox) >= self.config.calls_max and not back:
                future.set_exception(CallFailed(Failed(Refusal("Overloaded", guard="calls_max"), definite=True)))
                return future
            self._number = number = self._number + 1
            self._futures[number] = future
            self._inbox.append(Call(number, op, timeout_ms))
        future.add_done_callback(lambda done: self._withdraw(number) if done.cancelled() else None)
        self._wire.wake()
        return future

    def wait(self, future: Future[Done], timeout_ms: int) -> Done:
        """The `Done` of a future. Raises what the call raised; interrupted, the call is abandoned."""
        try:
            return future.result(((timeout_ms or self.config.timeout_ms) + GRACE_MS) / 1000)
        except BaseException as error:
            if not future.done():
                self.abandon(future)
                if isinstance(error, TimeoutError):
                    raise WorldError("the connection's thread does not answer", definite=False) from None
            raise

    def abandon(self, future: Future[Done]) -> None:
        """Nobody wants the answer any more: cancel the call, or give back what it has brought."""
        if not future.cancel():
            future.add_done_callback(lambda done: None if done.exception() else self.give_back(done.result()))

    def give_back(self, done: Done) -> None:
        """Release, in the background, the holds that an answer has handed over."""
        for op in releases(done.value):
            with suppress(ConnectionEnded):
                self.submit(op, closing=True)

    def close(self, *, end_session: bool, timeout_ms: int) -> None:
        """End the session (a fresh one), or let what is to be released be said (a named one), and then the thread. Bounded; a
        second close, and one in a forked child, do nothing."""
        if os.getpid() != self._process:
            return
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            if end_session:
                with suppress(ConnectionEnded):
                    self.submit(CloseSessionOp(), max(1, timeout_ms), closing=True)
            self._stop_ms = clock_ms() + timeout_ms
            self._wire.wake()
        if threading.current_thread() is not self._thread:  # from a future's callback it is: nobody waits for himself
            self._thread.join((timeout_ms + GRACE_MS) / 1000)

    def _check(self, closing: bool) -> None:
        cause = self._died()
        if cause is not None:
            raise ConnectionEnded(f"the connection has died: {cause}") from cause
        if self._ended or (self._closed and not closing):
            raise ConnectionEnded("the connection is closed")

    def _check_process(self) -> None:
        """Before any lock: in a forked child one may be held by a thread that is not there."""
        if os.getpid() != self._process:
            raise ConnectionEnded("a connection does not survive a fork: make a new one in the child")

    def _died(self) -> BaseException | None:
        return self._cause

    def _withdraw(self, number: int) -> None:
        if os.getpid() == self._process:
            with self._lock:
                self._inbox.append(CancelCall(number))
            self._wire.wake()

    # ---- the thread --------------------------------------------------------------------------------------------

    def _live(self, started: threading.Event) -> None:
        make_wire, self._make_wire = self._make_wire, None
        assert make_wire is not None
        try:
            self._wire = make_wire()
        except BaseException as error:  # noqa: BLE001 - it is raised where the connection is being made
            self._cause = error
            started.set()
            return
        del make_wire
        self._driver = Driver(self.machine, wire=self, replies=self)
        started.set()
        try:
            while not self._over():
                self._turn()
        except WireClosed:
            pass
        except BaseException as error:  # noqa: BLE001 - it goes to everybody who waits, and to whoever calls next
            self._cause = error
        finally:
            self._end()

    def _turn(self) -> None:
        driver = self._driver
        with self._lock:
            events, self._inbox = self._inbox, deque()
        for event in events:
            driver.handle(event, clock_ms())
        driver.flush()
        now, alarm = clock_ms(), driver.alarm
        wait_ms = TURN_MS_MAX if alarm is None else max(0, min(alarm - now, TURN_MS_MAX))
        if self._stop_ms is not None:
            wait_ms = max(0, min(wait_ms, self._stop_ms - now))
        for _, message in self._wire.poll(wait_ms):
            if type(message) in MESSAGES:
                driver.handle(message, clock_ms())
        for unreachable in self._wire.unreachable():
            driver.handle(unreachable, clock_ms())
        if driver.alarm is not None and driver.alarm <= clock_ms():
            driver.handle(Tick(), clock_ms())
        driver.flush()
        self.problems.extend(self._wire.take_problems())

    def _over(self) -> bool:
        if self._stop_ms is None:
            return False
        state = self.machine.state
        busy = state.calls or state.numbers or state.queue or state.releases or self._inbox
        return not busy or clock_ms() >= self._stop_ms

    def _end(self) -> None:
        with self._lock:
            self._closed = self._ended = True
            futures, self._futures = self._futures, {}
        for future in futures.values():
            with suppress(InvalidStateError):
                future.set_exception(ConnectionEnded(f"the connection has ended: {self._cause or 'closed'}", definite=False))
        self._wire.close()

    # ---- the driver's ports ------------------------------------------------------------------------------------

    def send(self, target: str, message: Any) -> None:
        """A value that can't travel is the fault of one caller: it is told, and the loop goes on for the others."""
        try:
            self._wire.send(target, message)
        except MisuseError as error:
            state = self.machine.state
            number = state.numbers.get(message.sequence) if isinstance(message, Command) else None
            exchange = state.exchanges.get(getattr(message, "token", ""))
            owner = number.owner if number is not None else exchange.owner if exchange is not None else ""
            future = self._futures.pop(owner, None) if isinstance(owner, int) else None
            if future is not None:
                with suppress(InvalidStateError):
                    future.set_exception(error)
                self._inbox.append(CancelCall(owner))

    def reply(self, target: Any, message: Done | Failed) -> None:
        """The answer to a call; what nobody takes is given back."""
        future = self._futures.pop(target, None)
        if future is None:
            return
        try:
            if isinstance(message, Done):
                future.set_result(message)
            else:
                future.set_exception(CallFailed(message))
        except InvalidStateError:
            if isinstance(message, Done):
                self.give_back(message)


def releases(value: Any) -> list[Do]:
    """What gives back the holds in the value of a `Done`."""
    if isinstance(value, GotGroup | PutDone):
        return [] if value.hold is None else [Do(Unpin(value.hold))]
    if isinstance(value, BatchAnswer):
        return [op for item in value.items for op in releases(item)]
    if isinstance(value, Created | Exists | Pinned | PrefixPinned | Referred):
        held: list[HoldId] = holds_in(value)
        return [Do(Unref(hold) if isinstance(value, Referred) else Unpin(hold)) for hold in held]
    return []
