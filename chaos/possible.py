"""What can happen next in a world, found from its parts.

What a client, node or directory may do, and what a message does where it arrives, depends on few parts of a state. So it is
worked out once for each combination of those, as changes: what is added to the state's number, and what goes under way. The
successors of a state are then found by additions.
"""

from __future__ import annotations

from typing import Any

from . import directory_site, rest
from .cast import SILENCE, TO_DIRECTORY
from .fields import CLIENT_BITS, DIRECTORY_BITS, NODE_BITS, STORE_BITS, Fields, UnderWay
from .heard import Answers
from .node_site import BEAT, FREE, QUIET
from .parties import DirectoryStep, Label, Parties
from .world_file import WorldFile

State = tuple[int, ...]
DIR, OLD, STORE, NODES = 0, 1, 2, 3

Successor = tuple[int, bool, Label]
"""`(packed state, was it a fault, label)`."""

Change = tuple[int, int, bool, Label, "Answers | None"]
"""`(what is added, number of what goes under way, is it a fault, label, what clients hear by it)`. Where clients hear, the rest
stands in `Answers.changes_at`."""

NEEDS = ("", "repair", "scan")
HELD = "crash directory with a commit under way"
LAST_WORDS = "it dies after the commit, before it speaks"


class Possible:
    """All that can happen in one world. May raise `InvariantViolation`, with `parties.trying` the label of what did."""

    def __init__(self, file: WorldFile, parties: Parties) -> None:
        self.file = file
        self.parties = parties
        self.cast = cast = parties.cast
        self.clients = NODES + len(cast.nodes)
        self.budget = self.clients + len(cast.clients)
        self.fixed = self.budget + 1
        budgets = 1
        for _, limit in file.faults:
            budgets *= limit + 1
        old, stores = DIRECTORY_BITS if file.budget("depose") else 0, STORE_BITS if cast.stores else 0
        nodes, clients = [NODE_BITS] * len(cast.nodes), [CLIENT_BITS] * len(cast.clients)
        self.fields = fields = Fields([DIRECTORY_BITS, old, stores, *nodes, *clients, budgets.bit_length()])
        self.top, self.low = fields.top, fields.low
        all_nodes, all_clients = range(NODES, self.clients), range(self.clients, self.budget)
        self.nodes_mask, self.clients_mask = fields.mask(all_nodes), fields.mask(all_clients)
        self.rest_mask = fields.mask(range(self.clients))
        self._idle_mask = fields.masks[DIR] | self.nodes_mask
        self._to_directory_mask = fields.mask([DIR, OLD, self.budget])
        self._to_node_masks = [fields.mask([place, self.budget]) for place in all_nodes]
        self._of_clients: list[tuple[int, int, dict[int, list[Change]]]] = [
            (place, fields.mask([place, self.budget]), {}) for place in all_clients
        ]
        self._of_nodes: list[tuple[int, int, dict[int, list[Change]]]] = [
            (place, fields.mask([place, STORE, self.budget]), {}) for place in all_nodes
        ]
        self._of_directory: dict[int, list[Change]] = {}
        self._of_messages: dict[int, list[Change]] = {}
        self.happened: set[tuple[str, bool]] = set()
        """`(what, was it a fault)` of all changes that were worked out, for some state that was reached."""
        self.deposed_spoke = False
        self._alive: dict[int, int] = {}
        self._down: dict[int, int] = {}
        self._idle: dict[int, int] = {}
        self._repairs: dict[int, bool] = {}
        self._store_needs: dict[int, int] = {}
        masks = [self._to_directory_mask, *self._to_node_masks]
        self.under_way = UnderWay(self.top, lambda number: masks[self._meets(number)])

    def _meets(self, number: int) -> int:
        """0: a message to the directory; else its node, from 1."""
        message = self.cast.messages.items[number]
        return 0 if message.kind == TO_DIRECTORY else 1 + message.at

    # ---- successors ------------------------------------------------------------------------------------------

    def successors(self, state: int) -> list[Successor]:
        """All that can happen next, in a stated order. States that follow are checked by whoever finds them new."""
        found: list[Successor] = []
        add, grown, top = found.append, self.under_way.grown, self.top
        head = state & self.low
        for changes, others in self._changes(head, state >> top):
            base = head | others << top
            for change in changes:
                answers = change[4]
                for added, sent, fault, label, _ in (change,) if answers is None else answers.changes_at(head):
                    add((base + added + (grown(others, sent) if sent else 0), fault, label))
        return found

    def _changes(self, head: int, net: int) -> list[tuple[list[Change], int]]:
        """Lists of changes, each with the messages that are under way beside it."""
        top = self.top
        alive = self._alive.get(head & self.clients_mask, -1)
        if alive < 0:
            alive = self._alive_of(head)
        quiet = 0
        if not net and self.file.repair:
            quiet = self._idle.get(head & self._idle_mask, -1)
            if quiet < 0:
                quiet = self._idle_of(head)
        all_changes = []
        more = quiet << top
        for place, mask, cache in self._of_clients:
            key = head & mask | more
            changes = cache.get(key)
            if changes is None:
                changes = cache[key] = self._client_changes(self.fields.unpack(head), place, bool(quiet))
            if changes:
                all_changes.append((changes, net))
        if net:
            for number, mask, others in self.under_way.each(net):
                key = head & mask | number
                changes = self._of_messages.get(key)
                if changes is None:
                    changes = self._of_messages[key] = self._message_changes(self.fields.unpack(head), number >> top)
                all_changes.append((changes, others))
        for place, mask, cache in self._of_nodes:
            broken = quiet and self._needs_repair(head, place)
            key = head & mask | (quiet | broken << 1 | alive << 2) << top
            changes = cache.get(key)
            if changes is None:
                changes = cache[key] = self._node_changes(self.fields.unpack(head), place, bool(quiet), bool(broken))
            if changes:
                all_changes.append((changes, net))
        wanted = self._stores_need(head) if quiet and self.cast.stores else 0
        down = self._down.get(head & self.nodes_mask, -1)
        if down < 0:
            down = self._down_of(head)
        key = head & self._to_directory_mask | (quiet | wanted << 1 | (alive | down << len(self._of_clients)) << 3) << top
        changes = self._of_directory.get(key)
        if changes is None:
            found = self._directory_changes(self.fields.unpack(head), bool(quiet), NEEDS[wanted])
            changes = self._of_directory[key] = found
        if changes:
            all_changes.append((changes, net))
        return all_changes

    # ---- what changes depend on ------------------------------------------------------------------------------

    def _alive_of(self, head: int) -> int:
        """Which clients live, a bit each."""
        actors = self.parties.actors.items
        sites = self.fields.unpack(head)[self.clients : self.budget]
        found = sum([actors[number].alive << at for at, number in enumerate(sites)])
        self._alive[head & self.clients_mask] = found
        return found

    def _down_of(self, head: int) -> int:
        """Which nodes are down, a bit each."""
        nodes = self.parties.nodes.items
        sites = self.fields.unpack(head)[NODES : self.clients]
        found = sum([(nodes[number].machine is None) << at for at, number in enumerate(sites)])
        self._down[head & self.nodes_mask] = found
        return found

    def _idle_of(self, head: int) -> int:
        """No byte work runs and no commit is under way."""
        parts = self.fields.unpack(head)
        nodes = self.parties.nodes.items
        held = self.parties.directories.items[parts[DIR]].held
        found = not held and not any(nodes[number].works for number in parts[NODES : self.clients])
        self._idle[head & self._idle_mask] = found
        return found

    def _needs_repair(self, head: int, place: int) -> bool:
        """Whether a heartbeat or inventory of a node could repair something."""
        key = head & (self.fields.masks[DIR] | self.fields.masks[place])
        known = self._repairs.get(key)
        if known is None:
            parts = self.fields.unpack(head)
            machine = self.parties.directories.items[parts[DIR]].machine
            site = self.parties.nodes.items[parts[place]]
            known = self._repairs[key] = machine is not None and rest.node_needs_repair(machine.state, site)
        return known

    def _stores_need(self, head: int) -> int:
        """What repair the remote stores need, by its place in `NEEDS`."""
        key = head & self.rest_mask
        known = self._store_needs.get(key)
        if known is None:
            parts = self.fields.unpack(head)
            machine = self.parties.directories.items[parts[DIR]].machine
            sites = [self.parties.nodes.items[number] for number in parts[NODES : self.clients]]
            cells = self.parties.stores.items[parts[STORE]]
            found = "" if machine is None else rest.stores_need(self.cast, machine.state, sites, cells)
            known = self._store_needs[key] = NEEDS.index(found)
        return known

    # ---- one kind of change after the other ------------------------------------------------------------------

    def _price(self, budget: int, when: str, quiet: bool, broken: bool) -> tuple[int, bool]:
        """`(budget after it, is it a fault)`; budget -1: it can't happen now."""
        if when == FREE or (when == QUIET and quiet) or (when == BEAT and broken):
            return budget, False
        return self.parties.spend(budget, "early" if when == QUIET else "beat" if when == BEAT else when), True

    def _put(
        self, found: list[Change], head: State, after: list[int], label: Label, fault: bool, again: tuple[int, ...] = ()
    ) -> None:
        """A change: what was let out goes under way (with `again`, which stays there) or is heard."""
        sent, heard = label[1]
        self.happened.add((self._kind(label[0]), fault))
        added = self.fields.pack(after) - self.fields.pack(head)
        answers = Answers(self, after[self.budget], added, (*sent, *again), fault, label) if heard else None
        found.append((added, self.under_way.number((*sent, *again)), fault, label, answers))

    def _kind(self, words: tuple[Any, ...]) -> str:
        """What happened, without who and which."""
        head = str(words[0])
        if words[-1] == f"and {LAST_WORDS}":
            return LAST_WORDS
        if head in self.cast.clients:
            return str(words[1])
        if head == "due":
            return f"due {words[2] if words[1] in self.cast.nodes else words[1]}"
        if head == "crash":
            return "crash node" if words[1] in self.cast.nodes else "crash directory"
        return head

    def _client_changes(self, head: State, place: int, quiet: bool) -> list[Change]:
        found: list[Change] = []
        for label, when, site in self.parties.actor_moves(head[place]):
            budget, fault = self._price(head[self.budget], when, quiet, False)
            if budget >= 0:
                after = list(head)
                after[place], after[self.budget] = site, budget
                self._put(found, head, after, label, fault)
        return found

    def _message_changes(self, head: State, number: int) -> list[Change]:
        """A message arrives, once or twice, or is lost. The others are under way beside it."""
        found: list[Change] = []
        twice = self.parties.spend(head[self.budget], "duplicate")
        if self.cast.messages.items[number].kind == TO_DIRECTORY:
            self._to_directory(found, head, number, twice)
        else:
            self._to_node(found, head, number, twice)
        self._spent(found, head, "drop", ("drop", number))
        return found

    def _spent(self, found: list[Change], head: State, fault: str, words: tuple[Any, ...]) -> None:
        """A fault that changes nothing but the budget."""
        budget = self.parties.spend(head[self.budget], fault)
        if budget >= 0:
            self._put(found, head, [*head[: self.budget], budget], (words, SILENCE), True)

    def _to_node(self, found: list[Change], head: State, number: int, twice: int) -> None:
        place = NODES + self.cast.messages.items[number].at
        if self.parties.nodes.items[head[place]].machine is None:
            self._put(found, head, list(head), (("nobody is there", number), SILENCE), False)
            return
        site, label = self.parties.node_takes(head[place], number)
        after = list(head)
        after[place] = site
        self._put(found, head, after, label, False)
        if twice >= 0:
            self._put(found, head, [*after[: self.budget], twice], (("duplicate", number), label[1]), True, (number,))

    def _to_directory(self, found: list[Change], head: State, number: int, twice: int) -> None:
        parties = self.parties
        if parties.directories.items[head[DIR]].machine is not None:
            step = parties.directory_takes(head[DIR], number)
            self._directory_after(found, head, step, head[self.budget], False)
            if twice >= 0:
                after = [step[0], *head[OLD : self.budget], twice]
                self._put(found, head, after, (("duplicate", number), step[1][1]), True, (number,))
            crash = parties.spend(head[self.budget], "crash_directory")
            if crash >= 0 and step[2]:
                self._crash(found, head, head[DIR], False, crash, ("crash in a commit that did not happen", number))
        if parties.directories.items[head[OLD]].patience:
            site, label, _ = parties.directory_takes(head[OLD], number)
            self.deposed_spoke |= label[1] != SILENCE
            self._put(found, head, [head[DIR], site, *head[STORE:]], label, False)

    # ---- the directory ---------------------------------------------------------------------------------------

    def _directory_after(self, found: list[Change], head: State, step: DirectoryStep, budget: int, fault: bool) -> None:
        """The directory has stepped; or it has stepped, committed, and died before it spoke."""
        site, label, persisted = step
        self._put(found, head, [site, *head[OLD : self.budget], budget], label, fault)
        crash = self.parties.spend(budget, "crash_directory") if persisted and not self.file.pipelined else -1
        if crash >= 0:
            self._crash(found, head, site, False, crash, (*label[0], f"and {LAST_WORDS}"))

    def _crash(
        self, found: list[Change], head: State, site: int, committed: bool, budget: int, words: tuple[Any, ...]
    ) -> None:
        asleep = self.parties.directory_crashes(site, committed)
        self._put(found, head, [asleep, *head[OLD : self.budget], budget], (words, SILENCE), True)

    def _directory_changes(self, head: State, quiet: bool, wanted: str) -> list[Change]:
        found: list[Change] = []
        parties = self.parties
        if parties.directories.items[head[DIR]].machine is None:
            site, label, _ = parties.directory_restarts(head[DIR])
            self._put(found, head, [site, *head[OLD:]], label, False)
            return found
        for move in parties.directory_moves(head[DIR]):
            broken = bool(wanted) and move.about == wanted
            budget, fault = self._price(head[self.budget], self._when(head, move), quiet, broken)
            if budget < 0:
                continue
            step = parties.done_directory(move)
            if step[0] != head[DIR] or step[1][1] != SILENCE:
                self._directory_after(found, head, step, budget, fault)
        self._directory_faults(found, head)
        if head[OLD] != parties.nobody:
            self._deposed_changes(found, head)
        return found

    def _when(self, head: State, move: directory_site.Move) -> str:
        """A dead client's session ends, and a dead node's lease, as any other thing that is due."""
        if move.about == "node" and self.parties.nodes.items[head[NODES + move.who]].machine is None:
            return QUIET
        if move.about == "session":
            gone = [at for at, session in enumerate(self.parties.sessions) if session == move.who]
            if not gone or not self.parties.actors.items[head[self.clients + gone[0]]].alive:
                return QUIET
        return move.when

    def _directory_faults(self, found: list[Change], head: State) -> None:
        parties = self.parties
        crash = parties.spend(head[self.budget], "crash_directory")
        if crash >= 0:
            self._crash(found, head, head[DIR], False, crash, ("crash", "directory"))
            if parties.directories.items[head[DIR]].held:
                self.happened.add((HELD, True))
                self._crash(found, head, head[DIR], True, crash, ("crash after the commit", "directory"))
        depose = parties.spend(head[self.budget], "depose")
        if depose >= 0 and head[OLD] == parties.nobody:
            old, new, label = parties.directory_deposed(head[DIR])
            self._put(found, head, [new, old, *head[STORE : self.budget], depose], label, True)

    def _deposed_changes(self, found: list[Change], head: State) -> None:
        """A deposed directory ticks, and ends some day."""
        for move in self.parties.directory_moves(head[OLD]):
            if move.label[0] == "tick":
                site, (_, out), _ = self.parties.done_directory(move)
                if site != head[OLD] or out != SILENCE:
                    self.deposed_spoke |= out != SILENCE
                    self._put(found, head, [head[DIR], site, *head[STORE:]], (("tick of the deposed",), out), False)
        ended = [head[DIR], self.parties.nobody, *head[STORE:]]
        self._put(found, head, ended, (("the deposed directory ends",), SILENCE), False)

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _node_changes(self, head: State, place: int, quiet: bool, broken: bool) -> list[Change]:
        found: list[Change] = []
        parties = self.parties
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
            self._put(found, head, after, label, fault)
        return found
