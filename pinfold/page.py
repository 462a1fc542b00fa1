"""The HTML page around charts and tables: one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark;
  --page: #fbfbf9; --card: #ffffff; --ink: #1d2329; --soft: #5b6670; --rule: #dfe2e0; --good: #1b7f4d; --bad: #b3261e;
  --c0: #0b62a8; --c1: #b8500a; --c2: #2e7d4f; --c3: #8a3f8f; --c4: #8a6d00; --c5: #4d5963; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14181c; --card: #1b2126; --ink: #e7eaec; --soft: #a0abb4; --rule: #333c44; --good: #5cc98f; --bad: #ff8a80;
  --c0: #6cb6f5; --c1: #f5a263; --c2: #74d09b; --c3: #d79adb; --c4: #e3c45c; --c5: #b4bec7; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1560px; padding: 28px 24px 60px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 10px; }
.about { color: var(--soft); margin: 0 0 18px; }
.verdict { border-left: 5px solid var(--good); background: var(--card); padding: 10px 16px; margin: 0 0 18px; }
.verdict.bad { border-color: var(--bad); } .verdict b { color: var(--good); } .verdict.bad b { color: var(--bad); }
.verdict ul { margin: 6px 0 0; padding-left: 20px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; }
.tile { background: var(--card); border: 1px solid var(--rule); padding: 8px 12px; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile span { color: var(--soft); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 14px; }
figure { margin: 0; max-width: 1000px; padding: 14px; background: var(--card); border: 1px solid var(--rule); }
figure, .tile { border-radius: 6px; }
figcaption { font-weight: 600; margin-bottom: 6px; } figure p { margin: 6px 0 0; color: var(--soft); font-size: 13px; }
figure > svg { width: 100%; height: auto; display: block; } .none { font-style: italic; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; color: var(--soft); margin-bottom: 4px; }
.key svg { width: 30px; height: 10px; margin-right: 5px; }
svg text { font-size: 12px; fill: var(--soft); } svg text.value { fill: var(--ink); }
svg text.fault { fill: var(--bad); font-size: 11px; }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.mark { stroke: var(--bad); stroke-dasharray: 3 3; opacity: .75; }
.bar { fill: var(--c0); } .span { stroke: var(--soft); stroke-width: 5; opacity: .45; }
.thin { stroke: var(--soft); stroke-width: 2; opacity: .45; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.s0 { stroke: var(--c0); } .line.s1 { stroke: var(--c1); stroke-dasharray: 7 3; }
.line.s2 { stroke: var(--c2); stroke-dasharray: 2 3; } .line.s3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; }
.line.s4 { stroke: var(--c4); stroke-dasharray: 12 4; } .line.s5 { stroke: var(--c5); stroke-dasharray: 4 2; }
.dot.s0 { fill: var(--c0); } .dot.s1 { fill: var(--c1); } .dot.s2 { fill: var(--c2); }
.dot.s3 { fill: var(--c3); } .dot.s4 { fill: var(--c4); } .dot.s5 { fill: var(--c5); }
.tables { display: flex; flex-wrap: wrap; gap: 14px; align-items: flex-start; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; background: var(--card); border: 1px solid var(--rule); font-size: 14px; }
caption { text-align: left; font-weight: 600; padding: 6px 0; }
th, td { padding: 4px 12px; border-top: 1px solid var(--rule); text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
details { margin-top: 28px; } summary { cursor: pointer; color: var(--soft); }
pre { background: var(--card); border: 1px solid var(--rule); padding: 12px; overflow-x: auto; font-size: 12.5px; }
"""


def tiles(figures: Sequence[tuple[str, str]]) -> str:
    """The figures one looks for first: `(name, value)`."""
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in figures
    )
    return f'<div class="tiles">{cells}</div>'


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column holds names. Empty text for no rows."""
    if not rows:
        return ""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return (
        f'<div class="wide"><table><caption>{escape(title)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def verdict(good: bool, sentence: str, problems: Sequence[str] = ()) -> str:
    """What the run proved, or did not, before anything else."""
    lines = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    below = f"<ul>{lines}</ul>" if lines else ""
    return (
        f'<div class="verdict{"" if good else " bad"}"><b>{"Passed." if good else "Failed."}</b>'
        f" {escape(sentence)}{below}</div>"
    )


def charts(figures: Sequence[str]) -> str:
    """Charts of `pinfold.plot`, side by side where there is room."""
    return f'<div class="charts">{"".join(figures)}</div>'


def page(title: str, about: str, parts: Sequence[str], raw: str = "") -> str:
    """The whole file. `raw` is shown folded at the end: the figures behind the pictures."""
    body = "\n".join(parts)
    folded = f"<details><summary>As JSON</summary><pre>{escape(raw)}</pre></details>" if raw else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="about">{escape(about)}</p>\n{body}\n{folded}\n</body>\n</html>\n'
    )
