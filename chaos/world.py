"""A world: how it begins, what can happen next, and what must hold in each of its states.

A state is a tuple of numbers: the directory, a deposed one, what lies in remote stores, each node, each client, what is left of
the fault budgets, then the messages under way, sorted. Each number names a value in a pool; what a party does is computed once
for each of its own states (see `pool.py`, `parties.py`). The explorer sees the same states as whole numbers (`Packed`).

Clients hear at once what is sent to them, unless it is dropped. That hides nothing: a client that waits does nothing else, no
machine can see whether it has heard, and when it sends its next message is an action of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from . import hearing, properties, rest
from .actor import ActorSite
from .parties import Label, Parties
from .possible import DIR as DIR
from .possible import NODES as NODES
from .possible import OLD as OLD
from .possible import STORE as STORE
from .possible import Possible
from .possible import State as State
from .possible import Successor as PackedSuccessor
from .setup import opened
from .words import what_happened
from .world_file import WorldFile

Successor = tuple[State, bool, Label]
"""`(state, was it a fault, label)`."""


class World:
    """One world. `initial`, `successors` and `check` may raise `InvariantViolation`, with `trying` the label of what did."""

    def __init__(self, file: WorldFile) -> None:
        self.file = file
        self.parties = Parties(file)
        self.cast = self.parties.cast
        self.possible = possible = Possible(file, self.parties)
        self.clients, self.budget, self.fixed = possible.clients, possible.budget, possible.fixed
        self.packed = Packed(self)

    @property
    def trying(self) -> Label:
        return self.parties.trying

    @trying.setter
    def trying(self, label: Label) -> None:
        self.parties.trying = label

    def pack(self, state: State) -> int:
        possible = self.possible
        return possible.fields.pack(state[: self.fixed]) | possible.under_way.number(state[self.fixed :]) << possible.top

    def unpack(self, packed: int) -> State:
        possible = self.possible
        return (*possible.fields.unpack(packed), *possible.under_way.items[packed >> possible.top])

    def initial(self) -> State:
        """Everybody registered, each client with its session, the setup played."""
        parties = self.parties
        begin = opened(self.cast)
        parties.sessions = begin.sessions
        head = [parties.put_directory(begin.directory), parties.nobody, parties.put_store(begin.store)]
        head += [parties.put_node(site) for site in begin.nodes]
        head += [parties.put_actor(ActorSite(at, session)) for at, session in enumerate(begin.sessions)]
        head.append(parties.put_budget(tuple(limit for _, limit in self.file.faults)))
        state = tuple(head)
        self.check(state)
        return state

    def successors(self, state: State) -> list[Successor]:
        """All that can happen next, in a stated order. States that follow are checked by whoever finds them new."""
        return [(self.unpack(after), fault, label) for after, fault, label in self.possible.successors(self.pack(state))]

    def check(self, state: State) -> None:
        """What must hold between the parties; what must hold of each alone was checked when it stepped."""
        self.packed.check(self.pack(state))

    def why_not_quiescent(self, state: State) -> str:
        """LIVE-1: nothing under way, nobody waits, nothing is held for the dead, directory and nodes agree."""
        return self.packed.why_not_quiescent(self.pack(state))


class Packed:
    """The same world for the explorer: states are whole numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.parties = world.parties
        self.cast = world.cast
        self.possible = possible = world.possible
        self.successors: Callable[[int], list[PackedSuccessor]] = possible.successors
        mask = possible.fields.mask
        self._checks: list[tuple[int, set[int], Callable[[State], None]]] = [
            (mask([DIR, STORE]), set(), self._check_stores),
            (mask([DIR, possible.budget]), set(), self._check_losses),
        ]
        for place in range(NODES, possible.clients):
            self._checks.append((mask([DIR, place]), set(), self._check_node_at(place)))
        for place in range(possible.clients, possible.budget):
            self._checks.append((mask([DIR, place]), set(), self._check_client_at(place)))
            self._checks.append((mask([place, *range(NODES, possible.clients)]), set(), self._check_reader_at(place)))
        self._rest: dict[int, str] = {}
        self._running = mask([OLD, *range(possible.clients, possible.budget)])
        self._ended: dict[int, str] = {}

    @property
    def trying(self) -> Label:
        return self.parties.trying

    @trying.setter
    def trying(self, label: Label) -> None:
        self.parties.trying = label

    def initial(self) -> int:
        return self.world.pack(self.world.initial())

    def shown(self, state: int) -> State:
        return self.world.unpack(state)

    def told(self, label: Label) -> str:
        return what_happened(self.cast, label[0])

    # ---- what must hold --------------------------------------------------------------------------------------

    def check(self, state: int) -> None:
        for mask, fine, look in self._checks:
            pair = state & mask
            if pair not in fine:
                look(self.possible.fields.unpack(state))
                fine.add(pair)

    def _check_stores(self, head: State) -> None:
        record = self.parties.directories.items[head[DIR]].machine
        if record is not None:
            properties.record_and_stores(record.state, self.parties.stores.items[head[STORE]], self.cast.stores)

    def _check_losses(self, head: State) -> None:
        record = self.parties.directories.items[head[DIR]].machine
        if record is not None:
            left = self.parties.budgets.items[head[self.possible.budget]]
            properties.nothing_lost_without_a_fault(record.state, self.world.file, left)

    def _check_node_at(self, place: int) -> Callable[[State], None]:
        def look(head: State) -> None:
            record = self.parties.directories.items[head[DIR]].machine
            node = self.parties.nodes.items[head[place]]
            if record is not None and node.machine is not None:
                properties.record_and_node(record.state, node.machine, node.machine.boot, node.injured)

        return look

    def _check_client_at(self, place: int) -> Callable[[State], None]:
        def look(head: State) -> None:
            record = self.parties.directories.items[head[DIR]].machine
            site = self.parties.actors.items[head[place]]
            if record is not None and site.alive:
                hearing.believes_record(site, record.state)

        return look

    def _check_reader_at(self, place: int) -> Callable[[State], None]:
        def look(head: State) -> None:
            site = self.parties.actors.items[head[place]]
            if site.alive and site.touched:
                for number in head[NODES : self.possible.clients]:
                    hearing.believes_bytes(self.cast, site, self.parties.nodes.items[number])

        return look

    # ---- rest ------------------------------------------------------------------------------------------------

    def why_not_quiescent(self, state: int) -> str:
        if state >> self.possible.top:
            return "messages are under way"
        key = state & self._running
        known = self._ended.get(key)
        if known is None:
            known = self._ended[key] = self._who_has_not_ended(state)
        if known:
            return known
        key = state & self.possible.rest_mask
        known = self._rest.get(key)
        if known is None:
            parties, head = self.parties, self.possible.fields.unpack(state)
            sites = [parties.nodes.items[number] for number in head[NODES : self.possible.clients]]
            known = rest.why_not(self.cast, parties.directories.items[head[DIR]], sites, parties.stores.items[head[STORE]])
            self._rest[key] = known
        return known

    def _who_has_not_ended(self, state: int) -> str:
        head = self.possible.fields.unpack(state)
        if head[OLD] != self.parties.nobody:
            return "a deposed directory runs"
        for number in head[self.possible.clients : self.possible.budget]:
            site = self.parties.actors.items[number]
            if site.alive:
                return f"client {self.cast.clients[site.at]} has not ended"
        return ""
