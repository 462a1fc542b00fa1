"""What the directory tells a node. An `Order` is fenced by `(term, incarnation, number)`; the node takes only a higher number
than the last, at the point of effect, and drops others unseen (rule 7). The other messages are answers to its reports."""

from __future__ import annotations

from attrs import define

from .commands import Spec
from .ids import CopyId, NodeName, Peer, Tier


@define
class Reserve:
    """Take slots for a copy that `writer` (a client's address) is going to write. No bytes yet."""

    copy: CopyId
    spec: Spec
    tier: Tier
    writer: Peer


@define
class Fetch:
    """Make `copy` (a move target or replica) here from `source_copy` at node or store `source`; verify against `manifest`.

    Report `CopyDone` or `CopyFailed`. `source_address` is the peer to ask; "" when the source is a store.
    """

    copy: CopyId
    spec: Spec
    manifest: bytes
    source_copy: CopyId
    source: NodeName
    source_address: Peer
    tier: Tier
    deadline_ms: int


@define
class Spill:
    """Make `copy` as an object in `store` from your own `source_copy`; verify; report `CopyDone` or `CopyFailed`."""

    copy: CopyId
    spec: Spec
    manifest: bytes
    source_copy: CopyId
    store: NodeName
    deadline_ms: int


@define
class Free:
    """Let the copy go: end its job, give no new guards, report `Freed` after the last guard. An unknown copy: `Freed` at once."""

    copy: CopyId


@define
class FreeObject:
    """As steward of `store`: delete the object of `copy` and report `Freed`."""

    copy: CopyId
    store: NodeName


@define
class Scan:
    """As steward of `store`: list its objects and report `StoreScanned` with this order's number."""

    store: NodeName


Instruction = Reserve | Fetch | Spill | Free | FreeObject | Scan


@define
class Order:
    shard: int
    term: int
    incarnation: int
    number: int
    body: Instruction


@define
class Registered:
    """The registration of `boot` is incarnation `incarnation`; renew within `lease_ms`. Send a full inventory next."""

    shard: int
    term: int
    node: NodeName
    boot: str
    incarnation: int
    lease_ms: int


@define
class NameTaken:
    """`node` is incarnation `incarnation` of another boot than yours. Were you never registered, register again over it; were
    you, it has replaced you: stop."""

    shard: int
    term: int
    node: NodeName
    boot: str
    incarnation: int


@define
class HeartbeatSeen:
    """Renewed. `inventory` asks for a full one (a new term, or something to repair)."""

    shard: int
    term: int
    incarnation: int
    inventory: bool


@define
class RegisterAgain:
    """Your lease has lapsed (same boot may come back), or the directory does not know `incarnation`."""

    shard: int
    term: int
    incarnation: int


@define
class FencedOff:
    """Incarnation `incarnation` of your name is over: the registration of `boot` has replaced it. Is that not your boot, stop.
    Is it your own (a message of before your return was late), register again."""

    shard: int
    term: int
    incarnation: int
    boot: str = ""


@define
class PeerGone:
    """Incarnation `incarnation` of `node` is over: guards that its registration owned end."""

    shard: int
    term: int
    node: NodeName
    incarnation: int


DirectoryNotice = Registered | NameTaken | HeartbeatSeen | RegisterAgain | FencedOff | PeerGone
