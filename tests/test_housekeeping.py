"""What time decides (rules 10, 11, 14): the directory's clock, alarms, and making room."""

from __future__ import annotations

import pytest

from pinfold.backends.memory import MemoryStore
from pinfold.core import commands as c
from pinfold.core import orders
from pinfold.core.answers import Refused
from pinfold.core.directory import Directory
from pinfold.core.events import Tick
from pinfold.core.ids import Reason, Role, State
from pinfold.core.state import RECORD_TYPES, DirectoryConfig

from .directory_world import CLIENT, N1, N2, STORE, World, id_of, spec_of

# ---- the clock -----------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    return World()


def clock(world: World) -> int:
    return world.state.meta.clock_ms


def test_a_jump_of_the_callers_clock_counts_as_one_step_at_most(world: World) -> None:
    """A directory that was paused for an hour must not expire everybody (finding 22)."""
    before = clock(world)
    world.tick(3_600_000)
    assert clock(world) == before + world.config.max_step_ms
    assert len(world.state.sessions) == 1
    assert all(node.alive for node in world.state.nodes.values())


def test_a_pause_is_one_step_in_every_life_of_a_directory_and_what_is_between_them_is_none() -> None:
    """Nobody's lease is over because a process stood still or was not there (rule 10, finding 22)."""
    config, store = DirectoryConfig(), MemoryStore(RECORD_TYPES, store_id="bare")
    state, now = Directory.blank("bare"), 0
    began = state.meta.clock_ms
    for life in range(1, 4):
        directory = Directory(config, state)
        store.commit(directory.start(now).persist)
        store.commit(directory.step(c.OpenSession(CLIENT, f"life {life}"), now + 3_600_000).persist)
        assert directory.state.meta.clock_ms == began + life * config.max_step_ms
        assert len(directory.state.sessions) == life
        state, now = Directory.load(store.load()), now + 10**9


def test_a_clock_that_goes_back_stands_still(world: World) -> None:
    world.tick(500)
    before = clock(world)
    world.now -= 400
    world.tick()
    world.now += 300
    world.tick()
    assert clock(world) == before
    world.tick(200)
    assert clock(world) == before + 100


def test_the_clock_is_persisted_with_each_commit_and_not_for_a_look(world: World) -> None:
    world.tick(700)
    world.query(c.Locate(CLIENT, "l", (id_of("A"),)))
    assert world.ready.persist == ()
    world.put("A")
    assert world.store.load()["meta"]["meta"].clock_ms == clock(world)


def test_a_restart_neither_resets_nor_shortens_a_lease(world: World) -> None:
    """Directory time stands still while no directory runs; leases of callers begin anew."""
    session = world.open(lease_ms=2_000)
    world.advance(1_500, alive=False)
    world.restart(pause_ms=10**7)
    assert session in world.state.sessions
    world.advance(1_500, alive=False)
    assert session in world.state.sessions
    world.advance(1_000, alive=False)
    assert session not in world.state.sessions


def test_a_restart_keeps_what_is_due(world: World) -> None:
    """Grace and deadlines are facts: they go on where they were, less what was not committed."""
    copy = world.put("A")
    world.moved("A")
    due = world.copy(copy).due
    world.restart(pause_ms=50_000)
    assert world.copy(copy).due == due
    world.advance(1_000)
    assert world.role(copy) is Role.FREEING


# ---- alarms --------------------------------------------------------------------------------------------------


def test_the_alarm_names_the_next_thing_that_is_due_and_a_tick_before_it_does_nothing(world: World) -> None:
    session = world.open(lease_ms=800)
    world.tick()
    assert world.ready.alarm == world.now + 800
    world.now += 799
    ready = world.changes_nothing(Tick())
    assert ready.alarm == world.now + 1
    world.tick(1)
    assert session not in world.state.sessions


