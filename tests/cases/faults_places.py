"""Seeded faults of tiers, stores and wires."""

from __future__ import annotations

import os
import pickle
import select
import time
from hashlib import blake2b
from typing import Any

import attrs
import lmdb
import pytest
import zmq

from pinfold.backends import bytework, filetier, lmdb_database, lmdb_place
from pinfold.backends.base import StoreFull
from pinfold.backends.tier import TierFull
from pinfold.core import breaker, capacity, client, directory, events, ids, jobs, membership, node, orders, reports, shortfall
from pinfold.core.driver import Outcome
from pinfold.core.effects import StoreBlocks
from pinfold.transport import codec, sockets
from pinfold.transport.base import WireClosed
from pinfold.transport.polled import PolledBase
from tests.cases.switches import everywhere, wrapped, wrapped_method


def whose_it_is_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A file is read for the copy whose name it has, whatever its header says."""

    def read_header(whole: Any, tier: Any, copy: Any) -> Any:
        name = filetier.published_name(copy)
        length = tier._files.size(name)
        wanted = filetier.header_bytes(name, tier._files.read(name, 0, filetier.PREAMBLE_BYTES)) if length >= 32 else 0
        if not wanted or length < wanted:
            return whole(tier, copy)
        header = filetier.decode(name, tier._files.read(name, 0, wanted), length)
        return attrs.evolve(header, copy=copy)

    wrapped_method(patch, filetier.FileTier, "_read_header", read_header)


def errors_go_up(patch: pytest.MonkeyPatch) -> None:
    """Byte work does not end in `WorkFailed` but in the tier's own error."""

    def run(whole: Any, tiers: Any, work: Any) -> Any:
        return tiers._do(work)

    wrapped_method(patch, bytework.TierSet, "run", run)


def no_breaker(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, breaker.failed, lambda found, now, limits: breaker.CLOSED)


def full_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A write that the medium had no room for is told as done."""

    def do(whole: Any, tiers: Any, work: Any) -> Any:
        try:
            return whole(tiers, work)
        except TierFull:
            if isinstance(work, StoreBlocks):
                return events.BlocksStored(work.job, work.instance.copy)
            raise

    wrapped_method(patch, bytework.TierSet, "_do", do)


def shortfalls_are_not_told(patch: pytest.MonkeyPatch) -> None:
    """A node that has met the end of its medium keeps it to itself."""

    def nothing(turn: Any, work: Any) -> None:
        return None

    everywhere(patch, shortfall.fell_short, nothing)


def any_slot_will_do(patch: pytest.MonkeyPatch) -> None:
    """A node takes a group if it has the slots, whatever these hold."""

    def takes(node: Any, sizes: Any) -> bool:
        return capacity._holds(node, len(sizes))

    everywhere(patch, capacity.takes, takes)


def in_one_piece(patch: pytest.MonkeyPatch) -> None:
    """A fetch asks for all that is missing at once."""

    def ask(whole: Any, turn: Any, job: Any) -> None:
        config, turn.config = turn.config, attrs.evolve(turn.config, fetch_chunk=1_000_000)
        whole(turn, job)
        turn.config = config

    wrapped(patch, jobs.ask, ask)


# ---- wires ---------------------------------------------------------------------------------------------------


def snapshot_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever has connected is believed to have heard everything: heartbeats are not compared with what was ordered."""

    def heartbeat(turn: Any, event: Any) -> None:
        heard = turn.state.numbers.get(event.node, 0)
        membership.heartbeat(turn, attrs.evolve(event, number=heard))

    patch.setitem(directory._HANDLERS, reports.Heartbeat, heartbeat)


