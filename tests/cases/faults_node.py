"""Seeded faults of a node: guards, byte work, jobs, slots."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.backends.bytework import ThreadedByteWork
from pinfold.backends.ssd import SsdTier
from pinfold.core import events, freeing, guards, jobs, local_moves, node, node_io, orders, reports, requests
from pinfold.core.allocator import give
from pinfold.core.node_state import Stage, place_of
from pinfold.core.node_turn import Turn
from pinfold.core.records import evolve
from tests.cases.switches import everywhere, wrapped, wrapped_method


def wrapped_entry(patch: pytest.MonkeyPatch, kinds: dict[type, Any], kind: type, around: Any) -> None:
    """`around(handler, ...)` in place of the handler of a completion."""
    work_kind, whole = kinds[kind]
    patch.setitem(kinds, kind, (work_kind, lambda turn, work, event: around(whole, turn, work, event)))


def reference_in_the_codec(patch: pytest.MonkeyPatch) -> None:
    def start(whole: Any, turn: Any, copy: Any, source: Any, tier: Any) -> bool:
        begun: bool = whole(turn, copy, source, tier)
        if begun:
            turn.count_guard(copy.copy, source.instance.tier, 1)
        return begun

    wrapped(patch, local_moves._start, start)


def no_cleanup_on_failure(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, local_moves._give_up, lambda turn, copy, target: None)


def freed_again(patch: pytest.MonkeyPatch) -> None:
    """A copy that has gone gives its slots back once more when it is told to go once more."""
    gone: dict[Any, Any] = {}

    def released(whole: Any, turn: Any, work: Any, event: Any) -> None:
        place = place_of(turn.state.copies[work.copy], work.tier)
        gone[work.copy] = (work.tier, place.slots if place is not None else ())
        whole(turn, work, event)

    def take_free(turn: Any, order: Any, body: Any) -> None:
        if body.copy in gone and body.copy not in turn.state.copies:
            tier, slots = gone[body.copy]
            turn.state.slots[tier] = evolve(turn.state.slots[tier], used=turn.state.slots[tier].used - len(slots))
        freeing.take_free(turn, order, body)

    wrapped_entry(patch, node.DONE, events.InstanceReleased, released)
    patch.setitem(node.ORDERS, orders.Free, take_free)


def source_let_go_at_once(patch: pytest.MonkeyPatch) -> None:
    """The guard on the source of a local move ends when the copy is queued."""

    def start(whole: Any, turn: Any, copy: Any, source: Any, tier: Any) -> bool:
        begun: bool = whole(turn, copy, source, tier)
        if begun:
            job = max(turn.state.works)
            work = turn.state.works[job]
            turn.state.works[job] = evolve(work, touches=(*work.touches[1:], *work.touches[1:]))
            turn.count_guard(copy.copy, source.instance.tier, -1)
            turn.count_guard(copy.copy, tier, 1)
        return begun

    wrapped(patch, local_moves._start, start)


def freed_under_guards(patch: pytest.MonkeyPatch) -> None:
    """A copy that is to go is released whoever touches it."""

    def settle(whole: Any, turn: Any, copy_id: Any) -> None:
        copy = turn.state.copies.get(copy_id)
        for place in copy.places if copy is not None else ():
            if place.stage is Stage.RETIRING and place.guards:
                turn.set_place(copy, evolve(place, stage=Stage.RELEASING))
                freeing.release(turn, copy_id, place.instance)
        whole(turn, copy_id)

    wrapped(patch, freeing.settle, settle)


def freed_under_the_last_guard(patch: pytest.MonkeyPatch) -> None:
    """One guard more or less: a copy is released when one guard is left."""

    def settle(whole: Any, turn: Any, copy_id: Any) -> None:
        copy = turn.state.copies.get(copy_id)
        for place in copy.places if copy is not None else ():
            if place.stage is Stage.RETIRING and place.guards == 1:
                turn.set_place(copy, evolve(place, stage=Stage.RELEASING))
                freeing.release(turn, copy_id, place.instance)
        whole(turn, copy_id)

    wrapped(patch, freeing.settle, settle)


def one_more_completion(patch: pytest.MonkeyPatch) -> None:
    """A copy that is told to go waits for a completion, also when none is to come."""

    def let_go(whole: Any, turn: Any, copy: Any, *, wanted: bool) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(freeing, "settle", lambda turn, copy_id: None)
            whole(turn, copy, wanted=wanted)

    wrapped(patch, freeing.let_go, let_go)


def deadline_forgets_only(patch: pytest.MonkeyPatch) -> None:
    def drive_jobs(whole: Any, turn: Any) -> None:
        for job in list(turn.state.jobs.values()):
            if job.deadline <= turn.now:
                freeing.end_job(turn, job.copy)
        whole(turn)

    wrapped(patch, jobs.drive_jobs, drive_jobs)


def every_end_is_done(patch: pytest.MonkeyPatch) -> None:
    """The source's no ends the job as a success."""

    def peer_refused(turn: Any, event: Any) -> None:
        job = jobs._job_of(turn, event.token, event.copy)
        if job is not None:
            jobs._done(turn, job)

    patch.setitem(node.HANDLERS, requests.NodeRefused, peer_refused)


