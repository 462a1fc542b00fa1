"""What callers do to a simulated cluster: one function per action, with small numbers as arguments (faults: `sim_trouble.py`).

`POOLS` says what each argument may be. An action that makes no sense in a state (to release what nobody holds) does nothing, so
any list of actions is a run, and runs can be shrunk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

from ..core import commands as c
from ..core import requests as r
from ..core.calls import Ask, CancelCall, CloseSessionOp, Do, GetGroup, ReadRoute
from ..core.ids import HoldKind, MovePolicy, NodeName, Peer
from ..core.reports import Condition
from .sim_member import Member
from .sim_model import CLIENTS, ENGINE, GROUPS, LAYOUT, SPECS, Kept, Run
from .sim_shape import STORE, STORMS

POOLS: dict[str, range] = {
    "client": range(len(CLIENTS)),
    "group": range(GROUPS),
    "other": range(GROUPS),
    "node": range(3),
    "peer": range(3),
    "place": range(5),
    "goal": range(4),
    "flag": range(2),
    "policy": range(len(MovePolicy)),
    "which": range(16),
    "timeout": range(4),
    "ms": range(1, 60),
    "pause": range(100, 2_500),
    "kind": range(4),
    "tier": range(3),
    "storm": range(len(STORMS)),
    "length": range(8),
}
TIMEOUTS = (200, 600, 1_500, 4_000)
LENGTHS = (5, 50, 50, 200, 600, 1_500, 3_000, 6_000)
"""How long faults last: shorter and longer than leases."""
QUERY = Peer("")
TWIN = "node/n1x"


def _place(run: Run, place: int) -> NodeName:
    """A node, the store, or nowhere in particular."""
    names = [*map(NodeName, run.world.shape.names), NodeName(""), STORE]
    return names[place % len(names)]


def _goal(run: Run, goal: int) -> NodeName:
    """A node, or the store."""
    names = [*map(NodeName, run.world.shape.names), STORE]
    return names[goal % len(names)]


def process_of(run: Run, node: int) -> Member | None:
    """The process of a node, or its twin's."""
    names = [f"node/{name}" for name in run.world.shape.names]
    return run.world.members.get((*names, TWIN)[node % (len(names) + 1)])


def _kept(run: Run, client: int, which: int) -> Kept | None:
    kept = list(run.kept[CLIENTS[client]].values())
    return kept[which % len(kept)] if kept else None


def _do(run: Run, client: int, body: Any, timeout: int = 2) -> None:
    if CLIENTS[client] in run.world.members:
        run.ask(CLIENTS[client], Do(body), TIMEOUTS[timeout])


def _ask(run: Run, client: int, op: Any, timeout: int = 2) -> None:
    if CLIENTS[client] in run.world.members:
        run.ask(CLIENTS[client], op, TIMEOUTS[timeout])


# ---- callers -----------------------------------------------------------------------------------------------------


def put(run: Run, client: int, group: int, place: int, flag: int, timeout: int) -> None:
    if CLIENTS[client] in run.world.members:
        place = place if _place(run, place) != STORE else 0
        run.put(CLIENTS[client], group, _place(run, place), bool(flag), TIMEOUTS[timeout])


def get(run: Run, client: int, group: int, place: int, policy: int, flag: int, timeout: int) -> None:
    op = GetGroup(
        SPECS[group].group, MovePolicy(policy), _place(run, place), request=run.request(), keep_pin=bool(flag), layout=LAYOUT
    )
    _ask(run, client, op, timeout)


def pin(run: Run, client: int, group: int, policy: int, place: int) -> None:
    _do(run, client, c.Pin(SPECS[group].group, policy=MovePolicy(policy), request=run.request(), near=_place(run, place)))


def pin_prefix(run: Run, client: int, group: int) -> None:
    first = group - group % 3
    _do(run, client, c.PinPrefix(tuple(spec.group for spec in SPECS[first : first + 3]), run.request()))


def ref(run: Run, client: int, group: int) -> None:
    _do(run, client, c.Ref(SPECS[group].group, run.request()))


def release(run: Run, client: int, which: int) -> None:
    kept = _kept(run, client, which)
    if kept is not None and CLIENTS[client] in run.world.members:
        again, kept.releasing = kept.releasing, True
        if not again or which % 4 == 0:
            _do(run, client, c.Unpin(kept.hold) if kept.kind is HoldKind.PIN else c.Unref(kept.hold))


def release_request(run: Run, client: int, which: int) -> None:
    kept = _kept(run, client, which)
    _do(run, client, c.ReleaseRequest(kept.request if kept is not None else run.request()))


