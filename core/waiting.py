"""Await: who waits for what. Waiters are soft state, bounded, and each has a deadline (ANSWER-1)."""

from __future__ import annotations

from . import table
from .answers import Awaited, Refused
from .commands import Await
from .errors import Refusal
from .ids import NO_COPY, Reason, Role, State
from .ledger import copy_in
from .rows import is_readable
from .sessions import told
from .state import Copy, Waiter
from .turn import Turn

WANTS = ("readable", "settled", "gone", "drained")


def await_(turn: Turn, event: Await) -> None:
    """Answer at once if it has happened; else wait, at most `timeout_ms` and `wait_ms_max`."""
    state, config = turn.state, turn.config
    refusal = None
    if event.want not in WANTS:
        refusal = Refusal("BadRequest", f"{event.want!r} is not one of {', '.join(WANTS)}", guard="want")
    elif event.want == "drained" and event.node not in state.nodes:
        refusal = Refusal("UnknownNode", f"{event.node!r}", guard="known_node")
    elif len(state.waiters) >= config.waiters_max:
        refusal = Refusal(
            "Overloaded", f"{config.waiters_max} waiters", guard="waiters_max", retry_after_ms=config.retry_after_ms
        )
    if refusal is not None:
        told(turn, event.client, event.token, Refused(refusal, turn.revision))
        return
    due = turn.now + min(max(0, event.timeout_ms), config.wait_ms_max)
    waiter = Waiter(event.client, event.token, event.want, event.group, event.copy, event.node, due)
    outcome = _outcome(turn, waiter)
    if outcome or event.timeout_ms <= 0:
        _tell(turn, waiter, outcome or "timeout")
        return
    state.waiters[(event.client, event.token)] = waiter
    turn.wake(due)


def _outcome(turn: Turn, waiter: Waiter) -> str:
    """What the waiter waits for, if it has happened or can't happen any more; else ""."""
    state = turn.state
    if waiter.want == "drained":
        node = state.nodes.get(waiter.node)
        return "drained" if node is None or not state.copies_at.get(waiter.node) else ""
    group = state.groups.get(waiter.group)
    if group is None:
        return "gone"
    if waiter.want == "settled":
        live = group.state in table.MOVING and (waiter.copy == NO_COPY or group.target == waiter.copy)
        return "" if live else "settled"
    if group.state in (State.EVICTING, State.EVICTED) and waiter.want == "readable":
        return "gone"
    if waiter.want == "gone":
        return "gone" if group.state is State.EVICTED else ""
    if waiter.copy != NO_COPY:
        return _of_copy(copy_in(state.copies[group.id], waiter.copy))
    return "readable" if any(is_readable(copy) for copy in state.copies[group.id]) else ""


def _of_copy(copy: Copy | None) -> str:
    """Who named a copy wants to know what became of it: the group may be readable as what somebody else has written since."""
    if copy is None or copy.role is Role.RETIRING or copy.role is Role.FREEING:
        return "gone"
    return "readable" if is_readable(copy) else ""


def _tell(turn: Turn, waiter: Waiter, outcome: str) -> None:
    group = turn.state.groups.get(waiter.group)
    if group is None:
        answer = Awaited(waiter.group, outcome, -1, 0, Reason.NONE)
    else:
        answer = Awaited(group.id, outcome, int(group.state), group.epoch, group.reason)
    told(turn, waiter.client, waiter.token, answer)


def look(turn: Turn) -> None:
    """After a step: answer waiters of the groups it touched, and of nodes that may be empty now."""
    waiters = turn.state.waiters
    if not waiters:
        return
    for key, waiter in list(waiters.items()):
        if waiter.want == "drained" or waiter.group in turn.touched:
            outcome = _outcome(turn, waiter)
            if outcome:
                del waiters[key]
                _tell(turn, waiter, outcome)


def expire(turn: Turn) -> None:
    waiters = turn.state.waiters
    for key, waiter in list(waiters.items()):
        if waiter.due <= turn.now:
            del waiters[key]
            _tell(turn, waiter, _outcome(turn, waiter) or "timeout")
