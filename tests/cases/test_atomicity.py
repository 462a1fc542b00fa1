"""A decision that somebody else sees half of."""

import random

from pinfold.core import commands as c
from pinfold.core import reports
from pinfold.core.answers import CommandCancelled, EvictAccepted, MoveAccepted, MoveCancelled, Refused
from pinfold.core.ids import NO_COPY, Reason, State
from tests.cases.story import free_all
from tests.directory_world import MANIFEST, N1, N2, N3, World, id_of


def epoch(world: World) -> int:
    group = world.state.groups.get(id_of("G"))
    return 0 if group is None else group.epoch


def decided(world: World, seed: int) -> tuple[int, int]:
    """A hundred words about one group, moves and their ends and cancels among them: `(decisions, changes of the epoch)`."""
    chance = random.Random(seed)
    sessions = [world.open() for _ in range(4)]
    accepted = changed = 0
    for _ in range(100):
        session = chance.choice(sessions)
        target = world.state.groups[id_of("G")].target if id_of("G") in world.state.groups else NO_COPY
        before, was = epoch(world), world.state.groups.get(id_of("G"))
        word = chance.choice(("move", "move", "cancel", "done", "failed", "cancel stale"))
        if word == "move":
            answer = world.do(c.Move(id_of("G"), chance.choice((N1, N2, N3))), session)
            accepted += isinstance(answer, MoveAccepted)
        elif word in ("cancel", "cancel stale"):
            move = target if word == "cancel" else world.state.copies[id_of("G")][0].id
            accepted += isinstance(world.do(c.CancelMove(id_of("G"), move), session), MoveCancelled)
        elif target != NO_COPY:
            fact = reports.CopyDone(target, MANIFEST) if word == "done" else reports.CopyFailed(target, Reason.FAILED)
            for _ in range(2):  # and told twice
                world.report(world.copy(target).node if target in world.state.group_of else N1, fact)
            accepted += 1
        changed += epoch(world) != before
        assert was is not None
        world.advance(chance.choice((0, 0, 500)))
        free_all(world)
    return accepted, changed


def test_c105_atomicity_of_two_decisions_at_once_one_is_taken_and_none_is_half_taken() -> None:
    """transitions #640, #639. Several tasks could pass one transition together, because callbacks were awaited between the check
    and the change of state; and cancelling the running one left its queue shut, so that later triggers were only stored.

    Here a step has no middle: guards, change and answer are one. Of two moves one is accepted, whether they come in one batch or
    from two sessions; a cancel is before it or after it; and each accepted decision is one step of the epoch, no more, no less.
    """
    world = World(N1, N2, N3, backoff_ms=0)
    world.put("G")
    other = world.open()
    first = world.do(c.Move(id_of("G"), N2))
    second = world.do(c.Move(id_of("G"), N3), other)
    assert isinstance(first, MoveAccepted)
    assert isinstance(second, Refused)
    assert second.refusal.reason == "MoveInProgress"
    world.done(first.move)
    free_all(world)
    batch = world.do(c.Batch((c.Move(id_of("G"), N3), c.Move(id_of("G"), N1), c.Evict(id_of("none")))))
    kinds = [type(item) for item in batch.items]
    assert kinds == [MoveAccepted, Refused, Refused]

    # A cancel under the number of a command: before it, nothing will happen; after it, what has happened is told.
    before = epoch(world)
    early = world.command(c.Cancel(), other)
    assert isinstance(world.send(early).answer, CommandCancelled)
    late = world.command(c.Evict(id_of("G")), other, sequence=early.sequence)
    assert isinstance(world.send(late).answer, CommandCancelled)
    assert epoch(world) == before
    world.sequences[other] = early.sequence
    evict = world.command(c.Evict(id_of("G")), other)
    answered = world.send(evict)
    assert isinstance(answered.answer, EvictAccepted)
    cancel = world.command(c.Cancel(), other, sequence=evict.sequence)
    assert world.send(cancel) == answered
    assert not world.is_in("G", State.LOCAL)

    for seed in range(6):
        world = World(N1, N2, N3, backoff_ms=0)
        world.put("G")
        accepted, changed = decided(world, seed)
        assert accepted == changed > 10
