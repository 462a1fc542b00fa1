"""What each party of a world does, computed once for each of its own states: the pools, and the steps between their numbers."""

from __future__ import annotations

from typing import Any

from ..core.ids import SessionId
from . import actor, directory_site, hearing, node_site
from .actor import ActorSite
from .cast import Cast, Out
from .directory_site import NOBODY, DirectorySite
from .fields import CLIENT_BITS, DIRECTORY_BITS, NODE_BITS, STORE_BITS
from .memory import Cells
from .node_site import NodeSite
from .pool import Pool, digest_of
from .script import parse_script
from .world_file import FAULTS, WorldFile

Words = tuple[Any, ...]
"""What happened, in words; message numbers among them."""

Label = tuple[Words, Out]
"""What happened, and what it let out."""

DirectoryStep = tuple[int, Label, bool]
"""`(directory, label, was anything persisted)`."""

NodeStep = tuple[int, int, Label]
"""`(node, stores, label)`."""


class Parties:
    """See the module. `trying` is the label of the step that is being computed: if it raises, that was the step."""

    def __init__(self, file: WorldFile) -> None:
        self.file = file
        self.cast = cast = Cast(file)
        places = [*cast.nodes, *cast.stores]
        self.scripts = [parse_script(file.name, lines, cast.groups, places) for _, lines in file.clients]
        self.sessions: list[SessionId] = []
        self.directories: Pool[DirectorySite] = Pool(DIRECTORY_BITS)
        self.stores: Pool[Cells] = Pool(STORE_BITS)
        self.nodes: Pool[NodeSite] = Pool(NODE_BITS)
        self.actors: Pool[ActorSite] = Pool(CLIENT_BITS)
        self.budgets: Pool[tuple[int, ...]] = Pool()
        self.trying: Label = ((), ((), ()))
        self.nobody = self.put_directory(NOBODY)
        self._takes: dict[tuple[int, int], DirectoryStep] = {}
        self._directory_moves: dict[int, list[directory_site.Move]] = {}
        self._restarts: dict[int, DirectoryStep] = {}
        self._deposals: dict[int, tuple[int, int, Label]] = {}
        self._crashes: dict[tuple[int, bool], int] = {}
        self._node_takes: dict[tuple[int, int], tuple[int, Label]] = {}
        self._node_moves: dict[tuple[int, int], list[node_site.Move]] = {}
        self._actor_moves: dict[int, list[tuple[Label, str, int]]] = {}
        self._hears: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self._spent: dict[tuple[int, str], int] = {}

    # ---- pools -----------------------------------------------------------------------------------------------

    def put_directory(self, site: DirectorySite) -> int:
        return self.directories.put(digest_of(site.key), site)

    def put_store(self, cells: Cells) -> int:
        return self.stores.put(digest_of(tuple(sorted(cells.items()))), cells)

    def put_node(self, site: NodeSite) -> int:
        return self.nodes.put(digest_of(site.key), site)

    def put_actor(self, site: ActorSite) -> int:
        return self.actors.put(digest_of(site.key), site)

    def put_budget(self, budget: tuple[int, ...]) -> int:
        return self.budgets.put(digest_of(budget), budget)

    def spend(self, budget: int, fault: str) -> int:
        """The budget with one fault less, -1 when there is none left."""
        key = (budget, fault)
        known = self._spent.get(key)
        if known is None:
            left = self.budgets.items[budget]
            at = FAULTS.index(fault)
            known = self._spent[key] = self.put_budget((*left[:at], left[at] - 1, *left[at + 1 :])) if left[at] else -1
        return known

    # ---- the directory ---------------------------------------------------------------------------------------

    def _directory_step(self, words: Words, take: Any) -> DirectoryStep:
        self.trying = (words, ((), ()))
        step: directory_site.Step = take()
        return self.put_directory(step.site), (words, self.cast.let_all_out(step.readies)), step.persisted

    def directory_takes(self, site: int, message: int) -> DirectoryStep:
        key = (site, message)
        known = self._takes.get(key)
        if known is None:
            body = self.cast.messages.items[message].body
            there = self.directories.items[site]
            words = ("deliver to the deposed" if there.deposed else "deliver", message)
            known = self._takes[key] = self._directory_step(words, lambda: directory_site.takes(self.cast, there, body))
        return known

    def directory_moves(self, site: int) -> list[directory_site.Move]:
        """What can happen to a directory by itself; `done_directory` takes the step."""
        known = self._directory_moves.get(site)
        if known is None:
            known = self._directory_moves[site] = list(directory_site.moves(self.cast, self.directories.items[site]))
        return known

    def done_directory(self, move: directory_site.Move) -> DirectoryStep:
        if move.done is None:
            move.done = self._directory_step(move.label, move.take)
        done: DirectoryStep = move.done
        return done

    def directory_restarts(self, site: int) -> DirectoryStep:
        known = self._restarts.get(site)
        if known is None:
            there = self.directories.items[site]
            words = ("restart", "directory")
            known = self._restarts[site] = self._directory_step(words, lambda: directory_site.restarted(self.cast, there))
        return known

    def directory_deposed(self, site: int) -> tuple[int, int, Label]:
        """`(the old one, the new one, label)`."""
        known = self._deposals.get(site)
        if known is None:
            there = self.directories.items[site]
            asleep = directory_site.crashed(there, committed=True)
            new, label, _ = self._directory_step(("depose", "directory"), lambda: directory_site.restarted(self.cast, asleep))
            known = self._deposals[site] = (self.put_directory(directory_site.deposed(there)), new, label)
        return known

    def directory_crashes(self, site: int, committed: bool) -> int:
        key = (site, committed)
        known = self._crashes.get(key)
        if known is None:
            after = directory_site.crashed(self.directories.items[site], committed=committed)
            known = self._crashes[key] = self.put_directory(after)
        return known

    # ---- nodes -----------------------------------------------------------------------------------------------

    def node_takes(self, site: int, message: int) -> tuple[int, Label]:
        key = (site, message)
        known = self._node_takes.get(key)
        if known is None:
            words = ("deliver", message)
            self.trying = (words, ((), ()))
            step = node_site.takes(self.cast, self.nodes.items[site], {}, self.cast.messages.items[message].body)
            known = self._node_takes[key] = (self.put_node(step.site), (words, self.cast.let_out(step.ready)))
        return known

    def node_moves(self, site: int, store: int) -> list[node_site.Move]:
        """What can happen to a node by itself; `done_node` takes the step."""
        key = (site, store)
        known = self._node_moves.get(key)
        if known is None:
            moves = node_site.moves(self.cast, self.nodes.items[site], self.stores.items[store])
            known = self._node_moves[key] = list(moves)
        return known

    def done_node(self, move: node_site.Move) -> NodeStep:
        if move.done is None:
            self.trying = (move.label, ((), ()))
            step = move.take()
            label = (move.label, self.cast.let_out(step.ready))
            move.done = (self.put_node(step.site), self.put_store(step.store), label)
        done: NodeStep = move.done
        return done

    # ---- clients ---------------------------------------------------------------------------------------------

    def actor_moves(self, site: int) -> list[tuple[Label, str, int]]:
        """`(label, when, client)` of each thing that a client may do."""
        known = self._actor_moves.get(site)
        if known is None:
            known = self._actor_moves[site] = []
            there = self.actors.items[site]
            for move in actor.moves(self.cast, self.scripts[there.at], there):
                sent = tuple([self.cast.post(*send) for send in move.send])
                known.append(((move.label, (sent, ())), move.when, self.put_actor(move.site)))
        return known

    def hears(self, site: int, message: int) -> tuple[int, tuple[int, ...]]:
        """`(client, messages that it sends at once)`."""
        key = (site, message)
        known = self._hears.get(key)
        if known is None:
            before = self.actors.items[site]
            after, sends = hearing.hears(self.cast, self.scripts[before.at], before, message)
            known = self._hears[key] = (self.put_actor(after), tuple([self.cast.post(*send) for send in sends]))
        return known
