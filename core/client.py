"""The client machine: an engine's side of the protocol. One door, `step(event, now) -> Ready`.

    event -> one of: take the call in | pass an answer to who waits for it | note that a peer is away
          -> news are heard by the calls' own functions -> timers that are due -> numbers for what is queued -> alarm

It promises: each call is answered exactly once and by its deadline (ANSWER-1); each command happens at most once, and
exactly once if it is answered `Done` (ONCE-1); what a failed call had taken is given back (HOLD-1); no answer older than
one that was used is believed (LIN-1); a stale route costs a bounded number of attempts (ROUTE-1).
"""

from __future__ import annotations

from typing import Any

from . import answers as a
from . import client_ask, client_get, client_put, rate
from . import client_holds as holds
from . import client_numbers as numbers
from . import client_routes as routes
from . import client_session as session
from . import client_wire as wire
from . import requests as r
from .calls import AskNode, Call, CancelCall, ClientEvent, CloseSessionOp, Do, GetGroup, PutGroup, ReadRoute
from .client_state import BACKGROUND, CallRecord, ClientConfig, ClientState, Degradation, Exchange, SessionPhase, fresh
from .client_steps import cancel, expire, failure, let_go
from .client_wire import DIRECTORY, News, Turn
from .effects import Ready
from .errors import Refusal
from .events import PeerUnreachable, Tick


class Client:
    """State, configuration, and the door."""

    def __init__(self, config: ClientConfig, state: ClientState | None = None) -> None:
        self.config = config
        self.state = fresh(config) if state is None else state

    def copy(self) -> Client:
        """An independent machine in the same state."""
        return Client(self.config, self.state.copy())

    def step(self, event: ClientEvent, now: int) -> Ready:
        """`now` in milliseconds of the caller's monotonic clock."""
        turn = Turn(self.state, self.config, now)
        if isinstance(event, a.Answered):
            wire.note_answer(turn, DIRECTORY)
            numbers.take(turn, event)
        elif isinstance(event, a.Told):
            told(turn, event)
        elif isinstance(event, Call):
            accept(turn, event)
        elif isinstance(event, CancelCall):
            _cancel(turn, event)
        elif isinstance(event, PeerUnreachable):
            wire.unreachable(turn, event.peer)
        elif not isinstance(event, Tick):
            node_answered(turn, event)
        hear(turn)
        if self.state.alarm is not None and now >= self.state.alarm:
            timers(turn)
        numbers.pump(turn)
        hear(turn)
        if self.config.degradation is Degradation.LOCAL_ONLY and wire.is_open(turn, DIRECTORY):
            fall_back(turn)
        self.state.alarm = next_alarm(turn)
        return Ready(send=tuple(turn.sends), reply=tuple(turn.replies), alarm=self.state.alarm)


# ---- calls ---------------------------------------------------------------------------------------------------


def accept(turn: Turn, event: Call) -> None:
    """Take a call in, or refuse it at the door. Raises ValueError for an id that is in use: no answer could be told apart."""
    state, config = turn.state, turn.config
    if event.call in state.calls or event.call == BACKGROUND:
        raise ValueError(f"call id {event.call!r} is in use")
    refusal = _refuse(turn, event)
    if refusal is not None:
        turn.reply(event.call, failure(turn, event.op, refusal, refusal.info.definite))
        turn.count(f"failed.{refusal.reason}")
        return
    deadline = turn.now + (event.timeout_ms or config.timeout_ms)
    state.calls[event.call] = record = CallRecord(event.call, event.op, turn.now, deadline)
    if isinstance(event.op, GetGroup | ReadRoute):
        client_get.start(turn, record)
    elif isinstance(event.op, PutGroup):
        client_put.start(turn, record)
    else:
        client_ask.start(turn, record)


def _refuse(turn: Turn, event: Call) -> Refusal | None:
    """Limits first, then breaker, then rate: a call that is refused takes nothing (REFUSE-1). What gives back is not refused for
    the breaker's sake: it waits until that lets it through, or goes on in the background."""
    state, config, op = turn.state, turn.config, event.op
    if event.timeout_ms < 0:
        return Refusal("BadRequest", "a negative timeout")
    gives_back = isinstance(op, CloseSessionOp) or (isinstance(op, Do) and numbers.gives_back(op.body))
    if state.session.phase is SessionPhase.CLOSING:
        return Refusal("SessionEnded", "the session is being closed")
    room = config.calls_max + (config.holds_max if gives_back else 0)
    if len(state.calls) >= room:
        return Refusal("Overloaded", guard="calls_max")
    numbered = isinstance(op, Do | PutGroup | GetGroup)
    if numbered and not gives_back:
        if len(state.queue) >= config.queue_max:
            return Refusal("Overloaded", guard="queue_max")
        if len(state.holds) >= config.holds_max:
            return Refusal("Overloaded", guard="holds_max")
    if gives_back:
        return None
    refusal = _breaker(turn, op)
    if refusal is not None or config.calls_per_s <= 0:
        return refusal
    state.calls_bucket, wait = rate.take(state.calls_bucket, turn.now, config.calls_per_s, config.calls_burst)
    return Refusal("RateLimited", retry_after_ms=wait) if wait else None


def _breaker(turn: Turn, op: Any) -> Refusal | None:
    """The breaker of the peer that the call would begin with."""
    if isinstance(op, GetGroup) and turn.config.degradation is Degradation.LOCAL_ONLY:
        return None
    target = DIRECTORY
    if isinstance(op, ReadRoute):
        target = op.route.address
        if not target:
            return Refusal("Unreadable", f"{op.route.node} is a store: nobody answers reads there")
    elif isinstance(op, AskNode):
        target = op.target
    until = wire.held_until(turn, target)
    if not until:
        return None
    return Refusal("BreakerOpen", turn.peer(target), retry_after_ms=until - turn.now)


