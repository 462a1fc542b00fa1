"""What every polled wire has besides its sockets: one owner thread, posts of other threads, problems, undeliverable messages.

Sockets of ZeroMQ end the whole process, sooner or later, when two threads or a forked child touch them. So the owner is checked
on every call, and other threads have exactly three doors: `post`, `wake` and `close`.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import Any, Self

from ..core.events import PeerUnreachable
from ..core.ids import Peer
from .base import Counters, Limits, MisuseError, Oversize, Problem, WireBusy, WireClosed
from .codec import encode
from .queues import Shot, shots_of


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class PolledBase(ABC):
    """See the module. `name` is the source of what is sent; `store_id` "" means: not known yet."""

    def __init__(self, name: str, store_id: str, limits: Limits) -> None:
        self.name = name
        self.store_id = store_id
        self.limits = limits
        self.counters = Counters()
        self._news = False  # something for `unreachable` has come since the last poll came back
        self._woken = False
        self._unreachable: dict[Peer, None] = {}
        self._problems: deque[Problem] = deque(maxlen=limits.problems_max)
        self._message_number = 0
        self._owner = threading.get_ident()
        self._process = os.getpid()
        self._lock = threading.Lock()  # over all below
        self._posts: deque[tuple[str, Any]] = deque()
        self._knocked = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closing = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def send(self, target: str, message: Any) -> None:
        """See `base.PolledWire`."""

    @abstractmethod
    def close(self) -> int:
        """See `base.PolledWire`."""

    # ---- for the owner ------------------------------------------------------------------------------------

    def unreachable(self) -> list[PeerUnreachable]:
        """Take the peers to which something could not be delivered since the last call; each once."""
        peers, self._unreachable = self._unreachable, {}
        return [PeerUnreachable(peer) for peer in peers]

    def take_problems(self) -> list[Problem]:
        """Take what was refused since the last call, for the log. The oldest are gone if there were many; see the counters."""
        problems = list(self._problems)
        self._problems.clear()
        return problems

    # ---- for any thread -----------------------------------------------------------------------------------

    def post(self, target: str, message: Any) -> None:
        """Queue a message for the loop to send; posts of one thread keep their order. Raises `WireBusy`, `WireClosed`."""
        self._check_process()
        with self._lock:
            if self._closing or self._closed:
                raise WireClosed("the wire is closed; the message was not queued")
            if len(self._posts) >= self.limits.posts_max:
                raise WireBusy(f"posts_max, {self.limits.posts_max}, is reached; the message was not queued")
            self._posts.append((target, message))
            os.eventfd_write(self._wake_fd, 1)

    def wake(self) -> None:
        """Make a `poll` that waits come back. Harmless on a closed wire."""
        self._check_process()
        with self._lock:
            if not self._closed:
                self._knocked = True
                os.eventfd_write(self._wake_fd, 1)

    # ---- inside -------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """The guard of every call of the owner. Raises `WireClosed`, `MisuseError`."""
        if self._closed:
            raise WireClosed("the wire is closed")
        self._check_process()
        if threading.get_ident() != self._owner:
            raise MisuseError("a wire belongs to the thread that made it; other threads post(), wake() or close()")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise MisuseError("a wire does not survive a fork: make a new one in the child")

    def _take_posts(self) -> list[tuple[str, Any]]:
        """What other threads want sent. `_woken` is set here only, by the owner, so that no knock is lost between two polls."""
        with self._lock:
            posts, self._posts = list(self._posts), deque()
            self._woken, self._knocked = self._woken or self._knocked, False
            with suppress(BlockingIOError):  # nobody has written since the last time
                os.eventfd_read(self._wake_fd)
        return posts

    def _send_posts(self) -> None:
        for target, message in self._take_posts():
            try:
                self.send(target, message)
            except MisuseError as error:  # of the thread that posted; the loop serves others too
                self._note(target, "MisuseError", str(error))

    def _end(self) -> int:
        """Close the doors for other threads; the number of posts that nobody will send."""
        with self._lock:
            self._closed = True
            left = len(self._posts)
            self._posts.clear()
            os.close(self._wake_fd)
        return left

    def _note(self, peer: str, kind: str, detail: str) -> None:
        self.counters.problems[kind] = self.counters.problems.get(kind, 0) + 1
        self._problems.append(Problem(peer, kind, detail))

    def _tell_unreachable(self, peer: str) -> None:
        self._unreachable[Peer(peer)] = None
        self._news = True

    def _pack(self, target: str, message: Any) -> tuple[list[Shot], int] | None:
        """A message as shots, and its size in bytes. None, and a problem, when it is above a limit: a server must not end
        because somebody asked it for an answer that is too long."""
        try:
            frames = encode(message, self.name, store=self.store_id, limits=self.limits)
        except Oversize as error:
            self.counters.refused_oversize += 1
            self._note(target, "Oversize", str(error))
            return None
        self._message_number += 1
        return shots_of(frames, self._message_number), sum(map(len, frames))

    def _accept(self, size: int) -> None:
        self.counters.accepted += 1
        self.counters.bytes_sent += size

    def _refuse_full(self, peer: str) -> None:
        self.counters.refused_full += 1
        self._tell_unreachable(peer)

    def _refuse_unreachable(self, peer: str) -> None:
        self.counters.refused_unreachable += 1
        self._tell_unreachable(peer)
