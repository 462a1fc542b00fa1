"""ZeroMQ, and nothing else: the sockets that the wires of `transport/zmq.py` use. The only module that imports the library.

Why each socket is as it is: ROUTER_MANDATORY, or a ROUTER throws away what it can't deliver and reports success; NOBLOCK
everywhere, or a full pipe to a peer that then dies blocks for ever; LINGER at creation, or shutdown waits for a dead peer without
limit; IMMEDIATE, so that nothing is queued for a connection that doesn't exist and nothing stale reaches a restarted server;
ROUTER_HANDOVER, because a route (routing id) is a secret random number, so the same one is the same peer, reconnected, while its
old connection may still look alive. Which peer may speak for which identity is decided by `queues.Seats`, not by ZeroMQ.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from ..core.errors import WorldError
from .base import CannotBind, CannotConnect, Limits
from .queues import Shot

_Socket = zmq.Socket[bytes]

_COPY_BELOW: Final = 64 * 1024
"""Copying a small frame costs less than handing over its memory."""
_FRAMES_MAX: Final = 4
"""Of one ZeroMQ message, its route included; ours have at most three."""


class NoRoute(Exception):
    """Raised when no connection has this route any more. Stays inside this package."""


# ---- one context per process ---------------------------------------------------------------------------------


class _Contexts:
    """The context of this process, from its first wire to its last. Ending it waits for what lingers, which is bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._users = 0
        self._context: zmq.Context[_Socket] | None = None
        self._inherited: list[object] = []  # of a parent process: never to be touched, not even by the garbage collector

    def acquire(self) -> zmq.Context[_Socket]:
        with self._lock:
            if self._context is None or self._process != os.getpid():
                if self._context is not None:
                    self._inherited.append(self._context)
                self._context, self._process, self._users = zmq.Context(), os.getpid(), 0
            self._users += 1
            return self._context

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._context if self._users == 0 else None
            if last is not None:
                self._context = None
        if last is not None:
            last.term()  # waits for what lingers; a wire that is made meanwhile has a context of its own


_contexts = _Contexts()


def _configure(socket: _Socket, limits: Limits) -> None:
    """The options of every socket, before it binds or connects."""
    for option, value in (
        (zmq.LINGER, limits.linger_ms),
        (zmq.SNDHWM, limits.socket_frames),
        (zmq.RCVHWM, limits.socket_frames),
        (zmq.MAXMSGSIZE, limits.frame_bytes_max),
        (zmq.HEARTBEAT_IVL, limits.heartbeat_ms),
        (zmq.HEARTBEAT_TIMEOUT, limits.heartbeat_timeout_ms),
        (zmq.HEARTBEAT_TTL, limits.heartbeat_timeout_ms),
        (zmq.HANDSHAKE_IVL, limits.heartbeat_timeout_ms),
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, 30),
        (zmq.TCP_KEEPALIVE_INTVL, 10),
        (zmq.TCP_KEEPALIVE_CNT, 3),
        (zmq.IPV6, 0),
    ):
        socket.setsockopt(option, value)


class _Ends:
    """What both kinds of socket do."""

    def __init__(self, kind: int, limits: Limits, failure: type[WorldError]) -> None:
        try:
            self.socket: _Socket = _contexts.acquire().socket(kind)
        except zmq.ZMQError as error:
            _contexts.release()
            raise failure(f"no socket: {error}") from error
        _configure(self.socket, limits)

    def receive(self) -> list[memoryview] | None:
        """One ZeroMQ message (its route first, from a ROUTER), uncopied; None when there is none. Never waits."""
        try:
            frame = self.socket.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        frames = [frame.buffer]
        while frame.more:
            frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            if len(frames) < _FRAMES_MAX:
                frames.append(frame.buffer)
        return frames

    def _send(self, frames: Shot) -> bool:
        """One ZeroMQ message; False when there is no room for it now. Never waits."""
        try:
            for frame in frames[:-1]:
                self.socket.send(frame, zmq.NOBLOCK | zmq.SNDMORE)
            self.socket.send(frames[-1], zmq.NOBLOCK, copy=len(frames[-1]) < _COPY_BELOW)
        except zmq.Again:
            return False  # only ever at the first frame: ZeroMQ has room for all of a message, or for none
        return True

    def close(self) -> None:
        """Let what was sent leave for as long as it may linger; the last one to close waits for that."""
        self.socket.close()
        _contexts.release()


