"""What a node knows: its limits, and the records of its copies, guards, byte work, jobs and links.

Records are treated as frozen: a change builds a new record and swaps it into the state's dicts, so `NodeState.copy` copies
dicts only. Times are absolute, in milliseconds of the caller's clock. There is no other state anywhere in the machine.

    Copy --places--> Place --instance--> (tier, slots)      where the bytes are
    Guard, Work  --touch--> Place                           who touches them
    CopyJob --copy--> Copy                                  an order that takes more than one step
"""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum

from attrs import define

from .allocator import Slots, new_slots
from .commands import Spec
from .effects import Instance
from .ids import CopyId, GroupId, Key, Layout, NodeName, Peer, Reason, Tier
from .reports import Condition, TierFill


@define(frozen=True)
class TierRoom:
    """One local tier. Above `high_percent` of its slots the coldest copies go down a tier, until `low_percent`.

    `slab`: instances are named by slot; otherwise by copy id (files), and slots are only counted.
    """

    tier: Tier
    slots: int
    slab: bool = True
    high_percent: int = 90
    low_percent: int = 75


@define(frozen=True)
class NodeConfig:
    """Who the node is, and every limit that it keeps. Times in ms; a slot is room for one block."""

    name: NodeName
    address: Peer
    directories: tuple[Peer, ...]
    """One per shard, in shard order."""
    tiers: tuple[TierRoom, ...]
    """Local tiers, fastest first."""
    stores: tuple[NodeName, ...] = ()
    group_slots: int = 8
    """The largest group, in slots."""
    block_bytes: int = 0
    """The largest block that a slot takes, in bytes; 0: any."""
    heartbeat_ms: int = 1_000
    inventory_ms: int = 60_000
    register_ms: int = 200
    """First interval between two `Register`; doubles up to `register_ms_max`."""
    register_ms_max: int = 5_000
    promote: bool = True
    """Whether a read from a slow tier may bring the copy to a faster one that stays below its low watermark."""
    local_moves_max: int = 1
    """Copies that may have two places at once; the old place counts until it is released."""
    move_retry_ms: int = 1_000
    fetch_chunk: int = 32
    """Blocks per `Read` that a fetch sends."""
    fetch_timeout_ms: int = 1_000
    fetch_retry_ms: int = 50
    fetch_tries_max: int = 10
    """Asks in a row without a new block, after which a fetch has failed."""
    job_ms: int = 30_000
    """The deadline of a job whose order names none."""
    release_retry_ms: int = 200
    release_retry_ms_max: int = 10_000
    guard_stuck_ms: int = 30_000
    stuck_max: int = 32
    """Names per heartbeat."""
    inventory_part: int = 512
    """Entries per message."""
    copies_max: int = 1_000_000
    guards_max: int = 1_024
    jobs_max: int = 64
    reads_max: int = 256
    """Reads being served."""
    writes_max: int = 256
    request_blocks_max: int = 1_024
    """Blocks in one `Read` or `Write`."""
    failed_spills_max: int = 64
    """Ids of failed spills that are remembered so that a repeated order does not try one again."""

    @property
    def capacity(self) -> int:
        """What the directory may reserve here, in slots: the sum over the tiers, less slack (rule 11).

        Why a group of g <= G = `group_slots` that the directory has counted always finds one tier with room, with T tiers
        and at most M local moves: the other copies hold at most capacity - g, and moves at most G * M more, so at least
        (T - 1) * (G - 1) + g slots are free. Had every tier at most g - 1, there would be at most T * (g - 1) free, which
        is less. Only bytes that the directory no longer counts (deferred by guards, or quarantined) can take that room.
        """
        slack = (len(self.tiers) - 1) * (self.group_slots - 1) + self.group_slots * self.local_moves_max
        total = sum(room.slots for room in self.tiers)
        return total if len(self.tiers) < 2 else max(0, total - slack)


