"""The processes of a job that ask things of the cluster: clients and a mover, with their pipes and what they are doing.

    team.add(Worker.start("c1", "pinfold.job_client", {...}))
    for worker, line in team.poll(0.2): ...       # (worker, None): it has ended
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from attrs import define, field

from .core.errors import WorldError

END_S: Final = 20.0
"""How long a worker may take to close its session and leave."""


@define(eq=False)
class Worker:
    """One process. `serving`: the request that it was handed and has not told the end of; `held`: it stands with pins in hand."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: bool = False
    serving: int | None = None
    held: bool = False
    _buffer: bytes = field(default=b"", repr=False)

    @classmethod
    def start(cls, name: str, module: str, job: dict[str, Any], log: Path) -> Self:
        """Start `python -m module` and tell it its job. What it says on stderr goes to `log`."""
        with log.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                env=cls.environment(), process_group=0,
            )  # fmt: skip
        worker = cls(name, process, log)
        worker.tell(job)
        return worker

    @staticmethod
    def environment() -> dict[str, str]:
        """Ours; the child imports the pinfold that we are."""
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        return os.environ | {"PYTHONPATH": path}

    def tell(self, line: dict[str, Any]) -> None:
        """Hand it a line. One that has ended does not hear it: its end is told by `Team.poll`."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """What it has said, each line; None at its end."""
        assert self.process.stdout is not None
        found = os.read(self.process.stdout.fileno(), 1 << 16)
        self._buffer += found
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            yield json.loads(line)
        if not found:
            yield None

    def last_words(self) -> str:
        """The last lines of what it said on stderr."""
        try:
            return " | ".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])
        except OSError:
            return ""


class Team:
    """See the module. For the thread that made it."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()

    def add(self, worker: Worker) -> Worker:
        self.workers.append(worker)
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def poll(self, timeout_s: float) -> list[tuple[Worker, dict[str, Any] | None]]:
        """What was said. A worker whose end is told is no longer of the team."""
        said: list[tuple[Worker, dict[str, Any] | None]] = []
        for key, _ in self._selector.select(timeout_s):
            worker: Worker = key.data
            for line in worker.lines():
                said.append((worker, line))
                if line is None:
                    self._forget(worker)
        return said

    def kill(self, worker: Worker) -> None:
        """SIGKILL, and wait until it is gone."""
        self._forget(worker)
        worker.process.kill()
        worker.process.wait(END_S)

    def dismiss(self) -> list[tuple[Worker, dict[str, Any] | None]]:
        """Tell all that there is nothing more to do, and wait until they have left. Raises WorldError for one that does not."""
        said = []
        for worker in self.workers:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
        until = time.monotonic() + END_S
        while self.workers and time.monotonic() < until:
            said += self.poll(0.2)
        if self.workers:
            raise WorldError(f"{self.workers[0].name} does not leave")
        return said

    def end(self) -> None:
        """End what still runs, however."""
        for worker in list(self.workers):
            self.kill(worker)
        self._selector.close()

    def _forget(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        assert worker.process.stdin is not None
        self._selector.unregister(worker.process.stdout)
        self.workers.remove(worker)
        worker.process.stdout.close()
        with suppress(BrokenPipeError):  # what it was told last, nobody will read
            worker.process.stdin.close()
