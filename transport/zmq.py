"""The real wire, over ZeroMQ.

    server = ServerWire("tcp://127.0.0.1:0")       # `server.address` is its peer name
    client = ClientWire("client/7f3a")             # listens nowhere
    client.send(server.address, message)           # over a connection of its own, made when first needed
    [(source, message)] = server.poll(1000)
    server.send(source, answer)                    # to an identity: back over the connection that it has made

A server is named by its address. Whoever sends to it, client or server, makes one connection to it, greets (`Hello`) and is
welcomed or rejected; nothing else leaves before that. A client is named by its identity, which one connection at a time may
speak for: a second one is refused for as long as the first is connected, and neither steals nor starves (`IdentityTaken`).
A server that comes back at its address knows nobody: a message is as good as a greeting, because its envelope says the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..core.errors import PeerError
from ..core.ids import Peer
from .base import (
    LIMITS,
    BadBytes,
    CannotBind,
    CannotConnect,
    IdentityTaken,
    Limits,
    MisuseError,
    WireClosed,
    WrongSource,
    WrongStore,
    WrongVersion,
    is_endpoint,
)
from .codec import Head, encode, open_head
from .envelope import Control, Hello, Probe, Reject, Welcome
from .links import Link, LinkState
from .polled import PolledBase, monotonic_ms
from .queues import PART_BYTES, PART_MAGIC, Assembler, Seat, Seats, Shot
from .sockets import Dealer, NoRoute, Router, Selector

_CHORE_MS: Final = 50
_RETRY_MS: Final = 1
"""A ROUTER can't say when one peer's pipe has room again, so a backlog is tried this often."""

Frames = list[memoryview]


class _ZmqWire(PolledBase):
    """A wire that connects to servers. `ServerWire` also listens."""

    def __init__(self, name: str, store_id: str, limits: Limits) -> None:
        super().__init__(name, store_id, limits)
        self.ready_fds: tuple[int, ...] = ()
        """Those of the last poll's `fds` that can be read."""
        self._route = b"pf" + os.urandom(16)
        self._nonces = 0
        self._links: dict[str, tuple[Link, Dealer]] = {}
        self._assembler = Assembler(limits, self.counters)
        self._inbox: list[tuple[Peer, Any]] = []
        self._selector = Selector()
        self._chore_ms = 0
        self._fatal: IdentityTaken | None = None
        self._selector.listen(self._wake_fd, self._send_posts)

    # ---- the interface (base.PolledWire) ------------------------------------------------------------------

    def send(self, target: str, message: Any) -> None:
        """Take one message for one peer; see `transport.base` for the duties. Raises `MisuseError` for what can't travel."""
        self._check()
        packed = self._pack(target, message)
        if packed is not None:
            if is_endpoint(target):
                self._send_link(Peer(target), *packed)
            else:
                self._send_seat(target, *packed)

    def poll(self, timeout_ms: int, fds: Sequence[int] = ()) -> list[tuple[Peer, Any]]:
        """As `base.PolledWire.poll`. Raises `IdentityTaken` once that is certain, and `WireClosed`."""
        self._check()
        self._selector.watch(tuple(fds))
        until_ms = monotonic_ms() + timeout_ms
        while True:
            self._turn(until_ms)
            if self._closing:
                self.close()
                raise WireClosed("the wire was closed by another thread")
            if self._fatal is not None:
                raise self._fatal
            if self._inbox or self._news or self._woken or self.ready_fds or monotonic_ms() >= until_ms:
                break
        self._news = self._woken = False
        inbox, self._inbox = self._inbox, []
        self.counters.received += len(inbox)
        return inbox

    def close(self) -> int:
        """As `base.PolledWire.close`. In a forked child it only forgets the wire."""
        if self._closed or os.getpid() != self._process:
            self._closed = True
            return 0
        if threading.get_ident() != self._owner:
            self._closing = True
            self.wake()
            return 0
        self._send_posts()
        until_ms = monotonic_ms() + self.limits.linger_ms
        while self._waiting() and monotonic_ms() < until_ms:
            self._inbox.clear()
            self._news = self._woken = False  # or the turns would not wait
            self._turn(until_ms)
        left = self._end()
        for link, _ in list(self._links.values()):
            left += link.outbox.clear()
            self._drop_link(link)
        left += self._close_more()
        self.counters.abandoned += left
        return left

    # ---- the loop -----------------------------------------------------------------------------------------

    def _turn(self, until_ms: int) -> None:
        """One round: timers, then wait for anything, then handle what is ready, each for a bounded number of messages."""
        now_ms = monotonic_ms()
        if now_ms >= self._chore_ms:
            self._chore_ms = now_ms + _CHORE_MS
            self._chores(now_ms)
        at_once = self._inbox or self._news or self._woken
        wait_ms = 0 if at_once else self._soonest(min(until_ms, self._chore_ms) - now_ms)
        self.ready_fds = tuple(self._selector.turn(max(0, wait_ms)))

    def _soonest(self, wait_ms: int) -> int:
        return wait_ms

    def _chores(self, now_ms: int) -> None:
        self._assembler.sweep(now_ms)
        for link, dealer in list(self._links.values()):
            state = link.overdue(now_ms)
            if state is not None:
                self._lose(link, dealer, state)
            self._greet(link, dealer, now_ms)
            if now_ms - link.used_ms >= self.limits.link_idle_ms and not link.outbox.messages:
                self._drop_link(link)

    def _waiting(self) -> bool:
        """Whether anything is queued that could still leave."""
        return any(link.outbox.messages for link, _ in self._links.values())

    def _close_more(self) -> int:
        return 0

    def _send_seat(self, identity: str, shots: list[Shot], size: int) -> None:
        self._refuse_unreachable(identity)  # a client has no connections but its own

    # ---- connections to servers ---------------------------------------------------------------------------

    def _send_link(self, endpoint: Peer, shots: list[Shot], size: int) -> None:
        link, dealer = self._links.get(endpoint) or self._connect(endpoint)
        if link is None or dealer is None or not link.usable:
            self._refuse_unreachable(endpoint)
        elif not link.outbox.put(shots, size):
            self._refuse_full(endpoint)
        else:
            self._accept(size)
            if link.state is LinkState.UP:
                self._pump(link, dealer)

    def _connect(self, endpoint: Peer) -> tuple[Link, Dealer] | tuple[None, None]:
        """A new connection; none when the address is none, or when all links are in use."""
        if len(self._links) >= self.limits.links_max:
            idle = [link for link, _ in self._links.values() if not link.outbox.messages]
            if not idle:
                return None, None
            self._drop_link(min(idle, key=lambda link: link.used_ms))
        try:
            dealer = Dealer(endpoint, self._route, self.limits)
        except CannotConnect as error:
            self._note(endpoint, "CannotConnect", str(error))
            return None, None
        link = Link(endpoint, self.limits, monotonic_ms())
        self._links[endpoint] = link, dealer
        self._selector.listen(dealer.socket, lambda: self._read_link(link, dealer))
        self._selector.listen(dealer.monitor, lambda: self._read_monitor(link, dealer))
        return link, dealer

    def _drop_link(self, link: Link) -> None:
        _, dealer = self._links.pop(link.endpoint)
        self._assembler.drop(link.endpoint)
        self._selector.forget(dealer.socket)
        self._selector.forget(dealer.monitor)
        dealer.close()

    def _lose(self, link: Link, dealer: Dealer, state: LinkState) -> None:
        given_up, news = link.lose(state)
        self.counters.abandoned += given_up
        self._assembler.drop(link.endpoint)
        self._selector.want_room(dealer.socket, False)
        if news:
            self._tell_unreachable(link.endpoint)

    def _pump(self, link: Link, dealer: Dealer) -> None:
        link.used_ms = monotonic_ms()
        link.outbox.pump(dealer.send)
        self._selector.want_room(dealer.socket, link.outbox.messages > 0)

    def _read_monitor(self, link: Link, dealer: Dealer) -> None:
        for made in dealer.happenings():
            if made:
                self._nonces += 1
                link.made(str(self._nonces), monotonic_ms())
                self._greet(link, dealer, monotonic_ms())
            elif link.state is not LinkState.DOWN:
                self._lose(link, dealer, LinkState.DOWN)

    def _greet(self, link: Link, dealer: Dealer, now_ms: int) -> None:
        hello = link.hello(self.name, now_ms)
        if hello is not None:
            dealer.send((encode(hello, self.name, store=self.store_id)[0],))

    def _read_link(self, link: Link, dealer: Dealer) -> None:
        for _ in range(self.limits.poll_batch):
            frames = dealer.receive()
            if frames is None:
                break
            try:
                self._take(link.endpoint, frames, partial(self._open_from_server, link, dealer))
            except PeerError as error:
                self._note(link.endpoint, type(error).__name__, str(error))
                if isinstance(error, WrongVersion | WrongStore):
                    self._lose(link, dealer, LinkState.REJECTED)
        if link.state is LinkState.UP and link.outbox.messages:
            self._pump(link, dealer)

    def _open_from_server(self, link: Link, dealer: Dealer, head: Head) -> Peer | None:
        message = head.envelope.message
        if isinstance(message, Welcome):
            if link.welcomed(message.nonce):
                self.store_id = self.store_id or head.envelope.store
                self._pump(link, dealer)
        elif isinstance(message, Reject):
            state = link.rejected(message, monotonic_ms())
            if state is not None:
                self._note(link.endpoint, message.reason, f"rejected by the peer: {message.detail}")
                self._lose(link, dealer, state)
                if message.reason == IdentityTaken.__name__:
                    self._fatal = IdentityTaken(f"{link.endpoint}: {message.detail}")
        elif not isinstance(message, Control):
            link.used_ms = monotonic_ms()
            return link.endpoint  # who made the connection knows who is at its other end
        return None

    # ---- what arrives -------------------------------------------------------------------------------------

    def _take(self, connection: str | bytes, frames: Frames, opened: Callable[[Head], Peer | None]) -> None:
        """One ZeroMQ message, without its route. `opened` decides whether a head is let in, and as whose. Raises `PeerError`."""
        self.counters.bytes_received += sum(map(len, frames))
        first = frames[0]
        if len(frames) == 2 and len(first) == PART_BYTES and bytes(first[:2]) == PART_MAGIC:
            done = self._assembler.add(connection, bytes(first), frames[1])
            if done is not None:
                self._inbox.append((Peer(done[0]), done[1].message))
            return
        head = open_head(first, limits=self.limits)
        if len(frames) != 1 + bool(head.groups):
            raise BadBytes(f"a message of {len(frames)} frames")
        if self.store_id and head.envelope.store not in ("", self.store_id):
            raise WrongStore(f"the peer belongs to store {head.envelope.store}, this is {self.store_id}")
        source = opened(head)
        if source is None:
            return
        if head.groups:
            self._assembler.begin(connection, source, head, bytes(frames[1]), monotonic_ms())
        else:
            self._inbox.append((source, head.envelope.message))


