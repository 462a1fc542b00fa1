"""The root of the command line: its commands, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import click

from . import __version__
from .cli_shared import Given, code_of, reason_of, sentence_of, shared, tell_error
from .core.errors import InvariantViolation, PinfoldError
from .serving import stdout_is_gone
from .transport.base import MisuseError

MODULES: Final = {
    "cli_serve": ("up", "directory", "node"),
    "cli_data": ("put", "get", "stat", "ls", "locate"),
    "cli_holds": ("pin", "unpin", "ref", "unref"),
    "cli_moves": ("move", "evict", "replicate", "drain"),
    "cli_look": ("status", "watch", "explain"),
    "cli_admin": ("doctor", "config"),
    "cli_job": ("demo", "replay"),
    "cli_history": ("history",),
    "cli_check": ("check",),
    "cli_simulate": ("simulate",),
}
"""Each module has COMMANDS, its click commands in this order. A module is imported when one of its commands is wanted."""

HOMES: Final = {
    command: module
    for module, commands in MODULES.items()
    if find_spec(f"{__package__}.{module}") is not None
    for command in commands
}


class Lazy(click.Group):
    """The commands of `HOMES`: one of them costs the import of its own module alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = HOMES.get(cmd_name)
        if home is None:
            near = get_close_matches(cmd_name, HOMES, 1)
            hint = f"; did you mean {near[0]!r}?" if near else " (see 'pinfold --help')"
            raise click.UsageError(f"there is no command {cmd_name!r}{hint}", ctx)
        commands: dict[str, click.Command] = {each.name or "": each for each in import_module(f".{home}", __package__).COMMANDS}
        return commands[cmd_name]


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@shared
@click.pass_context
def root(context: click.Context) -> None:
    """pinfold keeps block groups of an LLM's KV cache: who owns each, where it is, who uses it, how it moves."""
    context.ensure_object(Given)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line."""
    given = Given()
    try:
        outcome: Any = root.main(
            args=list(arguments) if arguments is not None else None, prog_name="pinfold", standalone_mode=False, obj=given
        )
        sys.stdout.flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.UsageError as error:
        where = f" (see 'pinfold {error.ctx.info_name} --help')" if error.ctx is not None and error.ctx.parent is not None else ""
        return tell_error(given, " ".join(error.format_message().split()).rstrip(".") + where, 2)
    except click.ClickException as error:
        return tell_error(given, error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return tell_error(given, "interrupted", 1)
    except (InvariantViolation, MisuseError):
        raise  # bugs of ours keep their traceback
    except PinfoldError as error:
        return tell_error(given, sentence_of(error), code_of(error), reason_of(error))
    except BrokenPipeError:
        stdout_is_gone()  # the reader has what it wanted
        return 0
    return outcome if isinstance(outcome, int) else 0
