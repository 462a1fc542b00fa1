"""When two states are the same: canonical keys of directories, nodes and messages.

What is left out of a key, and why two states that differ only there have the same future, up to what was left out:

- **Time.** No clock moves in a world. Something becomes due when the explorer says so, at any moment, in any order, whatever
  else is under way; the world's files bound how often that happens early. So of each `due` only "has come" or "has not" is
  kept. What a step writes as "now + a duration" is "has not".
- **Statistics.** Counters, the times of access, the alarm, versions (compared in `check_progress`, which sees whole states),
  the number of an inventory's snapshot (it tells parts of two snapshots apart, and worlds have snapshots of one part), how often
  a registration was tried (it spaces the tries). The *order* of last use stays: eviction goes by it.
- **Indexes**, which `indexes_agree` holds equal to the records; but the order in which they list copies stays.

Revisions, epochs, terms, incarnations, order numbers, job numbers and tokens are kept exactly: scripts and fault budgets bound
them.
"""

from __future__ import annotations

from typing import Any

from ..core import plain, reports
from ..core.node_state import Copy as NodeCopy
from ..core.node_state import NodeState, Place
from ..core.reports import Inventory
from ..core.state import Copy, DirectoryState, Group, Hold

Key = tuple[Any, ...]


def _when(due: int, clock: int) -> int:
    """0: never; 1: has come; 2: has not."""
    return 0 if due == 0 else 1 if due <= clock else 2


# ---- the directory -------------------------------------------------------------------------------------------


def _group(g: Group, clock: int) -> Key:
    return (
        g.id, int(g.state), g.epoch, int(g.reason), g.manifest, *g.target, *g.source, int(g.cause), g.leaving, g.writer,
        g.created, g.failures, g.move_after > clock, g.spec.request, g.spec.parent,
    )  # fmt: skip


def _copy(c: Copy, clock: int) -> Key:
    return (*c.id, c.node, int(c.tier), int(c.role), c.slots, c.incarnation, _when(c.due, clock), c.absent)


def _hold(h: Hold) -> Key:
    return (*h.id, int(h.kind), h.group, *h.copy, h.request, h.lost)


def facts_key(state: DirectoryState) -> Key:
    """What is durable of a directory."""
    meta = state.meta
    clock = meta.clock_ms
    return (
        meta.term, meta.revision,
        tuple([_group(state.groups[g], clock) for g in sorted(state.groups)]),
        tuple([tuple([_copy(c, clock) for c in state.copies[g]]) for g in sorted(state.groups)]),
        tuple([_hold(state.holds[h]) for h in sorted(state.holds)]),
        tuple([plain.pack(state.sessions[s]) for s in sorted(state.sessions)]),
        tuple([plain.pack(state.answers[a]) for a in sorted(state.answers)]),
        tuple([plain.pack(node) for node in state.nodes.values()]),
        tuple(sorted(state.session_leases)),
        tuple(sorted(state.node_leases)),
    )  # fmt: skip


def directory_key(state: DirectoryState) -> Key:
    """A directory that runs."""
    clock = state.meta.clock_ms
    touched = sorted(state.access, key=lambda group: state.access[group].touch)
    return (
        facts_key(state),
        tuple([(place, tuple([tuple(c) for c in there])) for place, there in state.copies_at.items()]),
        tuple([tuple(c) for c in state.timed]),
        tuple(state.unsettled),
        state.halted,
        tuple([(name, k.seen, k.ready, tuple([plain.pack(t) for t in k.tiers]), k.stuck) for name, k in state.links.items()]),
        tuple(sorted(state.numbers.items())),
        tuple(sorted([(*c, number) for c, number in state.ordered.items()])),
        tuple(sorted([(*c, int(tier)) for c, tier in state.hints.items()])),
        tuple([(name, s.node, s.number, s.revision, s.due > clock) for name, s in state.scans.items()]),
        tuple(state.waiters),
        tuple(sorted(state.pressure.items())),
        tuple(state.shrunk),
        state.strained,
        state.repair_at > clock,
        tuple(touched),
        tuple(state.session_due),
        tuple(state.node_due),
    )  # fmt: skip


# ---- a node --------------------------------------------------------------------------------------------------


def _place(p: Place) -> Key:
    return (int(p.instance.tier), p.slots, int(p.stage), p.guards)


def _node_copy(c: NodeCopy) -> Key:
    ending = c.ending
    return (
        *c.copy, c.spec.group, int(c.condition), tuple([_place(p) for p in c.places]), c.manifest, c.writer, c.store, c.stored,
        c.checksums, c.mapped, ending and (ending.client, ending.token, ending.manifest), int(c.failed), c.uncertain, c.wanted,
    )  # fmt: skip


def node_key(state: NodeState) -> Key:
    """A node that runs."""
    return (
        tuple([(k.term, k.incarnation, k.number, k.registered, k.over) for k in state.links.values()]),
        tuple([s.free for s in state.slots.values()]),
        tuple([tuple([tuple(c) for c in order]) for order in state.warmth.values()]),
        tuple([_node_copy(c) for c in state.copies.values()]),
        tuple([(g.guard, *g.copy, int(g.tier), g.owner, g.client, g.token, g.write, g.stay) for g in state.guards.values()]),
        tuple([(w.job, int(w.kind), *w.copy, int(w.tier), w.client, w.token, w.blocks, w.order) for w in state.works.values()]),
        tuple(
            [
                (*j.copy, j.manifest, *j.source_copy, j.source_address, j.token, j.storing, j.asked, j.ask_at > 0, j.tries)
                for j in state.jobs.values()
            ]
        ),
        tuple([(*m.copy, int(m.source), int(m.target)) for m in state.moves.values()]),
        tuple(state.pressed.values()),
        tuple([(*c, int(tier), u.tries) for (c, tier), u in state.unreleased.items()]),
        tuple([(*c, tuple([(int(t), n) for t, n in parts])) for c, parts in state.quarantine.items()]),
        tuple([(*c, int(reason)) for c, reason in state.failed_spills.items()]),
        tuple([(int(tier), slots) for tier, slots in state.short.items()]),
        state.next_number,
        state.move_again_at > 0,
        state.started,
        state.fenced,
    )  # fmt: skip


# ---- messages ------------------------------------------------------------------------------------------------


def message_key(target: str, message: Any) -> Key:
    """A message under way to `target`."""
    if type(message) is Inventory:
        message = reports.Inventory(
            message.node, message.incarnation, message.term, message.number, 0, message.part, message.parts, message.entries
        )
    return (target, type(message).__name__, plain.pack(message))
