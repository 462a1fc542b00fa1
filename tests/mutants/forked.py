"""Work in processes of their own: each is forked from one that has imported everything, so that it costs only what it does.

The parent has one thread. A child gets a limit of processor time from the kernel and one of real time from its parent, which ends
the child's own process group by its number. What a child says is lines of JSON on a pipe.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from attrs import define, field

Say = Callable[[Any], None]
WALL = 6.0
"""Real seconds per processor second that a child may take: it waits for sockets and processes, and others want the cores too."""
GRACE_S = 15.0


@define
class Job:
    """`work(say)` in a child; `key` names it. `cpu_s`: processor seconds."""

    key: Any
    work: Callable[[Say], None]
    cpu_s: float


@define
class Done:
    """What a child said, and how it ended: "" well, or why not."""

    key: Any
    said: list[Any]
    ended: str
    cpu_s: float
    wall_s: float


@define
class _Child:
    job: Job
    pid: int
    pipe: int
    begun: float
    text: bytearray = field(factory=bytearray)
    killed: bool = False

    @property
    def until(self) -> float:
        return self.begun + self.job.cpu_s * WALL + GRACE_S


def run_all(jobs: Iterator[Job], parallel: int) -> Iterator[Done]:
    """Run the jobs, `parallel` at a time, and give each as it ends."""
    gc.collect()
    gc.freeze()
    children: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        more = True
        while more or children:
            while more and len(children) < parallel:
                job = next(jobs, None)
                if job is None:
                    more = False
                    break
                child = _start(job)
                children[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            for ready, _ in selector.select(0.5):
                child = children[ready.fd]
                data = os.read(child.pipe, 1 << 16)
                if data:
                    child.text += data
                    continue
                selector.unregister(child.pipe)
                del children[child.pipe]
                yield _end(child)
            for child in children.values():
                if time.monotonic() > child.until and not child.killed:
                    child.killed = True
                    _kill(child.pid)


def _start(job: Job) -> _Child:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return _Child(job, pid, reader, time.monotonic())
    os.close(reader)
    return _be_a_child(job, writer)


def _be_a_child(job: Job, writer: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        limit = max(1, round(job.cpu_s))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)

        def say(thing: Any) -> None:
            os.write(writer, json.dumps(thing).encode() + b"\n")

        try:
            job.work(say)
        except BaseException as error:  # noqa: BLE001  the parent must hear of it, whatever it is
            say({"error": f"{type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(0)


def _kill(pid: int) -> None:
    """The child and what it has started: its own group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _end(child: _Child) -> Done:
    _, status, usage = os.wait4(child.pid, 0)
    _kill(child.pid)
    os.close(child.pipe)
    said = [json.loads(line) for line in bytes(child.text).splitlines()]
    ended = ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        ended = "out of time" if child.killed or number in (signal.SIGXCPU, signal.SIGKILL) else f"signal {number}"
    return Done(child.job.key, said, ended, usage.ru_utime + usage.ru_stime, time.monotonic() - child.begun)
