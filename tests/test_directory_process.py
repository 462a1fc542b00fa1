"""The directory's process around its machine: group commit, reserved room, terms that end, what a peer may not do."""

import io
import signal
from collections.abc import Callable
from typing import Any

import pytest

from pinfold.backends.memory import Fault, MemoryStore
from pinfold.config import load
from pinfold.core import answers, commands, reports
from pinfold.core.commands import Command
from pinfold.core.driver import Outcome
from pinfold.core.ids import NO_COPY, CopyId, GroupId, NodeName, Peer, SessionId
from pinfold.core.state import RECORD_TYPES
from pinfold.directory_process import RESTART_PAUSE_MS, DirectoryProcess, is_reserved
from pinfold.logs import make_log
from pinfold.transport.base import Counters

A = Peer("client/a")
GROUP = GroupId(bytes(16))
UNPIN = commands.Unpin(commands.HoldId(1, 1, 0))
PIN = commands.Pin(GROUP)


class FakeWire:
    """Gives what its script says, turn by turn; then a SIGTERM. Keeps what is sent."""

    def __init__(self, script: list[list[tuple[Peer, Any]]], on_turn: Callable[[int], None] = lambda _: None) -> None:
        self.script = script
        self.sent: list[tuple[str, Any]] = []
        self.turns = 0
        self.closed = 0
        self.ready_fds: tuple[int, ...] = ()
        self.address = Peer("tcp://127.0.0.1:1")
        self.counters = Counters()
        self._on_turn = on_turn
        self._empty = False

    def poll(self, timeout_ms: int, fds: Any = ()) -> list[tuple[Peer, Any]]:
        if self._empty:  # what was given is all that has arrived
            self._empty = False
            return []
        if self.script:
            self.turns += 1
            self._on_turn(self.turns)
            self._empty = True
            return self.script.pop(0)
        signal.raise_signal(signal.SIGTERM)
        self.ready_fds = tuple(fds)[:1]
        return []

    def send(self, target: str, message: Any) -> None:
        self.sent.append((target, message))

    def unreachable(self) -> list[Any]:
        return []

    def take_problems(self) -> list[Any]:
        return []

    def close(self) -> int:
        self.closed += 1
        return 0


class Watched(MemoryStore):
    """Notes the size of each commit."""

    def __init__(self) -> None:
        super().__init__(RECORD_TYPES, store_id="watched")
        self.commits: list[int] = []
        self.opened = 0

    def commit(self, writes: Any) -> Outcome:
        outcome = super().commit(writes)
        self.commits.append(len(writes))
        return outcome

    def again(self) -> "Watched":
        """What opening the same store once more gives."""
        self.opened += 1
        if self.opened > 1:
            self.reopen()
        return self


def serve(
    script: list[list[tuple[Peer, Any]]], store: Watched | None = None, **settings: str
) -> tuple[int, FakeWire, Watched, str]:
    store, wire = store or Watched(), FakeWire(script)
    code, said = run(store, wire, **settings)
    return code, wire, store, said


def run(store: Watched, wire: FakeWire, **settings: str) -> tuple[int, str]:
    log = make_log("directory", level="debug", form="human")
    log.stream = stream = io.StringIO()
    flags = {f"directory.{name}": value for name, value in settings.items()}
    process = DirectoryProcess(load(flags).settings, log, open_store=store.again, make_wire=lambda _: wire)
    code = process.run()
    assert wire.closed == 1
    return code, stream.getvalue()


def opening(token: str = "t", client: Peer = A) -> tuple[Peer, Any]:
    return client, commands.OpenSession(client, token)


def command(sequence: int, body: Any, session: int = 1) -> tuple[Peer, Any]:
    return A, Command(A, SessionId(session), sequence, 1, body)


def refusals(wire: FakeWire) -> list[str]:
    return [m.answer.refusal.reason for _, m in wire.sent if isinstance(getattr(m, "answer", None), answers.Refused)]


# ---- one turn, one commit ------------------------------------------------------------------------------------


def test_all_inputs_of_a_turn_share_one_commit_and_leave_after_it() -> None:
    at_commit: list[int] = []
    store, wire = Watched(), FakeWire([[opening(), *(command(n, commands.Ref(GROUP)) for n in range(1, 9))]])
    commit = store.commit

    def look(writes: Any) -> Outcome:
        at_commit.append(len(wire.sent))
        return commit(writes)

    store.commit = look  # type: ignore[method-assign]
    code, _ = run(store, wire)
    assert code == 0
    assert len(at_commit) == 2  # the term's beginning, and the turn
    assert at_commit == [0, 0]
    assert len(wire.sent) == 9


def test_a_turn_steps_no_more_than_the_batch() -> None:
    _, wire, store, _ = serve([[opening(), *(command(n, commands.Ref(GROUP)) for n in range(1, 8))]], batch_max="4")
    assert len(store.commits) == 3
    assert len(wire.sent) == 8


def test_what_has_been_read_is_answered_before_a_clean_end() -> None:
    script = [[opening(), *(command(n, commands.Ref(GROUP)) for n in range(1, 30))]]
    code, wire, _, said = serve(script, batch_max="5")
    assert code == 0
    assert len(wire.sent) == 30
    assert "ends  " in said


def test_status_tells_what_the_process_counts() -> None:
    _, wire, _, _ = serve([[opening()], [(A, commands.Status(A, "s"))]])
    report = wire.sent[-1][1].answer
    assert ("process.flushes", 1) in report.counters
    assert ("process.inputs", 2) in report.counters
    assert ("wire.received", 0) in report.counters
    assert list(report.counters) == sorted(report.counters)