class Stage(IntEnum):
    """Where an instance is in its life. It is given to new guards in VERIFIED only."""

    FILLING = 0
    VERIFIED = 1
    RETIRING = 2
    """No new guards; released when the last one ends."""
    RELEASING = 3
    """`ReleaseInstance` was asked for; slots count until it is done."""


@define
class Place:
    """One instance of a copy. `slots` are counted in the allocator, also where the instance itself is a file."""

    instance: Instance
    slots: tuple[int, ...]
    stage: Stage
    guards: int = 0
    """Guards and running byte work that touch it; derived, recounted by `node_invariants.guards_are_recounted`. USE-1."""


@define
class Ending:
    """An `EndWrite` that waits for running stores or for its verification."""

    client: Peer
    token: str
    manifest: bytes


@define
class Copy:
    """One holding. `store` names the remote store of a spill's target or of an object being freed, "" for local copies."""

    copy: CopyId
    spec: Spec
    condition: Condition
    places: tuple[Place, ...]
    """At most one per tier. COPY-2: at least one VERIFIED while the copy is."""
    manifest: bytes = b""
    """COPY-1: what all bytes were verified against; b"" before."""
    writer: Peer = Peer("")
    store: NodeName = NodeName("")
    stored: int = 0
    """Bit `i`: block `i` has been stored."""
    checksums: tuple[int, ...] = ()
    """One per block once known; () while nothing is known. BYTES-1: they hash to `manifest` when the copy is verified."""
    mapped: bool = False
    """A write guard was given: blocks may be there that never came as a `Write`; verification alone tells."""
    ending: Ending | None = None
    failed: Reason = Reason.NONE
    """Why its job or write ended; a failed copy is never tried again and stays until Free (finding 19)."""
    uncertain: bool = False
    """A late writer can't be ruled out: slots go to quarantine."""
    wanted: bool = False
    """A Free was ordered: `Freed` is owed."""


@define
class Guard:
    """Somebody outside who touches bytes. Ends by `Let`, by the kernel's word or by withdrawal; never by time (rule 6)."""

    guard: int
    copy: CopyId
    tier: Tier
    owner: str
    client: Peer
    token: str
    write: bool
    stay: bool
    since: int


class Kind(IntEnum):
    """Byte work, one per effect class."""

    STORE = 0
    VERIFY = 1
    LOAD = 2
    CLONE = 3
    RELEASE = 4
    LIST = 5


@define
class Work:
    """Byte work that runs. It is itself a guard on each place that it `touches`, until its completion arrives."""

    job: int
    kind: Kind
    copy: CopyId
    tier: Tier
    since: int
    touches: tuple[tuple[CopyId, Tier], ...] = ()
    client: Peer = Peer("")
    token: str = ""
    blocks: tuple[int, ...] = ()
    """STORE: what is written. LOAD: what was asked for."""
    checksums: tuple[int, ...] = ()
    loaded: tuple[int, ...] = ()
    """LOAD: what is read, which is all blocks while the checksums are not known."""
    store: NodeName = NodeName("")
    order: tuple[int, int, int, int] = (0, 0, 0, 0)
    """LIST: `(shard, term, incarnation, number)` of the scan order."""


@define
class CopyJob:
    """A fetch from a node, a clone from a store, or a spill to one."""

    copy: CopyId
    manifest: bytes
    deadline: int
    source_copy: CopyId
    source_address: Peer = Peer("")
    token: str = ""
    storing: int = 0
    """Blocks whose store runs, as bits."""
    asked: int = 0
    """Blocks of the `Read` that is out, as bits."""
    ask_at: int = 0
    """When to ask again; 0: nothing is awaited from the peer."""
    tries: int = 0


@define
class LocalMove:
    """A copy that has, or is getting, two places (rule 12)."""

    copy: CopyId
    source: Tier
    target: Tier


@define
class Unreleased:
    """A release that failed: tried again `at`; 0 while it is being tried."""

    at: int
    tries: int


