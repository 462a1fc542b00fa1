"""The client machine against a model of the other side, over a wire that loses, repeats and reorders.

Always: the client's own audit finds nothing, no call is answered twice, nothing is applied twice (ONCE-1).
At the end the wire is healed and time passes; then every call has its answer (ANSWER-1), what was told `Done` has happened
once, what was told to have failed for sure has not happened, bytes are those that were written (BYTES-1), and the holds that
are left are exactly those that callers were given (HOLD-1).
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from pinfold.core import commands as c
from pinfold.core.calls import Ask, Call, CancelCall, Do, Done, Failed, GetGroup, GotGroup, Op, PutDone
from pinfold.core.client_state import Degradation
from pinfold.core.events import PeerUnreachable, Tick
from pinfold.core.ids import HoldId, Peer
from tests.client_cluster import FakeCluster, run_to_quiet
from tests.client_world import DIRECTORY, NODE, Script, put_of
from tests.model_based.told import Told, initialize, rule

NAMES = ("a", "b", "c")
PUTS = {put_of(name, blocks=3).spec.group: put_of(name, blocks=3) for name in NAMES}
GROUP = {put.spec.key.prefix: group for group, put in PUTS.items()}
GROUPS = st.sampled_from(NAMES)
WIRE_MAX = 60
PICK = st.integers(0, 1_000)
"""One of those that are there, counted round."""


class ClientModel(Told):
    """Rules are what callers, the wire, the clock and the other side may do."""

    NAME = "client"
    COMMAND = "python -m pytest tests/model_based/test_client_model.py"

    @initialize(
        window=st.sampled_from([1, 3, 32]),
        mode=st.sampled_from(list(Degradation)),
        optimistic=st.booleans(),
        seed=st.integers(0, 2**32),
    )
    def begin(self, window: int, mode: Degradation, optimistic: bool, seed: int) -> None:
        self.script = Script(
            window=window, degradation=mode, optimistic_reads=optimistic, write_chunk_bytes=8, read_chunk_bytes=4,
            timeout_ms=3_000, background_ms=20_000, node_attempts=2,
        )  # fmt: skip
        self.script.client.state.random = seed
        self.cluster = FakeCluster(window=window)
        self.wire: list[tuple[str, Any]] = []  # (target, message); "" is the client
        self.calls = 0
        self.asked: dict[int, Op] = {}
        self.kept: list[HoldId] = []
        self.told: set[int] = set()

    # -- callers

    def submit(self, op: Op, timeout_ms: int) -> None:
        self.calls += 1
        self.asked[self.calls] = op
        self.step(Call(self.calls, op, timeout_ms))

    @rule(group=GROUPS, timeout_ms=st.sampled_from([50, 1_000, 8_000]), keep=st.booleans())
    def put(self, group: str, timeout_ms: int, keep: bool) -> None:
        put = put_of(group, blocks=3, keep_pin=keep, request=f"put {self.calls + 1}")
        self.submit(put, timeout_ms)

    @rule(group=GROUPS, timeout_ms=st.sampled_from([50, 1_000, 8_000]), keep=st.booleans())
    def get(self, group: str, timeout_ms: int, keep: bool) -> None:
        layout = PUTS[GROUP[group]].spec.key.layout
        self.submit(GetGroup(GROUP[group], request=f"get {self.calls + 1}", keep_pin=keep, layout=layout), timeout_ms)

    @rule(group=GROUPS, timeout_ms=st.sampled_from([50, 1_000]))
    def ref(self, group: str, timeout_ms: int) -> None:
        self.submit(Do(c.Ref(GROUP[group], f"ref {self.calls + 1}")), timeout_ms)

    @rule(group=GROUPS, other=GROUPS)
    def batch(self, group: str, other: str) -> None:
        request = f"batch {self.calls + 1}"
        self.submit(Do(c.Batch((c.Ref(GROUP[group], request), c.Pin(GROUP[other], request=request + "b")))), 1_000)

    @rule(number=PICK)
    def release(self, number: int) -> None:
        if self.kept:
            hold = self.kept.pop(number % len(self.kept))
            kind = self.cluster.holds.get(hold, ("ref",))[0]
            self.submit(Do(c.Unref(hold) if kind == "ref" else c.Unpin(hold)), 1_000)

    @rule(groups=st.lists(GROUPS, min_size=1, max_size=3).map(tuple))
    def locate(self, groups: tuple[str, ...]) -> None:
        self.submit(Ask(c.Locate(Peer(""), "", tuple(GROUP[name] for name in groups))), 1_000)

    @rule(number=PICK)
    def cancel(self, number: int) -> None:
        if self.calls:
            self.step(CancelCall(1 + number % self.calls))

    # -- the wire

    @rule(numbers=st.lists(PICK, min_size=1, max_size=6))
    def deliver(self, numbers: list[int]) -> None:
        for number in numbers:
            if self.wire:
                self.arrive(*self.wire.pop(number % len(self.wire)))

    @rule(count=st.integers(1, 20))
    def deliver_in_order(self, count: int) -> None:
        for _ in range(count):
            if self.wire:
                self.arrive(*self.wire.pop(0))

    @rule(number=PICK)
    def lose(self, number: int) -> None:
        if self.wire:
            self.wire.pop(number % len(self.wire))

    @rule(number=PICK)
    def repeat(self, number: int) -> None:
        if self.wire:
            self.wire.append(self.wire[number % len(self.wire)])

    @rule(peer=st.sampled_from([str(DIRECTORY), str(NODE)]))
    def unreachable(self, peer: str) -> None:
        self.step(PeerUnreachable(Peer(peer)))

    # -- the clock and the other side

    @rule(ms=st.sampled_from([1, 10, 100, 1_000, 5_000]))
    def pass_time(self, ms: int) -> None:
        self.script.now += ms
        self.step(Tick())

    @rule()
    def alarm(self) -> None:
        if self.script.alarm is not None:
            self.script.now = max(self.script.now, self.script.alarm)
            self.step(Tick())

    @rule(group=GROUPS)
    def evict(self, group: str) -> None:
        self.cluster.evict(GROUP[group])

    @rule()
    def overload(self) -> None:
        self.cluster.overloaded, self.cluster.full = 2, 1

    @rule()
    def expire(self) -> None:
        for session in list(self.cluster.sessions):
            self.cluster.end(session)

    # -- the machinery

    def step(self, event: Any) -> None:
        self.script.step(event)  # audits, and refuses a second answer to a call
        self.drain()

    def drain(self) -> None:
        self.wire = (self.wire + self.script.sent)[-WIRE_MAX:]  # a full wire loses the oldest
        self.script.sent = []
        for call, reply in self.script.replies.items():
            if call not in self.told:
                self.told.add(call)
                self.judge(self.asked[call], reply)

    def judge(self, op: Op, reply: Done | Failed) -> None:
        if isinstance(reply, Failed):
            return
        value = reply.value
        if isinstance(value, GotGroup):
            assert value.data == PUTS[value.group].data
            self.keep(value.hold)
        elif isinstance(value, PutDone):
            self.keep(value.hold)
        elif isinstance(op, Do):
            for item in getattr(value, "items", (value,)):
                if not isinstance(op.body, c.Unpin | c.Unref):
                    self.keep(getattr(item, "hold", None))

    def keep(self, hold: HoldId | None) -> None:
        if hold is not None:
            self.kept.append(hold)

    def arrive(self, target: str, message: Any) -> None:
        if target == "":
            self.step(message)
        else:
            self.wire += [("", answer) for answer in self.cluster.receive(Peer(target), message)]

    @invariant()
    def nothing_is_applied_twice(self) -> None:
        if hasattr(self, "cluster"):
            for request, times in self.cluster.applied.items():
                assert times <= 1 or request.startswith(("put", "get")), request  # these may take several commands

    def end(self) -> None:
        if not hasattr(self, "script"):
            return
        self.cluster.overloaded = self.cluster.full = 0
        for target, message in self.wire:  # what is still on the way arrives, late
            for answer in [message] if target == "" else self.cluster.receive(Peer(target), message):
                self.script.step(answer)
        for _ in range(2):
            run_to_quiet(self.script, self.cluster, rounds=3_000)
            self.script.pass_ms(self.script.client.state.session.lease_ms // 3 + 1)  # a renewal tells of losses
        run_to_quiet(self.script, self.cluster)
        self.wire = []
        self.drain()
        assert sorted(self.script.replies) == list(range(1, self.calls + 1))
        for call, op in self.asked.items():
            request = getattr(getattr(op, "body", None), "request", "")
            if request:
                reply, times = self.script.replies[call], self.cluster.applied.get(request, 0)
                assert times == 1 if isinstance(reply, Done) else not (reply.definite and times), (op, reply, times)
        lost = self.script.client.state.lost_holds
        left = sorted(hold for hold in set(self.kept) if hold not in lost)
        orphans = [hold for hold in self.cluster.holds if hold.session != self.script.client.state.session.session]
        for hold in orphans:  # of a session that the client has given up: they end with its lease
            self.cluster.release(hold)
        assert sorted(self.cluster.holds) == left
        assert sorted(self.script.client.state.holds) == left


ClientModel.TestCase.settings = settings(max_examples=60, stateful_step_count=50)
TestClientModel = ClientModel.TestCase
