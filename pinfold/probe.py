"""One question to one directory or node, without a session: for those who wait for it to serve, and for `pinfold doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .core import answers, commands, requests
from .core.errors import WorldError
from .core.ids import Peer
from .serving import clock_ms
from .transport.zmq import ClientWire

REPEAT_MS: Final = 200
T = TypeVar("T", answers.Told, requests.NodeStatus)


class NoAnswer(WorldError):
    """Raised when nobody at the endpoint has answered in time. Nothing was asked for that could have an effect."""

    exit_code = 4


def ask(endpoint: str, question: Callable[[Peer, str], commands.Query], timeout_ms: int) -> answers.Told:
    """A directory's answer to `question(client, token)`. Raises NoAnswer, CannotConnect."""
    return _asked(endpoint, question, answers.Told, timeout_ms)


def _asked(endpoint: str, question: Callable[[Peer, str], Any], kind: type[T], timeout_ms: int) -> T:
    """Asks again every `REPEAT_MS`."""
    client = Peer(f"client/probe-{os.urandom(8).hex()}")
    until, again_ms = clock_ms() + timeout_ms, 0
    why = "nobody has answered"
    with ClientWire(client) as wire:
        while clock_ms() < until:
            if clock_ms() >= again_ms:
                again_ms = clock_ms() + REPEAT_MS
                wire.send(endpoint, question(client, "probe"))
            for _, message in wire.poll(max(0, min(again_ms, until) - clock_ms())):
                if isinstance(message, kind) and message.token == "probe":
                    return message
            for problem in wire.take_problems():
                why = f"{problem.kind}: {problem.detail}"
    raise NoAnswer(f"no answer from {endpoint} within {timeout_ms} ms ({why})")


def status(endpoint: str, timeout_ms: int) -> answers.StatusReport:
    """What the directory at `endpoint` says of itself and its nodes. Raises NoAnswer."""
    told: Any = ask(endpoint, commands.Status, timeout_ms)
    if not isinstance(told.answer, answers.StatusReport):
        raise NoAnswer(f"{endpoint} does not tell its status: {told.answer}")
    return told.answer


def node_status(endpoint: str, timeout_ms: int) -> requests.NodeStatus:
    """What the node at `endpoint` says of itself. Raises NoAnswer."""
    return _asked(endpoint, requests.NodeStat, requests.NodeStatus, timeout_ms)
