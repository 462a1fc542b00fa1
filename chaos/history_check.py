"""Could this history have happened? Decided by sorting, in O(n log n).

A directory's changes have one order: the revision. So what is left to check is that this order agrees with what clients saw:
  real time   whoever asked after somebody else had been answered is not before it in the order (LIN-1);
  epochs      a group's epoch at a revision is the newest decision up to it: no older one, no later one (LIN-1, EPOCH-1);
  sessions    the same by each client's own clock: it reads its own writes, and never backwards (LIN-1);
  numbers     one answer per number, one change per revision, one hold per number (ONCE-1);
  holds       taken once, ended once, said when lost; no evict under a REF (HOLD-1);
  copies      one copy id is one group's, has one manifest hash and one content (COPY-3, BYTES-1); one owner per epoch (OWN-1).
The first violation of each kind is reported with the smallest part of the history that shows it: every witness here is an
answer, the answers that it contradicts, and nothing else.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attrs import define, field

from .history import RELEASES, TAKES, History, Op, Verdict, Violation
from .history_search import BUDGET, decided_by_order, may_have_taken, pins_are_firm, search

Found = Iterator[Violation]


def check(history: History, budget: int = BUDGET) -> Verdict:
    """The verdict. Where an answer lacks the revision that orders it, all orders are searched, up to `budget` steps a group."""
    begun = time.perf_counter()
    violations = tuple(violation for rule in RULES for violation in _first(rule(history)))
    word = "violated" if violations else "ok"
    loose = [op for op in history.ops if not decided_by_order(op)]
    bounds = "all answers ordered by revision, complete in O(n log n)"
    if loose:
        word, bounds, found = _searched(history, loose, word, budget)
        violations += found
    groups = {op.group for op in history.ops if op.group}
    sessions = {op.session for op in history.ops if op.session}
    clock = "one clock" if history.clock == "common" else "each client's own clock: real time between clients is not judged"
    whole = "complete" if history.complete else "part of a history: what is not in it may have happened"
    return Verdict(
        word, len(history.ops), len(groups), len(sessions), f"{bounds}; {clock}; {whole}", violations, time.perf_counter() - begun
    )


def _searched(history: History, loose: list[Op], word: str, budget: int) -> tuple[str, str, tuple[Violation, ...]]:
    affected = sorted({op.group for op in loose})
    open_groups = []
    found: list[Violation] = []
    for group in affected:
        result = search([op for op in history.ops if op.group == group], history, budget)
        if result.word == "unknown":
            open_groups.append(group)
        elif result.word == "violated" and not found:
            found.append(Violation("LIN-1", f"no order of the operations on {group[:8]} explains their answers", result.smallest))
    bounds = f"{len(loose)} answers without a revision: all orders of {len(affected)} groups searched, {budget} steps each"
    if open_groups:
        bounds += f"; the bound was met by {len(open_groups)}, the first {open_groups[0][:8]}"
    if word == "violated" or found:
        return "violated", bounds, tuple(found)
    return ("unknown" if open_groups else "ok"), bounds, ()


def _first(found: Found) -> Iterator[Violation]:
    for violation in found:
        yield violation
        return


def told(op: Op) -> bool:
    """Was the directory asked, and does the answer say when it was true?"""
    return op.returned is not None and op.revision > 0


# ---- the order -----------------------------------------------------------------------------------------------


def real_time(history: History) -> Found:
    """LIN-1 between all clients, by the common clock. Queries are judged within their term: a directory that was deposed and does
    not know may still answer them, and each client puts aside what is older than it has seen."""
    if history.clock == "common":
        yield from _agrees((op for op in history.ops if told(op)), lambda op: 0 if op.number else op.term)


def sessions_agree(history: History) -> Found:
    """LIN-1 within each client, by its own clock."""
    by_client: dict[str, list[Op]] = defaultdict(list)
    for op in history.ops:
        if told(op):
            by_client[op.client].append(op)
    for ops in by_client.values():
        yield from _agrees(ops, lambda op: 0)


def _agrees(ops: Iterable[Op], kind: Callable[[Op], int]) -> Found:
    """Place the operations in the order of their revisions, each as early as it can be: a change at its revision, then the
    answers that were true at it. Who must stand after his own answer was told of something too old. `kind`: 0, or the term
    within which alone the operation is judged when somebody knew better (revisions rise with terms: `terms_rise`)."""
    latest: dict[int, Op] = {}
    at = [(op.revision, not op.effect, op.invoke, index, op) for index, op in enumerate(ops)]
    at.sort()  # no two have one index, so operations themselves are never compared
    for _, _, _, _, op in at:
        mine = kind(op)
        for other in (0, op.term):
            later = latest.get(other)
            if later is not None and op.returned is not None and later.invoke > op.returned:
                yield Violation("LIN-1", _sentence(op, later), (op, later))
        if mine not in latest or op.invoke > latest[mine].invoke:
            latest[mine] = op


def _sentence(op: Op, later: Op) -> str:
    """`op` was answered before `later` was asked, and its answer is of a later revision (or of the same change)."""
    if later.client == op.client:
        kind = {
            (True, False): "read your writes: an answer does not see the client's own earlier change",
            (False, False): "monotonic reads: an answer is older than one that the same client had before",
            (True, True): "monotonic writes: a change is ordered before an earlier one of the same client",
            (False, True): "writes follow reads: a change is ordered before what its client had read",
        }[op.effect, later.effect]
    elif later.effect:
        kind = "a change is ordered before what had been answered before it was asked"
    else:
        kind = "stale read: an answer is older than one that had been given before it was asked"
    return f"{kind} (revision {later.revision} after {op.revision})"


def terms_rise(history: History) -> Found:
    """EPOCH-1: a later revision is never of an earlier term."""
    newest: Op | None = None
    for op in sorted((op for op in history.ops if told(op)), key=lambda op: (op.revision, op.term)):
        if newest is not None and op.term < newest.term:
            sentence = f"revision {op.revision} is of term {op.term}, the earlier {newest.revision} of {newest.term}"
            yield Violation("EPOCH-1", sentence, (newest, op))
        if newest is None or op.term > newest.term:
            newest = op


def epochs_agree(history: History) -> Found:
    """LIN-1 and EPOCH-1 per group: at revision R the epoch is the newest decision that is not after R."""
    by_group: dict[str, list[Op]] = defaultdict(list)
    for op in history.ops:
        if told(op) and op.epoch > 0:
            by_group[op.group].append(op)
    for ops in by_group.values():
        first: dict[int, Op] = {}
        for op in ops:
            first.setdefault(op.epoch, op)
        decisions = sorted(first)
        for op in ops:
            if op.epoch > op.revision:
                yield Violation("EPOCH-1", f"epoch {op.epoch} is told at revision {op.revision}, before it was decided", (op,))
            newest = decisions[bisect_right(decisions, op.revision) - 1]
            if newest > op.epoch:
                sentence = f"stale read: at revision {op.revision} the epoch was {newest} already, {op.epoch} was told"
                yield Violation("LIN-1", sentence, (first[newest], op))


def owners_agree(history: History) -> Found:
    """OWN-1: one owner per (group, epoch)."""
    seen: dict[tuple[str, int], Op] = {}
    for op in history.ops:
        if op.owner and op.epoch:
            before = seen.setdefault((op.group, op.epoch), op)
            if before.owner != op.owner:
                yield Violation("OWN-1", f"two owners at epoch {op.epoch}: {before.owner} and {op.owner}", (before, op))


# ---- exactly once --------------------------------------------------------------------------------------------


def numbers_answer_once(history: History) -> Found:
    """ONCE-1: a number has one answer."""
    seen: dict[tuple[int, int, int], Op] = {}
    for op in history.ops:
        if op.number and op.returned is not None and op.outcome != "unknown":
            before = seen.setdefault(_number(op), op)
            if before is not op and _answer(before) != _answer(op):
                yield Violation("ONCE-1", f"number {op.number} of session {op.session} has two answers", (before, op))


def _answer(op: Op) -> tuple[object, ...]:
    return op.op, op.outcome, op.reason, op.revision, op.epoch, op.copy, op.hold, op.group


def changes_happen_once(history: History) -> Found:
    """ONCE-1: each change has a revision of its own; two at one are two histories of one directory."""
    seen: dict[int, Op] = {}
    for op in history.ops:
        if op.effect and told(op):
            before = seen.setdefault(op.revision, op)
            if _number(before) != _number(op):
                yield Violation("ONCE-1", f"double effect: two changes at revision {op.revision}", (before, op))


# ---- holds ---------------------------------------------------------------------------------------------------


def holds_begin_and_end_once(history: History) -> Found:
    """HOLD-1: a hold is taken by one number, released by one, and where it had ended before, somebody ended it."""
    holds = _by_hold(history)
    for op in history.ops:
        if not op.hold or not told(op):
            continue
        began = holds.taken.get(op.hold)
        if op.op in TAKES and op.outcome == "ok" and began is not None and _number(began) != _number(op):
            yield Violation("HOLD-1", f"double effect: {op.hold} is taken by two numbers", (began, op))
        if op.op in RELEASES and op.outcome == "ok":
            yield from _released(op, began, holds, history)
        elif _is_denied(op) and began is not None and op.session == began.session:  # another session's hold is unknown to it
            able = (*holds.ending.get(op.hold, ()), *holds.wide.get(began.session, ()))
            if began.revision <= op.revision and not any(_may_have_ended(one, op, history) for one in able):
                sentence = f"lost hold: {op.hold} was taken, nobody has ended it, and its release is told {op.reason}"
                yield Violation("HOLD-1", sentence, (began, op))


def _is_denied(op: Op) -> bool:
    return op.op in RELEASES and op.reason in ("AlreadyDone", "UnknownHold")


@define
class Holds:
    """By hold: who took it, whose release ended it, who tried to. `wide`: by session, what ends many holds at once."""

    taken: dict[str, Op] = field(factory=dict)
    ended: dict[str, Op] = field(factory=dict)
    ending: dict[str, list[Op]] = field(factory=dict)
    wide: dict[int, list[Op]] = field(factory=dict)


def _by_hold(history: History) -> Holds:
    holds = Holds()
    for op in history.ops:
        if op.op in TAKES and op.outcome == "ok" and op.hold:
            holds.taken.setdefault(op.hold, op)
        elif op.op in RELEASES and op.hold:
            holds.ending.setdefault(op.hold, []).append(op)
            if op.outcome == "ok":
                holds.ended.setdefault(op.hold, op)
        elif op.op in ("release_request", "close"):
            holds.wide.setdefault(op.session, []).append(op)
    return holds


def _number(op: Op) -> tuple[int, int, int]:
    return op.session, op.number, op.item


def _may_have_ended(one: Op, op: Op, history: History) -> bool:
    """May `one` have ended the hold before `op` was told so?"""
    assert op.returned is not None
    if one is op or _number(one) == _number(op):
        return False
    if one.outcome == "ok" or one.reason == "HoldLost":
        return not told(one) or one.revision <= op.revision
    compares = history.clock == "common" or one.client == op.client
    return one.outcome == "unknown" and (one.invoke <= op.returned or not compares)


def _released(op: Op, began: Op | None, holds: Holds, history: History) -> Found:
    first = holds.ended[op.hold]
    if _number(first) != _number(op):
        yield Violation("HOLD-1", f"double effect: {op.hold} is released by two numbers", (first, op))
    for one in holds.ending[op.hold]:
        if one.reason == "HoldLost" and told(one) and one.revision < op.revision:
            yield Violation("HOLD-1", f"{op.hold} is released after it was said to be lost", (one, op))
    if began is not None and began.revision >= op.revision:
        yield Violation("HOLD-1", f"{op.hold} is released at revision {op.revision}, and taken at {began.revision}", (op, began))
    if began is None and history.complete and not any(may_have_taken(one, op.hold) for one in history.ops):
        yield Violation("HOLD-1", f"{op.hold} is released, and nobody has taken it", (op,))


def no_evict_under_a_hold(history: History) -> Found:
    """HOLD-1: between the taking of a REF and its release, which was answered as one, nobody evicts the group. So for a PIN,
    where the history is complete and nothing in it gives pinned copies up (a move or drain of them, a dropped replica)."""
    kinds = ("ref", "pin") if pins_are_firm(history) else ("ref",)
    holds = _by_hold(history)
    spans: dict[str, list[tuple[int, int, Op, Op]]] = defaultdict(list)
    for hold, began in holds.taken.items():
        end = holds.ended.get(hold)
        if end is not None and told(began) and told(end) and began.op in kinds:
            spans[began.group].append((began.revision, end.revision, began, end))
    evicts: dict[str, list[Op]] = defaultdict(list)
    for op in history.ops:
        if op.op == "evict" and op.outcome == "ok" and not op.waiting and told(op):
            evicts[op.group].append(op)
    for group, found in evicts.items():
        ordered = sorted(found, key=lambda op: op.revision)
        at = [op.revision for op in ordered]
        for start, stop, began, end in spans.get(group, ()):
            index = bisect_right(at, start)
            if index < len(at) and at[index] < stop:
                sentence = f"{began.hold} held the group from revision {start} to {stop}, and it was evicted at {at[index]}"
                yield Violation("HOLD-1", sentence, (began, ordered[index], end))


# ---- copies --------------------------------------------------------------------------------------------------


def copies_are_one_thing(history: History) -> Found:
    """COPY-3, BYTES-1: a copy id is of one group, with one manifest hash, and each block of it reads the same for ever."""
    groups: dict[str, Op] = {}
    manifests: dict[str, Op] = {}
    blocks: dict[tuple[str, str], Op] = {}
    for op in history.ops:
        if not op.copy or op.outcome != "ok":
            continue
        if op.group:
            before = groups.setdefault(op.copy, op)
            if before.group != op.group:
                yield Violation("COPY-3", f"{op.copy} is a copy of two groups", (before, op))
        if op.manifest:
            before = manifests.setdefault(op.copy, op)
            if before.manifest != op.manifest:
                yield Violation("COPY-3", f"{op.copy} has two manifest hashes", (before, op))
        for block, checksum in op.content.items():
            before = blocks.setdefault((op.copy, block), op)
            if before.content[block] != checksum:
                yield Violation("BYTES-1", f"block {block} of {op.copy} is read as other bytes than before", (before, op))


RULES: Final[tuple[Callable[[History], Found], ...]] = (
    real_time,
    sessions_agree,
    terms_rise,
    epochs_agree,
    owners_agree,
    numbers_answer_once,
    changes_happen_once,
    holds_begin_and_end_once,
    no_evict_under_a_hold,
    copies_are_one_thing,
)
