"""Seeded faults of leases, clocks and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import (
    client_get,
    directory,
    effects,
    events,
    guards,
    leases,
    membership,
    node,
    node_io,
    ordering,
    orders,
    reports,
)
from pinfold.core.calls import Done, GotGroup
from pinfold.core.directory import Directory
from pinfold.core.records import evolve
from tests.cases.switches import everywhere, wrapped, wrapped_method


def leases_end_with_the_term(patch: pytest.MonkeyPatch) -> None:
    """After a restart nobody counts the leases that were granted before."""

    def start(whole: Any, directory: Any, *rest: Any) -> Any:
        ready = whole(directory, *rest)
        directory.state.session_due.clear()
        return ready

    wrapped_method(patch, Directory, "start", start)


def starts_forget_what_starts_have_given(patch: pytest.MonkeyPatch) -> None:
    """Deadlines are reset on recovery: each start gives each lease its full length."""

    def fix(whole: Any, state: Any, config: Any) -> Any:
        state.session_leases.clear()
        state.node_leases.clear()
        return whole(state, config)

    wrapped(patch, leases.fix, fix)


def time_of_waits_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """The checkpoint is lost: time that only a dead holder's lease counts by dies with the directory."""
    everywhere(patch, leases.must_save, lambda turn: False)


def checked_before_the_copy_only(patch: pytest.MonkeyPatch) -> None:
    """What was read is given out as it is."""

    def blocks_loaded(whole: Any, turn: Any, work: Any, event: Any) -> None:
        known = turn.state.copies[work.copy].checksums
        believed = tuple(known[block] for block in work.loaded) if known else event.checksums
        whole(turn, work, evolve(event, checksums=believed))

    kind, whole = node.DONE[events.BlocksLoaded]
    patch.setitem(node.DONE, events.BlocksLoaded, (kind, lambda turn, work, event: blocks_loaded(whole, turn, work, event)))
    assert whole is node_io.blocks_loaded


def one_way_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A guard for mapped memory asks for nothing."""
    patch.setattr(guards, "why_unreadable", lambda copy: ("", "") if copy is not None else ("StaleCopy", "copy_known"))


def stale_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A node's no is logged, and the call goes on."""

    def stale(turn: Any, record: Any, refusal: Any) -> None:
        route = record.route
        got = GotGroup(route.group, route, (), (), route.tier, None)
        client_get.finish(turn, record, Done(got))

    everywhere(patch, client_get.stale, stale)


def instants_travel(patch: pytest.MonkeyPatch) -> None:
    """A deadline leaves as an instant of the directory's clock."""

    def order_making(whole: Any, turn: Any, g: Any, copy: Any) -> None:
        before = len(turn.send)
        whole(turn, g, copy)
        for number in range(before, len(turn.send)):
            send = turn.send[number]
            if isinstance(send.message.body, orders.Fetch):
                body = evolve(send.message.body, deadline_ms=1_000_000 + copy.due)
                turn.send[number] = effects.Send(send.target, evolve(send.message, body=body))

    wrapped(patch, ordering.order_making, order_making)


def recovery_sweeps(patch: pytest.MonkeyPatch) -> None:
    """What has no live lease when it is read back is erased."""

    def load(tables: Any) -> Any:
        held = {hold.group for hold in tables.get(effects.HOLDS, {}).values()}
        groups = {key: record for key, record in tables.get(effects.GROUPS, {}).items() if key in held}
        return whole({**tables, effects.GROUPS: groups})

    whole = Directory.load
    patch.setattr(Directory, "load", staticmethod(load))


def the_last_word_has_the_name(patch: pytest.MonkeyPatch) -> None:
    """A registration replaces another boot without saying that it means to."""

    def register(turn: Any, event: Any) -> None:
        known = turn.state.nodes.get(event.node)
        membership.register(turn, evolve(event, over=known.incarnation if known is not None else 0))

    patch.setitem(directory._HANDLERS, reports.Register, register)


def nodes_by_name(patch: pytest.MonkeyPatch) -> None:
    """A report is current if its node's name is."""

    def is_current(turn: Any, name: Any, incarnation: int) -> Any:
        known = turn.state.nodes.get(name)
        return known if known is not None and known.alive else None

    everywhere(patch, membership.is_current, is_current)
