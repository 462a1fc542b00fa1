"""How a world begins: everybody starts, registers and tells an inventory; clients open sessions; the setup's script is played.

No choices here: the oldest thing happens first, without faults, by the same machines.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from ..core.answers import SessionOpened, Told
from ..core.commands import OpenSession
from ..core.effects import Ready
from ..core.events import Tick
from ..core.ids import Peer, SessionId
from . import actor, directory_site, hearing, node_site
from .actor import ActorSite
from .cast import TO_CLIENT, TO_DIRECTORY, Cast, said
from .directory_site import DirectorySite
from .memory import Cells
from .node_site import NodeSite
from .script import parse_script
from .world_file import WorldFileError

STEPS_MAX = 10_000
SETUP = "setup"


@define
class Beginning:
    directory: DirectorySite
    nodes: list[NodeSite]
    store: Cells
    sessions: list[SessionId]


class _Play:
    """The world in its first moments, one thing after another."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.directory = directory_site.born(cast)
        self.nodes = [node_site.first(cast, at) for at in range(len(cast.nodes))]
        self.store: Cells = {}
        self.queue: list[int] = []
        self.heard: list[int] = []
        self.steps = 0

    def say(self, ready: Ready) -> None:
        for one in said(ready):
            self.queue.append(self.cast.post(one.target, one.message))

    def directory_takes(self, event: Any) -> None:
        for ready in self.let_out(directory_site.takes(self.cast, self.directory, event)):
            self.say(ready)

    def let_out(self, step: directory_site.Step) -> list[Ready]:
        """What a step lets out, after its commit."""
        self.directory = step.site
        readies = list(step.readies)
        if step.site.held:
            step = directory_site.flushed(self.cast, step.site)
            self.directory = step.site
            readies += step.readies
        return readies

    def node_step(self, step: node_site.Step) -> None:
        self.nodes[step.site.at] = step.site
        self.store = step.store
        self.say(step.ready)

    def run(self) -> None:
        """Until nothing is under way."""
        while True:
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise WorldFileError(f"world {self.cast.file.name}: the setup comes to no end")
            if self.queue:
                self._deliver(self.queue.pop(0))
                continue
            working = next((site for site in self.nodes if site.works), None)
            if working is None:
                return
            moves = node_site.moves(self.cast, working, self.store)
            self.node_step(next(move for move in moves if move.label[0] == "work" and move.when == node_site.FREE).take())

    def _deliver(self, number: int) -> None:
        message = self.cast.messages.items[number]
        if message.kind == TO_DIRECTORY:
            self.directory_takes(message.body)
        elif message.kind == TO_CLIENT:
            self.heard.append(number)
        else:
            self.node_step(node_site.takes(self.cast, self.nodes[message.at], self.store, message.body))


def opened(cast: Cast) -> Beginning:
    """The beginning of a world."""
    play = _Play(cast)
    for at in range(len(cast.nodes)):
        play.node_step(node_site.start(cast, play.nodes[at], play.store))
    play.run()
    if cast.file.setup:
        _play_setup(cast, play)
    sessions = [_open(cast, play, name) for name in cast.clients]
    play.directory_takes(Tick())
    play.run()
    play.directory_takes(Tick())
    return Beginning(play.directory, play.nodes, play.store, sessions)


def _open(cast: Cast, play: _Play, name: str) -> SessionId:
    event = OpenSession(Peer(f"client/{name}"), f"token-{name}", "", 10_000)
    told = play.let_out(directory_site.takes(cast, play.directory, event))[0].reply[0].message
    assert isinstance(told, Told)
    assert isinstance(told.answer, SessionOpened)
    return told.answer.session


def _play_setup(cast: Cast, play: _Play) -> None:
    """The setup's client comes first, does its work and closes; then it is forgotten."""
    script = parse_script(cast.file.name, (*cast.file.setup, "close"), cast.groups, [*cast.nodes, *cast.stores])
    clients = cast.clients
    cast.clients = [*clients, SETUP]
    site = ActorSite(len(clients), _open(cast, play, SETUP))
    while site.alive:
        move = next(m for m in actor.moves(cast, script, site) if m.when == node_site.FREE)
        site = move.site
        play.queue += [cast.post(*send) for send in move.send]
        play.run()
        while play.heard:
            site, sends = hearing.hears(cast, script, site, play.heard.pop(0))
            play.queue += [cast.post(*send) for send in sends]
            play.run()
        step = _grace(cast, play)
        while step is not None:
            play.run()
            step = _grace(cast, play)
    cast.clients = clients


def _grace(cast: Cast, play: _Play) -> directory_site.Step | None:
    """Copies that retire are let go at once, so that a world does not begin with them."""
    for move in directory_site.moves(cast, play.directory):
        if move.label[:2] == ("due", "grace over"):
            step = move.take()
            for ready in play.let_out(step):
                play.say(ready)
            return step
    return None
