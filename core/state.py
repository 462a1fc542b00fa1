"""The directory's records, and the tables that hold them.

Records are treated as frozen: a change is a new record, swapped in. So a state is copied by copying dicts, compared by
comparing them, and restored from what the store gives back. `DirectoryState` has three parts: **facts** (durable: all of it is in
the store), **indexes** (derived from the facts, rebuilt at load) and **soft** state (leases, orders' numbers, inventories,
statistics: what a restart may forget, rule 10).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from attrs import Attribute, define, field, fields

from . import effects
from .answers import Answered
from .commands import Spec
from .ids import (
    NO_COPY,
    Cause,
    CopyId,
    GroupId,
    HoldId,
    HoldKind,
    NodeName,
    Peer,
    Reason,
    Role,
    SessionId,
    State,
    Tier,
)
from .reports import InventoryEntry, TierFill

FORMAT: Final = 2
"""Version of the record shapes below; stores write it beside every record."""


# ---- durable records -----------------------------------------------------------------------------------------


@define
class Copy:
    """One holding of a group's bytes. `incarnation` is its node's when it was reserved or last counted again.

    `due` (directory clock, ms): INCOMING: when the making of it is given up; RETIRING: when its grace ends; absent: when it
    is dropped for good; else 0. `tier` is the wish it was made with. `slots` count at `node` until the copy leaves (CAP-1).
    """

    id: CopyId
    node: NodeName
    store: bool
    tier: Tier
    role: Role
    slots: int
    incarnation: int = 0
    due: int = 0
    absent: bool = False


@define
class Group:
    """The fixed-shape part of a group's record; its copies are listed beside it.

    `epoch` (EPOCH-1) is the revision of the last ownership or lifecycle decision, `version` rises with any change.
    `target` is the copy that is to become authoritative: the writer's in WRITING, the move's in MIGRATING_*, else NO_COPY.
    `source` is the live move's source; NO_COPY when there is no move, or when the source was lost under it.
    `failures` and `move_after` (directory clock, ms) space the moves of one group.
    """

    id: GroupId
    spec: Spec
    state: State = State.EVICTED
    epoch: int = 0
    version: int = 0
    reason: Reason = Reason.NONE
    manifest: bytes = b""
    target: CopyId = NO_COPY
    source: CopyId = NO_COPY
    cause: Cause = Cause.CALLER
    leaving: bool = False
    writer: SessionId = SessionId(0)
    created: int = 0
    failures: int = 0
    move_after: int = 0


@define
class GroupRecord:
    """A group as it is stored."""

    group: Group
    copies: tuple[Copy, ...]


@define
class Hold:
    """`lost`: it has ended, and stays as a record until its holder has heard (rule 2). `copy` NO_COPY for a REF."""

    id: HoldId
    kind: HoldKind
    group: GroupId
    copy: CopyId
    request: str
    lost: bool = False


@define
class Session:
    """A lease. Its last applied number is that of its newest stored answer, 0 when it has none (the newest is always kept)."""

    id: SessionId
    name: str
    client: Peer
    token: str
    lease_ms: int


@define
class Node:
    """A registered node. `alive` ends when its lease lapses; `incarnation` is given at registration, idempotent by `boot`."""

    name: NodeName
    address: Peer
    boot: str
    incarnation: int
    capacity: int
    stores: tuple[NodeName, ...]
    alive: bool = True
    draining: bool = False
    group_slots: int = 0
    """The largest group that it takes; 0: any."""
    block_bytes: int = 0
    """The largest block that it takes; 0: any."""


@define
class Lease:
    """Of a session or node that was not heard since a start. `due` (directory clock, ms): when it is over (`core/leases.py`)."""

    due: int


@define
class Meta:
    """One record a store has one of. `clock_ms` is directory time (rule 10), `revision` the last applied command's."""

    store_id: str
    shard: int
    shards: int
    term: int
    revision: int
    clock_ms: int


