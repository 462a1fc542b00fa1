"""The one driver: runs a machine's `Ready` in order over ports that are handed in. Pure: no clock, thread or socket of its own.

    driver = Driver(machine, store=store, wire=wire, bytework=tiers)
    driver.handle(event, now)      # step; outputs are held back
    driver.flush()                 # one commit for all steps since the last flush, then their outputs in step order

`handle` may be called many times before `flush`: that is group commit (rule 10). A commit that fails without surely not
having happened ends the term: `TermEnded` is raised, nothing has left, and the world starts a new machine from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Protocol

from .effects import Ready, Reply, Send, Transfer, Write
from .errors import PinfoldError, WorldError


class Outcome(IntEnum):
    """What became of a commit."""

    DONE = 0
    """Atomic and durable."""
    NOT_DONE = 1
    """Surely nothing of it happened; the same writes may be tried again."""
    UNKNOWN = 2
    """Nobody can tell (a failed fsync, a time-out)."""


class Store(Protocol):
    """Durable record writes. `load` gives back exactly what was committed."""

    def commit(self, writes: Sequence[Write]) -> Outcome: ...

    def load(self) -> dict[str, dict[Any, Any]]: ...


class Wire(Protocol):
    """Takes one message for one peer. May lose it; never blocks, never raises for an unreachable peer."""

    def send(self, target: str, message: Any) -> None: ...


class ByteWork(Protocol):
    """Takes byte work; completions come back as events through whoever owns the loop."""

    def submit(self, work: Transfer) -> None: ...


class Replies(Protocol):
    """Takes answers for local callers."""

    def reply(self, target: str, message: Any) -> None: ...


class Machine(Protocol):
    def step(self, event: Any, now: int) -> Ready: ...


class TermEnded(PinfoldError):
    """Raised when a commit's outcome is not known: this machine must not say another word; start again from the store."""

    exit_code = 3


class Driver:
    """See the module. `replies` defaults to the wire: a directory's and a node's callers are peers."""

    COMMIT_TRIES = 3
    """How often writes that surely did not happen are tried again before the term ends."""

    def __init__(
        self,
        machine: Machine,
        *,
        store: Store | None = None,
        wire: Wire,
        bytework: ByteWork | None = None,
        replies: Replies | None = None,
    ) -> None:
        self.machine = machine
        self.alarm: int | None = None
        self._store = store
        self._wire = wire
        self._bytework = bytework
        self._replies = replies
        self._held: list[Ready] = []

    def handle(self, event: Any, now: int) -> Ready:
        """Step the machine; hold its outputs back until `flush`. Returns the `Ready` for those who want to look."""
        ready = self.machine.step(event, now)
        self.hold(ready)
        return ready

    def hold(self, ready: Ready) -> None:
        """Queue a `Ready` that was made outside `step` (a machine's first words after a restart)."""
        self.alarm = ready.alarm
        if ready.persist or ready.send or ready.transfer or ready.reply:
            self._held.append(ready)

    @property
    def holding(self) -> int:
        """Steps whose outputs wait for `flush`."""
        return len(self._held)

    def flush(self) -> None:
        """Commit everything held, then let outputs leave in step order. Raises `TermEnded`."""
        held, self._held = self._held, []
        if not held:
            return
        self._commit([write for ready in held for write in ready.persist])
        for ready in held:
            self._run(ready.send, ready.transfer, ready.reply)

    def _commit(self, writes: list[Write]) -> None:
        if not writes:
            return
        if self._store is None:
            raise WorldError("this machine persists records but was given no store")
        outcome = Outcome.NOT_DONE
        tries = 0
        while outcome is Outcome.NOT_DONE and tries < self.COMMIT_TRIES:
            outcome = self._store.commit(writes)
            tries += 1
        if outcome is Outcome.DONE:
            return
        raise TermEnded(f"a commit of {len(writes)} writes ended {outcome.name}; this term is over")

    def _run(self, send: Iterable[Send], transfer: Iterable[Transfer], reply: Iterable[Reply]) -> None:
        for message in send:
            self._wire.send(message.target, message.message)
        for work in transfer:
            if self._bytework is None:
                raise WorldError("this machine asks for byte work but was given no tiers")
            self._bytework.submit(work)
        for answer in reply:
            if self._replies is None:
                self._wire.send(answer.target, answer.message)
            else:
                self._replies.reply(answer.target, answer.message)
