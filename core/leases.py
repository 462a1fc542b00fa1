"""Leases over restarts (rule 10): when one that nobody renews is over, however often the directory starts.

A renewal is soft, so that a heartbeat costs no commit: after a start nobody knows how long ago the last one came. The start
therefore gives each lease its full length and writes down when that ends; the holder's first renewal takes the record away, and
no later start gives more. So a lease is never cut short, and that of a dead holder is over at most one lease after the first
start that it did not live to see, in directory time, which is kept on a Tick (`lease_save_ms`) while such a holder is waited for.
"""

from __future__ import annotations

from . import effects
from .effects import Write
from .ids import NodeName, SessionId
from .state import DirectoryConfig, DirectoryState, Lease
from .turn import Turn


def fix(state: DirectoryState, config: DirectoryConfig) -> list[Write]:
    """At a start: each lease ends when an earlier start has fixed it to, or in its full length."""
    now = state.meta.clock_ms
    writes: list[Write] = []
    for number, session in state.sessions.items():
        if number not in state.session_leases:
            lease = state.session_leases[number] = Lease(now + session.lease_ms)
            writes.append((effects.SESSION_LEASES, number, lease))
        state.session_due[number] = state.session_leases[number].due
    for name, node in state.nodes.items():
        if not node.alive:
            continue
        if name not in state.node_leases:
            lease = state.node_leases[name] = Lease(now + config.node_lease_ms)
            writes.append((effects.NODE_LEASES, name, lease))
        state.node_due[name] = state.node_leases[name].due
    state.saved_ms = now
    return writes


def renew_session(turn: Turn, number: SessionId) -> None:
    """Its holder was heard: its full length from now."""
    lift_session(turn, number)
    turn.state.session_due[number] = turn.now + turn.state.sessions[number].lease_ms


def lift_session(turn: Turn, number: SessionId) -> None:
    """What a start has fixed counts no more: the holder was heard, or is gone."""
    if turn.state.session_leases.pop(number, None) is not None:
        turn.persist.append((effects.SESSION_LEASES, number, None))


def renew_node(turn: Turn, name: NodeName) -> None:
    """The node was heard: its full length from now."""
    lift_node(turn, name)
    turn.state.node_due[name] = turn.now + turn.config.node_lease_ms


def lift_node(turn: Turn, name: NodeName) -> None:
    """As `lift_session`."""
    if turn.state.node_leases.pop(name, None) is not None:
        turn.persist.append((effects.NODE_LEASES, name, None))


def must_save(turn: Turn) -> bool:
    """Has time passed that a fixed lease counts by, and that no commit has kept?"""
    state = turn.state
    return turn.now - state.saved_ms >= turn.config.lease_save_ms and bool(state.session_leases or state.node_leases)
