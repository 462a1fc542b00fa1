"""What comes of a change by which clients hear something: that depends on those clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .parties import Label

if TYPE_CHECKING:
    from .possible import Change, Possible, State

LOST_ANSWER = "the answer is lost"


class Answers:
    """A change by which clients hear something: what comes of it depends on them. What is heard may instead be dropped."""

    def __init__(
        self, possible: Possible, budget: int, added: int, sent: tuple[int, ...], fault: bool, label: Label
    ) -> None:
        self.possible, self.added, self.sent, self.fault, self.label = possible, added, sent, fault, label
        self.lossy = possible.parties.spend(budget, "drop")
        self.paid = self.lossy - budget << possible.fields.shifts[possible.budget]
        self.mask = possible.fields.mask({possible.clients + at for at, _ in label[1][1]})
        self.known: dict[int, list[Change]] = {}

    def changes_at(self, head: int) -> list[Change]:
        key = head & self.mask
        changes = self.known.get(key)
        if changes is None:
            changes = self.known[key] = self._worked_out(self.possible.fields.unpack(head))
        return changes

    def _worked_out(self, head: State) -> list[Change]:
        possible = self.possible
        words, (sent, heard) = self.label
        after, more = list(head), self.sent
        for at, message in heard:
            place = possible.clients + at
            after[place], replies = possible.parties.hears(after[place], message)
            more += replies
        heard_by_all = possible.fields.pack(after) - possible.fields.pack(head)
        number = possible.under_way.number(more)
        found: list[Change] = [(self.added + heard_by_all, number, self.fault, self.label, None)]
        if self.lossy >= 0:
            number = possible.under_way.number(self.sent)
            for at, message in heard:
                if possible.parties.actors.items[head[possible.clients + at]].alive:
                    lost = ((*words, f"and {LOST_ANSWER}:", message), (sent, ()))
                    possible.happened.add((LOST_ANSWER, True))
                    found.append((self.added + self.paid, number, True, lost, None))
        return found
