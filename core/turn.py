"""One step of the directory in progress: the state, the clock, and what will become the `Ready`."""

from __future__ import annotations

from attrs import define, field

from . import orders
from .effects import Reply, Send, Write
from .ids import NO_COPY, CopyId, GroupId, HoldId, NodeName
from .state import DirectoryConfig, DirectoryState, Hold


@define
class Turn:
    """One step in progress. `now` is directory time (ms); the lists become the `Ready`."""

    state: DirectoryState
    config: DirectoryConfig
    now: int
    persist: list[Write] = field(factory=list)
    send: list[Send] = field(factory=list)
    reply: list[Reply] = field(factory=list)
    touched: dict[GroupId, None] = field(factory=dict)
    """Groups whose record changed: their local invariants are checked, and their waiters answered, at the end of the step."""
    revision: int = 0
    holders: dict[CopyId | GroupId, list[HoldId]] | None = None

    def next_revision(self) -> int:
        """The revision of a change that is being made now."""
        self.revision += 1
        return self.revision

    def wake(self, at: int) -> None:
        """A Tick is wanted at `at` (directory time) or earlier."""
        if at < self.state.alarm_at:
            self.state.alarm_at = at

    def count(self, name: str, by: int = 1) -> None:
        counters = self.state.counters
        counters[name] = counters.get(name, 0) + by

    def order(self, node: NodeName, body: orders.Instruction, copy: CopyId) -> int:
        """Send an order under the node's next number; 0 when the node is not alive (repair sends it later, rule 8)."""
        state = self.state
        record = state.nodes.get(node)
        if record is None or not record.alive:
            return 0
        number = state.numbers.get(node, 0) + 1
        state.numbers[node] = number
        if copy is not NO_COPY:
            state.ordered[copy] = number
        meta = state.meta
        self.send.append(Send(record.address, orders.Order(meta.shard, meta.term, record.incarnation, number, body)))
        return number

    def took(self, hold: Hold) -> None:
        """A hold that was taken in this step is found by `holds_on` too."""
        if self.holders is not None:
            self.holders.setdefault(hold.group if hold.copy == NO_COPY else hold.copy, []).append(hold.id)

    def holds_on(self, place: CopyId | GroupId) -> tuple[HoldId, ...]:
        """The live holds on a copy (PIN) or group (REF), in order. Counted in the state, looked up only here: losses, refusals
        and people ask, the hot path does not."""
        state = self.state
        if place not in state.pinned and place not in state.referred:
            return ()
        if self.holders is None:
            holders: dict[CopyId | GroupId, list[HoldId]] = {}
            for hold in state.holds.values():
                holders.setdefault(hold.group if hold.copy == NO_COPY else hold.copy, []).append(hold.id)
            self.holders = holders
        found = [hold for hold in self.holders.get(place, ()) if hold in state.holds and not state.holds[hold].lost]
        return tuple(sorted(found))
