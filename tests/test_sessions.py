"""Exactly once, in order, per session (rule 1): numbers, windows, Cancel, leases, names."""

from __future__ import annotations

import pytest

from pinfold.core import commands as c
from pinfold.core.answers import (
    Answered,
    BatchAnswer,
    CommandCancelled,
    Created,
    KeptAlive,
    Pinned,
    Refused,
    Released,
    SessionClosed,
    SessionOpened,
)
from pinfold.core.ids import NO_COPY, HoldId, Peer, SessionId, State

from .directory_world import CLIENT, N1, World, id_of, spec_of


@pytest.fixture
def world() -> World:
    return World()


def only_answer(world: World, command: c.Command) -> Answered:
    replies = world.changes_nothing(command).reply
    assert len(replies) == 1
    answered = replies[0].message
    assert isinstance(answered, Answered)
    return answered


# ---- repetition ----------------------------------------------------------------------------------------------


def test_a_repeated_command_has_the_same_answer_and_no_second_effect(world: World) -> None:
    world.put("A")
    command = world.command(c.Pin(id_of("A")))
    first = world.send(command)
    assert isinstance(first.answer, Pinned)
    for _ in range(3):
        assert only_answer(world, command) == first
    assert len(world.state.holds) == 1


def test_the_answer_is_replayed_after_a_restart_byte_for_byte(world: World) -> None:
    command = world.command(c.Create(spec_of("A"), N1))
    first = world.send(command)
    world.restart()
    again = only_answer(world, command)
    assert again == first
    assert again.term == 1
    assert len(world.state.groups) == 1


def test_a_refusal_that_used_its_number_is_replayed_too_though_it_would_succeed_by_now(world: World) -> None:
    command = world.command(c.Pin(id_of("A")), world.open())
    first = world.send(command)
    assert isinstance(first.answer, Refused)
    world.put("A")
    assert only_answer(world, command) == first


def test_late_duplicates_of_any_age_never_run_twice(world: World) -> None:
    """Window 2 was once enough to run one twice: the answer that was dropped came back as a new command (finding 14)."""
    world = World(window=2)
    world.put("A")
    sent = []
    for _ in range(4):
        command = world.command(c.Pin(id_of("A")))
        world.do(command.body)
        sent.append(command)
    live = len(world.state.holds)
    for command in sent[:-1]:
        assert world.changes_nothing(command).reply == (), "acknowledged: nobody waits for this answer any more"
    only_answer(world, sent[-1])
    world.restart()
    for command in sent[:-1]:
        assert world.changes_nothing(command).reply == ()
    assert len(world.state.holds) == live == 4


def test_answers_below_low_are_dropped_and_the_newest_is_always_kept(world: World) -> None:
    for _ in range(5):
        world.do(c.ReleaseRequest("r"))
    assert list(world.state.answers) == [(world.session, 5)]
    world.send(world.command(c.ReleaseRequest("r"), sequence=6, low=5))
    assert list(world.state.answers) == [(world.session, 5), (world.session, 6)]
    world.restart()
    assert world.state.progress[world.session] == (6, 5)


# ---- order ---------------------------------------------------------------------------------------------------


def test_a_number_too_early_is_refused_and_stays_unused(world: World) -> None:
    """ReleaseRequest overtakes the Pin it is to release: a hold that nobody would ever release (finding 13)."""
    world.put("A")
    pin = world.command(c.Pin(id_of("A"), request="r"))
    release = world.command(c.ReleaseRequest("r"), sequence=pin.sequence + 1, low=pin.sequence)
    refused = world.send(release).answer
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.refusal.guard) == ("Early", "in_order")
    assert refused.refusal.retry_after_ms > 0
    world.send(pin)
    assert world.send(release).answer.released == 1  # type: ignore[union-attr]
    assert not world.state.holds


def test_a_number_beyond_the_window_is_refused_and_stays_unused() -> None:
    world = World(window=3)
    low = world.sequences[world.session] + 1
    world.send(world.command(c.ReleaseRequest("r"), sequence=low, low=low))
    world.send(world.command(c.ReleaseRequest("r"), sequence=low + 1, low=low))
    world.send(world.command(c.ReleaseRequest("r"), sequence=low + 2, low=low))
    command = world.command(c.ReleaseRequest("r"), sequence=low + 3, low=low)
    refused = world.send(command).answer
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.refusal.guard) == ("WindowFull", "window")
    assert refused.refusal.retry_after_ms == world.config.retry_after_ms
    answered = world.send(world.command(c.ReleaseRequest("r"), sequence=low + 3, low=low + 1))
    assert not isinstance(answered.answer, Refused), "one answer was acknowledged: the same number fits now"


