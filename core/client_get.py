"""`GetGroup` and `ReadRoute`: from a group to its bytes, whatever moves meanwhile (rule 5).

    pin ---Pinned---> read ---all blocks---> Done            the PIN is released in the background unless it is kept
     ^  \\--MoveInProgress--> settle --.        |
     |   \\-NotSealed (WAIT)-> sealed --+-- pause --> pin     waiting costs no attempt; the deadline bounds it
     |                                          |
     '---------- stale route, lost node -------'             each costs one of `route_attempts`

A route to a remote store has no address: the group is first brought to the near node (`bring`).
"""

from __future__ import annotations

from typing import Any, Final

from . import answers as a
from . import client_routes as routes
from . import client_wire as wire
from . import commands as c
from . import requests as r
from .calls import Done, GetGroup, GotGroup, ReadRoute
from .client_numbers import submit
from .client_state import CallRecord, Degradation, Part
from .client_steps import await_end, finish, give_up, let_go, refusal_of, sleep
from .client_wire import DIRECTORY, News, Turn
from .errors import Refusal
from .ids import NO_COPY, CopyId, MovePolicy, NodeName, manifest_hash

PATIENT: Final = (MovePolicy.WAIT, MovePolicy.TARGET)

ASK_AGAIN: Final = frozenset({"StaleCopy", "Freeing", "NotVerified", "Corrupt", "TierFailed"})
"""A node's refusals that mean `not here, or not now`: the directory may know another place."""

PAUSE_FIRST: Final = frozenset({"Corrupt", "TierFailed", "Unreachable", "BreakerOpen", "NotVerified"})
"""The directory can't know of it yet: asking at once would give the same route."""


def start(turn: Turn, record: CallRecord) -> None:
    op = record.op
    if isinstance(op, ReadRoute):
        read(turn, turn.update(record, local=True), op.route)
        return
    assert isinstance(op, GetGroup)
    cached = routes.recall(turn, op.group)
    unpinned = turn.config.optimistic_reads and not op.keep_pin and op.policy is MovePolicy.SOURCE
    if wire.is_open(turn, DIRECTORY) and turn.config.degradation is Degradation.LOCAL_ONLY:
        read_locally(turn, record)
    elif cached is None or cached.near != _near(turn, op) or op.policy is not MovePolicy.SOURCE:
        pin(turn, record, NO_COPY)
    elif unpinned and cached.route.address:
        read(turn, turn.update(record, local=True), cached.route)
    else:
        pin(turn, record, cached.route.copy)


def _near(turn: Turn, op: GetGroup) -> NodeName:
    return op.near or turn.config.near


def pin(turn: Turn, record: CallRecord, copy: CopyId) -> None:
    op = record.op
    assert isinstance(op, GetGroup)
    record = turn.update(record, step="pin", local=False, sleep_until=0)
    submit(turn, record.call, "pin", c.Pin(op.group, copy, op.policy, op.request, _near(turn, op)))


def read_locally(turn: Turn, record: CallRecord) -> None:
    """The directory can't be reached: read the near node by what is remembered. Never wrong bytes; perhaps none."""
    op = record.op
    assert isinstance(op, GetGroup)
    cached = routes.recall(turn, op.group)
    if op.keep_pin or cached is None or not cached.route.address or cached.route.node != _near(turn, op):
        give_up(turn, record, Refusal("BreakerOpen", "the directory, and there is no cached route to the near node"))
    else:
        read(turn, turn.update(record, local=True), cached.route)


# ---- reading -------------------------------------------------------------------------------------------------


def wanted(record: CallRecord) -> tuple[int, ...]:
    """The blocks that the caller asked for."""
    op = record.op
    assert isinstance(op, GetGroup | ReadRoute)
    assert record.route is not None
    return op.blocks or tuple(range(record.route.blocks))


def read(turn: Turn, record: CallRecord, route: a.Route) -> None:
    record = turn.update(record, step="read", route=route, cursor=0, parts=(), sleep_until=0)
    _fill(turn, record)


