"""The report: figures that add up, percentiles that are right, JSON with fixed keys, HTML that needs nothing else."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold import page, plot
from pinfold.report import Fault, Latency, Report, Sample, Tally

KEYS = [
    "job", "ok", "seed", "seconds", "requests", "blocks", "hit_blocks", "hit_rate", "hit_rate_by_tier", "operations",
    "ops_per_s", "latency_us", "violations", "wrong_bytes", "leaked_holds", "orphan_copies", "bytes_verified",
    "moves_committed", "moves_aborted", "evictions", "demotions", "retries", "stale_routes", "degraded", "refusals", "kills",
    "pauses", "recovery_s", "problems", "settings",
]  # fmt: skip

times = st.lists(st.integers(0, 10**12), max_size=200)


def recorded(values_ns: list[int]) -> Latency:
    made = Latency()
    for value in values_ns:
        made.record(value)
    return made


def a_report() -> Report:
    tally = Tally(
        requests=300, blocks=1_000, hit_blocks=640, bytes_verified=4096 * 640, retries=3, stale_routes=2,
        hit_blocks_by_tier={"SSD": 140, "DRAM": 500}, refusals={"NoSpace": 7, "Early": 9},
    )  # fmt: skip
    for ns in range(1_000_000, 1_100_000, 1_000):
        tally.record("read", ns)
        tally.record("create", ns * 40)
    return Report(
        "demo", {"trace": "built-in", "group_blocks": 4}, 7, 12.5, tally, moves_committed=5, moves_aborted=1, evictions=30,
        kills=1, pauses=1,
        faults=[Fault("kill node", 100, 2.25), Fault("kill node", 150, 1.0), Fault("pause node", 299)],
        samples=[Sample(n, n * 3, n * 2, {"DRAM": n / 300, "SSD": 0.5}) for n in range(0, 301, 10)],
    )  # fmt: skip


# ---- latency -------------------------------------------------------------------------------------------------


@given(times, st.integers(0, 1000))
def test_a_percentile_is_within_a_hundredth_of_the_exact_one(values: list[int], per_mille: int) -> None:
    found = recorded(values).percentile_us(per_mille)
    if not values:
        assert found == 0.0
        return
    exact = sorted(values)[max(1, -(-len(values) * per_mille // 1000)) - 1] / 1000
    assert found == pytest.approx(exact, rel=0.01, abs=0.05 + 1e-9)
    assert min(values) / 1000 - 0.05 - 1e-9 <= found <= max(values) / 1000 + 0.05 + 1e-9


@given(times, times)
def test_merged_is_the_same_as_recorded_together(one: list[int], other: list[int]) -> None:
    merged = recorded(one)
    merged.merge(recorded(other))
    assert merged.to_plain() == recorded(one + other).to_plain()


@given(times)
def test_latencies_survive_json(values: list[int]) -> None:
    there = json.loads(json.dumps(recorded(values).to_plain()))
    assert Latency.from_plain(there).summary() == recorded(values).summary()


def test_a_summary_is_in_microseconds() -> None:
    summary = recorded([1_000_000] * 98 + [2_000_000, 9_000_000]).summary()
    assert summary["p50"] == pytest.approx(1_000, rel=0.01)
    assert summary["p99"] == pytest.approx(2_000, rel=0.01)
    assert (summary["p999"], summary["max"], summary["mean"], summary["count"]) == (9_000, 9_000, 1_090, 100)


def test_odd_times_do_no_harm() -> None:
    odd = recorded([-5, 1 << 80])
    assert odd.min_ns == 0
    assert odd.percentile_us(0) == 0.0
    assert odd.percentile_us(1000) > 0


def test_the_histogram_stays_small_however_different_the_times() -> None:
    made = recorded([int(1.002**power) for power in range(20_000)])
    assert len(made.to_plain()[-1]) < 7_500


# ---- figures -------------------------------------------------------------------------------------------------


def test_tallies_add_up_and_survive_json() -> None:
    one, other = a_report().tally, a_report().tally
    other.refused("Pinned")
    other.refused("NoSpace")
    other.record("locate", 5)
    one.merge(Tally.from_plain(json.loads(json.dumps(other.to_plain()))))
    assert (one.requests, one.blocks, one.hit_blocks, one.operations) == (600, 2_000, 1_280, 401)
    assert one.hit_blocks_by_tier == {"SSD": 280, "DRAM": 1_000}
    assert one.refusals == {"NoSpace": 15, "Early": 18, "Pinned": 1}
    assert {name: latency.count for name, latency in one.latency.items()} == {"read": 200, "create": 200, "locate": 1}
    assert one.hit_rate == 0.64
    assert Tally().hit_rate == 0.0


@pytest.mark.parametrize("report", [Report("replay"), a_report()], ids=["empty", "full"])
def test_json_has_the_same_keys_in_the_same_order_and_no_odd_numbers(report: Report) -> None:
    figures = report.to_json()
    assert list(figures) == KEYS
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_json_says_what_happened() -> None:
    figures = a_report().to_json()
    assert figures["hit_rate_by_tier"] == {"DRAM": 0.5, "SSD": 0.14}
    assert figures["hit_rate"] == pytest.approx(sum(figures["hit_rate_by_tier"].values()))
    assert figures["ops_per_s"] == 16.0
    assert figures["recovery_s"] == {"kill node": 2.25}, "the longest of a name; what was not measured is not there"
    assert list(figures["latency_us"]) == ["create", "read"]
    assert {"p50", "p99", "p999"} <= set(figures["latency_us"]["read"])
    assert list(figures["refusals"].items()) == [("Early", 9), ("NoSpace", 7)]


@pytest.mark.parametrize("field", ["violations", "leaked_holds", "orphan_copies", "wrong_bytes", "problems"])
def test_one_thing_that_must_not_happen_fails_the_run(field: str) -> None:
    assert a_report().ok
    report = a_report()
    if field == "problems":
        report.problems.append("a reader saw the end of its hold twice")
    else:
        setattr(report.tally if field == "wrong_bytes" else report, field, 1)
    assert not report.ok
    assert report.to_json()["ok"] is False
    assert "Failed." in report.to_html()


# ---- the page ------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Checks that tags nest, and collects the text and whatever the page would load."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [f"{name}={value}" for name, value in attrs if name in {"src", "href", "data", "action"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_needs_nothing_else_and_is_the_same_each_time(tmp_path: Path) -> None:
    a_report().write_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text == a_report().to_html()
    found = Reader(text)
    assert found.loads == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert not re.search(r"https?:|url\(|@import", text)
    assert found.tags.count("figure") == 6


def test_the_page_shows_each_figure_and_marks_each_fault() -> None:
    text = a_report().to_html()
    words = " ".join(Reader(text).words)
    for word in ("Passed.", "64.00 %", "NoSpace", "kill node", "pause node", "2.25", "DRAM", "SSD", "read", "create"):
        assert word in words
    assert text.count('class="mark"') == 2 * 3, "three faults in two charts"
    assert json.loads(re.sub("&quot;", '"', text.partition("<pre>")[2].partition("</pre>")[0]))["seed"] == 7


def test_a_run_in_which_nothing_happened_has_a_page_too() -> None:
    words = Reader(Report("replay").to_html()).words
    assert words.count("nothing happened") == 6


def test_text_from_outside_cannot_become_markup() -> None:
    evil = '<script>alert("1")</script>&'
    report = a_report()
    report.job = evil
    report.settings = {evil: evil}
    report.problems = [evil]
    report.faults = [Fault(evil, 10, 1.0)]
    report.tally.refusals = {evil: 1}
    report.tally.record(evil, 1)
    report.samples[5].fill[evil] = 0.5
    text = report.to_html()
    assert "script" not in Reader(text).tags
    for figure in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(figure)


def test_one_sample_or_one_value_is_a_chart_too() -> None:
    report = a_report()
    report.samples = report.samples[:1]
    Reader(report.to_html())
    for chart in (
        plot.bar_chart("b", [("zero", 0)]),
        plot.span_chart("s", [("zero", 0, 0, 0)]),
        plot.span_chart("s", [("same", 5.0, 5.0, 5.0)]),
        plot.line_chart("l", [plot.Series("s", [(3, 0)])], "x", 0.0),
        plot.line_chart("l", [plot.Series("s", [(3, 1)])], "x", 1.0, log_x=True),
    ):
        Reader(chart)
        assert "nan" not in chart


def places(chart: str) -> list[list[tuple[float, float]]]:
    """The points of each line of a chart, as drawn."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())]
        for points in re.findall(r'<polyline points="([^"]*)"', chart)
    ]


