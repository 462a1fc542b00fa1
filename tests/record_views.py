"""Real records (one group of a directory, its copies and holds), and the views of them that the proofs speak of."""

from __future__ import annotations

from typing import Any

from attrs import define
from hypothesis import strategies as st

from pinfold.core import effects, ledger
from pinfold.core.directory import Directory
from pinfold.core.ids import NO_COPY, CopyId, GroupId, HoldId, HoldKind, NodeName, Peer, Role, SessionId, State, Tier
from pinfold.core.records import evolve
from pinfold.core.rows import NOWHERE, Facts
from pinfold.core.state import Copy, DirectoryConfig, DirectoryState, Group, GroupRecord, Hold, Meta, Node, Session
from pinfold.core.table import MOVING, READABLE, On, Row
from pinfold.core.turn import Turn
from proofs import view as w
from proofs.view import Any as AnyView
from proofs.view import End, Named, Seen

from .directory_world import MANIFEST, OTHER_MANIFEST, spec_of

NOW = 1_000
REVISION = 50
"""Of the directory before the step; the step's is one more."""
SPEC = spec_of("view")


@define
class Record:
    """One group of a directory."""

    state: DirectoryState
    name: GroupId = SPEC.group

    @property
    def group(self) -> Group:
        return self.state.groups[self.name]

    @property
    def copies(self) -> tuple[Copy, ...]:
        return self.state.copies[self.name]

    def turn(self) -> Turn:
        return Turn(self.state, DirectoryConfig(), NOW, revision=REVISION)


def number_of(manifest: bytes) -> int:
    """The number that stands for a manifest hash; 0 is none."""
    return int.from_bytes(manifest, "big")


def record_of(group: Group, copies: tuple[Copy, ...], pins: dict[CopyId, int], refs: int) -> Record:
    """A directory that has this record, and the holds."""
    targets = [(HoldKind.PIN, copy) for copy, count in pins.items() for _ in range(count)] + [(HoldKind.REF, NO_COPY)] * refs
    holds = [Hold(HoldId(1, at + 1, 0), kind, group.id, copy, "") for at, (kind, copy) in enumerate(targets)]
    places = {NodeName("new"), *(copy.node for copy in copies if not copy.store)}
    tables: dict[str, dict[Any, Any]] = {
        effects.META: {effects.META: Meta("views", 0, 1, 1, REVISION, NOW)},
        effects.GROUPS: {group.id: GroupRecord(group, copies)},
        effects.SESSIONS: {SessionId(1): Session(SessionId(1), "", Peer("client/v"), "t", 1_000)},
        effects.HOLDS: {hold.id: hold for hold in holds},
        effects.NODES: {name: Node(name, Peer(f"node/{name}"), "b", 9, 100, (NodeName("s1"),)) for name in places},
    }
    return Record(Directory.load(tables))


# ---- records that the invariants allow -----------------------------------------------------------------------


def _roles(state: State) -> list[Role]:
    """Of the copies beside target and authority."""
    if state is State.EVICTED:
        return []
    return [Role.REPLICA, Role.INCOMING, Role.RETIRING, Role.FREEING] if state in READABLE else [Role.RETIRING, Role.FREEING]


