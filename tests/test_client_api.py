"""The client library: typed results, deadlines, threads, asyncio, closing, forking."""

import asyncio
import gc
import os
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from pinfold.client import Connection, connect
from pinfold.client_async import AsyncConnection, connect_async
from pinfold.client_loop import CallFailed, ConnectionEnded
from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core.calls import Ask
from pinfold.core.client_state import Degradation
from pinfold.core.errors import WorldError
from pinfold.core.ids import GroupId, Key, Layout, Peer, group_id
from pinfold.transport.base import IdentityTaken, MisuseError
from tests.client_cluster import FakeCluster
from tests.client_wires import QueueWire

KEY = Key("tenant", "model", "1", Layout(block_bytes=8), "prefix", 2)
BLOCKS = [b"12345678", bytearray(b"abc")]
MISSING = GroupId(b"no such group...")


class World:
    """One connection and what is behind it."""

    def __init__(self, **config: Any) -> None:
        self.cluster = FakeCluster()
        self.wire = QueueWire(self.cluster)
        self.cache = connect("tcp://nowhere:1", make_wire=lambda identity: self.wire, **config)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.cache.close()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "pinfold-client"]


def until(done: Any, seconds: float = 5) -> None:
    """Wait for something that another thread is doing."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it has not happened in time"
        time.sleep(0.005)


# ---- the calls -------------------------------------------------------------------------------------------------


def test_put_then_get_gives_the_same_bytes(world: World) -> None:
    put = world.cache.put_cache(KEY, BLOCKS)
    assert (put.group, put.created, put.hold) == (group_id(KEY), True, None)
    assert not world.cache.put_cache(KEY, BLOCKS).created
    got = world.cache.get_cache(KEY, sizes=(8, 3))
    assert [bytes(block) for block in got.data] == [bytes(block) for block in BLOCKS]
    assert got.checksums == tuple(zlib.crc32(block) for block in BLOCKS)
    assert world.cache.get_cache(group_id(KEY), blocks=(1,)).data == (BLOCKS[1],)


def test_any_contiguous_buffer_is_a_block(world: World) -> None:
    numpy = pytest.importorskip("numpy")
    world.cache.put_cache(KEY, [numpy.arange(2, dtype="u4"), memoryview(b"xyz")])
    assert bytes(world.cache.get_cache(KEY).data[0]) == numpy.arange(2, dtype="u4").tobytes()
    with pytest.raises(ValueError, match="contiguous"):
        world.cache.put_cache(KEY, [numpy.arange(8, dtype="u1")[::2], b"x"])


def test_blocks_that_do_not_fit_the_key_are_refused_at_once(world: World) -> None:
    with pytest.raises(ValueError, match="2 blocks, 1 were given"):
        world.cache.put_cache(KEY, [b"x"])


def test_a_refusal_is_raised_with_all_that_is_known(world: World) -> None:
    with pytest.raises(CallFailed) as caught:
        world.cache.get_cache(MISSING)
    assert (caught.value.refusal.reason, caught.value.definite, caught.value.exit_code) == ("Unreadable", True, 6)


def test_degradation_by_name_advises_the_caller() -> None:
    world = World(degradation="recompute")
    assert world.cache.config.degradation is Degradation.RECOMPUTE
    with pytest.raises(CallFailed) as caught:
        world.cache.get_cache(MISSING)
    assert caught.value.action == "recompute"
    world.cache.close()


def test_pins_and_refs_are_taken_and_given_back(world: World) -> None:
    kept = world.cache.put_cache(KEY, BLOCKS, keep_pin=True)
    pinned = world.cache.pin_cache(KEY)
    referred = world.cache.ref(KEY)
    assert sorted(world.cluster.holds) == sorted([kept.hold, pinned.hold, referred.hold])  # type: ignore[type-var]
    assert world.cache.read(pinned.route).checksums == pinned_checksums()
    world.cache.unpin_cache(pinned.hold)
    world.cache.unref(referred.hold)
    assert list(world.cluster.holds) == [kept.hold]
    with pytest.raises(CallFailed, match="AlreadyDone"):
        world.cache.unpin_cache(pinned.hold)


def pinned_checksums() -> tuple[int, ...]:
    return tuple(zlib.crc32(block) for block in BLOCKS)


def test_queries_and_batches(world: World) -> None:
    world.cache.put_cache(KEY, BLOCKS)
    assert [route.group for route in world.cache.locate([KEY]).routes] == [group_id(KEY)]
    assert world.cache.await_readable(KEY).outcome == "readable"
    first, second = world.cache.batch([c.Ref(group_id(KEY)), c.Pin(MISSING)])
    assert isinstance(first, a.Referred)
    assert isinstance(second, a.Refused)
    done = world.cache.run(Ask(c.Locate(Peer(""), "", (group_id(KEY),))))
    assert (done.term, done.revision) == (1, world.cluster.revision)


def test_bytes_that_changed_on_the_way_are_never_given_to_the_caller(world: World) -> None:
    world.cache.put_cache(KEY, BLOCKS)
    for record in world.cluster.copies.values():
        record.blocks[0] = (record.blocks[0][0], b"12345679")
    with pytest.raises(CallFailed, match="Corrupt"):
        world.cache.get_cache(KEY, keep_pin=True)
    until(lambda: not world.cluster.holds)


# ---- deadlines, threads ------------------------------------------------------------------------------------------


def test_a_silent_cluster_costs_the_deadline_and_no_more(world: World) -> None:
    world.wire.silent = True
    begun = time.monotonic()
    with pytest.raises(CallFailed, match="DeadlineReached"):
        world.cache.status(timeout_ms=200)
    assert 0.15 < time.monotonic() - begun < 3


def test_many_threads_share_a_connection(world: World) -> None:
    world.cache.put_cache(KEY, BLOCKS)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                world.cache.unpin_cache(world.cache.pin_cache(KEY).hold)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert not world.cluster.holds


def test_a_value_that_cannot_travel_is_told_to_its_caller_alone(world: World) -> None:
    world.wire.poison = c.Evict
    with pytest.raises(MisuseError):
        world.cache.evict_cache(KEY, timeout_ms=300)
    world.wire.poison = None
    assert world.cache.put_cache(KEY, BLOCKS).created


def test_a_dead_thread_tells_everybody_why(world: World) -> None:
    world.wire.silent = True
    future = world.cache._loop.submit(Ask(c.Status(Peer(""), "")), 60_000)
    world.wire.fatal = IdentityTaken("somebody else")
    world.wire.wake()
    with pytest.raises(ConnectionEnded, match="somebody else"):
        future.result(5)
    with pytest.raises(ConnectionEnded, match="somebody else"):
        world.cache.status()
    assert world.wire.closed


# ---- the end -----------------------------------------------------------------------------------------------------


def test_closing_ends_the_session_its_holds_and_the_thread() -> None:
    world = World()
    world.cache.put_cache(KEY, BLOCKS, keep_pin=True)
    assert world.cluster.holds
    world.cache.close()
    assert not world.cluster.holds
    assert not world.cluster.sessions
    assert world.wire.closed
    world.cache.close()
    with pytest.raises(ConnectionEnded, match="closed"):
        world.cache.status()


def test_closing_a_named_session_leaves_it_and_says_what_was_to_be_released() -> None:
    world = World(session_name="engine")
    kept = world.cache.put_cache(KEY, BLOCKS, keep_pin=True).hold
    world.cache.get_cache(KEY)  # its pin is released in the background
    world.cache.close()
    assert list(world.cluster.holds) == [kept]
    assert len(world.cluster.sessions) == 1


def test_closing_fails_the_calls_that_wait_and_does_not_hang() -> None:
    world = World()
    world.cache.put_cache(KEY, BLOCKS)
    world.wire.silent = True
    future = world.cache._loop.submit(Ask(c.Status(Peer(""), "")), 60_000)
    begun = time.monotonic()
    world.cache.close(timeout_ms=300)
    assert time.monotonic() - begun < 3
    with pytest.raises(ConnectionEnded):
        future.result(0)


def test_a_with_block_closes(world: World) -> None:
    with world.cache as cache:
        cache.put_cache(KEY, BLOCKS)
    assert world.wire.closed


def test_a_connection_that_is_forgotten_ends_its_thread() -> None:
    before = len(threads())
    world = World()
    wire = world.wire
    assert len(threads()) == before + 1
    del world
    gc.collect()
    until(lambda: wire.closed and len(threads()) == before)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_may_not_use_it_and_may_close_it(world: World) -> None:
    world.cache.put_cache(KEY, BLOCKS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            world.cache.status()
        except ConnectionEnded as error:
            world.cache.close()
            code = 0 if "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert world.cache.get_cache(KEY).data


def test_a_wire_that_cannot_be_made_is_told_where_the_connection_is_made() -> None:
    def broken(identity: str) -> Any:
        raise WorldError(f"no wire for {identity[:7]}")

    before = len(threads())
    with pytest.raises(WorldError, match="no wire for client/"):
        connect("tcp://nowhere:1", make_wire=broken)
    assert len(threads()) == before


def test_settings_are_checked() -> None:
    with pytest.raises(TypeError, match="did you mean 'timeout_ms'"):
        connect("tcp://nowhere:1", timeout_mss=5)
    with pytest.raises(TypeError, match="unknown setting 'boot'"):
        connect("tcp://nowhere:1", boot="mine")
    with pytest.raises(ValueError, match="endpoint"):
        connect([])


# ---- asyncio -----------------------------------------------------------------------------------------------------


class AsyncWorld(World):
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.wire = QueueWire(self.cluster)

    async def connect(self) -> AsyncConnection:
        return await connect_async("tcp://nowhere:1", make_wire=lambda identity: self.wire)


def test_the_same_calls_for_asyncio() -> None:
    async def story() -> None:
        world = AsyncWorld()
        async with await world.connect() as cache:
            assert (await cache.put_cache(KEY, BLOCKS)).created
            both = await asyncio.gather(cache.get_cache(KEY), cache.get_cache(KEY))
            assert [bytes(block) for block in both[1].data] == [bytes(block) for block in BLOCKS]
            pinned = await cache.pin_cache(KEY)
            await cache.unpin_cache(pinned.hold)
            with pytest.raises(CallFailed, match="Unreadable"):
                await cache.get_cache(MISSING)
        assert world.wire.closed
        assert not world.cluster.holds

    asyncio.run(story())


def test_a_task_that_is_cancelled_gives_back_what_it_may_have_taken() -> None:
    async def story() -> None:
        world = AsyncWorld()
        async with await world.connect() as cache:
            await cache.put_cache(KEY, BLOCKS)
            for pause in range(12):  # from before the command has left until after its answer has come
                task = asyncio.create_task(cache.pin_cache(KEY))
                await asyncio.sleep(pause * 0.0003)
                task.cancel()
                try:
                    pinned = await task
                except asyncio.CancelledError:
                    continue
                await cache.unpin_cache(pinned.hold)
            await asyncio.to_thread(until, lambda: not world.cluster.holds)

    asyncio.run(story())


def test_both_connections_have_the_same_calls() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(Connection) == names(AsyncConnection)
