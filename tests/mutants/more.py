"""Mutants that no other list has: for rules that would have none."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import client, ledger, reading, sessions
from pinfold.core.directory import Directory
from pinfold.core.records import evolve
from tests.cases.switches import wrapped, wrapped_method
from tests.mutants.record import Mutant, Switch, switched


def clocks_jump(patch: pytest.MonkeyPatch) -> None:
    """However long the directory was paused, all of it has passed."""

    def step(whole: Any, directory: Directory, event: Any, now: int) -> Any:
        directory.config = evolve(directory.config, max_step_ms=10**12)
        return whole(directory, event, now)

    wrapped_method(patch, Directory, "step", step)


def moves_never_back_off(patch: pytest.MonkeyPatch) -> None:
    """The next move of a group may begin at once, however often the last ones failed."""

    def facts(whole: Any, *given: Any, **known: Any) -> Any:
        found = whole(*given, **known)
        found.backoff_ms = 0
        return found

    wrapped(patch, ledger.facts, facts)


def windows_have_no_end(patch: pytest.MonkeyPatch) -> None:
    """A session may be ahead of its lowest unanswered number as far as it likes."""

    def admit(whole: Any, turn: Any, command: Any) -> Any:
        turn.config, before = evolve(turn.config, window=10**9), turn.config
        try:
            return whole(turn, command)
        finally:
            turn.config = before

    wrapped(patch, sessions.admit, admit)


def refusals_leave_a_trace(patch: pytest.MonkeyPatch) -> None:
    """A command that a guard refuses counts as a use of its group."""

    def refuse(whole: Any, turn: Any, g: Any, *given: Any) -> Any:
        reading.touch(turn, g.id)
        return whole(turn, g, *given)

    wrapped(patch, ledger.refuse, refuse)


def old_answers_are_used(patch: pytest.MonkeyPatch) -> None:
    """A client takes what it is told for true, however old it is, and remembers the last thing said."""

    def told(whole: Any, turn: Any, event: Any) -> Any:
        state = turn.state
        newest = state.term, state.revision
        state.term, state.revision = 0, 0
        whole(turn, event)
        state.term, state.revision = max(newest, (state.term, state.revision))

    wrapped(patch, client.told, told)


MADE_FOR: dict[Switch, tuple[str, ...]] = {
    clocks_jump: ("test_a_pause_is_one_step_in_every_life",),
    windows_have_no_end: ("[window_full]", "test_a_number_beyond_the_window_is_refused"),
}
"""What the names of tests contain that were made for one of these."""

LISTED: tuple[tuple[Switch, str, str, str], ...] = (
    (clocks_jump, "lapse and return", "rule 10, finding 22, HOLD-2", "a pause of the directory counts in full"),
    (moves_never_back_off, "move", "rule 14, finding 21, LIVE-1", "moves of one group follow each other at once"),
    (windows_have_no_end, "exactly-once", "rule 13, rule 1, finding 14", "numbers far ahead of the lowest are taken"),
    (refusals_leave_a_trace, "exactly-once", "rule 1, REFUSE-1", "a refused command counts as a use of its group"),
    (old_answers_are_used, "client", "rule 5, finding 10, LIN-1, ROUTE-1", "an answer is used however old it is"),
)


def more() -> list[Mutant]:
    return [
        Mutant(
            switch.__name__,
            family,
            breaks,
            what,
            lambda switch=switch: switched(switch),  # type: ignore[misc]
            tests=MADE_FOR.get(switch, ()),
        )
        for switch, family, breaks, what in LISTED
    ]
