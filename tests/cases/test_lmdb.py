"""LMDB's own ways of ending badly, against the real thing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pinfold.backends.base import ScanInterrupted, StoreBusy, StoreClosed, StoreFull
from pinfold.backends.lmdb import LmdbStore
from pinfold.core.driver import Outcome
from pinfold.testing import KIT_SCHEMA
from tests.cases.processes import BATCH, rows

pytestmark = pytest.mark.processes

PROCESSES = Path(__file__).with_name("processes.py")
ROOT = PROCESSES.parent.parent.parent


def started(*words: object) -> subprocess.Popen[str]:
    """A process of `processes.py`, under the mutant of this one, if any."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(PROCESSES), *(str(word) for word in words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def said(*words: object) -> list[str]:
    with started(*words) as process:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (process.returncode, err)
    return out.splitlines()


def whole(store: LmdbStore) -> int:
    """How many commits are there; each must be there with all of its rows."""
    keys = sorted(store.load()["small"])
    assert len(keys) % BATCH == 0
    assert {key[0] for key in keys} == set(range(len(keys) // BATCH))
    return len(keys) // BATCH


def test_c88_lmdb_the_map_grows_with_no_transaction_open_and_no_commit_is_half_done(tmp_path: Path) -> None:
    """py-lmdb #269 (#478; also #379, #97). Growing the map while anything of the process was using it, or while another process
    was growing it too, led to odd assertions, wrong pages and corruption.

    Here a write that meets a full map is undone as a whole before the map grows, snapshots are ended first and told so, and the
    same writes are made again. A reader in another process follows; a second writer is refused before it can grow anything.
    """
    folder = tmp_path / "grows"
    with LmdbStore(folder, KIT_SCHEMA, map_bytes=65_536, map_bytes_max=1 << 20) as store:
        number = 0
        while store._database.map_bytes < 1 << 20:
            assert store.commit(rows(number)) is Outcome.DONE
            number += 1
            assert number < 200
        scan = store.scan()
        next(scan)
        while (outcome := store.commit(rows(number))) is Outcome.DONE:
            number += 1
        assert outcome is Outcome.NOT_DONE
        assert isinstance(store.failure, StoreFull)
        assert whole(store) == number

    cut = tmp_path / "cut"
    with LmdbStore(cut, KIT_SCHEMA, map_bytes=262_144) as store:
        for number in range(4):
            store.commit(rows(number))
        scan = store.scan()
        next(scan)
        results: list[Outcome] = []
        writer = threading.Thread(target=lambda: results.extend(store.commit(rows(number)) for number in range(4, 60)))
        writer.start()
        writer.join()
        assert set(results) == {Outcome.DONE}
        with pytest.raises(ScanInterrupted):
            list(scan)
        assert whole(store) == 60

    shared = tmp_path / "shared"
    with LmdbStore(shared, KIT_SCHEMA, map_bytes=65_536) as store:
        store.commit(rows(0))
    with started("grow", shared, 60) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline()]
        with LmdbStore(shared, KIT_SCHEMA, readonly=True, map_bytes=65_536) as reader:
            with pytest.raises((StoreBusy, StoreClosed)):
                LmdbStore(shared, KIT_SCHEMA)
            for line in process.stdout:
                seen.append(line)
                if len(seen) % 10 == 0:
                    assert 1 <= whole(reader) <= 61
            process.wait(60)
            assert all(line.endswith("DONE\n") for line in seen[:-1])
            assert int(seen[-1].split()[1]) > 65_536
            assert whole(reader) == 60


def test_c89_lmdb_a_handle_that_was_carried_over_a_fork_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    """py-lmdb #346. A read transaction that was kept open was carried over a fork; the child's exit, without using LMDB, broke
    the parent's next read.

    Here a handle knows the process that opened it: a child is refused, in a sentence, and its end, idle or after a try, leaves
    the parent's handle as it was.
    """
    assert said("fork", tmp_path / "s") == [
        f"parent {BATCH}",
        *["child StoreClosed"] * 3,
        f"parent DONE {2 * BATCH} 0",
    ]


def test_c90_lmdb_a_second_handle_on_a_path_is_refused_whatever_the_path_is_called(tmp_path: Path) -> None:
    """py-lmdb #129. Two handles on one path in one process: closing the second breaks the locks and reader slots of the first.

    Here a store has one writing handle, by a lock that does not care what the path looks like; the second is told who has it,
    and the first has not noticed.
    """
    folder = tmp_path / "s"
    link = tmp_path / "link"
    with LmdbStore(folder, KIT_SCHEMA) as store:
        store.commit(rows(0))
        link.symlink_to(folder)
        for path in (folder, link, Path(os.path.relpath(folder)), folder / ".." / "s"):
            with pytest.raises(StoreBusy, match="open for writing in this process"):
                LmdbStore(path, KIT_SCHEMA)
        assert store.commit(rows(1)) is Outcome.DONE
        assert whole(store) == 2
        assert said("hold", folder) == ["StoreBusy"]
    with LmdbStore(link, KIT_SCHEMA) as again:
        assert whole(again) == 2


def test_c92_lmdb_a_full_disk_is_an_answer_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    """py-lmdb #161. With a writable map a full file system gives no error: the process is killed by a bus error.

    Here the map is never writable. A commit that finds no room has not happened, says so, and may be said again; with room it
    happens, once. The room is taken away in a process of its own, by the limit on what a file may grow to.
    """
    assert said("fill", tmp_path / "s", 400_000) == [
        "NOT_DONE StoreFull True",
        "NOT_DONE True",
        "DONE True",
        "True",
    ]
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        assert not store._database._env.flags()["writemap"]
        assert store._database.synced