def slots_back_at_abort(patch: pytest.MonkeyPatch) -> None:
    def abort(whole: Any, turn: Any, request: Any) -> None:
        whole(turn, request)
        copy = turn.state.copies.get(request.copy)
        if copy is not None and copy.failed:
            place = copy.places[0]
            turn.state.slots[place.instance.tier] = give(turn.state.slots[place.instance.tier], place.slots)

    whole = node.HANDLERS[requests.AbortWrite]
    patch.setitem(node.HANDLERS, requests.AbortWrite, lambda turn, request: abort(whole, turn, request))


def peers_by_name(patch: pytest.MonkeyPatch) -> None:
    """The end of one registration ends the guards of every registration of that name."""

    def peer_gone(turn: Any, event: Any) -> None:
        owner = f"peer:{event.node}/"
        for guard in [guard for guard in turn.state.guards.values() if guard.owner.startswith(owner)]:
            guards.end_guard(turn, guard)

    patch.setitem(node.HANDLERS, orders.PeerGone, peer_gone)


def buffers_back_when_queued(patch: pytest.MonkeyPatch) -> None:
    def submit(whole: Any, work: Any, effect: Any) -> None:
        whole(work, effect)
        for buffer in getattr(effect, "data", ()):
            buffer[:] = bytes(len(buffer))

    wrapped_method(patch, ThreadedByteWork, "submit", submit)


def books_are_believed(patch: pytest.MonkeyPatch) -> None:
    """An `EndWrite` seals at once: its writer has said that all is there."""

    def end_write(turn: Any, request: Any) -> None:
        copy = turn.state.copies[request.copy]
        node_io.become_verified(turn, copy, request.manifest)
        turn.tell(reports.Sealed(copy.copy, request.manifest), copy.copy.shard)

    patch.setitem(node.HANDLERS, requests.EndWrite, end_write)


def guards_by_name(patch: pytest.MonkeyPatch) -> None:
    """What touches a copy is counted at its first place, whichever place it touches."""

    def count_guard(whole: Any, turn: Any, copy_id: Any, tier: Any, change: int) -> None:
        whole(turn, copy_id, turn.state.copies[copy_id].places[0].instance.tier, change)

    wrapped_method(patch, Turn, "count_guard", count_guard)


def counted_when_published(patch: pytest.MonkeyPatch) -> None:
    """A file's room is taken when it is published and not when it is begun."""

    def published(whole: Any, tier: Any, header: Any) -> None:
        whole(tier, header)
        tier._sizes[header.copy] = header.geometry.file_bytes
        tier.used_bytes += header.geometry.file_bytes

    patch.setattr(SsdTier, "_admit", lambda tier, copy, file_bytes: None)
    wrapped_method(patch, SsdTier, "_published", published)


def room_without_bytes(patch: pytest.MonkeyPatch) -> None:
    """A fetch that has failed half-way is given out as if it were there."""

    def fetch_failed(turn: Any, work: Any, event: Any) -> None:
        job = turn.state.jobs.get(work.copy)
        if job is not None:
            node_io.become_verified(turn, turn.state.copies[work.copy], job.manifest)
            jobs._done(turn, job)

    everywhere(patch, jobs.fetch_failed, fetch_failed)
