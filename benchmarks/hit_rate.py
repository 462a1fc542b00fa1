"""Hit rate against group size and capacity, on the public traces: what larger groups cost in hits, and what memory buys.

    python benchmarks/hit_rate.py --traces ../shared/data [--json FILE] [--page FILE]

The curves are counted by the cache of tests/reference_cache.py, which is fast; that the machines count the same is checked on the
way at some points, on the first requests of each trace (`checked` in the JSON; a difference is an error).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tests/, which is not installed

from pinfold import page, plot  # noqa: E402
from pinfold.embedded_job import EmbeddedJob, EmbeddedRun  # noqa: E402
from pinfold.trace import TraceRequest, read_trace  # noqa: E402
from tests.reference_cache import replay  # noqa: E402

FILES = ("conversation_trace.jsonl", "synthetic_trace.jsonl")
GROUP_BLOCKS = (1, 2, 4, 8, 16)
CAPACITIES: tuple[int | None, ...] = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, None)
CHECKED = ((1, 1_000), (4, 1_000), (4, 5_000), (16, 2_000), (4, None))
CHECKED_REQUESTS = 200


def curves(requests: list[TraceRequest]) -> dict[int, list[tuple[int | None, float]]]:
    """Group size -> (capacity in blocks, hit rate), in rising capacity."""
    chains = [request.hash_ids for request in requests]
    found: dict[int, list[tuple[int | None, float]]] = {}
    for size in GROUP_BLOCKS:
        points = []
        for capacity in CAPACITIES:
            cache = replay(chains, size, capacity)
            points.append((capacity, round(cache.hit_blocks / cache.blocks, 6)))
        found[size] = points
        print(f"  {size:2} blocks a group: {points}", file=sys.stderr)
    return found


def check(requests: list[TraceRequest]) -> list[dict[str, Any]]:
    """The machines against the cache, to the block."""
    chains = [request.hash_ids for request in requests]
    found = []
    for size, capacity in CHECKED:
        wanted = replay(chains, size, capacity)
        run = EmbeddedRun(EmbeddedJob(group_blocks=size, capacity=capacity), requests).run()
        got = (run.tally.hit_blocks, run.evictions)
        if not run.ok or got != (wanted.hit_blocks, wanted.evictions):
            raise SystemExit(f"{size} blocks a group, capacity {capacity}: the machines count {got}, the cache "
                             f"{(wanted.hit_blocks, wanted.evictions)}; {run.problems}")  # fmt: skip
        found.append({"group_blocks": size, "capacity": capacity, "requests": len(requests), "hit_blocks": wanted.hit_blocks})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "data", help="the folder of the public traces")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "hit_rate.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "hit_rate.html")
    given = parser.parse_args()
    report: dict[str, Any] = {"policy": "lru", "high": 950, "low": 900, "traces": {}}
    figures, notes = [], []
    begun = time.perf_counter()
    for file in FILES:
        requests = list(read_trace(given.traces / file))
        print(f"{file}: {len(requests)} requests", file=sys.stderr)
        found, checked = curves(requests), check(requests[:CHECKED_REQUESTS])
        blocks = sum(len(request.hash_ids) for request in requests)
        distinct = len(set().union(*(request.hash_ids for request in requests)))
        report["traces"][file] = {
            "requests": len(requests), "blocks": blocks, "distinct_blocks": distinct,
            "hit_rate": {str(size): points for size, points in found.items()}, "checked": checked,
        }  # fmt: skip
        caption = f"{file}: {len(requests):,} requests, {blocks:,} blocks, {distinct:,} different ones."
        figures.append(plot.hit_rate_curve(found, caption))
        notes.append(_table(file, found))
    about = (
        "LRU among leaves, watermarks 950 and 900 per mille. A hit is a block in the longest run of whole groups, from the front "
        "of the prompt, that is there when the request comes."
    )
    parts = [page.charts(figures), f'<div class="tables">{"".join(notes)}</div>']
    text = page.page("Hit rate, group size and capacity", about, parts)
    given.page.write_text(text, encoding="utf-8")
    given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - begun:.0f} s; {given.page}, {given.json}", file=sys.stderr)
    return 0


def _table(file: str, found: dict[int, list[tuple[int | None, float]]]) -> str:
    head = ("capacity, blocks", *(f"{size} a group" for size in found))
    rows = [
        ("unbounded" if capacity is None else f"{capacity:,}", *(f"{found[size][place][1] * 100:.2f} %" for size in found))
        for place, capacity in enumerate(CAPACITIES)
    ]
    return page.table(f"Hit rate, {file}", head, rows)


if __name__ == "__main__":
    sys.exit(main())