def _fill(turn: Turn, record: CallRecord) -> None:
    """Keep `read_window` requests on their way; end when every block is there."""
    route, blocks, config = record.route, wanted(record), turn.config
    assert route is not None
    each = max(1, -(-route.size_bytes // max(1, route.blocks)))  # a route knows the sum only
    step = max(1, min(config.chunk_blocks_max, config.read_chunk_bytes // each))
    if record.cursor >= len(blocks) and not record.tokens:
        _complete(turn, record, route, blocks)
    while record.cursor < len(blocks) and len(record.tokens) < config.read_window and record.step == "read":
        chunk = blocks[record.cursor : record.cursor + step]
        turn.update(record, cursor=record.cursor + len(chunk))
        message = r.Read(config.client, turn.token(), route.copy, chunk)
        wire.ask(turn, record.call, f"read {record.cursor}", route.address, message)
        record = turn.state.calls[record.call]
        if turn.news:
            return  # the breaker said no: the door tells us


def _arrived(turn: Turn, record: CallRecord, news: News, answer: r.Blocks) -> None:
    asked: r.Read = news.message
    whole = answer.copy == asked.copy and answer.blocks == asked.blocks
    if not whole or len(answer.checksums) != len(asked.blocks) or len(answer.data) not in (0, len(asked.blocks)):
        stale(turn, record, Refusal("Corrupt", f"{answer.node} answered with other blocks than were asked for"))
        return
    part = Part(int(news.slot.partition(" ")[2]), answer.checksums, answer.tier, answer.data)
    _fill(turn, turn.update(record, parts=(*record.parts, part)))


def _complete(turn: Turn, record: CallRecord, route: a.Route, blocks: tuple[int, ...]) -> None:
    op = record.op
    parts = sorted(record.parts, key=lambda part: part.at)
    checksums = tuple(checksum for part in parts for checksum in part.checksums)
    data: tuple[Any, ...] = tuple(buffer for part in parts for buffer in part.data)
    if len(data) not in (0, len(blocks)):
        stale(turn, record, Refusal("Corrupt", "some blocks came with bytes and some without"))
        return
    if isinstance(op, GetGroup) and op.layout is not None and blocks == tuple(range(route.blocks)):
        sizes = op.sizes or (op.layout.block_bytes,) * route.blocks
        if manifest_hash(op.layout, sizes, checksums) != route.manifest:
            stale(turn, record, Refusal("ManifestMismatch", f"{route.copy} at {route.node}"))
            return
    hold = record.hold if isinstance(op, GetGroup) and op.keep_pin else None
    if hold is not None:
        record = turn.update(record, hold=None)
    tier = max((part.tier for part in parts), default=route.tier)
    got = GotGroup(route.group, route, blocks, checksums, tier, hold, data)
    finish(turn, record, Done(got, turn.state.term, turn.state.revision))


# ---- when it does not go straight ------------------------------------------------------------------------------


def stale(turn: Turn, record: CallRecord, refusal: Refusal) -> None:
    """The route did not work: let everything of this attempt go, and ask the directory again (ROUTE-1)."""
    turn.count("stale_routes")
    route = record.route
    if route is not None:
        routes.forget(turn, route.group, route.copy)
    record = let_go(turn, record)
    if isinstance(record.op, ReadRoute):
        give_up(turn, record, refusal)
        return
    if record.attempt + 1 >= turn.config.route_attempts:
        used = Refusal("AttemptsUsed", f"{record.attempt + 1} routes, the last: {refusal}")
        give_up(turn, record, refusal if refusal.reason in ("Unreachable", "BreakerOpen") else used)
        return
    record = turn.update(record, attempt=record.attempt + 1)
    if wire.is_open(turn, DIRECTORY) and turn.config.degradation is Degradation.LOCAL_ONLY:
        give_up(turn, record, refusal)
    elif refusal.reason in PAUSE_FIRST:
        sleep(turn, record)
    else:
        pin(turn, record, NO_COPY)


def hear(turn: Turn, record: CallRecord, news: News) -> None:
    """Something that this call waited for has come."""
    answer = news.answer
    if isinstance(answer, r.Blocks):
        _arrived(turn, record, news, answer)
    elif isinstance(answer, a.Pinned):
        _pinned(turn, record, answer)
    elif isinstance(answer, a.MoveAccepted):
        _await(turn, record, "settled", answer.move)
    elif isinstance(answer, a.Awaited):
        sleep(turn, record)
    else:
        _refused(turn, record, news, refusal_of(answer))


def _pinned(turn: Turn, record: CallRecord, answer: a.Pinned) -> None:
    record = turn.update(record, hold=answer.hold, waits=0)
    if answer.route.address:
        read(turn, record, answer.route)
    else:
        bring(turn, let_go(turn, record), answer.route)


def bring(turn: Turn, record: CallRecord, route: a.Route) -> None:
    """The group lies in a store, where nobody answers reads: move it to the near node. Its PIN is released first, for a
    pinned copy does not move."""
    op = record.op
    assert isinstance(op, GetGroup)
    target = _near(turn, op)
    if not target:
        give_up(turn, record, Refusal("Unreadable", f"it lies in store {route.node}; name a node to bring it to"))
    elif record.attempt + 1 >= turn.config.route_attempts:
        give_up(turn, record, Refusal("AttemptsUsed", f"it went back to store {route.node} each time"))
    else:
        record = turn.update(record, step="bring", attempt=record.attempt + 1)
        submit(turn, record.call, "bring", c.Move(op.group, target))


def _refused(turn: Turn, record: CallRecord, news: News, refusal: Refusal) -> None:
    op = record.op
    if record.step == "read":
        if refusal.reason in ASK_AGAIN or refusal.reason in ("Unreachable", "BreakerOpen"):
            stale(turn, record, refusal)
        else:
            give_up(turn, record, refusal, news.definite)
        return
    assert isinstance(op, GetGroup)
    reason = refusal.reason
    if reason == "StaleCopy" and record.step == "pin":
        routes.forget(turn, op.group)
        stale(turn, turn.update(record, route=None), refusal)
    elif reason == "MoveInProgress" and (op.policy in PATIENT or record.step == "bring"):
        _await(turn, record, "settled", NO_COPY)
    elif reason == "NotSealed" and op.policy in PATIENT:
        _await(turn, record, "readable", NO_COPY)
    elif reason in ("AlreadyThere", "Pinned", "NoSpace", "MoveTooSoon") and record.step == "bring":
        sleep(turn, record, refusal.retry_after_ms)
    else:
        give_up(turn, record, refusal, news.definite)


def _await(turn: Turn, record: CallRecord, want: str, copy: CopyId) -> None:
    op = record.op
    assert isinstance(op, GetGroup)
    record = turn.update(record, step="await")
    await_end(turn, record, want, op.group, copy)


def wake(turn: Turn, record: CallRecord) -> None:
    """The pause is over."""
    pin(turn, record, NO_COPY)

