"""Rows with a fault. Their contracts must be refuted: a proof that also holds of a wrong row proves nothing.

Each canary names the invariant that it breaks; together they break every one, and every guard on which a proof rests is left out
of some row. A canary is checked against its invariant alone, so that the right check is the one that sees it.
"""

from __future__ import annotations

from typing import Final

from attrs import define, evolve

from pinfold.core import rows
from pinfold.core.ids import NO_COPY, Role, State
from pinfold.core.rows import Facts
from pinfold.core.state import Copy, Group
from pinfold.core.table import ROWS, Body, Rest, Row

BY_NAME: Final = {row.name: row for row in ROWS}


@define(frozen=True)
class Canary:
    """`row` with a fault that breaks invariant `breaks`, visible in `view` ("Any" or "Named")."""

    name: str
    row: Row
    breaks: str
    view: str


# ---- faulty bodies -------------------------------------------------------------------------------------------


def sealed_without_hash(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.sealed(g, c, k)
    after.manifest = b""
    return after, copy


def ended_in_local(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.write_ended(g, c, k)
    after.state = State.LOCAL
    return after, copy


def created_in_place(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.create(g, c, k)
    after.created = g.created
    return after, copy


def created_without_version(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.create(g, c, k)
    after.version = g.version
    return after, copy


def moved_without_target(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.move(g, c, k)
    after.target = NO_COPY
    return after, copy


def committed_in_old_epoch(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.move_done(g, c, k)
    after.epoch = g.epoch
    return after, copy


def aborted_away_from_home(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.move_ended(g, c, k)
    if after.state is State.REMOTE:
        after.state = State.LOCAL
    return after, copy


def aborted_in_silence(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The source was lost too, and nobody is told."""
    after, copy = rows.move_ended(g, c, k)
    if k.authority == NO_COPY:
        after.state = State.LOCAL
    return after, copy


def lost_with_its_source(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """The move goes on, and still names the source that is gone."""
    after, copy = rows.authority_gone(g, c, k)
    after.source = g.source
    return after, copy


def lost_and_still_leaving(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.authority_gone(g, c, k)
    after.leaving = g.leaving
    return after, copy


def back_in_old_epoch(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.come_back(g, c, k)
    after.epoch = g.epoch
    return after, copy


def back_and_smaller(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    after, copy = rows.come_back(g, c, k)
    if copy is not None:
        copy.slots = 0
    return after, copy


def two_authorities(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.noted(g), rows.in_role(c, Role.AUTHORITATIVE)


def freed_while_absent(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.noted(g), rows.in_role(c, Role.FREEING)


def never_over(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    """EVICTING for ever."""
    return rows.noted(g), None


def over_too_early(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.decided(g, k, State.EVICTED, reason=g.reason), None


def dropped_at_once(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.noted(g), rows.in_role(c, Role.FREEING)


def goes_back(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.noted(g), rows.in_role(c, Role.REPLICA)


def evicted_without_looking(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.decided(g, k, State.EVICTED, reason=k.reason), c


def deleted_with_a_trace(g: Group, c: Copy, k: Facts) -> tuple[Group, Copy | None]:
    return rows.decided(g, k, State.EVICTING, reason=k.reason), c


# ---- faulty rests --------------------------------------------------------------------------------------------


def frees_what_is_held(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    return None if o.absent and not held else rows.in_role(o, Role.FREEING)


def drops_what_is_there(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    return rows.in_role(o, Role.RETIRING, k.now) if held else None


def promotes_all(g: Group, c: Copy, o: Copy, held: bool, k: Facts) -> Copy | None:
    return rows.in_role(o, Role.AUTHORITATIVE) if o.role is Role.REPLICA and k.promote != NO_COPY else o


# ---- the list ------------------------------------------------------------------------------------------------


def _without(name: str, guard: str, breaks: str, view: str = "Any") -> Canary:
    row = BY_NAME[name]
    assert any(one.name == guard for one in row.guards), (name, guard)
    kept = tuple(one for one in row.guards if one.name != guard)
    return Canary(f"without_{guard}", evolve(row, guards=kept), breaks, view)


def _body(name: str, body: Body, breaks: str, view: str = "Any") -> Canary:
    return Canary(body.__name__, evolve(BY_NAME[name], body=body), breaks, view)


def _rest(name: str, rest: Rest | None, breaks: str, view: str = "Any") -> Canary:
    word = "nobody_else_changes" if rest is None else rest.__name__
    return Canary(word, evolve(BY_NAME[name], rest=rest), breaks, view)


CANARIES: Final[tuple[Canary, ...]] = (
    _body("WRITING/SEALED/INCOMING", sealed_without_hash, "COPY-1"),
    _body("WRITING/ENDED/INCOMING", ended_in_local, "TABLE"),
    _without("WRITING/DUE/RETIRING", "no_pins_on_it", "USE-1"),
    _body("LOCAL/MOVE/INCOMING", moved_without_target, "MOVE-1"),
    _without("LOCAL/PIN", "copy_is_readable", "USE-1"),
    _without("LOCAL/EVICT", "unreferenced", "HOLD-1", "Named"),
    _rest("LOCAL/EVICT", frees_what_is_held, "USE-1"),
    _without("LOCAL/ADOPT", "can_take_over", "COPY-3"),
    _without("LOCAL/DROP_REPLICA", "is_replica", "COPY-2", "Named"),
    _without("LOCAL/DROP_REPLICA", "not_last_readable", "HOLD-1", "Named"),
    _rest("LOCAL/GONE/AUTHORITATIVE", None, "COPY-2", "Named"),
    _without("LOCAL/DUE/RETIRING", "not_the_last", "MOVE-2"),
    _body("LOCAL/GONE/AUTHORITATIVE", lost_and_still_leaving, "HOLD-1"),
    _body("LOCAL/COPY_DONE/REPLICA", two_authorities, "COPY-2", "Named"),
    _body("REMOTE/ENDED/REPLICA", rows.lapse, "MOVE-2"),
    _body("LOCAL/RETURN/AUTHORITATIVE", back_in_old_epoch, "OWN-1"),
    _body("LOCAL/RETURN/REPLICA", back_and_smaller, "CAP-1"),
    _without("LOCAL/CREATE", "nothing_readable", "HOLD-1", "Named"),
    _rest("REMOTE/ADOPT", None, "COPY-2", "Named"),
    _body("REMOTE/DUE/RETIRING", freed_while_absent, "MOVE-2"),
    _body("MIGRATING_OUT/DROP_REPLICA", dropped_at_once, "USE-1"),
    _rest("MIGRATING_OUT/EVICT", drops_what_is_there, "CAP-1"),
    _body("MIGRATING_OUT/COPY_DONE/INCOMING", committed_in_old_epoch, "OWN-1"),
    _rest("MIGRATING_OUT/COPY_DONE/INCOMING", None, "COPY-2", "Named"),
    _body("MIGRATING_OUT/ENDED/INCOMING", aborted_in_silence, "COPY-2", "Named"),
    _body("MIGRATING_OUT/GONE/AUTHORITATIVE", lost_with_its_source, "MOVE-1", "Named"),
    _body("MIGRATING_OUT/CREATE", created_in_place, "BYTES-1"),
    _rest("MIGRATING_OUT/CREATE", None, "BYTES-1"),
    _body("MIGRATING_IN/DROP_REPLICA", dropped_at_once, "USE-1"),
    _body("MIGRATING_IN/ENDED/INCOMING", aborted_away_from_home, "COPY-2"),
    _rest("MIGRATING_IN/GONE/AUTHORITATIVE", promotes_all, "COPY-2"),
    _body("EVICTING/GONE/FREEING", never_over, "LIVE-1"),
    _body("EVICTING/GONE/RETIRING", over_too_early, "MOVE-1"),
    _body("EVICTING/RETURN/RETIRING", goes_back, "COPY-3"),
    _body("EVICTED/CREATE", created_without_version, "EPOCH-1"),
    _body("EVICTED/DELETE", deleted_with_a_trace, "LIVE-1"),
)
