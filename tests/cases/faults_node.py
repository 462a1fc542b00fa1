"""Seeded faults of a node: guards, byte work, jobs, slots."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import events, freeing, local_moves, node, orders
from pinfold.core.node_state import place_of
from pinfold.core.records import evolve
from tests.cases.switches import everywhere, wrapped


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
