"""The client library: a cluster's cache, from any thread.

    with pinfold.connect("tcp://127.0.0.1:5555", near="n1") as cache:
        cache.put_cache(key, blocks)
        got = cache.get_cache(key)                     # got.data: one buffer per block, each byte verified
        pinned = cache.pin_cache(key)                  # stays where it is until unpin_cache(pinned.hold)

Every call has a deadline (`timeout_ms`; 0: the configured one) and ends in a typed result, in `CallFailed` (a refusal, or no
answer in time: `.definite` says whether it surely did not happen, `.action` what the configured degradation advises), or in a
`WorldError`. `connect_async` gives the same calls to asyncio (`pinfold.client_async`).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs

from . import client_calls as calls
from .client_calls import Group, Request
from .client_loop import Loop, LoopWire
from .core import answers as a
from .core import commands as c
from .core.calls import Done, GotGroup, Op, PutDone
from .core.client_state import ClientConfig, Degradation
from .core.errors import RefusalError, WorldError
from .core.ids import NO_COPY, CopyId, HoldId, Key, Layout, MovePolicy, NodeName, Peer, Tier
from .core.requests import NodeStatus

T = TypeVar("T")
CLOSE_MS: Final = 2_000
"""How long the end of a connection may take to give back what it has; the lease of its session does the rest."""
FILLED_IN: Final = ("client", "directories", "boot")


def connect(
    endpoints: str | Sequence[str], *, make_wire: Callable[[str], LoopWire] | None = None, **config: Any
) -> Connection:
    """A connection to the directory at `endpoints` (one, or several addresses of the same). Says nothing to it yet.

    `config`: any field of `ClientConfig` but those that are filled in here, `degradation` also by name. `make_wire` gives the
    wire for an identity, in the connection's thread; the default is ZeroMQ's. Raises TypeError for an unknown field, ValueError
    for no endpoint, WorldError when the wire can't be made.
    """
    return Connection(start(endpoints, make_wire, config))


def start(endpoints: str | Sequence[str], make_wire: Callable[[str], LoopWire] | None, config: dict[str, Any]) -> Loop:
    """The thread of a connection that is being made."""
    token = os.urandom(8).hex()
    identity = f"client/{token}"
    settings = config_of(endpoints, identity, token, config)
    return Loop(settings, lambda: (make_wire or zmq_wire)(identity))


def zmq_wire(identity: str) -> LoopWire:
    try:
        from .transport.zmq import ClientWire
    except ImportError as error:
        raise WorldError(f"connecting needs {error.name}: pip install 'pinfold[wire]'") from error
    return ClientWire(identity)


def config_of(endpoints: str | Sequence[str], identity: str, token: str, values: dict[str, Any]) -> ClientConfig:
    addresses = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
    if not addresses or not all(addresses):
        raise ValueError("a connection needs the endpoint of a directory")
    known = [each.name for each in attrs.fields(ClientConfig) if each.name not in FILLED_IN]
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise TypeError(f"unknown setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    # Chance for the jitter of pauses; whoever wants the same pauses each time gives a seed.
    values = {"seed": int.from_bytes(os.urandom(8), "big"), **values}
    if isinstance(values.get("degradation"), str):
        values["degradation"] = Degradation[values["degradation"].upper()]
    return ClientConfig(Peer(identity), tuple(map(Peer, addresses)), token, **values)


class Base:
    """What a sync and an async connection have in common: the thread, its end, and what can be seen without asking."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        # A named session is there to outlive us; a fresh one ends with us.
        self._ends = not loop.config.session_name
        self._finalizer = weakref.finalize(self, loop.close, end_session=self._ends, timeout_ms=CLOSE_MS)

    @property
    def config(self) -> ClientConfig:
        return self._loop.config

    @property
    def lost_holds(self) -> tuple[HoldId, ...]:
        """Holds that the directory has ended, because bytes were lost or the session was; the newest last."""
        return self._loop.machine.state.lost_holds

    @property
    def counters(self) -> dict[str, int]:
        """Since the beginning: retries, stale_routes, breakers_opened, failed.<reason>, ..."""
        return dict(self._loop.machine.state.counters)

    def _close(self, timeout_ms: int) -> None:
        self._finalizer.detach()
        self._loop.close(end_session=self._ends, timeout_ms=timeout_ms)