def test_lines_are_drawn_to_scale() -> None:
    chart = plot.line_chart("l", [plot.Series("s", [(0, 0), (50, 0.5), (100, 1)])], "x", 1.0, percent=True)
    (((x0, y0), (x1, y1), (x2, y2)),) = places(chart)
    assert (x0, x2) == (plot.LEFT, plot.WIDTH - plot.RIGHT)
    assert x1 == pytest.approx((x0 + x2) / 2)
    assert y1 == pytest.approx((y0 + y2) / 2)
    assert y0 > y2, "up is more"


def test_the_curve_of_hit_rates_has_a_line_for_each_group_size_and_ends_unbounded() -> None:
    curves: dict[int, list[tuple[int | None, float]]] = {
        4: [(100, 0.1), (1_000, 0.25), (None, 0.3)],
        1: [(100, 0.2), (1_000, 0.35), (None, 0.37)],
    }
    chart = plot.hit_rate_curve(curves)
    one, four = places(chart)
    assert all(upper[1] < lower[1] for upper, lower in zip(one, four, strict=True)), "one block a group is above"
    assert all(left[0] < right[0] for left, right in pairwise(one))
    words = Reader(page.page("Hit rate", "", [page.charts([chart])])).words
    assert {"1 block a group", "4 blocks a group", "unbounded"} <= set(words)
    assert "nothing happened" in plot.hit_rate_curve({})


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (1_234, "1,234"), (12_345, "12.3 k"), (4.567, "4.57"), (2.5e9, "2.5 G")]
)
def test_figures_are_written_for_people(value: float, text: str) -> None:
    assert plot.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(12.34, "12.3 us"), (1_500, "1.5 ms"), (2_000_000, "2 s")])
def test_times_are_written_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert plot.micros(value) == text


@given(st.floats(1e-6, 1e12), st.integers(1, 10))
def test_axes_reach_what_they_show_with_round_ticks(high: float, ticks: int) -> None:
    axis = plot.linear_axis(high, 0, 100, ticks)
    assert axis.high >= high * (1 - 1e-9)
    assert len(axis.ticks) <= ticks + 1
    assert axis.at(0) == 0
    assert axis.at(axis.high) == pytest.approx(100)
    log = plot.log_axis(high / 1000, high, 0, 100)
    assert log.low <= high / 1000 * (1 + 1e-9)
    assert log.high >= high * (1 - 1e-9)
