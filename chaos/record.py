"""Write down what clients ask and are told, as it happens: a history (`history.py`).

    recorder = Recorder()
    recorder.watch("client/a", member.driver)        # the driver of a client machine, in whatever world it runs
    ...
    recorder.history(complete=True).save(path)

The recorder stands between a driver and its client machine. It reads the commands, queries and requests that leave, and the
answers that the machine accepts (not those that it puts aside as old). It changes nothing: no order, no time, no byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import evolve

from ..core import answers as a
from ..core import commands as c
from ..core import requests as r
from ..core.client import Client
from ..core.driver import Driver
from ..core.effects import Ready
from ..core.ids import NO_COPY, CopyId, Role
from .history import History, Op

NAMES: Final[dict[type, str]] = {
    c.Create: "create", c.Pin: "pin", c.PinPrefix: "pin_prefix", c.Unpin: "unpin", c.Ref: "ref", c.Unref: "unref",
    c.Move: "move", c.CancelMove: "cancel_move", c.Replicate: "replicate", c.DropReplica: "drop_replica", c.Evict: "evict",
    c.ReleaseRequest: "release_request", c.Drain: "drain", c.Cancel: "cancel", c.OpenSession: "open",
    c.KeepAlive: "keep_alive", c.CloseSession: "close", c.Locate: "locate", c.Await: "await", c.Describe: "describe",
    c.ListGroups: "list", c.Status: "status", c.Explain: "explain", r.Read: "read", r.Write: "write",
    r.EndWrite: "end_write", r.AbortWrite: "abort_write", r.NodeStat: "node_stat",
}  # fmt: skip
"""The word of each request in a history."""


class Recorder:
    """`clock` gives the time of an event; by default events are counted, which is one clock for all clients of one process."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._count = 0
        self._lives = 0
        self._clock = clock
        self._ended: list[Op] = []
        self._open: dict[tuple[Any, ...], list[Op]] = {}
        self._first: dict[tuple[Any, ...], tuple[list[Op], Any]] = {}

    def watch(self, client: str, driver: Driver) -> None:
        """From now on write down what the client machine of this driver asks and is told."""
        machine = driver.machine
        assert isinstance(machine, Client)
        self._lives += 1
        driver.machine = _Watched(client, self._lives, machine, self)

    def history(self, *, complete: bool = False, clock: str = "common") -> History:
        """What there is so far, in the order of asking. What has no answer yet is `unknown`."""
        ops = [*self._ended, *(op for ops in self._open.values() for op in ops)]
        ops.sort(key=lambda op: (op.invoke, op.client, op.number, op.item))
        return History([evolve(op, line=at + 2) for at, op in enumerate(ops)], clock, complete)

    # ---- from the machines -----------------------------------------------------------------------------------

    def now(self) -> int:
        """The time of an event; later events have later times."""
        self._count += 1
        return self._count if self._clock is None else self._clock()

    def asked(self, key: tuple[Any, ...], ops: list[Op]) -> None:
        """A message has left for the first time."""
        if key not in self._open:
            self._open[key] = ops

    def answered(self, key: tuple[Any, ...], answer: Any, term: int, revision: int) -> None:
        """Its answer was accepted."""
        ops = self._open.pop(key, None)
        if ops is not None:
            self._ended += _end(ops, answer, term, revision, self.now())
            self._first[key] = ops, answer

    def again(self, key: tuple[Any, ...], event: a.Answered) -> None:
        """An answer to a number that has one. It must be the same (ONCE-1); a different one is written down as well."""
        ops, first = self._first.get(key, ([], event.answer))
        if event.answer != first:
            self._ended += _end(ops, event.answer, event.term, _revision(event.answer), self.now())


class _Watched:
    """A client machine with a recorder at its door. A number that a life has used without an answer is the next life's again:
    what is open is known by its life too."""

    def __init__(self, client: str, life: int, machine: Client, recorder: Recorder) -> None:
        self._client = client
        self._life = life
        self._machine = machine
        self._recorder = recorder

    def step(self, event: Any, now: int) -> Ready:
        state = self._machine.state
        waiting = tuple(state.numbers) if isinstance(event, a.Answered) else tuple(state.exchanges)
        session = state.session.session
        ready = self._machine.step(event, now)
        self._hear(event, waiting, int(session))
        self._say(ready)
        return ready

    def _hear(self, event: Any, waiting: tuple[Any, ...], session: int) -> None:
        """Was the event an answer, and was it accepted: is what had waited for it waiting no more?"""
        state, recorder = self._machine.state, self._recorder
        if isinstance(event, a.Answered):
            key = (self._life, int(event.session), event.sequence)
            if event.sequence in waiting and event.session == session:
                if event.sequence not in state.numbers or int(state.session.session) != session:
                    recorder.answered(key, event.answer, event.term, _revision(event.answer))
            elif not isinstance(event.answer, a.Refused):
                recorder.again(key, event)
        elif isinstance(event, a.Told):
            if event.token in waiting and event.token not in state.exchanges:
                recorder.answered((self._life, event.token), event.answer, event.term, event.revision)
        elif hasattr(event, "token") and event.token in waiting and event.token not in state.exchanges:
            recorder.answered((self._life, event.token), event, 0, 0)

    def _say(self, ready: Ready) -> None:
        at = self._recorder.now()
        for send in ready.send:
            message = send.message
            if isinstance(message, c.Command):
                key: tuple[Any, ...] = (self._life, int(message.session), message.sequence)
                self._recorder.asked(key, list(_numbered(self._client, message, at)))
            elif type(message) in NAMES:
                key = (self._life, message.token)
                self._recorder.asked(key, [_query(self._client, message, at, int(self._machine.state.session.session))])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