RECORD_TYPES: Final[dict[str, type]] = {
    effects.META: Meta,
    effects.GROUPS: GroupRecord,
    effects.HOLDS: Hold,
    effects.SESSIONS: Session,
    effects.ANSWERS: Answered,
    effects.NODES: Node,
    effects.SESSION_LEASES: Lease,
    effects.NODE_LEASES: Lease,
}
"""What each table holds. Keys: META "meta"; GROUPS group id; HOLDS hold id; SESSIONS session id; ANSWERS (session, sequence);
NODES name; SESSION_LEASES session id; NODE_LEASES name."""


# ---- soft state ----------------------------------------------------------------------------------------------


@define
class Access:
    """Statistics of one group. `touch` is a strictly rising counter: the order of last use, finer than any clock."""

    touch: int
    last_ms: int
    count: int


@define
class Waiter:
    """One `Await` that waits."""

    client: Peer
    token: str
    want: str
    group: GroupId
    copy: CopyId
    node: NodeName
    due: int


@define
class Link:
    """What is known of one node in this term. `seen` is the last order that the node says it took, `seen_at` since when."""

    seen: int = 0
    seen_at: int = 0
    ready: bool = False
    tiers: tuple[TierFill, ...] = ()
    stuck: tuple[str, ...] = ()


@define
class Parts:
    """An inventory that is arriving in parts."""

    incarnation: int
    term: int
    number: int
    snapshot: int
    parts: tuple[tuple[int, tuple[InventoryEntry, ...]], ...]


@define
class ScanNote:
    """A scan that was ordered: of whom, under which number, and the revision at that instant. `node` "" once it was told;
    `due` is when the next one is ordered."""

    node: NodeName
    number: int
    revision: int
    due: int


LEASES: Final = ("session_leases", "node_leases")
FACTS: Final = ("groups", "copies", "holds", "sessions", "answers", "nodes", *LEASES)
"""The fields of a `DirectoryState` that are in the store, beside `meta`: what a restart must find."""


def _dict() -> Any:
    return field(factory=dict)


@define
class DirectoryState:
    """Everything a directory knows."""

    meta: Meta

    # facts
    groups: dict[GroupId, Group] = _dict()
    copies: dict[GroupId, tuple[Copy, ...]] = _dict()
    holds: dict[HoldId, Hold] = _dict()
    sessions: dict[SessionId, Session] = _dict()
    answers: dict[tuple[int, int], Answered] = _dict()
    nodes: dict[NodeName, Node] = _dict()
    session_leases: dict[SessionId, Lease] = _dict()
    node_leases: dict[NodeName, Lease] = _dict()

    # indexes
    group_of: dict[CopyId, GroupId] = _dict()
    copies_at: dict[NodeName, dict[CopyId, GroupId]] = _dict()
    used: dict[NodeName, int] = _dict()
    by_request: dict[str, dict[GroupId, None]] = _dict()
    by_block: dict[str, tuple[GroupId, ...]] = _dict()
    pinned: dict[CopyId, int] = _dict()
    """Live pins on a copy; no entry for none. `referred`: live refs on a group."""
    referred: dict[GroupId, int] = _dict()
    held: dict[SessionId, dict[HoldId, None]] = _dict()
    requested: dict[tuple[int, str], dict[HoldId, None]] = _dict()
    lost: dict[SessionId, dict[HoldId, None]] = _dict()
    tokens: dict[str, SessionId] = _dict()
    named: dict[str, SessionId] = _dict()
    progress: dict[SessionId, tuple[int, int]] = _dict()
    """`(applied, low)` per session."""
    timed: dict[CopyId, GroupId] = _dict()
    """Copies with a `due`: what housekeeping must look at."""
    unsettled: dict[GroupId, None] = _dict()
    """Groups that are WRITING, moving, leaving, EVICTING or EVICTED: what housekeeping may have to end."""

    # soft
    last_now: int | None = None
    halted: str = ""
    """Why this directory has stopped for good (`StoreRegressed`), or ""."""
    saved_ms: int = 0
    """Directory time as the last commit has kept it."""
    session_due: dict[SessionId, int] = _dict()
    node_due: dict[NodeName, int] = _dict()
    links: dict[NodeName, Link] = _dict()
    numbers: dict[NodeName, int] = _dict()
    """Number of the last order to a node, in this term."""
    ordered: dict[CopyId, int] = _dict()
    """Number of the last order about a copy, in this term and its node's incarnation (INV-1)."""
    hints: dict[CopyId, Tier] = _dict()
    """The tier that a copy's node last reported, where it is not the one of the record (rule 12)."""
    arriving: dict[NodeName, Parts] = _dict()
    scans: dict[NodeName, ScanNote] = _dict()
    access: dict[GroupId, Access] = _dict()
    touches: int = 0
    waiters: dict[tuple[str, str], Waiter] = _dict()
    pressure: dict[NodeName, int] = _dict()
    """Slots that a `Create` or move asked for in vain, per place; eviction on the next Tick."""
    shrunk: dict[NodeName, None] = _dict()
    """Nodes that registered, and stores that came back configured, with less capacity than their copies need."""
    strained: bool = False
    """The last relief fell short of its low mark: the next hold that ends asks for another."""
    alarm_at: int = 0
    """Directory time of the next Tick that is wanted."""
    placed: int = 0
    """Counter for round robin and power of two choices."""
    repair_at: int = 0
    counters: dict[str, int] = _dict()

    def copy(self) -> DirectoryState:
        """A state of its own: records are shared, tables are not."""
        values = list(_READ(self))
        for at in _FLAT:
            values[at] = values[at].copy()
        for at in _NESTED:
            values[at] = {key: inner.copy() for key, inner in values[at].items()}
        return DirectoryState(*values)


