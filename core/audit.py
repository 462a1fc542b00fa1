"""Directory against nodes, at rest: is what the record says what the nodes have, and nothing more?

Used at the end of runs, when nothing moves any more. Each `Finding` names the invariant that it breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define

from . import invariants
from .ids import CopyId, NodeName, Role
from .reports import Condition, InventoryEntry
from .state import DirectoryConfig, DirectoryState


@define(frozen=True)
class Finding:
    """One thing that does not add up. `kind`: `violation`, `orphan_copy`, `missing_copy`, `leaked_hold`, `unsettled`."""

    kind: str
    invariant: str
    what: str


def audit(
    state: DirectoryState,
    nodes: Mapping[NodeName, Iterable[InventoryEntry]],
    config: DirectoryConfig,
    *,
    holds_expected: bool = False,
) -> list[Finding]:
    """Compare. `nodes` are those that run, each with its whole inventory. Raises `InvariantViolation` as it is."""
    invariants.check_all(state, config)
    found: list[Finding] = []
    for name, entries in nodes.items():
        found += _compare(state, name, {entry.copy: entry for entry in entries})
    if not holds_expected:
        found += [Finding("leaked_hold", "HOLD-2", f"{hold} is still there") for hold in state.holds]
    found += [
        Finding("unsettled", "LIVE-1", f"group {group.hex()} is {state.groups[group].state.name}") for group in state.unsettled
    ]
    return found


def _compare(state: DirectoryState, name: NodeName, entries: Mapping[CopyId, InventoryEntry]) -> list[Finding]:
    found = []
    listed = state.copies_at.get(name, {})
    for copy_id, entry in entries.items():
        if copy_id not in listed:
            found.append(
                Finding("orphan_copy", "CAP-1", f"{name} has {copy_id} ({entry.condition.name}), which is in no record there")
            )
    for copy_id, group_id in listed.items():
        copy = next(copy for copy in state.copies[group_id] if copy.id == copy_id)
        seen = entries.get(copy_id)
        if copy.absent:
            continue
        if seen is None:
            found.append(Finding("missing_copy", "COPY-2", f"{name} lacks {copy_id}, which is {copy.role.name}"))
        elif copy.role in (Role.AUTHORITATIVE, Role.REPLICA):
            if seen.condition is not Condition.VERIFIED or seen.manifest != state.groups[group_id].manifest:
                found.append(
                    Finding(
                        "violation", "COPY-2", f"{name} has {copy_id} {seen.condition.name}, not the verified bytes of the record"
                    )
                )
            elif seen.slots != copy.slots:
                found.append(
                    Finding("violation", "CAP-1", f"{copy_id} has {seen.slots} slots at {name}, {copy.slots} in the record")
                )
    return found
