"""What the store tests run in other processes: `python store_processes.py WORD FOLDER [NUMBER]`, one line on stdout per fact."""

import os
import resource
import sys
import time
from itertools import count

from pinfold.backends.base import StoreError
from pinfold.backends.lmdb import LmdbStore
from pinfold.core.driver import Outcome
from pinfold.testing_records import KIT_SCHEMA, Small


def say(*words: object) -> None:
    print(*words, flush=True)


def hold(folder: str) -> None:
    """Open for writing, say so, wait to be ended."""
    with LmdbStore(folder, KIT_SCHEMA):
        say("open")
        sys.stdin.read()


def usurp(folder: str, term: int) -> None:
    """Claim a term as if the other writer's lock were lost (a lock file deleted by hand, a file system without locks)."""
    os.unlink(os.path.join(folder, "pinfold.lock"))
    with LmdbStore(folder, KIT_SCHEMA, verify=False) as store:
        store.fence(term)
        say(store.term)


def stream(folder: str) -> None:
    """Commit for ever, three writes at a time; say each number after its commit was answered DONE."""
    store = LmdbStore(folder, KIT_SCHEMA)
    for n in count():
        batch = [("small", (n, part), Small(n, "x" * 300)) for part in range(3)]
        if n >= 10:
            batch += [("small", (n - 10, part), None) for part in range(3)]
        if store.commit(batch) is Outcome.DONE:
            say(n)


def fill(folder: str, limit: int) -> None:
    """Commit under a limit on the size of files until it is reached, then without it; say what happened."""
    store = LmdbStore(folder, KIT_SCHEMA)
    store.fence(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    done = 0
    while (outcome := commit(store, done)) is Outcome.DONE:
        done += 1
    say(outcome.name, type(store.failure).__name__, len(store.load()["small"]) == 8 * done)
    say(commit(store, done).name, len(store.load()["small"]) == 8 * done)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    say(commit(store, done).name, len(store.load()["small"]) == 8 * (done + 1))
    store.close()
    with LmdbStore(folder, KIT_SCHEMA) as store:
        say(len(store.load()["small"]) == 8 * (done + 1), store.term)


def commit(store: LmdbStore, number: int) -> Outcome:
    return store.commit([("small", (number, part), Small(part, "x" * 2000)) for part in range(8)])


def fork(folder: str) -> None:
    """A child inherits the store: it may not use it, and its end changes nothing for the parent; nor does it keep the lock."""
    store = LmdbStore(folder, KIT_SCHEMA)
    store.commit([("small", 1, Small(1))])
    scan = store.scan()
    next(scan)
    child = os.fork()
    if child == 0:
        for call in (store.load, lambda: store.commit([("small", 2, Small(2))]), lambda: store.fence(9), lambda: list(scan)):
            try:
                say("child", call())
            except StoreError as error:
                say("child", type(error).__name__)
        store.close()
        if os.fork() == 0:  # an orphan that outlives both
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            time.sleep(5)
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    store.commit([("small", 3, Small(3))])
    say("parent", sorted(store.load()["small"]), store.term)
    os._exit(0)  # without closing, as a killed process


def denied(folder: str) -> None:
    """Open as a user who may not."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for readonly in (False, True):
        try:
            LmdbStore(folder, KIT_SCHEMA, readonly=readonly)
        except StoreError as error:
            say(type(error).__name__, error.exit_code)


if __name__ == "__main__":
    word, where, *numbers = sys.argv[1:]
    globals()[word](where, *map(int, numbers))
