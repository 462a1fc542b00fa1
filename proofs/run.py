"""Let CrossHair settle every contract: `make prove`, or `python -m proofs.run`.

    python -m proofs.run [--json] [--jobs N] [--only TEXT] [--timeout SECONDS]

An obligation counts only if CrossHair answers "Confirmed over all paths." for both contracts of its row, and nothing else. A
contract that it does not confirm is run again invariant by invariant, so that each obligation that is refuted or resists has a
name. Exit codes: 0 all is well; 1 an obligation is refuted, a canary survives, fewer than 95 % are confirmed, or one that resists
has no explorer bound in `obligations.COVERED_ELSEWHERE`; 2 wrong usage, or CrossHair is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Final

from attrs import asdict, define

from . import properties
from .canaries import BY_NAME
from .obligations import COVERED_ELSEWHERE, Contract, applies, contracts, obligations

CONFIRMED: Final = "Confirmed over all paths."
ENOUGH: Final = 0.95
TIMEOUT_S: Final = 120.0
"""Processor seconds for one contract; the slowest takes a tenth of it."""
SLOW: Final = ("ADOPT", "COPY_DONE/INCOMING", "EVICT", "GONE/AUTHORITATIVE", "ENDED/INCOMING")
"""Rows that change other copies have the most paths. They go first, so that both cores end together."""


@define(frozen=True)
class Settled:
    """What CrossHair said of one contract, or of one invariant of it. `verdict`: "confirmed", "refuted" or "resisted"."""

    contract: Contract
    invariant: str
    verdict: str
    said: str
    paths: int
    seconds: float


def analyse(contract: Contract, invariant: str = "", timeout_s: float = TIMEOUT_S) -> Settled:
    """One contract; with `invariant`, only that one of its conjunction."""
    from crosshair.core_and_libs import MessageType, analyze_function
    from crosshair.options import AnalysisKind, AnalysisOptionSet

    module = importlib.import_module(f"{__package__}.{contract.module}")
    stats: Counter[str] = Counter()
    options = AnalysisOptionSet(
        analysis_kind=[AnalysisKind.PEP316], report_all=True, per_condition_timeout=timeout_s, per_path_timeout=timeout_s / 2,
        stats=stats,
    )  # fmt: skip
    properties.ONLY[:] = [invariant] if invariant else []
    begun = time.process_time()
    try:
        checkables = analyze_function(getattr(module, contract.function), options)
        messages = [message for checkable in checkables for message in checkable.analyze()]
    finally:
        properties.ONLY.clear()
    said = "; ".join(message.message for message in messages)
    if [(message.state, message.message) for message in messages] == [(MessageType.CONFIRMED, CONFIRMED)]:
        verdict = "confirmed"
    elif any(message.state is MessageType.POST_FAIL for message in messages):
        verdict = "refuted"
    else:
        verdict = "resisted"  # no end in time, an exception, or a precondition that nothing meets
    return Settled(contract, invariant, verdict, said, stats["num_paths"], time.process_time() - begun)


def settle(contract: Contract, timeout_s: float = TIMEOUT_S) -> list[Settled]:
    """The contract; and where a proof is not confirmed, each of its invariants alone."""
    whole = analyse(contract, "", timeout_s)
    if contract.breaks or whole.verdict == "confirmed":
        return [whole]
    shown = properties.ANY if contract.view == "Any" else properties.NAMED
    mine = [invariant for invariant in shown if applies(BY_NAME[contract.row], invariant)]
    return [whole, *(analyse(contract, invariant, timeout_s / 2) for invariant in mine)]


def settle_all(chosen: Iterable[Contract], jobs: int, timeout_s: float) -> Iterator[list[Settled]]:
    """Each contract's results, as they come."""
    slow_first = sorted(chosen, key=lambda one: not any(word in one.row for word in SLOW) or bool(one.breaks))
    if jobs == 1:
        for contract in slow_first:
            yield settle(contract, timeout_s)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(settle, contract, timeout_s) for contract in slow_first]):
            yield future.result()


# ---- the verdict ---------------------------------------------------------------------------------------------


@define
class Verdict:
    """`resisted` and `refuted` name obligations, `survived` canaries; `uncovered` those that resist and have no bound."""

    obligations: int
    confirmed: int
    refuted: dict[str, str]
    resisted: dict[str, str]
    uncovered: list[str]
    canaries: int
    survived: dict[str, str]
    contracts: int
    paths: int
    processor_seconds: float
    seconds: float
    files: dict[str, float]
    """Processor seconds per contract file."""

    @property
    def well(self) -> bool:
        """Is there nothing to complain of?"""
        enough = self.confirmed >= ENOUGH * self.obligations
        return enough and not self.refuted and not self.survived and not self.uncovered