@define
class Link:
    """What the node knows of one shard's directory. FENCE-1: `(term, incarnation)` never falls, nor `number` within them."""

    shard: int
    peer: Peer
    term: int = 0
    incarnation: int = 0
    number: int = 0
    """The last order taken."""
    registered: bool = False
    register_at: int = 0
    register_tries: int = 0
    over: int = 0
    """The registration of another boot that ours is to replace, as the directory has told."""
    heartbeat_at: int = 0
    inventory_at: int = 0
    snapshot: int = 0


@define
class NodeState:
    """All of it. Dicts keep the order in which things came; nothing that leaves depends on any other order (DET-1)."""

    links: dict[int, Link]
    slots: dict[Tier, Slots]
    warmth: dict[Tier, OrderedDict[CopyId, None]]
    """Per tier, the copies with a VERIFIED place there, coldest first. An order and no counter: nothing grows for ever."""
    copies: dict[CopyId, Copy]
    guards: dict[int, Guard]
    grants: dict[tuple[Peer, str], int]
    """`(client, token)` of an `Acquire` -> the live guard that it got, so that a repeated one gets no second."""
    works: dict[int, Work]
    jobs: dict[CopyId, CopyJob]
    tokens: dict[str, CopyId]
    """Token of a fetch's `Read` -> its job."""
    moves: dict[CopyId, LocalMove]
    pressed: dict[Tier, bool]
    """Tiers that were above their high watermark and are not yet at the low one."""
    unreleased: dict[tuple[CopyId, Tier], Unreleased]
    quarantine: dict[CopyId, tuple[tuple[Tier, tuple[int, ...]], ...]]
    failed_spills: dict[CopyId, Reason]
    short: dict[Tier, int]
    """Slots for which a tier's medium has shown that it has no room (`core/shortfall.py`); no entry for none."""
    next_number: int = 1
    """For byte work, guards and fetch tokens."""
    move_again_at: int = 0
    started: bool = False
    fenced: bool = False

    def copy(self) -> NodeState:
        """An independent state: dicts are copied, records are shared because nobody changes one."""
        return NodeState(
            dict(self.links), dict(self.slots), {tier: order.copy() for tier, order in self.warmth.items()},
            dict(self.copies), dict(self.guards), dict(self.grants), dict(self.works), dict(self.jobs),
            dict(self.tokens), dict(self.moves), dict(self.pressed), dict(self.unreleased), dict(self.quarantine),
            dict(self.failed_spills), dict(self.short), self.next_number, self.move_again_at, self.started, self.fenced,
        )  # fmt: skip


NO_SPEC = Spec(GroupId(b""), Key("", "", "", Layout(), "", 0), ())
"""Of an object that is only being freed: nobody needs to know what it was."""


def new_state(config: NodeConfig) -> NodeState:
    """A node that has seen nothing yet."""
    return NodeState(
        links={shard: Link(shard, peer) for shard, peer in enumerate(config.directories)},
        slots={room.tier: new_slots(room.slots) for room in config.tiers},
        warmth={room.tier: OrderedDict() for room in config.tiers},
        copies={}, guards={}, grants={}, works={}, jobs={}, tokens={}, moves={},
        pressed={room.tier: False for room in config.tiers},
        unreleased={}, quarantine={}, failed_spills={}, short={},
    )  # fmt: skip


def fills(state: NodeState) -> tuple[TierFill, ...]:
    """The fill of each local tier, fastest first."""
    return tuple(
        TierFill(tier, slots.capacity, slots.used, slots.quarantined, state.short.get(tier, 0))
        for tier, slots in state.slots.items()
    )


def place_of(copy: Copy, tier: Tier) -> Place | None:
    """The copy's place in `tier`."""
    for place in copy.places:
        if place.instance.tier == tier:
            return place
    return None


def readable_place(copy: Copy, config: NodeConfig) -> Place | None:
    """The fastest VERIFIED place."""
    for room in config.tiers:
        place = place_of(copy, room.tier)
        if place is not None and place.stage is Stage.VERIFIED:
            return place
    return None


def mask_of(blocks: tuple[int, ...]) -> int:
    """Block indices as bits."""
    mask = 0
    for block in blocks:
        mask |= 1 << block
    return mask