# ---- what is asked -------------------------------------------------------------------------------------------


def _numbered(client: str, command: c.Command, at: int) -> Iterator[Op]:
    items = command.body.items if isinstance(command.body, c.Batch) else (command.body,)
    ordinal = 0
    for body in items:
        yield Op(
            client, NAMES[type(body)], at, session=int(command.session), number=command.sequence, item=ordinal,
            group=_group(body), hold=str(getattr(body, "hold", "")), request=getattr(body, "request", ""),
            copy=_copy(getattr(body, "copy", NO_COPY)),
            pinned_too=bool(getattr(body, "allow_pinned", False)) or isinstance(body, c.Drain),
        )  # fmt: skip
        ordinal += len(body.groups) if isinstance(body, c.PinPrefix) else 1


def _query(client: str, message: Any, at: int, session: int) -> Op:
    return Op(
        client, NAMES[type(message)], at, session=int(getattr(message, "session", session)), group=_group(message),
        copy=_copy(getattr(message, "copy", NO_COPY)), content=_content(message),
    )  # fmt: skip


def _group(body: Any) -> str:
    group = body.spec.group if isinstance(body, c.Create) else getattr(body, "group", b"")
    return bytes(group).hex()


def _copy(copy: CopyId) -> str:
    return "" if copy == NO_COPY else str(copy)


def _content(message: Any) -> dict[str, int]:
    """Blocks and their checksums, of a write or of what was read."""
    if not isinstance(message, r.Write | r.Blocks):
        return {}
    return {str(block): checksum for block, checksum in zip(message.blocks, message.checksums, strict=True)}


# ---- what is told --------------------------------------------------------------------------------------------


def _revision(answer: Any) -> int:
    return int(getattr(answer, "revision", 0))


def _end(ops: list[Op], answer: Any, term: int, revision: int, at: int) -> list[Op]:
    """The operations of one message with their answers. One that speaks of several groups becomes one for each."""
    ended: list[Op] = []
    answers = answer.items if isinstance(answer, a.BatchAnswer) else (answer,) * len(ops)
    for op, part in zip(ops, answers, strict=True):
        own = _revision(part) if op.number else revision
        ended += _told(evolve(op, returned=at, outcome="ok", term=term, revision=own), part)
    return ended


def _told(op: Op, answer: Any) -> list[Op]:
    if isinstance(answer, a.Refused | r.NodeRefused):
        return [evolve(op, outcome="refused", reason=answer.refusal.reason)]
    if isinstance(answer, a.CommandCancelled):
        return [op if op.op == "cancel" else evolve(op, outcome="cancelled")]
    if isinstance(answer, a.PrefixPinned):
        return _prefix(op, answer) or [op]
    if isinstance(answer, a.Located):
        return [_at_route(op, route) for route in answer.routes] or [op]
    if isinstance(answer, a.Listed):
        return [evolve(op, group=bytes(line.group).hex(), epoch=line.epoch) for line in answer.groups] or [op]
    if isinstance(answer, a.Exists | a.Pinned):
        return [evolve(_at_route(op, answer.route), hold=str(answer.hold), effect=True)]
    if isinstance(answer, a.Described):
        owner = next((line for line in answer.copies if line.role is Role.AUTHORITATIVE), None)
        who = "" if owner is None else f"{owner.copy} at {owner.node}"
        return [evolve(op, epoch=answer.epoch, manifest=answer.manifest.hex(), owner=who)]
    if isinstance(answer, r.Blocks):
        return [evolve(op, copy=str(answer.copy), content=_content(answer))]
    return [_changed(op, answer)]


def _prefix(op: Op, answer: a.PrefixPinned) -> list[Op]:
    """Each pin of a run is a change with a revision of its own; the answer has the last one."""
    last = len(answer.routes) - 1
    return [
        evolve(_at_route(op, route), hold=str(hold), effect=True, item=op.item + at, revision=answer.revision - last + at)
        for at, (route, hold) in enumerate(zip(answer.routes, answer.holds, strict=True))
    ]


def _at_route(op: Op, route: a.Route) -> Op:
    return evolve(op, group=bytes(route.group).hex(), epoch=route.epoch, copy=str(route.copy), manifest=route.manifest.hex())


def _changed(op: Op, answer: Any) -> Op:
    """Answers whose fields are those of the operation."""
    known: dict[str, Any] = {}
    if isinstance(answer, a.Created):
        known = {"epoch": answer.epoch, "copy": str(answer.copy), "hold": str(answer.hold), "effect": True}
    elif isinstance(answer, a.Referred | a.Released):
        known = {"hold": str(answer.hold), "group": bytes(answer.group).hex(), "effect": True}
    elif isinstance(answer, a.MoveAccepted | a.MoveCancelled):
        known = {"copy": _copy(answer.move), "epoch": answer.epoch, "effect": True}
    elif isinstance(answer, a.Joined | a.ReplicaAccepted | a.ReplicaDropped):
        known = {"copy": str(answer.copy), "effect": not isinstance(answer, a.Joined)}
    elif isinstance(answer, a.EvictAccepted):
        known = {"epoch": answer.epoch, "waiting": answer.waiting, "effect": not answer.waiting}
    elif isinstance(answer, a.RequestReleased):
        known = {"effect": answer.released > 0}
    elif isinstance(answer, a.Awaited):
        known = {"epoch": answer.epoch}
    elif isinstance(answer, a.SessionOpened):
        known = {"session": int(answer.session)}
    return evolve(op, **known)