def judge(results: list[list[Settled]], seconds: float, rows: set[str]) -> Verdict:
    """Add the results up. `rows`: those whose contracts were run."""
    wanted = [one for one in obligations() if one.row in rows]
    bad: dict[tuple[str, str], Settled] = {}
    survived: dict[str, str] = {}
    files: Counter[str] = Counter()
    for settled in results:
        whole = settled[0]
        files[whole.contract.module] += sum(one.seconds for one in settled)  # type: ignore[assignment]
        if whole.contract.breaks:
            if whole.verdict != "refuted":
                survived[f"{whole.contract.row} {whole.contract.function}"] = whole.said
            continue
        for one in settled[1:]:
            if one.verdict != "confirmed":
                bad[one.contract.row, one.invariant] = one
    refuted = {f"{row} {invariant}": one.said for (row, invariant), one in bad.items() if one.verdict == "refuted"}
    resisted = {f"{row} {invariant}": one.said for (row, invariant), one in bad.items() if one.verdict == "resisted"}
    flat = [one for settled in results for one in settled]
    return Verdict(
        obligations=len(wanted), confirmed=len(wanted) - len(bad), refuted=refuted, resisted=resisted,
        uncovered=[f"{row} {invariant}" for row, invariant in bad if (row, invariant) not in COVERED_ELSEWHERE],
        canaries=sum(1 for settled in results if settled[0].contract.breaks), survived=survived, contracts=len(results),
        paths=sum(one.paths for one in flat), processor_seconds=round(sum(one.seconds for one in flat), 1),
        seconds=round(seconds, 1),
        files={name: round(spent, 1) for name, spent in sorted(files.items())},
    )  # fmt: skip


def lines(verdict: Verdict) -> Iterator[str]:
    """The verdict for people."""
    for name, said in verdict.refuted.items():
        yield f"REFUTED   {name}\n          {said}"
    for name, said in verdict.resisted.items():
        row, _, invariant = name.rpartition(" ")
        yield f"RESISTED  {name}: {said} Covered by: {COVERED_ELSEWHERE.get((row, invariant), 'NOTHING')}"
    for name, said in verdict.survived.items():
        yield f"SURVIVED  {name}: {said}"
    yield (
        f"{verdict.confirmed} of {verdict.obligations} obligations confirmed over all paths, "
        f"{len(verdict.resisted)} resisted, {len(verdict.refuted)} refuted; "
        f"{verdict.canaries - len(verdict.survived)} of {verdict.canaries} canaries refuted; "
        f"{verdict.contracts} contracts, {verdict.paths} paths, {verdict.processor_seconds} processor seconds, "
        f"{verdict.seconds} s"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="proofs.run", description="Prove the rows of the table with CrossHair.")
    parser.add_argument("--json", action="store_true", help="print the verdict as one JSON object")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--only", default="", help="contracts whose name contains this")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help=f"processor seconds per contract ({TIMEOUT_S:g})")
    options = parser.parse_args(arguments)
    try:
        import crosshair  # noqa: F401
    except ModuleNotFoundError:
        print("CrossHair is not installed: pip install 'pinfold[prove]'", file=sys.stderr)
        return 2
    chosen = [one for one in contracts() if options.only in f"{one.module}.{one.function}"]
    begun = time.monotonic()
    results: list[list[Settled]] = []
    for settled in settle_all(chosen, options.jobs, options.timeout):
        results.append(settled)
        whole = settled[0]
        good = whole.verdict == ("refuted" if whole.contract.breaks else "confirmed")
        if not good or sys.stderr.isatty() or len(results) % 20 == 0:
            mark = "" if good else f" {whole.verdict.upper()}: {whole.said[:200]}"
            at = f"[{len(results)}/{len(chosen)}] {time.monotonic() - begun:.0f} s"
            print(f"{at} {whole.contract.function}{mark}", file=sys.stderr)
    verdict = judge(results, time.monotonic() - begun, {one.row for one in chosen if not one.breaks})
    if options.json:
        report: dict[str, Any] = {**asdict(verdict), "well": verdict.well}
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(lines(verdict)))
    return 0 if verdict.well else 1


if __name__ == "__main__":
    sys.exit(main())