@st.composite
def records(draw: st.DrawFn, state: State) -> Record:
    """Any record in this state that the invariants allow, with up to five copies."""
    created = draw(st.integers(1, 20))
    roles = draw(st.lists(st.sampled_from(_roles(state)), max_size=3)) if _roles(state) else []
    if state is State.EVICTING and not roles:
        roles = [Role.FREEING]
    carried = state in MOVING and draw(st.booleans())
    if state in READABLE and not carried:
        roles.append(Role.AUTHORITATIVE)
    if state is State.WRITING or state in MOVING:
        roles.append(Role.INCOMING)  # the last one is the target
    young = draw(st.lists(st.integers(created, REVISION), min_size=len(roles), max_size=len(roles), unique=True))
    old = list(range(created - len(roles), created)) if created > len(roles) else young
    copies: list[Copy] = []
    pins: dict[CopyId, int] = {}
    for at, role in enumerate(roles):
        number = old[at] if role in (Role.RETIRING, Role.FREEING) and draw(st.booleans()) else young[at]
        copy = _copy(draw, state, role, CopyId(0, number, 0), target=at == len(roles) - 1)
        copies.append(copy)
        if role in (Role.AUTHORITATIVE, Role.REPLICA, Role.RETIRING) or (role is Role.INCOMING and state is State.WRITING):
            count = draw(st.sampled_from((0, 0, 1, 2)))
            if count:
                pins[copy.id] = count
    target = copies[-1].id if state is State.WRITING or state in MOVING else NO_COPY
    source = next((copy.id for copy in copies if copy.role is Role.AUTHORITATIVE), NO_COPY) if state in MOVING else NO_COPY
    group = Group(
        SPEC.group, SPEC, state, draw(st.integers(created, REVISION)), draw(st.integers(1, 9)),
        manifest=b"" if state is State.WRITING else draw(st.sampled_from((MANIFEST, OTHER_MANIFEST))), target=target,
        source=source, leaving=state in READABLE and draw(st.booleans()), created=created, failures=draw(st.integers(0, 3)),
        move_after=draw(st.sampled_from((0, NOW, NOW + 5))),
    )  # fmt: skip
    shuffled = tuple(draw(st.permutations(copies)))
    refs = draw(st.integers(0, 1)) if state in READABLE else 0
    return record_of(group, shuffled, pins, refs)


def _copy(draw: st.DrawFn, state: State, role: Role, name: CopyId, *, target: bool) -> Copy:
    in_store = state in (State.REMOTE, State.MIGRATING_IN)
    if role is Role.AUTHORITATIVE:
        store = in_store
    elif role is Role.INCOMING and state is State.WRITING:
        store = False
    else:
        store = draw(st.booleans())
    absent = role in (Role.AUTHORITATIVE, Role.REPLICA, Role.RETIRING) and not store and draw(st.booleans())
    return Copy(
        name, NodeName("s1" if store else f"n{name.revision}"), store, Tier.DRAM, role, draw(st.integers(1, 3)),
        draw(st.integers(1, 5)), draw(st.sampled_from((0, NOW, NOW + 1))), absent,
    )  # fmt: skip


# ---- what may happen to one ----------------------------------------------------------------------------------


def subjects(row: Row, record: Record) -> list[Copy]:
    """The copies that a row may concern, as its callers choose them."""
    if row.on in w.NOBODY:
        return [NOWHERE]
    if row.on in w.NEW:
        name = CopyId(0, REVISION + 1, 0)
        places = (False,) if row.on is On.CREATE else (False, True)
        return [
            Copy(name, NodeName("s1" if store else "new"), store, Tier.DRAM, Role.INCOMING, 2, 1, NOW + 9) for store in places
        ]
    group, found = record.group, []
    for copy in record.copies:
        if row.on in (On.COPY_DONE, On.ENDED):
            fits = copy.role is Role.INCOMING and (copy.id == group.target) == (row.role is Role.INCOMING)
        else:
            fits = row.role is None or copy.role is row.role
        if fits and not (row.on is On.LAPSE and (copy.absent or copy.store)):
            found.append(copy)
    return found


def known_of(draw: st.DrawFn, row: Row, record: Record) -> dict[str, Any]:
    """What callers add to the facts, event by event."""
    known: dict[str, Any] = {}
    if row.on is On.EVICT:
        state = record.state
        known["others"] = sum(1 for copy in record.copies if not copy.absent or copy.id in state.pinned)  # as `ends.evict`
    if row.on is On.GONE:
        known["gone"] = True
    if row.on is On.ENDED:
        known["gone"] = draw(st.booleans())
    if row.on is On.LAPSE:
        known["due"] = NOW + 60
    if row.on is On.RETURN:
        known["incarnation"] = 9
    if row.on in (On.COPY_DONE, On.SEALED):
        known["manifest"] = draw(st.sampled_from((MANIFEST, OTHER_MANIFEST)))
    if row.on in (On.MOVE, On.ADOPT, On.EVICT):
        known["wanted_epoch"] = draw(st.sampled_from((0, record.group.epoch, record.group.epoch + 1)))
    if row.on in (On.MOVE, On.ADOPT):
        known["allow_pinned"] = draw(st.booleans())
    if row.on in (On.MOVE, On.REPLICATE):
        known["room"] = draw(st.booleans())
        known["at_target"] = draw(st.booleans())
    return known


