"""Why would this be refused? The same guards, asked aloud, on a state that is thrown away (`pinfold explain`)."""

from __future__ import annotations

from . import capacity, commands, migration, reading, table
from .answers import Explained, QueryAnswer, Refused
from .applying import apply
from .commands import Body, Explain
from .ids import NO_COPY, CopyId, GroupId, HoldId, NodeName, Role, State, Tier
from .ledger import NO_COPIES, copy_in, facts
from .rows import NOWHERE
from .state import Copy, Group
from .table import On
from .turn import Turn

_EVENTS: dict[type, On] = {
    commands.Create: On.CREATE,
    commands.Pin: On.PIN,
    commands.Ref: On.REF,
    commands.Move: On.MOVE,
    commands.CancelMove: On.ENDED,
    commands.Replicate: On.REPLICATE,
    commands.DropReplica: On.DROP_REPLICA,
    commands.Evict: On.EVICT,
}


def explain(turn: Turn, event: Explain) -> QueryAnswer:
    """Apply the command to a copy of the state: the refusal it would get, and each guard of its row with what it says now."""
    trial = Turn(turn.state.copy(), turn.config, turn.now, revision=turn.revision)
    applied, _ = turn.state.progress.get(event.session, (0, 1))
    answer = apply(trial, event.session, HoldId(event.session, applied + 1, 0), event.body)
    refusal = answer.refusal if isinstance(answer, Refused) else None
    return Explained(refusal, tuple(_steps(turn, event.body)))


def _steps(turn: Turn, body: Body) -> list[str]:
    on = _EVENTS.get(type(body))
    group_id = body.spec.group if isinstance(body, commands.Create) else getattr(body, "group", None)
    if on is None or group_id is None:
        return []
    group = turn.state.groups.get(group_id)
    if group is None:
        return ["there is no record of this group"]
    copy = _subject(turn, group, body)
    steps = [_standing(turn, group)]
    if isinstance(body, commands.Create) and group.state is State.WRITING:
        return [*steps, "it is being written: the answer is Joined"]
    if isinstance(body, commands.Create) and reading.readable_copy(turn, group.id, body.node) is not None:
        steps.append("it can be read: the answer is Exists, with a PIN")
        return [*steps, f"row {group.state.name}/PIN, guard not_leaving: {'no -> Leaving' if group.leaving else 'yes'}"]
    row = table.find(group, on, copy)
    if row is None:
        return [*steps, f"no row for {on.name} in {group.state.name}: refused as {table.refusal_of(group, on)}"]
    known = facts(turn, group, copy, **_known(turn, group, body))
    for guard in row.guards:
        verdict = "yes" if guard.check(group, copy, known) else f"no -> {guard.refusal}"
        steps.append(f"row {row.name}, guard {guard.name}: {verdict}")
    return steps


def _standing(turn: Turn, group: Group) -> str:
    lines = []
    for copy in turn.state.copies.get(group.id, NO_COPIES):
        pins = turn.state.pinned.get(copy.id, 0)
        lines.append(f"{copy.id} {copy.role.name}{' absent' if copy.absent else ''} at {copy.node} with {pins} pins")
    copies = ", ".join(lines)
    refs = turn.state.referred.get(group.id, 0)
    return f"{group.state.name} at epoch {group.epoch}, {refs} refs, copies: {copies or 'none'}"


def _subject(turn: Turn, group: Group, body: Body) -> Copy:
    """The copy that the command's row would look at."""
    copies = turn.state.copies.get(group.id, NO_COPIES)
    if isinstance(body, commands.Pin | commands.DropReplica) and body.copy != NO_COPY:
        return copy_in(copies, body.copy) or NOWHERE
    if isinstance(body, commands.CancelMove):
        return copy_in(copies, body.move) or NOWHERE
    if isinstance(body, commands.Pin):
        return reading.readable_copy(turn, group.id, body.near) or NOWHERE
    if isinstance(body, commands.Move | commands.Replicate):
        return _planned(turn, group.id, body.target)
    if isinstance(body, commands.Create):
        return _planned(turn, group.id, body.node)
    return NOWHERE


def _planned(turn: Turn, group: GroupId, target: NodeName) -> Copy:

    slots = len(turn.state.groups[group].spec.sizes)
    store = any(spec.name == target for spec in turn.config.stores)
    return Copy(CopyId(turn.state.meta.shard, turn.revision + 1, 0), target, store, Tier.DRAM, Role.INCOMING, slots)


def _known(turn: Turn, group: Group, body: Body) -> dict[str, object]:
    """What the command itself would tell its row."""
    known: dict[str, object] = {}
    slots = len(group.spec.sizes)
    if isinstance(body, commands.Create):
        known["room"] = capacity.choose(turn, group.spec.sizes, body.node, ()) != ""
    if isinstance(body, commands.Move | commands.Replicate):
        known["room"] = capacity.has_room(turn, body.target, slots)
        known["at_target"] = bool(migration.already_there(turn, group, body.target))
    if isinstance(body, commands.Pin):
        known["policy"] = body.policy
    if isinstance(body, commands.Move):
        known["allow_pinned"] = body.allow_pinned
    if isinstance(body, commands.Move | commands.Evict):
        known["wanted_epoch"] = body.expected_epoch
    return known
