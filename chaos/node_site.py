"""A node in a world: the real machine, the byte work it has asked for, and what really lies in its tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from attrs import define

from ..core import effects, events
from ..core.effects import Ready, Transfer
from ..core.ids import CopyId, Tier
from ..core.node import Node
from ..core.node_state import NO_SPEC, CopyJob, NodeState, Unreleased
from ..core.plain import pack
from ..core.records import evolve
from . import byte_work, properties
from .byte_work import Files
from .cast import NOW, Cast
from .keys import Key, node_key
from .memory import Cells

FREE: Final = "free"
"""May happen whenever it can."""
QUIET: Final = "quiet"
"""Happens when nothing else is under way; earlier at the price of the fault `early`."""
BEAT: Final = "beat"
"""As QUIET, but only while something needs repair; at any other moment at the price of the fault `beat`."""


@define
class NodeSite:
    """Treated as frozen. `machine` None: the process is down. `injured`: byte work has failed here by a fault, so that copies may
    be lost."""

    at: int
    boot: int
    machine: Node | None
    works: tuple[Transfer, ...]
    cells: Cells
    files: Files
    injured: bool = False

    @property
    def key(self) -> Key:
        return (
            self.at, self.boot, None if self.machine is None else node_key(self.machine.state),
            tuple([_work_key(work) for work in self.works]), tuple(sorted(self.cells.items())),
            tuple(sorted([(place, *copy, *what) for (place, copy), what in self.files.items()])), self.injured,
        )  # fmt: skip


def _work_key(work: Transfer) -> Key:
    if isinstance(work, effects.ReleaseInstance | effects.ListStore):
        return (type(work).__name__, *pack(work))
    return (type(work).__name__, *pack(evolve(work, spec=NO_SPEC)))


@define
class Step:
    """What became of a node by one step; `store`: what lies in the remote stores after it."""

    site: NodeSite
    store: Cells
    ready: Ready


@define
class Move:
    """Something that can happen to a node by itself. `who`: the client whose death it needs, or -1."""

    label: tuple[Any, ...]
    when: str
    take: Callable[[], Step]
    who: int = -1
    done: Any = None
    """What it came to, once taken (`parties.NodeStep`)."""


def takes(cast: Cast, site: NodeSite, store: Cells, event: Any) -> Step:
    """The node steps."""
    machine = site.machine
    assert machine is not None
    after = machine.copy()
    ready = after.step(event, NOW)
    properties.after_node_step(machine, after, event, ready)
    cells = byte_work.begun(site.cells, ready.transfer)
    next_site = NodeSite(site.at, site.boot, after, (*site.works, *ready.transfer), cells, site.files, site.injured)
    properties.bytes_are_there(next_site.machine, next_site.cells, next_site.injured)
    return Step(next_site, store, ready)


def moves(cast: Cast, site: NodeSite, store: Cells) -> Iterator[Move]:
    """All that can happen to the node without a message. A label is known before its step is taken."""
    if site.machine is None:
        if cast.file.restarts:
            yield from _restart(cast, site, store)
        return
    name = cast.nodes[site.at]
    for at, work in enumerate(site.works):
        yield from _completions(cast, site, store, at, work)
    yield from _timers(cast, site, store)
    owners = {guard.owner for guard in site.machine.state.guards.values()}
    for who, client in enumerate(cast.clients):
        owner = f"process:{client}"
        if owner in owners:
            label = ("exit", name, client)
            yield Move(label, FREE, partial(takes, cast, site, store, events.ProcessExited(owner)), who)
    if site.machine.state.fenced:
        yield Move(("ends", name), FREE, lambda: crashed(site, store, landed=False))
    if cast.file.budget("crash_node"):
        yield Move(("crash", name), "crash_node", lambda: crashed(site, store, landed=False))
        late = crashed(site, store, landed=True)
        if (late.site.files, late.store) != (site.files, store):
            yield Move(("crash", name, "its last byte work lands"), "crash_node", lambda: late)


# ---- life and death ------------------------------------------------------------------------------------------


def first(cast: Cast, at: int) -> NodeSite:
    """A node that has not run yet."""
    return NodeSite(at, 0, None, (), {}, {})


def start(cast: Cast, site: NodeSite, store: Cells) -> Step:
    """A new boot: what a recovery scan found, then the first Tick, which registers."""
    boot = site.boot + 1
    config = cast.node_configs[site.at]
    born = NodeSite(site.at, boot, Node(config, f"{config.name}-{boot}"), (), site.cells, site.files, site.injured)
    for (place, copy), (group, manifest) in sorted(site.files.items()):
        found = events.InstanceFound(copy, cast.specs[group], manifest, Tier[place])
        born = takes(cast, born, store, found).site
    return takes(cast, born, store, events.Tick())


def _restart(cast: Cast, site: NodeSite, store: Cells) -> Iterator[Move]:
    yield Move(("restart", cast.nodes[site.at]), FREE, lambda: start(cast, site, store))


def crashed(site: NodeSite, store: Cells, *, landed: bool) -> Step:
    """The process is gone, and with it what is volatile. Byte work that was running on files and stores has `landed`, or not."""
    cells, files = site.cells, site.files
    if landed:
        for work in site.works:
            cells, files, store = byte_work.landed(work, cells, files, store)
    kept = {(place, copy.revision, copy.ordinal) for place, copy in files}
    cells = {cell: value for cell, value in cells.items() if cell[:3] in kept}
    return Step(NodeSite(site.at, site.boot, None, (), cells, files, site.injured), store, effects.NOTHING)


# ---- byte work -----------------------------------------------------------------------------------------------


def _completions(cast: Cast, site: NodeSite, store: Cells, at: int, work: Transfer) -> Iterator[Move]:
    name = cast.nodes[site.at]
    kind = type(work).__name__
    ways = [("", FREE)]
    if cast.file.budget("fail"):
        ways.append(("fails", "fail"))
    if cast.file.budget("rot") and isinstance(work, effects.StoreBlocks | effects.LoadBlocks):
        ways.append(("rots", "rot"))
    for way, when in ways:
        label = ("work", name, kind, work.job, way)
        yield Move(label, when, partial(_finish, cast, site, store, at, work, way))


def _finish(cast: Cast, site: NodeSite, store: Cells, at: int, work: Transfer, way: str) -> Step:
    done = byte_work.finish(work, way, site.cells, site.files, store, cast.group_at, site.injured)
    works = (*site.works[:at], *site.works[at + 1 :])
    injured = site.injured or way != ""
    before = NodeSite(site.at, site.boot, site.machine, works, done.cells, done.files, injured)
    return takes(cast, before, done.store, done.event)


# ---- timers --------------------------------------------------------------------------------------------------


def _timers(cast: Cast, site: NodeSite, store: Cells) -> Iterator[Move]:
    """Each timer of its own: it is set to this instant and a Tick is given; all others are still to come."""
    name = cast.nodes[site.at]
    machine = site.machine
    assert machine is not None
    state = machine.state
    if state.fenced:
        return

    def due(label: tuple[Any, ...], when: str, change: Any) -> Move:
        def take() -> Step:
            later = machine.copy()
            change(later.state)
            woken = NodeSite(site.at, site.boot, later, site.works, site.cells, site.files, site.injured)
            return takes(cast, woken, store, events.Tick())

        return Move(("due", name, *label), when, take)

    link = state.links[0]
    if not link.registered:
        yield due(("register",), QUIET, lambda s: s.links.update({0: evolve(link, register_at=NOW)}))
    else:
        yield due(("heartbeat",), BEAT, lambda s: s.links.update({0: evolve(link, heartbeat_at=NOW)}))
        yield due(("inventory",), BEAT, lambda s: s.links.update({0: evolve(link, inventory_at=NOW)}))
    for copy, job in state.jobs.items():
        yield due(("deadline", str(copy)), QUIET, partial(_job_due, evolve(job, deadline=NOW)))
        if job.ask_at > NOW:
            yield due(("ask again", str(copy)), QUIET, partial(_job_due, evolve(job, ask_at=NOW)))
    for key, unreleased in state.unreleased.items():
        if not any(isinstance(w, effects.ReleaseInstance) and w.instance.copy == key[0] for w in site.works):
            yield due(("release again", str(key[0])), QUIET, partial(_release_due, key, evolve(unreleased, at=NOW)))


def _job_due(job: CopyJob, state: NodeState) -> None:
    state.jobs[job.copy] = job


def _release_due(key: tuple[CopyId, Tier], unreleased: Unreleased, state: NodeState) -> None:
    state.unreleased[key] = unreleased
