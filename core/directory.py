"""The Directory machine: the facts of one shard behind one door.

    directory = Directory(config, Directory.blank(store_id))      # or Directory.load(config, store.load())
    ready = directory.step(event, now)                             # now: the caller's monotonic clock, ms

Laws, in the order in which the code keeps them:
  1. A step never fails half-way: guards are asked before anything is changed; a refused event changes nothing (REFUSE-1).
  2. Only `core/ledger.py` changes a group's record, and only by a row of `core/table.py`.
  3. All that is a fact is in `Ready.persist`; the rest of the state is soft, and a restart may forget it (rule 10).
  4. Directory time advances by at most `max_step_ms` a step and is persisted with each commit (rule 10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import (
    commands,
    effects,
    explain,
    holds,
    housekeeping,
    invariants,
    leases,
    ledger,
    membership,
    queries,
    reconcile,
    reports,
    sessions,
    waiting,
)
from .answers import Answered, BatchAnswer, ItemAnswer, Refused
from .applying import apply, apply_batch
from .commands import Batch, Command
from .effects import NOTHING, Ready, Reply
from .errors import Refusal, WorldError
from .events import DirectoryEvent, Tick
from .ids import HoldId
from .state import DirectoryConfig, DirectoryState, Link, Meta
from .turn import Turn

SHARDS_MAX: Final = 4_096


class Directory:
    """One shard's directory. All of it is `state` and `config`."""

    def __init__(self, config: DirectoryConfig, state: DirectoryState) -> None:
        self.config = config
        self.state = state
        self._steps = 0

    # ---- birth -----------------------------------------------------------------------------------------------

    @staticmethod
    def blank(store_id: str, shard: int = 0, shards: int = 1) -> DirectoryState:
        """The state of a store that has never been used. Its first term begins with `start`."""
        if not 0 <= shard < shards <= SHARDS_MAX:
            raise ValueError(f"shard {shard} of {shards}: shards are numbered from 0, at most {SHARDS_MAX}")
        # The clock begins at 1: a copy's `due` of 0 means none.
        return DirectoryState(Meta(store_id, shard, shards, 0, 0, 1))

    @staticmethod
    def load(tables: dict[str, dict[Any, Any]]) -> DirectoryState:
        """The state that a store's tables hold: facts as they are, indexes rebuilt, soft state empty (DUR-1)."""
        meta = tables.get(effects.META, {}).get(effects.META)
        if not isinstance(meta, Meta):
            raise WorldError("the store has no meta record: it is not a directory's store, or it is damaged")
        state = DirectoryState(meta)
        for group_id, record in tables.get(effects.GROUPS, {}).items():
            state.groups[group_id] = record.group
            state.copies[group_id] = record.copies
            ledger.index(state, record.group)
            if record.group.state in ledger.UNSETTLED or record.group.leaving:
                state.unsettled[group_id] = None
            for copy in record.copies:
                state.group_of[copy.id] = group_id
                state.copies_at.setdefault(copy.node, {})[copy.id] = group_id
                state.used[copy.node] = state.used.get(copy.node, 0) + copy.slots
                if copy.due:
                    state.timed[copy.id] = group_id
        for session in tables.get(effects.SESSIONS, {}).values():
            sessions.enter(state, session, 0, 1)
        for (number, sequence), answered in sorted(tables.get(effects.ANSWERS, {}).items()):
            state.answers[(number, sequence)] = answered
            if number not in state.progress:
                raise WorldError(f"the store has an answer of session {number}, which it does not have: it is damaged")
            applied, low = state.progress[number]
            state.progress[number] = (max(applied, sequence), low if applied else sequence)
        for hold in tables.get(effects.HOLDS, {}).values():
            holds.enter(state, hold)
        state.nodes.update(tables.get(effects.NODES, {}))
        state.session_leases.update(tables.get(effects.SESSION_LEASES, {}))
        state.node_leases.update(tables.get(effects.NODE_LEASES, {}))
        return state

    def start(self, now: int, claimed: int = 0) -> Ready:
        """Begin a term: it rises at every start, durably, before anything is said. Leases get their full length again, once.

        `claimed` is the highest term that was ever claimed at the store (`MetadataStore.term`): a start that died between its
        claim and its first commit has used up a term that no record tells of.
        """
        state = self.state
        meta = state.meta
        term = max(meta.term, claimed) + 1
        state.meta = Meta(meta.store_id, meta.shard, meta.shards, term, meta.revision, meta.clock_ms)
        state.last_now = now
        fixed = leases.fix(state, self.config)
        for node in state.nodes.values():
            if node.alive:
                state.links[node.name] = Link()
        capacities = {node.name: node.capacity for node in state.nodes.values()}
        capacities.update({store.name: store.capacity for store in self.config.stores})
        state.shrunk = {name: None for name, capacity in capacities.items() if state.used.get(name, 0) > capacity}
        state.alarm_at = meta.clock_ms
        return Ready((*fixed, (effects.META, effects.META, state.meta)), alarm=now)

    def copy(self) -> Directory:
        """A directory of its own in the same state."""
        return Directory(self.config, self.state.copy())

    # ---- the door --------------------------------------------------------------------------------------------

    def step(self, event: DirectoryEvent, now: int) -> Ready:
        """Take one event at `now` (ms, the caller's monotonic clock). See `Ready` for the order of what comes back."""
        state = self.state
        if state.halted:
            return NOTHING
        handler = _HANDLERS.get(type(event))
        if handler is None:
            raise TypeError(f"a directory does not take {type(event).__name__}")
        meta = state.meta
        last = state.last_now
        elapsed = 0 if last is None else min(max(0, now - last), self.config.max_step_ms)
        state.last_now = now if last is None else max(last, now)
        clock = meta.clock_ms + elapsed
        turn = Turn(state, self.config, clock, revision=meta.revision)
        handler(turn, event)
        waiting.look(turn)
        if type(event) is Tick:
            state.alarm_at = housekeeping.next_due(turn)
        commits = bool(turn.persist) or (type(event) is Tick and leases.must_save(turn))
        if commits or elapsed or turn.revision != meta.revision:
            state.meta = Meta(meta.store_id, meta.shard, meta.shards, meta.term, turn.revision, clock)
            if commits:
                turn.persist.append((effects.META, effects.META, state.meta))
                state.saved_ms = clock
        self._check(turn)
        alarm = now + min(max(0, state.alarm_at - clock), self.config.max_step_ms)
        return Ready(tuple(turn.persist), tuple(turn.send), (), tuple(turn.reply), alarm)

    def _check(self, turn: Turn) -> None:
        if not self.config.checks:
            return
        for group_id in turn.touched:
            invariants.check_group(self.state, group_id)
        self._steps += 1
        every = self.config.check_all_every
        if every and self._steps % every == 0:
            invariants.check_all(self.state, self.config)


