"""A directory in a world: the real machine, what is durable, and what waits for a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import define

from ..core.directory import Directory
from ..core.effects import Ready, Write
from ..core.events import Tick
from ..core.ids import CopyId, GroupId, NodeName, Role, SessionId
from ..core.ledger import copy_in, is_kept
from ..core.records import evolve
from ..core.reports import Heartbeat
from ..core.state import DirectoryState
from . import properties
from .cast import NOW, Cast, said
from .keys import Key, directory_key, facts_key, message_key
from .node_site import BEAT, FREE, QUIET

Tables = dict[str, dict[Any, Any]]

PATIENCE = 1


@define
class DirectorySite:
    """Treated as frozen. `machine` None: the process is down, and `asleep` is what it would load. `held`: steps whose outputs
    wait for the commit of their writes. `deposed`: a later term has the store, so that no commit of this one succeeds."""

    machine: Directory | None
    tables: Tables
    held: tuple[Ready, ...] = ()
    deposed: bool = False
    patience: int = 0
    """How many more messages a deposed directory takes: it hears of its end some day, and worlds have to be bounded."""
    asleep: DirectoryState | None = None

    @property
    def key(self) -> Key:
        if self.machine is None:
            return ("down", None if self.asleep is None else facts_key(self.asleep))
        running = directory_key(self.machine.state)
        if not self.held:
            return (self.deposed, self.patience, running)
        durable = facts_key(Directory.load(self.tables))
        return (self.deposed, running, durable, tuple([_ready_key(ready) for ready in self.held]))


def _ready_key(ready: Ready) -> Key:
    return (
        tuple([message_key(one.target, one.message) for one in said(ready)]),
        tuple([(table, key if not isinstance(key, tuple) else tuple(key)) for table, key, _ in ready.persist]),
    )


@define
class Step:
    """What became of a directory by one step: `readies` are those whose outputs leave now."""

    site: DirectorySite
    readies: tuple[Ready, ...]
    persisted: bool


@define
class Move:
    """Something that can happen to a directory by itself. `about`: what it is about; `who`: which."""

    label: tuple[Any, ...]
    when: str
    take: Callable[[], Step]
    about: str = ""
    who: int = -1
    done: Any = None
    """What it came to, once taken (`parties.DirectoryStep`)."""


NOBODY = DirectorySite(None, {})
"""In the place of a deposed directory while there is none."""


# ---- stepping ------------------------------------------------------------------------------------------------


def written(tables: Tables, writes: tuple[Write, ...]) -> Tables:
    """The tables after one commit; those before are left alone."""
    after = dict(tables)
    fresh: set[str] = set()
    for table, key, record in writes:
        if table not in fresh:
            fresh.add(table)
            after[table] = dict(after.get(table, {}))
        if record is None:
            after[table].pop(key, None)
        else:
            after[table][key] = record
    return after


def takes(cast: Cast, site: DirectorySite, event: Any, prepared: Directory | None = None) -> Step:
    """The directory steps. Without pipelining its writes are durable and its outputs gone at once."""
    machine = site.machine
    assert machine is not None
    before = prepared or machine
    if type(event) is Heartbeat:
        before = _since_long(before, event)
    after = before.copy()
    ready = after.step(event, NOW)
    properties.after_directory_step(before, after, event, ready)
    if site.deposed:
        if ready.persist:
            return Step(NOBODY, (), False)  # its commit is refused: the term has ended, nothing has left
        return Step(DirectorySite(after, site.tables, (), True, site.patience - (type(event) is not Tick)), (ready,), False)
    if cast.file.pipelined:
        held = (*site.held, ready) if ready.persist or ready.send or ready.reply else site.held
        return Step(DirectorySite(after, site.tables, held), (), bool(ready.persist))
    tables = written(site.tables, ready.persist) if ready.persist else site.tables
    properties.durable_before_said(after, tables, (ready,))
    return Step(DirectorySite(after, tables), (ready,), bool(ready.persist))


def _since_long(machine: Directory, event: Heartbeat) -> Directory:
    """Heartbeats come a repair interval apart: an order not taken since the last one was lost, as far as the directory knows."""
    link = machine.state.links.get(event.node)
    if link is None:
        return machine
    later = machine.copy()
    later.state.links[event.node] = evolve(link, seen_at=machine.state.meta.clock_ms - machine.config.repair_ms)
    return later


def flushed(cast: Cast, site: DirectorySite) -> Step:
    """The commit of all held steps is done: their outputs leave in order."""
    writes = tuple([write for ready in site.held for write in ready.persist])
    tables = written(site.tables, writes)
    assert site.machine is not None
    properties.durable_before_said(site.machine, tables, site.held)
    return Step(DirectorySite(site.machine, tables), site.held, False)


# ---- life and death ------------------------------------------------------------------------------------------


def born(cast: Cast) -> DirectorySite:
    """A directory of a store that was never used, in its first term."""
    machine = Directory(cast.directory_config, Directory.blank("world"))
    tables = written({}, machine.start(NOW).persist)
    return DirectorySite(machine, tables)


def crashed(site: DirectorySite, *, committed: bool) -> DirectorySite:
    """The process is gone. Of a commit that was under way nobody knows: it has happened (`committed`), or not."""
    tables = site.tables
    if committed and site.held:
        tables = written(tables, tuple([write for ready in site.held for write in ready.persist]))
    ordered = {table: {key: rows[key] for key in sorted(rows)} for table, rows in sorted(tables.items())}
    return DirectorySite(None, ordered, asleep=Directory.load(ordered))


def restarted(cast: Cast, site: DirectorySite) -> Step:
    """A new term, from what is durable."""
    state = Directory.load(site.tables)
    before = state.copy()
    machine = Directory(cast.directory_config, state)
    ready = machine.start(NOW)
    properties.after_restart(before, machine)
    return Step(DirectorySite(machine, written(site.tables, ready.persist)), (ready,), True)


def deposed(site: DirectorySite) -> DirectorySite:
    return DirectorySite(site.machine, site.tables, (), True, PATIENCE)


# ---- what happens by itself ----------------------------------------------------------------------------------


def moves(cast: Cast, site: DirectorySite) -> Iterator[Move]:
    """Ticks: with nothing newly due, and with one thing that has become due."""
    machine = site.machine
    if machine is None:
        return
    if site.held:
        yield Move(("commit",), FREE, lambda: flushed(cast, site))
    if machine.state.halted:
        return
    yield Move(("tick",), FREE, lambda: takes(cast, site, Tick()))
    state = machine.state
    for session in state.session_due:
        yield _due(cast, site, ("session over", session), "expire", partial(_session_due, session), "session", session)
    for name in state.node_due:
        at = cast.node_at[name]
        yield _due(cast, site, ("lease over", name), "lapse", partial(_lease_due, name), "node", at)
    for copy_id, group in state.timed.items():
        copy = copy_in(state.copies[group], copy_id)
        if copy is None or copy.due <= state.meta.clock_ms:
            continue
        if copy.absent:
            label, when = ("absent too long", str(copy_id)), QUIET
        elif copy.role is Role.INCOMING:
            label, when = ("deadline", str(copy_id)), QUIET
        elif copy_id not in state.pinned and not is_kept(state, state.groups[group], copy):
            label, when = ("grace over", str(copy_id)), FREE
        else:
            continue
        yield _due(cast, site, label, when, partial(_copy_due, group, copy_id))
    if cast.stores:
        yield _due(cast, site, ("repair",), BEAT, _repair_due, "repair")
        yield _due(cast, site, ("scan",), BEAT, _scan_due, "scan")


def _due(
    cast: Cast, site: DirectorySite, label: tuple[Any, ...], when: str, change: Callable[[DirectoryState], None],
    about: str = "", who: int = -1,
) -> Move:  # fmt: skip
    def take() -> Step:
        assert site.machine is not None
        later = site.machine.copy()
        change(later.state)
        return takes(cast, site, Tick(), later)

    return Move(("due", *label), when, take, about, who)


def _session_due(session: SessionId, state: DirectoryState) -> None:
    state.session_due[session] = state.meta.clock_ms


def _lease_due(node: NodeName, state: DirectoryState) -> None:
    state.node_due[node] = state.meta.clock_ms


def _copy_due(group: GroupId, copy_id: CopyId, state: DirectoryState) -> None:
    """Time has passed until this copy's `due`. Its step uses the record up, so that the instant is nowhere kept."""
    state.copies[group] = tuple(
        [evolve(copy, due=state.meta.clock_ms) if copy.id == copy_id else copy for copy in state.copies[group]]
    )


def _repair_due(state: DirectoryState) -> None:
    state.repair_at = state.meta.clock_ms


def _scan_due(state: DirectoryState) -> None:
    _repair_due(state)
    for name, note in list(state.scans.items()):
        state.scans[name] = evolve(note, due=state.meta.clock_ms)
