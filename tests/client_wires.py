"""A cluster model behind a connection: a wire that is a queue between threads."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from pinfold.core.events import PeerUnreachable
from pinfold.transport.base import MisuseError, Problem
from tests.client_cluster import FakeCluster


class QueueWire:
    """Everything that is sent is answered by `cluster` in the next `poll`, unless it is `silent`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.silent = False
        self.closed = False
        self.poison: type | None = None
        """Messages of this type can't travel."""
        self.fatal: BaseException | None = None
        """Raised by the next `poll`."""
        self.lock = threading.Lock()  # over the cluster, which tests look into
        self._answers: deque[Any] = deque()
        self._woken = threading.Event()

    def send(self, target: str, message: Any) -> None:
        if self.poison is not None and isinstance(getattr(message, "body", message), self.poison):
            raise MisuseError("a value that can't travel")
        if not self.silent:
            with self.lock:
                self._answers += self.cluster.receive(target, message)

    def poll(self, timeout_ms: int) -> list[tuple[Any, Any]]:
        if self.fatal is not None:
            raise self.fatal
        if not self._answers:
            self._woken.wait(timeout_ms / 1000)
        self._woken.clear()
        answers, self._answers = self._answers, deque()
        return [("directory/0", answer) for answer in answers] + [("stranger", "no message of ours")]

    def unreachable(self) -> list[PeerUnreachable]:
        return []

    def take_problems(self) -> list[Problem]:
        return []

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.closed = True
