"""How a run ends (LIVE-1): faults stop, every process runs or is gone, callers give back what they have; then, within bounded
virtual time, nothing is left over anywhere, and what must be readable is."""

from __future__ import annotations

from typing import Any

from ..core import commands as c
from ..core.audit import audit
from ..core.calls import CloseSessionOp, Do, Done, ReadRoute
from ..core.client_state import SessionPhase
from ..core.directory import Directory
from ..core.ids import HoldKind, NodeName, Role, SessionId, Tier
from ..core.state import DirectoryState
from . import history_check
from .sim_checks import broken, same_facts
from .sim_model import CLIENTS, Kept, Run
from .sim_shape import STORE

SETTLE_MS = 15_000
"""Leases, absence, deadlines, back-off: all of it is over by then."""

OPERATOR = "client/a"


def finish(run: Run) -> None:
    """Heal, wait, compare; release, wait, compare; close, wait, compare."""
    run.world.heal()
    run.world.advance(1_000)  # what was on its way arrives; words of the dead may still fence somebody
    run.world.replace_fenced()
    for client in CLIENTS:
        if client not in run.world.members:
            run.world.start_client(client)
    for name in run.world.shape.names:
        run.ask(OPERATOR, Do(c.Drain(NodeName(name), False)), 5_000)
    _until(run, "every call is answered, every job has ended", _calm)
    holds_agree(run)
    read_what_is_held(run)
    release_everything(run)
    _until(run, "all that was held is given back", _released)
    close_sessions(run)
    _until(run, "nothing is left over", _at_rest)
    _same_as_store(run)
    _bytes_are_those_of_records(run)
    _clients_were_told_a_history(run)


def _until(run: Run, what: str, ready: Any) -> None:
    """Let time pass until `ready` has nothing to say; what it says at the end is what was not reached."""
    end = run.world.now + SETTLE_MS
    while wrong := ready(run):
        if run.world.now >= end:
            raise broken("LIVE-1", f"not reached within {SETTLE_MS} ms: {what}: {wrong[:6]}")
        run.world.advance(250)


def _state(run: Run) -> DirectoryState:
    assert run.world.directory is not None
    return run.world.directory.state


# ---- what must become true ---------------------------------------------------------------------------------------


def _calm(run: Run) -> list[str]:
    """No call, no command or message in the background, no copy job; every node is registered and has told what it has."""
    wrong = [f"call {number} {asked.op}" for number, asked in run.asked.items()]
    for member in run.world.clients():
        state = member.machine.state
        if state.numbers or state.releases or state.queue:
            wrong.append(f"{member.address} still has {len(state.numbers)} numbers and {len(state.releases)} releases")
        if state.holds and state.session.phase is not SessionPhase.OPEN:
            wrong.append(f"{member.address} has holds and no session")
    directory = _state(run)
    for member in run.world.nodes():
        node = member.machine
        if node.state.fenced:
            raise broken("LIVE-1", f"{node.boot} was fenced off, and nobody else has its name")
        record = directory.nodes.get(node.config.name)
        link = directory.links.get(node.config.name)
        if record is None or record.boot != node.boot or link is None or not link.ready:
            wrong.append(f"{node.boot} is not ready")
        if node.state.jobs or node.state.works:
            wrong.append(f"{node.boot} still works: {[*node.state.jobs.values(), *node.state.works.values()]}")
    moving = [group for group in directory.groups.values() if group.target.revision >= 0]
    return wrong + [f"group {group.id.hex()[:6]} is {group.state.name}" for group in moving]


def _released(run: Run) -> list[str]:
    directory = _state(run)
    wrong = _calm(run)
    for member in run.world.clients():
        session = member.machine.state.session.session
        left = directory.held.get(SessionId(session), ())
        if run.world.boots[member.address] == 1 or not member.machine.config.session_name:
            wrong += [f"{member.address} gave everything back and still has {hold}" for hold in left]
    return wrong


def _at_rest(run: Run) -> list[str]:
    directory = _state(run)
    nodes = {member.machine.config.name: member.machine.inventory() for member in run.world.nodes()}
    wrong = [f"{one.invariant} {one.what}" for one in audit(directory, nodes, run.world.config)]
    wrong += [f"session {session} has not ended" for session in directory.sessions]
    wrong += [f"{waiter} waits" for waiter in directory.waiters]
    for member in run.world.nodes():
        wrong += _space_adds_up(directory, member.machine)
    if run.world.shape.with_store:
        listed, there = set(directory.copies_at.get(STORE, ())), set(run.world.remote.copies())
        wrong += [f"the store has {copy}, which is in no record" for copy in sorted(there - listed)]
        wrong += [f"the store lacks {copy}" for copy in sorted(listed - there)]
    return wrong


def _space_adds_up(directory: DirectoryState, node: Any) -> list[str]:
    """CAP-1: at rest both sides count the same."""
    used = sum(slots.used for slots in node.state.slots.values())
    quarantined = sum(slots.quarantined for slots in node.state.slots.values())
    name = node.config.name
    link = directory.links[name]
    told = sum(fill.quarantined for fill in link.tiers)
    counted = directory.used.get(name, 0)
    if used != counted + quarantined or told != quarantined:
        return [f"CAP-1 {name} uses {used} ({quarantined} quarantined), the directory counts {counted} and {told}"]
    return []


