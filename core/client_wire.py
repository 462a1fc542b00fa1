"""One step of the client machine in the making, and messages that are repeated until they are answered.

`Turn` is what the functions of the client's modules share during one step. They never call upwards: what a call should
hear goes into `news`, which the door (`core/client.py`) hands to the call's own functions.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from attrs import define

from . import breaker, rate, retry
from .calls import CallId
from .client_state import BACKGROUND, CallRecord, ClientConfig, ClientState, Exchange, Timer
from .effects import Reply, Send
from .errors import Refusal
from .ids import Peer
from .records import evolve

DIRECTORY = Peer("")
"""As a target: whichever of the configured addresses is in use when the message leaves."""


@define
class News:
    """Something that `call` waited for: an answer of a directory or node, or a `Refusal` that was made here.

    `definite` None: as the refusal's reason says.
    """

    call: CallId
    slot: str
    answer: Any
    definite: bool | None = None
    message: Any = None
    """What was asked, for answers of a node."""
    term: int = 0
    revision: int = 0


class Turn:
    """State, configuration and time of one step, and what is to leave."""

    __slots__ = ("config", "news", "now", "replies", "sends", "state")

    def __init__(self, state: ClientState, config: ClientConfig, now: int) -> None:
        self.state = state
        self.config = config
        self.now = now
        self.news: deque[News] = deque()
        self.sends: list[Send] = []
        self.replies: list[Reply] = []

    def count(self, name: str) -> None:
        self.state.counters[name] = self.state.counters.get(name, 0) + 1

    def token(self) -> str:
        self.state.tokens += 1
        return f"{self.config.boot}.{self.state.tokens}"

    def backoff(self, attempt: int) -> int:
        """A pause in milliseconds before repetition `attempt`, drawn from the seed."""
        self.state.random, pause = retry.backoff_ms(
            self.state.random, attempt, self.config.backoff_ms, self.config.backoff_max_ms
        )
        return pause

    def update(self, record: CallRecord, **changes: Any) -> CallRecord:
        new = evolve(record, **changes)
        self.state.calls[record.call] = new
        return new

    def reply(self, call: CallId, message: Any) -> None:
        self.replies.append(Reply(cast(Peer, call), message))

    def peer(self, target: Peer) -> Peer:
        return target or self.config.directories[self.state.directory % len(self.config.directories)]

    def send(self, target: Peer, message: Any) -> None:
        self.sends.append(Send(self.peer(target), message))


# ---- breakers ------------------------------------------------------------------------------------------------


def held_until(turn: Turn, target: Peer) -> int:
    """The instant before which the breaker lets nothing through to `target`; 0: now."""
    found = turn.state.breakers.get(turn.peer(target))
    return 0 if found is None else breaker.held_until(found, turn.now)


def is_open(turn: Turn, target: Peer) -> bool:
    """Whether calls to `target` are held back altogether; not so while a probe is out."""
    found = turn.state.breakers.get(turn.peer(target))
    return found is not None and breaker.phase(found, turn.now) == "open"


def note_sent(turn: Turn, target: Peer) -> None:
    peer = turn.peer(target)
    found = turn.state.breakers.get(peer)
    if found is not None:
        turn.state.breakers[peer] = breaker.sent(found, turn.now, turn.config.breaker)


def note_answer(turn: Turn, target: Peer) -> None:
    """An answer of any kind: the peer is alive."""
    turn.state.breakers.pop(turn.peer(target), None)


def note_failure(turn: Turn, target: Peer) -> None:
    """A time-out, or the wire's word. Among several addresses of a directory the next one is used from now on."""
    peer = turn.peer(target)
    breakers = turn.state.breakers
    before = breakers.get(peer, breaker.CLOSED)
    after = breaker.failed(before, turn.now, turn.config.breaker)
    if peer not in breakers and len(breakers) >= turn.config.peers_max:
        breakers.pop(next(iter(breakers)))
    breakers[peer] = after
    if after.opened > before.opened:
        turn.count("breakers_opened")
    if peer == turn.peer(DIRECTORY):
        turn.state.directory = (turn.state.directory + 1) % len(turn.config.directories)


# ---- timers --------------------------------------------------------------------------------------------------