def _cancel(turn: Turn, event: CancelCall) -> None:
    record = turn.state.calls.get(event.call)
    cancel(turn, event.call)
    if record is not None and isinstance(record.op, CloseSessionOp):
        client_ask.end_closing(turn)


def hear(turn: Turn) -> None:
    """Hand the news of this step to the calls they are for, in order."""
    while turn.news:
        news = turn.news.popleft()
        record = turn.state.calls.get(news.call)
        if record is not None:
            _hear(turn, record, news)
        elif isinstance(news.answer, a.ItemAnswer | a.BatchAnswer):
            holds.give_back(turn, news.answer)  # ended by earlier news of the same step


def _hear(turn: Turn, record: CallRecord, news: News) -> None:
    if isinstance(record.op, GetGroup | ReadRoute):
        client_get.hear(turn, record, news)
    elif isinstance(record.op, PutGroup):
        client_put.hear(turn, record, news)
    else:
        client_ask.hear(turn, record, news)


def fall_back(turn: Turn) -> None:
    """The directory can't be reached and the policy is to go on with what is near: don't wait for pins."""
    for call in list(turn.state.calls):
        record = turn.state.calls[call]
        if isinstance(record.op, GetGroup) and record.step in ("pin", "await", "bring"):
            client_get.read_locally(turn, let_go(turn, record))
    hear(turn)


# ---- answers -------------------------------------------------------------------------------------------------


def told(turn: Turn, event: a.Told) -> None:
    """The directory's answer to a query or session call."""
    wire.note_answer(turn, DIRECTORY)
    state = turn.state
    exchange = state.exchanges.get(event.token)
    if exchange is None or exchange.target != DIRECTORY:
        return
    answer = event.answer
    if isinstance(answer, a.Refused) and answer.refusal.reason in numbers.DOOR:
        wire.put_off(turn, exchange, answer.refusal.retry_after_ms)
        return
    of_session = exchange.owner == BACKGROUND or isinstance(answer, a.SessionClosed)
    if event.term < state.term or (event.revision < state.revision and not of_session):
        turn.count("old_answers")
        wire.put_off(turn, exchange)
        return
    state.term, state.revision = max(state.term, event.term), max(state.revision, event.revision)
    wire.drop(turn, exchange)
    if exchange.owner == BACKGROUND:
        if exchange.slot == "open":
            session.opened(turn, exchange, answer)
        elif exchange.slot == "keep":
            session.kept(turn, exchange, answer)
        return
    if isinstance(answer, a.Located):
        for route in answer.routes:
            routes.remember(turn, route, exchange.message.near, event.term, event.revision)
    news = News(exchange.owner, exchange.slot, answer, None, exchange.message, event.term, event.revision)
    turn.news.append(news)


def node_answered(turn: Turn, event: r.NodeAnswer) -> None:
    """A node's answer to a request."""
    exchange = turn.state.exchanges.get(event.token)
    if exchange is None or exchange.target == DIRECTORY:
        return
    wire.note_answer(turn, exchange.target)
    if isinstance(event, r.NodeRefused) and event.refusal.reason == "Overloaded":
        wire.put_off(turn, exchange, event.refusal.retry_after_ms)
        return
    wire.drop(turn, exchange)
    if exchange.owner != BACKGROUND:
        turn.news.append(News(exchange.owner, exchange.slot, event, message=exchange.message))


# ---- time ----------------------------------------------------------------------------------------------------


def timers(turn: Turn) -> None:
    """Everything that is due, in a stated order: deadlines, pauses, numbers, exchanges, the lease."""
    state, now = turn.state, turn.now
    for call in [call for call, record in state.calls.items() if record.deadline <= now]:
        record = state.calls.get(call)
        if record is not None:
            expire(turn, record)
            if isinstance(record.op, CloseSessionOp):
                client_ask.end_closing(turn)
                hear(turn)
    for call in [call for call, record in state.calls.items() if is_awake(record, now)]:
        record = state.calls[call]
        (client_put if isinstance(record.op, PutGroup) else client_get).wake(turn, record)
    for sequence in [sequence for sequence, number in state.numbers.items() if number.timer.due <= now]:
        number = state.numbers.get(sequence)
        if number is not None:
            numbers.overdue(turn, number)
    hear(turn)
    for token in [token for token, exchange in state.exchanges.items() if exchange.timer.due <= now]:
        exchange = state.exchanges.get(token)
        if exchange is not None:
            _overdue(turn, exchange)
            hear(turn)
    if state.session.phase is SessionPhase.OPEN and state.session.renew_at <= now and session.needed(turn):
        session.renew(turn)


def is_awake(record: CallRecord, now: int) -> bool:
    return record.step == "pause" and record.sleep_until <= now


def _overdue(turn: Turn, exchange: Exchange) -> None:
    if exchange.slot == "open" and not session.needed(turn) and not turn.state.queue:
        wire.drop(turn, exchange)  # nobody wants a session any more; the same token is used when somebody does
        session.stop_opening(turn)
    else:
        wire.overdue(turn, exchange)


def next_alarm(turn: Turn) -> int | None:
    """The earliest instant at which something is due; None when nothing is."""
    state = turn.state
    instants = [number.timer.due for number in state.numbers.values()]
    instants += [exchange.timer.due for exchange in state.exchanges.values()]
    for record in state.calls.values():
        instants.append(record.deadline)
        if record.step == "pause":
            instants.append(record.sleep_until)
    if state.session.phase is SessionPhase.OPEN:
        if session.needed(turn):
            instants.append(state.session.renew_at)
        if state.queue or state.releases:
            held = wire.held_until(turn, DIRECTORY)
            if held:
                instants.append(held)
    return min(instants, default=None)

