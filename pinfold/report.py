"""The report of a run: what happened, in figures that can be added up, compared, and looked at.

A `Tally` is one client's share; it is plain data, so that a client process hands it over as JSON and the
runner merges. A `Report` is the whole run. `Report.to_json` has the same keys in the same order for every
run; `Report.to_html` is one file with everything in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from . import page, plot

# ---- latency -------------------------------------------------------------------------------------------------

_SUB_BITS: Final = 7
_SUB: Final = 1 << _SUB_BITS
NS_MAX: Final = (1 << 62) - 1


class Latency:
    """A histogram of times whose buckets grow with the time: exact below 256 ns, within 0.8 % above, at most
    about 7,000 buckets however long it runs."""

    __slots__ = ("_buckets", "count", "max_ns", "min_ns", "sum_ns")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.sum_ns = 0
        self.min_ns = NS_MAX
        self.max_ns = 0

    def record(self, ns: int) -> None:
        """Add one time in ns; a negative one (a clock that was set) counts as 0."""
        ns = min(max(ns, 0), NS_MAX)
        shift = max(0, ns.bit_length() - _SUB_BITS - 1)
        bucket = (shift << _SUB_BITS) + (ns >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.sum_ns += ns
        self.min_ns = min(self.min_ns, ns)
        self.max_ns = max(self.max_ns, ns)

    def percentile_us(self, per_mille: int) -> float:
        """The time in us at or below which `per_mille` of a thousand recorded times are (nearest rank); 0.0
        for none."""
        rank = max(1, -(-self.count * per_mille // 1000))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return round(min(max(_middle(bucket), self.min_ns), self.max_ns) / 1000, 1)
        return 0.0

    def summary(self) -> dict[str, float]:
        """`p50, p99, p999, mean, max` in us, and `count`."""
        return {
            "p50": self.percentile_us(500),
            "p99": self.percentile_us(990),
            "p999": self.percentile_us(999),
            "mean": round(self.sum_ns / self.count / 1000, 1) if self.count else 0.0,
            "max": round(self.max_ns / 1000, 1),
            "count": self.count,
        }

    def merge(self, other: Latency) -> None:
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.sum_ns += other.sum_ns
        self.min_ns = min(self.min_ns, other.min_ns)
        self.max_ns = max(self.max_ns, other.max_ns)

    def to_plain(self) -> list[Any]:
        return [self.count, self.sum_ns, self.min_ns, self.max_ns, sorted(self._buckets.items())]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Latency:
        made = cls()
        made.count, made.sum_ns, made.min_ns, made.max_ns, buckets = plain
        made._buckets = dict(map(tuple, buckets))
        return made


def _middle(bucket: int) -> int:
    """The middle of a bucket, in ns."""
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    return ((bucket - (shift << _SUB_BITS)) << shift) + ((1 << shift) >> 1)


# ---- figures -------------------------------------------------------------------------------------------------


def add_up(into: dict[str, int], other: Mapping[str, int]) -> None:
    """Add each count of `other` to that of the same name."""
    for name, count in other.items():
        into[name] = into.get(name, 0) + count


_COUNTS: Final = (
    "requests", "blocks", "hit_blocks", "operations", "bytes_verified", "wrong_bytes", "retries", "stale_routes",
    "degraded",
)  # fmt: skip


@define
class Tally:
    """What one client did. `hit_blocks_by_tier` by the tier that answered; `refusals` by reason; `latency` by
    operation.

    `operations` are calls that ended, well or not; `degraded` requests went on without the cache.
    """

    requests: int = 0
    blocks: int = 0
    hit_blocks: int = 0
    operations: int = 0
    bytes_verified: int = 0
    wrong_bytes: int = 0
    retries: int = 0
    stale_routes: int = 0
    degraded: int = 0
    hit_blocks_by_tier: dict[str, int] = field(factory=dict)
    refusals: dict[str, int] = field(factory=dict)
    latency: dict[str, Latency] = field(factory=dict)

    def record(self, operation: str, ns: int) -> None:
        """One call of `operation` took `ns`."""
        found = self.latency.get(operation)
        if found is None:
            found = self.latency[operation] = Latency()
        found.record(ns)
        self.operations += 1

    def refused(self, reason: str) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    @property
    def hit_rate(self) -> float:
        """Share of the blocks asked for that were hits."""
        return _rate(self.hit_blocks, self.blocks)

    def merge(self, other: Tally) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        add_up(self.hit_blocks_by_tier, other.hit_blocks_by_tier)
        add_up(self.refusals, other.refusals)
        for operation, latency in other.latency.items():
            self.latency.setdefault(operation, Latency()).merge(latency)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "hit_blocks_by_tier": dict(self.hit_blocks_by_tier),
            "refusals": dict(self.refusals),
            "latency": {operation: latency.to_plain() for operation, latency in self.latency.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tally:
        """What `to_plain` gave, also after JSON. Raises `KeyError`, `TypeError` or `ValueError` for anything
        else."""
        latency = {name: Latency.from_plain(one) for name, one in plain["latency"].items()}
        counts = {name: int(plain[name]) for name in _COUNTS}
        return cls(
            **counts,
            hit_blocks_by_tier=dict(plain["hit_blocks_by_tier"]),
            refusals=dict(plain["refusals"]),
            latency=latency,
        )


@define
class Sample:
    """The run at one point of its progress: `requests` done, `blocks` and `hit_blocks` so far, and the fill of
    each tier (share of 1). A runner takes a few hundred of them, evenly over the requests."""

    requests: int
    blocks: int
    hit_blocks: int
    fill: dict[str, float] = field(factory=dict)


@define
class Fault:
    """`name` happened when `requests` were done. `recovery_s`: from then until all was well again, None: not
    measured."""

    name: str
    requests: int
    recovery_s: float | None = None


@define
class Report:
    """A whole run. `job` is the command; `settings` what it was told, in the order to show; `problems` a
    sentence for each thing that must not happen and did. Times in seconds."""

    job: str
    settings: dict[str, str | int | float | bool | None] = field(factory=dict)
    seed: int | None = None
    seconds: float = 0.0
    tally: Tally = field(factory=Tally)
    moves_committed: int = 0
    moves_aborted: int = 0
    evictions: int = 0
    demotions: int = 0
    kills: int = 0
    pauses: int = 0
    violations: int = 0
    leaked_holds: int = 0
    orphan_copies: int = 0
    problems: list[str] = field(factory=list)
    faults: list[Fault] = field(factory=list)
    samples: list[Sample] = field(factory=list)

    @property
    def ok(self) -> bool:
        """Nothing happened that must not."""
        bad = (self.violations, self.tally.wrong_bytes, self.leaked_holds, self.orphan_copies)
        return not any(bad) and not self.problems

    @property
    def recovery_s(self) -> dict[str, float]:
        """Seconds by fault; the longest, where one name happened more than once."""
        found: dict[str, float] = {}
        for fault in self.faults:
            if fault.recovery_s is not None:
                found[fault.name] = round(max(fault.recovery_s, found.get(fault.name, 0.0)), 3)
        return found

    def to_json(self) -> dict[str, Any]:
        """The figures. Always these keys, in this order; dictionaries inside are in the order of their
        names."""
        tally = self.tally
        return {
            "job": self.job,
            "ok": self.ok,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "requests": tally.requests,
            "blocks": tally.blocks,
            "hit_blocks": tally.hit_blocks,
            "hit_rate": tally.hit_rate,
            "hit_rate_by_tier": {tier: _rate(count, tally.blocks) for tier, count in sorted(tally.hit_blocks_by_tier.items())},
            "operations": tally.operations,
            "ops_per_s": round(tally.operations / self.seconds, 1) if self.seconds > 0 else 0.0,
            "latency_us": {name: tally.latency[name].summary() for name in sorted(tally.latency)},
            "violations": self.violations,
            "wrong_bytes": tally.wrong_bytes,
            "leaked_holds": self.leaked_holds,
            "orphan_copies": self.orphan_copies,
            "bytes_verified": tally.bytes_verified,
            "moves_committed": self.moves_committed,
            "moves_aborted": self.moves_aborted,
            "evictions": self.evictions,
            "demotions": self.demotions,
            "retries": tally.retries,
            "stale_routes": tally.stale_routes,
            "degraded": tally.degraded,
            "refusals": dict(sorted(tally.refusals.items())),
            "kills": self.kills,
            "pauses": self.pauses,
            "recovery_s": dict(sorted(self.recovery_s.items())),
            "problems": list(self.problems),
            "settings": dict(self.settings),
        }

    def to_html(self) -> str:
        """One self-contained page. The same report gives the same bytes."""
        figures = self.to_json()
        told = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        seed = "" if self.seed is None else f"seed {self.seed}; "
        parts = [
            page.verdict(self.ok, self._sentence(), self.problems),
            page.tiles(self._tiles()),
            "<h2>Over the run</h2>",
            page.charts([self._hit_rate_chart(), self._fill_chart()]),
            "<h2>By operation, refusal and fault</h2>",
            page.charts(
                [
                    _latency_chart(figures["latency_us"]),
                    plot.bar_chart("Refusals by reason", _largest_first(self.tally.refusals)),
                    plot.bar_chart("Recovery by fault", _largest_first(self.recovery_s), " s"),
                    plot.bar_chart("Hit blocks by tier", _largest_first(self.tally.hit_blocks_by_tier), " blocks"),
                ]
            ),
            "<h2>Figures</h2>",
            f'<div class="tables">{_latency_table(figures["latency_us"])}{self._fault_table()}</div>',
        ]
        return page.page(f"pinfold {self.job}", f"{seed}{told}", parts, json.dumps(figures, indent=2))

    def write_html(self, path: str | Path) -> None:
        """Write the page. Raises `OSError` if the file cannot be written."""
        Path(path).write_text(self.to_html(), encoding="utf-8", newline="\n")

    def _sentence(self) -> str:
        return (
            f"Violations {self.violations}, wrong bytes {self.tally.wrong_bytes}, leaked holds {self.leaked_holds},"
            f" orphan copies {self.orphan_copies}; {plot.number(self.tally.bytes_verified)} bytes verified."
        )

    def _tiles(self) -> list[tuple[str, str]]:
        tally = self.tally
        rate = tally.operations / self.seconds if self.seconds > 0 else 0.0
        counts = (
            ("requests", tally.requests), ("blocks", tally.blocks), ("operations/s", rate),
            ("moves committed", self.moves_committed), ("moves aborted", self.moves_aborted),
            ("evictions", self.evictions), ("demotions", self.demotions), ("retries", tally.retries),
            ("stale routes", tally.stale_routes), ("kills", self.kills), ("pauses", self.pauses),
        )  # fmt: skip
        return [
            ("hit rate", f"{tally.hit_rate * 100:.2f} %"),
            *((name, plot.number(round(count))) for name, count in counts),
            ("time", f"{self.seconds:.1f} s"),
        ]

    def _marks(self) -> list[plot.Mark]:
        return [plot.Mark(fault.requests, fault.name) for fault in self.faults]

    def _hit_rate_chart(self) -> str:
        lines = []
        if self.samples:
            so_far = [(one.requests, _rate(one.hit_blocks, one.blocks)) for one in self.samples]
            lines = [plot.Series("of the whole run so far", so_far), plot.Series("of late", self._recent_rates())]
        return plot.line_chart("Hit rate over progress", lines, "requests done", 1.0, percent=True, marks=self._marks())

    def _recent_rates(self) -> list[plot.Point]:
        """The hit rate over the last twentieth of the run before each sample: where a fault bites, it shows
        here."""
        span = max(1, len(self.samples) // 20)
        return [
            (late.requests, _rate(late.hit_blocks - early.hit_blocks, late.blocks - early.blocks))
            for early, late in zip(self.samples, self.samples[span:], strict=False)
        ]

    def _fill_chart(self) -> str:
        tiers = sorted({tier for one in self.samples for tier in one.fill})
        lines = [
            plot.Series(tier, [(one.requests, one.fill[tier]) for one in self.samples if tier in one.fill]) for tier in tiers
        ]
        return plot.line_chart("Fill by tier over progress", lines, "requests done", 1.0, percent=True, marks=self._marks())

    def _fault_table(self) -> str:
        rows = [(one.name, f"{one.requests:,}", "" if one.recovery_s is None else f"{one.recovery_s:.2f}") for one in self.faults]
        return page.table("Faults", ("fault", "after requests", "recovery, s"), rows)


def _rate(hits: int, blocks: int) -> float:
    return round(hits / blocks, 6) if blocks > 0 else 0.0


def _largest_first(counts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _latency_chart(latency_us: Mapping[str, Mapping[str, float]]) -> str:
    rows = [(name, one["p50"], one["p99"], one["p999"]) for name, one in latency_us.items()]
    return plot.span_chart("Latency by operation", rows)


def _latency_table(latency_us: Mapping[str, Mapping[str, float]]) -> str:
    columns = ("p50", "p99", "p999", "mean", "max")
    rows: Iterable[list[str]] = (
        [name, f"{one['count']:,.0f}", *(plot.micros(one[column]) for column in columns)] for name, one in latency_us.items()
    )
    return page.table("Latency", ("operation", "calls", *columns), list(rows))
