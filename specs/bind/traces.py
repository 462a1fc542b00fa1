"""Random runs of the embedded cluster under faults, validated by TLC in one batch; one of them spoilt on purpose.

Every kind of step must stand for an action of the model, every action must be seen in an accepted trace, and the spoilt trace
must be refused at the event that was spoilt.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import Any

import tlc
from attrs import define, field
from recorder import Event, RecordedCluster, Trace
from slices import BUDGETS, Slice
from world import CHECKSUMS, MANIFEST, NEVER_MS, SPEC, client_name, phase

from pinfold.core import commands
from pinfold.core.calls import Call, CloseSessionOp, Do, GetGroup, PutGroup
from pinfold.core.client_state import ClientConfig
from pinfold.core.ids import GroupId, HoldKind, NodeName, Peer, Tier
from pinfold.core.node_state import fills
from pinfold.core.reports import Register
from pinfold.core.requests import EndWrite
from pinfold.core.state import DirectoryConfig
from pinfold.embedded import DIRECTORY, EmbeddedConfig
from pinfold.transport.inproc import Faults

TRACED = Slice("traced", "what is recorded", 2, 3, 5, dict.fromkeys(BUDGETS, 1_000_000), pins=1_000, touch=1_000)
DIRECTORY_CONFIG = DirectoryConfig(
    grace_ms=0, backoff_ms=0, high=1000, low=1000, repair_ms=NEVER_MS, absent_limit_ms=4_000, node_lease_ms=1_500, write_ms=1_500,
    move_ms=1_500,
)  # fmt: skip
STORM = Faults(loss=0.1, duplicate=0.1, reorder=0.2, reorder_ms=300, delay_ms=(0, 20))
BETWEEN_NODES = Faults(loss=0.15, delay_ms=(0, 400))


def record(seed: int, events_max: int) -> Trace:
    """One random run."""
    chance = random.Random(seed)
    config = EmbeddedConfig(
        nodes=("n1", "n2"), tiers=((Tier.DRAM, 64),), directory=DIRECTORY_CONFIG, seed=seed, heartbeat_ms=300,
        inventory_ms=900, checks=False,
    )  # fmt: skip
    cluster = RecordedCluster(config, TRACED, seed)
    clients = [f"client/s{s}" for s in range(1, TRACED.sessions + 1)]
    for client in clients:
        settings = {"lease_ms": 4_000, "keep_session": True, "timeout_ms": 3_000, "seed": seed}
        cluster.add_client(ClientConfig(Peer(client), (DIRECTORY,), f"{client}-1", **settings))
    cluster.advance(50)
    for client in clients:
        cluster.call(client, Do(commands.Ref(GroupId(b"nobody"))))
    cluster.advance(50)
    cluster.record()
    if chance.random() < 0.7:
        cluster.wire.set_all_faults(STORM if chance.random() < 0.7 else Faults(delay_ms=(0, 30)))
    for one, other in (("node/n1", "node/n2"), ("node/n2", "node/n1")):
        cluster.wire.set_faults(one, other, BETWEEN_NODES)
    run = Run(cluster, chance, clients)
    while len(cluster.trace.events) < events_max and not cluster.trace.ends and run.turns < 400:
        run.turn()
    del cluster.trace.events[events_max:]
    while cluster.trace.events and cluster.trace.events[-1].observed is None:
        cluster.trace.events.pop()
    return cluster.trace


KINDS = (
    *("put",) * 6, "create", *("get",) * 6, *("move",) * 6, *("cancel",) * 2, *("replicate",) * 3, *("drop",) * 2,
    *("evict",) * 2, *("wait",) * 2, *("ref",) * 2, *("pin",) * 2, *("release",) * 4,
)  # fmt: skip
"""What clients ask for, by weight."""


class Run:
    """What clients, operators and fate do in one run."""

    def __init__(self, cluster: RecordedCluster, chance: random.Random, clients: list[str]) -> None:
        self.cluster = cluster
        self.chance = chance
        self.clients = clients
        self.turns = 0
        self.calls = 0

    def turn(self) -> None:
        self.turns += 1
        chance, cluster = self.chance, self.cluster
        dice = chance.random()
        if dice < 0.62 and self.clients:
            self.calls += 1
            cluster.tell(chance.choice(self.clients), Call(self.calls, self._op(), 3_000))
        elif dice < 0.65:
            cluster.restart_node(chance.choice(("n1", "n2")))
        elif dice < 0.68:
            cluster.crash_directory()
            cluster.start_directory()
        elif dice < 0.70 and len(self.clients) > 1:
            gone = self.clients.pop()
            if chance.random() < 0.5:
                cluster.remove_client(gone)
            else:
                self.calls += 1
                cluster.tell(gone, Call(self.calls, CloseSessionOp(), 3_000))
        elif dice < 0.75:
            self._alone(chance.choice(("n1", "n2")))
        elif dice < 0.77:
            self._late_registration(chance.choice(("n1", "n2")))
        elif dice < 0.80:
            self._late_end(chance.choice(("n1", "n2")))
        cluster.advance(chance.choice((0, 1, 5, 20, 60, 200, 400)))

    def _alone(self, name: str) -> None:
        """A node can't be heard for a while."""
        self.cluster.wire.cut(f"node/{name}", DIRECTORY)
        self.cluster.advance(self.chance.choice((300, 2_000, 5_500)))
        self.cluster.wire.heal(f"node/{name}", DIRECTORY)

    def _late_registration(self, name: str) -> None:
        """A second copy of an earlier `Register` arrives after the lease has ended, and the node does not hear the answer: the
        directory has a registration that its own node has not heard of."""
        cluster = self.cluster
        wire, config = cluster.wire, cluster.node(name).config
        if not cluster.was_registered(name):
            return
        wire.cut(config.address, DIRECTORY)
        cluster.advance(2_500)
        state = cluster.node(name).state
        boot = f"{name}-{cluster.boots[name]}"
        cluster.deliver(Register(config.name, boot, config.address, config.capacity, fills(state), config.stores))
        wire.heal(config.address, DIRECTORY)

    def _late_end(self, name: str) -> None:
        """An `EndWrite` arrives for a copy that is there already, and the node says that it is sealed: best for one that was
        fetched, of which it has said that in other words."""
        state = self.cluster.node(name).state
        there = sorted((copy.writer != "", copy.copy) for copy in state.copies.values() if phase(state, copy) == "verified")
        if there:
            end = EndWrite(client_name(1), "again", there[0][1], MANIFEST)
            self.cluster.deliver(end, f"node/{name}")

    def _op(self) -> Any:
        chance, state = self.chance, self.cluster.state
        node = NodeName(chance.choice(("n1", "n2")))
        copies = state.copies.get(SPEC.group, ())
        group = state.groups.get(SPEC.group)
        kind = chance.choice(KINDS)
        if kind == "put":
            return PutGroup(SPEC, CHECKSUMS, node=node, keep_pin=chance.random() < 0.2)
        if kind == "create":
            return Do(commands.Create(SPEC, node, request="r"))
        if kind == "get":
            return GetGroup(SPEC.group, near=node)
        if kind == "move":
            return Do(commands.Move(SPEC.group, node, allow_pinned=chance.random() < 0.5))
        if kind == "cancel" and group is not None:
            return Do(commands.CancelMove(SPEC.group, group.target))
        if kind == "replicate":
            return Do(commands.Replicate(SPEC.group, node))
        if kind == "drop" and copies:
            return Do(commands.DropReplica(SPEC.group, chance.choice(copies).id))
        if kind in ("evict", "wait"):
            return Do(commands.Evict(SPEC.group, wait=kind == "wait"))
        if kind == "ref":
            return Do(commands.Ref(SPEC.group, request="r"))
        if kind == "pin":
            return Do(commands.Pin(SPEC.group, near=node, request="r"))
        return self._release()

    def _release(self) -> Any:
        holds = sorted(self.cluster.state.holds)
        if not holds or self.chance.random() < 0.4:
            return Do(commands.ReleaseRequest("r"))
        hold = self.cluster.state.holds[self.chance.choice(holds)]
        return Do(commands.Unpin(hold.id) if hold.kind is HoldKind.PIN else commands.Unref(hold.id))


