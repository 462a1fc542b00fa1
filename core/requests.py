"""What clients and other nodes ask of a node, and what it answers. Each request carries a token that comes back.

Bytes travel as `data`: any buffers (bytes, memoryview, or nothing at all when a run leaves payloads out). Machines pass
them on and never look inside.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from .errors import Refusal
from .ids import CopyId, NodeName, Peer, Tier
from .reports import InventoryEntry, TierFill

Payload = tuple[Any, ...]
"""One buffer per block; `()` when payloads are left out."""


@define
class Write:
    """Put `blocks` (indices) of a reserved copy. `checksums` one per block, in the layout's algorithm. Answers `Written`."""

    client: Peer
    token: str
    copy: CopyId
    blocks: tuple[int, ...]
    checksums: tuple[int, ...]
    data: Payload = ()


@define
class EndWrite:
    """All blocks are written; the manifest hash must be `manifest`. Answers `WriteEnded` after verification."""

    client: Peer
    token: str
    copy: CopyId
    manifest: bytes


@define
class AbortWrite:
    """Give the writing up. Answers `WriteAborted`."""

    client: Peer
    token: str
    copy: CopyId


@define
class Read:
    """Read `blocks` of a copy. The node's process holds the guard for the length of the request. Answers `Blocks`."""

    client: Peer
    token: str
    copy: CopyId
    blocks: tuple[int, ...]


@define
class NodeStat:
    """Fill, guards, jobs. Answers `NodeStatus`."""

    client: Peer
    token: str


@define
class ListCopies:
    """A page of what the node has, after `after` in id order, `limit` entries at most. Answers `CopiesListed`."""

    client: Peer
    token: str
    after: CopyId
    limit: int = 1_000


@define
class Acquire:
    """A guard for a process or peer that touches bytes itself. `write` needs a reserved copy. Answers `Guarded`.

    `owner` is `process:<pid>/<start>` or `peer:<node>/<incarnation>`; `stay` also keeps the instance in its tier.
    """

    client: Peer
    token: str
    owner: str
    copy: CopyId
    write: bool = False
    stay: bool = False


@define
class Let:
    """Release guard `guard`. Answers `LetGo`."""

    client: Peer
    token: str
    guard: int


NodeRequest = Write | EndWrite | AbortWrite | Read | NodeStat | ListCopies | Acquire | Let


# ---- answers of a node ---------------------------------------------------------------------------------------


@define
class Written:
    node: NodeName
    token: str
    copy: CopyId
    blocks: tuple[int, ...]


@define
class WriteEnded:
    node: NodeName
    token: str
    copy: CopyId
    manifest: bytes


@define
class WriteAborted:
    node: NodeName
    token: str
    copy: CopyId


@define
class Blocks:
    """Verified bytes of `blocks` of `copy`, and the tier they came from."""

    node: NodeName
    token: str
    copy: CopyId
    blocks: tuple[int, ...]
    checksums: tuple[int, ...]
    tier: Tier
    data: Payload = ()


@define
class NodeStatus:
    node: NodeName
    token: str
    boot: str
    incarnation: int
    term: int
    number: int
    tiers: tuple[TierFill, ...]
    copies: int
    guards: tuple[str, ...]
    jobs: tuple[str, ...]


@define
class CopiesListed:
    """`more`: ask again after the last id."""

    node: NodeName
    token: str
    entries: tuple[InventoryEntry, ...]
    more: bool


@define
class Guarded:
    """`tier` and `slots` say where the bytes are; valid until `Let`, withdrawal or the end of the owner's process."""

    node: NodeName
    token: str
    copy: CopyId
    guard: int
    tier: Tier
    slots: tuple[int, ...]


@define
class LetGo:
    node: NodeName
    token: str
    guard: int


@define
class NodeRefused:
    node: NodeName
    token: str
    copy: CopyId
    refusal: Refusal


NodeAnswer = Written | WriteEnded | WriteAborted | Blocks | NodeStatus | CopiesListed | Guarded | LetGo | NodeRefused
