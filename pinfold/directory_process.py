"""The directory as a process: one shard's machine, its LMDB store, a ZeroMQ wire, one loop.

    loop:  poll -> shed what is too much -> step up to `batch_max` inputs -> Tick if it is due -> one commit, then the outputs

All steps of a turn share one commit (group commit, rule 10), and input is stepped before a Tick, so that a heartbeat which has
arrived is never overtaken by the end of its lease. A commit with an unknown end ends the term: the machine is dropped and a new
one starts from what the store has, under the same wire, a bounded number of times.

Ends: 0 asked to, 1 the store or the address can't be used, 2 a store that is not ours, 3 commits kept failing, 5 a later term
has the store, or the store has gone back in time (StoreRegressed).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, get_args

from attrs import evolve

from .backends.base import MetadataStore, StoreError, StoreFenced
from .backends.lmdb import LmdbStore
from .core import answers, commands, events
from .core.client_numbers import gives_back
from .core.directory import Directory
from .core.driver import Driver, TermEnded
from .core.effects import META, NODES, Ready, Reply
from .core.errors import Refusal
from .core.ids import Peer
from .core.state import FORMAT, RECORD_TYPES
from .logs import Log, fields_of
from .serving import POLL_MS_MAX, Ending, announce, clock_ms, exit_code_of
from .settings import Settings
from .transport.base import PolledWire
from .transport.zmq import ServerWire

TAKES: Final = frozenset(get_args(events.DirectoryEvent))
"""What a directory takes; another message is a peer's mistake and must not end the process."""

ALWAYS: Final = (commands.KeepAlive, commands.CloseSession)
"""Session calls with reserved room, beside what a node reports (rule 13)."""

RESTART_PAUSE_MS: Final = 100
"""Before the first new start after a failed commit; it doubles."""

LASTING_MS: Final = 60_000
"""A term that has lasted this long starts the count of restarts anew."""


def is_reserved(message: Any) -> bool:
    """Whether a message only gives back, or keeps alive what is there: it is taken also by a directory with too much to do."""
    if isinstance(message, commands.Command):
        return isinstance(message.body, commands.Cancel) or gives_back(message.body)
    return isinstance(message, ALWAYS) or not isinstance(message, commands.Query | commands.OpenSession)