class ClientWire(_ZmqWire):
    """A peer that nobody connects to: it is answered over the connections that it made. `identity` is its peer name."""

    def __init__(self, identity: str, *, store_id: str = "", limits: Limits = LIMITS) -> None:
        if not identity or is_endpoint(identity):
            raise MisuseError(f"{identity!r} is no identity of a client")
        super().__init__(identity, store_id, limits)


class ServerWire(_ZmqWire):
    """A peer that listens at `bind` and is known to others as `address`: `advertise`, or where it really listens.

    Port 0 chooses a free one. Loopback is the default; listening on all interfaces needs an `advertise` that others can reach.
    Raises `CannotBind`.
    """

    def __init__(
        self, bind: str = "tcp://127.0.0.1:0", *, advertise: str = "", store_id: str = "", limits: Limits = LIMITS
    ) -> None:
        self._seats = Seats(limits)
        self._backlog: dict[str, Seat] = {}
        self._router = Router(bind, limits)
        if not advertise and ("://0.0.0.0" in self._router.address or not is_endpoint(self._router.address)):
            self._router.close()
            raise CannotBind(f"{bind} is reachable under no one address: give the one that peers shall use")
        super().__init__(advertise or self._router.address, store_id, limits)
        self.address = Peer(self.name)
        self._selector.listen(self._router.socket, self._read_router)

    # ---- to clients ---------------------------------------------------------------------------------------

    def _send_seat(self, identity: str, shots: list[Shot], size: int) -> None:
        seat = self._seats.of(identity)
        if seat is None:
            self._refuse_unreachable(identity)
        elif not seat.outbox.put(shots, size):
            self._refuse_full(identity)
        else:
            self._accept(size)
            self._pump_seat(seat)

    def _pump_seat(self, seat: Seat) -> None:
        try:
            seat.outbox.pump(lambda shot: self._router.send(seat.route, shot))
        except NoRoute:
            self.counters.abandoned += self._seats.leave(seat)
            self._assembler.drop(seat.route)
            self._tell_unreachable(seat.identity)
        if seat.outbox.messages:
            self._backlog[seat.identity] = seat
        else:
            self._backlog.pop(seat.identity, None)

    def _soonest(self, wait_ms: int) -> int:
        for seat in list(self._backlog.values()):
            self._pump_seat(seat)
        return min(wait_ms, _RETRY_MS) if self._backlog else wait_ms

    def _waiting(self) -> bool:
        return bool(self._backlog) or super()._waiting()

    def _close_more(self) -> int:
        left = sum(seat.outbox.clear() for seat in self._seats.all())
        self._router.close()
        return left

    # ---- from anybody -------------------------------------------------------------------------------------

    def _read_router(self) -> None:
        for _ in range(self.limits.poll_batch):
            frames = self._router.receive()
            if frames is None:
                break
            route = bytes(frames[0])
            try:
                if len(frames) == 1:
                    raise BadBytes("a message of no frames")
                self._take(route, frames[1:], partial(self._open_from_anybody, route))
            except PeerError as error:
                seat = self._seats.at(route)
                self._note(seat.identity if seat else f"connection {route.hex()}", type(error).__name__, str(error))
                if isinstance(error, WrongVersion | WrongStore):
                    self._reject(route, Reject("", type(error).__name__, str(error)))

    def _open_from_anybody(self, route: bytes, head: Head) -> Peer | None:
        source, message = head.envelope.source, head.envelope.message
        if isinstance(message, Probe | Welcome | Reject):
            return None
        nonce = message.nonce if isinstance(message, Hello) else ""
        if isinstance(message, Hello) and message.identity != source:
            raise WrongSource(f"{source} greets as {message.identity}")
        reason, detail = "", ""
        if not is_endpoint(source):  # a server is answered at its address, so it needs no seat
            reason, detail = self._seats.admit(source, route, self._connected)
        if reason:
            self._note(source, reason, detail)
            self._reject(route, Reject(nonce, reason, detail))
            return None
        if isinstance(message, Hello):
            self.counters.greetings += 1
            self._say(route, Welcome(nonce))
            return None
        return source

    def _connected(self, route: bytes) -> bool:
        return self._say(route, Probe())

    def _reject(self, route: bytes, reject: Reject) -> None:
        self.counters.rejections += 1
        self._say(route, reject)

    def _say(self, route: bytes, control: Control) -> bool:
        """A word to one connection; False when it is gone. When it only has no room, the word is lost: greetings are repeated."""
        try:
            self._router.send(route, (encode(control, self.name, store=self.store_id)[0],))
        except NoRoute:
            return False
        return True
