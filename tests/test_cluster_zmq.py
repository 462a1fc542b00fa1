"""A real cluster: processes on loopback over ZeroMQ, LMDB and files on disk, and what kills, pauses and bad input do to it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from pinfold import probe
from pinfold.backends.lmdb import LmdbStore
from pinfold.client import Connection, connect
from pinfold.client_loop import CallFailed
from pinfold.cluster import ClusterError, ClusterOptions, LocalCluster
from pinfold.config import ConfigError
from pinfold.core.calls import GotGroup
from pinfold.core.errors import Retry
from pinfold.core.ids import Key, Layout, Role, State, Tier
from pinfold.core.state import FORMAT, RECORD_TYPES, GroupRecord
from pinfold.ports import free_port
from pinfold.transport.codec import encode
from tests.running import FAST, WAIT_S, Cli, in_process, small, until

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parent.parent
LAYOUT = Layout(block_bytes=4_096)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with small("n1", "n2") as running:
        yield running


@pytest.fixture
def cli(cluster: LocalCluster, capfd: pytest.CaptureFixture[str]) -> Cli:
    return in_process(capfd, ("--config", str(cluster.config_file)))


@pytest.fixture
def cache(cluster: LocalCluster) -> Iterator[Connection]:
    with connect(cluster.endpoint, timeout_ms=15_000) as connection:
        yield connection


def key(name: str, blocks: int = 2) -> Key:
    return Key("tests", "model", "1", LAYOUT, name, blocks)


def data(name: str, blocks: int = 2) -> list[bytes]:
    return [(f"{name}:{block}".encode() * 4_096)[:4_096] for block in range(blocks)]


def put(cache: Connection, name: str, **more: Any) -> Key:
    cache.put_cache(key(name), data(name), **more)
    return key(name)


def answered(call: Callable[[], Any], why: str) -> Any:
    """What a call gives, once nothing holds it back: after a peer was away, a breaker may be open that says when to ask again."""

    def once() -> Any:
        try:
            return call()
        except CallFailed as failed:
            if failed.refusal.info.retry is not Retry.AFTER:
                raise
            return None

    return until(once, why)


def read(cache: Connection, name: str) -> tuple[Tier, str]:
    """Where it was read from; every byte is compared."""
    got: GotGroup = answered(lambda: cache.get_cache(key(name)), f"{name} can be read")
    assert [bytes(block) for block in got.data] == data(name)
    return got.tier, str(got.route.copy)


def records(cluster: LocalCluster) -> dict[str, dict[Any, Any]]:
    """What the directory's store has, but for the clock and the term."""
    with LmdbStore(cluster.store_folder, RECORD_TYPES, readonly=True, versions=FORMAT) as store:
        return {table: rows for table, rows in store.load().items() if table != "meta"}


def is_at_rest(record: GroupRecord) -> bool:
    return record.group.state in (State.LOCAL, State.REMOTE) and len(record.copies) == 1 and not record.copies[0].absent


# ---- kills and pauses ----------------------------------------------------------------------------------------


def test_bytes_put_by_the_library_are_got_by_the_command_line_and_the_other_way(
    cluster: LocalCluster, cache: Connection, cli: Cli, tmp_path: Path
) -> None:
    put(cache, "both ways")
    group = cache.describe(key("both ways")).spec.group
    out = tmp_path / "out"
    cli("get", group.hex(), "--output", str(out))
    assert out.read_bytes() == b"".join(data("both ways"))
    source = tmp_path / "in"
    source.write_bytes(os.urandom(9_000))
    (written,) = cli("put", str(source), "--json").data["groups"]
    got = cache.get_cache(bytes.fromhex(written["group"]))
    assert b"".join(bytes(block) for block in got.data) == source.read_bytes()


def test_a_node_that_was_killed_comes_back_with_what_its_disk_has(cluster: LocalCluster, cache: Connection) -> None:
    put(cache, "on disk", node="n1", tier=Tier.SSD)
    put(cache, "in memory", node="n1", tier=Tier.DRAM)
    (before,) = cache.describe(key("on disk")).copies  # not read before: what is read from the disk may go up into memory
    boot = cluster.nodes["n1"].said["boot"]
    cluster.kill("n1")
    member = cluster.restart("n1")
    cluster.wait_ready(("n1",))
    assert member.said["boot"] != boot
    assert read(cache, "on disk") == (Tier.SSD, str(before.copy))
    with pytest.raises(CallFailed) as caught:
        cache.get_cache(key("in memory"), timeout_ms=2_000)
    assert caught.value.definite
    put(cache, "in memory", node="n1")
    read(cache, "in memory")


