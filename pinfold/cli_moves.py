"""`move`, `evict`, `replicate`, `drain`: decisions about where groups are. Each can wait for the end of what it has begun."""

from __future__ import annotations

from typing import Any

import click

from .cli_calls import Caller, refused
from .cli_data import described
from .cli_shared import COPY, DURATION, GROUP, Given, pass_given, shared
from .core import answers, commands
from .core.ids import CopyId, GroupId, NodeName, Role
from .serving import clock_ms

WAIT = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the end, as long as --timeout.")
EPOCH = click.option("--expected-epoch", default=0, help="Refuse if the group has changed since this epoch.")
LOOK_MS = 100
"""How often a replica is looked for: its end is no event that one could wait for."""


@click.command()
@click.argument("group", type=GROUP)
@click.argument("target", required=False, metavar="[NODE|STORE]")
@click.option("--cancel", "cancelled", default=None, type=COPY, metavar="MOVE", help="End this move instead; the source stays.")
@click.option("--allow-pinned", is_flag=True, help="Also if it is pinned; the pinned source then goes late.")
@click.option("--deadline", default="0", type=DURATION, help="After which it is given up.  [default: directory.move]")
@EPOCH
@WAIT
@shared
@pass_given
def move(
    given: Given, group: GroupId, target: str | None, cancelled: CopyId | None, allow_pinned: bool, deadline: int,
    expected_epoch: int, wait: bool,
) -> None:  # fmt: skip
    """Make a node, or a store, the owner of a group. Prints the move's id."""
    if (target is None) == (cancelled is None):
        raise click.UsageError("name a node or store to move to, or the move to --cancel")
    with Caller(given) as caller:
        if cancelled is not None:
            ended: answers.MoveCancelled = caller.do(commands.CancelMove(group, cancelled))
            given.data(ended, lambda: [f"{ended.move} cancelled"])
            return
        body = commands.Move(group, NodeName(target or ""), allow_pinned, expected_epoch, deadline)
        accepted: answers.MoveAccepted = caller.do(body)
        outcome = "done" if accepted.done else "moving"
        if wait and not accepted.done:
            outcome = _settled(caller, accepted)
    document = {"move": accepted.move, "group": group, "target": target, "outcome": outcome}
    given.data(document, lambda: [str(accepted.move)])
    if outcome not in ("done", "moving"):
        raise refused("Cancelled", f"the move to {target} was given up: {outcome}")


def _settled(caller: Caller, accepted: answers.MoveAccepted) -> str:
    """`done`, `moving` (it still is), or why it did not happen."""
    query = commands.Await(caller.config.client, "", "settled", accepted.group, accepted.move)
    awaited: answers.Awaited = caller.ask(query)
    if awaited.outcome == "timeout":
        return "moving"
    if awaited.outcome == "gone":
        return "the group is gone"
    record = described(caller, accepted.group)
    for copy in record.copies:
        if copy.copy == accepted.move:
            return "done" if copy.role is Role.AUTHORITATIVE else copy.role.name.lower()
    return record.reason.name.lower() if record.reason else "the source has it"


@click.command()
@click.argument("group", type=GROUP)
@click.option("--defer", is_flag=True, help="Don't be refused because of holds: refuse new ones, and wait for their end.")
@EPOCH
@WAIT
@shared
@pass_given
def evict(given: Given, group: GroupId, defer: bool, expected_epoch: int, wait: bool) -> None:
    """Give a group up everywhere."""
    with Caller(given) as caller:
        accepted: answers.EvictAccepted = caller.do(commands.Evict(group, expected_epoch, defer))
        outcome = "waiting" if accepted.waiting else "evicting"
        if wait:
            awaited: answers.Awaited = caller.ask(commands.Await(caller.config.client, "", "gone", group))
            outcome = "gone" if awaited.outcome == "gone" else outcome
    given.data({"group": group, "outcome": outcome, "epoch": accepted.epoch}, lambda: [f"{group.hex()} {outcome}"])


@click.command()
@click.argument("group", type=GROUP)
@click.argument("target", required=False, metavar="[NODE|STORE]")
@click.option("--drop", "dropped", default=None, type=COPY, metavar="COPY", help="Give this replica up instead.")
@click.option("--deadline", default="0", type=DURATION, help="After which it is given up.  [default: directory.move]")
@WAIT
@shared
@pass_given
def replicate(given: Given, group: GroupId, target: str | None, dropped: CopyId | None, deadline: int, wait: bool) -> None:
    """Make a read replica of a group. Prints its copy id."""
    if (target is None) == (dropped is None):
        raise click.UsageError("name a node or store to copy to, or the replica to --drop")
    with Caller(given) as caller:
        if dropped is not None:
            caller.do(commands.DropReplica(group, dropped))
            given.data({"group": group, "dropped": dropped}, lambda: [f"{dropped} dropped"])
            return
        accepted: answers.ReplicaAccepted = caller.do(commands.Replicate(group, NodeName(target or ""), deadline))
        outcome = _made(caller, group, accepted.copy) if wait else "copying"
    given.data({"copy": accepted.copy, "group": group, "target": target, "outcome": outcome}, lambda: [str(accepted.copy)])
    if outcome == "failed":
        raise refused("TierFailed", f"the copy at {target} was given up")


def _made(caller: Caller, group: GroupId, copy_id: CopyId) -> str:
    until = clock_ms() + caller.config.timeout_ms
    while True:
        for copy in described(caller, group).copies:
            if copy.copy == copy_id:
                break
        else:
            return "failed"
        if copy.role in (Role.REPLICA, Role.AUTHORITATIVE):
            return "done"
        if copy.role is not Role.INCOMING:
            return "failed"
        if clock_ms() >= until:
            return "copying"
        pause_until = clock_ms() + LOOK_MS
        while clock_ms() < pause_until:
            caller.turn(pause_until - clock_ms())


@click.command()
@click.argument("node")
@click.option("--off", is_flag=True, help="Take it into use again.")
@click.option("--wait/--no-wait", default=False, help="Wait until it is empty, as long as --timeout.")
@shared
@pass_given
def drain(given: Given, node: str, off: bool, wait: bool) -> None:
    """Empty a node: what it has moves elsewhere, nothing new comes."""
    outcome = "used again" if off else "draining"
    with Caller(given) as caller:
        accepted: answers.DrainAccepted = caller.do(commands.Drain(NodeName(node), not off))
        if wait and not off:
            query: Any = commands.Await(caller.config.client, "", "drained", node=NodeName(node))
            awaited: answers.Awaited = caller.ask(query)
            outcome = "drained" if awaited.outcome == "drained" else outcome
    document = {"node": node, "outcome": outcome, "copies": accepted.copies}
    given.data(document, lambda: [f"{node} {outcome}, {accepted.copies} copies when it was asked"])


COMMANDS = (move, evict, replicate, drain)
