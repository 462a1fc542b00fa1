"""The client library against a real local cluster: processes, sockets, bytes."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("zmq")
pytest.importorskip("lmdb")

from pinfold.client import Connection, connect
from pinfold.client_async import connect_async
from pinfold.client_loop import CallFailed, ConnectionEnded
from pinfold.cluster import ClusterOptions, LocalCluster
from pinfold.core.ids import Key, Layout, group_id

pytestmark = pytest.mark.processes

LAYOUT = Layout(block_bytes=4096)


def key_of(name: str, blocks: int = 3) -> Key:
    return Key("tenant", "model", "1", LAYOUT, name, blocks)


def blocks_of(name: str, blocks: int = 3) -> list[bytes]:
    return [f"{name}/{index}".encode().ljust(4096, b".") for index in range(blocks)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(ClusterOptions(nodes=("n1", "n2"), values={"node.group_slots": "32"})) as started:
        yield started


@pytest.fixture
def cache(cluster: LocalCluster) -> Iterator[Connection]:
    with connect(cluster.endpoint, timeout_ms=20_000) as connection:
        yield connection


def test_put_get_pin_move_evict(cache: Connection) -> None:
    key, blocks = key_of("story"), blocks_of("story")
    put = cache.put_cache(key, blocks, node="n1")
    assert put.created
    got = cache.get_cache(key, sizes=(4096,) * 3)
    assert [bytes(block) for block in got.data] == blocks
    assert got.route.node == "n1"
    pinned = cache.pin_cache(key)
    with pytest.raises(CallFailed, match="Pinned"):
        cache.move_cache(key, "n2")
    assert [hold.hold for hold in cache.describe(key).holds] == [pinned.hold]
    cache.unpin_cache(pinned.hold)
    moved = cache.move_cache(key, "n2")
    assert cache.await_settled(key, moved.move).outcome == "settled"
    got = cache.get_cache(key)
    assert (got.route.node, [bytes(block) for block in got.data]) == ("n2", blocks)
    cache.evict_cache(key)
    assert cache.await_gone(key).outcome == "gone"
    with pytest.raises(CallFailed) as caught:
        cache.get_cache(key)
    assert caught.value.exit_code == 6


def test_status_list_explain_and_a_nodes_own_word(cache: Connection) -> None:
    key = key_of("look")
    cache.put_cache(key, blocks_of("look"), request="r1", keep_pin=True)
    status = cache.status()
    assert [node.node for node in status.nodes if not node.store] == ["n1", "n2"]
    assert cache.stat(status.nodes[0].address).node == status.nodes[0].node
    assert group_id(key) in [line.group for line in cache.list_groups(tenant="tenant").groups]
    assert cache.release_request("r1").released == 1


def test_the_directory_is_killed_and_comes_back_and_callers_only_wait(cluster: LocalCluster, cache: Connection) -> None:
    key, blocks = key_of("restart"), blocks_of("restart")
    kept = cache.put_cache(key, blocks, keep_pin=True).hold
    assert kept is not None
    cluster.kill("directory")
    restarter = threading.Thread(target=lambda: cluster.restart("directory"))
    restarter.start()
    try:
        cache.unpin_cache(kept)
    finally:
        restarter.join()
    assert [bytes(block) for block in cache.get_cache(key).data] == blocks
    assert cache.describe(key).holds == ()


def test_a_large_group_goes_in_chunks_and_asyncio_reads_many_at_once(cluster: LocalCluster) -> None:
    async def story() -> None:
        small = {"write_chunk_bytes": 16_384, "read_chunk_bytes": 16_384}
        async with await connect_async(cluster.endpoint, timeout_ms=20_000, **small) as cache:
            keys = [key_of(f"large {index}", 32) for index in range(4)]
            await asyncio.gather(*(cache.put_cache(key, blocks_of(key.prefix, 32)) for key in keys))
            for got, key in zip(await asyncio.gather(*map(cache.get_cache, keys)), keys, strict=True):
                assert [bytes(block) for block in got.data] == blocks_of(key.prefix, 32)

    asyncio.run(story())


def test_nobody_at_the_endpoint() -> None:
    with connect("tcp://127.0.0.1:1", timeout_ms=300) as cache:
        with pytest.raises(CallFailed) as caught:
            cache.status()
        assert caught.value.exit_code == 4
    with pytest.raises(ConnectionEnded):
        cache.status()
