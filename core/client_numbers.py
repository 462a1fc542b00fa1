"""The client's side of exactly once, in order (rule 1): its numbers.

A command waits in `queue` without a number until the session is open and the window and the breaker let it through; up to
then it surely has not happened. From then on its number is repeated until it is answered. Whoever waited for it may leave
(deadline, cancel): the number then goes on as a `Cancel` in the background, and a hold that turns up is released, so that
nothing leaks. What only gives back is not cancelled: it goes on as it is.
"""

from __future__ import annotations

from typing import Final

from . import answers as a
from . import client_wire as wire
from . import commands as c
from .calls import CallId, Do
from .client_holds import fits, give_back, note
from .client_session import abandon_session, forget_if_lapsed, open_session, session_out_of_step, session_over
from .client_state import BACKGROUND, CallRecord, Numbered, Queued, SessionPhase, Timer
from .client_wire import DIRECTORY, News, Turn
from .records import evolve

DOOR: Final = frozenset({"Early", "WindowFull", "Overloaded"})
"""These use up no number: the same one is repeated."""

DOUBTFUL: Final = frozenset({"TooLarge", "WrongShard", "BadRequest"})
"""These may come from before the sequence check. If the number was not used up, nothing after it could ever be applied: so
it is ended by a `Cancel`, which is right in both cases."""

GIVES_BACK: Final = (c.Unpin, c.Unref, c.ReleaseRequest)


def gives_back(body: c.Body | c.Batch) -> bool:
    if isinstance(body, c.Batch):
        return all(isinstance(item, GIVES_BACK) for item in body.items)
    return isinstance(body, GIVES_BACK)


# ---- queueing and sending ------------------------------------------------------------------------------------


def submit(turn: Turn, owner: CallId, slot: str, body: c.Body | c.Batch) -> None:
    """Queue a command for a call."""
    turn.state.queue.append(Queued(owner, slot, body))
    turn.update(turn.state.calls[owner], queued=True)


def pump(turn: Turn) -> None:
    """Give numbers to what waits, as far as session, window and breaker allow."""
    state = turn.state
    resume = state.holds and state.session.phase is SessionPhase.NONE
    if not (state.releases or state.queue or resume) or state.session.phase is SessionPhase.CLOSING:
        return
    forget_if_lapsed(turn)
    if state.session.phase is not SessionPhase.OPEN:
        open_session(turn)
        return
    while state.releases or state.queue:
        if state.next_sequence >= state.low + turn.config.window or wire.held_until(turn, DIRECTORY):
            return
        if state.releases:
            item = Queued(BACKGROUND, "", state.releases.popleft())
        else:
            item = state.queue.popleft()
        sequence = state.next_sequence
        state.next_sequence += 1
        give_up = turn.now + turn.config.background_ms if item.owner == BACKGROUND else 0
        number = Numbered(sequence, item.body, item.owner, item.slot, Timer(turn.now), give_up=give_up)
        state.numbers[sequence] = number
        if item.owner != BACKGROUND:
            turn.update(state.calls[item.owner], queued=False, sequence=sequence)
        overdue(turn, number)


def overdue(turn: Turn, number: Numbered) -> None:
    """The number's timer has come: send it, or put it off."""
    if number.give_up and turn.now >= number.give_up:
        abandon_session(turn)
        return
    timer, send = wire.fire(turn, number.timer, DIRECTORY, turn.config.attempt_ms)
    turn.state.numbers[number.sequence] = evolve(number, timer=timer)
    if send:
        _transmit(turn, number)


def _transmit(turn: Turn, number: Numbered) -> None:
    state = turn.state
    body = c.Cancel() if number.cancelled else number.body
    message = c.Command(turn.config.client, state.session.session, number.sequence, state.low, body)
    turn.send(DIRECTORY, message)


def leave(turn: Turn, sequence: int, cancelled: bool) -> None:
    """Nobody waits for this number any more: if `cancelled`, make sure that nothing happens under it, or learn what has."""
    number = turn.state.numbers[sequence]
    give_up = turn.now + turn.config.background_ms
    number = evolve(number, owner=BACKGROUND, cancelled=cancelled, give_up=give_up)
    if cancelled and not wire.held_until(turn, DIRECTORY):
        # The first Cancel is not a repetition: it has its own place in the budget, and leaves at once.
        timer = Timer(turn.now + turn.config.attempt_ms, number.timer.attempts, waiting=True)
        turn.state.numbers[sequence] = evolve(number, timer=timer)
        wire.note_sent(turn, DIRECTORY)
        _transmit(turn, number)
    else:
        turn.state.numbers[sequence] = number


def unqueue(turn: Turn, owner: CallId) -> None:
    """Nobody waits for this queued command any more: it never happens, unless it gives something back."""
    queue = turn.state.queue
    for index in [index for index, item in enumerate(queue) if item.owner == owner]:
        item = queue[index]
        if gives_back(item.body):
            queue[index] = evolve(item, owner=BACKGROUND)
        else:
            del queue[index]


def will_happen(turn: Turn, record: CallRecord) -> bool:
    """Whether what the call has asked for may still happen, or have happened, when nobody waits for it any more."""
    goes_on = record.queued and isinstance(record.op, Do) and gives_back(record.op.body)
    return bool(goes_on or record.sequence or record.writing or record.unsure)


# ---- answers -------------------------------------------------------------------------------------------------


def take(turn: Turn, event: a.Answered) -> None:
    """The directory's answer to a number."""
    state = turn.state
    number = state.numbers.get(event.sequence)
    if state.session.phase is SessionPhase.NONE or event.session != state.session.session or number is None:
        return
    answer = event.answer
    if isinstance(answer, a.Refused):
        reason = answer.refusal.reason
        if reason in DOOR or answer.refusal.guard == "low":  # an old `low`, overtaken by a newer one: the next try has that
            timer = wire.again(turn, number.timer, answer.refusal.retry_after_ms)
            state.numbers[event.sequence] = evolve(number, timer=timer, early=reason == "Early")
            return
        if reason == "SessionEnded":
            # A directory of an earlier term has been deposed: it can't know what was opened since. The number is repeated.
            if event.term >= state.term:
                session_over(turn, answer.refusal)
            return
        if reason in DOUBTFUL and not number.cancelled:
            _tell(turn, number, event)
            leave(turn, event.sequence, cancelled=True)
            return
        if reason == "SequenceConflict":
            session_out_of_step(turn, number)
            return
    elif not fits(number, answer):
        session_out_of_step(turn, number)
        return
    del state.numbers[event.sequence]
    state.term = max(state.term, event.term)
    state.revision = max(state.revision, answer.revision)
    note(turn, number, event)
    if number.owner == BACKGROUND:
        give_back(turn, answer)
    else:
        _tell(turn, number, event)
    _nudge(turn)


def _tell(turn: Turn, number: Numbered, event: a.Answered) -> None:
    if number.owner != BACKGROUND:
        turn.update(turn.state.calls[number.owner], sequence=0)
        revision = event.answer.revision
        turn.news.append(News(number.owner, number.slot, event.answer, term=event.term, revision=revision))


def _nudge(turn: Turn) -> None:
    """The lowest number had been told `Early`: now it is its turn, without waiting for its pause."""
    number = turn.state.numbers.get(turn.state.low)
    if number is not None and number.early and not wire.held_until(turn, DIRECTORY):
        timer = Timer(turn.now + turn.config.attempt_ms, number.timer.attempts + 1, waiting=True)
        turn.state.numbers[number.sequence] = number = evolve(number, timer=timer, early=False)
        _transmit(turn, number)
