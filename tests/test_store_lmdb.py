"""The LMDB store: it passes the kit, and refuses in one sentence whatever it cannot open, with nothing changed."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lmdb
import pytest

from pinfold.backends.base import (
    ScanInterrupted,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreVersion,
)
from pinfold.backends.lmdb import IDENTITY_KEY, LmdbStore
from pinfold.backends.memory import Fault
from pinfold.backends.records import seal
from pinfold.core.driver import Outcome
from pinfold.testing import KIT_SCHEMA, StoreConformance
from pinfold.testing_records import Small

PROCESSES = Path(__file__).with_name("store_processes.py")
ROOT = PROCESSES.parent.parent


def run(*words: object) -> list[str]:
    """What a process of `store_processes` says."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words_as_text = [str(word) for word in words]
    done = subprocess.run(
        [sys.executable, str(PROCESSES), *words_as_text], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return done.stdout.splitlines()


class FaultyTransaction:
    """A transaction whose commit fails before it has done anything, or after it has done all."""

    def __init__(self, transaction: Any, fault: Fault, panic: Callable[[], None]) -> None:
        self.transaction, self.fault, self.panic = transaction, fault, panic

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transaction, name)

    def commit(self) -> None:
        if self.fault is Fault.UNKNOWN_DONE:
            self.transaction.commit()
        else:
            self.transaction.abort()
        if self.fault is Fault.UNKNOWN_LOST:
            self.panic()
        raise lmdb.Error("mdb_txn_commit", 5)


class FaultyEnvironment:
    """LMDB's environment, whose next write meets `fault`. After a failure of the meta page LMDB refuses all writes (panic)."""

    def __init__(self, env: Any, fault: Fault) -> None:
        self.env = env
        self.fault: Fault | None = fault
        self.panicked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def panic(self) -> None:
        self.panicked = True

    def begin(self, write: bool = False) -> Any:
        if write and self.panicked:
            raise lmdb.PanicError("mdb_txn_begin")
        transaction = self.env.begin(write=write)
        if write and self.fault is not None:
            fault, self.fault = self.fault, None
            return FaultyTransaction(transaction, fault, self.panic)
        return transaction


class TestLmdbStore(StoreConformance):
    """The kit. A crash is a copy of the file as it is at that instant."""

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.stores: list[LmdbStore] = []
        yield
        for store in self.stores:
            store.close()

    def open(self, path: Path) -> LmdbStore:
        self.stores.append(LmdbStore(path, self.schema))
        return self.stores[-1]

    def make_store(self, schema: Mapping[str, Any]) -> LmdbStore:
        self.schema = schema
        return self.open(self.folder / f"store-{len(self.stores)}")

    def reopen(self, store: Any) -> LmdbStore:
        store.close()
        return self.open(store._path)

    def crash(self, store: Any) -> LmdbStore:
        left = self.folder / f"left-{len(self.stores)}"
        left.mkdir()
        shutil.copy(store._path / "data.mdb", left)
        store.close()
        return self.open(left)

    def usurp(self, store: Any, term: int) -> None:
        assert run("usurp", store._path, term) == [str(term)]

    def inject(self, store: Any, fault: Fault) -> None:
        store._database._env = FaultyEnvironment(store._database._env, fault)


# ---- opening -------------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A closed store with one record."""
    with LmdbStore(tmp_path / "s", KIT_SCHEMA, owner="directory/0", shard=2) as store:
        store.commit([("small", 1, Small(1))])
    return tmp_path / "s"


def state_of(folder: Path) -> dict[str, str]:
    """Each file's digest, without the lock files, whose content means nothing."""
    if not folder.is_dir():
        return {}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("pinfold.lock", "lock.mdb")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refusal(path: Path, kind: type[StoreError], **how: Any) -> StoreError:
    """Opening must be refused, with nothing changed, not even by a lock file of ours where there was none."""
    before, had_lock = state_of(path), (path / "pinfold.lock").exists()
    with pytest.raises(kind) as raised:
        LmdbStore(path, KIT_SCHEMA, **how)
    assert state_of(path) == before
    assert path.exists() or kind is StoreMissing
    assert path.is_file() or (path / "pinfold.lock").exists() == had_lock
    assert "\n" not in str(raised.value)
    return raised.value


