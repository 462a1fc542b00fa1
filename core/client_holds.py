"""What answers bring and take: which answer fits which command, and the holds that this client has to give back (HOLD-1)."""

from __future__ import annotations

from typing import Final

from . import answers as a
from . import client_wire as wire
from . import commands as c
from .client_routes import learn
from .client_state import BACKGROUND, Held, Numbered
from .client_wire import Turn
from .ids import CopyId, HoldId, HoldKind, Peer
from .requests import AbortWrite

_KINDS: Final[dict[type, tuple[type, ...]]] = {
    c.Create: (a.Created, a.Joined, a.Exists),
    c.Pin: (a.Pinned,),
    c.PinPrefix: (a.PrefixPinned,),
    c.Unpin: (a.Released,),
    c.Unref: (a.Released,),
    c.Ref: (a.Referred,),
    c.Move: (a.MoveAccepted,),
    c.CancelMove: (a.MoveCancelled,),
    c.Replicate: (a.ReplicaAccepted,),
    c.DropReplica: (a.ReplicaDropped,),
    c.Evict: (a.EvictAccepted,),
    c.ReleaseRequest: (a.RequestReleased,),
    c.Drain: (a.DrainAccepted,),
}


def fits(number: Numbered, answer: a.ItemAnswer | a.BatchAnswer) -> bool:
    """Whether this can be the answer to that command. If not, somebody else uses our session's numbers."""
    if isinstance(answer, a.CommandCancelled):
        return number.cancelled
    if isinstance(number.body, c.Batch):
        if not isinstance(answer, a.BatchAnswer) or len(answer.items) != len(number.body.items):
            return False
        return all(map(_item_fits, number.body.items, answer.items))
    return not isinstance(answer, a.BatchAnswer) and _item_fits(number.body, answer)


def _item_fits(body: c.Body, answer: a.ItemAnswer) -> bool:
    if isinstance(answer, a.Refused):
        return True
    if not isinstance(answer, _KINDS.get(type(body), ())):
        return False
    if isinstance(answer, a.PrefixPinned):
        run = tuple(route.group for route in answer.routes)
        return isinstance(body, c.PinPrefix) and body.groups[: len(run)] == run and len(answer.holds) == len(run)
    for name in ("group", "hold", "request", "node"):
        asked = body.spec.group if name == "group" and isinstance(body, c.Create) else getattr(body, name, None)
        got = getattr(answer, name, None)
        wish = isinstance(body, c.Create) and name in ("node", "request")  # what was wished for, not what was named
        if not wish and asked is not None and got is not None and asked != got:
            return False
    return True


# ---- holds ---------------------------------------------------------------------------------------------------


def items(body: c.Body | c.Batch, answer: a.ItemAnswer | a.BatchAnswer) -> list[tuple[c.Body, a.ItemAnswer]]:
    """Commands and answers side by side; a batch that was refused as a whole has its refusal for each item."""
    if isinstance(body, c.Batch):
        if isinstance(answer, a.BatchAnswer):
            return list(zip(body.items, answer.items, strict=True))
        return [(item, answer) for item in body.items]
    return [] if isinstance(answer, a.BatchAnswer) else [(body, answer)]


def holds_in(answer: a.ItemAnswer | a.BatchAnswer) -> list[HoldId]:
    """The holds that an answer has brought."""
    if isinstance(answer, a.BatchAnswer):
        return [hold for item in answer.items for hold in holds_in(item)]
    if isinstance(answer, a.PrefixPinned):
        return list(answer.holds)
    if isinstance(answer, a.Created | a.Exists | a.Pinned | a.Referred):
        return [answer.hold]
    return []


_ENDED: Final = frozenset({"AlreadyDone", "UnknownHold", "HoldLost"})


def note(turn: Turn, number: Numbered, event: a.Answered) -> None:
    """What an answer changes in what we hold and believe."""
    holds = turn.state.holds
    for body, answer in items(number.body, event.answer):
        kind = HoldKind.REF if isinstance(body, c.Ref) else HoldKind.PIN
        for hold in holds_in(answer):
            holds[hold] = Held(kind, getattr(body, "request", ""))
        if isinstance(body, c.Unpin | c.Unref):
            refused = answer.refusal.reason if isinstance(answer, a.Refused) else ""
            if isinstance(answer, a.Released) or refused in _ENDED:
                holds.pop(body.hold, None)
        elif isinstance(answer, a.RequestReleased) and answer.request:  # holds without a request belong to none
            over = [h for h, held in holds.items() if held.request == answer.request and h.sequence < number.sequence]
            forget(turn, tuple(over))
        learn(turn, body, answer, event.term)


def forget(turn: Turn, over: tuple[HoldId, ...]) -> None:
    """These have ended without us: they are not ours to give back, and a call that was using one goes on without."""
    for hold in over:
        turn.state.holds.pop(hold, None)
    for record in [record for record in turn.state.calls.values() if record.hold in over]:
        turn.update(record, hold=None)


def release(turn: Turn, hold: HoldId) -> None:
    """Give a hold back in the background, before anything that is queued."""
    held = turn.state.holds.get(hold)
    if held is not None:
        turn.state.releases.append(c.Unpin(hold) if held.kind is HoldKind.PIN else c.Unref(hold))


def give_back(turn: Turn, answer: a.ItemAnswer | a.BatchAnswer) -> None:
    """Nobody wants what this answer has brought: release the holds, end the write."""
    for hold in holds_in(answer):
        release(turn, hold)
    for item in answer.items if isinstance(answer, a.BatchAnswer) else (answer,):
        if isinstance(item, a.Created):
            abort_write(turn, item.address, item.copy)


def abort_write(turn: Turn, node: Peer, copy: CopyId) -> None:
    """Tell the node in the background that nobody will write any more. Lost or left out, the write's deadline does it."""
    aborts = sum(1 for exchange in turn.state.exchanges.values() if exchange.slot == "abort")
    if node and aborts < turn.config.aborts_max:
        message = AbortWrite(turn.config.client, turn.token(), copy)
        give_up = turn.now + turn.config.background_ms
        wire.ask(turn, BACKGROUND, "abort", node, message, give_up=give_up)