# ---- commands ------------------------------------------------------------------------------------------------


def _command(turn: Turn, command: Command) -> None:
    """Exactly once, in order: see `core/sessions.py`. The answer is stored in the commit of the effect (ONCE-1)."""
    meta = turn.state.meta
    admitted = sessions.admit(turn, command)
    if admitted is not None:
        if isinstance(admitted, Refusal):
            if admitted.guard == "acknowledged":
                return
            turn.count(f"refused_{admitted.reason}")
            admitted = Answered(meta.shard, meta.term, command.session, command.sequence, Refused(admitted, turn.revision))
        turn.reply.append(Reply(command.client, admitted))
        return
    body = command.body
    first = HoldId(command.session, command.sequence, 0)
    answer: ItemAnswer | BatchAnswer
    if type(body) is Batch:
        answer = apply_batch(turn, command.session, first, body)
    else:
        answer = apply(turn, command.session, first, body)  # type: ignore[arg-type]
    answered = Answered(meta.shard, meta.term, command.session, command.sequence, answer)
    sessions.record(turn, command, answered)
    turn.reply.append(Reply(command.client, answered))


def _query(answer: Callable[[Turn, Any], Any]) -> Callable[[Turn, Any], None]:
    def handle(turn: Turn, event: Any) -> None:
        sessions.told(turn, event.client, event.token, answer(turn, event))

    return handle


_HANDLERS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    Tick: lambda turn, event: housekeeping.tick(turn),
    Command: _command,
    commands.OpenSession: sessions.open_session,
    commands.KeepAlive: sessions.keep_alive,
    commands.CloseSession: sessions.close_session,
    commands.Locate: _query(queries.locate),
    commands.Describe: _query(queries.describe),
    commands.ListGroups: _query(queries.list_groups),
    commands.Status: _query(queries.status),
    commands.Explain: _query(explain.explain),
    commands.Await: waiting.await_,
    reports.Register: membership.register,
    reports.Heartbeat: membership.heartbeat,
    reports.Inventory: reconcile.inventory,
    reports.Report: reconcile.report,
}
