"""What each call of a connection asks the client machine, and what the caller gets: shared by the sync and the async face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from attrs import define

from .backends.checksums import checksum, checksums
from .client_loop import CallFailed
from .core import answers as a
from .core import commands as c
from .core.calls import Ask, AskNode, Do, Failed, GetGroup, GotGroup, Op, PutDone, PutGroup, ReadRoute
from .core.errors import Refusal
from .core.ids import NO_COPY, CopyId, GroupId, HoldId, Key, Layout, MovePolicy, NodeName, Peer, SessionId, Tier, group_id
from .core.requests import NodeStat, NodeStatus

T = TypeVar("T")
Group = Key | GroupId | bytes
"""A group by its key or by its id of 16 bytes."""
Buffer = bytes | bytearray | memoryview
"""The bytes of one block. Anything else that has a C-contiguous buffer (a numpy array) may be given, too."""

NOBODY = Peer("")
"""The machine fills itself in."""


@define
class Request(Generic[T]):
    """One operation, and what makes the caller's result of its value. `heavy`: that looks at bytes."""

    op: Op
    finish: Callable[[Any], T]
    heavy: bool = False


def id_of(group: Group) -> GroupId:
    return group_id(group) if isinstance(group, Key) else GroupId(bytes(group))


def _as(kind: type[T]) -> Callable[[Any], T]:
    """The directory and the machine have checked that an answer fits its question; this says so to the type checker."""

    def finish(value: Any) -> T:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return finish


def do(body: c.Body, kind: type[T]) -> Request[T]:
    return Request(Do(body), _as(kind))


def ask(query: c.Query, kind: type[T]) -> Request[T]:
    return Request(Ask(query), _as(kind))


# ---- bytes -----------------------------------------------------------------------------------------------------


def buffers_of(blocks: Sequence[Any]) -> tuple[Buffer, ...]:
    """Flat views of what was given; nothing is copied. Raises ValueError for a buffer that is not C-contiguous."""
    found: list[Buffer] = []
    for index, block in enumerate(blocks):
        if isinstance(block, bytes | bytearray):
            found.append(block)
            continue
        view = memoryview(block)
        if not view.c_contiguous:
            raise ValueError(f"block {index} is not C-contiguous")
        found.append(view.cast("B"))
    return tuple(found)


def put(
    key: Key, blocks: Sequence[Any], *, node: str, tier: Tier, request: str, sequence: str, keep_pin: bool,
    block_ids: Sequence[str], parent: Group | None, priority: int, recompute_cost: int, ttl_ms: int,
) -> Request[PutDone]:  # fmt: skip
    data = buffers_of(blocks)
    if len(data) != key.blocks:
        raise ValueError(f"the key says {key.blocks} blocks, {len(data)} were given")
    sizes = tuple(len(buffer) for buffer in data)
    spec = c.Spec(
        group_id(key), key, sizes, tuple(block_ids), request, sequence,
        None if parent is None else id_of(parent), priority, recompute_cost, ttl_ms,
    )  # fmt: skip
    sums = checksums(key.layout.checksum, data)
    return Request(PutGroup(spec, sums, data, NodeName(node), tier, request, keep_pin), _as(PutDone))


def get(
    group: Group, *, policy: MovePolicy, near: str, blocks: Sequence[int], request: str, keep_pin: bool,
    sizes: Sequence[int], layout: Layout | None,
) -> Request[GotGroup]:  # fmt: skip
    """With the layout known (a `Key` has it) every byte is compared with its checksum; with all blocks read and `sizes` known
    the checksums are compared with the record's manifest hash as well (BYTES-1)."""
    if isinstance(group, Key):
        layout = group.layout
    whole = layout if sizes and not blocks else None
    op = GetGroup(id_of(group), policy, NodeName(near), tuple(blocks), request, keep_pin, whole, tuple(sizes))
    return Request(op, lambda value: verified(value, layout), heavy=True)


def read(route: a.Route, blocks: Sequence[int], layout: Layout | None) -> Request[GotGroup]:
    return Request(ReadRoute(route, tuple(blocks)), lambda value: verified(value, layout), heavy=True)


def verified(value: Any, layout: Layout | None) -> GotGroup:
    """The group, with the bytes compared with their checksums if the layout says how. Raises CallFailed (`Corrupt`)."""
    got = _as(GotGroup)(value)
    if layout is not None:
        function = checksum(layout.checksum)
        for block, buffer, expected in zip(got.blocks, got.data, got.checksums, strict=False):  # data may be left out
            if function(buffer) != expected:
                detail = f"block {block} of {got.route.copy} from {got.route.node} arrived with other bytes"
                raise CallFailed(Failed(Refusal("Corrupt", detail), definite=True))
    return got


# ---- the rest --------------------------------------------------------------------------------------------------


def pin(group: Group, copy: CopyId, policy: MovePolicy, request: str, near: str) -> Request[a.Pinned]:
    return do(c.Pin(id_of(group), copy, policy, request, NodeName(near)), a.Pinned)


def pin_prefix(groups: Sequence[Group], request: str, near: str) -> Request[a.PrefixPinned]:
    return do(c.PinPrefix(tuple(map(id_of, groups)), request, NodeName(near)), a.PrefixPinned)


def locate(groups: Sequence[Group], prefix: bool, touch: bool, near: str) -> Request[a.Located]:
    return ask(c.Locate(NOBODY, "", tuple(map(id_of, groups)), prefix, touch, NodeName(near)), a.Located)


def await_(want: str, *, group: Group = b"", copy: CopyId = NO_COPY, node: str = "") -> Request[a.Awaited]:
    return ask(c.Await(NOBODY, "", want, id_of(group), copy, NodeName(node)), a.Awaited)


def list_groups(
    after: Group, limit: int, tenant: str, model: str, node: str, request: str, block: str
) -> Request[a.Listed]:
    query = c.ListGroups(NOBODY, "", id_of(after), limit, tenant, model, NodeName(node), request, block)
    return ask(query, a.Listed)


def explain(body: c.Body) -> Request[a.Explained]:
    return ask(c.Explain(NOBODY, "", SessionId(0), body), a.Explained)


def node_status(address: str) -> Request[NodeStatus]:
    return Request(AskNode(Peer(address), NodeStat(NOBODY, "")), _as(NodeStatus))


def batch(bodies: Sequence[c.Body]) -> Request[tuple[a.ItemAnswer, ...]]:
    return Request(Do(c.Batch(tuple(bodies))), lambda value: _as(a.BatchAnswer)(value).items)


def release(hold: HoldId, body: type[c.Unpin] | type[c.Unref]) -> Request[a.Released]:
    return do(body(hold), a.Released)
