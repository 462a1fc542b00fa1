"""Slots: taken by one, free only when given back, quarantined ones in nobody's hands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core.allocator import Slots, give, lift, new_slots, quarantine, take
from pinfold.core.errors import InvariantViolation


def taken(slots: Slots, count: int) -> tuple[Slots, tuple[int, ...]]:
    result = take(slots, count)
    assert result is not None
    return result


def test_the_lowest_free_slots_are_taken_first() -> None:
    slots, first = taken(new_slots(5), 2)
    slots, second = taken(slots, 2)
    slots, third = taken(give(slots, first), 3)
    assert (first, second, third) == ((0, 1), (2, 3), (0, 1, 4))


def test_a_group_gets_all_of_its_room_or_none() -> None:
    slots, _ = taken(new_slots(3), 2)
    assert take(slots, 2) is None
    assert slots.room == 1


def test_taking_leaves_the_old_value_as_it_was() -> None:
    before = new_slots(4)
    taken(before, 4)
    assert before == new_slots(4)


@pytest.mark.parametrize("back", [(2,), (0, 0), (4,), (-1,)])
def test_a_slot_that_was_not_taken_is_never_given_back(back: tuple[int, ...]) -> None:
    slots, _ = taken(new_slots(4), 2)
    with pytest.raises(InvariantViolation, match="USE-1"):
        give(slots, back)


def test_a_slot_that_is_given_back_twice_is_noticed_wherever_it_lies() -> None:
    """Also where no number is near nought: the check works on bits relative to the lowest slot given back."""
    slots, _ = taken(new_slots(8), 8)
    for back in ((3, 3), (3, 5, 5), (7, 7)):
        with pytest.raises(InvariantViolation, match="USE-1"):
            give(slots, back)
    assert give(slots, (3, 6)).free == 1 << 3 | 1 << 6


@pytest.mark.parametrize("bad", [(3,), (0, 3), (4,), (-1,), (1, 1)])
def test_only_a_taken_slot_is_quarantined(bad: tuple[int, ...]) -> None:
    """A free slot that counted as quarantined would be handed out, and counted down again when it is lifted."""
    slots, _ = taken(new_slots(4), 3)
    with pytest.raises(InvariantViolation, match="USE-1"):
        quarantine(slots, bad)


def test_quarantined_slots_stay_used_until_they_are_lifted() -> None:
    slots, numbers = taken(new_slots(2), 2)
    slots = quarantine(slots, numbers)
    assert (slots.used, slots.quarantined, slots.room) == (2, 2, 0)
    assert take(slots, 1) is None
    assert lift(slots, numbers) == new_slots(2)


@given(st.lists(st.integers(0, 5), max_size=40))
def test_no_slot_has_two_owners_whatever_is_taken_and_given(counts: list[int]) -> None:
    slots = new_slots(8)
    owned: list[tuple[int, ...]] = []
    for count in counts:
        result = take(slots, count)
        if result is not None:
            slots = result[0]
            owned.append(result[1])
        elif owned:
            slots = give(slots, owned.pop(0))
        numbers = [number for numbers in owned for number in numbers]
        assert len(numbers) == len(set(numbers)) == slots.used
