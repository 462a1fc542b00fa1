"""What a wire promises, its named limits, and its ways of failing.

A wire carries messages of `core.events.Message` between peers. Its duties, whatever is behind it:

- `send` never blocks and never raises for a peer that can't be reached. What it has to refuse or give up is counted, and
  comes back from `unreachable()` as `PeerUnreachable`: nothing is dropped without a trace at a full queue.
- A message may be lost, repeated, delayed or overtaken; it arrives whole and as it was sent, or not at all.
- What arrives is checked before it is believed: a foreign, damaged, oversize or misdirected message is a `Problem` with
  the name of a typed error, and never an exception in the loop that serves everybody else.
- Every queue, table and batch has a limit named in `Limits`.

Duties of the sender: a payload buffer that was handed to `send` must keep its bytes until the wire has let go of it (the
wire holds a reference until then and copies only small blocks). So a tier gives out private or pooled buffers, never a
view of a slot that something else may overwrite (USE-1); `weakref.finalize` on the buffer tells when it is free again.

    PeerError                                        WorldError
    |-- BadBytes      no envelope, or a wrong shape  |-- CannotBind     the address is in use, or is none
    |-- UnknownType   a type tag that we don't have  |-- CannotConnect  the address is none, or no sockets are left
    |-- Oversize      larger than a named limit      |-- IdentityTaken  another living client has this identity
    |-- WrongVersion  another protocol version       |-- WireBusy       the queue of posted messages is full
    |-- WrongStore    a peer of another store        `-- WireClosed     the wire has been closed
    `-- WrongSource   a peer that isn't who it says
    MisuseError: ours. Wrong thread, forked process, or a value that no envelope can carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import attrs
from attrs import define, field

from ..core.errors import PeerError, PinfoldError, WorldError
from ..core.events import PeerUnreachable
from ..core.ids import Peer

KIB: Final = 1024
MIB: Final = 1024 * KIB

Buffer = bytes | bytearray | memoryview
"""What a frame is made of."""


# ---- errors --------------------------------------------------------------------------------------------------


class BadBytes(PeerError):
    """Raised when frames are no envelope, or their plain form doesn't fit the type tag. The sender's fault; drop it."""


class UnknownType(PeerError):
    """Raised when the type tag names no message of this protocol version. Drop it; a newer peer may have sent it."""


class Oversize(PeerError):
    """Raised when a frame, a message or a count is above its limit, before anything is allocated for it."""


class WrongVersion(PeerError):
    """Raised when a peer speaks another protocol version. Upgrade the older of the two."""


class WrongStore(PeerError):
    """Raised when a peer belongs to another store: an address was reused, or a configuration names the wrong cluster."""


class WrongSource(PeerError):
    """Raised when a connection speaks for a peer whose connection it isn't."""


class CannotBind(WorldError):
    """Raised when a server can't listen at the address it was given. Choose another, or port 0."""


class CannotConnect(WorldError):
    """Raised when a connection can't even be attempted: the endpoint is no address, or the process has no sockets left."""

    exit_code = 4


class IdentityTaken(WorldError):
    """Raised in the later of two clients with one identity, when the earlier is still connected. End one, or rename it."""

    exit_code = 5


class WireBusy(WorldError):
    """Raised by `post` when the posted messages have reached their limit. Nothing was queued; post again later."""


class WireClosed(WorldError):
    """Raised by every call on a wire that was closed, also by another thread. Nothing more leaves."""


class MisuseError(PinfoldError):
    """Raised for a bug of the caller: a socket touched from a foreign thread or a forked process, a value that can't travel."""


@define
class Problem:
    """One message or connection that was refused. `kind` is the name of an error above, `peer` who caused it, as far as known."""

    peer: str
    kind: str
    detail: str


# ---- limits --------------------------------------------------------------------------------------------------


