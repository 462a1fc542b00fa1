"""`pinfold replay --embedded`: a trace against the machines in one process, one client, in file order.

What is counted depends on the machines and the policy alone (virtual time, no threads, no sockets), so it equals an independent
model of the same policy to the block (`tests/reference_cache.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from time import perf_counter, perf_counter_ns
from typing import Any

from attrs import define

from . import workload
from .backends.checksums import checksums
from .core import invariants
from .core.answers import Located, PrefixPinned, Route
from .core.calls import Ask, Do, Done, Failed, GotGroup, PutDone, PutGroup, ReadRoute
from .core.client_state import ClientConfig
from .core.commands import Locate, PinPrefix, ReleaseRequest, Spec
from .core.ids import Layout, Peer, Tier
from .core.plain import pack
from .core.state import DirectoryConfig, GroupRecord
from .embedded import DIRECTORY, EmbeddedCluster, EmbeddedConfig
from .report import Report, Sample
from .trace import TraceRequest

CLIENT = Peer("client/replay")
PUT_MS = 60
"""How long a put may try to find room (virtual time): a few retries, each after an eviction."""


@define(frozen=True)
class EmbeddedJob:
    """`capacity` in slots of one block; None: room for every block of the trace, so nothing is ever evicted."""

    group_blocks: int = 4
    capacity: int | None = None
    policy: str = "lru"
    high: int = 950
    low: int = 900
    with_bytes: bool = False
    block_bytes: int = 4096
    through_codec: bool = False
    check_every: int = 0


class EmbeddedRun:
    """One replay. `progress(requests done)` is called now and then."""

    SAMPLES = 200

    def __init__(self, job: EmbeddedJob, requests: Iterable[TraceRequest], progress: Callable[[int], None] | None = None) -> None:
        self.job = job
        self.requests = list(requests)
        self._progress = progress
        blocks = sum(len(request.hash_ids) for request in self.requests)
        slots = job.capacity if job.capacity is not None else blocks * 2 + 1_024
        directory = DirectoryConfig(
            eviction=job.policy,
            high=job.high,
            low=job.low,
            group_blocks_max=max(4_096, job.group_blocks),
            check_all_every=job.check_every,
        )
        self.cluster = EmbeddedCluster(
            EmbeddedConfig(
                tiers=((Tier.DRAM, slots),),
                group_slots=job.group_blocks,
                directory=directory,
                heartbeat_ms=1_000,
                inventory_ms=1_000_000,
                with_bytes=job.with_bytes,
                through_codec=job.through_codec,
                checks=bool(job.check_every),
            )
        )
        self.cluster.settle()
        self.cluster.add_client(ClientConfig(CLIENT, (DIRECTORY,), "replay", lease_ms=600_000, routes_max=16))
        self.family = workload.Family(layout=Layout(block_bytes=job.block_bytes))
        self.report = Report("replay --embedded", seed=None)
        self.skipped = 0

    def run(self) -> Report:
        """Serve every request; then all holds must be gone and every invariant hold."""
        begun = perf_counter()
        every = max(1, len(self.requests) // self.SAMPLES)
        for number, request in enumerate(self.requests):
            self._serve(number, request)
            if number % every == 0:
                self._sample()
                if self._progress is not None:
                    self._progress(number)
        self.report.seconds = perf_counter() - begun
        self._finish()
        return self.report

    # ---- one request -----------------------------------------------------------------------------------------

    def _serve(self, number: int, request: TraceRequest) -> None:
        tally, name = self.report.tally, f"r{number}"
        found = workload.members(request, self.job.group_blocks, self.family)
        tally.requests += 1
        tally.blocks += len(request.hash_ids)
        located = self._call("locate", Ask(Locate(Peer(""), "", tuple(member.group for member in found))))
        assert isinstance(located, Located)
        run = located.routes
        for route in run:
            tally.hit_blocks += route.blocks
            tier = route.tier.name.lower()
            tally.hit_blocks_by_tier[tier] = tally.hit_blocks_by_tier.get(tier, 0) + route.blocks
        if run:
            pinned = self._call("pin", Do(PinPrefix(tuple(route.group for route in run), name)))
            assert isinstance(pinned, PrefixPinned), pinned
            for route in pinned.routes:
                self._read(route)
        for at, member in enumerate(found[len(run) :]):
            if not self._put(member, name):
                self.skipped += len(found) - len(run) - at
                break
        self._call("unpin", Do(ReleaseRequest(name)))

    def _read(self, route: Route) -> None:
        got = self._call("get", ReadRoute(route))
        if not isinstance(got, GotGroup):
            self.report.problems.append(f"a pinned copy {route.copy} could not be read: {got}")
            return
        for block, data in zip(got.blocks, got.data, strict=False):
            if workload.verify(route.group, block, self.job.block_bytes, data):
                self.report.tally.bytes_verified += self.job.block_bytes
            else:
                self.report.tally.wrong_bytes += self.job.block_bytes

    def _put(self, member: workload.Member, name: str) -> bool:
        spec = Spec(member.group, member.key, member.sizes, tuple(map(str, member.hash_ids)), name, parent=member.parent)
        data: tuple[bytes, ...] = ()
        sums = tuple(member.hash_ids)
        if self.job.with_bytes:
            data = tuple(workload.payload(member.group, block, self.job.block_bytes) for block in range(member.key.blocks))
            sums = checksums(member.key.layout.checksum, data)
        return isinstance(self._call("put", PutGroup(spec, sums, data, request=name, keep_pin=True), PUT_MS), PutDone)

    def _call(self, operation: str, op: Any, timeout_ms: int = 60_000) -> Any:
        """One call; its value, or the refusal that it met (counted)."""
        begun = perf_counter_ns()
        outcome = self.cluster.call(CLIENT, op, timeout_ms)
        self.report.tally.record(operation, perf_counter_ns() - begun)
        if isinstance(outcome, Failed):
            self.report.tally.refused(outcome.refusal.reason)
            return outcome.refusal
        assert isinstance(outcome, Done)
        return outcome.value

    # ---- figures ---------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        tally = self.report.tally
        capacity = max(1, self.cluster.node("n1").config.capacity)
        used = sum(self.cluster.state.used.values())
        self.report.samples.append(Sample(tally.requests, tally.blocks, tally.hit_blocks, {"dram": used / capacity}))

    def _finish(self) -> None:
        report, cluster = self.report, self.cluster
        cluster.advance(5_000)
        invariants.check_all(cluster.state, cluster.config.directory)
        findings = cluster.findings()
        report.leaked_holds = sum(finding.kind == "leaked_hold" for finding in findings)
        report.orphan_copies = sum(finding.kind in ("orphan_copy", "missing_copy") for finding in findings)
        report.violations = sum(finding.kind in ("violation", "unsettled") for finding in findings)
        report.problems += [finding.what for finding in findings]
        counters = cluster.state.counters
        report.evictions = counters.get("evictions", 0)
        report.moves_committed = counters.get("moves_committed", 0)
        report.moves_aborted = counters.get("moves_aborted", 0)
        job = self.job
        report.settings = {
            "group_blocks": job.group_blocks,
            "capacity": job.capacity if job.capacity is not None else "unbounded",
            "policy": job.policy,
            "bytes": job.with_bytes,
            "skipped_groups": self.skipped,
            "digest": self.digest(),
        }

    def digest(self) -> str:
        """Of all that the directory knows for a fact, and of what was counted: equal for equal runs (DET-1)."""
        state, tally = self.cluster.state, self.report.tally
        found = blake2b(digest_size=16)
        for group in state.groups.values():
            found.update(ascii(pack(GroupRecord(group, state.copies[group.id]))).encode("ascii"))
        for table in (state.sessions, state.nodes, state.holds):
            for record in table.values():
                found.update(ascii(pack(record)).encode("ascii"))
        counted = (sorted(state.counters.items()), sorted(tally.refusals.items()), tally.hit_blocks, tally.bytes_verified)
        found.update(ascii((pack(state.meta), counted, self.skipped)).encode("ascii"))
        return found.hexdigest()