def create(run: Run, client: int, group: int, place: int) -> None:
    """A writer that never writes."""
    _do(run, client, c.Create(SPECS[group], NodeName("") if _place(run, place) == STORE else _place(run, place)))


def move(run: Run, client: int, group: int, goal: int, flag: int) -> None:
    _do(run, client, c.Move(SPECS[group].group, _goal(run, goal), allow_pinned=bool(flag)))


def cancel_move(run: Run, client: int, which: int) -> None:
    moves = list(run.moves[CLIENTS[client]].items())
    if moves:
        _do(run, client, c.CancelMove(*moves[which % len(moves)]))


def replicate(run: Run, client: int, group: int, goal: int) -> None:
    _do(run, client, c.Replicate(SPECS[group].group, _goal(run, goal)))


def drop_replica(run: Run, client: int, group: int, which: int) -> None:
    directory = run.world.directory
    copies = () if directory is None else directory.state.copies.get(SPECS[group].group, ())
    if copies:
        _do(run, client, c.DropReplica(SPECS[group].group, copies[which % len(copies)].id))


def evict(run: Run, client: int, group: int, flag: int) -> None:
    _do(run, client, c.Evict(SPECS[group].group, wait=bool(flag)))


def batch(run: Run, client: int, group: int, other: int, which: int) -> None:
    kept = _kept(run, client, which)
    items: list[Any] = [c.Ref(SPECS[group].group, run.request()), c.Pin(SPECS[other].group, request=run.request())]
    if kept is not None and kept.kind is HoldKind.PIN:
        kept.releasing = True
        items.append(c.Unpin(kept.hold))
    _do(run, client, c.Batch(tuple(items)))


def drain(run: Run, client: int, node: int, flag: int) -> None:
    names = run.world.shape.names
    _do(run, client, c.Drain(NodeName(names[node % len(names)]), bool(flag)))


def locate(run: Run, client: int, group: int, flag: int) -> None:
    groups = tuple(spec.group for spec in SPECS[group:])
    _ask(run, client, Ask(c.Locate(QUERY, "", groups, prefix=bool(flag))))


def look(run: Run, client: int, group: int, kind: int) -> None:
    of = SPECS[group].group
    queries = (c.Describe(QUERY, "", of), c.ListGroups(QUERY, ""), c.Status(QUERY, ""), c.Await(QUERY, "", "gone", of))
    _ask(run, client, Ask(queries[kind]))


def read_kept(run: Run, client: int, which: int) -> None:
    """By a route on which the caller has a PIN."""
    kept = _kept(run, client, which)
    if kept is not None and kept.route is not None and kept.route.address:
        _ask(run, client, ReadRoute(kept.route))


def cancel_call(run: Run, client: int, which: int) -> None:
    mine = [number for number, asked in run.asked.items() if asked.client == CLIENTS[client]]
    if mine and CLIENTS[client] in run.world.members:
        run.world.step(run.world.members[CLIENTS[client]], CancelCall(mine[which % len(mine)]))


def close_session(run: Run, client: int, which: int) -> None:
    if which == 0:
        _ask(run, client, CloseSessionOp(), 1)


def guard(run: Run, node: int, which: int) -> None:
    """The engine wants to touch bytes itself."""
    member = process_of(run, node)
    if member is not None:
        copies = [one for one, copy in member.machine.state.copies.items() if copy.condition is Condition.VERIFIED]
        if copies:
            wanted = copies[which % len(copies)]
            run.engine.send(member.address, r.Acquire(ENGINE, run.token(), "process:engine", wanted, stay=which > 12))


def let(run: Run, which: int) -> None:
    guards = list(run.guards.values())
    if guards:
        run.let_go(guards[which % len(guards)])


# ---- time --------------------------------------------------------------------------------------------------------


def advance(run: Run, ms: int) -> None:
    run.world.advance(ms)


def wait(run: Run, pause: int) -> None:
    run.world.advance(pause)


Action = Callable[..., None]

CALLS: dict[Action, int] = {
    put: 16, get: 10, pin: 3, pin_prefix: 1, ref: 2, release: 16, release_request: 4, create: 1, move: 12, cancel_move: 2,
    replicate: 8, drop_replica: 3, evict: 4, batch: 2, drain: 1, locate: 2, look: 1, read_kept: 3, cancel_call: 1,
    close_session: 1, guard: 3, let: 3, advance: 40, wait: 5,
}  # fmt: skip
"""How often the seeded driver does what callers do."""


@cache
def arguments(action: Action) -> dict[str, range]:
    """What the action's arguments may be, in order."""
    return {name: POOLS[name] for name in list(signature(action).parameters)[1:]}
