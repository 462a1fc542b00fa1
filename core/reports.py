"""What a node tells the directory. Reports carry the incarnation and state facts that stay true (rule 7).

A node has no session: facts may be repeated, reordered and lost; `Inventory` repairs what was lost (rule 8).
"""

from __future__ import annotations

from enum import IntEnum

from attrs import define

from .ids import CopyId, NodeName, Peer, Reason, Tier


@define
class TierFill:
    """One tier of one node, in slots of one block each. `quarantined` counts slots whose late writer can't be ruled out, `short`
    those for which its medium has shown that it has no room, though it was said to have."""

    tier: Tier
    capacity: int
    used: int = 0
    quarantined: int = 0
    short: int = 0


@define
class Register:
    """`boot` is one life of the node's memory; the directory answers `Registered` with an incarnation, idempotent by boot.

    `capacity` is what the directory may reserve, in slots: less than the sum over `tiers` by the slack that local tier moves
    and groups that do not straddle tiers need (docs: `Limits.group_slots`). `stores` are the remote stores it can reach.
    """

    node: NodeName
    boot: str
    address: Peer
    capacity: int
    tiers: tuple[TierFill, ...] = ()
    stores: tuple[NodeName, ...] = ()
    group_slots: int = 0
    """The largest group that it takes, in slots; 0: any that fits `capacity`."""
    over: int = 0
    """The incarnation of another boot that this one means to replace; 0: it knows of none (`NameTaken` tells)."""
    block_bytes: int = 0
    """What a slot holds: the largest block that it takes, in bytes; 0: any."""


@define
class Heartbeat:
    """I am alive; `term` and `number` are the last order taken. `stuck` names guards held longer than the named limit."""

    node: NodeName
    incarnation: int
    term: int
    number: int
    tiers: tuple[TierFill, ...] = ()
    stuck: tuple[str, ...] = ()
    address: Peer = Peer("")
    """Where the sender can be told that it has been replaced; "" means the address on record."""
    peers: tuple[tuple[NodeName, int], ...] = ()
    """Registrations of other nodes that own guards here; of each that is over, `PeerGone` tells, again and again."""


class Condition(IntEnum):
    """What a node has of a copy."""

    RESERVED = 0
    """Space taken, bytes not all there or not verified."""
    VERIFIED = 1
    """All bytes verified against the manifest hash that is reported with it."""
    FREEING = 2
    """A Free has been taken and waits for guards."""


@define
class InventoryEntry:
    copy: CopyId
    condition: Condition
    manifest: bytes
    tier: Tier
    slots: int


@define
class Inventory:
    """All copies at the node when its last order taken was `(term, number)`; sent in `parts` pieces of one `snapshot`."""

    node: NodeName
    incarnation: int
    term: int
    number: int
    snapshot: int
    part: int
    parts: int
    entries: tuple[InventoryEntry, ...]


# ---- facts ---------------------------------------------------------------------------------------------------


@define
class Sealed:
    """The writer has ended and all bytes were verified; the copy's manifest hash is `manifest`. `checksums` per block."""

    copy: CopyId
    manifest: bytes


@define
class CopyDone:
    """A copy job (move target or replica) is complete and verified against the order's manifest hash."""

    copy: CopyId
    manifest: bytes


@define
class CopyFailed:
    """A copy job or a write has ended without success; it is never tried again under this id."""

    copy: CopyId
    reason: Reason


@define
class Freed:
    """The copy's bytes are gone and its slots may be reused."""

    copy: CopyId


@define
class CopyLost:
    """A verified copy's bytes are lost or corrupt; the node has let them go."""

    copy: CopyId
    reason: Reason


@define
class TierChanged:
    """The copy's readable instance is now in `tier` (a hint)."""

    copy: CopyId
    tier: Tier


@define
class StoreScanned:
    """All objects of a store, as seen by its steward after order `(term, number)` (the scan order). `objects` are copy ids."""

    store: NodeName
    term: int
    number: int
    objects: tuple[CopyId, ...]


Fact = Sealed | CopyDone | CopyFailed | Freed | CopyLost | TierChanged | StoreScanned


@define
class Report:
    """Facts from one node, in the order in which they became true."""

    node: NodeName
    incarnation: int
    facts: tuple[Fact, ...]


NodeReport = Register | Heartbeat | Inventory | Report
