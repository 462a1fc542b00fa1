"""Copy jobs: `Reserve`, `Fetch` and `Spill` orders, and what follows from them.

A job ends once, as `CopyDone` or `CopyFailed`, and is never tried again under its copy id (finding 19); retries, of missing
blocks only, are inside it. Its deadline is on the node's own clock, from the order's arrival. Orders may come again under a
new number, so what is known already is answered by the facts that are true, again.
"""

from __future__ import annotations

from .effects import CloneInstance, Instance, StoreBlocks
from .events import InstanceCloned, InstanceVerified, PeerUnreachable, WorkFailed
from .freeing import let_go, place_is_bad, settle
from .ids import CopyId, Reason, Tier
from .node_io import bad_blocks, become_verified, note_stored, verify
from .node_state import Copy, CopyJob, Kind, Place, Stage, Work, mask_of, readable_place
from .node_turn import Turn
from .orders import Fetch, Order, Reserve, Spill
from .records import evolve
from .reports import Condition, CopyDone, CopyFailed, Sealed
from .requests import Blocks, NodeRefused, Read

PASSING = ("Overloaded", "NotVerified", "TierFailed")
"""A peer's refusals that may be gone when it is asked again; any other ends the fetch."""


# ---- orders --------------------------------------------------------------------------------------------------


def take_reserve(turn: Turn, order: Order, body: Reserve) -> None:
    """Slots for a writer; the whole group in one tier, or `CopyFailed(NO_SPACE)`."""
    if _is_known(turn, body.copy):
        return
    place = _room(turn, body.copy, len(body.spec.sizes), body.tier)
    if place is None:
        _fail_at_once(turn, order, body, Reason.NO_SPACE)
        return
    turn.put(Copy(body.copy, body.spec, Condition.RESERVED, (place,), writer=body.writer))


def take_fetch(turn: Turn, order: Order, body: Fetch) -> None:
    """A copy from another node (by `Read`) or from a store (by `CloneInstance`)."""
    if _is_known(turn, body.copy):
        return
    if len(turn.state.jobs) >= turn.config.jobs_max:
        _fail_at_once(turn, order, body, Reason.FAILED)
        return
    if not body.source_address and body.source not in turn.config.stores:
        _fail_at_once(turn, order, body, Reason.FAILED)
        return
    place = _room(turn, body.copy, len(body.spec.sizes), body.tier)
    if place is None:
        _fail_at_once(turn, order, body, Reason.NO_SPACE)
        return
    turn.put(Copy(body.copy, body.spec, Condition.RESERVED, (place,)))
    job = _new_job(turn, body)
    if body.source_address:
        job = evolve(job, source_address=body.source_address, token=f"{turn.boot}/fetch/{turn.number()}")
        turn.state.tokens[job.token] = body.copy
        turn.state.jobs[body.copy] = job
        ask(turn, job)
        return
    turn.state.jobs[body.copy] = job
    source = Instance(body.source_copy, Tier.REMOTE_SSD, (), body.source)
    tier = place.instance.tier
    number = turn.begin(Kind.CLONE, body.copy, tier, ((body.copy, tier),))
    turn.transfer(CloneInstance(number, source, place.instance, body.spec, body.manifest))


def take_spill(turn: Turn, order: Order, body: Spill) -> None:
    """An object in a store from a copy of ours. The running clone is the guard on our bytes; the object takes no slots."""
    if _is_known(turn, body.copy):
        return
    source = turn.state.copies.get(body.source_copy)
    place = None if source is None else readable_place(source, turn.config)
    reason = Reason.NONE
    if len(turn.state.jobs) >= turn.config.jobs_max or body.store not in turn.config.stores:
        reason = Reason.FAILED
    elif place is None or source is None:
        reason = Reason.LOST
    elif source.manifest != body.manifest:
        reason = Reason.CORRUPT
    if place is None or reason:
        _remember_spill(turn, body.copy, reason)
        turn.tell(CopyFailed(body.copy, reason), order.shard)
        return
    target = Place(Instance(body.copy, Tier.REMOTE_SSD, (), body.store), (), Stage.FILLING)
    turn.put(Copy(body.copy, body.spec, Condition.RESERVED, (target,), store=body.store))
    turn.state.jobs[body.copy] = _new_job(turn, body)
    touches = ((body.source_copy, place.instance.tier), (body.copy, Tier.REMOTE_SSD))
    number = turn.begin(Kind.CLONE, body.copy, Tier.REMOTE_SSD, touches)
    turn.transfer(CloneInstance(number, place.instance, target.instance, body.spec, body.manifest))


def _new_job(turn: Turn, body: Fetch | Spill) -> CopyJob:
    deadline = turn.now + (body.deadline_ms or turn.config.job_ms)
    return CopyJob(body.copy, body.manifest, deadline, body.source_copy)


