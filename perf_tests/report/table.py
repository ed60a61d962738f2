"""Results as tables: a row per benchmark, fastest first, beside the machine's limit."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

Row = Mapping[str, Any]


def quantity(value: float) -> str:
    """Three significant digits with a prefix: 12.3k, 4.56M."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{prefix}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Three significant digits in us, ms or s."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def share(value: float) -> str:
    """Percentage of the limit, or a dash where the op has none worth naming."""
    return f"{value:.2g} %" if (value := 100 * value) else "-"


def axes(row: Row) -> str:
    """Axes as in ``batch 32, io host``."""
    return ", ".join(f"{name} {value}" for name, value in row["axes"].items())


def extras(row: Row) -> str:
    """Latencies, where they were measured."""
    if "latency_p50_s" not in row:
        return ""
    return f"p50 {duration(row['latency_p50_s'])}, p99 {duration(row['latency_p99_s'])}"


def grouped(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows of each op and its axes, fastest first."""

    def key(row: Row) -> tuple[str, str]:
        return f"{row['workload']}.{row['op']}", axes(row)

    return [
        (" ".join(filter(None, name)), sorted(group, key=lambda row: row["seconds_per_call"]))
        for name, group in groupby(rows_in_order(rows, key), key=key)
    ]


def rows_in_order(rows: Iterable[Row], key: Any) -> list[Row]:
    """Bring rows of one key together, keys in the order in which they first came."""
    rows = list(rows)
    order = list(dict.fromkeys(map(key, rows)))
    return sorted(rows, key=lambda row: order.index(key(row)))


def text_tables(rows: Iterable[Row]) -> str:
    """All results for a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, title="time per call, rate, and share of what this machine could do at most"
    )
    for name, justify in (("benchmark", "left"), ("form", "left"), ("backend", "left"), ("call", "right"),
                          ("rate", "right"), ("of limit", "right"), ("", "left")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, group in grouped(rows):
        for k, row in enumerate(group):
            table.add_row(
                name if k == 0 else "",
                row["form"],
                row["backend"],
                duration(row["seconds_per_call"]),
                f"{quantity(row['items_per_second'])} {row['unit']}/s",
                share(row["limit_share"]),
                extras(row),
            )
        table.add_section()
    out = io.StringIO()
    Console(file=out, width=150).print(table)
    return out.getvalue()
