"""What can happen next in a world, and what must hold in each of its states.

A state is a tuple of numbers: the directory, a deposed one, what lies in remote stores, each node, each client, what is left of
the fault budgets, then the messages under way, sorted. Each number names a value in a pool; what a party does is computed once
for each of its own states (see `pool.py`).

Clients hear at once what is sent to them, unless it is dropped. That hides nothing: a client that waits does nothing else, no
machine can see whether it has heard, and when it sends its next message is an action of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.ids import SessionId
from . import actor, directory_site, node_site, properties, rest
from .actor import ActorSite
from .cast import SILENCE, TO_DIRECTORY, Cast, Out
from .directory_site import NOBODY, DirectorySite
from .memory import Cells
from .node_site import BEAT, FREE, QUIET, NodeSite
from .pool import Pool, digest_of
from .script import parse_script
from .setup import opened
from .world_file import FAULTS, WorldFile

State = tuple[int, ...]
Label = tuple[Any, ...]
Successor = tuple[State, bool, Label]
"""`(state, was it a fault, label)`."""

DIR, OLD, STORE, NODES = 0, 1, 2, 3


class World:
    """One world. `initial`, `successors`, `at_rest`; each may raise `InvariantViolation`, with `trying` the label of what did."""

    def __init__(self, file: WorldFile) -> None:
        self.file = file
        self.cast = cast = Cast(file)
        places = [*cast.nodes, *cast.stores]
        self.scripts = [parse_script(file.name, lines, cast.groups, places) for _, lines in file.clients]
        self.directories: Pool[DirectorySite] = Pool()
        self.stores: Pool[Cells] = Pool()
        self.nodes: Pool[NodeSite] = Pool()
        self.actors: Pool[ActorSite] = Pool()
        self.budgets: Pool[tuple[int, ...]] = Pool()
        self.trying: Label = ()
        self._clients = NODES + len(cast.nodes)
        self._budget = self._clients + len(cast.clients)
        self._fixed = self._budget + 1
        self._directory_moves: dict[int, list[Any]] = {}
        self._directory_takes: dict[tuple[int, int], Any] = {}
        self._crashed: dict[tuple[int, bool], int] = {}
        self._node_moves: dict[tuple[int, int], list[Any]] = {}
        self._node_takes: dict[tuple[int, int], Any] = {}
        self._actor_moves: dict[int, list[Any]] = {}
        self._hears: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self._spent: dict[tuple[int, str], int] = {}
        self._rest: dict[State, str] = {}
        self._fine: set[tuple[int, int, int]] = set()
        self._nobody = self._put_directory(NOBODY)
        self.sessions: list[SessionId] = []

    # ---- pools -----------------------------------------------------------------------------------------------

    def _put_directory(self, site: DirectorySite) -> int:
        return self.directories.put(digest_of(site.key), site)

    def _put_store(self, cells: Cells) -> int:
        return self.stores.put(digest_of(tuple(sorted(cells.items()))), cells)

    def _put_node(self, site: NodeSite) -> int:
        return self.nodes.put(digest_of(site.key), site)

    def _put_actor(self, site: ActorSite) -> int:
        return self.actors.put(digest_of(site.key), site)

    def _spend(self, budget: int, fault: str) -> int:
        """The budget with one fault less, -1 when there is none left."""
        key = (budget, fault)
        known = self._spent.get(key)
        if known is None:
            left = self.budgets.items[budget]
            at = FAULTS.index(fault)
            after = (*left[:at], left[at] - 1, *left[at + 1 :])
            known = self._spent[key] = self.budgets.put(digest_of(after), after) if left[at] else -1
        return known

    # ---- the beginning ---------------------------------------------------------------------------------------

    def initial(self) -> State:
        """Everybody registered, each client with its session, the setup played."""
        begin = opened(self.cast)
        self.sessions = [session for session, _ in begin.sessions]
        head = [self._put_directory(begin.directory), self._nobody, self._put_store(begin.store)]
        head += [self._put_node(site) for site in begin.nodes]
        head += [self._put_actor(ActorSite(at, session)) for at, (session, _) in enumerate(begin.sessions)]
        budget = tuple(limit for _, limit in self.file.faults)
        head.append(self.budgets.put(digest_of(budget), budget))
        state = tuple(head)
        self.check(state)
        return state

    # ---- what can happen -------------------------------------------------------------------------------------

    def successors(self, state: State) -> list[Successor]:
        """All that can happen next, in a stated order. States that follow are checked by whoever finds them new."""
        found: list[Successor] = []
        head, net = state[: self._fixed], state[self._fixed :]
        quiet = self.file.repair and not net and not any(self.nodes.items[n].works for n in head[NODES : self._clients])
        broken = quiet and self.why_not_at_rest(head) != ""
        self._client_moves(head, net, quiet, found)
        self._deliveries(head, net, found)
        self._node_moves_of(head, net, quiet, broken, found)
        self._directory_moves_of(head, net, quiet, broken, found)
        return found

    def _price(self, head: State, when: str, quiet: bool, broken: bool) -> tuple[int, bool]:
        """`(budget after it, is it a fault)`; budget -1: it can't happen now."""
        budget = head[self._budget]
        if when == FREE or (when == QUIET and quiet) or (when == BEAT and broken):
            return budget, False
        if when == QUIET:
            return self._spend(budget, "early"), True
        if when == BEAT:
            return self._spend(budget, "beat"), True
        return self._spend(budget, when), True

    def _add(self, found: list[Successor], head: list[int], net: State, out: Out, fault: bool, label: Label) -> None:
        """A successor: `out` goes under way or is heard; what is heard may instead be dropped, at a price."""
        sent, heard = out
        plain = head
        if heard:
            plain = list(head)
            more = sent
            for at, message in heard:
                plain[self._clients + at], replies = self._hear(plain[self._clients + at], message)
                more += replies
            found.append((self._state(plain, net, more), fault, label))
            lossy = self._spend(head[self._budget], "drop")
            if lossy >= 0:
                for at, message in heard:
                    if self.actors.items[head[self._clients + at]].alive:
                        lost = list(head)
                        lost[self._budget] = lossy
                        found.append((self._state(lost, net, sent), True, (*label, "its answer is lost", message)))
            return
        found.append((self._state(plain, net, sent), fault, label))

    @staticmethod
    def _state(head: Iterable[int], net: State, sent: tuple[int, ...]) -> State:
        return (*head, *sorted((*net, *sent))) if sent else (*head, *net)

    # ---- clients ---------------------------------------------------------------------------------------------

    def _hear(self, site: int, message: int) -> tuple[int, tuple[int, ...]]:
        key = (site, message)
        known = self._hears.get(key)
        if known is None:
            before = self.actors.items[site]
            after, sends = actor.hears(self.cast, self.scripts[before.at], before, message)
            known = self._hears[key] = self._put_actor(after), tuple([self.cast.post(*send) for send in sends])
        return known

    def _client_moves(self, head: State, net: State, quiet: bool, found: list[Successor]) -> None:
        for at in range(self._clients, self._budget):
            known = self._actor_moves.get(head[at])
            if known is None:
                site = self.actors.items[head[at]]
                known = self._actor_moves[head[at]] = [
                    (move.label, move.when, self._put_actor(move.site), tuple([self.cast.post(*send) for send in move.send]))
                    for move in actor.moves(self.cast, self.scripts[site.at], site)
                ]
            for label, when, site_after, sent in known:
                budget, fault = self._price(head, when, quiet, False)
                if budget >= 0:
                    after = list(head)
                    after[at] = site_after
                    after[self._budget] = budget
                    found.append((self._state(after, net, sent), fault, label))

    # ---- messages --------------------------------------------------------------------------------------------

    def _deliveries(self, head: State, net: State, found: list[Successor]) -> None:
        drop, twice = self._spend(head[self._budget], "drop"), self._spend(head[self._budget], "duplicate")
        last = -1
        for at, number in enumerate(net):
            if number == last:
                continue
            last = number
            rest_of_net = (*net[:at], *net[at + 1 :])
            message = self.cast.messages.items[number]
            if message.kind == TO_DIRECTORY:
                self._to_directory(head, rest_of_net, number, found, twice)
            else:
                self._to_node(head, rest_of_net, number, message.at, found, twice)
            if drop >= 0:
                lost = list(head)
                lost[self._budget] = drop
                found.append((self._state(lost, rest_of_net, ()), True, ("drop", number)))

    def _to_node(self, head: State, net: State, number: int, at: int, found: list[Successor], twice: int) -> None:
        place = NODES + at
        label = ("deliver", number)
        site = head[place]
        if self.nodes.items[site].machine is None:
            found.append((self._state(head, net, ()), False, ("nobody there", number)))
            return
        known = self._node_takes.get((site, number))
        if known is None:
            self.trying = label
            step = node_site.takes(self.cast, self.nodes.items[site], {}, self.cast.messages.items[number].body)
            known = self._node_takes[(site, number)] = (self._put_node(step.site), self.cast.let_out(step.ready))
        after = list(head)
        after[place] = known[0]
        self._add(found, after, net, known[1], False, label)
        if twice >= 0:
            after = list(after)
            after[self._budget] = twice
            self._add(found, after, tuple(sorted((*net, number))), known[1], True, ("duplicate", number))

    def _to_directory(self, head: State, net: State, number: int, found: list[Successor], twice: int) -> None:
        if self.directories.items[head[DIR]].machine is not None:
            after, out, persisted = self._directory_step(head[DIR], number)
            self._directory_after(found, head, net, after, out, persisted, head[self._budget], False, ("deliver", number))
            if twice >= 0:
                changed = list(head)
                changed[DIR] = after
                changed[self._budget] = twice
                self._add(found, changed, tuple(sorted((*net, number))), out, True, ("duplicate", number))
            crash = self._spend(head[self._budget], "crash_directory")
            if crash >= 0:
                down = list(head)
                down[DIR] = self._crash(head[DIR], False)
                down[self._budget] = crash
                found.append((self._state(down, net, ()), True, ("crash in commit, undone", number)))
        if head[OLD] != self._nobody:
            after, out, _ = self._directory_step(head[OLD], number)
            changed = list(head)
            changed[OLD] = after
            self._add(found, changed, net, out, False, ("deliver to the deposed", number))

    # ---- the directory ---------------------------------------------------------------------------------------

    def _directory_step(self, site: int, number: int) -> tuple[int, Out, bool]:
        known: tuple[int, Out, bool] | None = self._directory_takes.get((site, number))
        if known is None:
            self.trying = ("deliver", number)
            step = directory_site.takes(self.cast, self.directories.items[site], self.cast.messages.items[number].body)
            known = (self._put_directory(step.site), self.cast.let_all_out(step.readies), step.persisted)
            self._directory_takes[(site, number)] = known
        return known

    def _directory_after(
        self, found: list[Successor], head: State, net: State, site: int, out: Out, persisted: bool, budget: int, fault: bool,
        label: Label,
    ) -> None:  # fmt: skip
        """The directory has stepped; or it has stepped, committed, and died before it spoke."""
        after = list(head)
        after[DIR] = site
        after[self._budget] = budget
        self._add(found, after, net, out, fault, label)
        crash = self._spend(budget, "crash_directory") if persisted and not self.file.pipelined else -1
        if crash >= 0:
            down = list(head)
            down[DIR] = self._crash(site, False)
            down[self._budget] = crash
            found.append((self._state(down, net, ()), True, (*label, "crash before it speaks")))

    def _crash(self, site: int, committed: bool) -> int:
        known = self._crashed.get((site, committed))
        if known is None:
            after = directory_site.crashed(self.directories.items[site], committed=committed)
            known = self._crashed[(site, committed)] = self._put_directory(after)
        return known

    def _directory_moves_of(self, head: State, net: State, quiet: bool, broken: bool, found: list[Successor]) -> None:
        site = self.directories.items[head[DIR]]
        if site.machine is None:
            self._restart(head, net, found)
            return
        for move in self._moves_of_directory(head[DIR]):
            budget, fault = self._price(head, self._when(head, move), quiet, broken)
            if budget < 0:
                continue
            if move.done is None:
                self.trying = move.label
                step = move.take()
                move.done = (self._put_directory(step.site), self.cast.let_all_out(step.readies), step.persisted)
            after, out, persisted = move.done
            if after == head[DIR] and out == SILENCE:
                continue
            self._directory_after(found, head, net, after, out, persisted, budget, fault, move.label)
        self._faults_of_directory(head, net, found)
        if head[OLD] != self._nobody:
            self._deposed_moves(head, net, found)

    def _moves_of_directory(self, site: int) -> list[directory_site.Move]:
        known = self._directory_moves.get(site)
        if known is None:
            known = self._directory_moves[site] = list(directory_site.moves(self.cast, self.directories.items[site]))
        return known

    def _when(self, head: State, move: directory_site.Move) -> str:
        """A dead client's session ends, and a dead node's lease, as any other thing that is due."""
        if move.about == "node" and self.nodes.items[head[NODES + move.who]].machine is None:
            return QUIET
        if move.about == "session":
            gone = [at for at, session in enumerate(self.sessions) if session == move.who]
            if not gone or not self.actors.items[head[self._clients + gone[0]]].alive:
                return QUIET
        return move.when

    def _restart(self, head: State, net: State, found: list[Successor]) -> None:
        key = (head[DIR], -1)
        known = self._directory_takes.get(key)
        if known is None:
            self.trying = ("restart", "directory")
            step = directory_site.restarted(self.cast, self.directories.items[head[DIR]])
            known = self._directory_takes[key] = (self._put_directory(step.site), self.cast.let_all_out(step.readies), True)
        after = list(head)
        after[DIR] = known[0]
        self._add(found, after, net, known[1], False, ("restart", "directory"))

    def _faults_of_directory(self, head: State, net: State, found: list[Successor]) -> None:
        crash = self._spend(head[self._budget], "crash_directory")
        if crash >= 0:
            for committed in (False, True) if self.directories.items[head[DIR]].held else (False,):
                down = list(head)
                down[DIR] = self._crash(head[DIR], committed)
                down[self._budget] = crash
                told = ("its commit had happened",) if committed else ()
                found.append((self._state(down, net, ()), True, ("crash", "directory", *told)))
        depose = self._spend(head[self._budget], "depose")
        if depose >= 0 and head[OLD] == self._nobody:
            key = (head[DIR], -2)
            known = self._directory_takes.get(key)
            if known is None:
                self.trying = ("deposed", "directory")
                site = self.directories.items[head[DIR]]
                old = self._put_directory(directory_site.deposed(site))
                step = directory_site.restarted(self.cast, directory_site.crashed(site, committed=True))
                new = self._put_directory(step.site)
                known = self._directory_takes[key] = (old, new, self.cast.let_all_out(step.readies))
            changed = list(head)
            changed[OLD], changed[DIR], changed[self._budget] = known[0], known[1], depose
            self._add(found, changed, net, known[2], True, ("deposed", "directory"))

    def _deposed_moves(self, head: State, net: State, found: list[Successor]) -> None:
        for move in self._moves_of_directory(head[OLD]):
            if move.label[0] == "tick":
                if move.done is None:
                    self.trying = ("deposed", *move.label)
                    step = move.take()
                    move.done = (self._put_directory(step.site), self.cast.let_all_out(step.readies), False)
                if move.done[0] != head[OLD] or move.done[1] != SILENCE:
                    after = list(head)
                    after[OLD] = move.done[0]
                    self._add(found, after, net, move.done[1], False, ("deposed", *move.label))
        after = list(head)
        after[OLD] = self._nobody
        found.append((self._state(after, net, ()), False, ("the deposed ends",)))

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _node_moves_of(self, head: State, net: State, quiet: bool, broken: bool, found: list[Successor]) -> None:
        store = head[STORE]
        for place in range(NODES, self._clients):
            key = (head[place], store)
            known = self._node_moves.get(key)
            if known is None:
                site = self.nodes.items[head[place]]
                known = self._node_moves[key] = list(node_site.moves(self.cast, site, self.stores.items[store]))
            for move in known:
                if move.who >= 0 and self.actors.items[head[self._clients + move.who]].alive:
                    continue
                budget, fault = self._price(head, move.when, quiet, broken)
                if budget < 0:
                    continue
                if move.done is None:
                    self.trying = move.label
                    step = move.take()
                    move.done = (self._put_node(step.site), self._put_store(step.store), self.cast.let_out(step.ready))
                after_site, after_store, out = move.done
                if after_site == head[place] and out == SILENCE:
                    continue
                after = list(head)
                after[place], after[STORE], after[self._budget] = after_site, after_store, budget
                self._add(found, after, net, out, fault, move.label)

    # ---- what must hold --------------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        """What must hold between the parties; what must hold of each alone was checked when it stepped."""
        directory = state[DIR]
        fine = self._fine
        record = self.directories.items[directory].machine
        for place in range(NODES, self._clients):
            pair = (directory, place, state[place])
            if record is not None and pair not in fine:
                node = self.nodes.items[state[place]]
                if node.machine is not None:
                    properties.record_and_node(record.state, node.machine, node.machine.boot, node.injured)
                fine.add(pair)
        for place in range(self._clients, self._budget):
            site = self.actors.items[state[place]]
            if not site.alive:
                continue
            pair = (directory, place, state[place])
            if record is not None and pair not in fine:
                actor.believes_record(site, record.state)
                fine.add(pair)
            if site.touched:
                self._check_touched(state, place, site)

    def _check_touched(self, state: State, place: int, site: ActorSite) -> None:
        for where in range(NODES, self._clients):
            pair = (state[where], -place, state[place])
            if pair not in self._fine:
                actor.believes_bytes(self.cast, site, self.nodes.items[state[where]])
                self._fine.add(pair)

    def why_not_at_rest(self, head: State) -> str:
        """Why directory, stores and nodes still have something to do or to repair; "" when they have not."""
        key = head[: self._clients]
        known = self._rest.get(key)
        if known is None:
            sites = [self.nodes.items[number] for number in head[NODES : self._clients]]
            known = rest.why_not(self.cast, self.directories.items[head[DIR]], sites, self.stores.items[head[STORE]])
            self._rest[key] = known
        return known

    def why_not_quiescent(self, state: State) -> str:
        """LIVE-1: nothing under way, nobody waits, nothing is held for the dead, directory and nodes agree."""
        if len(state) > self._fixed:
            return "messages are under way"
        if state[OLD] != self._nobody:
            return "a deposed directory runs"
        for place in range(self._clients, self._budget):
            site = self.actors.items[state[place]]
            if site.alive:
                return f"client {self.cast.clients[site.at]} has not ended"
        return self.why_not_at_rest(state[: self._fixed])
