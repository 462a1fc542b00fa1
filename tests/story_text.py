"""One-line text forms for transcripts: every message, record and effect, with names instead of numbers (specs/scenarios.md).

Copies are named by their group and the order of their making (`A.1`), holds by who took them and under which number (`a.3`).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

import attrs

from pinfold.core import answers, commands, orders, reports, requests
from pinfold.core.commands import Command, Spec
from pinfold.core.effects import Instance
from pinfold.core.errors import Refusal
from pinfold.core.ids import NO_COPY, CopyId, GroupId, HoldId
from pinfold.core.state import Copy, Group, GroupRecord, Hold, Node, Session

from .node_world import manifest_of, spec_of

SILENT = {
    "client", "token", "shard", "term", "revision", "snapshot", "part", "parts", "data", "checksums", "address",
    "source_address", "retry_after_ms", "detail", "deadline_ms", "tiers", "job", "slots", "boot", "key", "blocks",
    "size_bytes", "lease_ms", "writer", "group_slots",
}  # fmt: skip
"""Fields that transcripts leave out: they repeat what stands beside them, or are numbers that tell nothing."""


MEANT = ("spec", "manifest")
SAYS = (commands.Create, reports.Sealed, reports.CopyDone, reports.InventoryEntry, requests.EndWrite)
"""Group and manifest are said where they are news; in orders and byte work they are those of the copy."""


class Names:
    """What the story has called things so far."""

    def __init__(self) -> None:
        self.copies: dict[CopyId, str] = {}
        self.groups: dict[GroupId, str] = {}
        self.blocks: dict[str, int] = {}
        self.sessions: dict[int, str] = {}
        self.manifests: dict[bytes, str] = {}

    def learn_group(self, name: str, blocks: int) -> Spec:
        spec = spec_of(name, blocks)
        self.groups[spec.group] = name
        self.blocks[name] = blocks
        self.manifests[manifest_of(name, blocks)] = f"m({name})"
        return spec

    def learn_copies(self, record: GroupRecord) -> None:
        name = self.groups[record.group.id]
        for copy in record.copies:
            if copy.id not in self.copies:
                number = 1 + sum(1 for known in self.copies.values() if known.rpartition(".")[0] == name)
                self.copies[copy.id] = f"{name}.{number}"

    def copy(self, copy: CopyId) -> str:
        return "none" if copy == NO_COPY else self.copies.get(copy, str(copy))

    def hold(self, hold: HoldId) -> str:
        tail = f".{hold.ordinal}" if hold.ordinal else ""
        return f"{self.sessions.get(hold.session, hold.session)}.{hold.sequence}{tail}"

    def named(self, text: str) -> str:
        """Numbers inside a sentence, as names."""
        text = re.sub(r"c(\d+)\.(\d+)\.(\d+)", lambda m: self.copy(CopyId(*map(int, m.groups()))), text)
        return re.sub(r"h(\d+)\.(\d+)\.(\d+)", lambda m: self.hold(HoldId(*map(int, m.groups()))), text)

    # ---- values ----------------------------------------------------------------------------------------------

    def value(self, value: Any, field: str = "") -> str:
        if isinstance(value, CopyId):
            return self.copy(value)
        if isinstance(value, HoldId):
            return self.hold(value)
        if isinstance(value, IntEnum):
            return value.name
        if isinstance(value, bytes):
            return self.groups.get(GroupId(value)) or self.manifests.get(value) or (value.hex()[:8] or "none")
        if isinstance(value, Spec):
            return self.groups.get(value.group, value.key.prefix)
        if isinstance(value, Instance):
            return f"{self.copy(value.copy)}@{value.place or value.tier.name}"
        if isinstance(value, answers.Route):
            return f"{self.copy(value.copy)}@{value.node}{' moving' if value.moving else ''}"
        if isinstance(value, tuple):
            return "[" + ", ".join(self.value(item) for item in value) + "]"
        if attrs.has(type(value)):
            return self.message(value)
        if field == "session" and isinstance(value, int):
            return self.sessions.get(value, str(value))
        text = str(value)
        return self.named(text.removeprefix("client/").removeprefix("node/"))

    def message(self, value: Any) -> str:
        """`Kind field=value ...`; fields at their default are left out."""
        if isinstance(value, Refusal):
            return self.refusal(value)
        if isinstance(value, answers.Refused):
            return self.refusal(value.refusal)
        if isinstance(value, orders.Order):
            return f"order {value.term}/{value.number} {self.message(value.body)}"
        if isinstance(value, Command):
            return f"{self.sessions.get(value.session, value.session)}#{value.sequence} {self.message(value.body)}"
        if isinstance(value, answers.Answered):
            return f"{self.sessions.get(value.session, value.session)}#{value.sequence} {self.message(value.answer)}"
        if isinstance(value, answers.Told):
            return self.message(value.answer)
        if isinstance(value, reports.Report):
            return f"i{value.incarnation} " + ", ".join(self.message(fact) for fact in value.facts)
        parts = [type(value).__name__]
        for field in attrs.fields(type(value)):
            item = getattr(value, field.name)
            if field.name in SILENT or item == field.default or (field.name in MEANT and not isinstance(value, SAYS)):
                continue
            parts.append(f"{field.name}={self.value(item, field.name)}")
        return " ".join(parts)

    def refusal(self, refusal: Refusal) -> str:
        beside = [f"{label} {value}" for label in ("row", "guard", "holder") if (value := getattr(refusal, label))]
        return self.named(f"refused {refusal.reason}" + (f" ({', '.join(beside)})" if beside else ""))

    # ---- records ---------------------------------------------------------------------------------------------

    def group(self, group: Group, copies: tuple[Copy, ...], pins: dict[CopyId, int]) -> str:
        parts = [self.groups[group.id], group.state.name, f"e{group.epoch}"]
        if group.reason:
            parts.append(f"reason={group.reason.name}")
        if group.leaving:
            parts.append("leaving")
        if group.source != NO_COPY or (group.target != NO_COPY and group.state.name.startswith("MIGRATING")):
            parts.append(f"move {self.copy(group.source)} -> {self.copy(group.target)}")
        listed = ", ".join(self._copy(copy, pins.get(copy.id, 0)) for copy in copies)
        return " ".join(parts) + f" [{listed}]"

    def _copy(self, copy: Copy, pins: int) -> str:
        absent = " absent" if copy.absent else ""
        held = f" pins={pins}" if pins else ""
        return f"{self.copy(copy.id)} {copy.role.name}{absent} at {copy.node}{held}"

    def write(self, table: str, key: Any, record: Any) -> str:
        """One record write of a commit; "" for what every commit has (answers, meta)."""
        if isinstance(record, GroupRecord):
            return self.group(record.group, record.copies, {})
        if isinstance(record, Hold):
            what = self.copy(record.copy) if record.copy != NO_COPY else self.groups.get(record.group, "?")
            return f"hold {self.hold(record.id)} {record.kind.name} {what}{' lost' if record.lost else ''}"
        if isinstance(record, Session):
            return f"session {self.sessions.get(record.id, record.id)}"
        if isinstance(record, Node):
            gone = "" if record.alive else " lapsed"
            return f"node {record.name} i{record.incarnation}{gone}{' draining' if record.draining else ''}"
        if table in ("session_leases", "node_leases"):
            whose = self.sessions.get(key, key) if table == "session_leases" else key
            return f"lease of {whose} " + ("no longer fixed" if record is None else f"fixed to {record.due}")
        kind = {"groups": "group", "holds": "hold", "sessions": "session"}.get(table)
        return f"{kind} {self.value(key, kind)} deleted" if record is None and kind else ""
