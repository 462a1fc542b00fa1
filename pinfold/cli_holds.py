"""`pin`, `unpin`, `ref`, `unref`: holds, which live in a session.

With `--session NAME` the session outlives the command: each command that names it renews its lease, and what was not released
goes when the lease ends. Without it the hold lives as long as the command, which waits for Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .cli_calls import Caller
from .cli_shared import COPY, DURATION, GROUP, HOLD, F, Given, pass_given, shared
from .core import answers, calls, commands
from .core.ids import NO_COPY, CopyId, GroupId, HoldId, MovePolicy, NodeName
from .serving import Ending
from .units import show_duration

SESSION = click.option("--session", default="", metavar="NAME", help="The session that has the hold, from command to command.")
LEASE = click.option(
    "--lease", default="0", type=DURATION, metavar="DURATION",
    help="The session's lease.  [default: 10m with a name, else client.lease]",
)  # fmt: skip


def _taking(command: F) -> F:
    request = click.option("--request", default="", help="The request for which it is held.")
    return SESSION(LEASE(request(command)))


@click.command()
@click.argument("group", type=GROUP)
@click.option("--copy", "copy_id", default=None, type=COPY, help="This copy; any readable one by default.")
@click.option(
    "--policy", default="source", show_default=True, help="What to do while the group moves.",
    type=click.Choice([each.name.lower() for each in MovePolicy]),
)  # fmt: skip
@click.option("--near", default="", help="The node to read from, if it can be chosen.")
@_taking
@shared
@pass_given
def pin(
    given: Given, group: GroupId, copy_id: CopyId | None, policy: str, near: str, session: str, lease: int, request: str
) -> None:
    """Keep a copy of a group: it is not evicted, and not moved unless the mover insists. Prints the hold's id."""
    body = commands.Pin(group, copy_id or NO_COPY, MovePolicy[policy.upper()], request, NodeName(near))
    _hold(given, session, lease, body, commands.Unpin)


@click.command()
@click.argument("group", type=GROUP)
@_taking
@shared
@pass_given
def ref(given: Given, group: GroupId, session: str, lease: int, request: str) -> None:
    """Keep a group readable somewhere: it is not evicted, but may move. Prints the hold's id."""
    _hold(given, session, lease, commands.Ref(group, request), commands.Unref)


def _hold(given: Given, session: str, lease_ms: int, body: Any, release: Callable[[HoldId], Any]) -> None:
    if session:
        with Caller(given, session=session, lease_ms=lease_ms) as caller:
            taken = caller.do(body)
            _tell(given, caller, taken, session)
        return
    with Caller(given, lease_ms=lease_ms) as caller, Ending() as ending:  # in this order: signals are Ending's now
        taken = caller.do(body)
        _tell(given, caller, taken, "")
        given.say_aside("held until Ctrl-C")
        while not ending.reason:
            caller.turn(fds=ending.fds)
            ending.look(caller.wire.ready_fds)
            if taken.hold not in caller.client.state.holds:
                caller.do(release(taken.hold))  # refused: tells why it has ended
        caller.do(release(taken.hold), 1_000)


def _tell(given: Given, caller: Caller, taken: answers.Pinned | answers.Referred, session: str) -> None:
    lease_ms = caller.client.state.session.lease_ms
    document = {"hold": taken.hold, "group": taken.group, "session": session, "lease_ms": lease_ms}
    if isinstance(taken, answers.Pinned):
        document |= {"copy": taken.route.copy, "node": taken.route.node, "tier": taken.route.tier}
    given.data(document, lambda: [str(taken.hold)])
    if session:
        given.say_aside(f"held by session {session} for {show_duration(lease_ms)} after its last command")


def _release(given: Given, session: str, hold: HoldId | None, everything: bool, body: Callable[[HoldId], Any]) -> None:
    if (hold is None) == (not everything):
        raise click.UsageError("name one hold, or say --all to end the session with all of its holds")
    with Caller(given, session=session) as caller:
        if hold is not None:
            released: answers.Released = caller.do(body(hold))
            given.data({"hold": released.hold, "group": released.group}, lambda: [released.group.hex()])
            return
        # The session is resumed by the first command; there is nothing to say but that there is one.
        caller.do(commands.ReleaseRequest(""))
        closed: answers.SessionClosed = caller.call(calls.CloseSessionOp())
    given.data({"session": session, "released": closed.released}, lambda: [str(closed.released)])


def _releasing(command: F) -> F:
    session = click.option("--session", required=True, metavar="NAME", help="The session that has it.")
    everything = click.option("--all", "everything", is_flag=True, help="End the session, and all its holds of both kinds.")
    return click.argument("hold", required=False, type=HOLD)(session(everything(command)))


@click.command()
@_releasing
@shared
@pass_given
def unpin(given: Given, hold: HoldId | None, session: str, everything: bool) -> None:
    """End a pin of a named session."""
    _release(given, session, hold, everything, commands.Unpin)


@click.command()
@_releasing
@shared
@pass_given
def unref(given: Given, hold: HoldId | None, session: str, everything: bool) -> None:
    """End a reference of a named session."""
    _release(given, session, hold, everything, commands.Unref)


COMMANDS = (pin, unpin, ref, unref)