def fire(turn: Turn, timer: Timer, target: Peer, attempt_ms: int) -> tuple[Timer, bool]:
    """`timer` is due: the timer from now on, and whether to send now. Breaker and retry budget only put it off."""
    if timer.waiting:
        note_failure(turn, target)
        return again(turn, timer), False
    held = held_until(turn, target)
    if held:
        return Timer(held, timer.attempts), False
    if timer.attempts:
        config = turn.config
        turn.state.retries_bucket, wait = rate.take(
            turn.state.retries_bucket, turn.now, config.retries_per_s, config.retries_burst
        )
        if wait:
            return Timer(turn.now + wait, timer.attempts), False
        turn.count("retries")
    note_sent(turn, target)
    return Timer(turn.now + attempt_ms, timer.attempts + 1, waiting=True), True


def again(turn: Turn, timer: Timer, after_ms: int = 0) -> Timer:
    """Send once more after a pause of at least `after_ms`."""
    return Timer(turn.now + max(after_ms, turn.backoff(timer.attempts)), timer.attempts)


# ---- exchanges -----------------------------------------------------------------------------------------------


def ask(
    turn: Turn, owner: CallId, slot: str, target: Peer, message: Any, *, give_up: int = 0, extra_ms: int = 0, after_ms: int = 0
) -> None:
    """Send a message whose token is set, now (or in `after_ms`, or as soon as the breaker lets it through), and again until
    it is answered. `extra_ms`: how much longer than usual the answer may take."""
    timer = Timer(turn.now + after_ms)
    exchange = Exchange(message.token, target, message, owner, slot, turn.now, timer, give_up, extra_ms)
    turn.state.exchanges[exchange.token] = exchange
    if owner != BACKGROUND:
        record = turn.state.calls[owner]
        turn.update(record, tokens=(*record.tokens, exchange.token))
    if target and is_open(turn, target):
        _fail(turn, exchange, Refusal("BreakerOpen", target))
    elif not after_ms:
        _fire(turn, exchange)


def _attempt_ms(turn: Turn, exchange: Exchange) -> int:
    base = turn.config.node_attempt_ms if exchange.target else turn.config.attempt_ms
    return base + exchange.extra_ms


def _fire(turn: Turn, exchange: Exchange) -> None:
    timer, send = fire(turn, exchange.timer, exchange.target, _attempt_ms(turn, exchange))
    turn.state.exchanges[exchange.token] = evolve(exchange, timer=timer)
    if send:
        turn.send(exchange.target, exchange.message)


def overdue(turn: Turn, exchange: Exchange) -> None:
    """The exchange's timer has come. One with a node ends after `node_attempts`; one with the directory when its owner does."""
    if exchange.give_up and turn.now >= exchange.give_up:
        drop(turn, exchange)
        return
    if exchange.target and not exchange.timer.waiting:
        if exchange.timer.attempts >= turn.config.node_attempts:
            _fail(turn, exchange, Refusal("Unreachable", f"{exchange.target}: no answer"))
            return
        if is_open(turn, exchange.target):
            _fail(turn, exchange, Refusal("BreakerOpen", exchange.target))
            return
    _fire(turn, exchange)


def _fail(turn: Turn, exchange: Exchange, refusal: Refusal) -> None:
    drop(turn, exchange)
    if exchange.owner != BACKGROUND:
        turn.news.append(News(exchange.owner, exchange.slot, refusal, message=exchange.message))


def drop(turn: Turn, exchange: Exchange) -> None:
    """Forget it; a late answer will find nothing."""
    del turn.state.exchanges[exchange.token]
    record = turn.state.calls.get(exchange.owner)
    if record is not None and exchange.owner != BACKGROUND:
        turn.update(record, tokens=tuple(token for token in record.tokens if token != exchange.token))


def put_off(turn: Turn, exchange: Exchange, after_ms: int = 0) -> None:
    """The peer said `later`: send it again after a pause."""
    turn.state.exchanges[exchange.token] = evolve(exchange, timer=again(turn, exchange.timer, after_ms))


def unreachable(turn: Turn, peer: Peer) -> None:
    """The wire's word: don't wait for answers of `peer`, send again after the pause."""
    to_directory = peer == turn.peer(DIRECTORY)
    note_failure(turn, DIRECTORY if to_directory else peer)
    for token, exchange in turn.state.exchanges.items():
        mine = to_directory if exchange.target == DIRECTORY else exchange.target == peer
        if mine and exchange.timer.waiting:
            turn.state.exchanges[token] = evolve(exchange, timer=again(turn, exchange.timer))
    if to_directory:
        for sequence, number in turn.state.numbers.items():
            if number.timer.waiting:
                turn.state.numbers[sequence] = evolve(number, timer=again(turn, number.timer))
