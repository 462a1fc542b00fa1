"""A state of a world as one whole number: the numbers of its parts side by side, and in front of them that of its messages.

So a state is one small object, a part is read by a shift, a change of parts is an addition, and a part's key is a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

DIRECTORY_BITS: Final = 22
STORE_BITS: Final = 14
NODE_BITS: Final = 18
CLIENT_BITS: Final = 16


class Fields:
    """Where each part stands. `top`: from where on the number of the messages under way stands, which has no bound."""

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        shifts, shift = [], 0
        for width in self.widths:
            shifts.append(shift)
            shift += width
        self.shifts = tuple(shifts)
        self.masks = tuple([(1 << width) - 1 << at for width, at in zip(self.widths, shifts, strict=True)])
        self.top: Final = shift
        self.low: Final = (1 << shift) - 1

    def pack(self, parts: Iterable[int]) -> int:
        """The number of these parts, with nothing under way."""
        return sum([number << shift for number, shift in zip(parts, self.shifts, strict=True)])

    def unpack(self, state: int) -> tuple[int, ...]:
        """The parts of a state, without its messages."""
        return tuple([(state & mask) >> shift for mask, shift in zip(self.masks, self.shifts, strict=True)])

    def mask(self, places: Iterable[int]) -> int:
        """The mask of some parts."""
        return sum([self.masks[place] for place in places])


class UnderWay:
    """Numbers of sorted tuples of messages: those that are under way, and those that are sent together.

    `mask_of(message)`: which parts of a state it meets. Numbers of messages stand at `top`, in front of the parts.
    """

    def __init__(self, top: int, mask_of: Callable[[int], int]) -> None:
        self.top = top
        self.mask_of = mask_of
        self.items: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._others: dict[int, list[tuple[int, int, int]]] = {}
        self._grown: dict[tuple[int, int], int] = {}

    def number(self, messages: Iterable[int]) -> int:
        """The number of these messages together."""
        key = tuple(sorted(messages))
        number = self._numbers.setdefault(key, len(self.items))
        if number == len(self.items):
            self.items.append(key)
        return number

    def grown(self, these: int, more: int) -> int:
        """What is added to a state with these messages under way when more are sent."""
        key = (these, more)
        added = self._grown.get(key)
        if added is None:
            number = self.number((*self.items[these], *self.items[more]))
            added = self._grown[key] = number - these << self.top
        return added

    def each(self, these: int) -> list[tuple[int, int, int]]:
        """`(message at `top`, mask of what it meets, number of the others)` of each different message."""
        found = self._others.get(these)
        if found is None:
            found = self._others[these] = []
            messages = self.items[these]
            for at, number in enumerate(messages):
                if not at or messages[at - 1] != number:
                    others = self.number((*messages[:at], *messages[at + 1 :]))
                    found.append((number << self.top, self.mask_of(number), others))
        return found
