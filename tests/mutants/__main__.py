"""The kill matrix: `make mutants` (fast) and `make mutants-full` (all of it).

    python -m tests.mutants                      each mutant under its two quickest known killers, and those without a fault
    python -m tests.mutants --deep               every mutant under every check; goes on where it was left, `--fresh` begins anew
    python -m tests.mutants --deep --mutant M    these only (may be repeated); `--check C` likewise

`--write` writes `specs/mutants.md` after a whole run; with `--deep` it keeps the killers that were found, too. Exit codes: 0 each
mutant dies by two independent checks, each check kills, and nothing fails without a fault; 1 something does not; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys

from tests.mutants.program import Given, program


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Seeded faults against every check.")
    parser.add_argument("--deep", action="store_true", help="every mutant under every check")
    parser.add_argument("--fresh", action="store_true", help="with --deep: forget what an earlier run has found")
    parser.add_argument("--mutant", action="append", default=[], metavar="M", help="this mutant only (may be repeated)")
    parser.add_argument("--check", action="append", default=[], metavar="C", help="this check only (may be repeated)")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--seconds", type=float, default=6.0, help="with --deep: processor seconds for a cell (6)")
    parser.add_argument("--pairs", action="store_true", help="with --deep: only look for two killers of each, soon")
    parser.add_argument("--write", action="store_true", help="write specs/mutants.md; with --deep: keep the killers found, too")
    return program(Given(**vars(parser.parse_args(arguments))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