@pytest.mark.parametrize("low", [0, 4])
def test_a_low_that_goes_back_or_beyond_its_own_number_is_refused(world: World, low: int) -> None:
    world.do(c.ReleaseRequest("r"))
    world.do(c.ReleaseRequest("r"))
    command = c.Command(CLIENT, world.session, 3, low, c.ReleaseRequest("r"))
    refused = world.send(command).answer
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.refusal.guard) == ("BadRequest", "low")
    assert world.state.progress[world.session] == (2, 2)


def test_sessions_have_their_own_numbers(world: World) -> None:
    other = world.open()
    world.put("A")
    one, two = world.do(c.Pin(id_of("A"))), world.do(c.Pin(id_of("A")), other)
    assert one.hold != two.hold
    assert two.hold == HoldId(other, 1, 0)


# ---- Cancel --------------------------------------------------------------------------------------------------


def test_cancel_of_an_unused_number_makes_sure_that_nothing_ever_happens_under_it(world: World) -> None:
    world.put("A")
    late = world.command(c.Pin(id_of("A")))
    cancelled = world.send(world.command(c.Cancel(), sequence=late.sequence))
    assert isinstance(cancelled.answer, CommandCancelled)
    assert only_answer(world, late) == cancelled
    assert not world.state.holds
    world.restart()
    assert only_answer(world, late) == cancelled


def test_cancel_of_a_used_number_tells_what_happened(world: World) -> None:
    world.put("A")
    command = world.command(c.Pin(id_of("A")))
    first = world.send(command)
    cancel = c.Command(CLIENT, world.session, command.sequence, command.low, c.Cancel())
    assert only_answer(world, cancel) == first


def test_cancel_waits_for_its_turn_like_any_command(world: World) -> None:
    sequence = world.sequences[world.session] + 2
    refused = world.send(world.command(c.Cancel(), sequence=sequence)).answer
    assert isinstance(refused, Refused)
    assert refused.refusal.reason == "Early"


# ---- batches -------------------------------------------------------------------------------------------------


def test_a_batch_is_one_number_one_commit_and_one_answer_per_item(world: World) -> None:
    world.put("A")
    items = (c.Pin(id_of("A")), c.Pin(id_of("B")), c.Create(spec_of("B"), N1), c.Ref(id_of("A")))
    command = world.command(c.Batch(items))
    answered = world.send(command)
    assert isinstance(answered.answer, BatchAnswer)
    pinned, unknown, created, referred = answered.answer.items
    assert isinstance(pinned, Pinned)
    assert isinstance(unknown, Refused)
    assert isinstance(created, Created)
    holds = [pinned.hold, created.hold, referred.hold]  # type: ignore[union-attr]
    assert holds == [HoldId(world.session, command.sequence, ordinal) for ordinal in (0, 2, 3)]
    assert [write[0] for write in world.ready.persist].count("meta") == 1
    assert only_answer(world, command) == answered


def test_a_refused_item_changes_nothing_and_the_items_after_it_apply(world: World) -> None:
    answer = world.do(c.Batch((c.Unpin(HoldId(world.session, 99, 0)), c.Create(spec_of("A"), N1))))
    assert isinstance(answer.items[0], Refused)
    assert isinstance(answer.items[1], Created)


def test_hold_ordinals_of_a_batch_rise_over_the_whole_batch(world: World) -> None:
    world.put("A")
    world.put("B")
    run = (id_of("A"), id_of("B"), id_of("none"))
    answer = world.do(c.Batch((c.PinPrefix(run), c.Pin(id_of("A")), c.PinPrefix(run))))
    holds = [hold for item in answer.items for hold in getattr(item, "holds", (getattr(item, "hold", None),))]
    assert [hold.ordinal for hold in holds] == [0, 1, 3, 4, 5]
    assert len(world.state.holds) == 5


# ---- leases --------------------------------------------------------------------------------------------------


def test_an_expired_session_lets_go_of_everything_and_answers_session_ended(world: World) -> None:
    """HOLD-2: its holds are gone with the commit of its end."""
    world.put("A")
    other = world.open(lease_ms=1_000)
    world.pin("A", other)
    world.ref("A", other)
    writing = world.create("B", session=other)
    command = world.command(c.Pin(id_of("A")), other)
    world.advance(1_500, alive=False)
    assert other not in world.state.sessions
    assert not world.state.holds
    assert world.is_in("B", State.EVICTING)
    refused = world.send(command).answer
    assert isinstance(refused, Refused)
    assert refused.refusal.reason == "SessionEnded"
    assert not refused.refusal.info.definite
    assert isinstance(world.ask(c.KeepAlive(CLIENT, "k", other)), Refused)
    assert world.state.copies[id_of("B")][0].id == writing.copy


def test_closing_twice_is_closing_once(world: World) -> None:
    world.put("A")
    world.pin("A")
    assert world.ask(c.CloseSession(CLIENT, "c", world.session)) == SessionClosed(world.session, 1)
    assert world.ask(c.CloseSession(CLIENT, "c", world.session)) == SessionClosed(world.session, 0)


