"""Effects: everything a machine can ask of the world, and `Ready`, which fixes their order.

A machine's one door is `step(event, now) -> Ready`; `now` is the caller's monotonic clock in milliseconds. The driver of
`core/driver.py` runs a `Ready` field by field, top to bottom. Each byte-work effect carries a `job` number that its completion
(`core/events.py`) brings back.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from .commands import Spec
from .ids import CopyId, NodeName, Peer, Tier
from .requests import Payload

# ---- persist -------------------------------------------------------------------------------------------------

META: Final = "meta"
GROUPS: Final = "groups"
HOLDS: Final = "holds"
SESSIONS: Final = "sessions"
ANSWERS: Final = "answers"
NODES: Final = "nodes"
SESSION_LEASES: Final = "session_leases"
NODE_LEASES: Final = "node_leases"
TABLES: Final = (META, GROUPS, HOLDS, SESSIONS, ANSWERS, NODES, SESSION_LEASES, NODE_LEASES)

Write = tuple[str, Any, Any]
"""`(table, key, record)`: put `record` (an attrs record, or a tuple of plain values) under `key` (str, bytes, int or a tuple of
int); record None deletes. Later writes of one commit win over earlier ones to the same key."""


# ---- byte work at a node -------------------------------------------------------------------------------------


@define
class Instance:
    """Where a copy's bytes are inside a node: `slots` in a slab tier, () in tiers that name files by copy id. `place` is the
    store's name for REMOTE tiers, else ""."""

    copy: CopyId
    tier: Tier
    slots: tuple[int, ...] = ()
    place: NodeName = NodeName("")


@define
class StoreBlocks:
    """Write buffers into an unpublished instance. Ends in `BlocksStored` or `WorkFailed`."""

    job: int
    instance: Instance
    spec: Spec
    blocks: tuple[int, ...]
    checksums: tuple[int, ...]
    data: Payload = ()


@define
class VerifyInstance:
    """Read every block back, compute the manifest hash of what is there, and (file tiers) publish it durably if it equals
    `manifest`. Ends in `InstanceVerified`, or `WorkFailed` (CORRUPT when it differs)."""

    job: int
    instance: Instance
    spec: Spec
    manifest: bytes


@define
class LoadBlocks:
    """Read and checksum blocks. Ends in `BlocksLoaded` or `WorkFailed`."""

    job: int
    instance: Instance
    spec: Spec
    blocks: tuple[int, ...]


@define
class CloneInstance:
    """Make `target` from `source` (other tier, or another copy id when a store is involved), verified against `manifest`
    and, in file tiers, published durably. Ends in `InstanceCloned` or `WorkFailed`."""

    job: int
    source: Instance
    target: Instance
    spec: Spec
    manifest: bytes


@define
class ReleaseInstance:
    """Let the bytes go; nothing may read or write them any more. An instance that is not there is released already. Ends in
    `InstanceReleased` or `WorkFailed`."""

    job: int
    instance: Instance


@define
class ListStore:
    """List the objects of a remote store. Ends in `StoreListed` or `WorkFailed`."""

    job: int
    store: NodeName


Transfer = StoreBlocks | VerifyInstance | LoadBlocks | CloneInstance | ReleaseInstance | ListStore


# ---- what leaves ---------------------------------------------------------------------------------------------


@define
class Send:
    """One message to one peer."""

    target: Peer
    message: Any


@define
class Reply:
    """The answer to a caller. For the client machine `target` is the call's id, elsewhere a peer."""

    target: Peer
    message: Any


@define
class Ready:
    """What a step asks for, in execution order."""

    persist: tuple[Write, ...] = ()
    """Durable, atomically, BEFORE anything below leaves, and after the persists of all earlier steps (DUR-1)."""

    send: tuple[Send, ...] = ()
    """Messages to other machines, in this order. They may be lost; nothing rests on their arrival."""

    transfer: tuple[Transfer, ...] = ()
    """Byte work. What it rests on is durable and ordered before it (MOVE-2)."""

    reply: tuple[Reply, ...] = ()
    """Answers. They tell of durable facts only (LIN-1)."""

    alarm: int | None = None
    """The next instant (ms, the caller's clock) at which the machine wants a `Tick`. A level: it replaces the earlier one."""


NOTHING: Final = Ready()