class Dealer(_Ends):
    """One connection to one server, made and made again in the background. Raises `CannotConnect`."""

    _EVENTS: Final = (
        zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    )  # fmt: skip

    def __init__(self, endpoint: str, route: bytes, limits: Limits) -> None:
        super().__init__(zmq.DEALER, limits, CannotConnect)
        for option, value in (
            (zmq.IMMEDIATE, 1),
            (zmq.RECONNECT_IVL, 20),
            (zmq.RECONNECT_IVL_MAX, 1_000),
            (zmq.CONNECT_TIMEOUT, limits.connect_ms),
        ):
            self.socket.setsockopt(option, value)
        self.socket.setsockopt(zmq.ROUTING_ID, route)
        self.monitor: _Socket | None = None
        try:
            self.monitor = self.socket.get_monitor_socket(self._EVENTS)
            self.socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise CannotConnect(f"can't connect to {endpoint}: {error}") from error

    def send(self, shot: Shot) -> bool:
        return self._send(shot)

    def happenings(self) -> list[bool]:
        """What the connection has gone through since the last call: True for made (the ZeroMQ handshake included), False for
        lost, refused or failed."""
        happened: list[bool] = []
        while self.monitor is not None:
            try:
                event = recv_monitor_message(self.monitor, zmq.NOBLOCK)
            except zmq.Again:
                break
            happened.append(event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED)
        return happened

    def close(self) -> None:
        if self.monitor is not None:
            self.socket.disable_monitor()
            self.monitor.close(0)
        super().close()


class Router(_Ends):
    """A listening socket. `address` is where it really listens. Raises `CannotBind`."""

    def __init__(self, bind: str, limits: Limits) -> None:
        super().__init__(zmq.ROUTER, limits, CannotBind)
        self._lock_fd = -1
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            if bind.startswith("ipc://"):
                self._lock_path(bind.removeprefix("ipc://"))
            self.socket.bind(bind)
        except (zmq.ZMQError, OSError) as error:
            self.close()
            raise CannotBind(f"can't listen at {bind}: {error}") from error
        self.address: str = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def _lock_path(self, path: str) -> None:
        """ZeroMQ removes the file of a socket that somebody listens at and takes its place; the lock refuses that."""
        self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(errno.EADDRINUSE, "another server listens there") from error

    def send(self, route: bytes, shot: Shot) -> bool:
        """As `Dealer.send`. Raises `NoRoute` when the connection is gone."""
        try:
            return self._send((route, *shot))
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                raise NoRoute from None
            raise

    def close(self) -> None:
        super().close()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


class Selector:
    """Waits for sockets and file descriptors, and calls the handler of what is ready."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Callable[[], None]] = {}
        self._roomy: set[Any] = set()
        self._watched: tuple[int, ...] = ()

    def listen(self, key: Any, handler: Callable[[], None]) -> None:
        self._poller.register(key, zmq.POLLIN)
        self._handlers[key] = handler

    def watch(self, fds: tuple[int, ...]) -> None:
        """Watch these descriptors of somebody else, and no longer the earlier ones."""
        if fds != self._watched:
            for fd in self._watched:
                self._poller.unregister(fd)
            for fd in fds:
                self._poller.register(fd, zmq.POLLIN)
            self._watched = fds

    def want_room(self, key: Any, wanted: bool) -> None:
        """Whether to call the handler also when the socket has room for another message."""
        if wanted != (key in self._roomy):
            self._poller.modify(key, zmq.POLLIN | zmq.POLLOUT if wanted else zmq.POLLIN)
            (self._roomy.add if wanted else self._roomy.discard)(key)

    def forget(self, key: Any) -> None:
        self._poller.unregister(key)
        self._roomy.discard(key)
        del self._handlers[key]

    def turn(self, wait_ms: int) -> list[int]:
        """Wait, call the handlers, and give the watched descriptors that can be read."""
        readable = []
        for key, _ in self._poller.poll(wait_ms):
            handler = self._handlers.get(key)
            if handler is not None:
                handler()
            elif key in self._watched:  # else a handler called before has closed it
                readable.append(key)
        return readable