def facts(row: Row, record: Record, c: Copy, known: dict[str, Any]) -> Facts:
    """The facts as the door reads them; for `FACTLESS` events it reads none."""
    if row.on in w.FACTLESS:
        return Facts(REVISION + 1, NOW, **known)
    return ledger.facts(record.turn(), record.group, c, **known)


# ---- the views of it -----------------------------------------------------------------------------------------

NOBODY = Seen(0, w.FREEING, 0, 0, 0, 0, False, False)


def seen(record: Record, copy: Copy | None) -> Seen:
    if copy is None:
        return NOBODY
    pins = record.state.pinned.get(copy.id, 0)
    return Seen(copy.id.revision, int(copy.role), copy.slots, copy.incarnation, copy.due, pins, copy.store, copy.absent)


def views(row: Row, record: Record, c: Copy, k: Facts) -> list[tuple[w.View, tuple[Copy | None, ...]]]:
    """Every view of the record at this event, each with the copies that it shows."""
    others = [copy for copy in record.copies if copy.id != c.id]
    base = _base(row, record, c, k)
    arbitrary: list[Copy | None] = [*others] or [None]
    shown: list[tuple[w.View, tuple[Copy | None, ...]]] = [(AnyView(**base, o=seen(record, o)), (o,)) for o in arbitrary]
    group = record.group
    authority = next((copy for copy in others if copy.role is Role.AUTHORITATIVE), None)
    promote = next((copy for copy in others if copy.id.revision == base["promote"]), None)
    target = next((copy for copy in others if copy.id == group.target), None)
    named = Named(**base, a=seen(record, authority), p=seen(record, promote), t=seen(record, target))
    shown.append((named, (authority, promote, target)))
    return shown


def _base(row: Row, record: Record, c: Copy, k: Facts) -> dict[str, Any]:
    group = record.group
    read = ledger.facts(record.turn(), group, c)  # for `FACTLESS` rows the view knows the list all the same, the row does not
    others = [copy for copy in record.copies if copy.id != c.id]
    return {
        "epoch": group.epoch, "version": group.version, "manifest": number_of(group.manifest), "told": number_of(k.manifest),
        "target": group.target.revision, "source": group.source.revision, "created": group.created,
        "move_after": group.move_after, "failures": group.failures, "others": len(others),
        "stay": sum(1 for copy in others if not copy.absent or copy.id in record.state.pinned), "readable": read.readable,
        "readable_pins": read.readable_pins, "refs": read.refs, "promote": read.promote.revision,
        "authority": read.authority.revision, "revision": k.revision, "now": k.now, "due": k.due, "grace_due": k.grace_due,
        "backoff_ms": k.backoff_ms, "wanted_epoch": k.wanted_epoch, "incarnation": k.incarnation,
        "promote_store": read.promote_store, "spare": any(c.id == read.promote and c.role is Role.RETIRING for c in others),
        "authority_absent": read.authority_absent, "leaving": group.leaving,
        "allow_pinned": k.allow_pinned, "room": k.room, "at_target": k.at_target, "gone": k.gone, "c": seen(record, c),
    }  # fmt: skip


def after_of(row: Row, v: w.View, shown: tuple[Copy | None, ...], c: Copy, after: Record, takes: bool) -> w.After:
    """The end of a view, read off the real record after the step."""
    g = after.group
    pins = after.state.pinned
    ends = []
    for copy in (c, *shown):
        left = copy if copy is not None else NOWHERE
        kept = next((one for one in after.copies if copy is not None and one.id == copy.id), None)
        now = left if kept is None else kept
        took = 1 if takes and copy is c else 0
        held = pins.get(now.id, 0) + took if kept is not None else 0
        ends.append(
            End(now.id.revision, int(now.role), now.slots, now.incarnation, held, now.store, now.absent, kept is not None)
        )
    manifest: Any = number_of(g.manifest)
    return w.After(evolve(g, manifest=manifest), ends[0], tuple(ends[1:]))
