"""What the directory tells a client. Every answer carries the revision at which it was true, so that a history can be checked.

`Answered` ends a numbered command and is replayed on repetition, byte for byte; `Told` ends a query or session call.
A refusal is the answer `Refused`.
"""

from __future__ import annotations

from attrs import define

from .commands import Spec
from .errors import Refusal
from .ids import Cause, CopyId, GroupId, HoldId, HoldKind, NodeName, Peer, Reason, Role, SessionId, State, Tier
from .reports import TierFill


@define
class Route:
    """Where one readable copy is. A hint: `node` answers `StaleCopy` if it no longer has it. `address` "" is a store."""

    group: GroupId
    copy: CopyId
    node: NodeName
    address: Peer
    tier: Tier
    epoch: int
    manifest: bytes
    blocks: int
    size_bytes: int
    moving: bool = False


@define
class Created:
    """You are the writer of `copy` at `node`; `hold` is your PIN on it, so there is no gap before its first use."""

    group: GroupId
    copy: CopyId
    node: NodeName
    address: Peer
    hold: HoldId
    epoch: int
    revision: int


@define
class Joined:
    """Somebody else is writing (or bringing) it as `copy`; `Await` it or go on without."""

    group: GroupId
    copy: CopyId
    revision: int


@define
class Exists:
    """It is there already; `hold` is your PIN on the copy of `route`."""

    group: GroupId
    route: Route
    hold: HoldId
    revision: int


@define
class Pinned:
    group: GroupId
    route: Route
    hold: HoldId
    revision: int


@define
class PrefixPinned:
    """Equal lengths: `routes[i]` is pinned by `holds[i]`; both stop before the first group that could not be pinned."""

    routes: tuple[Route, ...]
    holds: tuple[HoldId, ...]
    revision: int


@define
class Referred:
    group: GroupId
    hold: HoldId
    revision: int


@define
class Released:
    group: GroupId
    hold: HoldId
    revision: int


@define
class MoveAccepted:
    """`move` is the move id. `done` when nothing had to be copied (a replica or retiring copy at the target took over)."""

    group: GroupId
    move: CopyId
    epoch: int
    done: bool
    revision: int


@define
class MoveCancelled:
    group: GroupId
    move: CopyId
    epoch: int
    revision: int


@define
class ReplicaAccepted:
    group: GroupId
    copy: CopyId
    revision: int


@define
class ReplicaDropped:
    group: GroupId
    copy: CopyId
    revision: int


@define
class EvictAccepted:
    """`waiting` when holds defer it."""

    group: GroupId
    waiting: bool
    epoch: int
    revision: int


@define
class RequestReleased:
    request: str
    released: int
    revision: int


@define
class DrainAccepted:
    node: NodeName
    copies: int
    revision: int


@define
class CommandCancelled:
    """The number was still free; now nothing will ever happen under it."""

    revision: int


@define
class Refused:
    refusal: Refusal
    revision: int = 0


ItemAnswer = (
    Created
    | Joined
    | Exists
    | Pinned
    | PrefixPinned
    | Referred
    | Released
    | MoveAccepted
    | MoveCancelled
    | ReplicaAccepted
    | ReplicaDropped
    | EvictAccepted
    | RequestReleased
    | DrainAccepted
    | CommandCancelled
    | Refused
)


@define
class BatchAnswer:
    items: tuple[ItemAnswer, ...]
    revision: int


@define
class Answered:
    """The answer to number `sequence`. Refusals at the door (`Early`, `WindowFull`, `Overloaded`) leave the number unused."""

    shard: int
    term: int
    session: SessionId
    sequence: int
    answer: ItemAnswer | BatchAnswer


# ---- queries and session calls -------------------------------------------------------------------------------


@define
class SessionOpened:
    """`next_sequence` is the first unused number (a resumed session goes on from there)."""

    session: SessionId
    next_sequence: int
    lease_ms: int
    resumed: bool


@define
class KeptAlive:
    session: SessionId
    lease_ms: int
    lost: tuple[HoldId, ...]
    """Holds of this session that have ended as LOST; their records stay until they are released or the session ends."""


@define
class SessionClosed:
    session: SessionId
    released: int


@define
class Located:
    """Routes of the run (or of each group asked for that is readable). `stop` names the first group that was not readable
    and `state` what it is (`State`, or -1 when there is no record)."""

    routes: tuple[Route, ...]
    stop: GroupId
    state: int


@define
class Awaited:
    """`outcome`: `"readable"`, `"settled"`, `"gone"`, `"drained"`, or `"timeout"`."""

    group: GroupId
    outcome: str
    state: int
    epoch: int
    reason: Reason


@define
class CopyLine:
    copy: CopyId
    node: NodeName
    tier: Tier
    role: Role
    absent: bool
    pins: int
    store: bool


@define
class HoldLine:
    hold: HoldId
    kind: HoldKind
    copy: CopyId
    request: str
    session_name: str


@define
class Described:
    """The record as people and tools see it. `move` NO_COPY: none."""

    spec: Spec
    state: State
    epoch: int
    version: int
    reason: Reason
    manifest: bytes
    move: CopyId
    move_source: CopyId
    cause: Cause
    leaving: bool
    copies: tuple[CopyLine, ...]
    holds: tuple[HoldLine, ...]
    last_access_ms: int
    access_count: int


@define
class GroupLine:
    group: GroupId
    state: State
    epoch: int
    version: int
    node: NodeName
    tier: Tier
    copies: int
    pins: int
    refs: int
    size_bytes: int
    blocks: int
    tenant: str
    model: str
    prefix: str


@define
class Listed:
    """One page; pass the last id as `after` for the next; `more` tells whether there is one."""

    groups: tuple[GroupLine, ...]
    more: bool


@define
class NodeLine:
    node: NodeName
    address: Peer
    incarnation: int
    alive: bool
    ready: bool
    draining: bool
    store: bool
    capacity: int
    used: int
    quarantined: int
    copies: int
    tiers: tuple[TierFill, ...]
    stuck: tuple[str, ...]


@define
class StatusReport:
    """`counters` are (name, value) pairs in name order: applied, refused by reason, moves, evictions, ..."""

    nodes: tuple[NodeLine, ...]
    sessions: int
    groups: int
    holds: int
    clock_ms: int
    store_id: str
    counters: tuple[tuple[str, int], ...]


@define
class Explained:
    """`refusal` None: it would be accepted now. `steps` are sentences: each guard in order and what it saw."""

    refusal: Refusal | None
    steps: tuple[str, ...]


QueryAnswer = (
    SessionOpened | KeptAlive | SessionClosed | Located | Awaited | Described | Listed | StatusReport | Explained | Refused
)


@define
class Told:
    """The answer to the query or session call with `token`, true at `(term, revision)`."""

    shard: int
    term: int
    revision: int
    token: str
    answer: QueryAnswer


DirectoryAnswer = Answered | Told