# ---- too much to do ------------------------------------------------------------------------------------------


def test_what_only_gives_back_has_reserved_room_and_the_rest_is_told_so_with_its_number_unused() -> None:
    asks = [command(n, PIN) for n in range(2, 12)]
    gives = [command(1, UNPIN), (A, commands.KeepAlive(A, "k", SessionId(1))), (A, reports.Heartbeat(NodeName("n"), 1, 1, 1))]
    code, wire, _, _ = serve([[opening()], asks + gives], inbox_max="2")
    assert code == 0
    overloaded = [m for _, m in wire.sent if getattr(m, "sequence", 0) and refused_as(m, "Overloaded")]
    assert [m.sequence for m in overloaded] == list(range(4, 12))
    assert all(m.answer.refusal.info.definite and m.answer.refusal.guard == "inbox_max" for m in overloaded)
    answered = [m for _, m in wire.sent if getattr(m, "sequence", 0) == 1]
    assert [m.answer.refusal.reason for m in answered] == ["UnknownHold"]  # applied: its number is used
    assert any(isinstance(getattr(m, "answer", None), answers.KeptAlive) for _, m in wire.sent)


def refused_as(message: Any, reason: str) -> bool:
    return isinstance(message.answer, answers.Refused) and message.answer.refusal.reason == reason


@pytest.mark.parametrize(
    ("message", "reserved"),
    [
        (Command(A, SessionId(1), 1, 1, UNPIN), True),
        (Command(A, SessionId(1), 1, 1, commands.Batch((UNPIN, commands.ReleaseRequest("r")))), True),
        (Command(A, SessionId(1), 1, 1, commands.Cancel()), True),
        (Command(A, SessionId(1), 1, 1, commands.Batch((UNPIN, PIN))), False),
        (Command(A, SessionId(1), 1, 1, PIN), False),
        (commands.KeepAlive(A, "t", SessionId(1)), True),
        (commands.CloseSession(A, "t", SessionId(1)), True),
        (commands.OpenSession(A, "t"), False),
        (commands.Status(A, "t"), False),
        (commands.Locate(A, "t", (GROUP,)), False),
        (reports.Report(NodeName("n"), 1, (reports.Freed(CopyId(0, 1, 0)),)), True),
        (reports.Register(NodeName("n"), "b", "tcp://h:1", 8), True),
    ],
)
def test_reserved_is_what_gives_back(message: Any, reserved: bool) -> None:
    assert is_reserved(message) is reserved


# ---- terms ---------------------------------------------------------------------------------------------------


def test_a_commit_nobody_can_tell_of_ends_the_term_and_the_next_one_serves_from_the_store() -> None:
    store = Watched()

    def break_it(turn: int) -> None:
        if turn == 2:
            store.inject(Fault.UNKNOWN_DONE)

    wire = FakeWire([[opening("first")], [opening("second", Peer("client/b"))], [(A, commands.Status(A, "s"))]], break_it)
    code, said = run(store, wire)
    assert code == 0
    assert "term ended" in said
    told = {message.token: message for _, message in wire.sent}
    assert "second" not in told  # it happened, but nothing was said of it
    assert told["s"].term == 2
    assert told["s"].answer.sessions == 2
    assert ("process.terms_ended", 1) in told["s"].answer.counters


def test_commits_that_keep_failing_end_the_process_with_3_after_a_bounded_number_of_terms() -> None:
    store = Watched()
    store.inject(*[Fault.UNKNOWN_LOST] * 9)
    wire = FakeWire([[opening()]])
    code, said = run(store, wire, restarts_max="2")
    assert code == 3
    assert wire.sent == []
    assert store.opened <= 4
    assert "cannot serve" in said


def test_a_directory_that_a_later_one_has_replaced_ends_with_5() -> None:
    store = Watched()
    wire = FakeWire([[opening()]], lambda _turn: store.rival().fence(7))
    code, said = run(store, wire)
    assert code == 5
    assert wire.sent == []
    assert "term 7 has claimed this store" in said


def test_a_store_that_has_gone_back_in_time_stops_the_directory_for_good() -> None:
    node = Peer("tcp://127.0.0.1:9")
    register = reports.Register(NodeName("n"), "boot", node, 8)
    newer = reports.InventoryEntry(CopyId(0, 999, 0), reports.Condition.VERIFIED, bytes(16), 1, 1)  # type: ignore[arg-type]
    inventory = reports.Inventory(NodeName("n"), 1, 1, 0, 1, 0, 1, (newer,))
    code, _, _, said = serve([[(node, register)], [(node, inventory)], [opening()]])
    assert code == 5
    assert "StoreRegressed" in said


# ---- what a peer may not do ----------------------------------------------------------------------------------


def test_a_message_that_is_not_for_a_directory_is_dropped_and_counted() -> None:
    from pinfold.core.requests import Read

    stray = Read(A, "t", NO_COPY, (0,))
    code, wire, _, said = serve([[(A, stray)], [(A, commands.Status(A, "s"))]])
    assert code == 0
    assert "is not for a directory" in said
    assert ("process.dropped", 1) in wire.sent[-1][1].answer.counters


def test_nobody_speaks_for_another_client() -> None:
    code, wire, _, said = serve([[(Peer("client/b"), commands.OpenSession(A, "t"))]])
    assert code == 0
    assert wire.sent == []
    assert "speaks for another client" in said


def test_the_pause_before_a_new_term_is_short() -> None:
    assert RESTART_PAUSE_MS <= 500
