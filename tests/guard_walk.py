"""Every shape of a record, spoilt in every way, against every command and report: which guards say no.

A shape brings one group into a state of the table, by real commands and reports. A spoiler makes one thing about it wrong or
different. Then each event that names the group is given to a copy of that directory, on its own. A no changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pinfold.core import commands as c
from pinfold.core import reports
from pinfold.core.answers import Answered, Refused
from pinfold.core.events import Tick
from pinfold.core.ids import MovePolicy, NodeName, Reason, Role, Tier
from pinfold.core.invariants import check_all, check_progress
from pinfold.core.records import evolve
from pinfold.core.reports import Condition
from pinfold.core.state import FACTS, LEASES, StoreSpec

from .directory_world import (
    MANIFEST,
    N1,
    N2,
    N3,
    OTHER_MANIFEST,
    STORE,
    World,
    entry,
    id_of,
    spec_of,
)

OTHER_STORE: Final = NodeName("s2")
A: Final = id_of("A")
GRACE_MS: Final = 3_400
BACKOFF_MS: Final = 10


def local(w: World) -> None:
    w.put("A")


def writing(w: World) -> None:
    w.create("A")


def rewritten(w: World) -> None:
    """Written anew while a pinned old copy is still there."""
    w.put("A")
    w.pin("A")
    w.lapse(N1)
    w.create("A", N2)


def replicated(w: World) -> None:
    w.put("A")
    w.replica("A", N2)


def replicated_owner_away(w: World) -> None:
    """The only copy that can be read is a replica of a referred group."""
    replicated(w)
    w.ref("A")
    w.lapse(N1)


def moving_out(w: World) -> None:
    w.put("A")
    w.move("A", N2)


def moving_with_replica(w: World) -> None:
    replicated(w)
    w.do(c.Move(A, N3))


def moved(w: World) -> None:
    """The source is retiring."""
    w.put("A")
    w.moved("A", N2)


def moved_under_a_pin(w: World) -> None:
    w.put("A")
    w.pin("A")
    w.moved("A", N2, allow_pinned=True)


def uploaded(w: World) -> None:
    """The source is retiring."""
    w.put("A")
    w.moved("A", STORE)


def remote(w: World) -> None:
    uploaded(w)
    source = w.state.copies[A][0].id
    w.advance(GRACE_MS + 500)
    w.freed(source)


def remote_with_replica(w: World) -> None:
    remote(w)
    w.replica("A", N2)


def moving_in(w: World) -> None:
    remote(w)
    w.move("A", N3)


def moving_in_with_replica(w: World) -> None:
    remote_with_replica(w)
    w.move("A", N3)


def moving_on(w: World) -> None:
    """On to a third node while the first source is still retiring."""
    moved(w)
    w.now += BACKOFF_MS
    w.move("A", N3)


def retired_source_comes_back(w: World) -> None:
    """A retiring source was away when the authoritative copy was lost under a move into a node."""
    uploaded(w)
    w.lapse(N1)
    w.move("A", N3)
    w.report(N2, reports.CopyLost(next(copy.id for copy in w.state.copies[A] if copy.store), Reason.LOST))
    w.register(N1)


def moving_in_lost_and_found(w: World) -> None:
    """The source is lost under a move, and then a replica is there that was on its way."""
    moving_in_replica_coming(w)
    source_lost(w)
    w.done(next(copy.id for copy in w.state.copies[A] if copy.node == N2))


def moving_out_lost_and_found(w: World) -> None:
    moving_replica_coming(w)
    source_lost(w)
    w.done(next(copy.id for copy in w.state.copies[A] if copy.node == N2))


def replica_coming(w: World) -> None:
    w.put("A")
    w.do(c.Replicate(A, N2))


def remote_replica_coming(w: World) -> None:
    remote(w)
    w.do(c.Replicate(A, N2))


def moving_replica_coming(w: World) -> None:
    replica_coming(w)
    w.do(c.Move(A, N3))


def moving_in_replica_coming(w: World) -> None:
    remote_replica_coming(w)
    w.do(c.Move(A, N3))


def evicting(w: World) -> None:
    w.put("A")
    w.do(c.Evict(A))


def evicting_late(w: World) -> None:
    """Evicted while its source is retiring under a pin."""
    moved_under_a_pin(w)
    w.do(c.Evict(A))


def evicted(w: World) -> None:
    evicting(w)
    w.freed(w.state.copies[A][0].id)


SHAPES: Final[tuple[Callable[[World], None], ...]] = (
    local, writing, rewritten, replicated, replicated_owner_away, moving_out, moving_with_replica, moved,
    moved_under_a_pin, uploaded, remote, remote_with_replica, moving_in, moving_in_with_replica, replica_coming,
    remote_replica_coming, moving_replica_coming, moving_in_replica_coming, moving_on, retired_source_comes_back,
    moving_in_lost_and_found, moving_out_lost_and_found, evicting, evicting_late, evicted,
)  # fmt: skip


# ---- spoilers ------------------------------------------------------------------------------------------------


def as_it_is(w: World) -> None:
    pass


def pinned(w: World) -> None:
    w.do(c.Pin(A))


def referred(w: World) -> None:
    w.do(c.Ref(A))


def leaving(w: World) -> None:
    """An eviction waits for a hold."""
    w.do(c.Ref(A))
    w.do(c.Evict(A, wait=True))


def full(w: World) -> None:
    """No room at any node."""
    for name in (N1, N2, N3):
        for at in range(w.state.nodes[name].capacity - w.state.used.get(name, 0) if w.state.nodes[name].alive else 0):
            w.do(c.Create(spec_of(f"{name}-{at}"), name))


def _away(name: NodeName) -> Callable[[World], None]:
    def lapsed(w: World) -> None:
        if w.state.nodes[name].alive:
            w.lapse(name)

    lapsed.__name__ = f"{name}_away"
    return lapsed


def failed(w: World) -> None:
    """What is being made fails: the next move is too soon."""
    for copy in w.state.copies.get(A, ()):
        if copy.role is Role.INCOMING:
            w.failed(copy.id)


def source_lost(w: World) -> None:
    for copy in w.state.copies.get(A, ()):
        if copy.role is Role.AUTHORITATIVE:
            w.lost(copy.id)


SPOILERS: Final[tuple[Callable[[World], None], ...]] = (
    as_it_is, pinned, referred, leaving, full, _away(N1), _away(N2), _away(N3), failed, source_lost,
)  # fmt: skip


# ---- events --------------------------------------------------------------------------------------------------


def bodies(w: World) -> Iterator[c.Body]:
    """Commands about the group."""
    for target in (N1, N2, N3, STORE, OTHER_STORE):
        yield c.Move(A, target)
        yield c.Move(A, target, True)
        yield c.Move(A, target, expected_epoch=1)
        yield c.Replicate(A, target)
    for policy in MovePolicy:
        for near in (N1, N2, STORE):
            yield c.Pin(A, near=near, policy=policy)
    yield c.Ref(A)
    yield c.Create(spec_of("A"), N1)
    for wait in (False, True):
        yield c.Evict(A, wait=wait)
        yield c.Evict(A, 1, wait)
    for copy in w.state.copies.get(A, ()):
        yield c.Pin(A, copy=copy.id)
        yield c.DropReplica(A, copy.id)
        yield c.CancelMove(A, copy.id)


def facts(w: World) -> Iterator[tuple[NodeName, reports.Fact]]:
    """What nodes may say about each of its copies, true or not."""
    for copy in w.state.copies.get(A, ()):
        speaker = N1 if copy.store else copy.node
        for manifest in (MANIFEST, OTHER_MANIFEST, b""):
            yield speaker, reports.Sealed(copy.id, manifest)
            yield speaker, reports.CopyDone(copy.id, manifest)
        yield speaker, reports.CopyFailed(copy.id, Reason.FAILED)
        yield speaker, reports.Freed(copy.id)
        yield speaker, reports.CopyLost(copy.id, Reason.LOST)
        yield speaker, reports.TierChanged(copy.id, Tier.SSD)


def happenings(w: World) -> Iterator[tuple[Any, int]]:
    """`(event, how many ms later)`."""
    for body in bodies(w):
        yield w.command(body), 0
    for name, fact in facts(w):
        yield reports.Report(name, w.state.nodes[name].incarnation, (fact,)), 0
    number = max(w.state.numbers.values(), default=0)
    for name, node in w.state.nodes.items():
        for condition in (Condition.VERIFIED, Condition.RESERVED, Condition.FREEING, None):
            listed = w.state.copies_at.get(name, {})
            entries = () if condition is None else tuple([entry(copy, condition) for copy in listed])
            yield reports.Inventory(name, node.incarnation, w.state.meta.term, number, 1_000, 0, 1, entries), 0
    for late in (0, 1_000):
        yield Tick(), late


# ---- the walk ------------------------------------------------------------------------------------------------


def walk() -> int:
    """Everything; how many events were given. Each is checked: all invariants, nothing goes back, a no changes no record."""
    steps = 0
    for shape in SHAPES:
        for spoil in SPOILERS:
            w = World(N1, N2, N3, capacity=3, stores=3, grace_ms=GRACE_MS, backoff_ms=BACKOFF_MS, absent_limit_ms=10_000)
            w.config = w.directory.config = evolve(w.config, stores=(*w.config.stores, StoreSpec(OTHER_STORE, 3)))
            shape(w)
            spoil(w)
            steps += _all_events(w)
    return steps


def _all_events(w: World) -> int:
    steps = 0
    for event, later in happenings(w):
        directory = w.directory.copy()
        ready = directory.step(event, w.now + later)
        check_all(directory.state, w.config)
        check_progress(w.state, directory.state)
        steps += 1
        for reply in ready.reply:
            if isinstance(reply.message, Answered) and isinstance(reply.message.answer, Refused):
                for name in set(FACTS) - {"answers", *LEASES}:
                    assert getattr(directory.state, name) == getattr(w.state, name), f"REFUSE-1: {event} changed {name}"
    return steps
