"""The first tables of each workload on the page, as its cases say; what they conclude is what a user gets.

A user's process gives memory back that a timing one keeps: bold figures, ``use``, gains and ratios go by the time with
default malloc where that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perf_tests.suite.cases import front_of
from perf_tests.suite.front import ByBackend, ByColumn, ByForm, Front

from .order import Row, fastest, for_a_user, items, leaders
from .table import call_words, ratio_words, stale, title

STALE = "stale"
BASELINES = ("naive", "plain")


def line(*cells: str) -> str:
    """Return one row of a Markdown table.

    Args:
        cells: of the row.
    """
    return f"| {' | '.join(cells)} |"


def cell(row: Row | None, count: float, bold: bool = False) -> str:
    """Return the time of so many items, ``stale`` for a stale row, nothing for none.

    Args:
        row: of a result, if there is one.
        count: how many items.
        bold: whether it is shown in bold.
    """
    if row is None:
        return ""
    shown = STALE if stale(row) else call_words(row, count)
    return f"**{shown}**" if bold else shown


def ratio(over: Sequence[Row], under: Sequence[Row], less: str = "") -> str:
    """Return the best time of some rows over the best of others, and a word where it is certainly below 1.

    A stale row is not looked at; where only stale ones are left on a side, so is the ratio.

    Args:
        over: rows of which the best is divided.
        under: rows by whose best it is divided.
        less: the word.
    """
    if not over or not under:
        return ""
    sides = [[row for row in rows if not stale(row)] for rows in (over, under)]
    if not all(sides):
        return STALE
    best, other = (fastest(rows) for rows in sides)
    found = for_a_user(best) / for_a_user(other)
    return ratio_words(found) + (less if found.high < 1 else "") + numpy_mark(best)


def by_backend(rows: Iterable[Row], table: ByBackend) -> list[str]:
    """Return a line for each value of an axis, or each op: times by backend, and in ``use`` all that may be fastest.

    Where a backend has several forms, its time is that of the fastest.

    Args:
        rows: those that the table holds.
        table: what it shows.
    """
    found: dict[Any, dict[str, list[Row]]] = {}
    for row in rows:
        label = row["axes"][table.by] if table.by else f"`{title(row)}`"
        found.setdefault(label, {}).setdefault(row["backend"], []).append(row)
    backends = list(dict.fromkeys(name for times in found.values() for name in times))
    lines = [line(table.by or "op", *backends, "use")]
    lines.append(line("---:" if table.by else "---", *["---:"] * len(backends), "---"))
    for label, forms in sorted(found.items()) if table.by else found.items():
        times = {name: fastest([row for row in of_one if not stale(row)] or of_one) for name, of_one in forms.items()}
        known = {name: for_a_user(row) for name, row in times.items() if not stale(row)}
        best, count = leaders(known) if known else [], min(map(items, times.values()))
        shown = [cell(times.get(name), count, name in best) for name in backends]
        lines.append(line(str(label), *shown, " or ".join(best) or STALE))
    return lines


def by_form(rows: Iterable[Row], table: ByForm) -> list[str]:
    """Return a line for each form, slowest first, and its gain over ``naive`` and over ``plain``, what people write.

    Args:
        rows: those that the table holds.
        table: what it shows.
    """
    found = {row["form"]: row for row in rows}
    lines = [line(table.head, table.item, *(f"{base} / this" for base in BASELINES))]
    lines.append(line("---", "---:", *["---:"] * len(BASELINES)))
    for form, row in sorted(found.items(), key=lambda item: (stale(item[1]), -for_a_user(item[1]).middle)):
        name = f"naive but for `{form.removeprefix('only_')}`" if form.startswith("only_") else f"**{form}**"
        lines.append(line(name, cell(row, 1), *(gain(found.get(base), row) for base in BASELINES)))
    return lines


def gain(base: Row | None, row: Row) -> str:
    """Return how many times as fast as the baseline a row is.

    Args:
        base: the baseline's row, if there is one.
        row: of a result.
    """
    return "1" if row is base and not stale(row) else ratio([base] if base else [], [row])


def by_column(rows: Iterable[Row], table: ByColumn) -> list[str]:
    """Return a line for each op that both torch and JAX have: times of as many items as its smallest call has.

    Args:
        rows: those that the table holds.
        table: what it shows.
    """
    found: dict[str, dict[str | None, Row]] = {}
    for row in sorted(rows, key=lambda row: row["backend"] != "numpy"):  # torch's own, where it has the op, instead
        others = [f"{name} {value}" for name, value in row["axes"].items() if name not in table.rows and value != 1]
        found.setdefault(", ".join([f"`{row['op']}`", *others]), {})[table.column(row)] = row
    lines = [line(table.head, *table.columns, "torch / JAX"), line("---", *["---:"] * (len(table.columns) + 1))]
    for name, cells in sorted(found.items()):
        jax = [row for row in cells.values() if row["backend"].startswith("jax")]
        torch = [row for row in cells.values() if row not in jax]
        if torch and jax:
            count = min(map(items, cells.values()))
            shown = [cell(cells.get(key), count) + numpy_mark(cells.get(key)) for key in table.columns]
            lines.append(line(name, *shown, ratio(torch, jax, ": JAX is not faster")))
    return lines


def numpy_mark(row: Row | None) -> str:
    """Say that a time is NumPy's.

    Args:
        row: of a result, if there is one.
    """
    return " (NumPy)" if row and row["backend"] == "numpy" else ""


LAYOUTS: dict[type, Callable[[Iterable[Row], Any], list[str]]] = {
    ByBackend: by_backend,
    ByForm: by_form,
    ByColumn: by_column,
}


def front_table(name: str, rows: Iterable[Row]) -> list[str]:
    """Return the lines of a workload's first tables: of those that its cases name, or of every op by backend.

    Args:
        name: the workload.
        rows: all of its rows.
    """
    front = front_of(name) or Front(
        f"**{name}**, the fastest form of each op on each backend; `use` names all backends that cannot be told apart "
        "from the fastest:",
        [ByBackend({})],
    )
    told, rows = [front.caption, ""], list(rows)
    for table in front.tables:
        lines = LAYOUTS[type(table)]([row for row in rows if table.holds(row)], table)
        if len(lines) > 2:
            told += [*lines, ""]
    return told
