"""One client of a job, as a process: it serves the requests that it is handed, one after the other, and verifies every byte.

    stdin    {"endpoint": ..., "trace": ..., ...}      once; then, for each request:  {"serve": 17}   {"serve": 18, "hold": true}
    stdout   {"ready": ...}    {"done": 17, "tally": {...}}    {"holding": 18, "groups": [...]}

With `hold` it stops with its pins in hand and waits: so that it can be killed while it holds them (`{"go": true}` lets it go on).
The end of stdin is the end of the job: it closes its session and leaves.

A request: locate the longest readable run from the front, pin and read it, put what is missing, release the request. Where the
cluster says why it can't, the request goes on without the cache (`degraded`); what nothing explains is a `problem`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from attrs import define

from . import workload
from .backends.checksums import checksums
from .core.answers import Located, PrefixPinned, Route
from .core.calls import Ask, Do, GetGroup, GotGroup, PutDone, PutGroup, ReadRoute
from .core.commands import Locate, PinPrefix, ReleaseRequest, Spec, Unpin
from .core.ids import GroupId, Layout, NodeName, Peer
from .job_calls import Caller, Outcome
from .job_pipe import lines, say
from .job_requests import load_requests
from .report import Tally
from .trace import TraceRequest

CALL_MS: Final = 8_000
READ_MS: Final = 5_000
AT_ONCE: Final = 4
"""Reads or puts of one request that are on their way together."""

EXPLAINED: Final = frozenset({
    "DeadlineReached", "Unreachable", "BreakerOpen", "AttemptsUsed", "NoSpace", "NodeNotReady", "SessionEnded", "HoldLost",
    "AlreadyDone", "Unreadable", "UnknownGroup", "StaleCopy", "Freeing", "NotVerified", "MoveInProgress", "MoveTooSoon",
    "Leaving", "Overloaded", "NotSealed",
})  # fmt: skip
"""Refusals that faults, moves and want of room account for. Any other is a problem of the run."""


@define(frozen=True)
class ClientJob:
    """What a client is told at its start. `trace` "": the built-in generator, from `seed`."""

    endpoint: str
    name: str
    near: str
    seed: int
    trace: str
    requests: int
    group_blocks: int
    block_bytes: int


class ReplayingClient:
    """See the module."""

    def __init__(self, job: ClientJob, requests: Sequence[TraceRequest], caller: Caller) -> None:
        self.job = job
        self.requests = requests
        self.caller = caller
        self.family = workload.Family(layout=Layout(block_bytes=job.block_bytes))
        self.tally = Tally()
        self.problems: list[str] = []
        self._noted = {"retries": 0, "stale_routes": 0}
        self._degraded = False

    # ---- one request -----------------------------------------------------------------------------------------

    def serve(self, index: int) -> Iterator[list[str]]:
        """Serve request `index`. Yields once, before it lets go: the groups (hex) on which it has pins."""
        request, name, tally = self.requests[index], f"r{index}", self.tally
        found = workload.members(request, self.job.group_blocks, self.family)
        self._degraded = False
        tally.requests += 1
        tally.blocks += len(request.hash_ids)
        run = self._locate(found)
        pinned = self._pin(run, name)
        self._read(pinned, name)
        written = self._put(found[len(run) :], name)
        yield [group.hex() for group in (*(route.group for route in pinned.routes), *written)]
        self._one("unpin", Do(ReleaseRequest(name)), CALL_MS)
        tally.degraded += self._degraded
        for counter, before in self._noted.items():
            now = self.caller.count(counter)
            setattr(tally, counter, getattr(tally, counter) + now - before)
            self._noted[counter] = now

    def _locate(self, found: Sequence[workload.Member]) -> tuple[Route, ...]:
        groups = tuple(member.group for member in found)
        outcome = self._one("locate", Ask(Locate(Peer(""), "", groups, near=NodeName(self.job.near))), CALL_MS)
        if not isinstance(outcome.value, Located):
            return ()
        for route in outcome.value.routes:
            self.tally.hit_blocks += route.blocks
            tier = route.tier.name.lower()
            self.tally.hit_blocks_by_tier[tier] = self.tally.hit_blocks_by_tier.get(tier, 0) + route.blocks
        return outcome.value.routes

    def _pin(self, run: Sequence[Route], name: str) -> PrefixPinned:
        """Pins on what of the run can still be pinned; it may have become less since it was located."""
        nothing = PrefixPinned((), (), 0)
        if not run:
            return nothing
        body = PinPrefix(tuple(route.group for route in run), name, NodeName(self.job.near))
        outcome = self._one("pin", Do(body), CALL_MS)
        if not isinstance(outcome.value, PrefixPinned):
            return nothing
        self._degraded |= len(outcome.value.routes) < len(run)
        return outcome.value

    # ---- reading ---------------------------------------------------------------------------------------------

    def _read(self, pinned: PrefixPinned, name: str) -> None:
        """Read the run; what lies in the store is brought to a node first, for which its pin must go."""
        direct = [route for route in pinned.routes if route.address]
        again = [route for route, outcome in zip(direct, self._reads(direct), strict=True) if not self._verify(route, outcome)]
        stored = [(route, hold) for route, hold in zip(pinned.routes, pinned.holds, strict=True) if not route.address]
        for _, hold in stored:
            self._one("unpin", Do(Unpin(hold)), CALL_MS)
        for route in [*again, *(route for route, _ in stored)]:
            layout = self.family.layout
            ask = GetGroup(route.group, near=NodeName(self.job.near), request=name, keep_pin=True, layout=layout)
            outcome = self._one("get" if route.address else "bring", ask, READ_MS)
            self._degraded |= not self._verify(route, outcome)

    def _reads(self, routes: Sequence[Route]) -> list[Outcome]:
        batches = ([ReadRoute(route) for route in batch] for batch in _batches(routes))
        return [outcome for ops in batches for outcome in self._many("get", ops, READ_MS)]

    def _verify(self, route: Route, outcome: Outcome) -> bool:
        """Every byte of every block. False where the cluster did not give them."""
        got = outcome.value
        if not isinstance(got, GotGroup):
            return False
        size = self.job.block_bytes
        if got.blocks != tuple(range(route.blocks)) or len(got.data) != len(got.blocks):
            self.problems.append(f"asked {route.node} for {route.blocks} blocks of {route.group.hex()}, got {len(got.data)}")
        for block, data in zip(got.blocks, got.data, strict=False):
            if workload.verify(route.group, block, size, data):
                self.tally.bytes_verified += size
            else:
                self.tally.wrong_bytes += size
                what = f"block {block} of {route.group.hex()}, copy {got.route.copy} at {got.route.node}"
                self.problems.append(f"BYTES-1: wrong bytes: {what}")
        return True

    # ---- writing ---------------------------------------------------------------------------------------------

    def _put(self, missing: Sequence[workload.Member], name: str) -> list[GroupId]:
        """Put from the front; behind a group that could not be put the others would be of no use. Those that were, pinned."""
        written: list[GroupId] = []
        for batch in _batches(missing):
            outcomes = self._many("put", [self._put_op(member, name) for member in batch], CALL_MS)
            written += [outcome.value.group for outcome in outcomes if isinstance(outcome.value, PutDone)]
            if any(outcome.refusal is not None for outcome in outcomes):
                break
        return written

    def _put_op(self, member: workload.Member, name: str) -> PutGroup:
        spec = Spec(member.group, member.key, member.sizes, tuple(map(str, member.hash_ids)), name, parent=member.parent)
        data = tuple(workload.payload(member.group, block, self.job.block_bytes) for block in range(member.key.blocks))
        sums = checksums(member.key.layout.checksum, data)
        return PutGroup(spec, sums, data, NodeName(""), request=name, keep_pin=True)

    # ---- calls -----------------------------------------------------------------------------------------------

    def _one(self, operation: str, op: Any, timeout_ms: int) -> Outcome:
        return self._many(operation, [op], timeout_ms)[0]

    def _many(self, operation: str, ops: Sequence[Any], timeout_ms: int) -> list[Outcome]:
        outcomes = self.caller.calls(ops, timeout_ms)
        for outcome in outcomes:
            self.tally.record(operation, outcome.ns)
            if outcome.refusal is not None:
                self.tally.refused(outcome.reason)
                self._degraded = True
                if outcome.reason not in EXPLAINED:
                    self.problems.append(f"{operation} was refused, and nothing explains it: {outcome.refusal}")
        return outcomes


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


# ---- the process ---------------------------------------------------------------------------------------------


def main() -> int:
    """Read the job, serve until the lines end, close the session."""
    said = lines()
    job = ClientJob(**next(said))
    requests = load_requests(job.trace, job.seed, job.requests)
    with Caller(job.endpoint, job.name, seed=job.seed, near=job.near) as caller:
        client = ReplayingClient(job, requests, caller)
        say({"ready": job.name})
        for line in said:
            for groups in client.serve(line["serve"]):
                if line.get("hold"):
                    say({"holding": line["serve"], "groups": groups})
                    if next(said, None) is None:
                        return 0
            say({"done": line["serve"], "tally": client.tally.to_plain(), "problems": client.problems})
            client.tally, client.problems = Tally(), []
    return 0


if __name__ == "__main__":
    sys.exit(main())
