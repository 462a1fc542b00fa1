"""Plots as inline SVG, and the one HTML file they stand in: no library, no network, readable in light and
dark.

A chart is a string. Colours are CSS variables of `page`, so that both schemes look right; shapes and dashes
tell the series apart as well, for eyes and printers without colour. Every text from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from attrs import define, field

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 720, 64, 20, 16, 44
SERIES_STYLES = 6
"""Colours and dashes that the style sheet knows; a seventh series looks like the first."""

Point = tuple[float, float]


@define
class Series:
    """One line of a chart. `points` in rising x."""

    name: str
    points: Sequence[Point]


@define
class Mark:
    """A vertical line at `x`: something happened here."""

    x: float
    label: str


@define
class Axis:
    """From a value to a place on the page. `low < high`; with `log` both are above 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    ticks: list[float] = field(factory=list)

    def at(self, value: float) -> float:
        low, high, here = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, here = log10(low), log10(high), log10(here)
        return self.start + (self.end - self.start) * (here - low) / (high - low)


def linear_axis(high: float, start: float, end: float, ticks: int = 5) -> Axis:
    """From 0 to a round number at or above `high`."""
    step = _round_step(max(high, 1e-9) / ticks)
    count = max(1, ceil(high / step - 1e-9))
    return Axis(0.0, step * count, start, end, ticks=[step * number for number in range(count + 1)])


def log_axis(low: float, high: float, start: float, end: float) -> Axis:
    """Whole decades around `low` and `high`; 0 is drawn at the lowest."""
    low = low if low > 0 else min(1.0, high if high > 0 else 1.0)
    first = floor(log10(low))
    last = max(first + 1, ceil(log10(max(high, low))))
    ticks = [10.0**power for power in range(first, last + 1)]
    return Axis(ticks[0], ticks[-1], start, end, True, ticks)


def tight_log_axis(low: float, high: float, start: float, end: float) -> Axis:
    """From just `low` to just `high`, both above 0, with ticks at 1, 2 and 5 of each decade."""
    high = max(high, low * 1.01)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [times * 10.0**power for power in decades for times in (1, 2, 5)]
    return Axis(low, high, start, end, True, [tick for tick in ticks if low <= tick <= high])


def _round_step(step: float) -> float:
    unit = 10.0 ** floor(log10(step))
    return next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= step * (1 - 1e-9))


def number(value: float) -> str:
    """A figure for people: three digits or so, k and M for the large."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == ' k' else size):.3g}{suffix}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def micros(value_us: float) -> str:
    """A time in us for people, in the unit that suits it."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if value_us >= size:
            return f"{value_us / size:.3g} {unit}"
    return f"{value_us:.3g} us"


# ---- pieces --------------------------------------------------------------------------------------------------


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{css}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label, quote=True)}">\n{body}\n</svg>'


def figure(title: str, svg: str, caption: str = "", legend: Sequence[str] = ()) -> str:
    """A chart with its title, the names of its series in their styles, and a sentence below it."""
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 30 10"><line x1="1" y1="5" x2="29" y2="5"'
        f' class="line s{at % SERIES_STYLES}"/></svg>{escape(name)}</span>'
        for at, name in enumerate(legend)
    )
    top = f'<div class="legend">{keys}</div>' if keys else ""
    under = f"<p>{escape(caption)}</p>" if caption else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{top}{svg}{under}</figure>"


def empty(title: str) -> str:
    """In place of a chart that has nothing to show."""
    return f'<figure><figcaption>{escape(title)}</figcaption><p class="none">nothing happened</p></figure>'


# ---- charts --------------------------------------------------------------------------------------------------


def line_chart(
    title: str,
    series: Sequence[Series],
    x_name: str,
    y_max: float,
    *,
    percent: bool = False,
    marks: Sequence[Mark] = (),
    log_x: bool = False,
    x_last: str = "",
    caption: str = "",
) -> str:
    """Lines over a common x. `percent`: y is a share of 1. Labels of marks stand in up to three rows above the
    plot. With `log_x` all x are above 0. `x_last` names the end of the x axis, where it is no number."""
    points = [point for one in series for point in one.points]
    if not points:
        return empty(title)
    top = TOP + (14 * min(3, len(marks)))
    height = top + 200 + BOTTOM
    bottom, right = height - BOTTOM, WIDTH - RIGHT
    xs = [x for x, _ in points]
    if log_x:
        x_axis = tight_log_axis(min(xs), max(xs), LEFT, right)
    else:
        x_axis = linear_axis(max(xs), LEFT, right, 8)
        # The last sample ends the plot: an empty rest would look as if the run had stopped early.
        x_axis.high = max(1e-9, *xs)
    y_axis = linear_axis(y_max, bottom, top)
    parts = []
    for tick in y_axis.ticks:
        parts.append(_line(LEFT, y_axis.at(tick), right, y_axis.at(tick), "grid"))
        name = f"{tick * 100:.0f} %" if percent else number(tick)
        parts.append(_text(LEFT - 8, y_axis.at(tick) + 4, name, "end"))
    room = right - 95 if x_last else right
    for tick in x_axis.ticks:
        if tick <= x_axis.high and x_axis.at(tick) <= room:
            parts.append(_line(x_axis.at(tick), bottom, x_axis.at(tick), bottom + 4, "axis"))
            parts.append(_text(x_axis.at(tick), bottom + 18, number(tick), "middle"))
    if x_last:
        parts.append(_line(right, bottom, right, bottom + 4, "axis"))
        parts.append(_text(right, bottom + 18, x_last, "end"))
    parts.append(_line(LEFT, bottom, right, bottom, "axis"))
    parts.append(_text((LEFT + right) / 2, height - 8, x_name, "middle", "name"))
    for at, mark in enumerate(sorted(marks, key=lambda mark: mark.x)):
        x, y = x_axis.at(mark.x), TOP - 4 + 14 * (at % 3)
        parts.append(_line(x, y + 3, x, bottom, "mark"))
        late = x > WIDTH * 0.75
        parts.append(_text(x - 4 if late else x + 4, y + 4, mark.label, "end" if late else "start", "fault"))
    for at, one in enumerate(series):
        parts.append(_curve(one, x_axis, y_axis, at, percent))
    return figure(title, _svg(height, title, parts), caption, [one.name for one in series])


