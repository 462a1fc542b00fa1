"""The bounded tables behind a wire, without any socket: what waits for a peer, who sits where, what has arrived in part.

ZeroMQ bounds its queues by messages; one message here may be 64 MiB or 60 bytes, so bytes are bounded in these. A message
with payload travels as several ZeroMQ messages (*shots*), one per frame: in one multipart message nothing would leave before
the last frame was queued and nothing arrive before the last frame was there, which costs a third of the rate.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from attrs import define, field

from .base import BadBytes, Buffer, Counters, Limits, Oversize
from .codec import Head
from .envelope import VERSION, Envelope

Shot = tuple[Buffer, ...]
"""One ZeroMQ message: `(head,)`, `(head, part)` when payload follows, `(part, payload frame)`."""

PART_MAGIC: Final = b"PP"
_PART: Final = struct.Struct(">2sBxIQ")
"""Magic, version, index of the frame (in a head: their number), number of the message on its connection."""
PART_BYTES: Final = _PART.size


def pack_part(index: int, number: int) -> bytes:
    return _PART.pack(PART_MAGIC, VERSION, index, number)


def unpack_part(data: bytes) -> tuple[int, int] | None:
    """`(index, number)`, or None for anything else."""
    if len(data) != PART_BYTES:
        return None
    magic, version, index, number = _PART.unpack(data)
    return (index, number) if (magic, version) == (PART_MAGIC, VERSION) else None


def shots_of(frames: list[Buffer], number: int) -> list[Shot]:
    """One message's frames as the ZeroMQ messages that carry it."""
    head, *payload = frames
    if not payload:
        return [(head,)]
    parts: list[Shot] = [(pack_part(index, number), frame) for index, frame in enumerate(payload)]
    return [(head, pack_part(len(payload), number)), *parts]


# ---- outgoing ------------------------------------------------------------------------------------------------


class Outbox:
    """What waits for one peer, in order, whole messages in and shots out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shots: deque[tuple[Shot, int]] = deque()  # the message's size stands at its last shot, 0 at others
        self.messages = 0
        self.bytes = 0

    def put(self, shots: list[Shot], size: int) -> bool:
        """Queue a message of `size` bytes; False, and no change, when a limit would be passed."""
        if self.messages >= self._limits.outbox_messages_max or self.bytes + size > self._limits.outbox_bytes_max:
            return False
        self._shots.extend((shot, 0) for shot in shots[:-1])
        self._shots.append((shots[-1], size))
        self.messages += 1
        self.bytes += size
        return True

    def pump(self, send: Callable[[Shot], bool]) -> None:
        """Send shots in order until `send` says no."""
        while self._shots:
            shot, size = self._shots[0]
            if not send(shot):
                return
            self._shots.popleft()
            if size:
                self.messages -= 1
                self.bytes -= size

    def clear(self) -> int:
        """Give everything up; the number of messages that had not left as a whole."""
        given_up = self.messages
        self._shots.clear()
        self.messages = self.bytes = 0
        return given_up


# ---- who sits where ------------------------------------------------------------------------------------------


@define(eq=False)
class Seat:
    """One admitted client: its identity, and the routing id of the one connection that may speak for it."""

    identity: str
    route: bytes
    outbox: Outbox


class Seats:
    """Identity to connection, one to one.

    A client chooses its routing id at random, once in its life, and tells it to nobody else: a connection that comes with
    the same one is the same life, reconnected.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_identity: dict[str, Seat] = {}
        self._by_route: dict[bytes, Seat] = {}

    def __len__(self) -> int:
        return len(self._by_identity)

    def of(self, identity: str) -> Seat | None:
        return self._by_identity.get(identity)

    def at(self, route: bytes) -> Seat | None:
        return self._by_route.get(route)

    def all(self) -> list[Seat]:
        return list(self._by_identity.values())

    def admit(self, identity: str, route: bytes, connected: Callable[[bytes], bool]) -> tuple[str, str]:
        """Give `identity` to the connection `route`, or say why not: `(name of an error, detail)`, `("", "")` for yes.

        `connected` tells whether a routing id still has a connection; a holder without one has left, and is replaced.
        """
        sitting = self._by_route.get(route)
        if sitting is not None:
            if sitting.identity == identity:
                return "", ""
            return "WrongSource", f"this connection is {sitting.identity}, and can't speak as {identity}"
        holder = self._by_identity.get(identity)
        if holder is not None:
            if connected(holder.route):
                return "IdentityTaken", f"another client is connected as {identity}"
            self.leave(holder)
        if len(self) >= self._limits.clients_max:
            for seat in self.all():
                if not connected(seat.route):
                    self.leave(seat)
            if len(self) >= self._limits.clients_max:
                return "WireBusy", f"all seats are taken (clients_max is {self._limits.clients_max})"
        seat = Seat(identity, route, Outbox(self._limits))
        self._by_identity[identity] = self._by_route[route] = seat
        return "", ""

    def leave(self, seat: Seat) -> int:
        """The connection is gone; gives the number of messages that waited for it."""
        if self._by_identity.pop(seat.identity, None) is not None:
            del self._by_route[seat.route]
        return seat.outbox.clear()


