"""Byte work: runs the transfers that the node machine asks for on its tiers, and gives their completions back as events.

Two implementations of the driver's `ByteWork` port. `InlineByteWork` does everything at once, in the caller's thread.
`ThreadedByteWork` leaves what waits for a disk or a store to a few workers, so that a slow tier delays its own work alone
(rule 14). Both tell completions only through `poll`, so the machine is never entered from inside its own step.

What a tier raises becomes `WorkFailed`. Anything else that is raised is a bug of ours, and `poll` raises it again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Thread
from time import monotonic
from typing import Final

from attrs import define

from ..core.effects import (
    CloneInstance,
    Instance,
    ListStore,
    LoadBlocks,
    ReleaseInstance,
    StoreBlocks,
    Transfer,
    VerifyInstance,
)
from ..core.events import (
    BlocksLoaded,
    BlocksStored,
    Completion,
    InstanceCloned,
    InstanceReleased,
    InstanceVerified,
    StoreListed,
    WorkFailed,
)
from ..core.ids import NO_COPY, CopyId, NodeName, Reason, Tier, manifest_hash
from .memory_tier import PhantomTier
from .tier import ByteTier, TierCorrupt, TierError, TierLost, TierRefused, runs

CLONE_BYTES_MAX: Final = 8 << 20
"""A clone goes through memory in pieces of at most this size (or one block)."""


class TierSet:
    """The tiers of a node and the stores that it can reach, and how each kind of work is done on them."""

    def __init__(self, tiers: Mapping[Tier, ByteTier], stores: Mapping[NodeName, ByteTier]) -> None:
        self.tiers = dict(tiers)
        self.stores = dict(stores)

    def tier_of(self, instance: Instance) -> ByteTier:
        """Raises TierRefused if this node has no such tier or store."""
        found = self.stores.get(instance.place) if instance.place else self.tiers.get(instance.tier)
        if found is None:
            raise TierRefused(f"this node has no {instance.place or instance.tier.name}")
        return found

    def touched(self, work: Transfer) -> list[ByteTier]:
        """The tiers that `work` uses and this node has."""
        if isinstance(work, ListStore):
            return [self.stores[work.store]] if work.store in self.stores else []
        instances = [work.source, work.target] if isinstance(work, CloneInstance) else [work.instance]
        found = [self.stores.get(i.place) if i.place else self.tiers.get(i.tier) for i in instances]
        return [tier for tier in found if tier is not None]

    def run(self, work: Transfer) -> Completion:
        """Do `work` and say how it ended. Only bugs are raised."""
        try:
            return self._do(work)
        except TierError as error:
            return WorkFailed(work.job, subject(work), error.reason, str(error))

    def _do(self, work: Transfer) -> Completion:
        if isinstance(work, StoreBlocks):
            tier = self.tier_of(work.instance)
            tier.write(work.instance, work.spec, work.blocks, work.checksums, work.data)
            return BlocksStored(work.job, work.instance.copy)
        if isinstance(work, LoadBlocks):
            checksums, data = self.tier_of(work.instance).load(work.instance, work.spec, work.blocks)
            return BlocksLoaded(work.job, work.instance.copy, checksums, data)
        if isinstance(work, VerifyInstance):
            found = self.tier_of(work.instance).verify(work.instance, work.spec, work.manifest)
            if found != work.manifest:  # the tier should have said so; look twice before anyone is told (COPY-1)
                raise TierCorrupt(f"{work.instance.copy} is not what its manifest says")
            return InstanceVerified(work.job, work.instance.copy, found)
        if isinstance(work, CloneInstance):
            return InstanceCloned(work.job, work.target.copy, self._clone(work))
        if isinstance(work, ReleaseInstance):
            self.tier_of(work.instance).release(work.instance)
            return InstanceReleased(work.job, work.instance.copy)
        store = self.stores.get(work.store)
        if store is None:
            raise TierRefused(f"this node has no store {work.store}")
        return StoreListed(work.job, work.store, store.copies())

    def _clone(self, work: CloneInstance) -> bytes:
        """Source to target in pieces, then verify the target. CORRUPT and LOST speak of the source alone: a target that does
        not turn out well is FAILED or NO_SPACE, and is released here if this clone began it."""
        source, target, spec = self.tier_of(work.source), self.tier_of(work.target), work.spec
        begun = False
        checksums: list[int] = []
        try:
            for run in runs(spec.sizes, range(len(spec.sizes)), CLONE_BYTES_MAX) if spec.sizes else [[]]:
                sums, data = source.load(work.source, spec, run)
                checksums += sums
                try:
                    target.write(work.target, spec, run, sums, data)
                except TierError as error:
                    # A refusal of the first piece may be about a target that was sealed before: not ours to release.
                    begun = begun or not isinstance(error, TierRefused)
                    raise _of_target(error) from error
                begun = True
            if manifest_hash(spec.key.layout, spec.sizes, tuple(checksums)) != work.manifest:
                raise TierCorrupt(f"{work.source.copy} has another manifest than the one to be cloned")
            try:
                found = target.verify(work.target, spec, work.manifest)
                if found != work.manifest:
                    raise TierCorrupt(f"{work.target.copy} is not what its manifest says")
            except TierError as error:
                raise _of_target(error) from error
        except TierError as error:
            if begun:
                self._give_up(target, work.target, error)
            raise
        return found

    def _give_up(self, target: ByteTier, instance: Instance, cause: TierError) -> None:
        try:
            target.release(instance)
        except TierError as error:
            cause.args = (f"{cause}; and releasing it failed: {error}",)


def _of_target(error: TierError) -> TierError:
    """The same failure, as the target's: its own corruption or loss must not be taken for the source's."""
    if isinstance(error, TierCorrupt | TierLost):
        return TierError(f"at the target: {error}", definite=error.definite)
    return error


def subject(work: Transfer) -> CopyId:
    """The copy that a completion names: a clone's is its target."""
    if isinstance(work, ListStore):
        return NO_COPY
    return work.target.copy if isinstance(work, CloneInstance) else work.instance.copy


