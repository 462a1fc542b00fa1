"""A whole cluster on this machine: a directory, nodes and a shared store as child processes on loopback.

    with LocalCluster(ClusterOptions(nodes=("n1", "n2"))) as cluster:       # start() ... stop()
        client = pinfold.connect(cluster.endpoint)
        cluster.kill("n1"); cluster.restart("n1")                            # SIGKILL; same data, same endpoint
        cluster.pause("n2"); cluster.resume("n2")                            # SIGSTOP, SIGCONT
        cluster.kill("directory"); cluster.restart("directory")

Every wait is bounded, every process is known and signalled by its own id, and none outlives the process that started it: each
child watches a pipe whose other end the kernel closes when this process ends, however it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from attrs import define, field

from . import probe
from .config import Config, ConfigError, dump, load
from .core.answers import NodeLine
from .core.errors import WorldError
from .ports import free_port
from .units import parse_size_bytes

DIRECTORY: Final = "directory"
CONFIG_NAME: Final = "pinfold.toml"
START_TRIES: Final = 3
"""A port that was free may be taken before the child has it."""
IN_USE: Final = "Address already in use"
STEP_S: Final = 0.02


class ClusterError(WorldError):
    """Raised when a child did not start, did not end, or is not what it should be; with the end of its log."""


@define(frozen=True)
class ClusterOptions:
    """What the cluster is made of. `values`: settings by path as a flag would say them, `{"node.dram": "8MiB"}`.

    `data` None: a temporary folder, which `stop` removes. `endpoint` "": a free port for the directory. `stores`: shared stores,
    made inside `data`, beside those that the configuration has. Times in ms.
    """

    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    data: Path | None = None
    values: Mapping[str, str] = field(factory=dict)
    stores: tuple[str, ...] = ("shared",)
    store_capacity: str = "1GiB"
    endpoint: str = ""
    start_ms: int = 30_000
    stop_ms: int = 10_000
    quiet: bool = True
    """The children's logs go to files in `data`; else to our stderr."""