def test_early_ticks_are_harmless(world: World) -> None:
    world.put("A")
    world.move("A")
    world.tick()
    for _ in range(5):
        world.changes_nothing(Tick())


def test_a_late_tick_does_all_that_is_overdue_once(world: World) -> None:
    copy = world.put("A")
    world.moved("A")
    created = world.do(c.Create(spec_of("B"), N1, write_ms=100))
    world.tick(1_000)
    assert world.role(copy) is Role.FREEING
    assert world.is_in("B", State.EVICTING)
    world.changes_nothing(Tick())
    assert created.copy in [order.copy for order in world.orders(orders.Free)]


def test_the_alarm_is_a_level_that_each_step_says_anew(world: World) -> None:
    world.put("A")
    world.tick()
    far = world.ready.alarm
    created = world.do(c.Create(spec_of("B"), N1, write_ms=100))
    assert world.ready.alarm == world.now + 100
    world.failed(created.copy)
    world.tick()
    assert world.ready.alarm == far


def test_a_wait_has_its_deadline_and_is_told(world: World) -> None:
    world.create("A")
    world.tick()
    world.step(c.Await(CLIENT, "w", "readable", id_of("A"), timeout_ms=300))
    assert world.ready.alarm == world.now + 300
    world.tick(300)
    assert [reply.message.answer.outcome for reply in world.ready.reply] == ["timeout"]
    assert not world.state.waiters


def test_a_retiring_copy_without_grace_goes_at_the_first_tick_of_a_directory_s_life() -> None:
    """A due of 0 would mean none: the clock begins at 1."""
    world = World(N1, N2, grace_ms=0)
    copy = world.put("A")
    hold = world.pin("A")
    world.moved("A", N2, allow_pinned=True)
    world.do(c.Evict(id_of("A")))
    world.do(c.Unpin(hold))
    assert world.now == 0
    world.tick()
    assert world.role(copy) is Role.FREEING


# ---- bounds --------------------------------------------------------------------------------------------------


def test_each_pass_is_bounded_and_the_rest_is_done_at_once_after() -> None:
    world = World(N1, N2, housekeeping_items=2)
    copies = [world.put(name) for name in "ABCDE"]
    for name in "ABCDE":
        world.moved(name)
    world.advance(600)
    ticks = 0
    while any(world.role(copy) is Role.RETIRING for copy in copies):
        assert world.ready.alarm == world.now, "what is left over is due already"
        world.tick()
        ticks += 1
    assert ticks == 1  # `advance` made two ticks, of two copies each


def test_records_of_what_has_gone_are_forgotten_in_bounded_passes() -> None:
    world = World(N1, housekeeping_items=2)
    for name in "ABCDE":
        copy = world.put(name)
        world.do(c.Evict(id_of(name)))
        world.freed(copy)
    assert len(world.state.groups) == 5
    left = []
    for _ in range(3):
        world.tick()
        left.append(len(world.state.groups))
    assert left == [3, 1, 0]


# ---- watermarks ----------------------------------------------------------------------------------------------


def gone(world: World, names: str) -> str:
    return "".join(name for name in names if not world.is_in(name, State.LOCAL))


def test_above_the_high_mark_the_coldest_go_until_the_low_mark() -> None:
    world = World(N1, capacity=20, high=900, low=700)
    names = "ABCDEFGHIJKLMNOPQRS"
    for name in names[:18]:
        world.put(name)
    world.tick()
    assert gone(world, names[:18]) == "", "at the mark is not above it"
    world.do(c.Pin(id_of("A")))
    world.put("S")
    world.tick()
    assert gone(world, names) == "BCDEF", "19 in use, 14 at the low mark; A was used last"