def copies_of(work: Transfer) -> set[CopyId]:
    """The copies that `work` touches: work about one copy is done in the order of its submission."""
    if isinstance(work, ListStore):
        return set()
    if isinstance(work, CloneInstance):
        return {work.source.copy, work.target.copy}
    return {work.instance.copy}


class InlineByteWork:
    """Does work as it is submitted. Completions wait for `poll`; those of a delayed `MemoryTier` wait for its `resume` too."""

    def __init__(
        self, tiers: Mapping[Tier, ByteTier], stores: Mapping[NodeName, ByteTier] | None = None
    ) -> None:
        self._set = TierSet(tiers, stores or {})
        self._done: list[tuple[Completion, list[ByteTier]]] = []
        self._bug: Exception | None = None

    @classmethod
    def without_bytes(
        cls, tiers: Iterable[Tier], stores: Mapping[NodeName, ByteTier] | Iterable[NodeName] = ()
    ) -> InlineByteWork:
        """For runs that leave payloads out: a `PhantomTier` for each of `tiers` and `stores`; a mapping gives stores to share."""
        shared = dict(stores) if isinstance(stores, Mapping) else {name: PhantomTier() for name in stores}
        return cls({tier: PhantomTier() for tier in tiers}, shared)

    def submit(self, work: Transfer) -> None:
        if self._bug is not None:
            return  # poll tells; after a bug nothing more is done to the bytes
        try:
            completion = self._set.run(work)
        except Exception as error:  # noqa: BLE001  a bug: raised again, with its story, by poll
            self._bug = error
            return
        self._done.append((completion, self._set.touched(work)))

    def poll(self) -> list[Completion]:
        """Completions since the last poll, in the order of submission. Raises what was no tier error."""
        if self._bug is not None:
            raise self._bug
        if not self._done:
            return []
        ready, held = [], []
        for completion, tiers in self._done:
            if any(getattr(tier, "delayed", False) for tier in tiers):
                held.append((completion, tiers))
            else:
                ready.append(completion)
        self._done = held
        return ready

    @property
    def pending(self) -> int:
        """Completions that have not been polled yet."""
        return len(self._done)

    def close(self) -> None:
        """Nothing is under way between calls; the tiers are their owner's to close."""


@define(eq=False)
class _Job:
    work: Transfer | None
    """None once it has run: an idle worker that still names its last job must not keep that job's buffers (USE-1)."""
    copies: set[CopyId]
    inline: bool
    behind: int = 0
    """Lines (one per copy) in which other work is before this one."""


