"""A wire inside one process, as faulty as one likes and the same on every run.

    wire = InprocWire(seed=7, faults=Faults(loss=0.1, delay_ms=(1, 20)))
    port = wire.port("node/n1")              # a driver's Wire port: port.send(target, message)
    wire.port("directory/0", handler)        # or with a handler, for `pump`
    for delivery in wire.due(now): ...       # all that has arrived by `now`, in order of arrival

Time is virtual, in milliseconds, and moves only when a caller says so; chance comes from the seed alone. Each direction of each
link draws from a stream of its own, so that a message more on one link changes nothing on the others: a failing run can be
shrunk. Nothing here depends on hash order, the clock or the Python version (DET-1).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import attrs
from attrs import define

from ..core.events import PeerUnreachable
from ..core.ids import Peer
from .base import LIMITS, Limits, MisuseError

Handler = Callable[[Peer, Any], None]
"""Called by `pump` as `handler(source, message)`."""


@define(frozen=True)
class Faults:
    """What one direction of a link does to messages. Chances are from 0 to 1, and are drawn for each message."""

    loss: float = 0.0
    duplicate: float = 0.0
    """A second one arrives, with a delay of its own."""
    reorder: float = 0.0
    """It is held back for up to `reorder_ms` and overtaken by what was sent later. Otherwise a link keeps its order."""
    reorder_ms: int = 100
    delay_ms: tuple[int, int] = (0, 0)
    """Least and most delay; both ends are possible."""

    def __attrs_post_init__(self) -> None:
        if not all(0.0 <= chance <= 1.0 for chance in (self.loss, self.duplicate, self.reorder)):
            raise ValueError("chances are from 0 to 1")
        if not 0 <= self.delay_ms[0] <= self.delay_ms[1] or self.reorder_ms < 0:
            raise ValueError("delays are not negative, the least first")


PERFECT = Faults()


@define(frozen=True)
class Delivery:
    """`message` from `source` arrives at `target` at `at_ms`."""

    at_ms: int
    source: Peer
    target: Peer
    message: Any


@define
class InprocCounters:
    """`sent + duplicated` equals the sum of the others and what is still in flight."""

    sent: int = 0
    duplicated: int = 0
    delivered: int = 0
    lost: int = 0
    cut: int = 0
    """Lost to a partition, at sending or on the way."""
    unreachable: int = 0
    """No such peer, or no more when it arrived."""
    refused_full: int = 0
    """`Limits.in_flight_max` was reached."""

    def as_dict(self) -> dict[str, int]:
        return {a.name: getattr(self, a.name) for a in attrs.fields(InprocCounters)}


@define(eq=False)
class _Link:
    """One direction between two peers."""

    faults: Faults
    chance: random.Random
    latest_ms: int = 0
    """No message that keeps the order arrives earlier than this."""


class Port:
    """One peer's place at the wire; the driver's `Wire` port."""

    def __init__(self, wire: InprocWire, name: Peer, handler: Handler | None) -> None:
        self.name = name
        self.handler = handler
        self._wire = wire
        self._unreachable: dict[Peer, None] = {}

    def send(self, target: str, message: Any) -> None:
        """Take one message for one peer. Never blocks; may lose it, as the faults say."""
        self._wire.send(self.name, target, message)

    def unreachable(self) -> list[PeerUnreachable]:
        """Take the peers to which something could not be delivered since the last call; each once."""
        peers, self._unreachable = self._unreachable, {}
        return [PeerUnreachable(peer) for peer in peers]

    def note_unreachable(self, peer: Peer) -> None:
        self._unreachable[peer] = None


class InprocWire:
    """Connects ports of one process. With `through_codec`, each message is encoded and decoded once on its way, so that what
    can't cross a real wire doesn't cross this one either (needs msgspec)."""

    def __init__(
        self,
        *,
        seed: int = 0,
        faults: Faults = PERFECT,
        through_codec: bool = False,
        now_ms: int = 0,
        limits: Limits = LIMITS,
    ) -> None:
        self.now_ms = now_ms
        self.counters = InprocCounters()
        self.held_back = 0
        """How many messages were put on their way to be overtaken (`Faults.reorder`)."""
        self._seed = seed
        self._faults = faults
        self._limits = limits
        self._ports: dict[str, Port] = {}
        self._links: dict[tuple[str, str], _Link] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._heap: list[tuple[int, int, Delivery]] = []
        self._number = 0
        self._cross: Callable[[str, Any], Any] = _through_codec(limits) if through_codec else _as_is

    # ---- peers and links ----------------------------------------------------------------------------------

    def port(self, name: str, handler: Handler | None = None) -> Port:
        """Register a peer. Raises `MisuseError` when the name is taken: two peers of one name would steal from each other."""
        if name in self._ports:
            raise MisuseError(f"{name} has a port already")
        port = self._ports[name] = Port(self, Peer(name), handler)
        return port

    def remove(self, name: str) -> None:
        """The peer is gone; what is on its way to it will not arrive. A new port of that name is another life."""
        del self._ports[name]
        kept = [entry for entry in self._heap if entry[2].target != name]
        self.counters.unreachable += len(self._heap) - len(kept)
        kept.sort()  # a sorted list is a heap
        self._heap = kept

    def set_faults(self, source: str, target: str, faults: Faults) -> None:
        """Override the faults of one direction of one link, from the next message on."""
        self._link(source, target).faults = faults

    def set_all_faults(self, faults: Faults) -> None:
        """The faults of every link, overrides included: `PERFECT` ends a storm."""
        self._faults = faults
        for link in self._links.values():
            link.faults = faults

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Nothing passes between the two any more, or nothing from `one` to `other`; what is on its way there is lost."""
        self._cuts[one, other] = None
        if not one_way:
            self._cuts[other, one] = None

    def heal(self, one: str, other: str) -> None:
        self._cuts.pop((one, other), None)
        self._cuts.pop((other, one), None)

    def heal_all(self) -> None:
        self._cuts.clear()

    def _link(self, source: str, target: str) -> _Link:
        link = self._links.get((source, target))
        if link is None:
            # A string seed is hashed by `random` with SHA-512, not by `hash`: the same under any PYTHONHASHSEED.
            chance = random.Random(f"{self._seed} {len(source)} {source} {target}")
            link = self._links[source, target] = _Link(self._faults, chance)
        return link

    # ---- sending ------------------------------------------------------------------------------------------

    def send(self, source: str, target: str, message: Any) -> None:
        """Put a message on its way. Raises only what the codec raises for a value that can't travel."""
        self.counters.sent += 1
        if target not in self._ports:
            self.counters.unreachable += 1
            self._tell(source, target)
        elif (source, target) in self._cuts:
            self.counters.cut += 1
        else:
            link = self._link(source, target)
            # Every chance is drawn for every message: so one fault's setting doesn't shift the luck of the others.
            lost, twice = link.chance.random() < link.faults.loss, link.chance.random() < link.faults.duplicate
            first, second = self._arrival(link), self._arrival(link)
            if lost:
                self.counters.lost += 1
            else:
                self._fly(first, source, target, message)
                if twice:
                    self.counters.duplicated += 1
                    self._fly(second, source, target, message)

    def _arrival(self, link: _Link) -> tuple[int, bool]:
        """`(when, whether it keeps the order)`, from three draws. `random()` alone is promised to be the same everywhere."""
        faults = link.faults
        least, most = faults.delay_ms
        delay = least + int(link.chance.random() * (most - least + 1))
        late, by = link.chance.random() < faults.reorder, link.chance.random()
        if late:
            return self.now_ms + delay + 1 + int(by * faults.reorder_ms), False
        return self.now_ms + delay, True

    def _fly(self, arrival: tuple[int, bool], source: str, target: str, message: Any) -> None:
        if len(self._heap) >= self._limits.in_flight_max:
            self.counters.refused_full += 1
            self._tell(source, target)
            return
        at_ms, in_order = arrival
        if in_order:
            link = self._links[source, target]
            at_ms = link.latest_ms = max(at_ms, link.latest_ms)
        else:
            self.held_back += 1
        self._number += 1
        message = self._cross(source, message)
        heappush(self._heap, (at_ms, self._number, Delivery(at_ms, Peer(source), Peer(target), message)))

    def _tell(self, source: str, target: str) -> None:
        port = self._ports.get(source)
        if port is not None:
            port.note_unreachable(Peer(target))

    # ---- arriving -----------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the next message arrives (it may still be lost to a cut); None when nothing is on its way."""
        return self._heap[0][0] if self._heap else None

    def deliver_next(self, by_ms: int | None = None) -> Delivery | None:
        """The next message to arrive, by `by_ms` or however late; time moves to its arrival. None when there is none."""
        while self._heap and (by_ms is None or self._heap[0][0] <= by_ms):
            at_ms, _, delivery = heappop(self._heap)
            self.now_ms = max(self.now_ms, at_ms)
            if (delivery.source, delivery.target) in self._cuts:
                self.counters.cut += 1
                continue
            self.counters.delivered += 1
            return delivery
        return None

    def due(self, now_ms: int) -> list[Delivery]:
        """Move time to `now_ms` and take everything that has arrived by then, in order of arrival."""
        arrived = list(iter(lambda: self.deliver_next(now_ms), None))
        self.now_ms = max(self.now_ms, now_ms)
        return arrived

    def pump(self, now_ms: int, deliveries_max: int = 1_000_000) -> int:
        """Call the handlers of everything that arrives by `now_ms`, what they send at once included, one at a time.

        Gives the number of deliveries. Raises `MisuseError` after `deliveries_max` of them: the peers talk in circles.
        """
        count = 0
        while (delivery := self.deliver_next(now_ms)) is not None:
            if count >= deliveries_max:
                raise MisuseError(f"{count} deliveries by {now_ms} ms and no end")
            count += 1
            handler = self._ports[delivery.target].handler
            if handler is None:
                raise MisuseError(f"{delivery.target} has no handler: use due() or deliver_next()")
            handler(delivery.source, delivery.message)
        self.now_ms = max(self.now_ms, now_ms)
        return count


def _as_is(source: str, message: Any) -> Any:
    return message


def _through_codec(limits: Limits) -> Callable[[str, Any], Any]:
    from .codec import decode, encode

    def cross(source: str, message: Any) -> Any:
        return decode(encode(message, source, limits=limits), limits=limits)[1]

    return cross
