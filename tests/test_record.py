"""A recorder at the client machines of a real cluster: what really happens is a history that checks, and a lie in it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve

from pinfold.chaos.history import History, Op, load
from pinfold.chaos.history_check import check
from pinfold.chaos.history_search import decided_by_order, search
from pinfold.chaos.record import Recorder
from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core.calls import Call, Do, GetGroup, PutGroup
from pinfold.core.client_state import ClientConfig
from pinfold.core.ids import HoldId, Key, Layout, NodeName, Peer, Role, group_id
from pinfold.core.records import evolve as changed
from pinfold.core.state import DirectoryConfig
from pinfold.embedded import DIRECTORY, EmbeddedCluster, EmbeddedConfig
from pinfold.transport.inproc import Faults

LAYOUT = Layout(block_bytes=16)
ROUGH = Faults(loss=0.08, duplicate=0.1, reorder=0.2, reorder_ms=40, delay_ms=(0, 8))
CLIENTS = ("client/a", "client/b", "client/c")


def spec(name: str) -> c.Spec:
    key = Key("t", "m", "1", LAYOUT, name, 2)
    return c.Spec(group_id(key), key, (16, 16))


SPECS = [spec(f"g{at}") for at in range(4)]


class Run:
    """A cluster, three clients that do what a seed says, and a recorder. Nodes and the directory crash and come back."""

    def __init__(self, seed: int, faults: Faults = ROUGH) -> None:
        self.random = Random(seed)
        directory = DirectoryConfig(
            node_lease_ms=1_000, absent_limit_ms=3_000, grace_ms=50, write_ms=1_000, move_ms=1_000, backoff_ms=20, repair_ms=200
        )
        config = EmbeddedConfig(("n1", "n2"), directory=directory, seed=seed, faults=faults, heartbeat_ms=200)
        self.cluster = EmbeddedCluster(config)
        self.recorder = Recorder()
        self.holds: list[tuple[str, HoldId, str]] = []
        self.calls: dict[int, str] = {}
        self.count = 0
        self.cluster.advance(1_000)
        for at, client in enumerate(CLIENTS):
            self.add(client, at)

    def add(self, client: str, life: int) -> None:
        config = ClientConfig(
            Peer(client), (DIRECTORY,), f"{client}-{life}", seed=life, attempt_ms=50, lease_ms=3_000, await_slice_ms=200
        )
        self.cluster.add_client(config)
        self.recorder.watch(client, self.cluster.members[client].driver)

    def ask(self, client: str, op: Any) -> None:
        self.count += 1
        self.calls[self.count] = client
        self.cluster.tell(client, Call(self.count, op, 1_500))

    def go(self, steps: int) -> None:
        for _ in range(steps):
            self.one()
            self.cluster.advance(self.random.choice((1, 5, 20, 60)))
            self.collect()

    def one(self) -> None:
        """One thing that somebody does."""
        random, group = self.random, self.random.choice(SPECS)
        client = random.choice([client for client in CLIENTS if client in self.cluster.members])
        kind = random.randrange(20)
        if kind < 4:
            self.ask(client, PutGroup(group, (7, 9), keep_pin=random.random() < 0.3))
        elif kind < 9:
            self.ask(client, random.choice((Do(c.Pin(group.group)), Do(c.Ref(group.group)))))
        elif kind < 12 and self.holds:
            owner, hold, word = self.holds.pop(random.randrange(len(self.holds)))
            if owner in self.cluster.members:
                self.ask(owner, Do(c.Unref(hold) if word == "ref" else c.Unpin(hold)))
        elif kind < 14:
            self.ask(client, Do(c.Evict(group.group, wait=random.random() < 0.3)))
        elif kind < 16:
            self.ask(client, Do(c.Move(group.group, NodeName(random.choice(("n1", "n2"))), allow_pinned=random.random() < 0.2)))
        elif kind < 17:
            self.ask(client, Do(c.PinPrefix(tuple(one.group for one in SPECS))))
        elif kind < 18:
            self.ask(client, Do(c.Batch((c.Pin(group.group), c.Ref(group.group), c.Evict(group.group)))))
        elif kind < 19:
            self.ask(client, GetGroup(group.group))
        else:
            self.crash()

    def crash(self) -> None:
        kind = self.random.randrange(3)
        if kind == 0:
            self.cluster.restart_node(self.random.choice(("n1", "n2")))
        elif kind == 1:
            self.cluster.crash_directory()
            self.cluster.start_directory()
        else:
            client = self.random.choice([client for client in CLIENTS if client in self.cluster.members])
            self.cluster.remove_client(client)
            self.holds = [hold for hold in self.holds if hold[0] != client]
            self.count += 1
            self.add(client, 100 + self.count)

    def collect(self) -> None:
        """Keep the holds that answers have brought."""
        for client in CLIENTS:
            member = self.cluster.members.get(client)
            if member is None:
                continue
            for _, message in member.replies:
                value = getattr(message, "value", None)
                answers = value.items if isinstance(value, a.BatchAnswer) else (value,)
                for answer in answers:
                    if isinstance(answer, a.Pinned | a.Referred | a.Exists):
                        self.holds.append((client, answer.hold, "ref" if isinstance(answer, a.Referred) else "pin"))
            member.replies.clear()

    def history(self) -> History:
        self.cluster.advance(5_000)
        self.collect()
        return self.recorder.history(complete=True)


@pytest.fixture(scope="module")
def real() -> History:
    """Long enough for everything to happen often, whatever order the machines' messages come in."""
    run = Run(11)
    run.go(2_400)
    return run.history()


