"""What can be wrong with this machine or its settings, one sentence for each thing that was looked at (`pinfold doctor`).

Nothing is changed: stores are opened for reading, ports are bound for an instant, one question is asked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from attrs import define

from .cli import EXTRAS
from .config import Config, ConfigError
from .core.errors import WorldError
from .ports import can_bind
from .settings import Settings
from .units import show_size

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

DISTRIBUTIONS: Final = {"zmq": "pyzmq"}


@define(frozen=True)
class Finding:
    """`verdict` is `ok`, `warn` or `fail`."""

    what: str
    verdict: str
    sentence: str


def examine(load_config: Callable[[], Config], timeout_ms: int) -> list[Finding]:
    """Everything, in the order in which one thing rests on another."""
    found = [_python(), *_extras(), _links(), _clock(), _shared_memory()]
    try:
        config = load_config()
    except ConfigError as error:
        return [*found, Finding("config", FAIL, str(error))]
    given = sum(1 for origin in config.origins.values() if origin != "default")
    found.append(Finding("config", OK, f"{given} of {len(config.origins)} settings are given, the rest are defaults"))
    settings = config.settings
    if any(finding.verdict == FAIL for finding in found):
        return found
    found += [_store(settings), *_shared_stores(settings), _memory(settings), _disk(settings)]
    reached, reachable = _endpoint(settings, config.origins, timeout_ms)
    return [*found, reached, _port(settings, reachable)]


# ---- the machine ---------------------------------------------------------------------------------------------


def _python() -> Finding:
    now = ".".join(map(str, sys.version_info[:3]))
    if sys.platform != "linux":
        return Finding("python", FAIL, f"pinfold runs on Linux, this is {sys.platform}")
    if sys.version_info >= (3, 14):
        return Finding("python", WARN, f"Python {now} is newer than those pinfold is tested with (3.11 to 3.13)")
    return Finding("python", OK, f"Python {now}")


def _extras() -> list[Finding]:
    found = []
    for library, extra in EXTRAS.items():
        try:
            import_module(library)
            known = version(DISTRIBUTIONS.get(library, library))
        except PackageNotFoundError:
            found.append(Finding(library, OK, "is there, with no version"))
        except ImportError as error:
            found.append(Finding(library, FAIL, f"{error}: pip install 'pinfold[server]' (extra {extra})"))
        else:
            found.append(Finding(library, OK, f"version {known}"))
    return found


def _links() -> Finding:
    """A checkout without symbolic links has small text files where the packages should be."""
    root = Path(__file__).parent
    broken = [name for name in ("core", "backends", "transport") if not (root / name).is_dir()]
    if broken:
        hint = "clone again with 'git -c core.symlinks=true clone'"
        return Finding("links", FAIL, f"{', '.join(broken)} inside {root} should lead to a folder and does not: {hint}")
    return Finding("links", OK, "the packages are where they should be")


def _clock() -> Finding:
    before = time.monotonic_ns()
    time.sleep(0.01)
    passed_ms = (time.monotonic_ns() - before) / 1e6
    if not 9 <= passed_ms <= 2_000:
        return Finding("clock", FAIL, f"a pause of 10 ms took {passed_ms:.1f} ms by the monotonic clock; leases would not hold")
    if time.gmtime().tm_year < 2024:
        return Finding("clock", WARN, f"the date is {time.strftime('%Y-%m-%d', time.gmtime())}; only logs rest on it")
    return Finding("clock", OK, f"monotonic; a pause of 10 ms took {passed_ms:.1f} ms")


def free_bytes(path: Path) -> int:
    """Room for us on the file system that has `path`, or will have it. Raises OSError."""
    while not path.exists() and path != path.parent:
        path = path.parent
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _shared_memory() -> Finding:
    try:
        free = free_bytes(Path("/dev/shm"))
    except OSError as error:
        return Finding("shm", WARN, f"/dev/shm can't be used: {error.strerror}")
    return Finding("shm", OK if free >= 2**26 else WARN, f"{show_mib(free)} free in /dev/shm")


def show_mib(size: int) -> str:
    return show_size(size >> 20 << 20)


# ---- the settings --------------------------------------------------------------------------------------------


def _store(settings: Settings) -> Finding:
    from .backends.base import StoreError, StoreMissing
    from .backends.lmdb import LmdbStore
    from .core.state import FORMAT, RECORD_TYPES

    own = settings.directory
    whose = f"directory/{own.shard}"
    try:
        with LmdbStore(own.data, RECORD_TYPES, owner=whose, shard=own.shard, readonly=True, versions=FORMAT) as store:
            groups = len(store.load()["groups"])
            return Finding("store", OK, f"{own.data} has store {store.identity.store_id}, term {store.term}, {groups} groups")
    except StoreMissing as error:
        return Finding("store", WARN, f"{error}; a directory that is started here makes one")
    except StoreError as error:
        return Finding("store", FAIL, str(error))


def _shared_stores(settings: Settings) -> list[Finding]:
    found = []
    for name, store in settings.stores.items():
        what = f"stores.{name}"
        if not store.path.is_dir():
            found.append(Finding(what, FAIL, f"{store.path} is not a folder; make it, and let all nodes share it"))
        elif not os.access(store.path, os.R_OK | os.W_OK | os.X_OK):
            found.append(Finding(what, FAIL, f"{store.path} can't be read and written by this user"))
        else:
            free = free_bytes(store.path)
            verdict = OK if free >= store.capacity_bytes else WARN
            wanted = show_size(store.capacity_bytes)
            found.append(Finding(what, verdict, f"{store.path} has {show_mib(free)} free; up to {wanted} may be stored there"))
    return found


def _memory(settings: Settings) -> Finding:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return Finding("memory", WARN, "the kernel does not say how much memory is free")
    wanted = settings.node.dram_bytes
    verdict = OK if free > wanted else FAIL
    return Finding("memory", verdict, f"{show_mib(free)} of memory are free; a node's DRAM tier takes {show_size(wanted)}")


def _disk(settings: Settings) -> Finding:
    try:
        free = free_bytes(settings.node.data.absolute())
    except OSError as error:
        return Finding("disk", FAIL, f"{settings.node.data} can't be used: {error.strerror}")
    wanted = settings.node.ssd_bytes
    verdict = OK if free > wanted else WARN
    sentence = f"{show_mib(free)} are free for {settings.node.data}; the SSD tier may take {show_size(wanted)}"
    return Finding("disk", verdict, sentence)


def _endpoint(settings: Settings, origins: Mapping[str, str], timeout_ms: int) -> tuple[Finding, bool]:
    from . import probe

    endpoint = settings.client.endpoints[0]
    try:
        report = probe.status(endpoint, timeout_ms)
    except WorldError as error:
        expected = origins["client.endpoints"] != "default"
        return Finding("directory", FAIL if expected else WARN, f"{error}; is a directory running there?"), False
    nodes = [line for line in report.nodes if not line.store]
    ready = sum(1 for line in nodes if line.alive and line.ready)
    verdict = OK if nodes and ready == len(nodes) else WARN
    return Finding("directory", verdict, f"{endpoint} answers; {ready} of {len(nodes)} nodes are ready"), True


def _port(settings: Settings, reachable: bool) -> Finding:
    bind = settings.directory.bind
    if not bind.startswith("tcp://"):
        return Finding("port", OK, f"{bind} needs no port")
    host, _, port = bind.removeprefix("tcp://").rpartition(":")
    host = "0.0.0.0" if host == "*" else host.strip("[]")
    if reachable and bind in settings.client.endpoints:
        return Finding("port", OK, f"{bind} is in use by the directory that answers")
    if can_bind(host, int(port)):
        return Finding("port", OK, f"{bind} is free")
    return Finding("port", FAIL, f"{bind} is in use, or is no address of this machine")