def test_a_store_is_made_where_nothing_is_and_syncs_every_commit(tmp_path: Path) -> None:
    with LmdbStore(tmp_path / "a" / "b", KIT_SCHEMA, owner="node/n1", shard=3, store_id="ab" * 16) as store:
        assert store.identity.medium == "lmdb 0.9"
        assert (store.identity.owner, store.identity.shard, store.identity.store_id) == ("node/n1", 3, "ab" * 16)
        assert store._database.synced


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    assert refusal(tmp_path / "s", StoreMissing, create=False).exit_code == 6
    assert refusal(tmp_path / "s", StoreMissing, readonly=True).exit_code == 6
    (tmp_path / "s").mkdir()
    refusal(tmp_path / "s", StoreMissing, create=False)
    assert os.listdir(tmp_path / "s") == []


def test_another_owner_s_or_shard_s_store_is_foreign(made: Path) -> None:
    assert "belongs to directory/0, not to directory/1" in str(refusal(made, StoreForeign, owner="directory/1"))
    assert "shard 2, not of shard 1" in str(refusal(made, StoreForeign, shard=1))
    LmdbStore(made, KIT_SCHEMA, owner="directory/0", shard=2).close()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("hello")
    assert refusal(tmp_path / "f", StoreForeign).exit_code == 2
    with pytest.raises(StoreForeign):
        LmdbStore(tmp_path / "f" / "s", KIT_SCHEMA)


def test_a_folder_of_other_files_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1")
    assert "thesis.tex" in str(refusal(tmp_path, StoreForeign))
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_another_program_s_database_is_foreign(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as transaction:
        transaction.put(b"theirs", b"1")
    assert "no store of pinfold" in str(refusal(tmp_path, StoreForeign))


def test_an_empty_database_of_another_program_is_foreign(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path)).close()
    refusal(tmp_path, StoreForeign)


@pytest.mark.parametrize("content", [b"not a database at all" * 1000, b"\0" * 8192, b"x"])
def test_a_file_of_another_kind_is_foreign(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    refusal(tmp_path, StoreForeign)


def test_a_database_of_the_other_lmdb_is_refused(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path), lib_version=1).close()
    assert "LMDB 1.0" in str(refusal(tmp_path, StoreVersion))


def test_a_store_of_a_later_format_is_refused(made: Path) -> None:
    with lmdb.open(str(made)) as env, env.begin(write=True) as transaction:
        transaction.put(IDENTITY_KEY, seal(IDENTITY_KEY, b'{"format": 2, "more": 1}'))
    assert "format 2" in str(refusal(made, StoreVersion))


@pytest.mark.parametrize("left", [[], ["pinfold.lock"], ["pinfold.lock", "data.mdb"], ["pinfold.lock", "data.mdb", "lock.mdb"]])
def test_a_creation_that_was_cut_short_is_finished(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / name).touch()
    LmdbStore(tmp_path, KIT_SCHEMA).close()


def test_a_creation_that_was_cut_short_before_its_first_commit_is_finished(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path)).close()
    (tmp_path / "pinfold.lock").touch()
    LmdbStore(tmp_path, KIT_SCHEMA).close()


def test_permissions_are_said(made: Path) -> None:
    os.chmod(made.parent, 0o755)
    for path, mode in ((made, 0o500), (made / "data.mdb", 0o400), (made / "lock.mdb", 0o400), (made / "pinfold.lock", 0o400)):
        os.chmod(path, mode)
    try:
        assert run("denied", made) == ["StoreDenied 2"] * 2
    finally:
        os.chmod(made, 0o700)


# ---- one writer ----------------------------------------------------------------------------------------------


def test_a_second_writer_in_this_process_is_refused_by_any_path(made: Path) -> None:
    """C90."""
    link = made.parent / "link"
    link.symlink_to(made)
    with LmdbStore(made, KIT_SCHEMA) as store:
        for path in (made, link, Path(os.path.relpath(made))):
            with pytest.raises(StoreBusy, match="this process"):
                LmdbStore(path, KIT_SCHEMA)
        with pytest.raises(StoreBusy):
            LmdbStore(made, KIT_SCHEMA, readonly=True)
        assert store.commit([("small", 2, Small(2))]) is Outcome.DONE
        assert len(store.load()["small"]) == 2
    LmdbStore(made, KIT_SCHEMA).close()


