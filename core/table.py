"""The law: every legal change of a group's record, as data. One row per (state, event, role of the copy concerned).

From this one table come the dispatcher (`core/ledger.py`), `specs/lifecycle.md` with its diagram, the `transitions` machine of
the tests, the coverage of rows and guards, and `pinfold explain`. A pair that has no row is refused by the word in `REFUSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from attrs import define

from . import rows
from .ids import Role, State
from .rows import Facts
from .state import Copy, Group


class On(IntEnum):
    """What can happen to a record."""

    CREATE = 0
    SEALED = 1
    PIN = 2
    REF = 3
    MOVE = 4
    ADOPT = 5
    COPY_DONE = 6
    ENDED = 7
    """An INCOMING copy will not come: write given up, move aborted, replica failed."""
    LEAVE = 8
    EVICT = 9
    DUE = 10
    GONE = 11
    """A copy is not there any more: Freed, lost, counted absent, or dropped after the absence limit."""
    LAPSE = 12
    RETURN = 13
    REPLICATE = 14
    DROP_REPLICA = 15
    DELETE = 16


Body = Callable[[Group, Copy, Facts], tuple[Group, Copy | None]]
Rest = Callable[[Group, Copy, Copy, bool, Facts], Copy | None]


@define(frozen=True)
class Guard:
    """`check(g, c, k)`; when it says no, the refusal is `refusal`."""

    name: str
    check: Callable[[Group, Copy, Facts], bool]
    refusal: str


@define(frozen=True)
class Row:
    """`role` is that of the copy concerned, None for any. `to`: the states it may end in. `effects`: what may follow from it."""

    state: State
    on: On
    role: Role | None
    to: tuple[State, ...]
    guards: tuple[Guard, ...]
    body: Body
    rest: Rest | None = None
    effects: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        tail = "" if self.role is None else f"/{self.role.name}"
        return f"{self.state.name}/{self.on.name}{tail}"


def _guard(check: Callable[[Group, Copy, Facts], bool], refusal: str) -> Guard:
    return Guard(check.__name__, check, refusal)


_TARGET = _guard(rows.is_target, "StaleReport")
_MANIFEST = _guard(rows.matches_manifest, "ManifestMismatch")
_STAYS = _guard(rows.not_leaving, "Leaving")
_EPOCH = _guard(rows.epoch_as_expected, "StaleEpoch")
_THERE = _guard(rows.authority_present, "Unreadable")
_ROOM = _guard(rows.has_room, "NoSpace")
_APART = _guard(rows.not_at_target, "AlreadyThere")

_PIN = (_STAYS, _guard(rows.copy_is_readable, "StaleCopy"))
_PIN_MOVING = (
    _STAYS,
    _guard(rows.not_recompute, "Recompute"),
    _guard(rows.policy_allows_moving, "MoveInProgress"),
    _guard(rows.copy_is_readable, "StaleCopy"),
)
_REF = (_STAYS, _guard(rows.some_copy_readable, "Unreadable"))
_RECREATE = (_guard(rows.nothing_readable, "AlreadyThere"), _guard(rows.not_being_brought, "MoveInProgress"), _ROOM)
_BEGIN = (
    _EPOCH,
    _STAYS,
    _THERE,
    _guard(rows.unpinned_or_allowed, "Pinned"),
    _guard(rows.backed_off, "MoveTooSoon"),
    _APART,
    _ROOM,
)
_ADOPT = (_EPOCH, _STAYS, _THERE, _guard(rows.unpinned_or_allowed, "Pinned"), _guard(rows.can_take_over, "StaleCopy"))
_EVICT = (_EPOCH, _guard(rows.unpinned, "Pinned"), _guard(rows.unreferenced, "Referenced"))
_REPLICATE = (_STAYS, _THERE, _guard(rows.target_is_node, "BadRequest"), _APART, _ROOM)
_DROP = (_guard(rows.is_replica, "StaleCopy"), _guard(rows.not_last_readable, "LastReadable"))
_DUE = (_guard(rows.no_pins_on_it, "Pinned"), _guard(rows.grace_over, "StaleReport"))
_DUE_READABLE = (*_DUE, _guard(rows.not_the_last, "LastReadable"))
_BACK = (_guard(rows.is_absent, "StaleReport"),)

S, R = State, Role
READABLE: Final = (S.LOCAL, S.MIGRATING_OUT, S.REMOTE, S.MIGRATING_IN)
MOVING: Final = (S.MIGRATING_OUT, S.MIGRATING_IN)
ALIVE: Final = (S.WRITING, *READABLE)
_HOME = (S.LOCAL, S.REMOTE)


# fmt: off
def _rows() -> list[Row]:
    made = [
        Row(S.EVICTED, On.CREATE, None, (S.WRITING,), (_ROOM,), rows.create, None, ("Reserve",)),
        Row(S.EVICTING, On.CREATE, None, (S.WRITING,), (_ROOM,), rows.create, None, ("Reserve",)),
        Row(S.WRITING, On.SEALED, R.INCOMING, (S.LOCAL,), (_TARGET,), rows.sealed, None, ("wake",)),
        Row(S.WRITING, On.ENDED, R.INCOMING, (S.EVICTING, S.EVICTED), (_TARGET,), rows.write_ended, None, ("Free", "lose", "wake")),
        Row(S.LOCAL, On.MOVE, R.INCOMING, (S.MIGRATING_OUT,), _BEGIN, rows.move, None, ("Fetch", "Spill")),
        Row(S.REMOTE, On.MOVE, R.INCOMING, (S.MIGRATING_IN,), (*_BEGIN, _guard(rows.target_is_node, "BadRequest")), rows.move, None, ("Fetch",)),
        Row(S.EVICTED, On.DELETE, None, (S.EVICTED,), (_guard(rows.list_empty, "AlreadyEvicting"), _guard(rows.unreferenced, "Referenced")), rows.unchanged, None, ("forget",)),
    ]
    for state in READABLE:
        made += _readable(state)
    for state in (*ALIVE, S.EVICTING):
        gone_to = (state,) if state is not S.EVICTING else (S.EVICTING, S.EVICTED)
        made += [
            Row(state, On.DUE, R.RETIRING, gone_to, _DUE_READABLE if state in READABLE else _DUE, rows.due, None, ("Free",)),
            Row(state, On.GONE, R.RETIRING, gone_to, (), rows.spare_gone, None, ("lose",)),
            Row(state, On.GONE, R.FREEING, gone_to, (), rows.spare_gone),
            Row(state, On.LAPSE, R.RETIRING, (state,), (), rows.lapse),
            Row(state, On.RETURN, R.RETIRING, (state,), _BACK, rows.come_back),
        ]
    return made


def _readable(state: State) -> list[Row]:
    moving = state in MOVING
    at_home = state in (S.LOCAL, S.MIGRATING_OUT)
    after_loss = (S.LOCAL, S.REMOTE, S.EVICTING, S.EVICTED, *((state,) if moving else ()))
    made = [
        Row(state, On.PIN, None, (state,), _PIN_MOVING if moving else _PIN, rows.unchanged),
        Row(state, On.REF, None, (state,), _REF, rows.unchanged),
        Row(state, On.LEAVE, None, (state,), (), rows.leave),
        Row(state, On.EVICT, None, (S.EVICTING, S.EVICTED), _EVICT, rows.evict, rows.evict_rest, ("Free", "wake")),
        Row(state, On.ADOPT, None, _HOME, _ADOPT, rows.adopt, rows.authority_retires, ("wake",)),
        Row(state, On.REPLICATE, R.INCOMING, (state,), _REPLICATE, rows.replicate, None, ("Fetch",)),
        Row(state, On.DROP_REPLICA, None, (state,), _DROP, rows.drop_replica),
        Row(state, On.GONE, R.AUTHORITATIVE, after_loss, (), rows.authority_gone, rows.authority_gone_rest, ("Free", "lose", "wake")),
        Row(state, On.GONE, R.REPLICA, (state,), (), rows.spare_gone, None, ("lose",)),
        Row(state, On.LAPSE, R.REPLICA, (state,), (), rows.lapse),
        Row(state, On.RETURN, R.REPLICA, (state,), _BACK, rows.come_back),
    ]
    if at_home:
        # A store's copy is never absent: nothing lapses there, nothing returns, and nothing need be created anew beside it.
        made += [
            Row(state, On.CREATE, None, (S.WRITING,), _RECREATE, rows.create, rows.create_rest, ("Reserve", "Free", "wake")),
            Row(state, On.LAPSE, R.AUTHORITATIVE, (state,), (), rows.lapse, None, ("wake",)),
            Row(state, On.RETURN, R.AUTHORITATIVE, (state,), _BACK, rows.come_back, None, ("wake",)),
        ]
    if moving:
        ended_to = (S.LOCAL, S.REMOTE, S.EVICTING, S.EVICTED)
        made = [row for row in made if row.on is not On.ADOPT]
        made += [
            Row(state, On.COPY_DONE, R.INCOMING, (S.LOCAL, S.REMOTE), (_TARGET, _MANIFEST), rows.move_done, rows.authority_retires, ("wake",)),
            Row(state, On.ENDED, R.INCOMING, ended_to, (_TARGET,), rows.move_ended, rows.move_ended_rest, ("Free", "lose", "wake")),
        ]
    return made


def _replica_rows() -> dict[State, dict[On, Row]]:
    """While a record has a live move, an INCOMING copy that is not its target is a replica in the making."""
    incoming = _guard(rows.is_incoming, "StaleReport")
    return {
        state: {
            On.COPY_DONE: Row(state, On.COPY_DONE, R.REPLICA, (state,), (incoming, _MANIFEST), rows.replica_done, None, ("wake",)),
            On.ENDED: Row(state, On.ENDED, R.REPLICA, (state,), (incoming,), rows.replica_ended, None, ("Free",)),
        }
        for state in READABLE
    }


# fmt: on

ROWS: Final[tuple[Row, ...]] = (*_rows(), *(row for by_on in _replica_rows().values() for row in by_on.values()))
"""Every row. For COPY_DONE and ENDED, role REPLICA stands for an INCOMING copy that is not the record's target."""