@define(frozen=True)
class Limits:
    """Every bound of the package, in one place. Both ends of a wire need not agree: each enforces its own."""

    head_bytes_max: int = 4 * MIB
    """The first frame of a message: the envelope and all of the message but its payload."""
    frame_bytes_max: int = 64 * MIB
    """Any one frame; the socket drops a peer that announces more. Also the largest block."""
    message_bytes_max: int = 256 * MIB
    """The payload of one message."""
    blocks_max: int = 65_536
    """Blocks in one message."""
    name_chars_max: int = 256
    """A peer's name or address, a store id."""
    frame_bytes: int = MIB
    """What a frame of small blocks is filled up to: larger frames are slower, smaller ones cost a message each."""
    small_block_bytes: int = 512 * KIB
    """Blocks below this are coalesced (copied once); others get a frame each and are not copied."""

    outbox_messages_max: int = 1_024
    """Messages that wait for one peer."""
    outbox_bytes_max: int = 512 * MIB
    """Bytes that wait for one peer."""
    socket_frames: int = 128
    """High-water mark of each ZeroMQ pipe, each way, in messages (of one frame of payload at most)."""
    assembly_bytes_max: int = 1_024 * MIB
    """Payload of messages of which some frames have not arrived, over all peers of one wire."""
    assembly_ms: int = 30_000
    """How long an incomplete message is kept."""
    clients_max: int = 4_096
    """Clients with a seat at one server."""
    links_max: int = 256
    """Connections that one wire has made to servers."""
    link_idle_ms: int = 600_000
    """A connection is closed after so long without a message either way."""
    posts_max: int = 4_096
    """Messages posted by other threads and not yet sent."""
    poll_batch: int = 256
    """ZeroMQ messages taken from one socket in one turn of the loop."""
    problems_max: int = 256
    """Problems kept until somebody takes them; older ones go, their counters stay."""

    connect_ms: int = 2_000
    """A connection not made, or a greeting not answered, by then counts as unreachable; attempts go on."""
    greet_again_ms: int = 250
    """Between two greetings on one connection."""
    clash_patience_ms: int = 4_000
    """How long a client bears `IdentityTaken` (its crashed predecessor may have a connection that is only half gone)."""
    heartbeat_ms: int = 1_000
    """ZeroMQ heartbeats; they come from its own thread, so a busy machine is not taken for a dead one."""
    heartbeat_timeout_ms: int = 3_000
    """A connection without a sign of life for so long is closed."""
    linger_ms: int = 500
    """What `close` waits for messages to leave, in each of its two stages."""

    in_flight_max: int = 100_000
    """Messages inside an in-process wire."""

    def __attrs_post_init__(self) -> None:
        if not self.frame_bytes <= self.frame_bytes_max <= self.message_bytes_max <= self.outbox_bytes_max:
            raise ValueError("limits must rise: frame_bytes, frame_bytes_max, message_bytes_max, outbox_bytes_max")
        if self.message_bytes_max > self.assembly_bytes_max or self.head_bytes_max > self.frame_bytes_max:
            raise ValueError("a message must fit the assembly, and a head must fit a frame")
        if self.small_block_bytes > self.frame_bytes:
            raise ValueError("small blocks must fit a frame")


LIMITS: Final = Limits()


@define
class Counters:
    """What a wire has done since it was made. Each message that was handed to `send` is in one of the first five."""

    accepted: int = 0
    """Taken for sending. Still no promise: the peer may go away."""
    refused_full: int = 0
    """The peer's queue was at its limit."""
    refused_unreachable: int = 0
    """No connection to the peer, or none allowed."""
    refused_oversize: int = 0
    """Larger than a named limit of our own."""
    abandoned: int = 0
    """Was accepted, then given up: its peer went away or the wire was closed before it had left."""
    received: int = 0
    bytes_sent: int = 0
    """Of accepted messages, payload included."""
    bytes_received: int = 0
    incomplete: int = 0
    """Arrived in part only, and dropped."""
    stray_parts: int = 0
    """Frames of payload that belong to no message."""
    greetings: int = 0
    rejections: int = 0
    """Greetings or messages of peers that were not admitted."""
    problems: dict[str, int] = field(factory=dict)
    """By kind."""

    def as_dict(self) -> dict[str, int]:
        """Flat, with `problem_<kind>` keys in name order."""
        flat = {a.name: getattr(self, a.name) for a in attrs.fields(Counters) if a.name != "problems"}
        return flat | {f"problem_{kind}": count for kind, count in sorted(self.problems.items())}


# ---- the interface -------------------------------------------------------------------------------------------


class PolledWire(Protocol):
    """A wire with a loop of its own process: the driver's `Wire` port, and what the owner of the loop calls.

    All but `post`, `wake` and `close` belong to the thread that made the wire.

    - `send`: take one message for one peer; see the module for the duties of both sides.
    - `poll`: wait for messages, at most `timeout_ms`, and give `(source, message)`, in order per source. Comes back
      early, perhaps with nothing, after `wake`, when `unreachable` has something to tell, and when one of `fds` can be read
      (`ready_fds` then names it). What waits for peers leaves during `poll` and `send`, so keep polling.
    - `unreachable`: take the peers to which something could not be delivered since the last call; each once.
    - `take_problems`: take what was refused since the last call, for the log.
    - `post`: `send` for other threads, queued in order and sent by the loop. Raises `WireBusy`, `WireClosed`.
    - `wake`: make a `poll` that waits come back.
    - `close`: let queued messages leave for a bounded time, then end; gives the number of those that did not leave. From another
      thread: asks the loop to; its `poll` then closes and raises `WireClosed`.
    """

    counters: Counters
    ready_fds: tuple[int, ...]

    def send(self, target: str, message: Any) -> None: ...

    def poll(self, timeout_ms: int, fds: Sequence[int] = ()) -> list[tuple[Peer, Any]]: ...

    def unreachable(self) -> list[PeerUnreachable]: ...

    def take_problems(self) -> list[Problem]: ...

    def post(self, target: str, message: Any) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> int: ...


def is_endpoint(peer: str) -> bool:
    """Whether a peer is named by its address (a server) and not by an identity (a client)."""
    return peer.startswith(("tcp://", "ipc://"))