_FIELDS: Final[tuple[Attribute[Any], ...]] = fields(DirectoryState)
_READ: Final = attrgetter(*[one.name for one in _FIELDS])
_NESTED: Final = tuple(at for at, one in enumerate(_FIELDS) if str(one.type).count("dict[") == 2)
_FLAT: Final = tuple(at for at, one in enumerate(_FIELDS) if str(one.type).count("dict[") == 1)


# ---- configuration -------------------------------------------------------------------------------------------


@define(frozen=True)
class StoreSpec:
    """A remote store that nodes can reach; `capacity` in slots."""

    name: NodeName
    capacity: int


@define(frozen=True)
class DirectoryConfig:
    """Every limit and duration of a directory, by name. Times in ms of directory time, watermarks in per mille of capacity."""

    stores: tuple[StoreSpec, ...] = ()
    session_lease_ms_min: int = 100
    session_lease_ms_max: int = 600_000
    node_lease_ms: int = 3_000
    absent_limit_ms: int = 60_000
    grace_ms: int = 500
    write_ms: int = 30_000
    move_ms: int = 30_000
    max_step_ms: int = 1_000
    lease_save_ms: int = 1_000
    """A lease that is waited out loses this much directory time to a crash, and what was left to the next Tick; keeping it is a
    commit of one record."""
    repair_ms: int = 1_000
    scan_ms: int = 10_000
    backoff_ms: int = 200
    backoff_ms_max: int = 30_000
    retry_after_ms: int = 20
    wait_ms_max: int = 60_000

    window: int = 1_024
    batch_items: int = 256
    sessions_max: int = 10_000
    session_holds_max: int = 1_000_000
    groups_max: int = 10_000_000
    group_blocks_max: int = 4_096
    locate_groups_max: int = 4_096
    list_max: int = 1_000
    waiters_max: int = 10_000
    inventory_parts_max: int = 4_096
    scan_objects_max: int = 1_000_000
    name_chars_max: int = 255
    key_chars_max: int = 8_192
    """All names of one group's key, request and sequence together."""
    lost_told_max: int = 1_000
    """Lost holds that one `KeptAlive` names; the rest follow when these have been released."""
    drain_moves_max: int = 32
    spill_moves_max: int = 32
    """Moves from one node that a relief may have under way, its spills included; other victims wait, or are evicted where a
    `Create` waits for room. Below the `jobs_max` of a node, which fails what is more."""
    housekeeping_items: int = 512

    eviction: str = "lru"
    placement: str = "least_loaded"
    high: int = 950
    low: int = 850
    spill: bool = False
    """Victims of pressure move to a remote store with room instead of going for good."""
    checks: bool = True
    """Invariants local to a record after every step that touched it."""
    check_all_every: int = 0
    """Whole-state invariants every N steps (0: only when asked)."""
