"""Guards that others hold: processes and peers that touch bytes themselves (rule 6).

A guard names an instance, not just a copy. It is given if the instance is verified (for writing: being filled) and its copy
is not being freed. It ends by `Let`, by the kernel's word that the process has exited, or by withdrawal of the peer's
registration, never by time. What has ended is settled: a place that was waiting for it is released.
"""

from __future__ import annotations

from .events import ProcessExited, RegistrationWithdrawn
from .freeing import settle
from .ids import CopyId, NodeName
from .node_state import Copy, Guard, Kind, NodeState, mask_of, readable_place
from .node_turn import Turn
from .orders import PeerGone
from .records import evolve
from .reports import Condition
from .requests import Acquire, Guarded, Let, LetGo

OWNER_KINDS = ("process:", "peer:")


def why_unreadable(copy: Copy | None) -> tuple[str, str]:
    """`(refusal, guard)` that forbids reading this copy, or `("", "")`."""
    if copy is None or copy.store:
        return "StaleCopy", "copy_known"
    if copy.condition is Condition.FREEING:
        return "Freeing", "not_freeing"
    if copy.condition is not Condition.VERIFIED:
        return ("NotVerified", "verified") if not copy.failed else ("StaleCopy", "not_failed")
    return "", ""


def why_unwritable(copy: Copy | None, client: str) -> tuple[str, str]:
    """`(refusal, guard)` that forbids `client` to write this copy, or `("", "")`."""
    if copy is None or copy.store:
        return "StaleCopy", "copy_known"
    if copy.condition is Condition.FREEING:
        return "Freeing", "not_freeing"
    if copy.condition is Condition.VERIFIED:
        return "BadRequest", "write_not_ended"
    if copy.writer != client:
        return "BadRequest", "is_the_writer"
    if copy.failed:
        return "StaleCopy", "not_failed"
    if copy.ending is not None:
        return "Overloaded", "write_not_ending"
    return "", ""


def acquire(turn: Turn, request: Acquire) -> None:
    """Give a guard. The same `(client, token)` gets the same guard while it lives: a lost answer leaks nothing."""
    state = turn.state
    before = state.grants.get((request.client, request.token))
    if before is not None:
        guard = state.guards[before]
        if (guard.copy, guard.owner, guard.write) == (request.copy, request.owner, request.write):
            _answer(turn, guard)
        else:
            turn.deny(request, "BadRequest", "this token already names another guard", guard="token_unused")
        return
    copy = state.copies.get(request.copy)
    if request.write:
        reason, check = why_unwritable(copy, request.client)
    else:
        reason, check = why_unreadable(copy)
    if reason or copy is None:
        turn.deny(request, reason, guard=check)
    elif not request.owner.startswith(OWNER_KINDS):
        turn.deny(request, "BadRequest", "an owner is process:... or peer:...", guard="owner_is_known")
    elif len(state.guards) >= turn.config.guards_max:
        turn.deny(request, "Overloaded", guard="guards_max")
    else:
        place = copy.places[0] if request.write else readable_place(copy, turn.config)
        if place is None:
            turn.deny(request, "NotVerified", guard="verified")
            return
        number, tier = turn.number(), place.instance.tier
        guard = Guard(
            number, copy.copy, tier, request.owner, request.client, request.token,
            request.write, request.stay, turn.now,
        )  # fmt: skip
        state.guards[number] = guard
        state.grants[(request.client, request.token)] = number
        turn.count_guard(copy.copy, tier, 1)
        if request.write:
            turn.put(evolve(state.copies[copy.copy], mapped=True))
        _answer(turn, guard)


def _answer(turn: Turn, guard: Guard) -> None:
    copy = turn.state.copies[guard.copy]
    instance = next(place.instance for place in copy.places if place.instance.tier == guard.tier)
    answer = Guarded(turn.config.name, guard.token, guard.copy, guard.guard, guard.tier, instance.slots)
    turn.reply(guard.client, answer, guard.copy)