@define
class Member:
    """One process of the cluster, over all its lives."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    endpoint: str = ""
    paused: bool = False
    starts: int = 0
    said: dict[str, Any] = field(factory=dict)
    """What it said when it was ready: endpoint, term or boot."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """0 when it does not run."""
        return self.process.pid if self.process is not None and self.process.poll() is None else 0

    @property
    def alive(self) -> bool:
        return self.pid != 0

    @property
    def exit_code(self) -> int | None:
        """Of its last life; None while it runs; negative: the signal that ended it."""
        return self.process.poll() if self.process is not None else None

    @property
    def log_file(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def ready_file(self) -> Path:
        return self.folder / "run" / f"{self.name}.ready"

    def last_words(self) -> str:
        """The last lines of its log."""
        try:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return " | ".join(lines[-3:])


class LocalCluster:
    """See the module. Not for several threads at once."""

    def __init__(self, options: ClusterOptions | None = None, config: Config | None = None) -> None:
        self.options = options or ClusterOptions()
        if DIRECTORY in self.options.nodes or len(set(self.options.nodes)) != len(self.options.nodes) or not self.options.nodes:
            raise ConfigError(f"a cluster needs nodes with names of their own, none of them {DIRECTORY!r}")
        self.config = config if config is not None else load(self.options.values)
        self._members: dict[str, Member] = {}
        self._watch: tuple[int, int] | None = None
        self._temporary = False
        self.data = Path()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- looking ---------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Member:
        return self._members[DIRECTORY]

    @property
    def nodes(self) -> dict[str, Member]:
        """By name, in the order of the options."""
        return {name: member for name, member in self._members.items() if name != DIRECTORY}

    @property
    def endpoint(self) -> str:
        """The directory's address."""
        return self.directory.endpoint

    @property
    def config_file(self) -> Path:
        """The file with which a client's command line finds this cluster: `pinfold --config FILE ls`."""
        return self.data / CONFIG_NAME

    @property
    def store_folder(self) -> Path:
        """The directory's metadata store."""
        return self.data / DIRECTORY

    def ended(self) -> list[Member]:
        """Members that do not run although nobody has killed or stopped them."""
        return [member for member in self._members.values() if member.process is not None and not member.alive]

    # ---- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and wait until the directory has all nodes ready for use. Raises ClusterError; then nothing runs."""
        try:
            self._prepare()
            self._start_first(self.directory)
            self._write_config(self.endpoint)
            for member in self.nodes.values():
                member.arguments = ("--endpoints", self.endpoint, *member.arguments)
                self._spawn(member)
            for member in self.nodes.values():
                self._start_first(member)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End what runs, nodes first; SIGKILL for what does not listen. A temporary folder is removed. Idempotent."""
        for members in (list(self.nodes.values()), [m for m in self._members.values() if m.name == DIRECTORY]):
            for member in members:
                self._signal(member, signal.SIGCONT)
                self._signal(member, signal.SIGTERM)
            for member in members:
                self._end(member, self.options.stop_ms)
        if self._watch is not None:
            os.close(self._watch[0])
            os.close(self._watch[1])
            self._watch = None
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def kill(self, name: str) -> None:
        """SIGKILL; back when the process is gone."""
        member = self._running(name)
        self._signal(member, signal.SIGKILL)
        self._end(member, self.options.stop_ms)
        member.process = None

    def terminate(self, name: str) -> int:
        """SIGTERM, as an operator would; its exit code."""
        member = self._running(name)
        self._signal(member, signal.SIGCONT)
        self._signal(member, signal.SIGTERM)
        self._end(member, self.options.stop_ms)
        code = member.exit_code
        member.process = None
        return -1 if code is None else code

    def pause(self, name: str) -> None:
        """SIGSTOP: it stands still, with all its connections open."""
        member = self._running(name)
        self._signal(member, signal.SIGSTOP)
        member.paused = True

    def resume(self, name: str) -> None:
        """SIGCONT."""
        member = self._running(name)
        self._signal(member, signal.SIGCONT)
        member.paused = False

    def restart(self, name: str) -> Member:
        """A new process with the same data at the same endpoint; one that still runs is ended first. Waits until it serves."""
        member = self._members[name]
        if member.alive:
            self.terminate(name)
        self._spawn(member)
        self._await_up(member)
        return member

    def wait_ready(self, names: Iterable[str] = (), timeout_ms: int = 0) -> None:
        """Wait until the directory says that these nodes (all that run) are alive and ready for use, and means the registration
        that they have now: an earlier process of the name may look alive for as long as its lease. Raises ClusterError."""
        wanted = set(names) or {member.name for member in self.nodes.values() if member.alive}
        until = time.monotonic() + (timeout_ms or self.options.start_ms) / 1_000
        missing = wanted
        while time.monotonic() < until:
            try:
                lines = probe.status(self.endpoint, 1_000).nodes
                missing = wanted - {line.node for line in lines if line.alive and line.ready and self._is_meant(line)}
            except probe.NoAnswer:
                continue
            if not missing:
                return
            self._raise_for_ended(name for name in missing)
            time.sleep(STEP_S)
        raise ClusterError(f"the directory does not have these nodes ready: {', '.join(sorted(missing))}")

    # ---- inside ----------------------------------------------------------------------------------------------

    def _is_meant(self, line: NodeLine) -> bool:
        """Does the node itself say that it has this registration? Raises NoAnswer."""
        member = self.nodes.get(line.node)
        return member is not None and probe.node_status(member.endpoint, 1_000).incarnation == line.incarnation

    def _prepare(self) -> None:
        self._temporary = self.options.data is None
        try:
            if self.options.data is None:
                self.data = Path(tempfile.mkdtemp(prefix="pinfold-"))
            else:
                self.data = self.options.data.absolute()
            for folder in ("logs", "run", *(f"stores/{name}" for name in self.options.stores)):
                (self.data / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot use {self.data}: {error.strerror}") from None
        self._watch = os.pipe2(os.O_CLOEXEC)
        self._write_config("")
        self._members[DIRECTORY] = Member(
            DIRECTORY, (DIRECTORY, "--data", str(self.store_folder)), self.data, self.options.endpoint
        )
        for name in self.options.nodes:
            self._members[name] = Member(name, ("node", "--name", name, "--data", str(self.data / name)), self.data)

    def _write_config(self, endpoint: str) -> None:
        """What all members and their clients share. Written whole, so that nobody reads half of it."""
        given = self.config.given | load(self.options.values).given
        given |= {path: value for path, value in self.config.values.items() if path.startswith("stores.")}
        for name in self.options.stores:
            given.setdefault(f"stores.{name}.path", self.data / "stores" / name)
            given.setdefault(f"stores.{name}.capacity", parse_size_bytes(self.options.store_capacity))
        given["directory.data"] = self.store_folder
        if endpoint:
            given |= {"directory.bind": endpoint, "client.endpoints": (endpoint,), "node.directories": (endpoint,)}
        partial = self.config_file.with_suffix(".part")
        partial.write_text(dump(given), encoding="utf-8")
        partial.rename(self.config_file)

    def _start_first(self, member: Member) -> None:
        """Start until it has a port."""
        for attempt in range(1, START_TRIES + 1):
            try:
                if member.process is None or attempt > 1:
                    self._spawn(member)
                self._await_up(member)
                return
            except ClusterError:
                taken = IN_USE in member.last_words() and member.endpoint != self.options.endpoint
                if attempt == START_TRIES or not taken:
                    raise
                member.endpoint = ""

    def _spawn(self, member: Member) -> None:
        member.endpoint = member.endpoint or f"tcp://127.0.0.1:{free_port()}"
        member.ready_file.unlink(missing_ok=True)
        member.paused = False
        member.starts += 1
        assert self._watch is not None
        reader = self._watch[0]
        flags = ("--bind", member.endpoint, "--ready-file", str(member.ready_file), "--parent-fd", str(reader))
        command = [sys.executable, "-P", "-m", "pinfold", "--config", str(self.config_file), *member.arguments, *flags]
        log: Any = None if not self.options.quiet else member.log_file.open("ab")
        try:
            # Its own process group: Ctrl-C is for the process at the terminal, which then ends its children in order.
            member.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, pass_fds=(reader,),
                env=_environment(), process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise ClusterError(f"cannot start {member.name}: {error.strerror}") from None
        finally:
            if log is not None:
                log.close()

    def _await_up(self, member: Member) -> None:
        """Until it has said that it serves. Raises ClusterError; then it does not run."""
        until = time.monotonic() + self.options.start_ms / 1_000
        while time.monotonic() < until:
            if member.ready_file.exists():
                member.said = json.loads(member.ready_file.read_text(encoding="utf-8"))
                member.endpoint = member.said["endpoint"]
                return
            self._raise_for_ended((member.name,))
            time.sleep(STEP_S)
        self._signal(member, signal.SIGKILL)
        self._end(member, self.options.stop_ms)
        raise ClusterError(f"{member.name} was not ready within {self.options.start_ms} ms: {member.last_words()}")

    def _raise_for_ended(self, names: Iterable[str]) -> None:
        for name in names:
            member = self._members[name]
            if not member.alive:
                raise ClusterError(f"{name} ended with exit code {member.exit_code}: {member.last_words()}")

    def _running(self, name: str) -> Member:
        member = self._members[name]
        if not member.alive:
            raise ClusterError(f"{name} does not run")
        return member

    def _signal(self, member: Member, number: int) -> None:
        if member.process is not None and member.process.poll() is None:
            member.process.send_signal(number)

    def _end(self, member: Member, timeout_ms: int) -> None:
        """Wait, then SIGKILL, then wait: a process that can't be killed is a stuck kernel, and said so."""
        if member.process is None:
            return
        for last in (False, True):
            try:
                member.process.wait(timeout_ms / 1_000)
                return
            except subprocess.TimeoutExpired:
                if last:
                    raise ClusterError(f"{member.name} (process {member.process.pid}) does not end") from None
                self._signal(member, signal.SIGKILL)


def _environment() -> dict[str, str]:
    """Ours, without settings: those of the cluster are in its file. The children import the pinfold that we are."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PINFOLD_")}
    root = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH", ""))))
    return environment

