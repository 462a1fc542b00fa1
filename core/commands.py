"""What a client asks of the directory.

Three kinds. **Commands** change facts and travel in a numbered `Command`, exactly once and in order per session (rule 1).
**Session calls** open, renew and close the lease that numbers belong to; each is idempotent by its token.
**Queries** change nothing; they carry a token that comes back with the answer, and may be repeated freely.
"""

from __future__ import annotations

from attrs import define

from .ids import NO_COPY, Cause, CopyId, GroupId, HoldId, Key, MovePolicy, NodeName, Peer, SessionId, Tier


@define
class Spec:
    """All that is fixed about a group at `Create`. `sizes` in bytes per block, `block_ids` in prefix order.

    `parent` is advisory (eviction prefers leaves); `recompute_cost` and `priority` weigh in policies only.
    """

    group: GroupId
    key: Key
    sizes: tuple[int, ...]
    block_ids: tuple[str, ...] = ()
    request: str = ""
    sequence: str = ""
    parent: GroupId | None = None
    priority: int = 0
    recompute_cost: int = 0
    ttl_ms: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)


# ---- commands ------------------------------------------------------------------------------------------------


@define
class Create:
    """Reserve room for a new copy and become its only writer. Answers `Created`, `Joined` or `Exists`.

    `node` and `tier` are wishes; "" lets placement choose. `write_ms` is the time the writing may take.
    """

    spec: Spec
    node: NodeName = NodeName("")
    tier: Tier = Tier.DRAM
    request: str = ""
    write_ms: int = 0


@define
class Pin:
    """Keep a copy in the record (not the right to touch bytes: that is a guard). `copy` NO_COPY: any readable one.

    `near` names the node the caller would rather read from. Answers `Pinned`.
    """

    group: GroupId
    copy: CopyId = NO_COPY
    policy: MovePolicy = MovePolicy.SOURCE
    request: str = ""
    near: NodeName = NodeName("")


@define
class PinPrefix:
    """Pin the longest run of readable groups from the front, in one commit. Answers `PrefixPinned` (perhaps empty)."""

    groups: tuple[GroupId, ...]
    request: str = ""
    near: NodeName = NodeName("")


@define
class Unpin:
    """End a PIN. Answers `Released`."""

    hold: HoldId


@define
class Ref:
    """Hold a group: no evict, but moves are fine. Answers `Referred`."""

    group: GroupId
    request: str = ""


@define
class Unref:
    """End a REF. Answers `Released`."""

    hold: HoldId


@define
class Move:
    """Make `target` (a node, or a store) hold the authoritative copy. Answers `MoveAccepted`; `Await` tells the end.

    `expected_epoch` 0 means any. `deadline_ms` 0 means the configured one.
    """

    group: GroupId
    target: NodeName
    allow_pinned: bool = False
    expected_epoch: int = 0
    deadline_ms: int = 0
    cause: Cause = Cause.CALLER


@define
class CancelMove:
    """End a live move; the source stays authoritative. `move` is the move id (the target's copy id). Answers `MoveCancelled`."""

    group: GroupId
    move: CopyId


@define
class Replicate:
    """Make a read replica at `target`. Answers `ReplicaAccepted`."""

    group: GroupId
    target: NodeName
    deadline_ms: int = 0


@define
class DropReplica:
    """Give a replica up; it retires when its holds end. Answers `ReplicaDropped`."""

    group: GroupId
    copy: CopyId


@define
class Evict:
    """Give the group up. With `wait`, holds defer it and new holds are refused `Leaving`. Answers `EvictAccepted`."""

    group: GroupId
    expected_epoch: int = 0
    wait: bool = False


@define
class ReleaseRequest:
    """End all of this session's holds that were taken for `request`. Answers `RequestReleased`."""

    request: str


@define
class Drain:
    """Empty a node (`on`), or take it into placement again. Answers `DrainAccepted`."""

    node: NodeName
    on: bool = True


@define
class Cancel:
    """Sent under a number already used for another command: tells what happened, or makes sure that nothing will."""


Body = (
    Create
    | Pin
    | PinPrefix
    | Unpin
    | Ref
    | Unref
    | Move
    | CancelMove
    | Replicate
    | DropReplica
    | Evict
    | ReleaseRequest
    | Drain
    | Cancel
)


@define
class Batch:
    """Up to `Limits.batch_items` commands under one number: one commit, one answer per item, applied in order."""

    items: tuple[Body, ...]


@define
class Command:
    """`body` as number `sequence` of `session`; `low` is the lowest number without an answer (rule 1)."""

    client: Peer
    session: SessionId
    sequence: int
    low: int
    body: Body | Batch


# ---- session calls -------------------------------------------------------------------------------------------


@define
class OpenSession:
    """Open, or resume by `name`, a session with a lease of `lease_ms`. The same token gives the same session."""

    client: Peer
    token: str
    name: str = ""
    lease_ms: int = 10_000


@define
class KeepAlive:
    client: Peer
    token: str
    session: SessionId


@define
class CloseSession:
    client: Peer
    token: str
    session: SessionId


# ---- queries -------------------------------------------------------------------------------------------------


@define
class Locate:
    """Where can these groups be read? With `prefix`, the longest readable run from the front. A hint. Answers `Located`.

    `touch` false leaves the access data alone (for tools that only look).
    """

    client: Peer
    token: str
    groups: tuple[GroupId, ...]
    prefix: bool = True
    touch: bool = True
    near: NodeName = NodeName("")


@define
class Await:
    """Tell when something has ended, or that `timeout_ms` passed. Answers `Awaited`.

    `want`: `"readable"` (the group; or `copy`, if it is named), `"settled"` (no live move with id `copy`), `"gone"` (the group's
    record has ended), `"drained"` (the node named in `node`).
    """

    client: Peer
    token: str
    want: str
    group: GroupId = GroupId(b"")
    copy: CopyId = NO_COPY
    node: NodeName = NodeName("")
    timeout_ms: int = 0


@define
class Describe:
    """The record of one group, its holds included. Answers `Described`."""

    client: Peer
    token: str
    group: GroupId


@define
class ListGroups:
    """A page of groups after `after` in id order; filters are exact, "" passes all. Answers `Listed`.

    `block` and `request` go through the directory's indexes.
    """

    client: Peer
    token: str
    after: GroupId = GroupId(b"")
    limit: int = 100
    tenant: str = ""
    model: str = ""
    node: NodeName = NodeName("")
    request: str = ""
    block: str = ""


@define
class Status:
    """Nodes, sessions, fill, counters. Answers `StatusReport`."""

    client: Peer
    token: str


@define
class Explain:
    """Would this command be refused now, by which guard, row and holder? Changes nothing. Answers `Explained`."""

    client: Peer
    token: str
    session: SessionId
    body: Body


Query = Locate | Await | Describe | ListGroups | Status | Explain
SessionCall = OpenSession | KeepAlive | CloseSession
