"""A connection to a server as its maker sees it: made, greeted, welcomed, lost. Without any socket.

    CONNECTING -made-> GREETING -Welcome-> UP          messages wait in the outbox until UP
        |                 |                 |
        `----- too late, lost or rejected --'--> DOWN | SILENT | REJECTED   messages are refused at once

ZeroMQ goes on connecting whatever the state, and greetings go on while a connection exists, so that every state but UP may
still become UP.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ..core.ids import Peer
from .base import IdentityTaken, Limits
from .envelope import Hello, Reject
from .queues import Outbox


class LinkState(IntEnum):
    CONNECTING = 0
    GREETING = 1
    UP = 2
    SILENT = 3
    """Connected, but the greeting was not answered in time."""
    DOWN = 4
    REJECTED = 5


_USABLE: Final = (LinkState.CONNECTING, LinkState.GREETING, LinkState.UP)


class Link:
    """See the module. Times are in ms of the caller's clock."""

    def __init__(self, endpoint: Peer, limits: Limits, now_ms: int) -> None:
        self.endpoint = endpoint
        self.state = LinkState.CONNECTING
        self.outbox = Outbox(limits)
        self.used_ms = now_ms
        self._limits = limits
        self._nonce = ""  # of the greeting on the present connection; "" without one
        self._greet_ms = 0
        self._overdue_ms = now_ms + limits.connect_ms
        self._taken_ms: int | None = None  # since when the identity has been taken

    @property
    def usable(self) -> bool:
        """Whether messages are taken."""
        return self.state in _USABLE

    def made(self, nonce: str, now_ms: int) -> None:
        """There is a connection, an earlier one is over; greet next."""
        self._nonce = nonce
        self._greet_ms = now_ms
        self._overdue_ms = now_ms + self._limits.connect_ms
        self.state = LinkState.GREETING

    def hello(self, identity: str, now_ms: int) -> Hello | None:
        """The greeting, when it is time for one (again)."""
        if not self._nonce or self.state is LinkState.UP or now_ms < self._greet_ms:
            return None
        again_ms = self._limits.greet_again_ms if self.state is LinkState.GREETING else self._limits.connect_ms
        self._greet_ms = now_ms + again_ms
        return Hello(identity, self._nonce)

    def welcomed(self, nonce: str) -> bool:
        """Whether the answer is one to the present greeting; then the link is UP."""
        if nonce != self._nonce or not nonce:
            return False
        self.state = LinkState.UP
        self._taken_ms = None
        return True

    def rejected(self, reject: Reject, now_ms: int) -> LinkState | None:
        """The state to lose the link into; None to go on greeting, because the identity may soon be free."""
        if reject.nonce not in ("", self._nonce):
            return None
        if reject.reason != IdentityTaken.__name__:
            return LinkState.REJECTED
        if self._taken_ms is None:
            self._taken_ms = now_ms
        until_ms = self._taken_ms + self._limits.clash_patience_ms
        if now_ms >= until_ms:
            return LinkState.REJECTED
        self.state = LinkState.GREETING
        self._overdue_ms = until_ms + self._limits.connect_ms
        return None

    def overdue(self, now_ms: int) -> LinkState | None:
        """The state to lose the link into because nothing came in time, if so."""
        if now_ms < self._overdue_ms:
            return None
        return {LinkState.CONNECTING: LinkState.DOWN, LinkState.GREETING: LinkState.SILENT}.get(self.state)

    def lose(self, state: LinkState) -> tuple[int, bool]:
        """Nothing can be carried now: `(number of messages given up, whether that is news)`."""
        given_up = self.outbox.clear()
        news = self.usable or given_up > 0
        if state is LinkState.DOWN:
            self._nonce = ""
        self.state = state
        return given_up, news
