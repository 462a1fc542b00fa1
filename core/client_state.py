"""The client machine's records: what it has asked, what it holds, what it believes; and its configuration.

Records are treated as frozen: a change puts a new record into a table, so that `copy` need only copy the tables.
Who waits for what is always in here, never in a closure: a call names the number, the exchanges or the instant it waits for.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Any

from attrs import define, field

from .answers import Route
from .breaker import Breaker, BreakerLimits
from .calls import CallId, Op
from .commands import Batch, Body, Unpin, Unref
from .ids import CopyId, GroupId, HoldId, HoldKind, NodeName, Peer, SessionId, Tier
from .rate import TokenBucket, full

BACKGROUND: CallId = ""
"""The owner of what nobody waits for any more: cancels, releases, aborts, the session's own messages."""


class Degradation(IntEnum):
    """What to do when the directory or a node can't be reached, or nothing can be read."""

    ERROR = 0
    """Say so."""
    RECOMPUTE = 1
    """Say so, and advise to compute the group again."""
    LOCAL_ONLY = 2
    """Read by cached routes at the near node without asking the directory; change nothing."""
    REFUSE = 3
    """`Degraded`: the caller should turn the request (a long context) away."""


@define(frozen=True)
class ClientConfig:
    """Every limit and time of the client machine. Times in milliseconds, sizes in bytes."""

    client: Peer
    """This client's wire address, `client/<token>`."""
    directories: tuple[Peer, ...]
    """Addresses of one shard's directory; the next one is tried when one does not answer."""
    boot: str
    """Unique for each life of a client: tokens start with it."""
    seed: int = 0
    session_name: str = ""
    """A name to resume a session by; "" makes a fresh one."""
    lease_ms: int = 10_000
    keep_session: bool = False
    """Renew the session also while there are neither calls nor holds."""
    near: NodeName = NodeName("")
    """The node that this client would rather read from, and the one of `LOCAL_ONLY`."""

    timeout_ms: int = 10_000
    """For calls that name none."""
    attempt_ms: int = 250
    """How long to wait for the directory's answer before repeating."""
    node_attempt_ms: int = 1_000
    """The same for a node, which may have a megabyte to move first."""
    backoff_ms: int = 20
    backoff_max_ms: int = 2_000
    await_slice_ms: int = 1_000
    """How long one `Await` may wait at the directory: the most that a lost answer costs."""
    reserve_wait_ms: int = 2_000
    """How long a node may not know a copy that the directory has just created: its order may be slower than our answer."""
    background_ms: int = 60_000
    """How long a cancel, release or abort that nobody waits for is repeated. Then the session is given up, which ends all
    its holds by its lease."""

    calls_max: int = 1_024
    queue_max: int = 1_024
    """Commands without a number yet. What only gives back may exceed it (rule 13), by at most one for each hold."""
    window: int = 32
    """Unanswered numbers; not more than the directory's window."""
    holds_max: int = 65_536
    routes_max: int = 4_096
    peers_max: int = 1_024
    aborts_max: int = 256
    lost_holds_max: int = 4_096
    route_attempts: int = 4
    """How often a read may find its route stale."""
    put_attempts: int = 3
    """How often a put may start again after its node was lost."""
    node_attempts: int = 3
    """How often one request to a node is sent."""

    calls_per_s: int = 0
    """The client's own rate limit; 0: none. What only gives back is never held up."""
    calls_burst: int = 100
    retries_per_s: int = 200
    retries_burst: int = 400
    breaker: BreakerLimits = BreakerLimits()

    write_chunk_bytes: int = 1 << 20
    write_window: int = 8
    read_chunk_bytes: int = 1 << 20
    chunk_blocks_max: int = 256
    """Blocks in one request to a node, however small they are."""
    read_window: int = 8
    degradation: Degradation = Degradation.ERROR
    wait_joined: bool = True
    """A put of a group that somebody else is writing: wait until it is readable, or fail `NotSealed`."""
    optimistic_reads: bool = False
    """Read by a cached route without a PIN where the caller wants none: one round trip, and a stale route costs one more."""


@define
class Timer:
    """When to act on something that was sent. `waiting`: an answer is due; else: it is to be sent (again) then."""

    due: int
    attempts: int = 0
    waiting: bool = False


@define
class Numbered:
    """One number without an answer. `cancelled`: `Cancel` is sent in place of `body` now. `early`: was told `Early`.

    `give_up` 0: its owner's deadline bounds it.
    """

    sequence: int
    body: Body | Batch
    owner: CallId
    slot: str
    timer: Timer
    cancelled: bool = False
    early: bool = False
    give_up: int = 0


@define
class Queued:
    """A command that has no number yet, so surely nothing of it has happened."""

    owner: CallId
    slot: str
    body: Body | Batch


@define
class Exchange:
    """A message with a token, repeated as it is until its answer comes. `target` "" is the directory.

    `slot` says which step of its owner it belongs to. `give_up` 0: its owner's deadline bounds it.
    """

    token: str
    target: Peer
    message: Any
    owner: CallId
    slot: str
    started: int
    timer: Timer
    give_up: int = 0
    extra_ms: int = 0
    """How much longer than usual an answer may take (an `Await` waits at the directory)."""


class SessionPhase(IntEnum):
    NONE = 0
    OPENING = 1
    OPEN = 2
    CLOSING = 3


@define
class Session:
    """`opening` rises with each session that has ended, so that a token never opens two. `renewed_at`: the instant from
    which the lease certainly counts (the sending of what was answered)."""

    phase: SessionPhase = SessionPhase.NONE
    opening: int = 1
    session: SessionId = SessionId(0)
    lease_ms: int = 0
    renewed_at: int = 0
    renew_at: int = 0
    resumed: bool = False