@pytest.mark.parametrize("seed", range(4))
def test_a_run_under_faults_is_a_history_that_checks(seed: int, tmp_path: Path) -> None:
    run = Run(seed)
    run.go(150)
    history = run.history()
    history.save(tmp_path / "h.jsonl")
    verdict = check(load(tmp_path / "h.jsonl"))
    assert verdict.word == "ok", list(verdict.lines())
    assert verdict.ops > 150
    words = {op.outcome for op in history.ops}
    assert {"ok", "refused"} <= words


def test_the_same_seed_gives_the_same_history() -> None:
    def lines(seed: int) -> list[str]:
        run = Run(seed)
        run.go(60)
        return list(run.history().lines())

    assert lines(5) == lines(5)
    assert lines(5) != lines(6)


def test_recording_changes_nothing() -> None:
    def digest(watched: bool) -> list[tuple[Any, ...]]:
        cluster = EmbeddedCluster(EmbeddedConfig(nodes=("n1",), seed=3, faults=ROUGH))
        cluster.advance(500)
        cluster.add_client(ClientConfig(Peer("client/a"), (DIRECTORY,), "boot"))
        if watched:
            Recorder().watch("client/a", cluster.members["client/a"].driver)
        told = [cluster.call("client/a", PutGroup(SPECS[0], (7, 9))), cluster.call("client/a", GetGroup(SPECS[0].group))]
        return [(cluster.now, cluster.steps, str(told))]

    assert digest(True) == digest(False)


def test_a_number_that_two_lives_have_used_is_two_operations() -> None:
    """The first life's command is never answered; the next life resumes the session and uses its number for another one."""
    cluster = EmbeddedCluster(EmbeddedConfig(nodes=("n1",)))
    cluster.advance(500)
    recorder = Recorder()
    group = SPECS[0].group

    def live(boot: str) -> None:
        cluster.add_client(ClientConfig(Peer("client/a"), (DIRECTORY,), boot, session_name="job"))
        recorder.watch("client/a", cluster.members["client/a"].driver)

    live("one")
    cluster.call("client/a", PutGroup(SPECS[0], (7, 9)))
    cluster.wire.cut("client/a", DIRECTORY)
    cluster.tell("client/a", Call(1, Do(c.Evict(group)), 100))
    cluster.remove_client("client/a")
    cluster.wire.heal_all()
    live("two")
    cluster.call("client/a", Do(c.Ref(group)))
    history = recorder.history(complete=True)
    evict, ref = (next(op for op in history.ops if op.op == word) for word in ("evict", "ref"))
    assert (evict.session, evict.number) == (ref.session, ref.number)
    assert (evict.outcome, ref.outcome, ref.hold) == ("unknown", "ok", f"h{ref.session}.{ref.number}.0")
    assert check(history).word == "ok"


