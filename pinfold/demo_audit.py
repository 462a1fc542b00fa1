"""The audit at the end of a job, as a process of its own: what the directory has stored against what nodes and stores have.

    echo '{"config": FILE, "data": FOLDER, "nodes": {"n1": "tcp://..."}}' | python -m pinfold.demo_audit

The directory is not asked and need not run: its state is loaded from the records in its store, every invariant is asked of it,
and every copy in it is compared with the inventory that its node gives and with the objects in the shared stores. Findings go to
stdout as JSON. A broken invariant ends this process with its traceback: nothing catches it, and the job that has started us
counts it as a violation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from .backends.lmdb import LmdbStore
from .backends.remote import RemoteDirectoryStore
from .config import load
from .core.audit import Finding, audit
from .core.directory import Directory
from .core.errors import WorldError
from .core.ids import NO_COPY, CopyId, NodeName, Role, State, Tier
from .core.reports import Condition, InventoryEntry
from .core.requests import CopiesListed, ListCopies
from .core.state import FORMAT, RECORD_TYPES, DirectoryState
from .serving import clock_ms
from .settings import Settings
from .transport.zmq import ClientWire

PAGE: Final = 500
REPEAT_MS: Final = 500
ANSWER_MS: Final = 10_000


def stored_state(folder: Path) -> DirectoryState:
    """What the records in a directory's store say, also while it works. Raises StoreError."""
    with LmdbStore(folder, RECORD_TYPES, create=False, readonly=True, versions=FORMAT) as store:
        return Directory.load(store.load())


def inventory(endpoint: str) -> list[InventoryEntry]:
    """All that a node has, page by page. Raises WorldError when it does not answer."""
    entries: list[InventoryEntry] = []
    with ClientWire(f"client/audit-{clock_ms()}-{endpoint[-5:]}") as wire:
        more, after = True, NO_COPY
        while more:
            page = _page(wire, endpoint, after, f"page-{len(entries)}")
            entries += page.entries
            more = page.more
            after = page.entries[-1].copy if page.entries else after
    return entries


def _page(wire: ClientWire, endpoint: str, after: CopyId, token: str) -> CopiesListed:
    until, again = clock_ms() + ANSWER_MS, 0
    while clock_ms() < until:
        if clock_ms() >= again:
            again = clock_ms() + REPEAT_MS
            wire.send(endpoint, ListCopies(wire.name, token, after, PAGE))  # type: ignore[arg-type]
        for _, message in wire.poll(REPEAT_MS):
            if isinstance(message, CopiesListed) and message.token == token:
                return message
    raise WorldError(f"the node at {endpoint} does not tell its inventory")


def objects(folder: Path) -> tuple[list[InventoryEntry], list[Finding]]:
    """What lies in a shared store, every byte read; and what of it is damaged."""
    store = RemoteDirectoryStore(folder)
    try:
        report = store.scan()
        whole = {
            found.copy: InventoryEntry(found.copy, Condition.VERIFIED, found.manifest, Tier.REMOTE_SSD, len(found.spec.sizes))
            for found in report.found
        }
        unpublished = [
            InventoryEntry(copy, Condition.RESERVED, b"", Tier.REMOTE_SSD, 0) for copy in store.copies() if copy not in whole
        ]
    finally:
        store.close()
    bad = [Finding("violation", "BYTES-1", damage.sentence) for damage in (*report.damaged, *report.refused)]
    return [*whole.values(), *unpublished], bad


def restless(state: DirectoryState, stores: Mapping[str, Path]) -> list[str]:
    """What is not at rest yet: sessions, holds, groups and copies on their way, objects that a store's steward has to free."""
    found = [f"session {session.name or session.id} is open" for session in state.sessions.values()]
    found += [f"hold {hold} of session {hold.session}" for hold in state.holds]
    found += [
        f"group {group.id.hex()} is {group.state.name}"
        for group in state.groups.values()
        if group.state not in (State.LOCAL, State.REMOTE)
    ]
    found += [
        f"{copy.id} at {copy.node} is {'absent' if copy.absent else copy.role.name}"
        for copies in state.copies.values()
        for copy in copies
        if copy.absent or copy.role not in (Role.AUTHORITATIVE, Role.REPLICA)
    ]
    for name, folder in stores.items():
        store = RemoteDirectoryStore(folder)
        listed = state.copies_at.get(NodeName(name), {})
        found += [f"object {copy} in {name} is in no record" for copy in store.copies() if copy not in listed]
        store.close()
    return found


def findings(settings: Settings, folder: Path, nodes: Mapping[str, str]) -> list[Finding]:
    """Everything that does not add up. Raises InvariantViolation as it is."""
    state = stored_state(folder)
    places: dict[NodeName, Iterable[InventoryEntry]] = {NodeName(name): inventory(at) for name, at in nodes.items()}
    found: list[Finding] = []
    for name, store in settings.stores.items():
        places[NodeName(name)], bad = objects(store.path)
        found += bad
    found += [Finding("leaked_hold", "HOLD-2", f"session {session.name} is open") for session in state.sessions.values()]
    return found + audit(state, places, settings.directory_config())


def main() -> int:
    asked: dict[str, Any] = json.load(sys.stdin)
    settings = load({}, {}, asked["config"]).settings
    found = findings(settings, Path(asked["data"]), asked["nodes"])
    json.dump([[finding.kind, finding.invariant, finding.what] for finding in found], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
