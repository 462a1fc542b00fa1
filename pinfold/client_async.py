"""The client library for asyncio: the calls of `pinfold.client.Connection`, which says what each of them does.

    async with await pinfold.connect_async("tcp://127.0.0.1:5555") as cache:
        await cache.put_cache(key, blocks)
        got, other = await asyncio.gather(cache.get_cache(key), cache.get_cache(another))

The same thread does the work, so that the event loop never waits for the network; a task that is cancelled cancels its call,
and what the call may have taken is given back. Bytes are looked at (checksums) in worker threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from . import client_calls as calls
from .client import CLOSE_MS, Base, start
from .client_calls import Group, Request
from .client_loop import LoopWire
from .core import answers as a
from .core import commands as c
from .core.calls import Done, GotGroup, Op, PutDone
from .core.errors import RefusalError
from .core.ids import NO_COPY, CopyId, HoldId, Key, Layout, MovePolicy, NodeName, Tier
from .core.requests import NodeStatus

T = TypeVar("T")


async def connect_async(
    endpoints: str | Sequence[str], *, make_wire: Callable[[str], LoopWire] | None = None, **config: Any
) -> AsyncConnection:
    """As `pinfold.connect`."""
    return AsyncConnection(await asyncio.to_thread(start, endpoints, make_wire, config))


class AsyncConnection(Base):
    """See the module. May be used from several event loops."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, timeout_ms: int = CLOSE_MS) -> None:
        await asyncio.to_thread(self._close, timeout_ms)

    async def run(self, op: Op, *, timeout_ms: int = 0) -> Done:
        future = self._loop.submit(op, timeout_ms)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._loop.abandon(future)
            raise

    async def _run(self, request: Request[T], timeout_ms: int) -> T:
        done = await self.run(request.op, timeout_ms=timeout_ms)
        try:
            if request.heavy:
                return await asyncio.to_thread(request.finish, done.value)
            return request.finish(done.value)
        except (RefusalError, asyncio.CancelledError):
            self._loop.give_back(done)
            raise

    # ---- the six -----------------------------------------------------------------------------------------------

    async def put_cache(
        self, key: Key, blocks: Sequence[Any], *, node: str = "", tier: Tier = Tier.DRAM, request: str = "",
        sequence: str = "", keep_pin: bool = False, block_ids: Sequence[str] = (), parent: Group | None = None,
        priority: int = 0, recompute_cost: int = 0, ttl_ms: int = 0, timeout_ms: int = 0,
    ) -> PutDone:  # fmt: skip
        request_ = await asyncio.to_thread(
            calls.put, key, blocks, node=node, tier=tier, request=request, sequence=sequence, keep_pin=keep_pin,
            block_ids=block_ids, parent=parent, priority=priority, recompute_cost=recompute_cost, ttl_ms=ttl_ms,
        )  # fmt: skip
        return await self._run(request_, timeout_ms)

    async def get_cache(
        self, group: Group, *, policy: MovePolicy = MovePolicy.SOURCE, near: str = "", blocks: Sequence[int] = (),
        request: str = "", keep_pin: bool = False, sizes: Sequence[int] = (), layout: Layout | None = None,
        timeout_ms: int = 0,
    ) -> GotGroup:  # fmt: skip
        request_ = calls.get(
            group, policy=policy, near=near, blocks=blocks, request=request, keep_pin=keep_pin, sizes=sizes, layout=layout
        )
        return await self._run(request_, timeout_ms)

    async def move_cache(
        self, group: Group, target: str, *, allow_pinned: bool = False, expected_epoch: int = 0, deadline_ms: int = 0,
        timeout_ms: int = 0,
    ) -> a.MoveAccepted:  # fmt: skip
        body = c.Move(calls.id_of(group), NodeName(target), allow_pinned, expected_epoch, deadline_ms)
        return await self._run(calls.do(body, a.MoveAccepted), timeout_ms)

    async def evict_cache(
        self, group: Group, *, expected_epoch: int = 0, wait: bool = False, timeout_ms: int = 0
    ) -> a.EvictAccepted:
        return await self._run(calls.do(c.Evict(calls.id_of(group), expected_epoch, wait), a.EvictAccepted), timeout_ms)

    async def pin_cache(
        self, group: Group, *, copy: CopyId = NO_COPY, policy: MovePolicy = MovePolicy.SOURCE, request: str = "",
        near: str = "", timeout_ms: int = 0,
    ) -> a.Pinned:  # fmt: skip
        return await self._run(calls.pin(group, copy, policy, request, near), timeout_ms)

    async def unpin_cache(self, hold: HoldId, *, timeout_ms: int = 0) -> a.Released:
        return await self._run(calls.release(hold, c.Unpin), timeout_ms)

    # ---- holds -------------------------------------------------------------------------------------------------

    async def pin_prefix(
        self, groups: Sequence[Group], *, request: str = "", near: str = "", timeout_ms: int = 0
    ) -> a.PrefixPinned:
        return await self._run(calls.pin_prefix(groups, request, near), timeout_ms)

    async def ref(self, group: Group, *, request: str = "", timeout_ms: int = 0) -> a.Referred:
        return await self._run(calls.do(c.Ref(calls.id_of(group), request), a.Referred), timeout_ms)

    async def unref(self, hold: HoldId, *, timeout_ms: int = 0) -> a.Released:
        return await self._run(calls.release(hold, c.Unref), timeout_ms)

    async def release_request(self, request: str, *, timeout_ms: int = 0) -> a.RequestReleased:
        return await self._run(calls.do(c.ReleaseRequest(request), a.RequestReleased), timeout_ms)

    async def batch(self, bodies: Sequence[c.Body], *, timeout_ms: int = 0) -> tuple[a.ItemAnswer, ...]:
        return await self._run(calls.batch(bodies), timeout_ms)

    # ---- places ------------------------------------------------------------------------------------------------

    async def read(
        self, route: a.Route, *, blocks: Sequence[int] = (), layout: Layout | None = None, timeout_ms: int = 0
    ) -> GotGroup:
        return await self._run(calls.read(route, blocks, layout), timeout_ms)

    async def locate(
        self, groups: Sequence[Group], *, prefix: bool = True, touch: bool = True, near: str = "", timeout_ms: int = 0
    ) -> a.Located:
        return await self._run(calls.locate(groups, prefix, touch, near), timeout_ms)

    async def cancel_move(self, group: Group, move: CopyId, *, timeout_ms: int = 0) -> a.MoveCancelled:
        return await self._run(calls.do(c.CancelMove(calls.id_of(group), move), a.MoveCancelled), timeout_ms)

    async def replicate(self, group: Group, target: str, *, deadline_ms: int = 0, timeout_ms: int = 0) -> a.ReplicaAccepted:
        body = c.Replicate(calls.id_of(group), NodeName(target), deadline_ms)
        return await self._run(calls.do(body, a.ReplicaAccepted), timeout_ms)

    async def drop_replica(self, group: Group, copy: CopyId, *, timeout_ms: int = 0) -> a.ReplicaDropped:
        return await self._run(calls.do(c.DropReplica(calls.id_of(group), copy), a.ReplicaDropped), timeout_ms)

    async def drain(self, node: str, *, on: bool = True, timeout_ms: int = 0) -> a.DrainAccepted:
        return await self._run(calls.do(c.Drain(NodeName(node), on), a.DrainAccepted), timeout_ms)

    # ---- waiting -----------------------------------------------------------------------------------------------

    async def await_readable(self, group: Group, *, timeout_ms: int = 0) -> a.Awaited:
        return await self._run(calls.await_("readable", group=group), timeout_ms)

    async def await_settled(self, group: Group, move: CopyId = NO_COPY, *, timeout_ms: int = 0) -> a.Awaited:
        return await self._run(calls.await_("settled", group=group, copy=move), timeout_ms)

    async def await_gone(self, group: Group, *, timeout_ms: int = 0) -> a.Awaited:
        return await self._run(calls.await_("gone", group=group), timeout_ms)

    async def await_drained(self, node: str, *, timeout_ms: int = 0) -> a.Awaited:
        return await self._run(calls.await_("drained", node=node), timeout_ms)

    # ---- looking -----------------------------------------------------------------------------------------------

    async def describe(self, group: Group, *, timeout_ms: int = 0) -> a.Described:
        return await self._run(calls.ask(c.Describe(calls.NOBODY, "", calls.id_of(group)), a.Described), timeout_ms)

    async def list_groups(
        self, *, after: Group = b"", limit: int = 100, tenant: str = "", model: str = "", node: str = "", request: str = "",
        block: str = "", timeout_ms: int = 0,
    ) -> a.Listed:  # fmt: skip
        return await self._run(calls.list_groups(after, limit, tenant, model, node, request, block), timeout_ms)

    async def status(self, *, timeout_ms: int = 0) -> a.StatusReport:
        return await self._run(calls.ask(c.Status(calls.NOBODY, ""), a.StatusReport), timeout_ms)

    async def stat(self, address: str, *, timeout_ms: int = 0) -> NodeStatus:
        return await self._run(calls.node_status(address), timeout_ms)

    async def explain(self, body: c.Body, *, timeout_ms: int = 0) -> a.Explained:
        return await self._run(calls.explain(body), timeout_ms)
