"""Chapter on single optimisations: the gain of each, from naive to all of them together, as a waterfall plot."""

from __future__ import annotations

from collections.abc import Sequence

from perf_tests.report.order import Row, Span, per_item
from perf_tests.report.table import axes

from .figures import Chapter, Figure, Series, by, span_words

ONLY = "only_"
LEAD = (
    "Each bar shows the gain of one optimisation over naive, on a logarithmic axis. It begins where the bar before it "
    "ends. Bars follow the order of the options in the code. The bar of all optimisations begins at naive. A pale bar "
    "shows the difference between the product of the gains and the gain of all optimisations together. A grey bar "
    "shows no significant difference."
)
COLUMNS = ("optimisation", "times as fast as naive", "verdict")
JUDGED = {True: "faster", False: "slower", None: "no significant difference"}


def judged(gain: Span) -> bool | None:
    """Return True for a gain, False for a loss, None if the interval contains 1."""
    return True if gain.low > 1 else False if gain.high < 1 else None


def waterfall(rows: Sequence[Row]) -> Figure | None:
    """Return the plot of one op, backend and axes; None without a naive form or without single optimisations."""
    found = {row["form"]: row for row in rows}
    naive = found.get("naive")
    if naive is None or not any(form.startswith(ONLY) for form in found):
        return None
    alike = {form: row for form, row in found.items() if row["precision"] == naive["precision"]}
    gains = {form: per_item(naive) / per_item(row) for form, row in alike.items()}
    steps: list[str] = []
    points: list[dict[str, object]] = []
    cells, reached = [["naive", "1", ""]], 1.0

    def step(words: str, start: float, gain: Span, kind: str) -> None:
        shown = {"at": len(steps), "start": start, "y": start * gain.middle, "kind": kind, "text": span_words(gain)}
        points.append({**shown, "low": start * gain.low, "high": start * gain.high})
        steps.append(words)
        cells.append([words, span_words(gain), JUDGED[judged(gain)]])

    for form, gain in gains.items():
        if form.startswith(ONLY):
            step(form.removeprefix(ONLY), reached, gain, JUDGED[judged(gain)])
            reached *= gain.middle
    if "full" in gains:
        whole = gains["full"]
        rest = whole.middle / reached
        points.append({"at": len(steps), "start": reached, "y": whole.middle, "kind": "rest", "text": f"{rest:.2f}"})
        steps.append("interaction")
        cells.append(["interaction", f"{rest:.3g}", ""])
        step("full", 1.0, whole, "full")
    other = [form.removeprefix(ONLY) for form in found if form.startswith(ONLY) and form not in alike]
    words = [f"Not shown, because of another precision: {', '.join(other)}."] if other else []
    title = f"{naive['op']} on {naive['backend']}" + (f", {axes(naive)}" if naive["axes"] else "")
    drawn = [Series("gain", naive["backend"], "", points)]
    return Figure(naive["workload"], title, "waterfall", drawn, COLUMNS, cells, {"categories": steps}, words)


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter, with one plot per op, backend and axes that have single optimisations."""
    groups = by([{**row, "at": axes(row)} for row in rows], "workload", "op", "backend", "at")
    found = [waterfall(group) for group in groups.values()]
    return Chapter("options", "What each optimisation gains", LEAD, [figure for figure in found if figure])