class Connection(Base):
    """See the module. May be used by any number of threads at once; not by a forked child."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, timeout_ms: int = CLOSE_MS) -> None:
        """End the session, so that its holds are gone now, and the thread. A named session stays: only what is still to be
        released is said. Calls that wait fail. A second close does nothing."""
        self._close(timeout_ms)

    def run(self, op: Op, *, timeout_ms: int = 0) -> Done:
        """Any operation of `core.calls`; its `Done` tells term and revision as well."""
        return self._loop.wait(self._loop.submit(op, timeout_ms), timeout_ms)

    def _run(self, request: Request[T], timeout_ms: int) -> T:
        done = self.run(request.op, timeout_ms=timeout_ms)
        try:
            return request.finish(done.value)
        except RefusalError:
            self._loop.give_back(done)
            raise

    # ---- the six -----------------------------------------------------------------------------------------------

    def put_cache(
        self, key: Key, blocks: Sequence[Any], *, node: str = "", tier: Tier = Tier.DRAM, request: str = "",
        sequence: str = "", keep_pin: bool = False, block_ids: Sequence[str] = (), parent: Group | None = None,
        priority: int = 0, recompute_cost: int = 0, ttl_ms: int = 0, timeout_ms: int = 0,
    ) -> PutDone:  # fmt: skip
        """Write a group, one buffer per block, and wait until it can be read. `created` false: it was there already.

        Don't change the buffers before this returns. Raises ValueError if they don't fit the key.
        """
        return self._run(
            calls.put(
                key, blocks, node=node, tier=tier, request=request, sequence=sequence, keep_pin=keep_pin,
                block_ids=block_ids, parent=parent, priority=priority, recompute_cost=recompute_cost, ttl_ms=ttl_ms,
            ),
            timeout_ms,
        )  # fmt: skip

    def get_cache(
        self, group: Group, *, policy: MovePolicy = MovePolicy.SOURCE, near: str = "", blocks: Sequence[int] = (),
        request: str = "", keep_pin: bool = False, sizes: Sequence[int] = (), layout: Layout | None = None,
        timeout_ms: int = 0,
    ) -> GotGroup:  # fmt: skip
        """Read a group, or some of its blocks. Bytes are verified if the layout is known: given, or in the key."""
        request_ = calls.get(
            group, policy=policy, near=near, blocks=blocks, request=request, keep_pin=keep_pin, sizes=sizes, layout=layout
        )
        return self._run(request_, timeout_ms)

    def move_cache(
        self, group: Group, target: str, *, allow_pinned: bool = False, expected_epoch: int = 0, deadline_ms: int = 0,
        timeout_ms: int = 0,
    ) -> a.MoveAccepted:  # fmt: skip
        """Have a node, or a store, own the group. It is accepted now and done later: `await_settled(group, move)`."""
        body = c.Move(calls.id_of(group), NodeName(target), allow_pinned, expected_epoch, deadline_ms)
        return self._run(calls.do(body, a.MoveAccepted), timeout_ms)

    def evict_cache(
        self, group: Group, *, expected_epoch: int = 0, wait: bool = False, timeout_ms: int = 0
    ) -> a.EvictAccepted:
        """Give the group up; with `wait`, once its holds have ended. `await_gone` tells when its space is free."""
        return self._run(calls.do(c.Evict(calls.id_of(group), expected_epoch, wait), a.EvictAccepted), timeout_ms)

    def pin_cache(
        self, group: Group, *, copy: CopyId = NO_COPY, policy: MovePolicy = MovePolicy.SOURCE, request: str = "",
        near: str = "", timeout_ms: int = 0,
    ) -> a.Pinned:  # fmt: skip
        """Keep a copy where it is. `hold` is to be given back by `unpin_cache`; `read(route)` reads it."""
        return self._run(calls.pin(group, copy, policy, request, near), timeout_ms)

    def unpin_cache(self, hold: HoldId, *, timeout_ms: int = 0) -> a.Released:
        return self._run(calls.release(hold, c.Unpin), timeout_ms)

    # ---- holds -------------------------------------------------------------------------------------------------

    def pin_prefix(
        self, groups: Sequence[Group], *, request: str = "", near: str = "", timeout_ms: int = 0
    ) -> a.PrefixPinned:
        """Pin the longest run of readable groups from the front, perhaps none."""
        return self._run(calls.pin_prefix(groups, request, near), timeout_ms)

    def ref(self, group: Group, *, request: str = "", timeout_ms: int = 0) -> a.Referred:
        """Keep the group from being evicted, wherever it moves."""
        return self._run(calls.do(c.Ref(calls.id_of(group), request), a.Referred), timeout_ms)

    def unref(self, hold: HoldId, *, timeout_ms: int = 0) -> a.Released:
        return self._run(calls.release(hold, c.Unref), timeout_ms)

    def release_request(self, request: str, *, timeout_ms: int = 0) -> a.RequestReleased:
        """End all holds that this session took for `request`."""
        return self._run(calls.do(c.ReleaseRequest(request), a.RequestReleased), timeout_ms)

    def batch(self, bodies: Sequence[c.Body], *, timeout_ms: int = 0) -> tuple[a.ItemAnswer, ...]:
        """Several commands as one: applied together, in order, each with an answer of its own (which may be `Refused`)."""
        return self._run(calls.batch(bodies), timeout_ms)

    # ---- places ------------------------------------------------------------------------------------------------

    def read(
        self, route: a.Route, *, blocks: Sequence[int] = (), layout: Layout | None = None, timeout_ms: int = 0
    ) -> GotGroup:
        """Read by the route of a pin. A stale one fails with `StaleCopy`: pin again."""
        return self._run(calls.read(route, blocks, layout), timeout_ms)

    def locate(
        self, groups: Sequence[Group], *, prefix: bool = True, touch: bool = True, near: str = "", timeout_ms: int = 0
    ) -> a.Located:
        """Where groups can be read now (a hint): the longest run from the front, or without `prefix` each that can."""
        return self._run(calls.locate(groups, prefix, touch, near), timeout_ms)

    def cancel_move(self, group: Group, move: CopyId, *, timeout_ms: int = 0) -> a.MoveCancelled:
        return self._run(calls.do(c.CancelMove(calls.id_of(group), move), a.MoveCancelled), timeout_ms)

    def replicate(self, group: Group, target: str, *, deadline_ms: int = 0, timeout_ms: int = 0) -> a.ReplicaAccepted:
        """Make a read replica at a node; `await_settled` does not tell its end, `describe` does."""
        body = c.Replicate(calls.id_of(group), NodeName(target), deadline_ms)
        return self._run(calls.do(body, a.ReplicaAccepted), timeout_ms)

    def drop_replica(self, group: Group, copy: CopyId, *, timeout_ms: int = 0) -> a.ReplicaDropped:
        return self._run(calls.do(c.DropReplica(calls.id_of(group), copy), a.ReplicaDropped), timeout_ms)

    def drain(self, node: str, *, on: bool = True, timeout_ms: int = 0) -> a.DrainAccepted:
        """Empty a node (`await_drained`), or take it into placement again."""
        return self._run(calls.do(c.Drain(NodeName(node), on), a.DrainAccepted), timeout_ms)

    # ---- waiting: until it has happened, or `timeout_ms` (`outcome` "timeout") ------------------------------------

    def await_readable(self, group: Group, *, timeout_ms: int = 0) -> a.Awaited:
        """`outcome` "readable", or "gone" if it can't become readable any more."""
        return self._run(calls.await_("readable", group=group), timeout_ms)

    def await_settled(self, group: Group, move: CopyId = NO_COPY, *, timeout_ms: int = 0) -> a.Awaited:
        """Until this move (or any) is over, however it ended; `describe` or `locate` tell where the group is then."""
        return self._run(calls.await_("settled", group=group, copy=move), timeout_ms)

    def await_gone(self, group: Group, *, timeout_ms: int = 0) -> a.Awaited:
        return self._run(calls.await_("gone", group=group), timeout_ms)

    def await_drained(self, node: str, *, timeout_ms: int = 0) -> a.Awaited:
        return self._run(calls.await_("drained", node=node), timeout_ms)

    # ---- looking -----------------------------------------------------------------------------------------------

    def describe(self, group: Group, *, timeout_ms: int = 0) -> a.Described:
        """The group's record, its copies and holds."""
        return self._run(calls.ask(c.Describe(calls.NOBODY, "", calls.id_of(group)), a.Described), timeout_ms)

    def list_groups(
        self, *, after: Group = b"", limit: int = 100, tenant: str = "", model: str = "", node: str = "", request: str = "",
        block: str = "", timeout_ms: int = 0,
    ) -> a.Listed:  # fmt: skip
        """A page of groups in id order; pass the last id as `after` for the next one while `more`."""
        return self._run(calls.list_groups(after, limit, tenant, model, node, request, block), timeout_ms)

    def status(self, *, timeout_ms: int = 0) -> a.StatusReport:
        """Nodes, sessions, fill, counters of the directory."""
        return self._run(calls.ask(c.Status(calls.NOBODY, ""), a.StatusReport), timeout_ms)

    def stat(self, address: str, *, timeout_ms: int = 0) -> NodeStatus:
        """Fill, guards and jobs of the node at `address` (`NodeLine.address` of `status`)."""
        return self._run(calls.node_status(address), timeout_ms)

    def explain(self, body: c.Body, *, timeout_ms: int = 0) -> a.Explained:
        """Would this command be refused now, by which guard, row and holder? Changes nothing."""
        return self._run(calls.explain(body), timeout_ms)