def test_a_session_id_is_never_used_again(world: World) -> None:
    world.ask(c.CloseSession(CLIENT, "c", world.session))
    world.restart()
    assert world.open() > world.session


@pytest.mark.parametrize("by", ["command", "keepalive", "door refusal"])
def test_whatever_a_session_says_in_time_renews_its_lease(world: World, by: str) -> None:
    """A command that arrives before the Tick renews, even when its own lease has run out meanwhile (rule 10)."""
    session = world.open(lease_ms=1_000)
    world.advance(800, alive=False)
    if by == "command":
        world.do(c.ReleaseRequest("r"), session)
    elif by == "keepalive":
        assert world.ask(c.KeepAlive(CLIENT, "k", session)) == KeptAlive(session, 1_000, ())
    else:
        world.send(world.command(c.Cancel(), session, sequence=9))
    world.advance(800, alive=False)
    assert session in world.state.sessions
    world.advance(400, alive=False)
    assert session not in world.state.sessions


def test_input_that_came_before_the_tick_saves_a_session_whose_time_was_over(world: World) -> None:
    session = world.open(lease_ms=500)
    world.now += 900
    world.ask(c.KeepAlive(CLIENT, "k", session))
    world.tick()
    assert session in world.state.sessions


# ---- opening and resuming ------------------------------------------------------------------------------------


def test_the_same_token_opens_the_same_session(world: World) -> None:
    event = c.OpenSession(CLIENT, "mine")
    first = world.ask(event)
    assert first == SessionOpened(first.session, 1, 10_000, False)
    assert world.ask(event) == SessionOpened(first.session, 1, 10_000, True)
    world.restart()
    assert world.ask(event).session == first.session


def test_a_named_session_is_resumed_by_another_process_with_its_holds(world: World) -> None:
    world.put("A")
    opened = world.ask(c.OpenSession(CLIENT, "shell-1", "job", 5_000))
    world.sequences[opened.session] = 0
    hold = world.pin("A", opened.session)
    world.restart()
    shell = Peer("client/shell-2")
    again = world.ask(c.OpenSession(shell, "shell-2", "job", 8_000))
    assert again == SessionOpened(opened.session, 2, 8_000, True)
    assert world.state.sessions[opened.session].client == shell
    released = world.do(c.Unpin(hold), opened.session)
    assert isinstance(released, Released)


def test_a_name_is_free_again_after_its_session_has_ended(world: World) -> None:
    first = world.open("job")
    world.ask(c.CloseSession(CLIENT, "c", first))
    assert world.open("job") != first


@pytest.mark.parametrize(
    ("event", "guard"),
    [
        (c.OpenSession(CLIENT, "t", "", 99), "session_lease_ms"),
        (c.OpenSession(CLIENT, "t", "", 600_001), "session_lease_ms"),
        (c.OpenSession(CLIENT, ""), "name_chars_max"),
        (c.OpenSession(CLIENT, "t" * 513), "name_chars_max"),
        (c.OpenSession(CLIENT, "t", "n" * 513), "name_chars_max"),
    ],
)
def test_a_session_with_a_senseless_lease_or_name_is_refused(world: World, event: c.OpenSession, guard: str) -> None:
    answer = world.ask(event)
    assert isinstance(answer, Refused)
    assert (answer.refusal.reason, answer.refusal.guard) == ("BadRequest", guard)
    assert len(world.state.sessions) == 1


def test_a_command_of_a_session_that_never_was_is_refused(world: World) -> None:
    refused = world.send(c.Command(CLIENT, SessionId(999), 1, 1, c.Pin(id_of("A"), NO_COPY))).answer
    assert isinstance(refused, Refused)
    assert refused.refusal.reason == "SessionEnded"


def test_the_directory_wakes_for_the_end_of_a_new_session_and_of_a_resumed_one(world: World) -> None:
    """With nothing else due nobody would end it: HOLD-2 hangs on this alarm."""
    world.tick()
    due = world.config.session_lease_ms_min
    for token in ("first", "again"):
        world.open(name="job", token=token, lease_ms=due)
        assert world.ready.alarm is not None
        assert world.ready.alarm <= world.now + due
    world.tick(due)
    assert "job" not in world.state.named


def test_names_may_be_as_long_as_the_limit_says(world: World) -> None:
    longest = "x" * world.config.name_chars_max
    assert isinstance(world.ask(c.OpenSession(CLIENT, longest, longest, 10_000)), SessionOpened)


def test_the_refusals_of_sessions_name_their_guard_and_the_revision() -> None:
    world = World(sessions_max=1)
    full = world.ask(c.OpenSession(CLIENT, "one too many", "", 10_000))
    assert (full.refusal.reason, full.refusal.guard) == ("Overloaded", "sessions_max")
    ended = world.ask(c.KeepAlive(CLIENT, "k", SessionId(777)))
    assert (ended.refusal.reason, ended.refusal.guard) == ("SessionEnded", "session_live")
    assert full.revision == ended.revision == world.state.meta.revision