# ---- as a module of TLA+ -------------------------------------------------------------------------------------


def written(value: Any) -> str:
    """A value as TLA+ text."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "<<" + ", ".join(written(one) for one in value) + ">>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(written(one) for one in sorted(value)) + "}"
    return str(value)


def module_of(traces: list[list[Event]]) -> str:
    rows = ["<<" + ",\n".join(written((e.name, e.arguments, e.observed or ())) for e in events) + ">>" for events in traces]
    return "---- MODULE pinfold_traces ----\nEXTENDS Naturals\nTraces == <<\n" + ",\n".join(rows) + "\n>>\n====\n"


SETTINGS = TRACED.settings("INVARIANT Safe").replace("SPECIFICATION Spec", "SPECIFICATION TSpec")


def judge(traces: list[list[Event]], folder: Path) -> tuple[set[int], tlc.Verdict]:
    """Which traces (from 0) are behaviours of the model."""
    root = TRACED.module().replace("EXTENDS pinfold", "EXTENDS pinfold_trace")
    tlc.lay_out(folder, traced__tla=root, traced__cfg=SETTINGS, pinfold_traces__tla=module_of(traces))
    verdict = tlc.run(folder, "traced")
    accepted = {int(number) - 1 for number in re.findall(r'<<"ACCEPTED", (\d+)>>', verdict.text)}
    return accepted, verdict


@define
class Judged:
    """The result of a batch. `names` counts the actions in accepted traces."""

    traces: int = 0
    events: int = 0
    accepted: int = 0
    seconds: float = 0.0
    names: dict[str, int] = field(factory=dict)
    spoilt_at: int = 0
    refused_at: int = 0
    differences: list[str] = field(factory=list)


def spoil(events: list[Event]) -> tuple[list[Event], int]:
    """The trace with one observation wrong, somewhere in its second half: which event that is, from 1."""
    for at in range(len(events) // 2, len(events)):
        event = events[at]
        if event.observed is not None and isinstance(event.observed[0], str):
            seen = (*event.observed[:2], event.observed[2] + 1, *event.observed[3:])
            return [*events[:at], Event(event.name, event.arguments, seen), *events[at + 1 :]], at + 1
    raise ValueError("no step of the directory in the second half of the trace")


def validate(count: int, events_max: int, folder: Path, seed: int = 1) -> Judged:
    """Record, spoil one, judge all."""
    begun = time.monotonic()
    result = Judged()
    recorded = [record(seed + at, events_max) for at in range(count)]
    batch = [trace.events for trace in recorded if len(trace.events) >= 2]
    longest = max(range(len(batch)), key=lambda at: len(batch[at]))
    spoilt, result.spoilt_at = spoil(batch[longest])
    accepted, verdict = judge([*batch, spoilt], folder)
    if verdict.violated:
        told = verdict.text[verdict.text.index("Error:") :][:6000]
        result.differences.append(f"a recorded trace violates {verdict.violated}:\n{told}")
    result.traces, result.events = len(batch), sum(len(events) for events in batch)
    result.accepted = len(accepted - {len(batch)})
    for at in sorted(accepted - {len(batch)}):
        for event in batch[at]:
            result.names[event.name] = result.names.get(event.name, 0) + 1
    if len(batch) in accepted:
        result.differences.append("the spoilt trace was accepted")
    _, alone = judge([spoilt], folder)
    result.refused_at = alone.depth
    if result.refused_at != result.spoilt_at:
        result.differences.append(f"the trace was spoilt at event {result.spoilt_at} and refused at {result.refused_at}")
    for at in [at for at in range(len(batch)) if at not in accepted][:3]:
        _, alone = judge([batch[at]], folder)
        told = "\n".join(f"  {n}: {e.name}{e.arguments} {e.observed}" for n, e in enumerate(batch[at][: alone.depth], 1))
        result.differences.append(f"a recorded trace is no behaviour of the model, at event {alone.depth}:\n{told}")
    result.seconds = time.monotonic() - begun
    return result