def _is_known(turn: Turn, copy_id: CopyId) -> bool:
    """A copy id that was ordered before: no second effect; its facts are told again, should they have been lost."""
    failed = turn.state.failed_spills.get(copy_id)
    copy = turn.state.copies.get(copy_id)
    if failed is not None:
        turn.tell(CopyFailed(copy_id, failed), copy_id.shard)
    elif copy is not None:
        tell_again(turn, copy)
    return failed is not None or copy is not None


def tell_again(turn: Turn, copy: Copy) -> None:
    """What is true of a copy and may not have arrived. A write ends as `Sealed`, a job as `CopyDone`."""
    if copy.failed:
        turn.tell(CopyFailed(copy.copy, copy.failed), copy.copy.shard)
    elif copy.condition is Condition.VERIFIED:
        done = Sealed(copy.copy, copy.manifest) if copy.writer else CopyDone(copy.copy, copy.manifest)
        turn.tell(done, copy.copy.shard)


def _room(turn: Turn, copy: CopyId, count: int, wish: Tier) -> Place | None:
    if len(turn.state.copies) >= turn.config.copies_max:
        return None
    return turn.allocate_anywhere(copy, count, wish)


def _fail_at_once(turn: Turn, order: Order, body: Reserve | Fetch, reason: Reason) -> None:
    """The failure is remembered as a copy without places, until Free: an order sent again must not succeed after the
    directory may have heard of the failure."""
    turn.tell(CopyFailed(body.copy, reason), order.shard)
    if len(turn.state.copies) < turn.config.copies_max:
        turn.put(Copy(body.copy, body.spec, Condition.RESERVED, (), failed=reason))


# ---- ends ----------------------------------------------------------------------------------------------------


def fail(turn: Turn, copy_id: CopyId, reason: Reason) -> None:
    """The job has failed. A fetched copy's slots count until Free; a spill's object is let go by ourselves, because the one
    who frees objects may be another node, and our clone may still be running when it does."""
    job = turn.state.jobs.pop(copy_id, None)
    if job is None:
        return
    turn.state.tokens.pop(job.token, None)
    copy = turn.put(evolve(turn.state.copies[copy_id], failed=reason))
    turn.tell(CopyFailed(copy_id, reason), copy_id.shard)
    if copy.store:
        _remember_spill(turn, copy_id, reason)
        let_go(turn, copy, wanted=False)


def _remember_spill(turn: Turn, copy_id: CopyId, reason: Reason) -> None:
    remembered = turn.state.failed_spills
    remembered[copy_id] = reason
    while len(remembered) > turn.config.failed_spills_max:
        del remembered[next(iter(remembered))]


def _done(turn: Turn, job: CopyJob) -> None:
    del turn.state.jobs[job.copy]
    turn.state.tokens.pop(job.token, None)
    turn.tell(CopyDone(job.copy, job.manifest), job.copy.shard)


def cloned(turn: Turn, work: Work, event: InstanceCloned) -> None:
    """A clone from a store is a copy of ours now; a spilled object is the store's, and no record stays here."""
    job = turn.state.jobs.get(work.copy)
    copy = turn.state.copies[work.copy]
    if job is not None and event.manifest != job.manifest:
        fail(turn, work.copy, Reason.CORRUPT)
    elif job is not None and copy.store:
        _done(turn, job)
        del turn.state.copies[work.copy]
    elif job is not None:
        become_verified(turn, copy, event.manifest)
        _done(turn, job)
    _settle_touched(turn, work)


def not_cloned(turn: Turn, work: Work, event: WorkFailed) -> None:
    """A spill that found its source LOST or CORRUPT has found the source copy so (finding 8)."""
    fail(turn, work.copy, event.reason)
    if event.reason in (Reason.LOST, Reason.CORRUPT):
        for touched, tier in work.touches:
            if touched != work.copy:
                place_is_bad(turn, touched, tier, event.reason)
    _settle_touched(turn, work)


def _settle_touched(turn: Turn, work: Work) -> None:
    for touched, _ in work.touches:
        settle(turn, touched)


# ---- a fetch from a node -------------------------------------------------------------------------------------


def ask(turn: Turn, job: CopyJob) -> None:
    """Send one `Read` for the first missing blocks; none is missing: nothing to wait for from the peer."""
    copy = turn.state.copies[job.copy]
    have = copy.stored | job.storing
    missing = [block for block in range(len(copy.spec.sizes)) if not have >> block & 1]
    blocks = tuple(missing[: turn.config.fetch_chunk])
    if not blocks:
        turn.state.jobs[job.copy] = evolve(job, asked=0, ask_at=0)
        if not job.storing:
            verify(turn, copy, job.manifest)
        return
    if job.tries >= turn.config.fetch_tries_max:
        fail(turn, job.copy, Reason.FAILED)
        return
    turn.send(job.source_address, Read(turn.config.address, job.token, job.source_copy, blocks))
    ask_at = turn.now + turn.config.fetch_timeout_ms
    turn.state.jobs[job.copy] = evolve(job, asked=mask_of(blocks), ask_at=ask_at, tries=job.tries + 1)


