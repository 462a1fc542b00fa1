"""Each invariant of the directory can fail: a state that breaks it is told by its id, and nothing else breaks with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinfold.core import commands as c
from pinfold.core import invariants
from pinfold.core.errors import InvariantViolation
from pinfold.core.ids import NO_COPY, CopyId, GroupId, HoldId, HoldKind, NodeName, Role, SessionId, State, Tier
from pinfold.core.invariants import INVARIANTS, check_all, check_group, check_progress
from pinfold.core.records import evolve
from pinfold.core.state import Hold, Lease

from .directory_world import N1, N2, N3, World, id_of

A = id_of("A")
TESTS = Path(__file__).parent


def scene() -> World:
    """A moves from n1 to n2, has a replica at n3, a pin on its source and a ref."""
    world = World(N1, N2, N3)
    world.put("A")
    world.replica("A", N3)
    world.pin("A")
    world.ref("A")
    world.move("A", N2, allow_pinned=True)
    world.open()
    return world


def group(world: World, **fields: Any) -> None:
    world.state.groups[A] = evolve(world.state.groups[A], **fields)


def copy(world: World, at: int, **fields: Any) -> None:
    copies = list(world.state.copies[A])
    copies[at] = evolve(copies[at], **fields)
    world.state.copies[A] = tuple(copies)


def hold(world: World, **fields: Any) -> None:
    """Another hold record, of which no count knows."""
    values = {"id": HoldId(world.session, 99, 0), "kind": HoldKind.REF, "group": A, "copy": NO_COPY, "request": "", **fields}
    made = Hold(**values)
    world.state.holds[made.id] = made


def unreferred(world: World) -> None:
    world.state.referred.clear()


def twice(world: World) -> None:
    world.state.copies[A] = (*world.state.copies[A], world.state.copies[A][2])


def pinned_replica(world: World, role: Role) -> None:
    pinned = world.do(c.Pin(A, world.state.copies[A][1].id))
    assert pinned.hold
    copy(world, 1, role=role)


def too_many(world: World) -> None:
    session, sequence = next(iter(world.state.answers))
    world.state.answers[session, sequence + 50] = world.state.answers[session, sequence]


def of_the_future(world: World) -> None:
    copy(world, 2, id=CopyId(0, 10**6, 0))
    group(world, target=CopyId(0, 10**6, 0))


def no_room(world: World) -> None:
    world.state.nodes[N1] = evolve(world.state.nodes[N1], capacity=0)


BROKEN: dict[str, tuple[str, str, Callable[[World], object]]] = {
    # name -> id, words of the message, how to break it. Copies: 0 source, 1 replica, 2 target.
    "two authorities": ("COPY-2", "2 authoritative", lambda w: copy(w, 1, role=Role.AUTHORITATIVE)),
    "no authority": ("COPY-2", "0 authoritative", lambda w: copy(w, 0, role=Role.RETIRING)),
    "a store owns it": ("COPY-2", "authoritative copy is at", lambda w: copy(w, 0, store=True)),
    "a move without a target": ("MOVE-1", "does not fit", lambda w: copy(w, 2, role=Role.REPLICA)),
    "a target that is not listed": ("MOVE-1", "target", lambda w: group(w, target=CopyId(0, 1, 0))),
    "a source that is not the authority": ("MOVE-1", "source", lambda w: group(w, source=w.state.copies[A][1].id)),
    "a target at rest": ("MOVE-1", "does not fit", lambda w: group(w, state=State.LOCAL, source=NO_COPY)),
    "readable without a manifest": ("COPY-1", "not sealed", lambda w: group(w, manifest=b"")),
    "a copy twice": ("COPY-3", "twice", twice),
    "a copy of the future": ("COPY-3", "newer", of_the_future),
    "freeing under a pin": ("USE-1", "FREEING under a pin", lambda w: pinned_replica(w, role=Role.FREEING)),
    "incoming and absent": ("MOVE-2", "absent", lambda w: copy(w, 2, absent=True)),
    "an epoch of the future": ("EPOCH-1", "epoch", lambda w: group(w, epoch=10**6)),
    "no version": ("EPOCH-1", "epoch", lambda w: group(w, version=0)),
    "space not counted": ("CAP-1", "recounted", lambda w: w.state.used.update({N1: 5})),
    "space above capacity": ("CAP-1", "slots used of", no_room),
    "a hold without a session": ("HOLD-2", "no session", lambda w: hold(w, id=HoldId(777, 1, 0))),
    "a hold on no group": ("HOLD-1", "in no record", lambda w: hold(w, group=GroupId(b"x" * 16))),
    "a hold on no copy": ("HOLD-1", "in no record", lambda w: hold(w, kind=HoldKind.PIN, copy=CopyId(0, 1, 0))),
    "a hold that is not counted": ("HOLD-1", "counts differ", hold),
    "a count without a hold": ("HOLD-1", "counts differ", unreferred),
    "progress without a session": ("ONCE-1", "has ended", lambda w: w.state.progress.update({SessionId(777): (0, 1)})),
    "an answer is missing": ("ONCE-1", "lacks an answer", lambda w: w.state.answers.clear()),
    "an answer too many": ("ONCE-1", "outside", too_many),
    "an index that forgot": ("DUR-1", "unsettled", lambda w: w.state.unsettled.clear()),
    "an index that kept": ("DUR-1", "by_block", lambda w: w.state.by_block.setdefault("x", {}).update({A: None})),
    "an order about nothing": ("DUR-1", "ordered", lambda w: w.state.ordered.update({CopyId(0, 1, 9): 3})),
    "a tier of nothing": ("DUR-1", "hints", lambda w: w.state.hints.update({CopyId(0, 1, 9): Tier.SSD})),
    "a use of nothing": ("DUR-1", "access", lambda w: w.state.access.update({GroupId(b"x" * 16): w.state.access[A]})),
    "a lease of nobody": ("DUR-1", "not there", lambda w: w.state.node_leases.update({NodeName("n9"): Lease(9)})),
    "a lease that is not counted": ("DUR-1", "not those that there are", lambda w: w.state.session_due.clear()),
    "a lease counted otherwise than fixed": ("DUR-1", "was fixed to 9", lambda w: w.state.node_leases.update({N1: Lease(9)})),
    "a due that nobody looks at": ("DUR-1", "timed", lambda w: w.state.timed.clear()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_state_is_told_by_its_id_and_its_story(name: str) -> None:
    invariant, words, break_it = BROKEN[name]
    world = scene()
    check_all(world.state, world.config)
    break_it(world)
    with pytest.raises(InvariantViolation, match=words) as caught:
        check_all(world.state, world.config)
    assert caught.value.invariant == invariant
    if invariant in ("COPY-2", "MOVE-1", "USE-1"):
        assert any("AUTHORITATIVE" in line or "copy" in line for line in caught.value.story)


def test_what_is_going_has_nothing_in_the_making_and_evicted_has_nothing() -> None:
    world = World()
    copy_id = world.put("A")
    world.do(c.Evict(A))
    copy(world, 0, role=Role.INCOMING)
    with pytest.raises(InvariantViolation, match="MOVE-1"):
        check_group(world.state, A)
    copy(world, 0, role=Role.FREEING)
    group(world, state=State.EVICTED)
    with pytest.raises(InvariantViolation, match="EVICTED with copies"):
        check_group(world.state, A)
    group(world, state=State.EVICTING, leaving=True)
    with pytest.raises(InvariantViolation, match="HOLD-1"):
        check_group(world.state, A)
    assert copy_id in world.state.group_of


BACKWARDS: dict[str, tuple[str, Callable[[World], object]]] = {
    "term": ("EPOCH-1", lambda w: setattr(w.state, "meta", evolve(w.state.meta, term=0))),
    "clock": ("EPOCH-1", lambda w: setattr(w.state, "meta", evolve(w.state.meta, clock_ms=0))),
    "incarnation": ("EPOCH-1", lambda w: w.state.nodes.update({N1: evolve(w.state.nodes[N1], incarnation=1)})),
    "a node is forgotten": ("EPOCH-1", lambda w: w.state.nodes.pop(N1)),
    "epoch": ("EPOCH-1", lambda w: group(w, epoch=1)),
    "version": ("EPOCH-1", lambda w: group(w, version=1)),
    "state within an epoch": ("OWN-1", lambda w: group(w, state=State.LOCAL)),
    "owner within an epoch": ("OWN-1", lambda w: copy(w, 0, id=CopyId(0, 10**6, 0))),
    "a copy comes back": ("COPY-3", lambda w: w.state.group_of.update({CopyId(0, 1, 0): A}) or came_back(w)),
}


def came_back(world: World) -> None:
    old = evolve(world.state.copies[A][1], id=CopyId(0, 1, 0))
    world.state.copies[A] = (*world.state.copies[A], old)


@pytest.mark.parametrize("name", BACKWARDS)
def test_what_may_never_go_back_is_seen_between_two_states(name: str) -> None:
    invariant, break_it = BACKWARDS[name]
    world = scene()
    before = world.state.copy()
    check_progress(before, world.state)
    break_it(world)
    with pytest.raises(InvariantViolation) as caught:
        check_progress(before, world.state)
    assert caught.value.invariant == invariant


def test_freeing_never_counts_again_between_two_states() -> None:
    world = World()
    world.put("A")
    world.do(c.Evict(A))
    before = world.state.copy()
    copy(world, 0, role=Role.RETIRING)
    with pytest.raises(InvariantViolation, match="COPY-3"):
        check_progress(before, world.state)


def test_every_check_of_the_directory_is_broken_by_a_case_here() -> None:
    """Functions by the ids that they raise; OWN-1's local check can only fail with COPY-2, which is asked first."""
    raised = {case[0] for case in (*BROKEN.values(), *BACKWARDS.values())}
    ours = {name: [f for f in listed.checks if f.__module__ == invariants.__name__] for name, listed in INVARIANTS.items()}
    assert {name for name, checks in ours.items() if checks} <= raised


def test_the_spec_names_every_check_and_only_tests_and_stories_that_there_are() -> None:
    text = (TESTS.parent / "specs" / "invariants.md").read_text(encoding="utf-8")
    checks = {check.__name__ for listed in INVARIANTS.values() for check in listed.checks}
    assert {name for name in checks if f"`{name}`" not in text} == set()
    named = {f"{name}.py" for name in re.findall(r"`(test_\w+)`", text)} | set(re.findall(r"`(scenarios/\w+\.txt)`", text))
    assert {name for name in named if not (TESTS / name).is_file()} == set()


def test_two_owners_are_seen_by_their_own_check() -> None:
    world = scene()
    copy(world, 1, role=Role.AUTHORITATIVE)
    with pytest.raises(InvariantViolation, match="OWN-1"):
        invariants.one_owner(world.state, world.state.groups[A], world.state.copies[A])
