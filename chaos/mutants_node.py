"""Seeded faults of the node; `mutants.py` says what each is about."""

from __future__ import annotations

from typing import Any

from ..core import freeing, guards, jobs, node, node_io, node_links, requests
from ..core.effects import Instance, ReleaseInstance
from ..core.events import InstanceReleased
from ..core.ids import CopyId
from ..core.node_state import Copy, Kind, Stage, Work
from ..core.node_turn import Turn
from ..core.orders import Order
from ..core.records import evolve
from ..core.reports import Condition, CopyDone, Freed, Sealed
from .planting import Planting


def _take(turn: Turn, order: Order) -> bool:
    link = turn.state.links[order.shard]
    if (order.term, order.incarnation) > (link.term, link.incarnation):
        node_links.adopt(turn, link, order.term, order.incarnation)
    turn.state.links[order.shard] = evolve(turn.state.links[order.shard], number=order.number)
    return True


def orders_under_any_number(p: Planting) -> None:
    def passes(turn: Turn, order: Order) -> bool:
        link = turn.state.links[order.shard]
        return not turn.state.fenced and order.incarnation == link.incarnation and _take(turn, order)

    p.function(node_links.passes, passes)


def orders_of_any_incarnation(p: Planting) -> None:
    def passes(turn: Turn, order: Order) -> bool:
        link = turn.state.links[order.shard]
        fresh = (order.term, order.number) > (link.term, link.number)
        return not turn.state.fenced and fresh and link.incarnation > 0 and _take(turn, order)

    p.function(node_links.passes, passes)


def orders_compared_without_term(p: Planting) -> None:
    def passes(turn: Turn, order: Order) -> bool:
        link = turn.state.links[order.shard]
        if turn.state.fenced or order.incarnation != link.incarnation or order.number <= link.number:
            return False
        turn.state.links[order.shard] = evolve(link, number=order.number)
        return True

    def adopt(turn: Turn, link: Any, term: int, incarnation: int) -> None:
        if (term, incarnation) != (link.term, link.incarnation):
            turn.state.links[link.shard] = evolve(link, term=term, incarnation=incarnation)
            turn.inventories[link.shard] = None

    p.function(node_links.passes, passes)
    p.function(node_links.adopt, adopt)


# ---- guards --------------------------------------------------------------------------------------------------


def free_ignores_guards(p: Planting) -> None:
    def settle(turn: Turn, copy_id: CopyId) -> None:
        copy = turn.state.copies.get(copy_id)
        if copy is None:
            return
        for place in copy.places:
            if place.stage is Stage.RETIRING:
                copy = turn.set_place(copy, evolve(place, stage=Stage.RELEASING))
                freeing.release(turn, copy_id, place.instance)
        if not copy.places and copy.condition is Condition.FREEING:
            del turn.state.copies[copy_id]
            turn.tell(Freed(copy_id), copy_id.shard)

    p.function(freeing.settle, settle)


def guards_end_with_the_lease(p: Planting) -> None:
    register_again = node_links.register_again

    def again(turn: Turn, event: Any) -> None:
        register_again(turn, event)
        for guard in list(turn.state.guards.values()):
            guards.end_guard(turn, guard)

    p.function(register_again, again)


def exits_are_not_noticed(p: Planting) -> None:
    p.function(guards.owner_gone, lambda turn, event: turn.drop())


def acquires_are_not_remembered(p: Planting) -> None:
    def acquire(turn: Turn, request: requests.Acquire) -> None:
        turn.state.grants.pop((request.client, request.token), None)
        guards.acquire(turn, request)

    p.entry(node.HANDLERS, requests.Acquire, acquire)


def loads_are_no_guards(p: Planting) -> None:
    begin = Turn.begin

    def begun(self: Turn, kind: Kind, *arguments: Any, **more: Any) -> int:
        return begin(self, kind, *arguments[:2], **more) if kind is Kind.LOAD else begin(self, kind, *arguments, **more)

    p.method(Turn, "begin", begun)


# ---- writing and fetching ------------------------------------------------------------------------------------


def seals_without_looking(p: Planting) -> None:
    verify = node_io.verify

    def sealed(turn: Turn, copy: Copy, manifest: bytes) -> None:
        if copy.ending is None:
            verify(turn, copy, manifest)
            return
        ending = copy.ending
        node_io.become_verified(turn, copy, manifest)
        turn.tell(Sealed(copy.copy, manifest), copy.copy.shard)
        turn.reply(ending.client, requests.WriteEnded(turn.config.name, ending.token, copy.copy, manifest), copy.copy)

    p.function(verify, sealed)


def done_without_looking(p: Planting) -> None:
    verify = node_io.verify

    def done(turn: Turn, copy: Copy, manifest: bytes) -> None:
        job = turn.state.jobs.get(copy.copy)
        if job is None:
            verify(turn, copy, manifest)
            return
        node_io.become_verified(turn, copy, manifest)
        jobs._done(turn, job)

    p.function(verify, done)


def spill_done_at_once(p: Planting) -> None:
    take_spill = jobs.take_spill

    def taken(turn: Turn, order: Order, body: Any) -> None:
        take_spill(turn, order, body)
        turn.tell(CopyDone(body.copy, body.manifest), order.shard)

    p.function(take_spill, taken)


# ---- slots ---------------------------------------------------------------------------------------------------


def slots_back_before_release(p: Planting) -> None:
    release = freeing.release

    def released(turn: Turn, copy_id: CopyId, instance: Instance) -> None:
        job = turn.begin(Kind.RELEASE, copy_id, instance.tier)
        turn.transfer(ReleaseInstance(job, instance))
        work = turn.state.works.pop(job)
        freeing.released(turn, Work(job, work.kind, copy_id, instance.tier, 0), InstanceReleased(job, copy_id))

    p.function(release, released)


