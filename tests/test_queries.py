"""What may be asked: Locate, pages, Describe, Status, Explain, Await. Nothing is changed by asking."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core.answers import Awaited, Described, Explained, Located, Refused, Told
from pinfold.core.ids import NO_COPY, GroupId, HoldKind, MovePolicy, NodeName, Reason, Role, State, Tier
from pinfold.core.reports import Heartbeat, TierFill

from .directory_world import CLIENT, MANIFEST, N1, N2, N3, STORE, World, id_of, spec_of


@pytest.fixture
def world() -> World:
    return World(N1, N2, N3, stores=50)


def locate(world: World, names: str, **more: object) -> Located:
    answer = world.query(c.Locate(CLIENT, "l", tuple(id_of(name) for name in names), **more))  # type: ignore[arg-type]
    assert isinstance(answer, Located)
    return answer


# ---- Locate --------------------------------------------------------------------------------------------------


def test_locate_gives_the_longest_readable_run_and_says_where_and_why_it_stops(world: World) -> None:
    for name in "ABD":
        world.put(name)
    world.create("C")
    located = locate(world, "ABCD")
    assert [route.group for route in located.routes] == [id_of("A"), id_of("B")]
    assert (located.stop, located.state) == (id_of("C"), State.WRITING)
    located = locate(world, "AX")
    assert (located.stop, located.state) == (id_of("X"), -1)
    located = locate(world, "AB")
    assert (located.stop, located.state) == (b"", -1)


def test_locate_without_prefix_gives_every_readable_one(world: World) -> None:
    for name in "AC":
        world.put(name)
    located = locate(world, "ABC", prefix=False)
    assert [route.group for route in located.routes] == [id_of("A"), id_of("C")]
    assert located.stop == id_of("B")


def test_a_route_names_what_a_reader_needs(world: World) -> None:
    copy = world.put("A", blocks=2)
    (route,) = world.query(c.Locate(CLIENT, "l", (id_of("A", 2),))).routes
    assert (route.copy, route.node, route.address, route.tier) == (copy, N1, "node/n1", Tier.DRAM)
    assert (route.epoch, route.manifest, route.blocks, route.size_bytes) == (world.group("A", 2).epoch, MANIFEST, 2, 8192)
    assert not route.moving


def test_a_copy_near_the_reader_is_preferred_then_the_authoritative_one_then_a_store(world: World) -> None:
    copy = world.put("A")
    replica = world.replica("A", N2)
    assert locate(world, "A", near=N2).routes[0].copy == replica
    assert locate(world, "A", near=N3).routes[0].copy == copy
    stored = world.moved("A", STORE)
    assert world.role(stored) is Role.AUTHORITATIVE
    assert locate(world, "A").routes[0].copy == replica, "nodes before stores"
    world.lost(replica)
    route = locate(world, "A").routes[0]
    assert (route.copy, route.address) == (stored, "")


def test_locate_counts_as_a_use_unless_it_only_looks(world: World) -> None:
    world.put("A")
    world.put("B")
    before = dict(world.state.access)
    locate(world, "A", touch=False)
    assert world.state.access == before
    locate(world, "A")
    assert world.state.access[id_of("A")].count == before[id_of("A")].count + 1
    assert world.state.access[id_of("A")].touch > world.state.access[id_of("B")].touch


def test_answers_carry_the_term_and_revision_at_which_they_were_true(world: World) -> None:
    world.put("A")
    world.restart()
    (reply,) = world.step(c.Locate(CLIENT, "token", (id_of("A"),))).reply
    assert isinstance(reply.message, Told)
    assert (reply.target, reply.message.token, reply.message.shard) == (CLIENT, "token", 0)
    assert (reply.message.term, reply.message.revision) == (2, world.state.meta.revision)


# ---- Describe and pages --------------------------------------------------------------------------------------


def test_describe_shows_the_whole_record_and_who_holds_it(world: World) -> None:
    copy = world.put("A", priority=3)
    job = world.open("job")
    pin, ref = world.pin("A", job, request="r"), world.ref("A")
    move = world.move("A", N2, allow_pinned=True)
    described = world.query(c.Describe(CLIENT, "d", id_of("A")))
    assert isinstance(described, Described)
    assert (described.state, described.move, described.move_source) == (State.MIGRATING_OUT, move, copy)
    assert [(line.copy, line.role, line.pins) for line in described.copies] == [
        (copy, Role.AUTHORITATIVE, 1),
        (move, Role.INCOMING, 0),
    ]
    lines = {line.hold: (line.kind, line.copy, line.request, line.session_name) for line in described.holds}
    assert lines == {pin: (HoldKind.PIN, copy, "r", "job"), ref: (HoldKind.REF, NO_COPY, "", "")}
    assert described.access_count == 3
    assert isinstance(world.query(c.Describe(CLIENT, "d", id_of("X"))), Refused)


def test_pages_follow_the_order_of_ids_and_meet_every_group_once(world: World) -> None:
    for name in "ABCDEFG":
        world.put(name)
    seen: list[GroupId] = []
    after, more = GroupId(b""), True
    while more:
        page = world.query(c.ListGroups(CLIENT, "p", after, 3))
        seen += [line.group for line in page.groups]
        after, more = seen[-1], page.more
    assert seen == sorted(world.state.groups)


def test_a_block_that_groups_share_leads_to_all_of_them_that_there_are(world: World) -> None:
    """The index of blocks has a list for each: whoever comes adds itself, whoever is forgotten leaves the others there."""

    def sharing() -> list[GroupId]:
        return [line.group for line in world.query(c.ListGroups(CLIENT, "", block="shared")).groups]

    copies = {name: world.put(name, block_ids=("shared",)) for name in "ABC"}
    assert sharing() == sorted(map(id_of, "ABC"))
    world.do(c.Evict(id_of("A")))
    world.freed(copies["A"])
    world.tick()
    assert id_of("A") not in world.state.groups
    assert sharing() == sorted(map(id_of, "BC"))


def test_a_page_is_filtered_by_request_block_node_tenant_and_model(world: World) -> None:
    world.put("A", N1, request="r1")
    world.put("B", N2, request="r1")
    world.put("C", N2, request="r2")

    def names(**filters: str) -> str:
        page = world.query(c.ListGroups(CLIENT, "p", **filters))  # type: ignore[arg-type]
        return "".join(sorted(line.prefix for line in page.groups))

    assert names(request="r1") == "AB"
    assert names(block="C0") == "C"
    assert names(node=N2) == "BC"
    assert names(request="r1", node=N2) == "B"
    assert names(tenant="t", model="m") == "ABC"
    assert names(tenant="other") == names(model="other") == names(request="none") == ""


def test_a_line_of_a_page_sums_a_group_up(world: World) -> None:
    world.put("A", blocks=2)
    world.pin("A", blocks=2)
    world.do(c.Ref(id_of("A", 2)))
    (line,) = world.query(c.ListGroups(CLIENT, "p")).groups
    assert (line.node, line.tier, line.copies, line.pins, line.refs) == (N1, Tier.DRAM, 1, 1, 1)
    assert (line.size_bytes, line.blocks, line.prefix, line.state) == (8192, 2, "A", State.LOCAL)


def test_a_re_created_group_is_found_by_its_new_request_and_no_longer_by_the_old(world: World) -> None:
    world.put("A", request="old")
    world.do(c.Evict(id_of("A")))
    world.create("A", request="new")
    assert world.query(c.ListGroups(CLIENT, "p", request="old")).groups == ()
    assert len(world.query(c.ListGroups(CLIENT, "p", request="new")).groups) == 1


# ---- Status --------------------------------------------------------------------------------------------------


def test_status_tells_of_nodes_stores_sessions_and_what_was_counted(world: World) -> None:
    world.put("A")
    world.pin("A")
    world.refused(c.Pin(id_of("X")), "UnknownGroup")
    fill = (TierFill(Tier.DRAM, 100, 1, 4),)
    world.step(Heartbeat(N1, world.incarnation(N1), 1, 9, fill, ("guard 3 on c0.4.0 for 40000 ms",)))
    world.lapse(N3)
    status = world.query(c.Status(CLIENT, "s"))
    lines = {line.node: line for line in status.nodes}
    assert list(lines) == [N1, N2, N3, STORE]
    assert (lines[N1].used, lines[N1].quarantined, lines[N1].copies, lines[N1].ready) == (1, 0, 1, True)
    assert not lines[N3].alive
    assert (lines[STORE].store, lines[STORE].capacity) == (True, 50)
    assert (status.sessions, status.groups, status.holds) == (1, 1, 1)
    counters = dict(status.counters)
    assert counters["refused_UnknownGroup"] == counters["lapses"] == 1
    assert list(counters) == sorted(counters)


def test_what_a_node_reports_as_stuck_or_quarantined_is_shown_and_counted() -> None:
    world = World(N1, capacity=10)
    world.step(Heartbeat(N1, world.incarnation(N1), 1, 0, (TierFill(Tier.DRAM, 10, 0, 6),), ("guard 3",)))
    (line,) = world.query(c.Status(CLIENT, "s")).nodes
    assert (line.stuck, line.quarantined) == (("guard 3",), 6)
    world.refused(c.Create(spec_of("A", 5), N1), "NoSpace")
    world.create("B", N1, 4)


# ---- Explain -------------------------------------------------------------------------------------------------


def explain(world: World, body: object) -> Explained:
    answer = world.query(c.Explain(CLIENT, "e", world.session, body))  # type: ignore[arg-type]
    assert isinstance(answer, Explained)
    return answer


def test_explain_names_the_refusal_and_shows_each_guard_of_the_row(world: World) -> None:
    copy = world.put("A")
    hold = world.pin("A")
    explained = explain(world, c.Move(id_of("A"), N2))
    assert explained.refusal is not None
    assert (explained.refusal.reason, explained.refusal.holder) == ("Pinned", f"{hold} on {copy}")
    standing = f"LOCAL at epoch {world.group('A').epoch}, 0 refs, copies: {copy} AUTHORITATIVE at n1 with 1 pins"
    assert explained.steps[0] == standing
    assert "row LOCAL/MOVE/INCOMING, guard unpinned_or_allowed: no -> Pinned" in explained.steps
    assert explain(world, c.Move(id_of("A"), N2, allow_pinned=True)).refusal is None


def bodies(world: World) -> list[c.Body]:
    copy = world.state.copies[id_of("A")][0].id
    return [
        c.Move(id_of("A"), N2), c.Move(id_of("A"), N1), c.Move(id_of("A"), N3, expected_epoch=1), c.Move(id_of("A"), N3, True),
        c.Replicate(id_of("A"), N2), c.Replicate(id_of("A"), STORE), c.Evict(id_of("A")), c.Evict(id_of("A"), expected_epoch=1),
        c.Pin(id_of("A")), c.Pin(id_of("A"), copy), c.Pin(id_of("A"), policy=MovePolicy.WAIT), c.Ref(id_of("A")),
        c.DropReplica(id_of("A"), copy), c.Create(spec_of("A"), N1), c.CancelMove(id_of("A"), copy),
    ]  # fmt: skip


SCENES = ("local", "pinned", "referenced", "full", "moving", "leaving", "absent", "replicated", "writing")


@pytest.mark.parametrize("scene", SCENES)
def test_explain_agrees_with_what_the_command_then_answers(scene: str) -> None:
    """For each command: refused or not alike; and the first guard that says no is the one that refuses."""
    world = World(N1, N2, N3, stores=50)
    if scene == "full":
        world = World(N1, N2, N3, capacity=1, stores=50)
        world.put("F", N2)
        world.put("G", N3)
    if scene == "writing":
        world.create("A")
    else:
        world.put("A")
    {
        "pinned": lambda: world.pin("A"),
        "referenced": lambda: world.ref("A"),
        "moving": lambda: world.move("A"),
        "leaving": lambda: (world.pin("A"), world.do(c.Evict(id_of("A"), wait=True))),
        "absent": lambda: world.lapse(N1),
        "replicated": lambda: world.replica("A"),
    }.get(scene, lambda: None)()
    for number in range(len(bodies(world))):
        trial = World.__new__(World)
        trial.__dict__.update(world.__dict__)
        trial.directory, trial.store, trial.sequences = world.directory.copy(), world.store.copy(), dict(world.sequences)
        body = bodies(world)[number]
        explained = explain(trial, body)
        answer = trial.do(body)
        refusal = answer.refusal if isinstance(answer, Refused) else None
        assert explained.refusal == refusal, body
        said_no = [step for step in explained.steps if ": no -> " in step]
        if refusal is None:
            assert said_no == [] or getattr(answer, "done", False), body
        elif refusal.guard in OUTSIDE:
            continue
        elif explained.steps[-1].startswith("no row"):
            assert explained.steps[-1].endswith(f"refused as {refusal.reason}"), body
        else:
            assert said_no[0].startswith(f"row {refusal.row}, guard {refusal.guard}: no -> "), (body, explained)


OUTSIDE = ("is_target", "listed", "reaches_store", "usable")
"""Guards that are asked before any row is."""


def test_explain_says_when_there_is_no_record_or_no_row(world: World) -> None:
    assert explain(world, c.Evict(id_of("X"))).steps == ("there is no record of this group",)
    world.create("A")
    assert explain(world, c.Evict(id_of("A"))).steps[-1] == "no row for EVICT in WRITING: refused as NotSealed"
    assert explain(world, c.ReleaseRequest("r")) == Explained(None, ())


# ---- Await ---------------------------------------------------------------------------------------------------


def told(world: World) -> list[Awaited]:
    return [reply.message.answer for reply in world.ready.reply if isinstance(reply.message.answer, Awaited)]


def test_await_answers_at_once_what_has_happened_already(world: World) -> None:
    copy = world.put("A")
    for want, outcome in (("readable", "readable"), ("settled", "settled"), ("gone", "timeout")):
        world.step(c.Await(CLIENT, "w", want, id_of("A"), copy))
        assert [answer.outcome for answer in told(world)] == [outcome]
    world.step(c.Await(CLIENT, "w", "readable", id_of("X"), timeout_ms=100))
    assert told(world) == [Awaited(id_of("X"), "gone", -1, 0, Reason.NONE)]


def test_every_waiter_of_a_write_is_told_once_when_it_is_sealed(world: World) -> None:
    created = world.create("A")
    for token in ("one", "two"):
        world.step(c.Await(CLIENT, token, "readable", id_of("A"), timeout_ms=1_000))
        assert told(world) == []
    world.sealed(created.copy)
    assert [answer.outcome for answer in told(world)] == ["readable", "readable"]
    world.tick(2_000)
    assert told(world) == []


def test_await_drained_ends_when_the_last_copy_has_left(world: World) -> None:
    copy = world.put("A")
    world.do(c.Evict(id_of("A")))
    world.step(c.Await(CLIENT, "w", "drained", node=N1, timeout_ms=1_000))
    assert told(world) == []
    world.freed(copy)
    assert [answer.outcome for answer in told(world)] == ["drained"]


def test_await_gone_ends_with_the_record(world: World) -> None:
    copy = world.put("A")
    world.step(c.Await(CLIENT, "w", "gone", id_of("A"), timeout_ms=1_000))
    world.do(c.Evict(id_of("A")))
    assert told(world) == []
    world.freed(copy)
    assert [(answer.outcome, answer.reason) for answer in told(world)] == [("gone", Reason.EVICTED)]


def test_a_question_that_makes_no_sense_is_refused(world: World) -> None:
    for event, reason in (
        (c.Await(CLIENT, "w", "better times", timeout_ms=10), "BadRequest"),
        (c.Await(CLIENT, "w", "drained", node=NodeName("n9"), timeout_ms=10), "UnknownNode"),
    ):
        answer = world.query(event)
        assert isinstance(answer, Refused)
        assert answer.refusal.reason == reason


def test_a_wait_lasts_no_longer_than_the_named_limit() -> None:
    world = World(wait_ms_max=500)
    world.step(c.Await(CLIENT, "w", "readable", id_of("A"), world.create("A").copy, timeout_ms=10**9))
    assert next(iter(world.state.waiters.values())).due == world.state.meta.clock_ms + 500