def blocks_came(turn: Turn, event: Blocks) -> None:
    """Store what is missing of it; late and repeated blocks are dropped. A message that contradicts itself is not ours."""
    job = _job_of(turn, event.token, event.copy)
    if job is None:
        turn.drop()
        return
    copy = turn.state.copies[job.copy]
    count = len(event.blocks)
    if bad_blocks(event.blocks, len(copy.spec.sizes)) or len(event.checksums) != count or len(event.data) not in (0, count):
        turn.drop()
        return
    have = copy.stored | job.storing
    fresh = [index for index, block in enumerate(event.blocks) if not have >> block & 1]
    if not fresh:
        turn.drop()
        return
    blocks = tuple([event.blocks[index] for index in fresh])
    checksums = tuple([event.checksums[index] for index in fresh])
    data = tuple([event.data[index] for index in fresh]) if event.data else ()
    instance = copy.places[0].instance
    number = turn.begin(
        Kind.STORE, copy.copy, instance.tier, ((copy.copy, instance.tier),), blocks=blocks, checksums=checksums
    )
    turn.transfer(StoreBlocks(number, instance, copy.spec, blocks, checksums, data))
    mask = mask_of(blocks)
    job = evolve(job, storing=job.storing | mask, asked=job.asked & ~mask, tries=0)
    turn.state.jobs[job.copy] = job
    if not job.asked:
        ask(turn, job)


def fetch_stored(turn: Turn, work: Work) -> None:
    """Blocks of a fetch are in place; after the last, verify."""
    job = turn.state.jobs.get(work.copy)
    if job is not None:
        mask = mask_of(work.blocks)
        copy = turn.put(note_stored(turn.state.copies[work.copy], work.blocks, work.checksums))
        job = evolve(job, storing=job.storing & ~mask)
        turn.state.jobs[job.copy] = job
        if not job.storing and copy.stored.bit_count() == len(copy.spec.sizes):
            ask(turn, job)
    settle(turn, work.copy)


def fetch_verified(turn: Turn, work: Work, event: InstanceVerified) -> None:
    """Verified against the order's manifest, so that the source need not live any more."""
    job = turn.state.jobs.get(work.copy)
    if job is not None and event.manifest != job.manifest:
        fail(turn, work.copy, Reason.CORRUPT)
    elif job is not None:
        become_verified(turn, turn.state.copies[work.copy], event.manifest)
        _done(turn, job)
    settle(turn, work.copy)


def fetch_failed(turn: Turn, work: Work, event: WorkFailed) -> None:
    """A store or the verification has failed."""
    fail(turn, work.copy, event.reason)
    settle(turn, work.copy)


def peer_refused(turn: Turn, event: NodeRefused) -> None:
    """The source says no: for now, or for good."""
    job = _job_of(turn, event.token, event.copy)
    if job is None or not job.ask_at:
        turn.drop()
    elif event.refusal.reason in PASSING:
        turn.state.jobs[job.copy] = evolve(job, ask_at=turn.now + turn.config.fetch_retry_ms)
    else:
        fail(turn, job.copy, Reason.CORRUPT if event.refusal.reason == "Corrupt" else Reason.FAILED)


def peer_unreachable(turn: Turn, event: PeerUnreachable) -> None:
    """A hint: no use in waiting the whole time-out. Never a reason to give up (rule 7)."""
    waiting = [job for job in turn.state.jobs.values() if job.ask_at and job.source_address == event.peer]
    for job in waiting:
        ask_at = min(job.ask_at, turn.now + turn.config.fetch_retry_ms)
        turn.state.jobs[job.copy] = evolve(job, ask_at=ask_at)
    turn.quiet = not waiting


def _job_of(turn: Turn, token: str, source_copy: CopyId) -> CopyJob | None:
    copy_id = turn.state.tokens.get(token)
    job = None if copy_id is None else turn.state.jobs[copy_id]
    return job if job is not None and job.source_copy == source_copy else None


def drive_jobs(turn: Turn) -> None:
    """On Tick: deadlines first, then what has waited long enough is asked for again."""
    for job in list(turn.state.jobs.values()):
        if job.deadline <= turn.now:
            fail(turn, job.copy, Reason.DEADLINE)
        elif job.ask_at and job.ask_at <= turn.now:
            ask(turn, job)
