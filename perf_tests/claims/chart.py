"""A bar chart of the verdicts per workload, as SVG that reads at 400 px in light and in dark colour schemes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, LEFT, MARGIN = 400, 104, 12  # px: the picture, where bars start, and its margin
TOP, ROW, BAR = 52, 30, 22  # px: the first bar, the distance between bars, and their height
SWATCH, LEGEND_ROW, PER_ROW = 12, 22, 3  # px, px, and entries of the legend in a row
DIGIT = 8  # px: more than a digit needs in any font
TITLE, SUBTITLE = "Published speedups, measured", "Number of comparisons by verdict"
VERDICTS = {  # label, then bar and text colour in a light scheme, and the same in a dark one
    "holds": ("holds", "#1f6fb2", "#ffffff", "#5aa9e6", "#0b1526"),
    "partly": ("holds partly", "#a9d0ee", "#12263a", "#235a87", "#ffffff"),
    "unclear": ("unclear", "#d3d7dd", "#1b1d21", "#4b525d", "#ffffff"),
    "not met": ("not met", "#fdc692", "#3a1c00", "#82501f", "#ffffff"),
    "refuted": ("refuted", "#b8420b", "#ffffff", "#f0905a", "#241000"),
    "error": ("failed", "#6b7280", "#ffffff", "#9aa1ac", "#14161a"),
}
Row = Mapping[str, Any]


def counts(rows: Sequence[Row]) -> dict[str, Counter[str]]:
    """Return the number of comparisons with each verdict by workload; only of those with a promised ratio."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        verdicts = [context["verdict"] for context in row["contexts"] if context["verdict"] in VERDICTS]
        if row["least"] is not None and verdicts:
            found.setdefault(row["workload"], Counter()).update(verdicts)
    return found


def style() -> str:
    """Return the style sheet with both colour schemes."""
    light, dark = ["text{fill:#1b1d21}.paper{fill:#ffffff}"], ["text{fill:#e8eaed}.paper{fill:#1c1f25}"]
    for number, (_, *colours) in enumerate(VERDICTS.values()):
        for rules, (bar, ink) in zip((light, dark), (colours[:2], colours[2:])):
            rules.append(f".bar{number}{{fill:{bar}}}.ink{number}{{fill:{ink}}}")
    fonts = "text{font:13px system-ui,sans-serif}.title{font-weight:600}"
    return f"{fonts}{''.join(light)}@media (prefers-color-scheme:dark){{{''.join(dark)}}}"


def bars(verdicts: Counter[str], y: int, unit: float) -> list[str]:
    """Return the bars of a workload, ``unit`` px per comparison, each with its count if there is space."""
    x = float(LEFT)
    lines: list[str] = []
    for number, verdict in enumerate(VERDICTS):
        count = verdicts[verdict]
        width = count * unit
        if count:
            lines.append(f'<rect class="bar{number}" x="{x:.1f}" y="{y}" width="{width - 1:.1f}" height="{BAR}"/>')
        if width > DIGIT * len(str(count)):
            middle = f'x="{x + (width - 1) / 2:.1f}" y="{y + 16}"'
            lines.append(f'<text class="ink{number}" {middle} text-anchor="middle">{count}</text>')
        x += width
    return lines


def legend(numbers: Sequence[int], top: int) -> list[str]:
    """Return the legend of the verdicts with these numbers."""
    labels = [label for label, *_ in VERDICTS.values()]
    lines: list[str] = []
    for place, number in enumerate(numbers):
        x = MARGIN + place % PER_ROW * ((WIDTH - 2 * MARGIN) // PER_ROW)
        y = top + place // PER_ROW * LEGEND_ROW
        lines.append(f'<rect class="bar{number}" x="{x}" y="{y}" width="{SWATCH}" height="{SWATCH}"/>')
        lines.append(f'<text x="{x + SWATCH + 6}" y="{y + 11}">{labels[number]}</text>')
    return lines


def svg(rows: Sequence[Row]) -> str:
    """Return the chart of a ledger's rows."""
    found = counts(rows)
    unit = (WIDTH - MARGIN - LEFT) / max((verdicts.total() for verdicts in found.values()), default=1)
    lines: list[str] = []
    for number, (workload, verdicts) in enumerate(found.items()):
        y = TOP + number * ROW
        lines += [f'<text x="{MARGIN}" y="{y + 16}">{workload}</text>', *bars(verdicts, y, unit)]
    shown = [number for number, verdict in enumerate(VERDICTS) if any(each[verdict] for each in found.values())]
    top = TOP + len(found) * ROW + 8
    height = top + -(-len(shown) // PER_ROW) * LEGEND_ROW + 4
    size = f'width="{WIDTH}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} viewBox="0 0 {WIDTH} {height}">',
        f"<title>{TITLE}</title>",
        f"<style>{style()}</style>",
        f'<rect class="paper" {size} rx="6"/>',
        f'<text class="title" x="{MARGIN}" y="22">{TITLE}</text>',
        f'<text x="{MARGIN}" y="40">{SUBTITLE}</text>',
    ]
    return "\n".join([*head, *lines, *legend(shown, top), "</svg>", ""])
