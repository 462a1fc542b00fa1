"""What the cases run in other processes: `python processes.py WORD [FOLDER [NUMBER]]`, one line on stdout per fact."""

import os
import resource
import sys
from contextlib import ExitStack
from typing import Any

from pinfold.backends import lmdb_database
from pinfold.backends.base import StoreError
from pinfold.backends.lmdb import LmdbStore
from pinfold.core.driver import Outcome
from pinfold.testing_records import KIT_SCHEMA, Small

BATCH = 8


def say(*words: object) -> None:
    print(*words, flush=True)


def rows(number: int) -> list[tuple[str, Any, Any]]:
    """One commit, to be seen whole or not at all."""
    return [("small", (number, part), Small(number, "x" * 2_000)) for part in range(BATCH)]


def grow(folder: str, commits: int) -> None:
    """Commit into a map that is far too small; say each number that is durable."""
    with LmdbStore(folder, KIT_SCHEMA, map_bytes=65_536) as store:
        for number in range(commits):
            say(number, store.commit(rows(number)).name)
        say("map", store._database.map_bytes)


def fork(folder: str) -> None:
    """A child inherits the handle: it may not use it, and its end changes nothing for its parent."""
    store = LmdbStore(folder, KIT_SCHEMA)
    store.commit(rows(1))
    idle = os.fork()
    if idle == 0:
        os._exit(0)
    os.waitpid(idle, 0)
    say("parent", len(store.load()["small"]))
    child = os.fork()
    if child == 0:
        for call in (store.load, lambda: store.commit(rows(2)), lambda: store.fence(9)):
            try:
                say("child", call())
            except StoreError as error:
                say("child", type(error).__name__)
        store.close()
        os._exit(0)
    os.waitpid(child, 0)
    say("parent", store.commit(rows(3)).name, len(store.load()["small"]), store.term)
    store.close()


def hold(folder: str) -> None:
    """Try to open for writing what another process has open."""
    try:
        LmdbStore(folder, KIT_SCHEMA).close()
        say("opened")
    except StoreError as error:
        say(type(error).__name__)


def fill(folder: str, limit: int) -> None:
    """Commit until the file may not grow, then with room again; say what is there after each. A file that may not grow is met
    as on a full disk, but for what the file system says of its room: that is said here."""
    store = LmdbStore(folder, KIT_SCHEMA)
    room, lmdb_database.free_bytes = lmdb_database.free_bytes, lambda folder: 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    done = 0
    while (outcome := store.commit(rows(done))) is Outcome.DONE:
        done += 1
        if done > 100:
            break
    say(outcome.name, type(store.failure).__name__, len(store.load()["small"]) == BATCH * done)
    say(store.commit(rows(done)).name, len(store.load()["small"]) == BATCH * done)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lmdb_database.free_bytes = room
    say(store.commit(rows(done)).name, len(store.load()["small"]) == BATCH * (done + 1))
    store.close()
    with LmdbStore(folder, KIT_SCHEMA) as again:
        say(len(again.load()["small"]) == BATCH * (done + 1))


if __name__ == "__main__":
    word, *given = sys.argv[1:]
    with ExitStack() as stack:
        mutant = os.environ.get("PINFOLD_CASE_MUTANT", "")
        if mutant:
            from tests.cases.mutants import inherit

            stack.enter_context(inherit(mutant))
        globals()[word](*given[:1], *map(int, given[1:]))
