"""The main job: a cluster of processes under clients, moves and faults, and a judgement at the end.

    options = JobOptions("demo", seed=7, requests=600)
    report = JobRun(options, say=print).run()            # report.ok, report.to_json(), report.to_html()

Directory on LMDB, three nodes with DRAM and SSD tiers, a shared store, client processes that replay a trace in closed loop and
verify every byte, a mover, four faults (`demo_faults`). Memory is smaller than what the trace touches, so groups are demoted,
spilled to the store and evicted. `faults=False` is `pinfold replay`. Everything runs on loopback and in one folder.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define

from .cluster import DIRECTORY, ClusterOptions, LocalCluster
from .core.errors import WorldError
from .core.ids import GroupId
from .demo_audit import restless, stored_state
from .demo_faults import Faults, Held, Plan, Progress
from .demo_watch import Watch
from .job_client import ClientJob
from .job_requests import distinct_blocks, load_requests
from .job_team import Team, Worker
from .report import Report, Sample, Tally
from .units import show_size

NODES: Final = ("n1", "n2", "n3")
STORE: Final = "shared"
SAMPLES: Final = 200
QUIET_S: Final = 30.0
"""How long the cluster may take to come to rest when nobody asks for anything any more."""
STUCK_S: Final = 90.0
"""Without any request done for so long, the run has failed."""
NODE_SLOTS_MIN: Final = 32


@define(frozen=True)
class JobOptions:
    """`capacity`: slots of one block over all nodes; 0: a third of what the trace touches; None: room for everything.

    `keep`: leave the folder where it is. `trace` "": the built-in generator.
    """

    job: str
    seed: int = 0
    trace: str = ""
    requests: int | None = 600
    clients: int = 3
    group_blocks: int = 4
    block_bytes: int = 4_096
    capacity: int | None = 0
    policy: str = "lru"
    faults: bool = True
    keep: bool = False


@define(frozen=True)
class Room:
    """Slots per node, by tier, and of the store."""

    dram: int
    ssd: int
    store: int

    @classmethod
    def for_capacity(cls, capacity: int, group_blocks: int) -> Room:
        """A third of a node is DRAM, the rest SSD; what a node keeps back for its own moves is added to it (rule 11). The store
        is half as large as the nodes together."""
        node = max(capacity // len(NODES), NODE_SLOTS_MIN, 4 * group_blocks)
        slack = 2 * group_blocks
        return cls(node // 3 + slack, node - node // 3, max(len(NODES) * node // 2, 4 * group_blocks))


def settings(options: JobOptions, room: Room) -> dict[str, str]:
    """The cluster's configuration: short leases, so that faults are over in seconds."""
    size = options.block_bytes
    return {
        "blocks.bytes": show_size(size),
        "node.dram": show_size(room.dram * size),
        "node.ssd": show_size(room.ssd * size),
        "node.group_slots": str(options.group_blocks),
        "node.heartbeat": "300ms",
        "node.inventory": "2s",
        "directory.node_lease": "1500ms",
        "directory.absent_limit": "6s",
        "directory.grace": "100ms",
        "directory.scan": "1s",
        "directory.eviction": options.policy,
        "directory.spill": "true",
        "directory.check_all_every": "1000",
    }


