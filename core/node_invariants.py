"""A node's part of the invariants: named functions over its state, run after each step by tests and checkers.

Each raises `InvariantViolation` under its id. `NODE_INVARIANTS` maps ids to functions; the whole list is assembled elsewhere.
What needs two states to be seen (FENCE-1's "never falls") is `links_never_fall`, for those who keep the state before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .errors import InvariantViolation
from .ids import CopyId, Tier, manifest_hash
from .node_state import Kind, NodeConfig, NodeState, Stage
from .reports import Condition

Check = Callable[[NodeState, NodeConfig], None]


def _must(true: bool, invariant: str, what: str) -> None:
    if not true:
        raise InvariantViolation(invariant, what)


def guards_are_recounted(state: NodeState, _config: NodeConfig) -> None:
    """USE-1: each guard and each running work touches a place that is there; a place counts exactly those."""
    touched: dict[tuple[CopyId, Tier], int] = {}
    for guard in state.guards.values():
        touched[(guard.copy, guard.tier)] = touched.get((guard.copy, guard.tier), 0) + 1
    for work in state.works.values():
        for key in work.touches:
            touched[key] = touched.get(key, 0) + 1
    for copy in state.copies.values():
        for place in copy.places:
            count = touched.pop((copy.copy, place.instance.tier), 0)
            _must(count == place.guards, "USE-1", f"{copy.copy} counts {place.guards} guards, has {count}")
    _must(not touched, "USE-1", f"guards on places that are gone: {sorted(touched)}")


def nothing_in_use_is_released(state: NodeState, _config: NodeConfig) -> None:
    """USE-1: a place that somebody touches is not being released, and exactly the releasing ones are, or wait to be, released."""
    releases = {(w.copy, w.tier) for w in state.works.values() if w.kind is Kind.RELEASE}
    for copy in state.copies.values():
        for place in copy.places:
            key = (copy.copy, place.instance.tier)
            if place.stage is Stage.RELEASING:
                _must(place.guards == 0, "USE-1", f"{copy.copy} is released under {place.guards} guards")
                _must(key in releases or key in state.unreleased, "USE-1", f"nobody releases {copy.copy}")
            else:
                _must(key not in releases, "USE-1", f"{copy.copy} is released in stage {place.stage.name}")
            if place.stage is Stage.RETIRING:
                _must(place.guards > 0, "USE-1", f"{copy.copy} retires without guards and is not released")


def slots_have_one_user(state: NodeState, _config: NodeConfig) -> None:
    """USE-1: no slot belongs to two places, or to a place and the free list, or to a place and quarantine."""
    taken = dict.fromkeys(state.slots, 0)
    users = [
        (copy.copy, place.instance.tier, place.slots) for copy in state.copies.values() for place in copy.places
    ]
    users += [(copy, tier, slots) for copy, parts in state.quarantine.items() for tier, slots in parts]
    for copy_id, tier, numbers in users:
        for number in numbers:
            _must(not taken[tier] >> number & 1, "USE-1", f"slot {number} of {tier.name} has a second user {copy_id}")
            taken[tier] |= 1 << number
    for tier, slots in state.slots.items():
        _must(not taken[tier] & slots.free, "USE-1", f"a free slot of {tier.name} is in use")
        _must(taken[tier] | slots.free == (1 << slots.capacity) - 1, "CAP-1", f"a slot of {tier.name} has leaked")


def used_is_recount(state: NodeState, _config: NodeConfig) -> None:
    """CAP-1: used = recount of the allocator <= capacity; quarantine likewise."""
    for tier, slots in state.slots.items():
        free = slots.free.bit_count()
        _must(slots.used == slots.capacity - free, "CAP-1", f"{tier.name}: used {slots.used}, {free} free")
        held = sum(len(n) for parts in state.quarantine.values() for where, n in parts if where == tier)
        _must(slots.quarantined == held, "CAP-1", f"{tier.name}: quarantined {slots.quarantined}, found {held}")


def two_places_are_few(state: NodeState, config: NodeConfig) -> None:
    """CAP-1: only moving copies have two places, and only as many move as the slack allows."""
    _must(len(state.moves) <= config.local_moves_max, "CAP-1", f"{len(state.moves)} local moves")
    if state.started:
        for copy in state.copies.values():
            _must(len(copy.places) < 2 or copy.copy in state.moves, "CAP-1", f"{copy.copy} is doubled, not moving")


def readable_is_verified(state: NodeState, _config: NodeConfig) -> None:
    """COPY-1: a place may be given to readers only in a copy that was verified against a manifest."""
    for copy in state.copies.values():
        if copy.condition is Condition.VERIFIED:
            _must(copy.manifest != b"", "COPY-1", f"{copy.copy} is verified against nothing")
            _must(not copy.failed and copy.ending is None, "COPY-1", f"{copy.copy} failed, or its write goes on")
        else:
            ready = any(place.stage is Stage.VERIFIED for place in copy.places)
            _must(not ready, "COPY-1", f"{copy.copy} is {copy.condition.name} and has a readable place")


def verified_has_a_place(state: NodeState, _config: NodeConfig) -> None:
    """COPY-2, the node's part: a verified copy has a verified instance; warmth lists exactly those."""
    for copy in state.copies.values():
        if copy.condition is Condition.VERIFIED:
            ready = any(place.stage is Stage.VERIFIED for place in copy.places)
            _must(ready, "COPY-2", f"{copy.copy} is verified and has no verified place")
    for tier, warmth in state.warmth.items():
        there = {
            copy.copy
            for copy in state.copies.values()
            for place in copy.places
            if place.stage is Stage.VERIFIED and place.instance.tier == tier
        }
        _must(there == set(warmth), "COPY-2", f"warmth of {tier.name} is not its verified copies")


