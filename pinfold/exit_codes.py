"""The exit codes of the command line, and the page that lists them (`python -m pinfold.exit_codes > docs/exit_codes.md`)."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from .core.errors import REFUSALS, PinfoldError, Refusal, Retry

MEANINGS: Final = {
    0: "it happened",
    1: "it failed or was refused",
    2: "usage or configuration",
    3: "nobody can tell whether it happened; of a check: a limit was reached before everything was seen",
    4: "nobody could be reached; it surely did not happen",
    5: "fenced or stale: somebody or something newer has taken over",
    6: "not found, or there already",
    11: "`pinfold check`: a state that is not at rest, and nothing can happen any more (deadlock)",
    12: "`pinfold check`, `pinfold history check`: an invariant is broken; no correct run can show this",
    13: "`pinfold check`: a state from which rest can't be reached (liveness)",
}

MODULES: Final = ("backends.base", "transport.base", "core.driver", "config", "probe", "ports", "cluster", "client_loop")
"""Where errors of the world are declared."""

RETRIES: Final = {Retry.NEVER: "no", Retry.SAME_ID: "the same number", Retry.AFTER: "later"}


def exit_code(refusal: Refusal, definite: bool) -> int:
    """Of an answer. A deadline that came while surely nothing had happened is one that nobody answered in time: 4, not 3; and
    any other outcome that is not known is 3, whatever the reason."""
    if refusal.reason == "DeadlineReached":
        return 4 if definite else 3
    return refusal.info.exit_code if definite or refusal.info.exit_code in (4, 5) else 3


def _errors(kind: type[PinfoldError] = PinfoldError) -> list[type[PinfoldError]]:
    found = [kind] if "exit_code" in vars(kind) and kind is not PinfoldError else []
    for child in kind.__subclasses__():
        found += _errors(child)
    return sorted(set(found), key=lambda each: (each.exit_code, each.__name__))


def page() -> str:
    """The whole page, in Markdown."""
    for module in MODULES:
        import_module(f".{module}", __package__)
    lines = [
        "# Exit codes",
        "",
        "Made by `python -m pinfold.exit_codes` from `core/errors.py`; a test compares.",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
        "`DeadlineReached` is 4 where surely nothing has happened. An answer after which nobody can tell is 3.",
        "",
        "## Answers",
        "",
        "| answer | code | surely did not happen | try again | meaning |",
        "|---|---|---|---|---|",
    ]
    for reason, info in sorted(REFUSALS.items(), key=lambda item: (item[1].exit_code, item[0])):
        definite = "yes" if info.definite else "not known"
        lines.append(f"| `{reason}` | {info.exit_code} | {definite} | {RETRIES[info.retry]} | {info.meaning} |")
    lines += ["", "## Errors of the world, and of settings", "", "| error | code | raised when |", "|---|---|---|"]
    homes = {f"{__package__}.{module}" for module in MODULES}
    for kind in _errors():
        if kind.__module__ in homes:
            first = " ".join((kind.__doc__ or "").split()).partition(". ")[0]
            first = first.removeprefix("Raised when ").removeprefix("Raised ")
            lines.append(f"| `{kind.__name__}` | {kind.exit_code} | {first.rstrip('.')} |")
    lines += ["", "Every other error of the world is 1. A traceback is a bug of ours.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
