"""One step of a node in the making: the state it may change, and what it will ask of the world.

Bodies take a `Turn` and an event. They check first and change afterwards, so that a refused event has changed nothing. The
few changes that many bodies share are here: swapping records in, beginning and ending byte work, counting guards.
"""

from __future__ import annotations

from typing import Final

from .allocator import take
from .effects import Instance, Ready, Reply, Send, Transfer
from .errors import InvariantViolation, Refusal
from .ids import NO_COPY, CopyId, NodeName, Peer, Tier
from .node_state import Copy, Kind, Link, NodeConfig, NodeState, Place, Stage, Work, place_of
from .records import evolve
from .reports import Fact, Report
from .requests import Let, ListCopies, NodeAnswer, NodeRefused, NodeRequest, NodeStat

NO_PEER: Final = Peer("")
NO_STORE: Final = NodeName("")


class Turn:
    """Collects the outputs of one step. `quiet` says that the event was refused or dropped: nothing has changed."""

    def __init__(self, state: NodeState, config: NodeConfig, boot: str, now: int) -> None:
        self.state = state
        self.config = config
        self.boot = boot
        self.now = now
        self.quiet = False
        self.inventories: dict[int, None] = {}
        """Shards to which a full inventory leaves at the end of this step."""
        self.heartbeat = False
        """A heartbeat leaves before the facts of this step: quarantine has changed (CAP-1)."""
        self._sends: list[Send] = []
        self._transfers: list[Transfer] = []
        self._replies: list[Reply] = []
        self._facts: dict[int, list[Fact]] = {}

    # ---- outputs ---------------------------------------------------------------------------------------------

    def send(self, target: Peer, message: object) -> None:
        """A message to a directory or node. A fenced node says nothing more."""
        if not self.state.fenced:
            self._sends.append(Send(target, message))

    def tell(self, fact: Fact, shard: int) -> None:
        """A fact for the directory of `shard`; it leaves in this step's report. Before registration there is nobody to tell:
        the first inventory does."""
        if self.state.links[shard].incarnation > 0:
            self._facts.setdefault(shard, []).append(fact)

    def reply(self, client: Peer, answer: NodeAnswer, copy: CopyId = NO_COPY) -> None:
        """The one answer to a request. A fenced node's word counts for nothing, so it gives none (rule 9)."""
        if self.state.fenced and not isinstance(answer, NodeRefused):
            answer = NodeRefused(self.config.name, answer.token, copy, Refusal("Fenced"))
        self._replies.append(Reply(client, answer))

    def refuse(
        self, client: Peer, token: str, copy: CopyId, reason: str, detail: str = "", *,
        guard: str = "", holder: str = "", retry_after_ms: int = 0,
    ) -> None:  # fmt: skip
        """A refusal of work that had been accepted, or (through `deny`) of a request."""
        refusal = Refusal(reason, detail, guard=guard, holder=holder, retry_after_ms=retry_after_ms)
        self._replies.append(Reply(client, NodeRefused(self.config.name, token, copy, refusal)))

    def deny(
        self, request: NodeRequest, reason: str, detail: str = "", *, guard: str = "", holder: str = ""
    ) -> None:
        """Refuse a request at the door: nothing has changed and nothing will."""
        copy = NO_COPY if isinstance(request, NodeStat | ListCopies | Let) else request.copy
        self.refuse(request.client, request.token, copy, reason, detail, guard=guard, holder=holder)
        self.quiet = True

    def drop(self) -> None:
        """The event is late, repeated or foreign: unseen."""
        self.quiet = True

    def transfer(self, work: Transfer) -> None:
        self._transfers.append(work)

    def facts(self, link: Link) -> None:
        """Send this step's facts for one shard, in the order in which they became true."""
        facts = self._facts.pop(link.shard, None)
        if facts:
            self.send(link.peer, Report(self.config.name, link.incarnation, tuple(facts)))

    def ready(self, alarm: int | None) -> Ready:
        return Ready((), tuple(self._sends), tuple(self._transfers), tuple(self._replies), alarm)

    # ---- records ---------------------------------------------------------------------------------------------

    def number(self) -> int:
        """A number never used before in this boot."""
        number = self.state.next_number
        self.state.next_number = number + 1
        return number

    def put(self, copy: Copy) -> Copy:
        self.state.copies[copy.copy] = copy
        return copy

    def set_place(self, copy: Copy, place: Place) -> Copy:
        """Swap in the place of the same tier, keeping the order of warmth in step with its stage."""
        tier = place.instance.tier
        warmth = self.state.warmth.get(tier)
        if warmth is not None:
            if place.stage is Stage.VERIFIED:
                warmth.setdefault(copy.copy)
            else:
                warmth.pop(copy.copy, None)
        places = tuple([place if old.instance.tier == tier else old for old in copy.places])
        return self.put(evolve(copy, places=places))

    def allocate(self, copy: CopyId, count: int, tier: Tier) -> Place | None:
        """A FILLING place of `count` slots in `tier`, or None: not a tier of ours, or no room."""
        slots = self.state.slots.get(tier)
        taken = None if slots is None else take(slots, count)
        if taken is None:
            return None
        self.state.slots[tier], numbers = taken
        slab = next(room.slab for room in self.config.tiers if room.tier == tier)
        return Place(Instance(copy, tier, numbers if slab else ()), numbers, Stage.FILLING)

    def allocate_anywhere(self, copy: CopyId, count: int, wish: Tier) -> Place | None:
        """The whole group in one tier: the wish first, then the others, fastest first."""
        if count > self.config.group_slots:
            return None  # the slack of `NodeConfig.capacity` is made for groups up to that size
        place = self.allocate(copy, count, wish)
        for room in self.config.tiers:
            if place is None and room.tier != wish:
                place = self.allocate(copy, count, room.tier)
        return place

    # ---- byte work -------------------------------------------------------------------------------------------

    def begin(
        self, kind: Kind, copy: CopyId, tier: Tier, touches: tuple[tuple[CopyId, Tier], ...] = (), *,
        client: Peer = NO_PEER, token: str = "", blocks: tuple[int, ...] = (), checksums: tuple[int, ...] = (),
        loaded: tuple[int, ...] = (), store: NodeName = NO_STORE, order: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> int:  # fmt: skip
        """Note that byte work starts, and guard what it touches. Returns its job number, for the effect."""
        job = self.number()
        self.state.works[job] = Work(
            job, kind, copy, tier, self.now, touches, client, token, blocks, checksums, loaded, store, order
        )
        for touched, where in touches:
            self.count_guard(touched, where, 1)
        return job

    def end(self, work: Work) -> None:
        """The completion has arrived: nothing of this work touches bytes any more."""
        del self.state.works[work.job]
        for touched, where in work.touches:
            self.count_guard(touched, where, -1)

    def count_guard(self, copy_id: CopyId, tier: Tier, change: int) -> None:
        """Guards name instances that are there, so both look-ups find something (USE-1)."""
        copy = self.state.copies[copy_id]
        place = place_of(copy, tier)
        if place is None:
            raise InvariantViolation("USE-1", f"{copy_id} has no place in {tier.name} to guard")
        self.set_place(copy, evolve(place, guards=place.guards + change))
