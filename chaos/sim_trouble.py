"""What goes wrong in a simulated cluster: one function per fault, with small numbers as arguments (`sim_actions.POOLS`).

Every fault ends by itself after a while (`LENGTHS`), and counts when it has happened. One that makes no sense in a state (to
crash what is dead) does nothing.
"""

from __future__ import annotations

from typing import Final

from ..backends.memory import Fault
from ..backends.tier import TierFull, TierIo
from ..core.events import QuarantineLifted, WriterUncertain
from ..core.ids import Role, Tier
from . import sim_deposed
from .sim_actions import CALLS, LENGTHS, TWIN, Action, process_of
from .sim_faults import SimTier
from .sim_member import Member
from .sim_model import CLIENTS, Run
from .sim_shape import DIRECTORY, STORMS

LOST, REPEATED, LATE, CUT = "messages lost", "messages repeated", "messages overtaken", "messages cut off"

JUMPS: Final = (-2_000, -200, 200, 1_200, 3_000, 8_000)
"""By how much a clock is put back or forward, in ms."""

SLOW_WORK_MS: Final = 600
SLOW_COMMIT_MS: Final = 600


# ---- the wire ----------------------------------------------------------------------------------------------------


def storm(run: Run, storm: int, length: int) -> None:
    """The wire is worse (or better) for a while."""
    run.world.wire.set_all_faults(STORMS[storm])
    run.world.after(LENGTHS[length], lambda: run.world.wire.set_all_faults(run.world.shape.wire))


def cut(run: Run, node: int, kind: int, peer: int, length: int) -> None:
    """A node from the directory, from another node, from a client."""
    _cut(run, *_ends(run, node, kind, peer), length)


def cut_one_way(run: Run, node: int, kind: int, peer: int, flag: int, length: int) -> None:
    """As `cut`, but one of the two still hears the other."""
    one, other = _ends(run, node, kind, peer)
    _cut(run, *((one, other) if flag else (other, one)), length, one_way=True)


def cut_client(run: Run, client: int, length: int) -> None:
    _cut(run, CLIENTS[client], DIRECTORY, length)


def _ends(run: Run, node: int, kind: int, peer: int) -> tuple[str, str]:
    names = [f"node/{name}" for name in run.world.shape.names]
    return names[node % len(names)], (DIRECTORY, names[peer % len(names)], *CLIENTS)[kind]


def _cut(run: Run, one: str, other: str, length: int, one_way: bool = False) -> None:
    run.world.counts.note("partitions one way" if one_way else "partitions")
    run.world.wire.cut(one, other, one_way=one_way)
    run.world.after(LENGTHS[length], lambda: run.world.wire.heal(one, other))


# ---- processes ---------------------------------------------------------------------------------------------------


def crash_node(run: Run, node: int, length: int) -> None:
    member = process_of(run, node)
    if member is not None:
        _node_dies(run, member, length)


def _node_dies(run: Run, member: Member, length: int) -> None:
    run.world.counts.note("node crashes")
    run.world.crash_node(member.address)

    def start() -> None:
        if member.address not in run.world.members and not member.address.endswith("x"):
            run.world.start_node(member.machine.config.name)

    run.world.after(LENGTHS[length], start)


def twin(run: Run, kind: int, length: int) -> None:
    """A second process calls itself n1."""
    if kind == 0 and TWIN not in run.world.members:
        run.world.counts.note("second processes of one name")
        run.world.start_node("n1", TWIN)
        run.world.after(LENGTHS[length], lambda: run.world.crash_node(TWIN) if TWIN in run.world.members else None)


def crash_directory(run: Run, length: int, which: int) -> None:
    """Now and then the first commit after its return fails, so that it is down again at once."""
    if run.world.directory is None:
        return
    run.world.counts.note("directory crashes")
    run.world.crash_directory()

    def start() -> None:
        if which < 2 and run.world.directory is None:
            run.world.store.inject((Fault.UNKNOWN_DONE, Fault.UNKNOWN_LOST)[which])
        run.world.revive_directory()

    run.world.after(LENGTHS[length], start)