def numbers_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A node hears neither that the term is another one nor that an inventory is wanted."""
    patch.setitem(node.HANDLERS, orders.HeartbeatSeen, lambda turn, event: turn.drop())


def router_by_default(patch: pytest.MonkeyPatch) -> None:
    """A ROUTER that throws away what does not fit."""

    def init(whole: Any, router: Any, bind: str, limits: Any) -> None:
        whole(router, bind, limits)
        router.socket.setsockopt(zmq.ROUTER_MANDATORY, 0)

    wrapped_method(patch, sockets.Router, "__init__", init)


def sends_wait(patch: pytest.MonkeyPatch) -> None:
    """A send to a full pipe waits for room."""

    def send(whole: Any, ends: Any, frames: Any) -> bool:
        if whole(ends, frames):
            return True
        time.sleep(1.2)
        again: bool = whole(ends, frames)
        return again

    wrapped_method(patch, sockets._Ends, "_send", send)


def answers_in_order(patch: pytest.MonkeyPatch) -> None:
    """An answer belongs to the oldest question that waits."""

    def node_answered(whole: Any, turn: Any, event: Any) -> None:
        waiting = [token for token, exchange in turn.state.exchanges.items() if exchange.target]
        whole(turn, attrs.evolve(event, token=waiting[0]) if waiting else event)

    wrapped(patch, client.node_answered, node_answered)


def linger_by_default(patch: pytest.MonkeyPatch) -> None:
    def configure(whole: Any, socket: Any, limits: Any) -> None:
        whole(socket, limits)
        socket.setsockopt(zmq.LINGER, 30_000)

    wrapped(patch, sockets._configure, configure)


def anybody_s_socket(patch: pytest.MonkeyPatch) -> None:
    """Whose thread it is is not asked."""

    def check(self: Any) -> None:
        if self._closed:
            raise WireClosed("the wire is closed")

    patch.setattr(PolledBase, "_check", check)


def woken_by_edges(patch: pytest.MonkeyPatch) -> None:
    """The loop sleeps on the sockets' descriptors, and asks none of them before."""

    def turn(whole: Any, selector: Any, wait_ms: int) -> list[int]:
        descriptors: dict[int, Any] = {}
        for key in selector._handlers:
            if isinstance(key, zmq.Socket) and key.getsockopt(zmq.TYPE) == zmq.PAIR:
                if key.poll(0):
                    selector._handlers[key]()
                    return []
            else:
                descriptors[key.FD if isinstance(key, zmq.Socket) else key] = key
        ready, _, _ = select.select(list(descriptors), [], [], wait_ms / 1_000)
        for number in ready:
            handler = selector._handlers.get(descriptors[number])
            if handler is not None:
                handler()
        return []

    wrapped_method(patch, sockets.Selector, "turn", turn)


def unpickles(patch: pytest.MonkeyPatch) -> None:
    """What begins like a pickle is unpickled, for those who send one."""

    def open_head(whole: Any, frame: Any, **named: Any) -> Any:
        data = bytes(frame)
        if b"\x80" in data[:5]:
            try:
                pickle.loads(data[data.index(b"\x80") :])  # noqa: S301  the fault itself
            except (ValueError, pickle.UnpicklingError, EOFError, IndexError):
                return whole(frame, **named)
        return whole(frame, **named)

    wrapped(patch, codec.open_head, open_head)


# ---- identity ------------------------------------------------------------------------------------------------


def model_and_dtype_only(patch: pytest.MonkeyPatch) -> None:
    def group_id(key: Any) -> Any:
        text = ascii((key.tenant, key.model, key.layout.dtype, key.prefix, key.blocks))
        return blake2b(text.encode(), digest_size=16).digest()

    everywhere(patch, ids.group_id, group_id)


def python_s_own_hash(patch: pytest.MonkeyPatch) -> None:
    def group_id(key: Any) -> Any:
        return (hash(ascii(key)) & (1 << 64) - 1).to_bytes(16, "big")

    everywhere(patch, ids.group_id, group_id)


# ---- LMDB ----------------------------------------------------------------------------------------------------


def grows_under_a_transaction(patch: pytest.MonkeyPatch) -> None:
    """The map is made larger where its being full is met."""

    def write(whole: Any, database: Any, batch: Any, only_if: Any) -> Any:
        transaction = database._env.begin(write=True)
        try:
            for key, value in batch.items():
                if value is None:
                    transaction.delete(key)
                else:
                    transaction.put(key, value)
        except lmdb.MapFullError as error:
            grown = database._grow()
            transaction.abort()
            if not grown:
                return Outcome.NOT_DONE, StoreFull(str(error))
            return write(whole, database, batch, only_if)
        transaction.commit()
        return Outcome.DONE, None

    wrapped_method(patch, lmdb_database.Database, "_write", write)


def handles_survive_a_fork(patch: pytest.MonkeyPatch) -> None:
    """Which process opened a handle is not asked."""

    def as_ours(whole: Any, database: Any, *given: Any, **named: Any) -> Any:
        database._pid = os.getpid()
        return whole(database, *given, **named)

    for name in ("check", "close"):
        wrapped_method(patch, lmdb_database.Database, name, as_ours)


def no_registry_of_paths(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lmdb_place, "_flock", lambda descriptor, kind: True)


def writable_map(patch: pytest.MonkeyPatch) -> None:
    whole = lmdb.open
    patch.setattr(lmdb, "open", lambda *given, **named: whole(*given, **{**named, "writemap": not named.get("readonly", False)}))
