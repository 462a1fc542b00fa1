"""`status`: the cluster at a glance. `watch`: what changes. `explain`: would this be refused, by which guard, because of whom."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import click

from .cli_calls import Caller, refused
from .cli_data import group_line, pages
from .cli_shared import COPY, DURATION, GROUP, HOLD, Given, pass_given, plain, shared
from .core import answers, calls, commands, requests
from .core.ids import NO_COPY, CopyId, GroupId, HoldId, NodeName, Peer
from .serving import Ending, clock_ms

WATCHED_MAX = 10_000
"""Groups that one look of `watch` compares."""

# ---- status --------------------------------------------------------------------------------------------------


def _status(caller: Caller) -> answers.StatusReport:
    report: answers.StatusReport = caller.ask(commands.Status(caller.config.client, ""))
    return report


@click.command()
@click.option("--node", default="", help="What this node says of itself, instead of the directory.")
@shared
@pass_given
def status(given: Given, node: str) -> None:
    """Print nodes, stores, fill and counters."""
    with Caller(given) as caller:
        report = _status(caller)
        if not node:
            given.data(report, lambda: _status_lines(report))
            return
        address = next((line.address for line in report.nodes if line.node == node and not line.store), None)
        if address is None:
            raise refused("UnknownNode", node)
        found: requests.NodeStatus = caller.call(calls.AskNode(address, requests.NodeStat(Peer(""), "")))
    given.data(found, lambda: _node_lines(found))


def _status_lines(report: answers.StatusReport) -> list[str]:
    lines = [f"store {report.store_id}: {report.groups} groups, {report.sessions} sessions, {report.holds} holds"]
    for line in report.nodes:
        standing = "store" if line.store else _standing(line.alive, line.ready, line.draining)
        tiers = " ".join(f"{fill.tier.name} {fill.used}/{fill.capacity}" for fill in line.tiers)
        fill = f"{line.used}/{line.capacity} slots in {line.copies} copies"
        lines.append(f"{line.node:12} {standing:9} {fill}  {tiers}  {line.address}".rstrip())
        lines += [f"{'':12} stuck     {guard}" for guard in line.stuck]
    return lines + [f"{name} {value}" for name, value in report.counters]


def _standing(alive: bool, ready: bool, draining: bool) -> str:
    return "lapsed" if not alive else "coming" if not ready else "draining" if draining else "ready"


def _node_lines(found: requests.NodeStatus) -> list[str]:
    lines = [f"{found.node} boot {found.boot} incarnation {found.incarnation}, {found.copies} copies"]
    lines += [f"{fill.tier.name:12} {fill.used}/{fill.capacity} slots, {fill.quarantined} quarantined" for fill in found.tiers]
    lines += [f"guard {guard}" for guard in found.guards]
    return lines + [f"job {job}" for job in found.jobs]


# ---- watch ---------------------------------------------------------------------------------------------------


@click.command()
@click.argument("groups", nargs=-1, type=GROUP, metavar="[GROUP...]")
@click.option("--node", default="", help="Only groups with a copy at this node or store.")
@click.option("--interval", default="500ms", show_default=True, type=DURATION, help="Between two looks.")
@click.option("--for", "length", default="0", type=DURATION, help="How long; until Ctrl-C by default.")
@click.option("--changes", default=0, type=click.IntRange(min=0), help="End after so many changes.")
@shared
@pass_given
def watch(given: Given, groups: tuple[GroupId, ...], node: str, interval: int, length: int, changes: int) -> None:
    """Print groups and nodes as they are, then each change. What comes and goes between two looks is not seen."""
    seen: dict[Any, Any] = {}
    told = 0
    until = clock_ms() + (length or 2**40)
    with Caller(given) as caller, Ending() as ending:
        while not ending.asked() and clock_ms() < until:
            now = _look(caller, frozenset(groups), node)
            for key in [*now, *(key for key in seen if key not in now)]:
                if seen.get(key) == now.get(key):
                    continue
                given.data(_change(key, now.get(key)), _change_lines(key, now.get(key)))
                told += 1
                if changes and told >= changes:
                    return
            seen = now
            again = clock_ms() + max(interval, 10)
            while not ending.asked() and clock_ms() < again:
                if clock_ms() >= until:
                    return
                caller.turn(min(again, until) - clock_ms(), ending.fds)
                ending.look(caller.wire.ready_fds)


def _look(caller: Caller, wanted: frozenset[GroupId], node: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    if not wanted:
        for line in _status(caller).nodes:
            if not line.store:
                found[line.node] = (line.alive, line.ready, line.draining, line.incarnation, line.address)
    for group in islice(pages(caller, 0, node=NodeName(node)), WATCHED_MAX):
        if not wanted or group.group in wanted:
            found[group.group] = group
    return found


def _change(key: Any, value: Any) -> dict[str, Any]:
    if isinstance(key, bytes):
        return {"group": plain(key), "is": plain(value) if value is not None else "gone"}
    if value is None:
        return {"node": key, "is": "gone"}
    return {"node": key, "is": dict(zip(("alive", "ready", "draining", "incarnation", "address"), plain(value), strict=True))}


def _change_lines(key: Any, value: Any) -> Callable[[], list[str]]:
    def lines() -> list[str]:
        if isinstance(key, bytes):
            return [group_line(value) if value is not None else f"{key.hex()}  gone"]
        if value is None:
            return [f"node {key}  gone"]
        alive, ready, draining, incarnation, address = value
        standing = _standing(alive, ready, draining)
        return [f"node {key}  {standing}  incarnation {incarnation}  {address}"]

    return lines


# ---- explain -------------------------------------------------------------------------------------------------


@click.group()
def explain() -> None:
    """Say whether a command would be refused now: the guards of its row, what each says, and who stands in the way."""


def _explain(given: Given, session: str, body: commands.Body) -> None:
    with Caller(given, session=session) as caller:
        if session:
            caller.do(commands.ReleaseRequest(""))  # a hold's commands are judged in its session: resume it first
        found: answers.Explained = caller.ask(commands.Explain(caller.config.client, "", session_of(caller), body))
    verdict = f"refused: {found.refusal}" if found.refusal is not None else "it would be accepted now"
    given.data(found, lambda: [verdict, *found.steps])


def session_of(caller: Caller) -> Any:
    """The session that a command would run in; 0 for one that would be opened for it."""
    return caller.client.state.session.session


SESSION = click.option("--session", default="", metavar="NAME", help="As a command of this session.")


def _explains(name: str, make: Callable[..., commands.Body], *arguments: Any) -> None:
    @shared
    @pass_given
    def explained(given: Given, /, session: str, **values: Any) -> None:
        _explain(given, session, make(**values))

    explained = SESSION(explained)
    for argument in reversed(arguments):
        explained = argument(explained)
    explained.__doc__ = f"Would `pinfold {name}` be refused?"
    explain.command(name)(explained)


_GROUP = click.argument("group", type=GROUP)
_TARGET = click.argument("target", metavar="NODE|STORE")
_EPOCH = click.option("--expected-epoch", default=0, help="Refuse if the group has changed since this epoch.")


def _move(group: GroupId, target: str, allow_pinned: bool, expected_epoch: int) -> commands.Body:
    return commands.Move(group, NodeName(target), allow_pinned, expected_epoch)


def _pin(group: GroupId, copy_id: CopyId | None) -> commands.Body:
    return commands.Pin(group, copy_id or NO_COPY)


def _replicate(group: GroupId, target: str) -> commands.Body:
    return commands.Replicate(group, NodeName(target))


def _evict(group: GroupId, expected_epoch: int, defer: bool) -> commands.Body:
    return commands.Evict(group, expected_epoch, defer)


def _unpin(hold: HoldId) -> commands.Body:
    return commands.Unpin(hold)


def _unref(hold: HoldId) -> commands.Body:
    return commands.Unref(hold)


_explains("move", _move, _GROUP, _TARGET, click.option("--allow-pinned", is_flag=True, help="As of move."), _EPOCH)
_explains("replicate", _replicate, _GROUP, _TARGET)
_explains("evict", _evict, _GROUP, _EPOCH, click.option("--defer", is_flag=True, help="As of evict."))
_explains("pin", _pin, _GROUP, click.option("--copy", "copy_id", default=None, type=COPY, help="As of pin."))
_explains("ref", commands.Ref, _GROUP)
_explains("unpin", _unpin, click.argument("hold", type=HOLD))
_explains("unref", _unref, click.argument("hold", type=HOLD))

COMMANDS = (status, watch, explain)