def test_the_step_that_crosses_the_high_mark_asks_for_a_tick_at_once() -> None:
    """Relief is the Tick's: without the wake-up a node would stay above its mark until something else is due."""
    world = World(N1, capacity=20, high=900, low=500)
    for number in range(9):
        world.tick()
        world.create(f"g{number}", blocks=2)
    assert world.ready.alarm is not None
    assert world.ready.alarm > world.now, "18 of 20 slots are the mark, not above it"
    world.create("more", blocks=2)
    assert world.ready.alarm == world.now


def test_what_is_on_its_way_out_is_not_asked_for_twice() -> None:
    """Freeing copies still count as used: without seeing that they leave, each Tick would evict as much again."""
    world = World(N1, capacity=10, high=800, low=500)
    for name in "ABCDEFGHI":
        world.put(name)
    for _ in range(4):
        world.tick(100)
    assert gone(world, "ABCDEFGHI") == "ABCD"
    world = World(N1, N2, capacity=10, high=800, low=500)
    for name in "ABCDEFGHI":
        world.put(name)
    for name in "GHI":
        world.moved(name)
    world.advance(1_000)
    assert gone(world, "ABCDEF") == "A", "G, H and I were leaving, first in grace, then freeing"


def test_a_pinned_retiring_copy_is_no_promise_of_room() -> None:
    """Its holder may keep it for long: other groups have to go for who waits."""
    world = World(N1, N2, capacity=2, high=1000, low=1000)
    world.put("A", N1)
    world.pin("A")
    world.moved("A", N2, allow_pinned=True)
    other = world.put("B", N1)
    world.put("C", N2)
    world.refused(c.Create(spec_of("D"), N1), "NoSpace")
    world.tick()
    assert world.role(other) is Role.FREEING


def test_held_groups_never_go_and_the_next_hold_that_ends_asks_for_another_look() -> None:
    world = World(N1, capacity=4, high=700, low=500)
    pins = {name: (world.put(name), world.pin(name))[1] for name in "ABC"}
    world.put("D")
    world.ref("D")
    world.tick()
    assert gone(world, "ABCD") == ""
    assert world.state.strained
    world.do(c.Unpin(pins["B"]))
    assert world.ready.alarm == world.now
    world.tick()
    assert gone(world, "ABCD") == "B"


def test_leaves_go_first_and_a_parent_may_follow_its_last_child() -> None:
    world = World(N1, capacity=6, high=900, low=900)
    for name, parent in (("A", ""), ("B", "A"), ("C", ""), ("D", ""), ("E", "B"), ("F", "")):
        world.put(name, parent=id_of(parent) if parent else None)
    world.tick()
    assert gone(world, "ABCDEF") == "C", "A is colder, but B needs it; B is colder, but E needs it"
    for name in "DF":
        world.do(c.Unpin(world.pin(name)))
    world.refused(c.Create(spec_of("G", 4), N1), "NoSpace")
    world.tick()
    freed = [world.group(name).spec.key.prefix for name in "EBA" if gone(world, name)]
    victims = [order.copy for order in world.orders(orders.Free)]
    assert freed == ["E", "B", "A"]
    assert [world.state.groups[world.state.group_of[copy]].spec.key.prefix for copy in victims] == ["C", "E", "B", "A"]


def test_pressure_from_a_refused_create_evicts_only_what_is_needed() -> None:
    world = World(N1, capacity=6, high=1000, low=1000)
    for name in "ABCDEF":
        world.put(name)
    world.tick()
    assert gone(world, "ABCDEF") == ""
    world.refused(c.Create(spec_of("G", 2), N1), "NoSpace")
    world.tick()
    assert gone(world, "ABCDEF") == "AB"


def test_what_never_fits_makes_nobody_go() -> None:
    world = World(N1, capacity=4, high=1000, low=1000)
    world.put("A")
    refusal = world.refused(c.Create(spec_of("B", 9), N1), "TooLarge")
    assert refusal.guard == "group_slots"
    world.tick()
    assert gone(world, "A") == ""


