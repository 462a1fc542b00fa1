"""Seeded faults of the directory: moves, writers, what it persists and what it lists."""

from __future__ import annotations

from typing import Any

import pytest

from pinfold.core import commands, directory, effects, ledger, migration, reading
from pinfold.core.ids import NO_COPY, Role
from pinfold.core.ledger import NO_COPIES, copy_in
from tests.cases.switches import everywhere, wrapped


def exists_by_the_record(patch: pytest.MonkeyPatch) -> None:
    """`Locate` shows whatever has a copy in the list, readable or not."""

    def locate(turn: Any, event: Any) -> Any:
        def any_copy(turn: Any, group: Any, near: Any) -> Any:
            return next(iter(turn.state.copies.get(group, NO_COPIES)), None)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(reading, "readable_copy", any_copy)
            return directory.queries.locate(turn, event)

    patch.setitem(directory._HANDLERS, commands.Locate, directory._query(locate))


def no_second_pull(patch: pytest.MonkeyPatch) -> None:
    """A target that is being freed is in the way of the next move."""

    def already_there(turn: Any, group: Any, target: Any) -> Any:
        return [copy for copy in turn.state.copies.get(group.id, NO_COPIES) if copy.node == target]

    everywhere(patch, migration.already_there, already_there)


def retired_for_good(patch: pytest.MonkeyPatch) -> None:
    """What was moved from is promoted for nobody, whoever is lost."""

    def facts(whole: Any, turn: Any, group: Any, *rest: Any, **known: Any) -> Any:
        found = whole(turn, group, *rest, **known)
        named = copy_in(turn.state.copies.get(group.id, NO_COPIES), found.promote)
        if named is not None and named.role is Role.RETIRING:
            found.promote = NO_COPY
        return found

    wrapped(patch, ledger.facts, facts)


def commit_at_the_target_only(patch: pytest.MonkeyPatch) -> None:
    """The commit of a move changes memory and not the store."""

    def done(whole: Any, turn: Any, *rest: Any) -> Any:
        answer = whole(turn, *rest)
        turn.persist[:] = [write for write in turn.persist if write[0] != effects.GROUPS]
        return answer

    wrapped(patch, migration.done, done)