def test_a_directory_that_was_killed_comes_back_with_every_record(cluster: LocalCluster, cache: Connection) -> None:
    put(cache, "kept")
    put(cache, "moved", node="n1")
    moved = cache.move_cache(key("moved"), "n2")
    cache.await_settled(key("moved"), moved.move)
    pinned = cache.pin_cache(key("kept"))
    until(lambda: all(map(is_at_rest, records(cluster)["groups"].values())), "nothing is retiring or being freed any more")
    before = records(cluster)
    cluster.kill("directory")
    assert records(cluster) == before
    term = cluster.directory.said["term"]
    cluster.restart("directory")
    assert cluster.directory.said["term"] == term + 1
    cluster.wait_ready()
    again = records(cluster)
    assert {name: again[name] for name in ("groups", "holds", "sessions")} == {
        name: before[name] for name in ("groups", "holds", "sessions")
    }
    kept = answered(lambda: cache.describe(key("kept")), "the directory answers again")
    assert [hold.hold for hold in kept.holds] == [pinned.hold]
    read(cache, "moved")
    cache.unpin_cache(pinned.hold)
    with pytest.raises(CallFailed):
        cache.unpin_cache(pinned.hold)


def test_a_node_paused_past_its_lease_comes_back_in_the_same_boot_with_all_it_had(
    cluster: LocalCluster, cache: Connection
) -> None:
    put(cache, "paused", node="n2", tier=Tier.DRAM)
    lines = {line.node: line for line in cache.status().nodes}
    cluster.pause("n2")
    until(lambda: not {line.node: line for line in cache.status().nodes}["n2"].alive, "the lease has lapsed")
    assert [copy.absent for copy in cache.describe(key("paused")).copies] == [True]
    with pytest.raises(CallFailed):
        cache.get_cache(key("paused"), timeout_ms=500)
    cluster.resume("n2")
    cluster.wait_ready(("n2",))
    until(lambda: not cache.describe(key("paused")).copies[0].absent, "its copies count again")
    assert read(cache, "paused")[0] is Tier.DRAM
    assert {line.node: line for line in cache.status().nodes}["n2"].incarnation > lines["n2"].incarnation


