"""The model, checked and bound to the machines: `python specs/bind [--small] [--json]`; `make spec` runs it.

    safety      TLC on specs/pinfold_mc.cfg, with symmetry
    liveness    TLC on specs/pinfold_live.cfg and specs/pinfold_live_restart.cfg
    spoilt      the model with one thing spoilt must be refused, once for each of spoilt.py
    equality    per slice: state sets (and labelled edges) of TLC and of the machines are equal
    traces      recorded runs of the embedded cluster are behaviours of the model; a spoilt one is refused at its event
    walks       random walks of TLC, taken again by the machines
    coverage    every action of the model was seen in an accepted trace

Exit codes: 0 all holds; 1 something does not; 3 a tool is missing, said in one sentence.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import tlc
from equality import compare
from replay import replay
from slices import SLICES, WALKS
from spoilt import SPOILT, refused
from traces import validate

PARTS = ("safety", "liveness", "spoilt", "equality", "traces", "walks")


def actions_of_the_model() -> list[str]:
    """The names that a trace can have: the cases of specs/pinfold_trace.tla."""
    return re.findall(r'Name = "(\w+)"', (tlc.SPECS / "pinfold_trace.tla").read_text())


class Report:
    """Lines for people, or one object for programs; and whether all holds."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.data: dict[str, Any] = {}
        self.wrong: list[str] = []

    def say(self, part: str, line: str, **facts: Any) -> None:
        self.data.setdefault(part, []).append({"text": line, **facts})
        if not self.as_json:
            print(f"{part:9} {line}", flush=True)

    def fail(self, text: str) -> None:
        self.wrong.append(text)
        if not self.as_json:
            print(text, flush=True)


def safety(report: Report, folder: Path, small: bool) -> None:
    del small
    bounds = "2 nodes, 2 sessions, 2 copies, a move, a session's end; symmetry"
    _model(report, "safety", folder, "pinfold_mc", "pinfold_mc", bounds)


def liveness(report: Report, folder: Path, small: bool) -> None:
    if not small:
        bounds = "2 nodes, a move: writing, moving, evicting, freeing end"
        _model(report, "liveness", folder, "pinfold_live", "pinfold_live", bounds)
    _model(report, "liveness", folder, "pinfold_live", "pinfold_live_restart", "1 node, the directory starts again: the same")


def _model(report: Report, part: str, folder: Path, module: str, config: str, bounds: str) -> None:
    tlc.lay_out(folder)
    (folder / f"{module}.cfg").write_text((tlc.SPECS / f"{config}.cfg").read_text())
    verdict = tlc.run(folder, module)
    report.say(
        part,
        f"{config}: {verdict.distinct:,} states, {verdict.generated:,} steps, {verdict.seconds:.0f} s ({bounds})",
        config=config, bounds=bounds, states=verdict.distinct, steps=verdict.generated, seconds=round(verdict.seconds, 1),
    )  # fmt: skip
    if verdict.violated:
        report.fail(f"{config}: {verdict.violated}\n{verdict.text[-4000:]}")


def spoilt(report: Report, folder: Path, small: bool) -> None:
    for at, one in enumerate(SPOILT[:2] if small else SPOILT):
        found, seconds = refused(one, folder / str(at))
        report.say("spoilt", f"{one.name}: {found or 'not found'}, {seconds:.0f} s", name=one.name, found=found)
        if found not in one.finds:
            report.fail(f"the spoilt model '{one.name}' was to be refused by {one.finds}, and was by '{found}'")


def equality(report: Report, folder: Path, small: bool) -> None:
    total = 0
    for one in SLICES.values():
        if small and not one.ci:
            continue
        result = compare(one, folder / one.name)
        total += result.states
        edges = f", {result.edges:,} labelled edges = {result.tlc_edges:,}" if one.edges else ""
        report.say(
            "equality",
            f"{one.name}: {result.states:,} states of the machines = {result.tlc_states:,} of TLC{edges}; {result.steps:,} "
            f"steps, {result.again:,} worlds expanded again; {result.machine_seconds:.0f} s + {result.tlc_seconds:.0f} s "
            f"({one.about})",
            **attrs.asdict(result),
        )
        for difference in result.differences:
            report.fail(difference)
    report.say("equality", f"{total:,} states in all", states=total)


def traces(report: Report, folder: Path, small: bool) -> None:
    result = validate(40 if small else 1_000, 60, folder)
    report.say(
        "traces",
        f"{result.accepted:,} of {result.traces:,} runs accepted, {result.events:,} events, {result.seconds:.0f} s; one spoilt "
        f"at event {result.spoilt_at}, refused at {result.refused_at}",
        **attrs.asdict(result),
    )
    for difference in result.differences:
        report.fail(difference)
    unseen = [name for name in actions_of_the_model() if name not in result.names]
    line = f"{len(result.names)} actions seen in accepted traces, unseen: {', '.join(unseen) or 'none'}"
    report.say("coverage", line, unseen=unseen)
    if unseen and not small:
        report.fail(f"no accepted trace has {', '.join(unseen)}")


def walks(report: Report, folder: Path, small: bool) -> None:
    for one in WALKS[:1] if small else WALKS:
        result = replay(one, folder / one.name, 5 if small else 60, 60, seed=1)
        line = f"{one.name}: {result.walks} walks, {result.steps:,} steps taken again, {result.seconds:.0f} s ({one.about})"
        report.say("walks", line, **attrs.asdict(result))
        for difference in result.differences:
            report.fail(difference)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="specs/bind", description="the TLA+ model, checked and bound to the machines")
    parser.add_argument("--small", action="store_true", help="a slice of it, in about a minute")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part (may be repeated)")
    given = parser.parse_args(arguments)
    try:
        tlc.java()
        tlc.jar(install=True)
    except tlc.Missing as missing:
        print(missing, file=sys.stderr)
        return 3
    report = Report(given.json)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pinfold-spec-") as folder:
        for part in given.only or PARTS:
            try:
                globals()[part](report, Path(folder) / part, given.small)
            except tlc.Failed as failed:
                report.fail(f"{part}: {failed}")
    seconds = time.monotonic() - begun
    if given.json:
        told = {"ok": not report.wrong, "seconds": round(seconds, 1), "wrong": report.wrong, **report.data}
        print(json.dumps(told, default=list))
    else:
        print(f"{'all holds' if not report.wrong else f'{len(report.wrong)} differences'}, {seconds:.0f} s")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
