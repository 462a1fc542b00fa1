"""How bytes go: Free, release under guards, retry, quarantine, loss.

The order is always: no new guards; the last guard ends; `ReleaseInstance`; its completion; only then are the slots free or in
quarantine (USE-1), and only then is the copy forgotten and `Freed` told. A release that fails keeps its slots counted, is
tried again with growing back-off, and is named in each heartbeat.
"""

from __future__ import annotations

from .allocator import give, lift, quarantine
from .effects import Instance, ListStore, ReleaseInstance
from .events import InstanceReleased, QuarantineLifted, StoreListed, WorkFailed, WriterUncertain
from .ids import CopyId, Reason, Tier
from .node_state import NO_SPEC, Copy, Kind, Place, Stage, Unreleased, Work, place_of, readable_place
from .node_turn import Turn
from .orders import Free, FreeObject, Order, Scan
from .records import evolve
from .reports import Condition, CopyLost, Freed, StoreScanned


def take_free(turn: Turn, order: Order, body: Free) -> None:
    """`Free`: safe to repeat; for an unknown copy `Freed` is true at once."""
    copy = turn.state.copies.get(body.copy)
    turn.state.failed_spills.pop(body.copy, None)
    if copy is None:
        turn.tell(Freed(body.copy), order.shard)
    else:
        let_go(turn, copy, wanted=True)


def take_free_object(turn: Turn, order: Order, body: FreeObject) -> None:
    """`FreeObject`: as `Free`, for an object of a store. Our own spill to it, if one runs, ends first."""
    state = turn.state
    copy = state.copies.get(body.copy)
    state.failed_spills.pop(body.copy, None)
    if copy is None and body.store in turn.config.stores:
        place = Place(Instance(body.copy, Tier.REMOTE_SSD, (), body.store), (), Stage.RETIRING)
        copy = turn.put(Copy(body.copy, NO_SPEC, Condition.FREEING, (place,), store=body.store))
    if copy is not None and copy.store == body.store:
        let_go(turn, copy, wanted=True)


def take_scan(turn: Turn, order: Order, body: Scan) -> None:
    """`Scan`: one listing at a time per store and order; a listing that fails is ordered again by the directory."""
    if body.store in turn.config.stores:
        stamp = (order.shard, order.term, order.incarnation, order.number)
        job = turn.begin(Kind.LIST, CopyId(order.shard, 0, 0), Tier.REMOTE_SSD, store=body.store, order=stamp)
        turn.transfer(ListStore(job, body.store))


def store_listed(turn: Turn, work: Work, event: StoreListed) -> None:
    """Tell what the store has, unless the order's registration is over: its number would mean another order now."""
    shard, term, incarnation, number = work.order
    link = turn.state.links[shard]
    if (link.term, link.incarnation) == (term, incarnation):
        turn.tell(StoreScanned(work.store, term, number, event.objects), shard)


# ---- letting go ----------------------------------------------------------------------------------------------


def let_go(turn: Turn, copy: Copy, *, wanted: bool) -> None:
    """The copy is FREEING from now on: its job and its write end, every place retires. `wanted`: `Freed` is owed."""
    end_job(turn, copy.copy)
    ending = copy.ending
    if ending is not None:
        turn.refuse(ending.client, ending.token, copy.copy, "Freeing", guard="not_freeing")
    copy = evolve(copy, condition=Condition.FREEING, ending=None, wanted=copy.wanted or wanted)
    turn.put(copy)
    for place in copy.places:
        if place.stage in (Stage.FILLING, Stage.VERIFIED):
            copy = turn.set_place(copy, evolve(place, stage=Stage.RETIRING))
    settle(turn, copy.copy)


def end_job(turn: Turn, copy: CopyId) -> None:
    """No new work for this job; work that runs stays a guard until its completion."""
    job = turn.state.jobs.pop(copy, None)
    if job is not None:
        turn.state.tokens.pop(job.token, None)


def settle(turn: Turn, copy_id: CopyId) -> None:
    """Release the retiring places that nobody touches, and forget the copy when it has none left. Call it after any guard or
    work on the copy has ended."""
    copy = turn.state.copies.get(copy_id)
    if copy is None:
        return
    for place in copy.places:
        if place.stage is Stage.RETIRING and place.guards == 0:
            copy = turn.set_place(copy, evolve(place, stage=Stage.RELEASING))
            release(turn, copy_id, place.instance)
    if not copy.places and copy.condition is Condition.FREEING:
        del turn.state.copies[copy_id]
        if copy.wanted:
            turn.tell(Freed(copy_id), copy_id.shard)