TABLE: Final[dict[tuple[int, int, int], Row]] = {
    (row.state, row.on, role): row for row in ROWS for role in (Role if row.role is None else (row.role,))
}
"""`(state, event, role of the copy concerned)` -> row."""

REFUSES: Final[dict[On, dict[State, str]]] = {
    On.CREATE: {S.WRITING: "NotSealed", S.REMOTE: "AlreadyThere", S.MIGRATING_IN: "AlreadyThere"},
    On.SEALED: dict.fromkeys(State, "StaleReport"),
    On.PIN: {S.WRITING: "NotSealed", S.EVICTING: "Unreadable", S.EVICTED: "Unreadable"},
    On.REF: {S.WRITING: "NotSealed", S.EVICTING: "Unreadable", S.EVICTED: "Unreadable"},
    On.MOVE: {
        S.WRITING: "NotSealed",
        S.MIGRATING_OUT: "MoveInProgress",
        S.MIGRATING_IN: "MoveInProgress",
        S.EVICTING: "Unreadable",
        S.EVICTED: "Unreadable",
    },
    On.ADOPT: {
        S.WRITING: "NotSealed",
        S.MIGRATING_OUT: "MoveInProgress",
        S.MIGRATING_IN: "MoveInProgress",
        S.EVICTING: "Unreadable",
        S.EVICTED: "Unreadable",
    },
    On.COPY_DONE: dict.fromkeys(State, "StaleReport"),
    On.ENDED: dict.fromkeys(State, "StaleReport"),
    On.LEAVE: {S.WRITING: "NotSealed", S.EVICTING: "AlreadyEvicting", S.EVICTED: "AlreadyEvicting"},
    On.EVICT: {S.WRITING: "NotSealed", S.EVICTING: "AlreadyEvicting", S.EVICTED: "AlreadyEvicting"},
    On.DUE: dict.fromkeys(State, "StaleReport"),
    On.GONE: dict.fromkeys(State, "StaleReport"),
    On.LAPSE: dict.fromkeys(State, "StaleReport"),
    On.RETURN: dict.fromkeys(State, "StaleReport"),
    On.REPLICATE: {S.WRITING: "NotSealed", S.EVICTING: "Unreadable", S.EVICTED: "Unreadable"},
    On.DROP_REPLICA: {S.WRITING: "NotSealed", S.EVICTING: "Unreadable", S.EVICTED: "Unreadable"},
    On.DELETE: dict.fromkeys(State, "AlreadyEvicting"),
}
"""The refusal of each pair that has no row for the copy's role."""


_INCOMING, _REPLICA, _COPY_DONE, _ENDED = Role.INCOMING, Role.REPLICA, On.COPY_DONE, On.ENDED


def find(g: Group, on: On, c: Copy) -> Row | None:
    """The row for `on` happening to `c` of `g`, or None: it is refused by `REFUSES`."""
    role = c.role
    if role is _INCOMING and (on is _COPY_DONE or on is _ENDED) and c.id != g.target:
        role = _REPLICA
    return TABLE.get((g.state, on, role))


def refusal_of(g: Group, on: On) -> str:
    """The word for a pair without a row."""
    return REFUSES[on].get(g.state, "StaleReport")