def depose(run: Run, length: int) -> None:
    """A second directory starts on the store; the first does not know it, and is heard for a while."""
    world = run.world
    if world.directory is None or world.deposed is not None or world.store.is_faulty:
        return
    world.counts.note("directories deposed")
    sim_deposed.depose(world)
    world.after(LENGTHS[length], lambda: setattr(world, "deposed", None))


def client_dies(run: Run, client: int, length: int) -> None:
    """With all that it holds. Another life comes later; that of `client/b` resumes its session, and knows its holds."""
    name = CLIENTS[client]
    if name not in run.world.members:
        return
    run.world.counts.note("client crashes")
    run.world.crash_client(name)
    run.asked = {number: asked for number, asked in run.asked.items() if asked.client != name}
    if client == 0:
        run.kept[name].clear()
    run.moves[name].clear()
    run.seen[name] = (0, 0)
    run.world.after(LENGTHS[length], lambda: None if name in run.world.members else run.world.start_client(name))


def dies_speaking(run: Run, kind: int, node: int, which: int, length: int) -> None:
    """The directory (after its commit), a node or a client dies between two of its outputs: some have left, others never will."""
    if kind == 0:
        member = run.world.members.get(DIRECTORY)
    else:
        member = process_of(run, node) if kind == 1 else run.world.members.get(CLIENTS[kind - 2])
    if member is None:
        return
    dying = member

    def death() -> None:
        if kind == 0:
            crash_directory(run, length, which)
        elif kind == 1:
            _node_dies(run, dying, length)
        else:
            client_dies(run, kind - 2, length)

    dying.fuse.left, dying.death = which % 4, death


def pause_node(run: Run, node: int, length: int) -> None:
    member = process_of(run, node)
    if member is not None:
        _pause(run, member, length)


def pause_other(run: Run, kind: int, length: int) -> None:
    """The directory (which loses no input by it) or a client."""
    member = run.world.members.get((DIRECTORY, *CLIENTS, DIRECTORY)[kind])
    if member is not None:
        _pause(run, member, length)


def _pause(run: Run, member: Member, length: int) -> None:
    if member.paused_at is None:
        run.world.pause(member)
    run.world.after(LENGTHS[length], lambda: run.world.resume(member))


def clock_jumps(run: Run, node: int, which: int) -> None:
    """Somebody's clock is put back or forward."""
    members = list(run.world.members.values())
    if not members:
        return
    run.world.counts.note("clocks put back" if JUMPS[which % len(JUMPS)] < 0 else "clocks put forward")
    members[(3 * which + node) % len(members)].clock.set(run.world.now, jump=JUMPS[which % len(JUMPS)])


# ---- the metadata store ------------------------------------------------------------------------------------------


def commit_fault(run: Run, kind: int) -> None:
    """Refused once (tried again), refused for good, or nobody can tell."""
    faults = ((Fault.REFUSED,), (Fault.REFUSED,) * 3, (Fault.UNKNOWN_DONE,), (Fault.UNKNOWN_LOST,))[kind]
    if run.world.directory is not None:
        run.world.store.inject(*faults)


def store_is_full(run: Run, length: int) -> None:
    """No commit happens until there is room again, soon; each that is tried ends a term."""
    run.world.store.full = True
    run.world.after(LENGTHS[length % 5], lambda: setattr(run.world.store, "full", False))


def slow_commits(run: Run, length: int) -> None:
    run.world.commit_ms = SLOW_COMMIT_MS
    run.world.after(LENGTHS[length], lambda: setattr(run.world, "commit_ms", run.world.shape.commit_ms))


# ---- bytes -------------------------------------------------------------------------------------------------------


def tier_fails(run: Run, node: int, tier: int, kind: int, which: int) -> None:
    """The next operations of one kind fail; they have done nothing."""
    target = _tier(run, node, tier)
    if target is not None:
        operation = ("write", "verify", "load", "release")[kind]
        target.fail(operation, TierFull("full") if kind == 0 and which % 2 else TierIo("no"), times=1 + which % 3)


