"""Create: who writes, who joins, who only pins (rule 3)."""

from __future__ import annotations

from . import capacity, holds, reading, table
from .answers import Created, Exists, ItemAnswer, Joined, Refused
from .commands import Create, Spec
from .errors import Refusal
from .ids import CopyId, GroupId, HoldId, HoldKind, NodeName, Role, SessionId, State, group_id
from .ledger import NO_COPIES, change, facts, index, unindex
from .rows import Facts, is_readable
from .state import Copy, DirectoryConfig, Group
from .table import On
from .turn import Turn

# Members as names of this module: on Python 3.11 `State.LOCAL` asks the enum's metaclass, at several times a comparison's cost.
WRITING = State.WRITING
INCOMING, AUTHORITATIVE = Role.INCOMING, Role.AUTHORITATIVE
HOLDKIND_PIN = HoldKind.PIN
ON_CREATE = On.CREATE


def create(turn: Turn, session: SessionId, hold: HoldId, body: Create) -> ItemAnswer:
    """Reserve room and become the writer; or join the writer there is; or pin what exists (rule 3)."""
    spec = body.spec
    refusal = check_spec(turn.config, spec) or holds.full(turn, session)
    if refusal is not None:
        return Refused(refusal, turn.revision)
    state = turn.state
    group = state.groups.get(spec.group)
    if group is not None:
        if group.spec.key != spec.key or group.spec.sizes != spec.sizes:
            return Refused(Refusal("LayoutMismatch", guard="same_key", row=f"{group.state.name}/CREATE"), turn.revision)
        other = _joined_or_exists(turn, hold, body, group)
        if other is not None:
            return other
    elif len(state.groups) >= turn.config.groups_max:
        return Refused(Refusal("Overloaded", f"{turn.config.groups_max} groups", guard="groups_max"), turn.revision)
    return _reserve(turn, session, hold, body, group)


def check_spec(config: DirectoryConfig, spec: Spec) -> Refusal | None:
    """Is it a group at all? The id must be that of the key, and the blocks those that the key promises."""
    count = len(spec.sizes)
    if not 1 <= count <= config.group_blocks_max:
        return Refusal("TooLarge", f"a group has 1 to {config.group_blocks_max} blocks, not {count}", guard="group_blocks_max")
    key = spec.key
    if count != key.blocks or (spec.block_ids and len(spec.block_ids) != count):
        return Refusal("BadRequest", "key, sizes and block ids disagree about the number of blocks", guard="block_count")
    if len(key.tenant) + len(key.model) + len(key.model_revision) + len(key.prefix) + len(spec.request) > config.key_chars_max:
        return Refusal("TooLarge", f"the names of a group have at most {config.key_chars_max} characters", guard="key_chars_max")
    limit = key.layout.block_bytes
    for size in spec.sizes:
        if not 1 <= size <= limit:
            return Refusal("BadRequest", f"a block has 1 to {limit} bytes, not {size}", guard="block_bytes")
    if spec.group != group_id(key):
        return Refusal("BadRequest", "the group id is not that of the key", guard="group_id")
    return None


def _joined_or_exists(turn: Turn, hold: HoldId, body: Create, group: Group) -> ItemAnswer | None:
    """The answer when the group is being written, brought, or readable; None when it has to be written anew."""
    state = turn.state
    if group.state is WRITING:
        return Joined(group.id, group.target, turn.revision)
    if group.state not in table.READABLE:
        return None
    copies = state.copies[group.id]
    readable = [copy for copy in copies if is_readable(copy)]
    if readable:
        copy = reading.best(readable, body.node)
        refusal = reading.pin_copy(turn, hold, group, copy, Facts(turn.revision, turn.now), body.request)
        if refusal is not None:
            return Refused(refusal, turn.revision)
        return Exists(group.id, reading.route(turn, group, copy), hold, turn.revision)
    if not any(copy.role is AUTHORITATIVE for copy in copies):
        return Joined(group.id, group.target, turn.revision)
    return None


def _reserve(turn: Turn, session: SessionId, hold: HoldId, body: Create, group: Group | None) -> ItemAnswer:
    state, config, spec = turn.state, turn.config, body.spec
    slots = len(spec.sizes)
    node = capacity.choose(turn, spec.sizes, body.node, _where(turn, spec.parent) if spec.parent is not None else ())
    if not node:
        too_large = capacity.too_large(turn, spec.sizes, NodeName(""))
        if too_large is not None:
            return Refused(too_large, turn.revision)
        capacity.press(turn, spec.sizes, body.node)
        return Refused(
            Refusal(
                "NoSpace",
                f"{slots} slots",
                f"{'EVICTED' if group is None else group.state.name}/CREATE",
                "has_room",
                "",
                config.retry_after_ms,
            ),
            turn.revision,
        )
    state.placed += 1
    revision = turn.next_revision()
    write_ms = body.write_ms if 0 < body.write_ms < config.write_ms else config.write_ms
    record = state.nodes[node]
    copy_id = CopyId(state.meta.shard, revision, 0)
    copy = Copy(
        copy_id, node, False, capacity.tier_wish(body.tier), INCOMING, slots, record.incarnation, turn.now + write_ms
    )
    if group is None:
        blank = Group(spec.group, spec)
    else:
        unindex(state, group)
        blank = Group(group.id, spec, group.state, group.epoch, group.version, group.reason, group.manifest, group.target)
    row = table.TABLE[(blank.state, ON_CREATE, INCOMING)]
    index(state, blank)
    known = Facts(revision, turn.now, writer=session)
    if group is not None:
        known = facts(turn, blank, copy, revision=revision, writer=session)
    change(turn, blank, row, copy, known)
    holds.take(turn, hold, HOLDKIND_PIN, spec.group, copy_id, body.request)
    reading.touch(turn, spec.group)
    return Created(spec.group, copy_id, node, record.address, hold, revision, revision)


def _where(turn: Turn, group: GroupId) -> tuple[NodeName, ...]:
    """Nodes that have the parent, for placement by locality."""
    return tuple(copy.node for copy in turn.state.copies.get(group, NO_COPIES) if is_readable(copy))
