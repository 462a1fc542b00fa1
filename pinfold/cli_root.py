"""The root of the command line: its commands, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from . import __version__
from .cli_shared import Given, code_of, shared, tell_error
from .core.errors import InvariantViolation, PinfoldError
from .serving import stdout_is_gone

MODULES = ("cli_serve", "cli_data", "cli_holds", "cli_moves", "cli_look", "cli_admin", "cli_job")
"""Each has COMMANDS, a tuple of click commands."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@shared
@click.pass_context
def root(context: click.Context) -> None:
    """pinfold keeps block groups of an LLM's KV cache: who owns each, where it is, who uses it, how it moves."""
    context.ensure_object(Given)


for _module in MODULES:
    if find_spec(f"pinfold.{_module}") is not None:
        for _command in import_module(f".{_module}", "pinfold").COMMANDS:
            root.add_command(_command)


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
        return tell_error(given, error.format_message().rstrip(".") + where, 2)
    except click.ClickException as error:
        return tell_error(given, error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return tell_error(given, "interrupted", 1)
    except InvariantViolation:
        raise
    except PinfoldError as error:
        refusal = getattr(error, "refusal", None)
        return tell_error(given, str(error), code_of(error), refusal.reason if refusal is not None else type(error).__name__)
    except BrokenPipeError:
        stdout_is_gone()  # the reader has what it wanted
        return 0
    return outcome if isinstance(outcome, int) else 0