class DirectoryProcess:
    """See the module. `open_store` and `make_wire` are how it comes by its ports: tests hand in some that fail."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        ready_file: str = "",
        parent_fd: int = -1,
        open_store: Callable[[], MetadataStore] | None = None,
        make_wire: Callable[[str], Any] | None = None,
    ) -> None:
        self.settings = settings
        self.log = log
        self.counters: dict[str, int] = {}
        self._ready_file = ready_file
        self._parent_fd = parent_fd
        self._open_store = open_store or self._lmdb
        self._make_wire = make_wire or self._zmq
        self._inbox: deque[tuple[Peer, Any]] = deque()
        self._config = settings.directory_config()

    # ---- a life ----------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until asked to end; the exit code. What ails the store is one sentence in the log. Raises CannotBind."""
        try:
            return self._run()
        except (StoreError, TermEnded) as error:
            self.log.error("cannot serve", reason=str(error))
            return exit_code_of(error)

    def _run(self) -> int:
        store = self._open_store()
        try:
            wire = self._make_wire(store.identity.store_id)
        except BaseException:
            store.close()
            raise
        with Ending(self._parent_fd) as ending:
            try:
                self._begin(store, wire)
                self._announce(wire)
                return self._serve(wire, ending)
            finally:
                wire.close()
                self._store.close()

    def _lmdb(self) -> LmdbStore:
        own = self.settings.directory
        return LmdbStore(
            own.data, RECORD_TYPES, owner=f"directory/{own.shard}", shard=own.shard, map_bytes_max=own.store_max_bytes,
            check=self._config.checks, versions=FORMAT,
        )  # fmt: skip

    def _zmq(self, store_id: str) -> ServerWire:
        own = self.settings.directory
        return ServerWire(own.bind, advertise=own.advertise, store_id=store_id)

    def _begin(self, store: MetadataStore, wire: PolledWire) -> None:
        """Start a term from what `store` has. Its first words leave after they are durable (DUR-1)."""
        self._store = store
        self._wire = wire
        own = self.settings.directory
        tables = store.load()
        if tables.get(META):
            state = Directory.load(tables)
        else:
            state = Directory.blank(store.identity.store_id, own.shard, own.shards)
        self.machine = Directory(self._config, state)
        self._driver = Driver(self.machine, store=store, wire=wire)
        now = clock_ms()
        self._driver.hold(self.machine.start(now, store.term))
        store.fence(state.meta.term)
        self._driver.flush()
        self._begun_ms = now
        self.log = self.log.bind(term=state.meta.term)
        self.log.info("term begins", revision=state.meta.revision, groups=len(state.groups), sessions=len(state.sessions))

    def _announce(self, wire: ServerWire) -> None:
        meta = self.machine.state.meta
        announce(
            {"ready": "directory", "endpoint": wire.address, "shard": meta.shard, "store_id": meta.store_id, "term": meta.term},
            self._ready_file,
        )

    def _serve(self, wire: ServerWire, ending: Ending) -> int:
        failed = 0
        while True:
            try:
                self._turn(wire, ending)
            except (TermEnded, StoreError) as error:
                if isinstance(error, StoreFenced):
                    raise
                failed = 1 if clock_ms() - self._begun_ms > LASTING_MS else failed + 1
                if failed > self.settings.directory.restarts_max:
                    self.log.error("commits keep failing", reason=str(error), restarts=failed - 1)
                    return 3
                self._begin_again(wire, error, failed)
            if self.machine.state.halted:
                self.log.error("stopped for good", reason=self.machine.state.halted)
                return 5
            if ending.reason and not self._inbox:
                self.log.info("ends", reason=ending.reason)
                return 0

    def _begin_again(self, wire: PolledWire, error: Exception, failed: int) -> None:
        """A new term in this process. What has been read and not answered is dropped: callers repeat it."""
        self.log.warning("term ended", reason=str(error), restart=failed)
        self._count("terms_ended")
        self._inbox.clear()
        self._store.close()
        time.sleep((RESTART_PAUSE_MS << failed - 1) / 1_000)
        try:
            self._begin(self._open_store(), wire)
        except (TermEnded, StoreError) as again:
            if isinstance(again, StoreFenced) or failed >= self.settings.directory.restarts_max:
                raise
            self._begin_again(wire, again, failed + 1)

    # ---- one turn --------------------------------------------------------------------------------------------

    def _turn(self, wire: ServerWire, ending: Ending) -> None:
        alarm = self._driver.alarm
        wait = 0 if self._inbox else POLL_MS_MAX if alarm is None else min(max(0, alarm - clock_ms()), POLL_MS_MAX)
        if not ending.reason:  # on the way out: what has been read is done, nothing more is taken
            self._read(wire, wait, ending)
        for peer in wire.unreachable():
            self.log.debug("cannot reach", peer=peer.peer)
        for problem in wire.take_problems():
            self._count(f"problem_{problem.kind}")
            self.log.sparse(problem.kind, "refused a message", peer=problem.peer, detail=problem.detail)
        now = clock_ms()
        for _ in range(min(len(self._inbox), self.settings.directory.batch_max)):
            source, message = self._inbox.popleft()
            self._take(source, message, now)
        alarm = self._driver.alarm
        if alarm is not None and alarm <= now:
            self._note(events.Tick(), self._driver.handle(events.Tick(), now))
        if self._driver.holding:
            self._flush()

    def _flush(self) -> None:
        """One commit for all that was stepped, and how long it took."""
        begun = time.perf_counter_ns()
        self._driver.flush()
        took_us = (time.perf_counter_ns() - begun) // 1_000
        self._count("flushes")
        self._count("flush_us", took_us)
        self.counters["flush_us_max"] = max(self.counters.get("flush_us_max", 0), took_us)

    def _read(self, wire: ServerWire, wait_ms: int, ending: Ending) -> None:
        """Take what has arrived, as far as there is room; more stays in the sockets and holds its senders up."""
        room = 2 * self.settings.directory.inbox_max
        found = wire.poll(wait_ms, ending.fds)
        ending.look(wire.ready_fds)
        while found:
            self._inbox.extend(found)
            if len(self._inbox) >= room:
                break
            found = wire.poll(0, ending.fds)
            ending.look(wire.ready_fds)
        if len(self._inbox) > self.settings.directory.inbox_max:
            self._shed(wire)

    def _shed(self, wire: ServerWire) -> None:
        """Above the limit, what asks for something is answered `Overloaded` at the door, and its number stays unused. It rests
        on nothing that is not durable yet: no step is held now."""
        kept: deque[tuple[Peer, Any]] = deque()
        limit = self.settings.directory.inbox_max
        for source, message in self._inbox:
            if len(kept) < limit or is_reserved(message):
                kept.append((source, message))
            elif getattr(message, "client", source) == source:
                wire.send(source, self._overloaded(message))
                self._count("shed")
        self._inbox = kept

    def _overloaded(self, message: Any) -> answers.DirectoryAnswer:
        meta = self.machine.state.meta
        refusal = Refusal("Overloaded", guard="inbox_max", retry_after_ms=self._config.retry_after_ms)
        refused = answers.Refused(refusal, meta.revision)
        if isinstance(message, commands.Command):
            return answers.Answered(meta.shard, meta.term, message.session, message.sequence, refused)
        return answers.Told(meta.shard, meta.term, meta.revision, message.token, refused)

    def _take(self, source: Peer, message: Any, now: int) -> None:
        self._count("inputs")
        if type(message) not in TAKES:
            self._drop(source, message, "is not for a directory")
        elif getattr(message, "client", source) != source:
            self._drop(source, message, "speaks for another client")
        elif isinstance(message, commands.Status):
            self._driver.hold(self._with_counters(self.machine.step(message, now)))
        else:
            self._note(message, self._driver.handle(message, now))

    def _drop(self, source: Peer, message: Any, why: str) -> None:
        self._count("dropped")
        self.log.sparse(type(message).__name__, "dropped a message", why=why, peer=source)

    def _with_counters(self, ready: Ready) -> Ready:
        """Status tells what the process and its wire count, too. The machine's own state is not touched."""
        replies = []
        for reply in ready.reply:
            told = reply.message
            if isinstance(told, answers.Told) and isinstance(told.answer, answers.StatusReport):
                mine = tuple((f"process.{name}", value) for name, value in self.counters.items())
                mine += tuple((f"wire.{name}", value) for name, value in self._wire.counters.as_dict().items())
                told = evolve(told, answer=evolve(told.answer, counters=tuple(sorted(told.answer.counters + mine))))
            replies.append(Reply(reply.target, told))
        return evolve(ready, reply=tuple(replies))

    # ---- what is told ----------------------------------------------------------------------------------------

    def _count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    def _note(self, event: Any, ready: Ready) -> None:
        for table, _, record in ready.persist:
            if table == NODES and record is not None:
                said = "node lapsed" if not record.alive else "node drains" if record.draining else "node registered"
                self.log.info(said, node=record.name, incarnation=record.incarnation, peer=record.address)
        if self.log.enabled("debug") and not isinstance(event, events.Tick):
            self.log.debug("took", **fields_of(event))
            for reply in ready.reply:
                self.log.debug("answers", **(fields_of(reply.message) | {"peer": reply.target}))


def main(settings: Settings, log: Log, *, ready_file: str = "", parent_fd: int = -1) -> int:
    """Run a directory to its end; the exit code."""
    log = log.bind(shard=settings.directory.shard)
    return DirectoryProcess(settings, log, ready_file=ready_file, parent_fd=parent_fd).run()