def release(turn: Turn, copy_id: CopyId, instance: Instance) -> None:
    job = turn.begin(Kind.RELEASE, copy_id, instance.tier)
    turn.transfer(ReleaseInstance(job, instance))


def released(turn: Turn, work: Work, event: InstanceReleased) -> None:
    """The bytes are gone: now, and not before, the slots may be used again."""
    state = turn.state
    copy = state.copies[work.copy]
    place = place_of(copy, work.tier)
    if place is None:
        return
    state.unreleased.pop((work.copy, work.tier), None)
    if place.slots and copy.uncertain:
        state.slots[work.tier] = quarantine(state.slots[work.tier], place.slots)
        state.quarantine[work.copy] = (*state.quarantine.get(work.copy, ()), (work.tier, place.slots))
        turn.heartbeat = True
    elif place.slots:
        state.slots[work.tier] = give(state.slots[work.tier], place.slots)
    turn.put(evolve(copy, places=tuple([old for old in copy.places if old is not place])))
    state.moves.pop(work.copy, None)
    settle(turn, work.copy)


def release_failed(turn: Turn, work: Work, event: WorkFailed) -> None:
    """The slots stay counted. "No such bytes" is what was wanted."""
    if event.reason is Reason.LOST:
        released(turn, work, InstanceReleased(event.job, event.copy))
        return
    key = (work.copy, work.tier)
    before = turn.state.unreleased.get(key)
    tries = 1 if before is None else before.tries + 1
    delay = min(turn.config.release_retry_ms << min(tries - 1, 20), turn.config.release_retry_ms_max)
    turn.state.unreleased[key] = Unreleased(turn.now + delay, tries)


def retry_releases(turn: Turn) -> None:
    """On Tick: ask again for the releases that are due. While one runs its entry stays, so that it is still named; it waits
    for a completion and not for a time, or the node would ask for one Tick after the other."""
    for key, unreleased in list(turn.state.unreleased.items()):
        if 0 < unreleased.at <= turn.now:
            copy = turn.state.copies[key[0]]
            place = place_of(copy, key[1])
            if place is not None:
                turn.state.unreleased[key] = evolve(unreleased, at=0)
                release(turn, key[0], place.instance)


# ---- quarantine and loss -------------------------------------------------------------------------------------


def writer_uncertain(turn: Turn, event: WriterUncertain) -> None:
    """A late writer to this copy can't be ruled out: when it goes, its slots go to quarantine."""
    copy = turn.state.copies.get(event.copy)
    if copy is None or copy.uncertain:
        turn.drop()
    else:
        turn.put(evolve(copy, uncertain=True))


def quarantine_lifted(turn: Turn, event: QuarantineLifted) -> None:
    """Nobody can write there any more: slots in quarantine are free, slots on their way need not go there."""
    state = turn.state
    copy = state.copies.get(event.copy)
    lifted = state.quarantine.pop(event.copy, ())
    if not lifted and (copy is None or not copy.uncertain):
        turn.drop()
        return
    for tier, numbers in lifted:
        state.slots[tier] = lift(state.slots[tier], numbers)
        turn.heartbeat = True
    if copy is not None:
        turn.put(evolve(copy, uncertain=False))


def place_is_bad(turn: Turn, copy_id: CopyId, tier: Tier, reason: Reason) -> None:
    """The bytes of one place are LOST or CORRUPT. Another verified place takes over; without one the copy is lost: said at
    once, because no reader may be sent here again, while its slots go as those of any other copy do."""
    copy = turn.state.copies.get(copy_id)
    place = None if copy is None else place_of(copy, tier)
    if copy is None or place is None or copy.condition is not Condition.VERIFIED:
        return
    if place.stage is Stage.VERIFIED:
        copy = turn.set_place(copy, evolve(place, stage=Stage.RETIRING))
    if readable_place(copy, turn.config) is None:
        turn.tell(CopyLost(copy_id, reason), copy_id.shard)
        let_go(turn, copy, wanted=False)
    else:
        settle(turn, copy_id)
