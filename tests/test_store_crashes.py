"""The LMDB store among real processes and full disks: what was answered DONE is there, and nothing is there in part."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from pinfold.backends.base import StoreBusy, StoreFull, StoreUncertain
from pinfold.backends.lmdb import LmdbStore
from pinfold.core.driver import Outcome
from pinfold.testing import KIT_SCHEMA
from pinfold.testing_records import Small

PROCESSES = Path(__file__).with_name("store_processes.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROCESSES.parent.parent)}


def lines_of(*words: object) -> list[str]:
    command = [sys.executable, str(PROCESSES), *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=ENVIRONMENT
    ).stdout.splitlines()


@pytest.mark.processes
def test_a_killed_writer_leaves_all_that_was_answered_and_nothing_in_part(tmp_path: Path) -> None:
    for round_number in range(4):
        command = [sys.executable, str(PROCESSES), "stream", str(tmp_path / str(round_number))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(3 + 9 * round_number)]
            writer.kill()
            said += writer.stdout.read().splitlines()
        answered = int(said[-1])
        with LmdbStore(tmp_path / str(round_number), KIT_SCHEMA) as store:
            parts = Counter(n for n, _ in store.load()["small"])
        assert set(parts.values()) == {3}
        last = max(parts)
        assert last in (answered, answered + 1)  # the answer to the last may have been cut off
        assert sorted(parts) == list(range(max(0, last - 9), last + 1))


@pytest.mark.processes
def test_a_file_size_limit_refuses_commits_and_loses_nothing(tmp_path: Path) -> None:
    """C92, with the limit on file sizes in the place of the full disk: a short write has no error number of its own."""
    assert lines_of("fill", tmp_path / "s", 400_000) == [
        "NOT_DONE StoreError True",
        "NOT_DONE True",
        "DONE True",
        "True 1",
    ]


@pytest.mark.processes
def test_a_fork_neither_uses_nor_breaks_nor_keeps_its_parent_s_store(tmp_path: Path) -> None:
    """C89."""
    said = lines_of("fork", tmp_path / "s")
    assert said == ["child StoreClosed"] * 4 + ["parent [1, 3] 0"]
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:  # an orphan of the child is still alive
        assert list(store.load()["small"]) == [1, 3]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 1 MiB."""
    with tempfile.TemporaryDirectory() as folder:
        mount = shutil.which("mount")
        if mount is None or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "pinfold-test", folder], capture_output=True, check=False
        ).returncode:
            pytest.skip("mounting a small tmpfs is not permitted here; the file size limit stands for it")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def test_a_full_disk_refuses_commits_and_takes_them_when_there_is_room(small_disk: Path) -> None:
    """C92."""
    (small_disk / "ballast").write_bytes(bytes(300_000))
    store = LmdbStore(small_disk / "s", KIT_SCHEMA)
    done = 0
    while store.commit(batch(done)) is Outcome.DONE:
        done += 1
    assert isinstance(store.failure, StoreFull)
    assert len(store.load()["small"]) == 8 * done > 0
    assert store.commit(batch(done)) is Outcome.NOT_DONE
    (small_disk / "ballast").unlink()
    assert store.commit(batch(done)) is Outcome.DONE
    store.close()
    with LmdbStore(small_disk / "s", KIT_SCHEMA) as store:
        assert len(store.load()["small"]) == 8 * (done + 1)


def test_no_store_can_be_made_on_a_full_disk(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with pytest.raises(StoreFull):
        LmdbStore(small_disk / "s", KIT_SCHEMA)


def batch(number: int) -> list[tuple[str, Any, Small]]:
    return [("small", (number, part), Small(part, "x" * 2000)) for part in range(8)]


# ---- crash points of one commit ------------------------------------------------------------------------------


def test_every_state_of_the_file_between_two_commits_opens_to_one_of_them(tmp_path: Path) -> None:
    """A power cut in the middle of a commit: any of its pages may be on the disk, but the meta page only after all of them. So
    with the old meta pages and any subset of the new pages, the store must be in the old state."""
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        for number in range(6):
            store.commit(batch(number))
        old = store.load()
        before = (tmp_path / "s" / "data.mdb").read_bytes()
        store.commit([*batch(7), *(("small", (2, part), None) for part in range(8))])
        new = store.load()
        after = (tmp_path / "s" / "data.mdb").read_bytes()
    pages = [n for n in range(2, len(after) // 4096) if after[4096 * n : 4096 * (n + 1)] != before[4096 * n : 4096 * (n + 1)]]
    assert len(pages) > 4
    for written in [[], pages, *(pages[:n] for n in range(1, len(pages))), *(pages[n:] for n in range(1, len(pages)))]:
        torn = bytearray(before.ljust(len(after), b"\0"))
        for page in written:
            torn[4096 * page : 4096 * (page + 1)] = after[4096 * page : 4096 * (page + 1)]
        assert opened(tmp_path, bytes(torn)) == old
    assert opened(tmp_path, after) == new


def opened(tmp_path: Path, data: bytes) -> dict[str, dict[Any, Any]]:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "data.mdb").write_bytes(data)
    with LmdbStore(folder, KIT_SCHEMA) as store:
        return store.load()


# ---- outcomes ------------------------------------------------------------------------------------------------


class Broken:
    """LMDB's environment, with one call that raises."""

    def __init__(self, env: Any, error: Exception) -> None:
        self.env, self.error = env, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def begin(self, write: bool = False) -> Any:
        if write:
            raise self.error
        return self.env.begin(write=write)


def test_an_error_before_anything_was_written_is_not_done(tmp_path: Path) -> None:
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        real = store._database._env
        store._database._env = Broken(real, lmdb.Error("mdb_txn_begin", 12))
        assert store.commit(batch(1)) is Outcome.NOT_DONE
        assert "cannot write to" in str(store.failure)
        store._database._env = real
        assert store.commit(batch(1)) is Outcome.DONE


def test_a_handle_whose_outcome_is_unknown_serves_nothing_more_and_lets_go_of_the_store(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "s", KIT_SCHEMA)
    store._database._uncertain = True
    calls: list[Callable[[], object]] = [
        store.load, store.scan, lambda: store.commit(batch(1)), lambda: store.fence(1), lambda: store.backup(tmp_path / "b")
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreUncertain):
            call()
    with pytest.raises(StoreBusy):
        LmdbStore(tmp_path / "s", KIT_SCHEMA)
    store.close()
    LmdbStore(tmp_path / "s", KIT_SCHEMA).close()