@define
class Held:
    """A hold that this client has to give back."""

    kind: HoldKind
    request: str


@define
class CachedRoute:
    """`near` is what it was asked with; `(term, revision)` when it was true."""

    route: Route
    near: NodeName
    term: int
    revision: int


@define
class Part:
    """What one `Blocks` brought: from position `at` of the blocks asked for."""

    at: int
    checksums: tuple[int, ...]
    tier: Tier
    data: tuple[Any, ...]


@define
class CallRecord:
    """A call without an answer. It waits for its number (`queued` or `sequence`), for `tokens`, or for `sleep_until`."""

    call: CallId
    op: Op
    started: int
    deadline: int
    step: str = "start"
    attempt: int = 0
    waits: int = 0
    """Pauses taken in a row; the next one is longer."""
    queued: bool = False
    sequence: int = 0
    tokens: tuple[str, ...] = ()
    sleep_until: int = 0
    hold: HoldId | None = None
    """Taken for this call; released when it ends, unless handed over."""
    route: Route | None = None
    local: bool = False
    """Reading without a PIN."""
    writing: Peer | None = None
    """The node at which `copy` is being written; told `AbortWrite` unless the put succeeds."""
    copy: CopyId | None = None
    unknown_until: int = 0
    """Until then the node may not have heard of `copy`; 0 once it has."""
    unsure: bool = False
    """An earlier attempt may have had its effect after all."""
    cursor: int = 0
    """The next block to ask for or to write, as a position."""
    parts: tuple[Part, ...] = ()


@define
class ClientState:
    """All there is. `(term, revision)` is the newest truth used so far: older answers to queries are asked again."""

    random: int
    calls_bucket: TokenBucket
    retries_bucket: TokenBucket
    tokens: int = 0
    directory: int = 0
    """Index into `config.directories`."""
    session: Session = field(factory=Session)
    next_sequence: int = 1
    term: int = 0
    revision: int = 0
    numbers: dict[int, Numbered] = field(factory=dict)
    """In ascending order."""
    queue: deque[Queued] = field(factory=deque)
    releases: deque[Unpin | Unref] = field(factory=deque)
    """Given a number before anything in `queue`."""
    exchanges: dict[str, Exchange] = field(factory=dict)
    calls: dict[CallId, CallRecord] = field(factory=dict)
    holds: dict[HoldId, Held] = field(factory=dict)
    """HOLD-1 as far as this client knows: handed to callers, or in use by calls."""
    lost_holds: tuple[HoldId, ...] = ()
    """Ended by the directory or with their session; the newest last, the oldest forgotten at the limit."""
    routes: dict[GroupId, CachedRoute] = field(factory=dict)
    """The least recently used first."""
    breakers: dict[Peer, Breaker] = field(factory=dict)
    """Peers that have failed since their last answer."""
    counters: dict[str, int] = field(factory=dict)
    alarm: int | None = None

    def copy(self) -> ClientState:
        new = ClientState(self.random, self.calls_bucket, self.retries_bucket)
        for name in _SCALARS:
            setattr(new, name, getattr(self, name))
        for name in _TABLES:
            setattr(new, name, getattr(self, name).copy())
        return new

    @property
    def low(self) -> int:
        """The lowest number without an answer (rule 1)."""
        return next(iter(self.numbers), self.next_sequence)


_TABLES = ("numbers", "queue", "releases", "exchanges", "calls", "holds", "routes", "breakers", "counters")
_SCALARS = ("tokens", "directory", "session", "next_sequence", "term", "revision", "lost_holds", "alarm")


def fresh(config: ClientConfig) -> ClientState:
    return ClientState(config.seed, full(config.calls_burst), full(config.retries_burst))


def audit(state: ClientState, config: ClientConfig) -> tuple[str, ...]:
    """What is wrong with a state: always nothing. Every call has something that will wake it, no table exceeds its limit,
    and every number, exchange and hold belongs to somebody (ANSWER-1, ONCE-1, HOLD-1 on the client's side)."""
    wrong: list[str] = []
    if list(state.numbers) != sorted(state.numbers) or any(n >= state.next_sequence for n in state.numbers):
        wrong.append("numbers out of order")
    if state.numbers and state.next_sequence - state.low > config.window:
        wrong.append("more numbers in flight than the window")
    queued = [item.owner for item in state.queue]
    for call, record in state.calls.items():
        if record.queued != (call in queued):
            wrong.append(f"call {call}: queued is {record.queued}")
        if not (record.queued or record.sequence or record.tokens or record.sleep_until):
            wrong.append(f"call {call} waits for nothing in step {record.step}")
        if record.sequence and state.numbers[record.sequence].owner != call:
            wrong.append(f"call {call} waits for a number of somebody else")
        wrong.extend(f"call {call} waits for a lost exchange {t}" for t in record.tokens if t not in state.exchanges)
        if record.hold is not None and record.hold not in state.holds:
            wrong.append(f"call {call} uses an unknown hold {record.hold}")
    wrong += [
        f"number {number.sequence} has a wrong owner"
        for number in state.numbers.values()
        if number.owner != BACKGROUND and state.calls[number.owner].sequence != number.sequence
    ]
    wrong += [
        f"exchange {token} has a wrong owner"
        for token, exchange in state.exchanges.items()
        if exchange.owner != BACKGROUND and token not in state.calls[exchange.owner].tokens
    ]
    for name, size, limit in (
        ("calls", len(state.calls), config.calls_max + config.holds_max),
        ("routes", len(state.routes), config.routes_max),
        ("breakers", len(state.breakers), config.peers_max),
        ("lost holds", len(state.lost_holds), config.lost_holds_max),
    ):
        if size > limit:
            wrong.append(f"{size} {name}, the limit is {limit}")
    return tuple(wrong)