def let(turn: Turn, request: Let) -> None:
    """End a guard at its holder's word; to anybody else there is no such guard."""
    guard = turn.state.guards.get(request.guard)
    if guard is None or guard.client != request.client:
        turn.deny(request, "UnknownGuard", guard="guard_known")
        return
    end_guard(turn, guard)
    turn.reply(request.client, LetGo(turn.config.name, request.token, request.guard), guard.copy)


def end_guard(turn: Turn, guard: Guard) -> None:
    del turn.state.guards[guard.guard]
    del turn.state.grants[(guard.client, guard.token)]
    turn.count_guard(guard.copy, guard.tier, -1)
    settle(turn, guard.copy)


def owner_gone(turn: Turn, event: ProcessExited | RegistrationWithdrawn) -> None:
    """The kernel's or the transport's word: nothing of this owner can touch bytes any more."""
    gone = [guard for guard in turn.state.guards.values() if guard.owner == event.owner]
    for guard in gone:
        end_guard(turn, guard)
    turn.quiet = not gone


def peer_gone(turn: Turn, event: PeerGone) -> None:
    """A registration is over, for one shard: incarnations are numbered per shard, so only guards on its copies end."""
    owner = f"peer:{event.node}/{event.incarnation}"
    gone = [g for g in turn.state.guards.values() if g.owner == owner and g.copy.shard == event.shard]
    for guard in gone:
        end_guard(turn, guard)
    turn.quiet = not gone


def peers_of(state: NodeState, shard: int) -> tuple[tuple[NodeName, int], ...]:
    """The registrations of other nodes that own guards on copies of this shard: `(node, incarnation)`, each once."""
    found: dict[tuple[NodeName, int], None] = {}
    for guard in state.guards.values():
        kind, _, peer = guard.owner.partition(":")
        name, _, incarnation = peer.rpartition("/")
        if kind == "peer" and guard.copy.shard == shard and incarnation.isdecimal():
            found[NodeName(name), int(incarnation)] = None
    return tuple(found)


def writer_guard(state: NodeState, copy: CopyId) -> Guard | None:
    """A live write guard on the copy: while there is one, its bytes may still change."""
    for guard in state.guards.values():
        if guard.write and guard.copy == copy:
            return guard
    return None


def stays(state: NodeState, copy: CopyId) -> bool:
    """Whether somebody keeps the copy in its tier."""
    return any(guard.stay and guard.copy == copy for guard in state.guards.values())


def guard_lines(state: NodeState) -> tuple[str, ...]:
    """Guards and running work, for people."""
    guards = [f"guard {g.guard} on {g.copy} in {g.tier.name} by {g.owner}" for g in state.guards.values()]
    works = [f"{w.kind.name} {w.job} on {w.copy} in {w.tier.name}" for w in state.works.values()]
    return (*guards, *works)


def stuck_lines(state: NodeState, now: int, guard_stuck_ms: int, lines_max: int) -> tuple[str, ...]:
    """What should have ended long ago, by name: guards, running work, releases that fail (rule 6)."""
    since = now - guard_stuck_ms
    lines = [
        f"guard {g.guard} on {g.copy} by {g.owner} for {now - g.since} ms"
        for g in state.guards.values()
        if g.since <= since
    ]
    lines += [
        f"{w.kind.name} {w.job} on {w.copy} for {now - w.since} ms" for w in state.works.values() if w.since <= since
    ]
    lines += [
        f"release of {copy} in {tier.name} failed {unreleased.tries} times"
        for (copy, tier), unreleased in state.unreleased.items()
    ]
    return tuple(lines[:lines_max])


def stores_running(state: NodeState, copy: CopyId) -> list[tuple[int, str, str]]:
    """`(bits of its blocks, client, token)` of each running store to the copy."""
    return [
        (mask_of(work.blocks), work.client, work.token)
        for work in state.works.values()
        if work.kind is Kind.STORE and work.copy == copy
    ]