def _curve(one: Series, x_axis: Axis, y_axis: Axis, at: int, percent: bool) -> str:
    placed = [(x_axis.at(x), y_axis.at(y)) for x, y in one.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    style = f"s{at % SERIES_STYLES}"
    parts = [f'<polyline points="{path}" class="line {style}"/>']
    if len(placed) <= 24:
        for (x, y), (px, py) in zip(one.points, placed, strict=True):
            value = f"{y * 100:.1f} %" if percent else number(y)
            tip = escape(f"{one.name}: {value} at {number(x)}")
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" class="dot {style}"><title>{tip}</title></circle>')
    return "".join(parts)


def bar_chart(title: str, bars: Sequence[tuple[str, float]], unit: str = "", caption: str = "") -> str:
    """Horizontal bars in the given order, each with its value at its end."""
    if not bars:
        return empty(title)
    left = min(WIDTH / 2, 24 + 7 * max(len(name) for name, _ in bars))
    axis = linear_axis(max(0.0, *(value for _, value in bars)), left, WIDTH - 90)
    parts = []
    for row, (name, value) in enumerate(bars):
        y = TOP + 24 * row
        tip = escape(f"{name}: {value:g}{unit}")
        parts.append(_text(left - 8, y + 13, name, "end"))
        parts.append(
            f'<rect x="{left:.1f}" y="{y}" width="{max(1.0, axis.at(value) - left):.1f}" height="17" rx="2"'
            f' class="bar"><title>{tip}</title></rect>'
        )
        parts.append(_text(max(axis.at(value), left + 1) + 6, y + 13, f"{number(value)}{unit}", kind="value"))
    return figure(title, _svg(TOP + 24 * len(bars) + 4, title, parts), caption)


def span_chart(title: str, rows: Sequence[tuple[str, float, float, float]], caption: str = "") -> str:
    """One row per operation: p50, p99 and p999 in us, as three marks on a bar over a common logarithmic
    axis."""
    if not rows:
        return empty(title)
    left = min(WIDTH / 2, 24 + 7 * max(len(row[0]) for row in rows))
    axis = log_axis(min(row[1] for row in rows), max(row[3] for row in rows), left, WIDTH - 24)
    bottom = TOP + 26 * len(rows) + 4
    parts = []
    for tick in axis.ticks:
        parts.append(_line(axis.at(tick), TOP - 6, axis.at(tick), bottom, "grid"))
        parts.append(_text(axis.at(tick), bottom + 16, micros(tick), "middle"))
    for row, (name, p50, p99, p999) in enumerate(rows):
        y = TOP + 26 * row + 11
        a, b, c = axis.at(p50), axis.at(p99), axis.at(p999)
        tip = escape(f"{name}: p50 {micros(p50)}, p99 {micros(p99)}, p999 {micros(p999)}")
        parts.append(_text(left - 8, y + 4, name, "end"))
        parts.append(
            f"<g><title>{tip}</title>{_line(a, y, b, y, 'span')}{_line(b, y, c, y, 'thin')}"
            f'<circle cx="{a:.1f}" cy="{y}" r="5" class="dot s0"/>'
            f'<rect x="{b - 4:.1f}" y="{y - 4}" width="8" height="8" class="dot s1"/>'
            f'<path d="M{c:.1f} {y - 6} l6 11 h-12 z" class="dot s2"/></g>'
        )
    note = caption or "circle p50, square p99, triangle p999"
    return figure(title, _svg(bottom + 24, title, parts), note)


def hit_rate_curve(curves: Mapping[int, Sequence[tuple[int | None, float]]], caption: str = "") -> str:
    """Hit rate against capacity, a line per group size: group size in blocks -> (capacity in slots, hit
    rate), in rising capacity. A capacity None, unbounded, is drawn as the end of the line, at four
    times the largest bound."""
    bounds = [capacity for points in curves.values() for capacity, _ in points if capacity is not None]
    end = 4 * max(bounds, default=1)
    series = [
        Series(
            f"{size} block{'s' if size > 1 else ''} a group",
            [(end if capacity is None else capacity, rate) for capacity, rate in points],
        )
        for size, points in sorted(curves.items())
    ]
    top = max((rate for points in curves.values() for _, rate in points), default=0.0)
    unbounded = any(capacity is None for points in curves.values() for capacity, _ in points)
    return line_chart(
        "Hit rate by capacity and group size",
        series,
        "capacity, slots of one block",
        top,
        percent=True,
        log_x=True,
        x_last="unbounded" if unbounded else "",
        caption=caption or "Larger groups cost fewer records and fewer messages, and share less.",
    )
