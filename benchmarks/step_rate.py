"""Group cycles per second of the Directory, beside the least that an unproven manager can do, in one run.

    python benchmarks/step_rate.py --json

put = Create + Sealed, get = Pin + Unpin, at batch 1, 32 and 256, invariants off, one node, one session, one-block groups. The
reference is `reference_manager.py`. Figures are medians of `--rounds`; machines are shared and noisy, so the ratios are
what counts. `--profile` says where the Directory's time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.reference_manager import get_cycles_per_s, put_cycles_per_s
from pinfold.core.answers import BatchAnswer, Created, Pinned
from pinfold.core.commands import Batch, Command, Create, OpenSession, Pin, Spec, Unpin
from pinfold.core.directory import Directory
from pinfold.core.ids import Key, Layout, NodeName, Peer, SessionId, group_id
from pinfold.core.reports import Inventory, Register, Report, Sealed
from pinfold.core.state import DirectoryConfig

BATCHES = (1, 32, 256)
CLIENT = Peer("client/bench")
NODE = NodeName("n1")
LAYOUT = Layout()
HASH = b"m" * 16
WARM_MEGABYTES = 256


class Bench:
    """A directory with one node and one session, driven as a client and a node would."""

    def __init__(self, groups: int) -> None:
        self.directory = Directory(DirectoryConfig(checks=False), Directory.blank("bench"))
        self.directory.start(0)
        self.step = self.directory.step
        self.step(Register(NODE, "boot", Peer("node/n1"), groups + 1), 0)
        self.incarnation = self.directory.state.nodes[NODE].incarnation
        self.step(Inventory(NODE, self.incarnation, 1, 0, 1, 0, 1, ()), 0)
        self.step(OpenSession(CLIENT, "bench", lease_ms=600_000), 0)
        self.session = SessionId(self.directory.state.tokens["bench"])
        self.sequence = 0
        keys = [Key("t", "m", "r", LAYOUT, str(number), 1) for number in range(groups)]
        self.specs = [Spec(group_id(key), key, (4096,), (key.prefix,)) for key in keys]

    def command(self, items: list) -> tuple:
        self.sequence += 1
        body = items[0] if len(items) == 1 else Batch(tuple(items))
        ready = self.step(Command(CLIENT, self.session, self.sequence, self.sequence, body), 0)
        answer = ready.reply[0].message.answer
        return answer.items if type(answer) is BatchAnswer else (answer,)

    def put(self, batch: int, specs: list[Spec]) -> None:
        for at in range(0, len(specs), batch):
            made = self.command([Create(spec) for spec in specs[at : at + batch]])
            assert type(made[-1]) is Created, made[-1]
            self.step(Report(NODE, self.incarnation, tuple([Sealed(one.copy, HASH) for one in made])), 0)

    def get(self, batch: int, specs: list[Spec]) -> None:
        for at in range(0, len(specs), batch):
            pinned = self.command([Pin(spec.group) for spec in specs[at : at + batch]])
            assert type(pinned[-1]) is Pinned, pinned[-1]
            self.command([Unpin(one.hold) for one in pinned])


def cycles_per_s(kind: str, batch: int, groups: int) -> float:
    """One round: a fresh directory, `groups` cycles."""
    bench = Bench(groups)
    if kind == "get":
        bench.put(256, bench.specs)
    run: Callable[[int, list[Spec]], None] = getattr(bench, kind)
    gc.collect()
    gc.disable()
    try:
        begun = perf_counter()
        run(batch, bench.specs)
        return groups / (perf_counter() - begun)
    finally:
        gc.enable()


def warm(megabytes: int) -> list[list[int]]:
    """Give the process memory that it keeps, as a server has after its first minutes: a fresh page costs more than a step.

    The ballast that is returned keeps the allocator from giving the arenas back.
    """
    junk = [[number] for number in range(megabytes * 8_000)]
    return junk[:: 4_000]


def measure(rounds: int, groups: int) -> dict[str, object]:
    """Directory and reference, interleaved round by round so that both meet the same noise."""
    ballast = warm(WARM_MEGABYTES)
    figures: dict[str, object] = {"rounds": rounds, "groups": groups, "python": sys.version.split()[0]}
    for kind, reference in (("put", put_cycles_per_s), ("get", get_cycles_per_s)):
        table = {}
        for batch in BATCHES:
            pairs = [(cycles_per_s(kind, batch, groups), reference(batch, 0.2)) for _ in range(rounds)]
            ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
            table[str(batch)] = {
                "directory_per_s": round(ours),
                "reference_per_s": round(theirs),
                "ratio": round(statistics.median(one / other for one, other in pairs), 4),
            }
        figures[kind] = table
        figures[f"{kind}_ratio"] = {batch: row["ratio"] for batch, row in table.items()}
    assert ballast
    return figures


def profile(groups: int, lines: int) -> None:
    """Where the time of a put and a get goes, at batch 32."""
    for kind in ("put", "get"):
        bench = Bench(groups)
        if kind == "get":
            bench.put(256, bench.specs)
        gc.collect()
        gc.disable()
        profiler = cProfile.Profile()
        profiler.runcall(getattr(bench, kind), 32, bench.specs)
        print(f"\n== {kind}, batch 32, {groups} cycles")
        gc.enable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=20_000, help="cycles per round")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.profile:
        profile(options.groups, 25)
        return
    figures = measure(options.rounds, options.groups)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for kind in ("put", "get"):
        for batch, row in figures[kind].items():  # type: ignore[attr-defined]
            ours, theirs = row["directory_per_s"], row["reference_per_s"]
            print(f"{kind} batch {batch:>3}: {ours:>9,}/s, reference {theirs:>9,}/s, ratio {row['ratio']}")


if __name__ == "__main__":
    main()