def test_a_later_process_of_the_same_name_fences_the_earlier(tmp_path: Path) -> None:
    with LocalCluster(ClusterOptions(nodes=("n9",), values=FAST, start_ms=20_000)) as own:
        first = own.nodes["n9"].process
        assert first is not None
        command = [sys.executable, "-m", "pinfold", "--config", str(own.config_file)]
        command += ["node", "--name", "n9", "--data", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as second:
            assert second.stdout is not None
            assert json.loads(second.stdout.readline())["ready"] == "node"
            assert first.wait(WAIT_S) == 5
            assert "replaced by a later registration" in own.nodes["n9"].last_words()
            second.send_signal(signal.SIGTERM)
            assert second.wait(WAIT_S) == 0
        own.nodes["n9"].process = None
        # and SIGTERM is a clean end: the store is free for the next
        assert own.terminate("directory") == 0
        with LmdbStore(own.store_folder, RECORD_TYPES, versions=FORMAT) as store:
            assert store.load()["nodes"]


def test_replicas_and_drains_over_the_wire(cluster: LocalCluster, cache: Connection) -> None:
    put(cache, "twice", node="n1")
    made = cache.replicate(key("twice"), "n2")

    def is_replica() -> bool:
        return {copy.copy: copy.role for copy in cache.describe(key("twice")).copies}.get(made.copy) is Role.REPLICA

    until(is_replica, "the replica is made")
    read(cache, "twice")
    cache.evict_cache(key("twice"))
    cache.await_gone(key("twice"))


# ---- bad input -----------------------------------------------------------------------------------------------


@pytest.fixture
def bare(capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line on its own; a server that can't start ends by itself."""
    return in_process(capfd)


def test_frames_that_are_no_messages_end_nothing(cluster: LocalCluster, cache: Connection) -> None:
    put(cache, "still here")
    context = zmq.Context()
    try:
        for endpoint in (cluster.endpoint, cluster.nodes["n1"].endpoint):
            dealer = context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, 1_000)
            dealer.connect(endpoint)
            hello = encode(probe.commands.Status(probe.Peer("client/x"), "t"), "client/x")[0]
            bad = [b"", b"garbage", b"PF\x01\x00\xff", b"PF\x09\x00", os.urandom(2_000), bytes(hello)[:-3]]
            for frames in (*([frame] for frame in bad), [b"a"] * 9):
                dealer.send_multipart(frames)
            dealer.close()
    finally:
        context.term()

    def counted() -> bool:
        return any(name.startswith("process.problem_") and value for name, value in cache.status().counters)

    until(counted, "the directory has counted them")
    read(cache, "still here")
    assert cluster.ended() == []


def test_a_folder_that_is_no_store_is_left_alone(bare: Cli, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    for data_folder in (precious, precious / "thesis.txt"):
        said = bare("directory", "--data", str(data_folder), "--bind", "tcp://127.0.0.1:0", code=2)
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert str(data_folder) in said.err
    assert (precious / "thesis.txt").read_text() == "years of work"
    assert sorted(path.name for path in precious.iterdir()) == ["thesis.txt"]


def test_a_damaged_store_is_refused_and_not_touched(bare: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with LmdbStore(folder, RECORD_TYPES, owner="directory/0", shard=0, versions=FORMAT):
        pass
    file = folder / "data.mdb"
    damaged = bytearray(file.read_bytes())
    damaged[8_192:] = bytes(len(damaged) - 8_192)
    file.write_bytes(damaged)
    said = bare("directory", "--data", str(folder), "--bind", "tcp://127.0.0.1:0", code=1)
    assert "damaged" in said.err
    assert said.err.count("\n") == 1
    assert file.read_bytes() == damaged


def test_a_second_directory_on_one_store_is_refused_and_the_first_serves_on(
    cluster: LocalCluster, cache: Connection, bare: Cli
) -> None:
    said = bare("directory", "--data", str(cluster.store_folder), "--bind", "tcp://127.0.0.1:0", code=1)
    assert f"process {cluster.directory.pid}" in said.err
    cache.status()


def test_an_address_or_a_disk_in_use_is_one_sentence(cluster: LocalCluster, bare: Cli, tmp_path: Path) -> None:
    assert cluster.endpoint in bare("directory", "--data", str(tmp_path / "store"), "--bind", cluster.endpoint, code=1).err
    assert str(cluster.data / "n1") in bare("node", "--data", str(cluster.data / "n1"), code=1).err
    (tmp_path / "file").write_text("x")
    assert f"cannot use {tmp_path / 'file'} for the SSD tier" in bare("node", "--data", str(tmp_path / "file"), code=1).err


# ---- the cluster itself --------------------------------------------------------------------------------------


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    """Killed without a chance to clean up, with one child standing still: all are gone soon after."""
    script = (
        "import os, signal\nfrom pathlib import Path\nfrom pinfold.cluster import ClusterOptions, LocalCluster\n"
        f"options = ClusterOptions(nodes=('n1',), data=Path({str(tmp_path)!r}), values={FAST!r})\n"
        "cluster = LocalCluster(options)\ncluster.start()\ncluster.pause('n1')\n"
        "print(cluster.directory.pid, cluster.nodes['n1'].pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 2

    def gone() -> bool:
        return not any(is_running(pid) for pid in pids)

    until(gone, "both are gone")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_child_that_can_not_start_is_told_with_its_own_words_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "other.txt").write_text("x")
    cluster = LocalCluster(ClusterOptions(nodes=("n1",), data=tmp_path))
    with pytest.raises(ClusterError, match=r"ended with exit code 2.*other\.txt"):
        cluster.start()
    assert not any(member.alive for member in cluster.nodes.values())
    with pytest.raises(ConfigError):
        LocalCluster(ClusterOptions(nodes=("n1", "n1")))
    with pytest.raises(ConfigError):
        LocalCluster(ClusterOptions(values={"node.dram": "much"}))


def test_a_probe_of_nobody_says_so_in_time() -> None:
    begun = time.monotonic()
    with pytest.raises(probe.NoAnswer) as caught:
        probe.status(f"tcp://127.0.0.1:{free_port()}", 300)
    assert caught.value.exit_code == 4
    assert time.monotonic() - begun < 5
