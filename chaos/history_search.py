"""Try every order: the general search (Wing and Gong, with Lowe's cache), for answers that carry no revision, and as an oracle.

It knows nothing of sorting. It places one operation after the other, any whose predecessors in real time are placed already, and
asks a small model of one group whether the answer fits: revisions that rise, epochs that were decided in between, holds that are
taken, released or gone. Operations that nobody saw end may stand anywhere after they were asked, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define

from .history import RELEASES, TAKES, History, Op

BUDGET: Final = 200_000
"""Steps of one search after which nobody knows."""


@define(frozen=True)
class Model:
    """One group as its clients see it. `epoch` was last seen at revision `seen`. `live` holds may be released, `lost` ones were
    under an evict, `ended` ones were released or said to be lost."""

    revision: int = 0
    epoch: int = 0
    seen: int = 0
    live: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


@define(frozen=True)
class Scene:
    """What is the same in all orders: `common`, whether times of different clients compare; `firm`, the holds under which nobody
    can evict; `excused`, those of which nobody knows who has taken them."""

    common: bool = True
    firm: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()


@define(frozen=True)
class Result:
    """`word`: "ok", "violated" or "unknown". `smallest`: operations none of which can be left out, when violated."""

    word: str
    steps: int
    smallest: tuple[Op, ...] = ()


def decided_by_order(op: Op) -> bool:
    """Has it a revision, or nothing that an order would have to explain?"""
    answered = op.returned is not None and op.outcome == "ok"
    loose = answered and op.revision == 0 and (op.epoch > 0 or op.op in (*TAKES, *RELEASES, "evict"))
    return not loose


def scene_of(ops: Iterable[Op], history: History) -> Scene:
    """The scene of the operations of one group."""
    told = list(ops)
    kinds = ("ref", "pin") if pins_are_firm(history) else ("ref",)
    taken = {op.hold for op in told if op.op in TAKES and op.outcome == "ok"}
    lent = {op.hold for op in told if op.op in RELEASES and op.hold not in taken}
    if history.complete:
        lent = {hold for hold in lent if any(may_have_taken(op, hold) for op in told)}
    firm = frozenset(op.hold for op in told if op.op in kinds and op.outcome == "ok")
    return Scene(history.clock == "common", firm, frozenset(lent))


def pins_are_firm(history: History) -> bool:
    """Is nothing in the history that gives pinned copies up, and nothing missing from it?"""
    return history.complete and not any(op.pinned_too or op.op == "drop_replica" for op in history.ops)


def may_have_taken(op: Op, hold: str) -> bool:
    """Has `op`, or may `op`, whose answer nobody knows, have taken this hold?"""
    if op.op not in TAKES:
        return False
    return op.hold == hold if op.outcome == "ok" else op.outcome == "unknown" and hold.startswith(f"h{op.session}.{op.number}.")


def after(op: Op, model: Model, scene: Scene) -> Model | None:
    """The group after `op`, or None: its answer does not fit."""
    revision, epoch, seen = model.revision, model.epoch, model.seen
    if op.revision:
        if op.revision < revision or (op.effect and op.revision == revision):
            return None
        revision = op.revision
    if op.epoch:
        decided = op.epoch > epoch
        if op.epoch < epoch or (decided and op.epoch <= seen) or (op.revision and op.epoch > op.revision):
            return None
        epoch, seen = op.epoch, max(seen, op.revision)
    holds = _holds(op, model, scene)
    return None if holds is None else Model(revision, epoch, seen, *holds)


Holds = tuple[frozenset[str], frozenset[str], frozenset[str]]


def _holds(op: Op, model: Model, scene: Scene) -> Holds | None:
    live, lost, ended = model.live, model.lost, model.ended
    this = frozenset((op.hold,))
    if op.op == "evict" and op.outcome == "ok" and not op.waiting:
        hit = live & scene.firm
        return live - hit, lost | hit, ended
    if not op.hold or op.hold in scene.excused:
        return live, lost, ended
    if op.op in TAKES and op.outcome == "ok":
        return None if op.hold in live | lost | ended else (live | this, lost, ended)
    if op.op not in RELEASES:
        return live, lost, ended
    if op.outcome == "ok":
        return (live - this, lost, ended | this) if op.hold in live else None
    if op.reason == "HoldLost":
        return live - this, lost - this, ended | this
    if op.outcome == "unknown":
        return (live - this, lost, ended | this) if op.hold in live else (live, lost, ended)
    if op.reason in ("AlreadyDone", "UnknownHold") and op.hold in live | lost:
        return None
    return live, lost, ended


def search(ops: Iterable[Op], history: History, budget: int = BUDGET) -> Result:
    """Is there an order of these operations of one group that explains every answer?"""
    kept = [op for op in ops if op.returned is not None or op.op in RELEASES]
    word, steps = _search(kept, scene_of(kept, history), budget)
    if word != "violated":
        return Result(word, steps)
    for op in list(kept):
        fewer = [one for one in kept if one is not op]
        if _search(fewer, scene_of(fewer, history), budget)[0] == "violated":
            kept = fewer
    return Result("violated", steps, tuple(kept))


def _search(ops: list[Op], scene: Scene, budget: int) -> tuple[str, int]:
    before = [_predecessors(op, ops, scene.common) for op in ops]
    wanted = sum(1 << at for at, op in enumerate(ops) if op.returned is not None)
    stack: list[tuple[int, Model]] = [(0, Model())]
    met = {stack[0]}
    steps = 0
    while stack:
        placed, model = stack.pop()
        if placed & wanted == wanted:
            return "ok", steps
        for at, op in _able(ops, before, placed):
            steps += 1
            if steps > budget:
                return "unknown", steps
            new = after(op, model, scene)
            if new is not None:
                position = (placed | 1 << at, new)
                if position not in met:
                    met.add(position)
                    stack.append(position)
    return "violated", steps


def _predecessors(op: Op, ops: list[Op], common: bool) -> int:
    """Those that had their answers before `op` was asked, as bits."""
    return sum(
        1 << at
        for at, one in enumerate(ops)
        if one.returned is not None and one.returned < op.invoke and (common or one.client == op.client)
    )


def _able(ops: list[Op], before: list[int], placed: int) -> Iterator[tuple[int, Op]]:
    for at, op in enumerate(ops):
        if not placed >> at & 1 and before[at] & ~placed == 0:
            yield at, op
