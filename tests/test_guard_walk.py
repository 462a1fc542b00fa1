"""The walk over all shapes of a record (`guard_walk`): it is done, and each of its events is checked."""

from __future__ import annotations

from .guard_walk import SHAPES, SPOILERS, walk


def test_no_event_in_any_shape_breaks_an_invariant_and_a_no_changes_nothing() -> None:
    assert walk() > 60 * len(SHAPES) * len(SPOILERS)