# ---- holds -------------------------------------------------------------------------------------------------------


def holds_agree(run: Run) -> None:
    """HOLD-1, HOLD-2: callers, client machines and the directory know the same holds."""
    directory = _state(run)
    for member in run.world.clients():
        machine, client = member.machine, member.address
        if run.world.boots[client] > 1 and machine.config.session_name:
            continue  # an earlier life's holds are its session's, and only that life knew them all
        session = SessionId(machine.state.session.session)
        live = {hold for hold in directory.held.get(session, ()) if not directory.holds[hold].lost}
        known = set(machine.state.holds)
        if live != known - set(directory.lost.get(session, ())):
            raise broken("HOLD-1", f"{client} has {sorted(known)}, the directory has {sorted(live)}")
        given = {kept.hold for kept in run.kept[client].values()}
        if known - given:
            raise broken("HOLD-1", f"{client}'s machine holds what no caller was given: {sorted(known - given)}")


def read_what_is_held(run: Run) -> None:
    """A pinned copy whose node lives can be read: with the bytes that were sealed, as every read is compared."""
    directory = _state(run)
    reads: dict[int, tuple[str, Kept]] = {}
    outcomes: dict[Any, Any] = {}
    told = run.world.on_reply

    def listen(client: str, number: Any, outcome: Any) -> None:
        outcomes[number] = outcome
        told(client, number, outcome)

    def read(client: str, kept: Kept) -> None:
        assert kept.route is not None
        reads[run.ask(client, ReadRoute(kept.route), 5_000)] = (client, kept)

    def left(run: Run) -> list[str]:
        for number in [number for number in reads if number in outcomes]:
            client, kept = reads.pop(number)
            outcome = outcomes[number]
            if isinstance(outcome, Done) or not _is_readable(_state(run), run, kept):
                continue
            if outcome.refusal.reason not in ("BreakerOpen", "Unreachable"):  # the client's own patience with the node
                raise broken("HOLD-1", f"{kept.copy} is pinned by {kept.hold}, and can't be read: {outcome}")
            read(client, kept)
        return [f"{kept.copy} is not read by {client}" for client, kept in reads.values()]

    run.world.on_reply = listen
    for client in CLIENTS:
        for kept in list(run.kept[client].values()):
            if _is_readable(directory, run, kept):
                read(client, kept)
    _until(run, "pinned copies are read", left)
    run.world.on_reply = told


def _is_readable(directory: DirectoryState, run: Run, kept: Kept) -> bool:
    """Whether the holder of a PIN may rely on the copy's bytes."""
    hold = directory.holds.get(kept.hold)
    if kept.route is None or not kept.route.address or hold is None or hold.lost:
        return False
    copy = next(copy for copy in directory.copies[kept.group] if copy.id == kept.copy)
    return copy.role is not Role.INCOMING and not copy.absent and copy.id not in run.world.damaged


def release_everything(run: Run) -> None:
    """Every caller gives back what it was given, and asks again where it was refused for now; the engine's process ends."""
    run.engine_exits()

    def left(run: Run) -> list[str]:
        under_way = {getattr(getattr(asked.op, "body", None), "hold", None) for asked in run.asked.values()}
        for client in CLIENTS:
            for kept in [kept for kept in run.kept[client].values() if kept.hold not in under_way]:
                kept.releasing = True
                body = c.Unpin(kept.hold) if kept.kind is HoldKind.PIN else c.Unref(kept.hold)
                run.ask(client, Do(body), 5_000)
        return [f"{client} still has {hold}" for client in CLIENTS for hold in run.kept[client]]

    _until(run, "every hold is given back", left)


def close_sessions(run: Run) -> None:
    """One says good-bye; the other just stops."""
    run.ask(CLIENTS[0], CloseSessionOp(), 5_000)
    run.world.advance(500)
    for client in CLIENTS:
        run.world.crash_client(client)
        run.kept[client].clear()
    run.asked.clear()


# ---- stores and bytes --------------------------------------------------------------------------------------------


def _same_as_store(run: Run) -> None:
    """DUR-1: what a restart would find is what the directory has."""
    run.world.flush_directory()
    same_facts(Directory.load(run.world.store.load()), _state(run))


def _clients_were_told_a_history(run: Run) -> None:
    """LIN-1 and all else that `history_check` has: could it have happened?"""
    run.verdict = history_check.check(run.world.recorder.history(complete=True))
    if run.verdict.word == "violated":
        raise broken(run.verdict.violations[0].rule, "\n".join(run.verdict.lines()))


def _bytes_are_those_of_records(run: Run) -> None:
    """No tier keeps bytes that no record knows, nor lacks any that one does."""
    for member in run.world.nodes():
        for tier in (Tier.DRAM, Tier.SSD):
            wanted = {
                copy.copy
                for copy in member.machine.state.copies.values()
                for place in copy.places
                if place.instance.tier is tier
            }
            there = set(member.tiers[tier].copies())
            if not there <= wanted or (wanted - there) - set(run.world.damaged):
                raise broken("CAP-1", f"{member.address} {tier.name} has {sorted(there)}, its records say {sorted(wanted)}")