class JobRun:
    """One run. `say` takes sentences about its progress."""

    def __init__(self, options: JobOptions, say: Callable[[str], None]) -> None:
        self.options = options
        self.requests = load_requests(options.trace, options.seed, options.requests)
        self.report = Report(options.job, seed=options.seed)
        self.data = Path()
        self._say = say
        self._progress = Progress()
        self._todo: deque[int] = deque(range(len(self.requests)))
        self._done = 0
        self._lives = 0
        self._wanted: queue.Queue[None] = queue.Queue()
        self._holders: queue.Queue[Held] = queue.Queue()
        self._holder_wanted = False
        self._moved_at = time.monotonic()

    def run(self) -> Report:
        """Everything, from the first process to the report. Raises WorldError when the cluster is not to be had.

        What goes wrong after that is in the report, and then the cluster's folder is left for whoever wants to know why.
        """
        options, blocks, capacity = self.options, distinct_blocks(self.requests), self.options.capacity
        if capacity is None:
            capacity = 2 * sum(len(request.hash_ids) for request in self.requests)
        elif capacity == 0:
            capacity = blocks // 3
        room = Room.for_capacity(capacity, options.group_blocks)
        self.report.settings = asdict(options, filter=lambda a, _: a.name not in ("job", "seed", "keep")) | {
            "trace": options.trace or "built-in", "requests": len(self.requests), "distinct_blocks": blocks, "capacity": capacity,
            "nodes": len(NODES), "dram_slots": room.dram, "ssd_slots": room.ssd, "store_slots": room.store,
        }  # fmt: skip
        with ExitStack() as stack:
            self.data = Path(tempfile.mkdtemp(prefix="pinfold-"))
            stack.callback(self._clean_up)
            store_capacity = show_size(room.store * options.block_bytes)
            cluster = LocalCluster(
                ClusterOptions(
                    NODES, self.data, settings(options, room), stores=(STORE,), store_capacity=store_capacity
                )
            )
            stack.callback(cluster.stop)
            cluster.start()
            self._say(f"cluster at {cluster.endpoint} in {self.data}: {len(self.requests)} requests, {blocks} different blocks")
            try:
                self._work(cluster)
                self._settle(cluster)
                self._judge(cluster)
            except WorldError as error:
                self._violated(str(error))
        return self.report

    def _violated(self, what: str) -> None:
        self.report.violations += 1
        self.report.problems.append(what)

    def _clean_up(self) -> None:
        if self.options.keep or not self.report.ok:
            self._say(f"the cluster's folder is {self.data}")
        else:
            shutil.rmtree(self.data, ignore_errors=True)

    # ---- the work --------------------------------------------------------------------------------------------

    def _work(self, cluster: LocalCluster) -> None:
        options, team, watch = self.options, Team(), Watch(cluster.endpoint)
        plan = Plan.draw(options.seed, len(self.requests), NODES)
        faults = Faults(plan, cluster, watch, self._progress, kill_holder=self._kill_holder, say=self._say)
        with ExitStack() as stack:
            stack.callback(faults.abandon)
            stack.callback(team.end)
            stack.callback(watch.stop)
            watch.look()
            watch.start()
            for place in range(options.clients):
                self._start_client(team, cluster, place)
            job = {"endpoint": cluster.endpoint, "nodes": NODES, "stores": (STORE,), "seed": options.seed}
            team.add(Worker.start("mover", "pinfold.job_mover", job, self.data / "logs" / "mover.log"))
            self._await_all(team)
            begun = self._moved_at = time.monotonic()
            if options.faults:
                faults.start()
            while self._done < len(self.requests):
                self._hand_out(team, faults)
                self._hear(team, team.poll(0.1), cluster, watch)
                faults.check()
                self._look_for_the_dead(cluster, faults.down)
            self.report.seconds = time.monotonic() - begun
            faults.join()
            for worker, line in team.dismiss():
                self._take(worker, line)
            watch.look()
            self._count(watch, faults)

    def _start_client(self, team: Team, cluster: LocalCluster, place: int) -> None:
        options = self.options
        self._lives += 1
        name = f"c{place}.{self._lives}"
        job = ClientJob(
            cluster.endpoint, name, NODES[place % len(NODES)], options.seed, options.trace, len(self.requests),
            options.group_blocks, options.block_bytes,
        )  # fmt: skip
        team.add(Worker.start(name, "pinfold.job_client", asdict(job), self.data / "logs" / f"{name}.log"))

    def _await_all(self, team: Team) -> None:
        until = time.monotonic() + QUIET_S
        while not all(worker.ready for worker in team.workers):
            if time.monotonic() > until:
                raise WorldError("a client did not start")
            for worker, line in team.poll(0.1):
                self._take(worker, line)

    def _hand_out(self, team: Team, faults: Faults) -> None:
        """A request to everybody who has none, as far as the plan of the faults lets them go."""
        limit = faults.plan.limit(faults.over) if self.options.faults else None
        for worker in team.workers:
            if worker.name == "mover" or not worker.ready or worker.serving is not None or not self._todo:
                continue
            hold = not self._wanted.empty() and not self._holder_wanted
            if limit is not None and self._todo[0] >= limit and not hold:
                return
            worker.serving = self._todo.popleft()
            line: dict[str, Any] = {"serve": worker.serving}
            if hold:
                self._holder_wanted = line["hold"] = True
            worker.tell(line)

    def _hear(
        self, team: Team, said: list[tuple[Worker, dict[str, Any] | None]], cluster: LocalCluster, watch: Watch
    ) -> None:
        for worker, line in said:
            self._take(worker, line)
            if line is None:
                continue
            if "holding" in line:
                self._held(team, worker, line["groups"], cluster)
            elif "done" in line:
                self._done += 1
                self._moved_at = time.monotonic()
                self._progress.reach(self._done)
                for mover in (one for one in team.workers if one.name == "mover"):
                    mover.tell({"moves": 1})
                if self._done * SAMPLES // len(self.requests) > len(self.report.samples):
                    tally = self.report.tally
                    self.report.samples.append(Sample(self._done, tally.blocks, tally.hit_blocks, watch.fill()))
                if self._done % max(1, len(self.requests) // 10) == 0:
                    self._say(f"{self._done} of {len(self.requests)} requests, hit rate {self.report.tally.hit_rate:.3f}")

    def _take(self, worker: Worker, line: dict[str, Any] | None) -> None:
        """What a worker says of itself."""
        if line is None:
            code = worker.process.wait(QUIET_S)
            if code != 0:
                raise WorldError(f"{worker.name} ended with exit code {code}: {worker.last_words()}")
            return
        worker.ready = True
        if "tally" in line:
            mine = Tally.from_plain(line["tally"])
            if "moved" in line:
                mine.requests = 0
            self.report.tally.merge(mine)
            self.report.problems += line["problems"]
        if "done" in line:
            worker.serving = None

    def _look_for_the_dead(self, cluster: LocalCluster, known: str = "") -> None:
        for member in [member for member in cluster.ended() if member.name != known]:
            raise WorldError(f"{member.name} ended by itself with exit code {member.exit_code}: {member.last_words()}")
        if time.monotonic() - self._moved_at > STUCK_S:
            raise WorldError(f"no request was done for {STUCK_S:.0f} s; {self._done} of {len(self.requests)} were")

    # ---- the client that dies --------------------------------------------------------------------------------

    def _kill_holder(self) -> Held | None:
        """Called by the faults' thread: ask for a client with pins in hand, and wait until it has been killed. None when the run
        ends before."""
        self._wanted.put(None)
        while not self._progress.stopped:
            with suppress(queue.Empty):
                return self._holders.get(timeout=0.2)
        return None

    def _held(self, team: Team, worker: Worker, groups: list[str], cluster: LocalCluster) -> None:
        """A client stands with its pins. One without any goes on, and another is asked."""
        self._holder_wanted = False
        if not groups:
            worker.tell({"go": True})
            return
        self._wanted.get()
        place = int(worker.name[1:].partition(".")[0])
        team.kill(worker)
        assert worker.serving is not None
        self._todo.appendleft(worker.serving)
        self._holders.put(Held(worker.name, tuple(GroupId(bytes.fromhex(group)) for group in groups)))
        self._start_client(team, cluster, place)

    # ---- the end ---------------------------------------------------------------------------------------------

    def _count(self, watch: Watch, faults: Faults) -> None:
        report, counters = self.report, watch.counters()
        report.evictions = counters.get("evictions", 0)
        report.demotions = counters.get("demotions", 0)
        report.moves_committed = counters.get("moves_committed", 0)
        report.moves_aborted = counters.get("moves_aborted", 0)
        report.faults = list(faults.found)
        report.kills, report.pauses = faults.kills, faults.pauses

    def _settle(self, cluster: LocalCluster) -> None:
        """Wait until nothing is under way any more (LIVE-1). What still is, is a problem."""
        stores = {STORE: self.data / "stores" / STORE}
        until = time.monotonic() + QUIET_S
        left = ["nothing was looked at"]
        while left and time.monotonic() < until:
            time.sleep(0.5)
            left = restless(stored_state(cluster.store_folder), stores)
        self._look_for_the_dead(cluster)
        if left:
            self._violated(f"LIVE-1: not at rest after {QUIET_S:.0f} s: {'; '.join(left[:5])} ({len(left)} in all)")

    def _judge(self, cluster: LocalCluster) -> None:
        """Stop the directory, so that nothing changes, and audit what it has stored against what the nodes have."""
        code = cluster.terminate(DIRECTORY)
        if code != 0:
            self._violated(f"the directory ended with exit code {code}: {cluster.directory.last_words()}")
        asked = {
            "config": str(cluster.config_file),
            "data": str(cluster.store_folder),
            "nodes": {name: member.endpoint for name, member in cluster.nodes.items()},
        }
        audit = subprocess.run(
            [sys.executable, "-P", "-m", "pinfold.demo_audit"],
            input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=False,
            env=Worker.environment(),
        )  # fmt: skip
        report = self.report
        if audit.returncode != 0:
            self._violated(f"the audit ended with exit code {audit.returncode}: {audit.stderr.strip()[-2_000:]}")
            return
        for kind, invariant, what in json.loads(audit.stdout):
            report.problems.append(f"{invariant}: {what}")
            if kind == "leaked_hold":
                report.leaked_holds += 1
            elif kind in ("orphan_copy", "missing_copy"):
                report.orphan_copies += 1
            else:
                report.violations += 1