# ---- incoming ------------------------------------------------------------------------------------------------


@define(eq=False)
class _Partial:
    number: int
    head: Head
    source: str
    until_ms: int
    frames: list[memoryview] = field(factory=list)


class Assembler:
    """Messages of which the head has come and the payload is coming: at most one per connection, bounded in bytes and time.

    A connection delivers in order and without gaps while it lives, so a frame that is not the next one, or another head that
    announces a payload, means that the connection was lost in between: what is there is dropped and counted.
    """

    def __init__(self, limits: Limits, counters: Counters) -> None:
        self._limits = limits
        self._counters = counters
        self._partials: dict[Hashable, _Partial] = {}
        self._bytes = 0

    def begin(self, connection: Hashable, source: str, head: Head, part: bytes, now_ms: int) -> None:
        """Expect the payload of `head`. Raises `BadBytes`, or `Oversize` when too much is incomplete already."""
        self.drop(connection)
        announced = unpack_part(part)
        if announced is None or announced[0] != len(head.groups):
            raise BadBytes("the head is not followed by the number of its payload frames")
        if self._bytes + head.payload_bytes > self._limits.assembly_bytes_max:
            raise Oversize(f"incomplete messages have reached assembly_bytes_max, {self._limits.assembly_bytes_max}")
        self._bytes += head.payload_bytes
        until_ms = now_ms + self._limits.assembly_ms
        self._partials[connection] = _Partial(announced[1], head, source, until_ms)

    def add(self, connection: Hashable, part: bytes, frame: memoryview) -> tuple[str, Envelope] | None:
        """Take a payload frame; `(source, envelope)` when it was the last. Raises `BadBytes` for a frame of a wrong size."""
        partial = self._partials.get(connection)
        if partial is None or unpack_part(part) != (len(partial.frames), partial.number):
            self._counters.stray_parts += 1
            self.drop(connection)
            return None
        announced = sum(partial.head.groups[len(partial.frames)])
        if frame.nbytes != announced:  # before it is kept: the limit on incomplete messages goes by what was announced
            self.drop(connection)
            raise BadBytes(f"the head announces a payload frame of {announced} bytes, it has {frame.nbytes}")
        partial.frames.append(frame)
        if len(partial.frames) < len(partial.head.groups):
            return None
        self._forget(connection)
        return partial.source, partial.head.finish(partial.frames)

    def drop(self, connection: Hashable) -> None:
        """Whatever has come of a message on this connection is void."""
        if connection in self._partials:
            self._counters.incomplete += 1
            self._forget(connection)

    def sweep(self, now_ms: int) -> None:
        """Drop what has not been completed in time."""
        for connection in [c for c, partial in self._partials.items() if partial.until_ms <= now_ms]:
            self.drop(connection)

    def _forget(self, connection: Hashable) -> None:
        self._bytes -= self._partials.pop(connection).head.payload_bytes
