"""What can happen next in a world, and what must hold in each of its states.

A state is a tuple of numbers: the directory, a deposed one, what lies in remote stores, each node, each client, what is left of
the fault budgets, then the messages under way, sorted. Each number names a value in a pool; what a party does is computed once
for each of its own states (see `pool.py`, `parties.py`).

Clients hear at once what is sent to them, unless it is dropped. That hides nothing: a client that waits does nothing else, no
machine can see whether it has heard, and when it sends its next message is an action of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import directory_site, hearing, properties, rest
from .actor import ActorSite
from .cast import SILENCE, TO_DIRECTORY, Out
from .node_site import BEAT, FREE, QUIET
from .parties import DirectoryStep, Label, Parties
from .setup import opened
from .world_file import WorldFile

State = tuple[int, ...]
Successor = tuple[State, bool, Label]
"""`(state, was it a fault, label)`."""

DIR, OLD, STORE, NODES = 0, 1, 2, 3


class World:
    """One world. `initial`, `successors` and `check` may raise `InvariantViolation`, with `trying` the label of what did."""

    def __init__(self, file: WorldFile) -> None:
        self.file = file
        self.parties = Parties(file)
        self.cast = self.parties.cast
        self.clients = NODES + len(self.cast.nodes)
        self.budget = self.clients + len(self.cast.clients)
        self.fixed = self.budget + 1
        self._rest: dict[State, str] = {}
        self._repairs: dict[tuple[int, int], bool] = {}
        self._store_repairs: dict[State, str] = {}
        self._fine: set[tuple[int, int, int]] = set()

    @property
    def trying(self) -> Label:
        return self.parties.trying

    @trying.setter
    def trying(self, label: Label) -> None:
        self.parties.trying = label

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

    # ---- what can happen -------------------------------------------------------------------------------------

    def successors(self, state: State) -> list[Successor]:
        """All that can happen next, in a stated order. States that follow are checked by whoever finds them new."""
        found: list[Successor] = []
        head, net = state[: self.fixed], state[self.fixed :]
        quiet = self.file.repair and not net and self._idle(head)
        self._client_moves(head, net, quiet, found)
        self._deliveries(head, net, found)
        self._node_moves(head, net, quiet, found)
        self._directory_moves(head, net, quiet, found)
        return found

    def _idle(self, head: State) -> bool:
        """No byte work runs and no commit is under way."""
        nodes = self.parties.nodes.items
        held = self.parties.directories.items[head[DIR]].held
        return not held and not any(nodes[number].works for number in head[NODES : self.clients])

    def _price(self, budget: int, when: str, quiet: bool, broken: bool) -> tuple[int, bool]:
        """`(budget after it, is it a fault)`; budget -1: it can't happen now."""
        if when == FREE or (when == QUIET and quiet) or (when == BEAT and broken):
            return budget, False
        return self.parties.spend(budget, "early" if when == QUIET else "beat" if when == BEAT else when), True

    def _add(self, found: list[Successor], head: list[int], net: State, label: Label, fault: bool) -> None:
        """A successor: what was let out goes under way or is heard; what is heard may instead be dropped, at a price."""
        sent, heard = label[1]
        if not heard:
            found.append((self._state(head, net, sent), fault, label))
            return
        after = list(head)
        more = sent
        for at, message in heard:
            after[self.clients + at], replies = self.parties.hears(after[self.clients + at], message)
            more += replies
        found.append((self._state(after, net, more), fault, label))
        lossy = self.parties.spend(head[self.budget], "drop")
        if lossy >= 0:
            for at, message in heard:
                if self.parties.actors.items[head[self.clients + at]].alive:
                    after = list(head)
                    after[self.budget] = lossy
                    words = (*label[0], "and the answer is lost:", message)
                    found.append((self._state(after, net, sent), True, (words, (sent, ()))))

    @staticmethod
    def _state(head: Iterable[int], net: State, sent: tuple[int, ...]) -> State:
        return (*head, *sorted((*net, *sent))) if sent else (*head, *net)

    def _client_moves(self, head: State, net: State, quiet: bool, found: list[Successor]) -> None:
        for at in range(self.clients, self.budget):
            for label, when, site in self.parties.actor_moves(head[at]):
                budget, fault = self._price(head[self.budget], when, quiet, False)
                if budget >= 0:
                    after = list(head)
                    after[at], after[self.budget] = site, budget
                    found.append((self._state(after, net, label[1][0]), fault, label))

    # ---- messages --------------------------------------------------------------------------------------------

    def _deliveries(self, head: State, net: State, found: list[Successor]) -> None:
        drop, twice = self.parties.spend(head[self.budget], "drop"), self.parties.spend(head[self.budget], "duplicate")
        last = -1
        for at, number in enumerate(net):
            if number == last:
                continue
            last = number
            others = (*net[:at], *net[at + 1 :])
            if self.cast.messages.items[number].kind == TO_DIRECTORY:
                self._to_directory(head, others, number, found, twice)
            else:
                self._to_node(head, others, number, found, twice)
            if drop >= 0:
                lost = list(head)
                lost[self.budget] = drop
                found.append((self._state(lost, others, ()), True, (("drop", number), SILENCE)))

    def _to_node(self, head: State, net: State, number: int, found: list[Successor], twice: int) -> None:
        place = NODES + self.cast.messages.items[number].at
        if self.parties.nodes.items[head[place]].machine is None:
            found.append((self._state(head, net, ()), False, (("nobody is there", number), SILENCE)))
            return
        site, label = self.parties.node_takes(head[place], number)
        after = list(head)
        after[place] = site
        self._add(found, after, net, label, False)
        if twice >= 0:
            self._twice(found, after, net, number, label[1], twice)

    def _twice(self, found: list[Successor], head: list[int], net: State, number: int, out: Out, budget: int) -> None:
        """It has been delivered, and is still under way."""
        after = list(head)
        after[self.budget] = budget
        self._add(found, after, tuple(sorted((*net, number))), (("duplicate", number), out), True)

    def _to_directory(self, head: State, net: State, number: int, found: list[Successor], twice: int) -> None:
        parties = self.parties
        if parties.directories.items[head[DIR]].machine is not None:
            step = parties.directory_takes(head[DIR], number)
            self._directory_after(found, head, net, step, head[self.budget], False)
            if twice >= 0:
                after = list(head)
                after[DIR] = step[0]
                self._twice(found, after, net, number, step[1][1], twice)
            crash = parties.spend(head[self.budget], "crash_directory")
            if crash >= 0 and step[2]:
                self._down(found, head, net, head[DIR], False, crash, ("crash in a commit that did not happen", number))
        if parties.directories.items[head[OLD]].patience:
            site, label, _ = parties.directory_takes(head[OLD], number)
            after = list(head)
            after[OLD] = site
            self._add(found, after, net, label, False)

    # ---- the directory ---------------------------------------------------------------------------------------

    def _directory_after(
        self, found: list[Successor], head: State, net: State, step: DirectoryStep, budget: int, fault: bool
    ) -> None:
        """The directory has stepped; or it has stepped, committed, and died before it spoke."""
        site, label, persisted = step
        after = list(head)
        after[DIR], after[self.budget] = site, budget
        self._add(found, after, net, label, fault)
        crash = self.parties.spend(budget, "crash_directory") if persisted and not self.file.pipelined else -1
        if crash >= 0:
            self._down(found, head, net, site, False, crash, (*label[0], "and it dies after the commit, before it speaks"))

    def _down(
        self, found: list[Successor], head: State, net: State, site: int, committed: bool, budget: int, words: tuple[object, ...]
    ) -> None:
        after = list(head)
        after[DIR], after[self.budget] = self.parties.directory_crashes(site, committed), budget
        found.append((self._state(after, net, ()), True, (words, SILENCE)))

    def _directory_moves(self, head: State, net: State, quiet: bool, found: list[Successor]) -> None:
        parties = self.parties
        if parties.directories.items[head[DIR]].machine is None:
            site, label, _ = parties.directory_restarts(head[DIR])
            after = list(head)
            after[DIR] = site
            self._add(found, after, net, label, False)
            return
        wanted = self._stores_need(head) if quiet and self.cast.stores else ""
        for move in parties.directory_moves(head[DIR]):
            budget, fault = self._price(head[self.budget], self._when(head, move), quiet, bool(wanted) and move.about == wanted)
            if budget < 0:
                continue
            step = parties.done_directory(move)
            if step[0] != head[DIR] or step[1][1] != SILENCE:
                self._directory_after(found, head, net, step, budget, fault)
        self._directory_faults(head, net, found)
        if head[OLD] != parties.nobody:
            self._deposed_moves(head, net, found)

    def _when(self, head: State, move: directory_site.Move) -> str:
        """A dead client's session ends, and a dead node's lease, as any other thing that is due."""
        if move.about == "node" and self.parties.nodes.items[head[NODES + move.who]].machine is None:
            return QUIET
        if move.about == "session":
            gone = [at for at, session in enumerate(self.parties.sessions) if session == move.who]
            if not gone or not self.parties.actors.items[head[self.clients + gone[0]]].alive:
                return QUIET
        return move.when

    def _directory_faults(self, head: State, net: State, found: list[Successor]) -> None:
        parties = self.parties
        crash = parties.spend(head[self.budget], "crash_directory")
        if crash >= 0:
            self._down(found, head, net, head[DIR], False, crash, ("crash", "directory"))
            if parties.directories.items[head[DIR]].held:
                self._down(found, head, net, head[DIR], True, crash, ("crash after the commit", "directory"))
        depose = parties.spend(head[self.budget], "depose")
        if depose >= 0 and head[OLD] == parties.nobody:
            after = list(head)
            after[OLD], after[DIR], label = parties.directory_deposed(head[DIR])
            after[self.budget] = depose
            self._add(found, after, net, label, True)

    def _deposed_moves(self, head: State, net: State, found: list[Successor]) -> None:
        """A deposed directory ticks, and ends some day."""
        after = list(head)
        for move in self.parties.directory_moves(head[OLD]):
            if move.label[0] == "tick":
                after[OLD], (_, out), _ = self.parties.done_directory(move)
                label = (("tick of the deposed",), out)
                if after[OLD] != head[OLD] or label[1] != SILENCE:
                    self._add(found, after, net, label, False)
        after = list(head)
        after[OLD] = self.parties.nobody
        found.append((self._state(after, net, ()), False, (("the deposed directory ends",), SILENCE)))

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _node_moves(self, head: State, net: State, quiet: bool, found: list[Successor]) -> None:
        parties = self.parties
        for place in range(NODES, self.clients):
            broken = quiet and self._needs_repair(head, place)
            for move in parties.node_moves(head[place], head[STORE]):
                if move.who >= 0 and parties.actors.items[head[self.clients + move.who]].alive:
                    continue
                budget, fault = self._price(head[self.budget], move.when, quiet, broken)
                if budget < 0:
                    continue
                site, store, label = parties.done_node(move)
                if site == head[place] and label[1] == SILENCE:
                    continue
                after = list(head)
                after[place], after[STORE], after[self.budget] = site, store, budget
                self._add(found, after, net, label, fault)

    # ---- what must hold --------------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        """What must hold between the parties; what must hold of each alone was checked when it stepped."""
        directory, store, fine, parties = state[DIR], state[STORE], self._fine, self.parties
        record = parties.directories.items[directory].machine
        if record is not None:
            if (directory, STORE, store) not in fine:
                properties.record_and_stores(record.state, parties.stores.items[store], self.cast.stores)
                fine.add((directory, STORE, store))
            if (directory, self.budget, state[self.budget]) not in fine:
                properties.nothing_lost_without_a_fault(record.state, self.file, parties.budgets.items[state[self.budget]])
                fine.add((directory, self.budget, state[self.budget]))
        for place in range(NODES, self.clients):
            pair = (directory, place, state[place])
            if pair not in fine and record is not None:
                node = parties.nodes.items[state[place]]
                if node.machine is not None:
                    properties.record_and_node(record.state, node.machine, node.machine.boot, node.injured)
                fine.add(pair)
        for place in range(self.clients, self.budget):
            site = parties.actors.items[state[place]]
            pair = (directory, place, state[place])
            if site.alive and pair not in fine and record is not None:
                hearing.believes_record(site, record.state)
                fine.add(pair)
            if site.alive and site.touched:
                self._check_touched(state, place, site)

    def _check_touched(self, state: State, place: int, site: ActorSite) -> None:
        for where in range(NODES, self.clients):
            pair = (state[where], -place, state[place])
            if pair not in self._fine:
                hearing.believes_bytes(self.cast, site, self.parties.nodes.items[state[where]])
                self._fine.add(pair)

    def _needs_repair(self, head: State, place: int) -> bool:
        """Whether a heartbeat or inventory of a node could repair something."""
        key = (head[DIR], head[place])
        known = self._repairs.get(key)
        if known is None:
            machine = self.parties.directories.items[head[DIR]].machine
            site = self.parties.nodes.items[head[place]]
            known = self._repairs[key] = machine is not None and rest.node_needs_repair(machine.state, site)
        return known

    def _stores_need(self, head: State) -> str:
        """What repair the remote stores need."""
        key = head[: self.clients]
        known = self._store_repairs.get(key)
        if known is None:
            machine = self.parties.directories.items[head[DIR]].machine
            sites = [self.parties.nodes.items[number] for number in head[NODES : self.clients]]
            cells = self.parties.stores.items[head[STORE]]
            known = "" if machine is None else rest.stores_need(self.cast, machine.state, sites, cells)
            self._store_repairs[key] = known
        return known

    def why_not_at_rest(self, head: State) -> str:
        """Why directory, stores and nodes still have something to do or to repair; "" when they have not."""
        key = head[: self.clients]
        known = self._rest.get(key)
        if known is None:
            parties = self.parties
            sites = [parties.nodes.items[number] for number in head[NODES : self.clients]]
            known = rest.why_not(self.cast, parties.directories.items[head[DIR]], sites, parties.stores.items[head[STORE]])
            self._rest[key] = known
        return known

    def why_not_quiescent(self, state: State) -> str:
        """LIVE-1: nothing under way, nobody waits, nothing is held for the dead, directory and nodes agree."""
        if len(state) > self.fixed:
            return "messages are under way"
        if state[OLD] != self.parties.nobody:
            return "a deposed directory runs"
        for place in range(self.clients, self.budget):
            site = self.parties.actors.items[state[place]]
            if site.alive:
                return f"client {self.cast.clients[site.at]} has not ended"
        return self.why_not_at_rest(state[: self.fixed])