@pytest.mark.parametrize(("policy", "victim"), [("lru", "B"), ("fifo", "A"), ("lfu", "C"), ("ttl", "D"), ("cost", "E")])
def test_each_policy_by_its_name_picks_its_own_victim(policy: str, victim: str) -> None:
    world = World(N1, capacity=6, high=950, low=900, eviction=policy)
    for name in "ABC":
        world.put(name, recompute_cost=50)
    world.put("D", recompute_cost=50, ttl_ms=100)
    world.put("E", blocks=2)
    for name in "BBCADDAEE":
        blocks = 2 if name == "E" else 1
        world.do(c.Unpin(world.pin(name, blocks=blocks)))
    world.tick(200)
    went = [name for name in "ABCDE" if not world.is_in(name, State.LOCAL, 2 if name == "E" else 1)]
    assert went == [victim]


# ---- spilling ------------------------------------------------------------------------------------------------


def test_victims_go_to_the_store_instead_where_that_is_configured() -> None:
    world = World(N1, capacity=4, stores=1, spill=True, high=700, low=500)
    copies = {name: world.put(name) for name in "ABC"}
    world.tick()
    assert [order.source_copy for order in world.orders(orders.Spill, N1)] == [copies["A"]]
    world.done(world.group("A").target)
    assert world.is_in("A", State.REMOTE)
    world.put("D")
    world.advance(600)
    world.tick()
    assert world.is_in("B", State.EVICTING), "the store is full"


def names_in(world: World, state: State) -> str:
    return "".join(name for name in "ABCDEFGHIJ" if world.is_in(name, state))


def test_a_node_gets_no_more_spills_at_once_than_it_may_and_other_victims_wait() -> None:
    world = World(N1, capacity=10, stores=10, spill=True, high=900, low=300, spill_moves_max=2)
    for name in "ABCDEFGHIJ":
        world.put(name)
    world.tick()
    assert (names_in(world, State.MIGRATING_OUT), names_in(world, State.LOCAL)) == ("AB", "CDEFGHIJ")
    world.advance(600)
    assert (names_in(world, State.MIGRATING_OUT), names_in(world, State.LOCAL)) == ("AB", "CDEFGHIJ"), "they wait"
    for name in "AB":
        [copy] = [copy.id for copy in world.state.copies[id_of(name)] if copy.node == N1]
        world.done(world.group(name).target)
        world.advance(600)
        world.freed(copy)
    assert names_in(world, State.REMOTE) == "AB"
    assert names_in(world, State.EVICTING) == ""


def test_where_somebody_waits_for_room_victims_beyond_the_spills_are_evicted() -> None:
    world = World(N1, capacity=10, stores=10, spill=True, high=1000, low=900, spill_moves_max=2)
    for name in "ABCDEFGHIJ":
        world.put(name)
    world.refused(c.Create(spec_of("K", 5), N1), "NoSpace")
    world.tick()
    assert names_in(world, State.MIGRATING_OUT) == "AB"
    assert names_in(world, State.EVICTING) == "CDE"


def test_a_full_store_makes_room_by_eviction() -> None:
    world = World(N1, stores=2, high=900, low=500)
    for name in "AB":
        world.put(name)
        world.moved(name, STORE)
    world.tick()
    assert world.group("A").state is State.EVICTING
    assert world.group("A").reason is Reason.EVICTED
    assert world.is_in("B", State.REMOTE)


def test_relief_looks_again_until_it_has_what_it_needs() -> None:
    world = World(N1, capacity=2, high=1000, low=1000)
    world.put("A", blocks=2)
    pin = world.pin("A", blocks=2)
    answer = world.do(c.Create(spec_of("B"), N1))
    assert isinstance(answer, Refused)
    world.tick()
    assert world.is_in("A", State.LOCAL, 2)
    world.do(c.Unpin(pin))
    world.refused(c.Create(spec_of("B"), N1), "NoSpace")
    world.tick()
    assert world.is_in("A", State.EVICTING, 2)
