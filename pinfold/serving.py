"""What the processes share: the clock, signals, the parent's life, the word "ready", and how a process ends.

A process is a loop over `wire.poll`. Whatever should end it becomes a readable file descriptor in that poll: a signal (through
a pipe that the interpreter writes to, because a handler must not take a lock that the loop may hold) and the death of the
parent that started it (the far end of a pipe, which the kernel closes however the parent dies).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from .core.errors import WorldError
from .logs import Log

POLL_MS_MAX: Final = 1_000
"""A loop turns at least this often."""

_PR_SET_PDEATHSIG: Final = 1


def clock_ms() -> int:
    """The clock of a process's machine: monotonic, milliseconds."""
    return time.monotonic_ns() // 1_000_000


class Ending:
    """Why this process should end, if it should. `fds` are for the poll; `reason` is "" while nothing has happened.

    Used as a context manager around the loop; only in the main thread. A second signal ends the process at once.
    """

    def __init__(self, parent_fd: int = -1) -> None:
        self.reason = ""
        self._parent_fd = parent_fd
        self._reader, self._writer = -1, -1
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        if self._parent_fd >= 0:
            os.set_inheritable(self._parent_fd, False)
            self._be_woken_when_orphaned()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    @property
    def fds(self) -> tuple[int, ...]:
        return (self._reader,) if self._parent_fd < 0 else (self._reader, self._parent_fd)

    def asked(self) -> bool:
        """Whether the process should end."""
        return bool(self.reason)

    def look(self, ready: tuple[int, ...]) -> None:
        """Take note of which of `fds` can be read."""
        if self._reader in ready:
            with suppress(BlockingIOError):
                os.read(self._reader, 512)
        if self._parent_fd in ready and not self.reason:
            self.reason = "the process that started this one is gone"

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.reason:  # asked twice: whoever asks does not want to wait
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.reason = signal.Signals(number).name

    def _be_woken_when_orphaned(self) -> None:
        """A stopped process can't see that its parent has gone. SIGCONT at the parent's death lets it see the closed pipe, and
        does nothing to one that runs; a deadly signal here would also follow the end of the *thread* that started us."""
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def announce(what: dict[str, Any], ready_file: str = "") -> None:
    """Say on stdout, and in a file that appears whole, that this process serves."""
    line = json.dumps(what, sort_keys=True)
    if ready_file:
        path = Path(ready_file)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            partial.write_text(line + "\n", encoding="utf-8")
            partial.rename(path)
        except OSError as error:
            raise WorldError(f"cannot write the ready file {path}: {error.strerror}") from None
    with suppress(OSError):
        print(line, flush=True)


def guarded(log: Log, serve: Callable[[], int]) -> int:
    """Run a process; what the world does to it is one sentence and an exit code. A bug keeps its traceback."""
    try:
        return serve()
    except WorldError as error:
        log.error("cannot go on", reason=str(error))
        return int(getattr(error, "exit_code", 1))
    except KeyboardInterrupt:
        return 0


def exit_code_of(error: BaseException) -> int:
    return int(getattr(error, "exit_code", 1))


def stdout_is_gone() -> None:
    """Leave stdout alone from now on: its reader has gone, and the interpreter would complain at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
