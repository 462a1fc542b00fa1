"""The faults of a demo: what dies or stands still, when, and how long it takes until all is well again.

Each has its place in the progress of the run, drawn from the seed, so that a run can be had again. Requests go on while a fault
lasts, up to the place of the next one: `Plan.limit` says how far.

    node        SIGKILL; it returns when some requests more are done         until it is registered and ready again
    directory   SIGKILL; it returns at once                                  until it answers a durable command in its new term
    client      SIGKILL while it holds pins                                  until its holds are gone
    pause       SIGSTOP of a node past its lease, then SIGCONT               until it is registered and ready again
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from attrs import define, field

from . import probe
from .cluster import DIRECTORY, LocalCluster
from .core.answers import Described, StatusReport
from .core.calls import Do
from .core.commands import Describe, ReleaseRequest
from .core.errors import WorldError
from .core.ids import GroupId
from .demo_watch import Watch, line_of
from .job_calls import Caller
from .report import Fault
from .workload import Draw

NAMES: Final = ("node", "directory", "client", "pause")
RECOVER_S: Final = 30.0
LOOK_S: Final = 0.02


@define
class Held:
    """A client that stands with pins in hand: the name of its session, and some groups that it has pinned."""

    session: str
    groups: tuple[GroupId, ...]


@define
class Plan:
    """Which fault when: `places[i]` requests must be done before fault `i` begins. `victims`: nodes for `node` and `pause`."""

    places: tuple[int, ...]
    victims: tuple[str, str]

    @classmethod
    def draw(cls, seed: int, requests: int, nodes: tuple[str, ...]) -> Plan:
        """Four places, a fifth of the run apart and shifted by the seed; two different nodes."""
        draw = Draw(seed ^ 0xFA017)
        each = requests / (len(NAMES) + 1)
        places = tuple(int(each * (number + 0.6)) + draw.below(max(1, int(each / 4))) for number in range(len(NAMES)))
        first = draw.below(len(nodes))
        second = (first + 1 + draw.below(len(nodes) - 1)) % len(nodes)
        return cls(places, (nodes[first], nodes[second]))

    def limit(self, over: int) -> int | None:
        """How many requests may be handed out when `over` faults are over; None: all."""
        following = over + 1
        return self.places[following] if following < len(self.places) else None


@define
class Progress:
    """Requests done, for threads that wait for it."""

    done: int = 0
    stopped: bool = False
    condition: threading.Condition = field(factory=threading.Condition)

    def reach(self, done: int) -> None:
        with self.condition:
            self.done = done
            self.condition.notify_all()

    def stop(self) -> None:
        """Nobody needs to wait any more."""
        with self.condition:
            self.stopped = True
            self.condition.notify_all()

    def wait_for(self, done: int) -> bool:
        """Until so many are done; False when the run has ended before."""
        with self.condition:
            self.condition.wait_for(lambda: self.done >= done or self.stopped)
            return not self.stopped


class Faults:
    """Runs the plan in a thread of its own. `kill_holder` has the runner, whose child it is, kill a client that holds pins."""

    def __init__(
        self,
        plan: Plan,
        cluster: LocalCluster,
        watch: Watch,
        progress: Progress,
        *,
        kill_holder: Callable[[], Held | None],
        say: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self.cluster = cluster
        self.watch = watch
        self.progress = progress
        self.over = 0
        self.found: list[Fault] = []
        self.down = ""
        """Whose end is ours."""
        self._kill_holder = kill_holder
        self._say = say
        self._executor = ThreadPoolExecutor(1, "faults")
        self._end: Future[None] | None = None

    def start(self) -> None:
        self._end = self._executor.submit(self._run)

    def check(self) -> None:
        """Raise what has gone wrong, if anything has."""
        if self._end is not None and self._end.done():
            self._end.result()

    def join(self) -> None:
        """Until all faults are over. Raises what has gone wrong."""
        if self._end is not None:
            self._end.result(len(NAMES) * RECOVER_S)

    def abandon(self) -> None:
        """End the thread, wherever it is."""
        self.progress.stop()
        self._executor.shutdown()

    @property
    def kills(self) -> int:
        return sum(fault.name != "pause" for fault in self.found)

    @property
    def pauses(self) -> int:
        return sum(fault.name == "pause" for fault in self.found)

    # ---- the plan --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        for number, (name, step) in enumerate(zip(NAMES, (self._node, self._directory, self._client, self._pause), strict=True)):
            if not self.progress.wait_for(self.plan.places[number]):
                return
            fault = Fault(name, self.progress.done)
            self.found.append(fault)
            fault.recovery_s = step()
            self.over = number + 1
            self._say(f"{name}: well again after {fault.recovery_s:.2f} s")

    def _node(self) -> float:
        """A node dies with its memory, and comes back with its disk."""
        name = self.plan.victims[0]
        self._say(f"node {name} is killed after {self.progress.done} requests")
        before = self._incarnation(name)
        begun = time.monotonic()
        self._kill(name)
        more = (self.plan.places[1] - self.plan.places[0]) // 4
        if not self.progress.wait_for(self.plan.places[0] + max(1, more)):
            raise WorldError("the run ended while a node was down")
        self._restart(name)
        self._await_ready(name, incarnation_after=before)
        return time.monotonic() - begun

    def _directory(self) -> float:
        """The directory dies and comes back; its last counters are looked at first, for they die with it."""
        self._say(f"the directory is killed after {self.progress.done} requests")
        self.watch.look()
        begun = time.monotonic()
        self._kill(DIRECTORY)
        self._restart(DIRECTORY)
        with Caller(self.cluster.endpoint, "first-words") as caller:
            outcome = caller.call(Do(ReleaseRequest("none")), int(RECOVER_S * 1_000))
            if outcome.refusal is not None:
                raise WorldError(f"the directory did not come back: {outcome.refusal}")
            return time.monotonic() - begun

    def _client(self) -> float:
        """A client dies with pins in hand: they go when its lease is over."""
        held = self._kill_holder()
        if held is None:
            raise WorldError("the run ended before a client with pins could be killed")
        self._say(f"client {held.session} was killed with pins on {len(held.groups)} groups, after {self.progress.done} requests")
        begun = time.monotonic()
        while time.monotonic() - begun < RECOVER_S and not self.progress.stopped:
            if not any(self._holds(held.session, group) for group in held.groups):
                return time.monotonic() - begun
            time.sleep(LOOK_S)
        raise WorldError(f"holds of the dead session {held.session} were there after {RECOVER_S:.0f} s (HOLD-2)")

    def _holds(self, session: str, group: GroupId) -> bool:
        told = probe.ask(self.cluster.endpoint, lambda client, token: Describe(client, token, group), 5_000)
        return isinstance(told.answer, Described) and any(line.session_name == session for line in told.answer.holds)

    def _pause(self) -> float:
        """A node stands still until the directory has given up on it, and then goes on as if nothing had been."""
        name = self.plan.victims[1]
        self._say(f"node {name} is paused after {self.progress.done} requests")
        before = self._incarnation(name)
        begun = time.monotonic()
        self.cluster.pause(name)

        def has_lapsed(status: StatusReport) -> bool:
            line = line_of(status, name)
            return line is not None and not line.alive

        self.watch.wait_for(f"the lease of the paused node {name} is over", has_lapsed, RECOVER_S)
        self.cluster.resume(name)
        self._await_ready(name, incarnation_after=before)
        return time.monotonic() - begun

    def _kill(self, name: str) -> None:
        self.down = name
        self.cluster.kill(name)

    def _restart(self, name: str) -> None:
        self.cluster.restart(name)
        self.down = ""

    # ---- waiting ---------------------------------------------------------------------------------------------

    def _incarnation(self, name: str) -> int:
        """The last that the directory gave it, as far as known."""
        line = line_of(self.watch.latest, name) if self.watch.latest is not None else None
        return 0 if line is None else line.incarnation

    def _await_ready(self, name: str, incarnation_after: int) -> None:
        def ready(status: StatusReport) -> bool:
            line = line_of(status, name)
            return line is not None and line.alive and line.ready and line.incarnation > incarnation_after

        self.watch.wait_for(f"node {name} is registered again and ready", ready, RECOVER_S)
