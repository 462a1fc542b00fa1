"""Leases over restarts (rule 10): fixed by a start, lifted by the holder's word, never given twice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pinfold.backends.base import StoreVersion
from pinfold.backends.lmdb import LmdbStore
from pinfold.core import commands as c
from pinfold.core.directory import Directory
from pinfold.core.errors import InvariantViolation
from pinfold.core.events import Tick
from pinfold.core.ids import SessionId
from pinfold.core.invariants import check_progress
from pinfold.core.state import FORMAT, RECORD_TYPES, DirectoryConfig, Lease

from .directory_world import CLIENT, N1, N2, World, id_of

LEASE_MS = 2_000


@pytest.fixture
def world() -> World:
    world = World()
    world.put("A")
    return world


def fixed(world: World) -> tuple[set[SessionId], set[str]]:
    return set(world.state.session_leases), set(world.state.node_leases)


def written(world: World) -> list[tuple[str, object]]:
    return [(table, key) for table, key, _ in world.ready.persist]


def test_a_directory_that_was_never_restarted_has_written_down_no_lease(world: World) -> None:
    world.advance(5_000)
    assert fixed(world) == (set(), set())
    assert not {"session_leases", "node_leases"} & {name for name, rows in world.store.load().items() if rows}


def test_a_start_fixes_every_lease_in_the_commit_of_its_term(world: World) -> None:
    other = world.open(lease_ms=LEASE_MS)
    world.restart()
    now = world.state.meta.clock_ms
    assert world.state.session_leases == {world.session: Lease(now + 10_000), other: Lease(now + LEASE_MS)}
    assert world.state.node_leases == dict.fromkeys((N1, N2), Lease(now + world.config.node_lease_ms))
    assert world.store.load()["session_leases"] == world.state.session_leases


@pytest.mark.parametrize("by", ["command", "keepalive", "refusal", "repeated number", "opening again"])
def test_whatever_a_session_says_lifts_what_was_fixed_and_once_is_enough(world: World, by: str) -> None:
    session = world.ask(c.OpenSession(CLIENT, "t", "", LEASE_MS)).session
    done = world.command(c.Pin(id_of("A")), session)
    world.send(done)
    said = {
        "command": world.command(c.Cancel(), session, sequence=2),
        "keepalive": c.KeepAlive(CLIENT, "k", session),
        "refusal": world.command(c.Cancel(), session, sequence=9),
        "repeated number": done,
        "opening again": c.OpenSession(CLIENT, "t", "", LEASE_MS),
    }[by]
    world.restart()
    world.now += 700
    world.step(said)
    assert ("session_leases", session) in written(world)
    assert session not in world.state.session_leases
    assert world.state.session_due[session] == world.state.meta.clock_ms + LEASE_MS
    world.step(said)
    assert ("session_leases", session) not in written(world)


def test_a_node_that_has_lapsed_has_no_lease_to_fix_and_those_after_it_have(world: World) -> None:
    world.lapse(N1)
    world.restart()
    assert list(world.state.nodes) == [N1, N2]
    assert set(world.state.node_leases) == set(world.state.node_due) == {N2}


@pytest.mark.parametrize("whose", ["session", "node"])
def test_one_silent_holder_of_either_kind_is_enough_for_time_to_be_kept(world: World, whose: str) -> None:
    world.restart()
    for name in (N1, N2) if whose == "session" else (N1,):
        world.beat(name)
    if whose == "node":
        world.ask(c.KeepAlive(CLIENT, "k", world.session))
    assert (bool(world.state.session_leases), bool(world.state.node_leases)) == (whose == "session", whose == "node")
    saved = world.state.saved_ms
    world.tick(world.config.lease_save_ms - 1)
    assert world.ready.persist == ()
    world.tick(1)
    assert written(world) == [("meta", "meta")]
    assert world.state.saved_ms == saved + world.config.lease_save_ms


def test_a_heartbeat_and_a_registration_of_the_same_boot_lift_what_was_fixed(world: World) -> None:
    world.restart()
    world.beat(N1)
    assert ("node_leases", N1) in written(world)
    world.beat(N1)
    assert world.ready.persist == ()
    world.register(N2)
    assert fixed(world)[1] == set()
    assert world.state.nodes[N2].incarnation < world.state.meta.revision


def test_who_goes_takes_its_record_along(world: World) -> None:
    """Closed, expired, lapsed, replaced by another boot."""
    other = world.open(lease_ms=LEASE_MS)
    world.restart()
    world.ask(c.CloseSession(CLIENT, "c", world.session))
    world.boots[N2] = "another"
    world.register(N2, over=world.state.nodes[N2].incarnation)
    assert fixed(world) == ({other}, {N1})
    world.advance(world.config.node_lease_ms, alive=False)
    assert other not in world.state.sessions
    assert not world.state.nodes[N1].alive
    assert fixed(world) == (set(), set())


def test_a_living_holder_has_its_full_length_after_every_start(world: World) -> None:
    session = world.open(lease_ms=LEASE_MS)
    for _ in range(6):
        world.restart()
        world.advance(600, alive=False)
        world.ask(c.KeepAlive(CLIENT, "k", session))
        world.advance(600, alive=False)
    assert session in world.state.sessions


def test_a_silent_holder_is_over_one_lease_after_the_first_start_whatever_the_later_ones_are(world: World) -> None:
    session = world.open(lease_ms=LEASE_MS)
    world.restart()
    over = world.state.meta.clock_ms + LEASE_MS
    while session in world.state.sessions:
        assert world.state.session_due[session] == over
        world.advance(500, alive=False)
        world.open()  # a commit, so that no time is lost
        world.restart()
    assert over <= world.state.meta.clock_ms <= over + 500


def test_time_alone_is_written_when_a_fixed_lease_counts_by_it_and_then_once_in_save_ms(world: World) -> None:
    world.restart()
    times = []
    for _ in range(23):
        world.tick(125)
        if world.ready.persist and world.state.node_leases:
            assert written(world) == [("meta", "meta")]
            times.append(world.state.meta.clock_ms)
    assert [later - earlier for earlier, later in pairwise(times)] == [world.config.lease_save_ms]
    world.renew()
    world.tick(125)
    for _ in range(20):
        world.renew()
        world.now += 125
        assert world.step(Tick()).persist == ()


def test_a_lease_that_a_start_fixes_anew_is_seen_between_two_states(world: World) -> None:
    world.restart()
    before = world.state.copy()
    check_progress(before, world.state)
    world.state.node_leases[N1] = Lease(10**9)
    with pytest.raises(InvariantViolation, match=r"DUR-1.*was fixed to"):
        check_progress(before, world.state)


def test_a_store_of_before_is_read_and_one_with_leases_is_refused_by_what_does_not_know_them(tmp_path: Path) -> None:
    before = {table: kind for table, kind in RECORD_TYPES.items() if not table.endswith("_leases")}
    with LmdbStore(tmp_path, before, owner="directory/0", shard=0, versions=FORMAT) as store:
        directory = Directory(DirectoryConfig(), Directory.blank(store.identity.store_id))
        directory.start(0)
        store.commit((("meta", "meta", directory.state.meta),))
        store.commit(directory.step(c.OpenSession(CLIENT, "t", "", LEASE_MS), 5).persist)
    with LmdbStore(tmp_path, RECORD_TYPES, owner="directory/0", shard=0, versions=FORMAT) as store:
        again = Directory(DirectoryConfig(), Directory.load(store.load()))
        store.commit(again.start(9).persist)
        (session,) = again.state.sessions
        assert again.state.session_leases == {session: Lease(again.state.meta.clock_ms + LEASE_MS)}
    older = LmdbStore(tmp_path, before, owner="directory/0", shard=0, versions=FORMAT)
    with older as store, pytest.raises(StoreVersion, match="session_leases"):
        store.load()
