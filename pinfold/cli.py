"""The command `pinfold`: the door. What is behind it needs the extras; the door itself needs nothing but Python.

    cli         this door: a missing extra is one sentence        cli_root     the command and its global options
    cli_shared  options, output, errors                           cli_serve    up, directory, node
    cli_data    put, get, stat, ls, locate                        cli_holds    pin, unpin, ref, unref
    cli_moves   move, evict, replicate, drain                     cli_look     status, watch, explain
    cli_admin   doctor, config                                    cli_job      demo, replay
    cli_history check what clients were told                      cli_check    every order of events in small worlds
    cli_simulate whole clusters from seeds, under faults
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

EXTRAS: Final = {
    "click": "cli", "zmq": "wire", "msgspec": "wire", "lmdb": "lmdb", "numpy": "tiers", "xxhash": "tiers",
}  # fmt: skip
"""Libraries by import name, and the extra that brings each; `server` brings all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (that of the process by default); the exit code (docs/exit_codes.md)."""
    try:
        from .cli_root import run

        return run(arguments)
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS and not hasattr(error, "exit_code"):
            raise
        sentence = str(error)
        if library in EXTRAS:
            sentence = f"this needs {library}, which is not installed: pip install 'pinfold[server]'"
        print(f"pinfold: {sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pinfold: interrupted", file=sys.stderr)
        return 1
