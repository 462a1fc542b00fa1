"""Every limit has a name, a typed refusal, and room for what only gives back (rule 13)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pinfold.core import commands as c
from pinfold.core.answers import KeptAlive, PrefixPinned, Refused, Released, SessionClosed
from pinfold.core.ids import CopyId, State
from pinfold.core.reports import Inventory, StoreScanned
from pinfold.core.state import DirectoryConfig

from .directory_world import CLIENT, N1, N2, STORE, World, id_of, spec_of


def refusal(answer: Any, reason: str, guard: str) -> None:
    assert isinstance(answer, Refused), answer
    assert (answer.refusal.reason, answer.refusal.guard) == (reason, guard)
    assert answer.refusal.detail


def test_window() -> None:
    world = World(window=1)
    low = world.sequences[world.session] + 1
    world.send(world.command(c.ReleaseRequest("r"), sequence=low, low=low))
    refusal(world.send(world.command(c.ReleaseRequest("r"), sequence=low + 1, low=low)).answer, "WindowFull", "window")


def test_batch_items() -> None:
    world = World(batch_items=2)
    items = (c.ReleaseRequest("r"),) * 3
    refusal(world.do(c.Batch(items)), "TooLarge", "batch_items")
    assert len(world.do(c.Batch(items[:2])).items) == 2


def test_sessions_max_and_a_known_token_or_name_still_resumes() -> None:
    world = World(sessions_max=2)
    named = world.open("job", token="t")
    refusal(world.ask(c.OpenSession(CLIENT, "third")), "Overloaded", "sessions_max")
    assert world.ask(c.OpenSession(CLIENT, "t", "job")).session == named
    assert world.ask(c.OpenSession(CLIENT, "another", "job")).session == named
    world.ask(c.CloseSession(CLIENT, "c", named))
    assert world.open() > named


@pytest.mark.parametrize("by", ["pin", "ref", "create", "exists", "prefix"])
def test_session_holds_max(by: str) -> None:
    world = World(session_holds_max=2)
    world.put("A")
    world.put("B")
    world.pin("A")
    hold = world.ref("A")
    bodies = {
        "pin": c.Pin(id_of("A")),
        "ref": c.Ref(id_of("A")),
        "create": c.Create(spec_of("C"), N1),
        "exists": c.Create(spec_of("A"), N1),
        "prefix": c.PinPrefix((id_of("A"), id_of("B"))),
    }
    refusal(world.do(bodies[by]), "TooManyHolds", "session_holds_max")
    world.do(c.Unref(hold))
    answer = world.do(bodies[by])
    assert not isinstance(answer, Refused)
    if isinstance(answer, PrefixPinned):
        assert len(answer.holds) == 1, "a run that the limit ends is a run"


def test_groups_max_and_what_is_there_can_still_be_used() -> None:
    world = World(groups_max=1)
    world.put("A")
    refusal(world.do(c.Create(spec_of("B"), N1)), "Overloaded", "groups_max")
    world.do(c.Create(spec_of("A"), N1))
    world.pin("A")


def test_group_blocks_max() -> None:
    world = World(group_blocks_max=2)
    refusal(world.do(c.Create(spec_of("A", 3), N1)), "TooLarge", "group_blocks_max")
    world.create("A", blocks=2)


@pytest.mark.parametrize("body", ["locate", "prefix"])
def test_locate_groups_max(body: str) -> None:
    world = World(locate_groups_max=2)
    world.put("A")
    many = (id_of("A"),) * 3
    answer = world.query(c.Locate(CLIENT, "l", many)) if body == "locate" else world.do(c.PinPrefix(many))
    refusal(answer, "TooLarge", "locate_groups_max")
    assert len(world.do(c.PinPrefix(many[:2])).holds) == 2


@pytest.mark.parametrize("limit", [0, 4, -1])
def test_list_max(limit: int) -> None:
    world = World(list_max=3)
    refusal(world.query(c.ListGroups(CLIENT, "p", limit=limit)), "BadRequest", "list_max")


def test_waiters_max() -> None:
    world = World(waiters_max=1)
    world.create("A")
    world.step(c.Await(CLIENT, "one", "readable", id_of("A"), timeout_ms=1_000))
    refusal(world.ask(c.Await(CLIENT, "two", "readable", id_of("A"), timeout_ms=1_000)), "Overloaded", "waiters_max")
    world.tick(1_000)
    world.step(c.Await(CLIENT, "three", "readable", id_of("A"), timeout_ms=1_000))
    assert len(world.state.waiters) == 1


def test_inventory_parts_max() -> None:
    world = World(inventory_parts_max=2)
    world.changes_nothing(Inventory(N1, world.incarnation(N1), 1, 0, 99, 0, 3, ()))
    assert world.counter("bad_inventories") == 1
    assert not world.state.arriving


def test_scan_objects_max() -> None:
    world = World(stores=5, scan_objects_max=1)
    world.tick(1)
    world.report(N1, StoreScanned(STORE, 1, world.state.scans[STORE].number, (CopyId(0, 1, 0), CopyId(0, 2, 0))))
    assert world.counter("stale_scans") == 1


def test_what_only_gives_back_is_never_refused_for_load() -> None:
    """At every limit at once: release, close, reports, KeepAlive, Heartbeat still count (finding 21)."""
    world = World(N1, N2, capacity=2, sessions_max=2, session_holds_max=2, groups_max=2, waiters_max=1)
    copy = world.put("A")
    created = world.create("B", N1)
    pin = world.pin("A")
    other = world.open()
    world.step(c.Await(CLIENT, "w", "gone", id_of("A"), timeout_ms=60_000))
    refusal(world.ask(c.OpenSession(CLIENT, "more")), "Overloaded", "sessions_max")
    refusal(world.do(c.Create(spec_of("D"), N1)), "TooManyHolds", "session_holds_max")
    refusal(world.do(c.Create(spec_of("D"), N1), other), "Overloaded", "groups_max")

    assert isinstance(world.ask(c.KeepAlive(CLIENT, "k", world.session)), KeptAlive)
    assert world.beat(N1).incarnation == world.incarnation(N1)
    world.sealed(created.copy)
    assert world.is_in("B", State.LOCAL)
    assert isinstance(world.do(c.Unpin(pin)), Released)
    assert world.do(c.ReleaseRequest("")).released == 0
    assert not isinstance(world.do(c.Evict(id_of("A"))), Refused)
    world.freed(copy)
    assert world.role(copy) is None
    assert isinstance(world.ask(c.CloseSession(CLIENT, "c", other)), SessionClosed)


def test_key_chars_max() -> None:
    world = World(N1, key_chars_max=20)
    refusal(world.do(c.Create(spec_of("A" * 21), N1)), "TooLarge", "key_chars_max")
    world.create("A")


def test_lost_told_max() -> None:
    limited = 2
    world = World(N1, lost_told_max=limited)
    copies = [world.put(name) for name in "ABC"]
    holds = [world.pin(name) for name in "ABC"]
    for copy in copies:
        world.lost(copy)
    told = world.query(c.KeepAlive(CLIENT, "k", world.session))
    assert told.lost == tuple(holds[:limited])
    for hold in told.lost:
        world.do(c.Unpin(hold))
    assert world.query(c.KeepAlive(CLIENT, "k2", world.session)).lost == (holds[2],)


TESTED_ELSEWHERE = {
    "stores", "node_lease_ms", "absent_limit_ms", "grace_ms", "write_ms", "move_ms", "max_step_ms", "lease_save_ms", "repair_ms",
    "scan_ms", "backoff_ms", "backoff_ms_max", "retry_after_ms", "wait_ms_max", "eviction", "placement", "high", "low", "spill",
    "checks", "check_all_every", "session_lease_ms_min", "session_lease_ms_max", "name_chars_max", "housekeeping_items",
    "drain_moves_max", "spill_moves_max",
}  # fmt: skip
"""Durations, marks and switches: in test_housekeeping, test_membership, test_migration, test_sessions, test_reconcile."""


def test_every_named_limit_has_a_test_here() -> None:
    names = {field.name for field in attrs.fields(DirectoryConfig)}
    here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {name for name in names - TESTED_ELSEWHERE if not any(name in test for test in here)} == set()
    assert names >= TESTED_ELSEWHERE