def test_the_history_has_everything_that_happened(real: History) -> None:
    ok = {op.op for op in real.ops if op.outcome == "ok"}
    assert {"create", "pin", "ref", "unpin", "unref", "pin_prefix", "evict", "move", "write", "read", "await", "open"} <= ok
    assert {op.term for op in real.ops} > {1, 2}, "directories have come and gone"
    assert all(decided_by_order(op) for op in real.ops)
    assert check(real).word == "ok"
    searched = {op.group for op in real.ops if op.group}
    for group in sorted(searched):
        few = [op for op in real.ops if op.group == group][:40]
        assert search(few, changed_to(real, complete=False)).word in ("ok", "unknown")


def changed_to(history: History, **fields: Any) -> History:
    return evolve(history, **fields)


# ---- lies in a real history ----------------------------------------------------------------------------------


def pick(history: History, wanted: Callable[[Op], bool]) -> tuple[int, Op]:
    found = [(at, op) for at, op in enumerate(history.ops) if wanted(op)]
    assert found, "the run is too short for this fault"
    return found[len(found) // 2]


def stale_read(history: History) -> History:
    """A query is answered from the state of long ago, which somebody had seen pass before it was asked."""
    def passed(op: Op) -> bool:
        known = (one for one in history.ops if one.returned is not None and one.returned < op.invoke)
        return any(one.revision > op.epoch and (one.number or one.term == op.term) for one in known)

    at, op = pick(history, lambda op: not op.number and op.epoch > 0 and passed(op))
    return replaced(history, at, evolve(op, revision=op.epoch))


def old_epoch(history: History) -> History:
    """A pin is answered with an epoch that others had seen pass."""
    def seen(op: Op) -> bool:
        return any(one.group == op.group and one.epoch == op.epoch and one is not op for one in history.ops)

    at, op = pick(history, lambda op: op.op == "pin" and op.epoch > 0 and seen(op))
    return replaced(history, at, evolve(op, epoch=op.epoch - 1))


def lost_hold(history: History) -> History:
    """A release that was done is told that there was no such hold."""
    at, op = pick(history, lambda op: op.op in ("unpin", "unref") and op.outcome == "ok" and takers(history, op) != [])
    return replaced(history, at, evolve(op, outcome="refused", reason="UnknownHold", effect=False))


def double_release(history: History) -> History:
    """A hold is released once more, by another number, and that is answered as done."""
    at, op = pick(history, lambda op: op.op in ("unpin", "unref") and op.outcome == "ok")
    last = max(one.revision for one in history.ops) + 1
    end = max(one.returned or 0 for one in history.ops)
    return replaced(history, at, op, evolve(op, number=op.number + 1_000, revision=last, invoke=end + 1, returned=end + 2))


def double_effect(history: History) -> History:
    """A command that was repeated is applied a second time."""
    at, op = pick(history, lambda op: op.op == "ref" and op.outcome == "ok")
    return replaced(history, at, op, evolve(op, revision=op.revision + 1))


def forked_directory(history: History) -> History:
    """Two directories give out one revision."""
    at, op = pick(history, lambda op: op.op == "pin" and op.outcome == "ok")
    other = next(one for one in history.ops if one.effect and one.session != op.session and one.revision > op.revision)
    fork = evolve(op, revision=other.revision, epoch=0, returned=max(op.returned or 0, other.returned or 0))
    return replaced(history, at, fork)


def evict_under_a_ref(history: History) -> History:
    """A group is evicted while somebody refers to it."""
    ends = {one.hold: one.revision for one in history.ops if one.op == "unref" and one.outcome == "ok"}
    used = {one.revision for one in history.ops if one.effect}

    def free(op: Op) -> list[int]:
        return [revision for revision in range(op.revision + 1, ends.get(op.hold, 0)) if revision not in used]

    at, op = pick(history, lambda op: op.op == "ref" and op.outcome == "ok" and free(op) != [])
    evict = evolve(op, op="evict", hold="", number=op.number + 2_000, revision=free(op)[0], epoch=0, returned=10**9)
    return replaced(history, at, op, evict)


def wrong_bytes(history: History) -> History:
    """A block is read as other bytes than were written."""
    at, op = pick(history, lambda op: op.op == "read" and op.content != {})
    return replaced(history, at, evolve(op, content={block: checksum + 1 for block, checksum in op.content.items()}))


def term_goes_back(history: History) -> History:
    """A directory that had been replaced still makes changes."""
    at, op = pick(history, lambda op: op.effect and op.term > 1)
    return replaced(history, at, evolve(op, term=op.term - 1))


def takers(history: History, op: Op) -> list[Op]:
    return [one for one in history.ops if one.hold == op.hold and one.outcome == "ok" and one.op in ("pin", "ref", "pin_prefix")]


def replaced(history: History, at: int, *ops: Op) -> History:
    return History([*history.ops[:at], *ops, *history.ops[at + 1 :]], history.clock, history.complete)


FAULTS = {
    stale_read: "LIN-1", old_epoch: "LIN-1", lost_hold: "HOLD-1", double_release: "HOLD-1", double_effect: "ONCE-1",
    forked_directory: "ONCE-1", evict_under_a_ref: "HOLD-1", wrong_bytes: "BYTES-1", term_goes_back: "EPOCH-1",
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_lie_in_a_real_history_is_found(fault: Callable[[History], History], real: History) -> None:
    verdict = check(fault(real))
    assert verdict.word == "violated"
    found = [violation for violation in verdict.violations if violation.rule == FAULTS[fault]]
    assert found, list(verdict.lines())
    assert all(1 <= len(violation.ops) <= 3 for violation in found)


# ---- lies of a real directory --------------------------------------------------------------------------------


def test_a_directory_that_forgets_a_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is at fault here, not the file: it drops a hold, and says later that there never was one."""
    run = Run(2, Faults())
    for at, group in enumerate(SPECS[:2]):
        run.cluster.call("client/a", PutGroup(group, (7, 9 + at)))
    done = run.cluster.call("client/a", Do(c.Ref(SPECS[0].group)))
    hold = done.value.hold  # type: ignore[union-attr]
    state = run.cluster.state
    record = state.holds.pop(hold)
    state.referred.pop(record.group)
    state.held[record.id.session].pop(hold)  # type: ignore[index]
    assert run.cluster.call("client/a", Do(c.Unref(hold)))
    verdict = check(run.recorder.history(complete=True))
    assert verdict.word == "violated"
    assert "lost hold" in verdict.violations[0].sentence


def test_a_directory_that_answers_from_an_old_record_is_found() -> None:
    run = Run(3, Faults())
    run.cluster.call("client/a", PutGroup(SPECS[0], (7, 9)))
    state = run.cluster.state
    old = state.groups[SPECS[0].group]
    run.cluster.call("client/b", Do(c.Move(SPECS[0].group, NodeName("n2"))))
    run.cluster.call("client/b", Do(c.Move(SPECS[0].group, NodeName("n1"))))
    run.cluster.advance(2_000)
    now = state.groups[SPECS[0].group]
    assert now.epoch > old.epoch
    state.groups[SPECS[0].group] = changed(now, epoch=old.epoch)
    run.cluster.call("client/c", Do(c.Pin(SPECS[0].group)))
    verdict = check(run.recorder.history(complete=True))
    assert verdict.word == "violated"
    assert "stale read" in verdict.violations[0].sentence
    assert any(copy.role is Role.AUTHORITATIVE for copy in state.copies[SPECS[0].group])