class ThreadedByteWork:
    """Work on memory tiers is done in the caller's thread, all other by `workers` threads; per copy, in order of submission.

    At most `limit` jobs wait or run; one more ends at once in `WorkFailed`, except `ReleaseInstance`, which gives back and has
    room of its own. `fileno` becomes readable when completions wait for `poll`; `wake`, if given, is called then, from any
    thread, and must not block. `inline` names the tiers whose work never waits.
    """

    def __init__(
        self,
        tiers: Mapping[Tier, ByteTier],
        stores: Mapping[NodeName, ByteTier] | None = None,
        *,
        workers: int = 2,
        limit: int = 256,
        inline: Iterable[Tier] = (Tier.HBM, Tier.DRAM),
        wake: Callable[[], None] | None = None,
    ) -> None:
        if workers < 1 or limit < 1:
            raise TierRefused(f"byte work needs a worker and room for a job, not {workers} and {limit}")
        self._set = TierSet(tiers, stores or {})
        self._limit = limit
        self._inline = frozenset(inline)
        self._wake = wake
        self._gate = Condition()
        self._lines: dict[CopyId, deque[_Job]] = {}
        self._ready: deque[_Job] = deque()
        self._done: deque[Completion] = deque()
        self._jobs = 0
        self._bug: Exception | None = None
        self._closing = False
        self._signal = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Daemons: a worker stuck in the kernel (a dead network file system) must not keep the process from ending.
        self._workers = [
            Thread(target=self._serve, name=f"pinfold-bytework-{i}", daemon=True) for i in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    def fileno(self) -> int:
        """For a poll loop: readable when `poll` has something to tell."""
        return self._signal

    @property
    def pending(self) -> int:
        """Jobs that wait or run."""
        return self._jobs

    def submit(self, work: Transfer) -> None:
        job = _Job(work, copies_of(work), self._is_inline(work))
        with self._gate:
            if self._closing:
                raise TierRefused("byte work is closed")
            if self._jobs >= self._limit and not isinstance(work, ReleaseInstance):
                self._tell(WorkFailed(work.job, subject(work), Reason.FAILED, f"{self._limit} jobs are under way already"))
                return
            self._jobs += 1
            for copy in job.copies:
                line = self._lines.setdefault(copy, deque())
                job.behind += bool(line)
                line.append(job)
            if job.behind:
                return
            if not job.inline:
                self._ready.append(job)
                self._gate.notify()
                return
        self._run(job)

    def poll(self) -> list[Completion]:
        """Completions since the last poll. Raises what was no tier error."""
        with self._gate:
            if self._bug is not None:
                raise self._bug
            if not self._done:
                return []
            done = list(self._done)
            self._done.clear()
            if self._signal >= 0:
                os.eventfd_read(self._signal)
        return done

    def close(self, timeout_s: float = 5.0) -> bool:
        """Drop what waits, let what runs end, and stop the workers; False if one was still busy after `timeout_s`.

        Then the tiers may still be in use: they must stay open until another `close` says True, or the process ends.
        """
        with self._gate:
            self._closing = True
            self._ready.clear()
            self._gate.notify_all()
        ends = monotonic() + timeout_s
        for worker in self._workers:
            worker.join(max(0.0, ends - monotonic()))
        ended = not any(worker.is_alive() for worker in self._workers)
        with self._gate:
            if ended and self._signal >= 0:
                os.close(self._signal)
                self._signal = -1
        return ended

    # -- inside --

    def _is_inline(self, work: Transfer) -> bool:
        if isinstance(work, ListStore):
            return False
        instances = [work.source, work.target] if isinstance(work, CloneInstance) else [work.instance]
        return all(not instance.place and instance.tier in self._inline for instance in instances)

    def _serve(self) -> None:
        while True:
            with self._gate:
                while not self._ready and not self._closing:
                    self._gate.wait()
                if self._closing:
                    return
                job = self._ready.popleft()
            self._run(job)

    def _run(self, job: _Job) -> None:
        work, job.work = job.work, None
        assert work is not None
        try:
            completion = self._set.run(work)
        except Exception as error:  # noqa: BLE001  a bug: raised again, with its story, by poll
            with self._gate:
                self._bug = self._bug or error
                self._ring()
            return  # its copies' lines stay shut: nothing more is done to bytes that a bug has touched
        del work  # before anybody is told that it is done
        with self._gate:
            self._jobs -= 1
            self._advance(job)
            self._tell(completion)

    def _advance(self, job: _Job) -> None:
        for copy in job.copies:
            line = self._lines[copy]
            line.popleft()
            if not line:
                del self._lines[copy]
                continue
            line[0].behind -= 1
            if not line[0].behind and not self._closing:
                self._ready.append(line[0])
                self._gate.notify()

    def _tell(self, completion: Completion) -> None:
        self._done.append(completion)
        if len(self._done) == 1:
            self._ring()

    def _ring(self) -> None:
        if self._signal >= 0:
            os.eventfd_write(self._signal, 1)
        if self._wake is not None:
            self._wake()