def freeing_is_final(state: NodeState, _config: NodeConfig) -> None:
    """COPY-3: a copy that is being freed has no job, no pending end and no place that could be given to anybody."""
    for copy in state.copies.values():
        if copy.condition is Condition.FREEING:
            _must(copy.copy not in state.jobs and copy.ending is None, "COPY-3", f"{copy.copy} has work left to begin")
            for place in copy.places:
                _must(place.stage >= Stage.RETIRING, "COPY-3", f"{copy.copy} is FREEING, place {place.stage.name}")


def checksums_are_the_manifests(state: NodeState, _config: NodeConfig) -> None:
    """BYTES-1: what reads are compared with is what was sealed."""
    for copy in state.copies.values():
        if copy.condition is Condition.VERIFIED and copy.checksums:
            found = manifest_hash(copy.spec.key.layout, copy.spec.sizes, copy.checksums)
            _must(found == copy.manifest, "BYTES-1", f"{copy.copy}: the known checksums are not the manifest's")


def orders_come_from_registrations(state: NodeState, _config: NodeConfig) -> None:
    """FENCE-1: without an incarnation no order was taken."""
    for link in state.links.values():
        _must(link.incarnation > 0 or (link.number, link.term) == (0, 0), "FENCE-1", f"shard {link.shard}")


def tables_keep_their_limits(state: NodeState, config: NodeConfig) -> None:
    """ANSWER-1 needs rule 13: what waits is bounded, has an end, and names something that is there."""
    _must(len(state.guards) <= config.guards_max, "ANSWER-1", "guards above their limit")
    _must(len(state.jobs) <= config.jobs_max, "ANSWER-1", "jobs above their limit")
    _must(sorted(state.grants.values()) == sorted(state.guards), "ANSWER-1", "grants are not the guards")
    for token, copy_id in state.tokens.items():
        job = state.jobs.get(copy_id)
        _must(job is not None and job.token == token, "ANSWER-1", f"token {token} names no job")
    for job in state.jobs.values():
        waits = job.ask_at > 0 or job.storing or any(w.copy == job.copy for w in state.works.values())
        _must(bool(waits), "ANSWER-1", f"the job of {job.copy} waits for nothing")
    for copy in state.copies.values():
        if copy.ending is not None:
            running = any(w.copy == copy.copy for w in state.works.values())
            _must(running, "ANSWER-1", f"the end of the write of {copy.copy} waits for nothing")


def links_never_fall(before: NodeState, after: NodeState) -> None:
    """FENCE-1, EPOCH-1: over one step term and incarnation never fall, nor the number within them; fenced is final."""
    for shard, old in before.links.items():
        new = after.links[shard]
        _must(new.term >= old.term and new.incarnation >= old.incarnation, "EPOCH-1", f"shard {shard} went back")
        if (new.term, new.incarnation) == (old.term, old.incarnation):
            _must(new.number >= old.number, "FENCE-1", f"shard {shard}: number {old.number} -> {new.number}")
    _must(after.fenced or not before.fenced, "FENCE-1", "a fenced node came back")


NODE_INVARIANTS: Final[dict[str, tuple[Check, ...]]] = {
    "USE-1": (guards_are_recounted, nothing_in_use_is_released, slots_have_one_user),
    "CAP-1": (used_is_recount, two_places_are_few),
    "COPY-1": (readable_is_verified,),
    "COPY-2": (verified_has_a_place,),
    "COPY-3": (freeing_is_final,),
    "BYTES-1": (checksums_are_the_manifests,),
    "FENCE-1": (orders_come_from_registrations,),
    "ANSWER-1": (tables_keep_their_limits,),
}


def check_node(state: NodeState, config: NodeConfig) -> None:
    """All of them. Raises `InvariantViolation`."""
    for checks in NODE_INVARIANTS.values():
        for check in checks:
            check(state, config)