def test_a_second_writer_is_refused_with_the_first_one_s_process(made: Path) -> None:
    words = [sys.executable, str(PROCESSES), "hold", str(made)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        assert f"process {holder.pid}" in str(refusal(made, StoreBusy))
        with LmdbStore(made, KIT_SCHEMA, readonly=True) as reader:
            assert reader.load()["small"] == {1: Small(1)}
            with pytest.raises(StoreClosed, match="reading only"):
                reader.commit([("small", 2, Small(2))])
        holder.kill()
        holder.communicate()
    LmdbStore(made, KIT_SCHEMA).close()


def test_a_deposed_writer_s_failed_claim_changes_nothing(made: Path) -> None:
    with LmdbStore(made, KIT_SCHEMA) as store:
        store.fence(4)
        run("usurp", made, 9)
        with pytest.raises(StoreError, match="term 9"):
            store.fence(8)
        assert store.term == 9


# ---- growth --------------------------------------------------------------------------------------------------


def rows(start: int, count: int) -> list[tuple[str, int, Small]]:
    return [("small", n, Small(n, "", bytes(1000))) for n in range(start, start + count)]


def test_the_map_grows_as_far_as_its_limit_and_no_commit_is_half_done(tmp_path: Path) -> None:
    """C88."""
    with LmdbStore(tmp_path / "s", KIT_SCHEMA, map_bytes=65536, map_bytes_max=1 << 20) as store:
        assert store.commit(rows(0, 200)) is Outcome.DONE
        assert store.commit(rows(200, 2000)) is Outcome.NOT_DONE
        assert isinstance(store.failure, StoreFull)
        assert "1048576" in str(store.failure)
        assert len(store.load()["small"]) == 200
        assert store.commit(rows(200, 50)) is Outcome.DONE
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        assert store.load()["small"] == {n: Small(n, "", bytes(1000)) for n in range(250)}


def test_a_scan_that_is_in_the_way_of_growth_is_ended_and_says_so(tmp_path: Path) -> None:
    with LmdbStore(tmp_path / "s", KIT_SCHEMA, map_bytes=1 << 20) as store:
        store.commit(rows(0, 300))
        scan = store.scan()
        next(scan)
        assert store.commit(rows(300, 2000)) is Outcome.DONE
        with pytest.raises(ScanInterrupted):
            list(scan)
        assert len(store.load()["small"]) == 2300


def in_a_child(call: Callable[[], object]) -> str:
    """The name of what a call raises in a forked child; "nothing" if it does not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            call()
        except BaseException as error:  # noqa: BLE001  nothing may leave the child but its name
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_handle_is_of_no_use_in_a_forked_child_and_the_child_s_close_does_not_close_it(tmp_path: Path) -> None:
    """LMDB's locks and reader slots belong to the process that opened it: a child that used them would break its parent's."""
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        store.commit(rows(0, 1))
        calls: list[Callable[[], object]] = [store.load, lambda: store.commit(rows(1, 1)), lambda: next(store.scan())]
        assert [in_a_child(call) for call in calls] == ["StoreClosed"] * 3
        assert in_a_child(store.close) == "nothing"
        assert store.commit(rows(2, 1)) is Outcome.DONE
        assert sorted(store.load()["small"]) == [0, 2]


def test_scans_that_were_dropped_hold_nothing(tmp_path: Path) -> None:
    with LmdbStore(tmp_path / "s", KIT_SCHEMA) as store:
        store.commit(rows(0, 300))
        for _ in range(200):  # more than LMDB has reader slots
            next(store.scan())
        half = store.scan()
        next(half)
        store.close()
        with pytest.raises(StoreClosed):
            list(half)


# ---- backup --------------------------------------------------------------------------------------------------


def test_a_backup_is_a_store_in_the_state_of_one_instant(made: Path) -> None:
    with LmdbStore(made, KIT_SCHEMA) as store:
        store.fence(6)
        store.commit(rows(10, 600))
        wanted = store.load()
        store.backup(made.parent / "copies" / "monday")
        store.commit([("small", 1, None)])
        identity = store.identity
        with pytest.raises(StoreForeign, match="never replaces"):
            store.backup(made.parent / "copies" / "monday")
    assert os.listdir(made.parent / "copies") == ["monday"]
    with LmdbStore(made.parent / "copies" / "monday", KIT_SCHEMA) as copy:
        assert copy.load() == wanted
        assert (copy.identity, copy.term) == (identity, 6)
