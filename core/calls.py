"""What an application asks of the client machine, and what it is answered: exactly one `Reply` per `Call` (ANSWER-1).

A call is one operation with a deadline. `Do` is one numbered command, `Ask` one query; `GetGroup` and `PutGroup` take
several steps of both kinds and talk to nodes as well; they never leave a hold behind when they fail.

    Call(7, GetGroup(group), timeout_ms=1000)  ->  Reply(7, Done(GotGroup(...)))
                                               or  Reply(7, Failed(Refusal("Unreadable"), definite=True))
"""

from __future__ import annotations

from typing import Any

from attrs import define

from .answers import Route
from .commands import Batch, Body, Query, Spec
from .errors import Refusal
from .events import ClientMessage, PeerUnreachable, Tick
from .ids import CopyId, GroupId, HoldId, Layout, MovePolicy, NodeName, Peer, Tier
from .requests import NodeStat, Payload

CallId = str | int
"""The caller's name for a call; comes back as `Reply.target`. Unique among the calls that have no answer yet."""


# ---- operations ----------------------------------------------------------------------------------------------


@define
class Do:
    """One numbered command, exactly once. `Done.value` is the directory's answer. `Cancel` is the machine's own: refused."""

    body: Body | Batch


@define
class Ask:
    """One query; its `client` and `token` are filled in. `Done.value` is the answer.

    An `Await` is asked in slices until it ends, until its own `timeout_ms`, or (0) until shortly before the call's deadline.
    """

    query: Query


@define
class AskNode:
    """One question to a node; `client` and `token` are filled in. `Done.value` is `NodeStatus`."""

    target: Peer
    request: NodeStat


@define
class PutGroup:
    """Create, write, end, wait until readable. `Done.value` is a `PutDone`.

    `checksums` one per block in the layout's algorithm; `data` one buffer per block, or () when payloads are left out.
    `keep_pin` leaves the caller with a PIN on the copy.
    """

    spec: Spec
    checksums: tuple[int, ...]
    data: Payload = ()
    node: NodeName = NodeName("")
    tier: Tier = Tier.DRAM
    request: str = ""
    keep_pin: bool = False


@define
class GetGroup:
    """Pin, read from the node, unpin. `Done.value` is a `GotGroup`. `blocks` () means all.

    With `layout` given and all blocks read, the checksums are verified against the record's manifest hash; `sizes` () means
    that every block has `layout.block_bytes` bytes.
    """

    group: GroupId
    policy: MovePolicy = MovePolicy.SOURCE
    near: NodeName = NodeName("")
    blocks: tuple[int, ...] = ()
    request: str = ""
    keep_pin: bool = False
    layout: Layout | None = None
    sizes: tuple[int, ...] = ()


@define
class ReadRoute:
    """Read by a route on which the caller has a PIN. `Done.value` is a `GotGroup` without hold. A stale route fails."""

    route: Route
    blocks: tuple[int, ...] = ()


@define
class CloseSessionOp:
    """End the session and with it all its holds. `Done.value` is `SessionClosed` (session 0: there was none)."""


Op = Do | Ask | AskNode | PutGroup | GetGroup | ReadRoute | CloseSessionOp


# ---- events --------------------------------------------------------------------------------------------------


@define
class Call:
    """Please do `op`. `timeout_ms` 0 means the configured one."""

    call: CallId
    op: Op
    timeout_ms: int = 0


@define
class CancelCall:
    """The caller has lost interest: it is answered at once, and what the call may have taken is given back."""

    call: CallId


ClientEvent = Tick | Call | CancelCall | PeerUnreachable | ClientMessage


# ---- results -------------------------------------------------------------------------------------------------


@define
class Done:
    """It happened. `(term, revision)` is when, as far as the directory was asked (0, 0: it was not)."""

    value: Any
    term: int = 0
    revision: int = 0


@define
class Failed:
    """It did not, or nobody can tell: `definite` says whether it surely did not happen.

    `action` is what the configured degradation advises: "" (nothing), "recompute" or "refuse".
    """

    refusal: Refusal
    definite: bool
    action: str = ""


@define
class GotGroup:
    """Equal lengths: `blocks`, `checksums` and `data` (or `data` is ()). `hold` is the caller's to release if not None.

    `tier` is the slowest tier that a block came from.
    """

    group: GroupId
    route: Route
    blocks: tuple[int, ...]
    checksums: tuple[int, ...]
    tier: Tier
    hold: HoldId | None
    data: Payload = ()


@define
class PutDone:
    """The group is readable as `copy`. `created` false: somebody else had written it. `hold` as in `GotGroup`."""

    group: GroupId
    copy: CopyId
    hold: HoldId | None
    created: bool