def damage(run: Run, node: int, tier: int, which: int, flag: int) -> None:
    """Bytes are corrupted, or the medium has lost them: mostly those that somebody is going to read."""
    target = _tier(run, node, tier)
    copies = () if target is None else target.copies()
    if target is None or not copies:
        return
    if which % 4 and run.world.directory is not None:
        listed = run.world.directory.state.copies.values()
        owned = {copy.id for copies_of in listed for copy in copies_of if copy.role is Role.AUTHORITATIVE}
        copies = tuple(copy for copy in copies if copy in owned) or copies
    copy = copies[which % len(copies)]
    run.world.damaged[copy] = None
    run.world.counts.note("copies rotted" if flag else "copies lost by their medium")
    if flag:
        target.corrupt(copy)
    else:
        target.lose(copy)


def slow_work(run: Run, node: int, length: int) -> None:
    """A node's byte work takes long."""
    member = process_of(run, node)
    if member is not None and member.work is not None:
        work = member.work
        work.most_ms = SLOW_WORK_MS
        run.world.after(LENGTHS[length], lambda: setattr(work, "most_ms", run.world.shape.work_ms))


def uncertain(run: Run, node: int, which: int) -> None:
    """A late writer can't be ruled out; later it can."""
    member = process_of(run, node)
    if member is None:
        return
    quarantined = list(member.machine.state.quarantine)
    copies = list(member.machine.state.copies)
    if quarantined and which % 2:
        run.world.step(member, QuarantineLifted(quarantined[which % len(quarantined)]))
    elif copies:
        run.world.counts.note("writers uncertain")
        run.world.step(member, WriterUncertain(copies[which % len(copies)]))


def _tier(run: Run, node: int, tier: int) -> SimTier | None:
    member = process_of(run, node)
    if member is None:
        return None
    return (member.tiers[Tier.DRAM], member.tiers[Tier.SSD], run.world.remote)[tier]


FAULTS: Final[dict[Action, int]] = {
    storm: 1, crash_node: 2, twin: 2, pause_node: 1, pause_other: 1, cut: 2, cut_one_way: 1, cut_client: 1, crash_directory: 1,
    depose: 1, client_dies: 1, dies_speaking: 1, clock_jumps: 1, commit_fault: 1, store_is_full: 1, slow_commits: 1,
    tier_fails: 2, damage: 1, slow_work: 1, uncertain: 1,
}  # fmt: skip
"""How often something goes wrong, where it goes wrong as often as usual."""

SHOWS: Final[dict[Action, tuple[str, ...]]] = {
    storm: (LOST, REPEATED, LATE),
    cut: ("partitions", CUT),
    cut_one_way: ("partitions one way", CUT),
    cut_client: ("partitions", CUT),
    crash_node: ("node crashes",),
    crash_directory: ("directory crashes",),
    depose: ("directories deposed", "words of a deposed directory", "deposed directories stopped by the store"),
    client_dies: ("client crashes",),
    dies_speaking: ("deaths between two outputs",),
    twin: ("second processes of one name",),
    pause_node: ("pauses", "pauses longer than a lease", "lapses and returns in one boot"),
    pause_other: ("pauses",),
    clock_jumps: ("clocks put back", "clocks put forward"),
    commit_fault: ("commits refused", "commits done and not known", "commits lost and not known", "terms ended by a commit"),
    store_is_full: ("commits without room",),
    slow_commits: ("commits slow",),
    tier_fails: ("tier write failed", "tier verify failed", "tier load failed", "tier release failed", "tiers full"),
    damage: ("copies rotted", "rotten bytes found", "copies lost by their medium"),
    slow_work: ("byte work slow",),
    uncertain: ("writers uncertain",),
}
"""What each fault counts as once it has happened (`sim_faults.Counts`)."""

ACTIONS: Final[dict[str, Action]] = {action.__name__: action for action in (*CALLS, *FAULTS)}
