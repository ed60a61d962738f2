"""The first table of each workload on the page, each of like with like; what they conclude is what a user gets.

A user's process gives memory back that a timing one keeps: bold figures, ``use``, gains and ratios go by the time with
default malloc where that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .order import Row, fastest, for_a_user, items, leaders
from .table import call_words, ratio_words, stale

STALE = "stale"
BASELINES = ("naive", "plain")


def line(*cells: str) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def cell(row: Row | None, count: float, bold: bool = False) -> str:
    """Return the time of so many items, ``stale`` for a stale row, nothing for none."""
    if row is None:
        return ""
    shown = STALE if stale(row) else call_words(row, count)
    return f"**{shown}**" if bold else shown


def ratio(over: Sequence[Row], under: Sequence[Row], less: str = "") -> str:
    """Return the best time of some rows over the best of others, and a word where it is certainly below 1.

    A stale row is not looked at; where only stale ones are left on a side, so is the ratio.
    """
    if not over or not under:
        return ""
    sides = [[row for row in rows if not stale(row)] for rows in (over, under)]
    if not all(sides):
        return STALE
    best, other = (fastest(rows) for rows in sides)
    found = for_a_user(best) / for_a_user(other)
    return ratio_words(found) + (less if found.high < 1 else "") + numpy_mark(best)


def in_forward_table(row: Row) -> bool:
    """Tell whether it is a forward pass of the small net from host memory to host memory."""
    found = row["op"], row["form"], row["axes"].get("io"), row["axes"].get("hidden")
    return found == ("forward", "full", "host", 32)


def forward_table(rows: Iterable[Row]) -> list[str]:
    """Time of one forward pass: a row per batch, the fastest in bold; all that may be the fastest in ``use``."""
    found: dict[int, dict[str, Row]] = {}
    for row in filter(in_forward_table, rows):
        found.setdefault(row["axes"]["batch"], {})[row["backend"]] = row
    backends = list(dict.fromkeys(name for times in found.values() for name in times))
    table = [line("batch", *backends, "use"), line("---:", *["---:"] * len(backends), "---")]
    for batch, times in sorted(found.items()):
        known = {name: for_a_user(row) for name, row in times.items() if not stale(row)}
        best = leaders(known) if known else []
        shown = [cell(times.get(name), batch, name in best) for name in backends]
        table.append(line(str(batch), *shown, " or ".join(best) or STALE))
    return table


def in_knob_table(row: Row) -> bool:
    """Tell whether it is a loop of one environment in torch, by one optimisation, none or all."""
    one = {"envs": 1, "every": 1, "batch": 32}.items() <= row["axes"].items()
    named = row["form"] in ("naive", "plain", "full") or row["form"].startswith("only_")
    return (row["op"], row["backend"]) == ("collect_and_learn", "torch") and one and named


def knob_table(rows: Iterable[Row]) -> list[str]:
    """The loop by form, slowest first, and its gain over ``naive`` and over ``plain``, which is what people write."""
    found = {row["form"]: row for row in rows if in_knob_table(row)}
    table = [line("an update every step", "an environment step", "naive / this", "plain / this")]
    table.append(line("---", "---:", "---:", "---:"))
    for form, row in sorted(found.items(), key=lambda item: (stale(item[1]), -for_a_user(item[1]).middle)):
        name = f"naive but for `{form.removeprefix('only_')}`" if form.startswith("only_") else f"**{form}**"
        table.append(line(name, cell(row, 1), *(gain(found.get(base), row) for base in BASELINES)))
    return table


def gain(base: Row | None, row: Row) -> str:
    """Return how many times as fast as the baseline a row is."""
    return "1" if row is base and not stale(row) else ratio([base] if base else [], [row])


SINGLE = {  # columns of the multi-agent table: library, form and backend, what is said of it
    ("torch", "naive", "torch"): "torch: agent by agent", ("torch", "full", "torch"): "torch: at once",
    ("torch", "full", "torch-compile"): "torch-compile", ("jax", "one_by_one", "jax"): "jax: agent by agent",
    ("jax", "full", "jax"): "jax: vmap", ("jax", "compiled", "jax"): "jax: one program",
}  # fmt: skip
HALF = {("torch", "bfloat16", "torch"): "torch", ("jax", "bfloat16", "jax"): "jax"}
Column = tuple[str, str, str]


def column(row: Row) -> Column:
    """Return the library, form and backend of a row; what NumPy does of a torch program is torch's."""
    backend = "torch" if row["backend"] == "numpy" else row["backend"]
    return backend.partition("-")[0], row["form"], backend


def in_agents_table(row: Row) -> bool:
    """Tell whether five agents do it, in a form that has a column."""
    return row["axes"].get("agents") == 5 and column(row) in SINGLE.keys() | HALF.keys()


def agents_table(rows: Iterable[Row]) -> list[str]:
    """Five agents in torch, eager and compiled, or in NumPy where torch's program is that, and in JAX: two tables.

    The first is in float32, the second in bfloat16.
    """
    rows = [row for row in rows if in_agents_table(row)]
    single = by_library([row for row in rows if column(row) in SINGLE], "five agents, float32", SINGLE)
    half = by_library([row for row in rows if column(row) in HALF], "five agents, bfloat16", HALF)
    return [*single, "", *half] if len(half) > 2 else single


def by_library(rows: Sequence[Row], caption: str, columns: Mapping[Column, str]) -> list[str]:
    """Return a table of ops by column; a row's cells are the times of as many items as its smallest call has."""
    found: dict[str, dict[Column, Row]] = {}
    for row in sorted(rows, key=lambda row: row["backend"] != "numpy"):  # torch's own, where it has the op, instead
        others = [f"{name} {value}" for name, value in row["axes"].items() if name != "agents" and value != 1]
        found.setdefault(", ".join([f"`{row['op']}`", *others]), {})[column(row)] = row
    table = [line(caption, *columns.values(), "torch / JAX"), line("---", *["---:"] * (len(columns) + 1))]
    for name, cells in sorted(found.items()):
        torch, jax = ([row for key, row in cells.items() if key[0] == library] for library in ("torch", "jax"))
        if torch and jax:
            count = min(items(row) for row in cells.values())
            shown = [cell(cells.get(key), count) + numpy_mark(cells.get(key)) for key in columns]
            table.append(line(name, *shown, ratio(torch, jax, ": JAX is not faster")))
    return table


def numpy_mark(row: Row | None) -> str:
    """Say that a time is NumPy's."""
    return " (NumPy)" if row and row["backend"] == "numpy" else ""


@dataclass(frozen=True)
class Front:
    """A workload's first table.

    Attributes:
        caption: what it shows.
        holds: ``holds(row)``, whether a row of this workload is in it.
        table: the lines of it, given the workload's rows.
    """

    caption: str
    holds: Callable[[Row], bool]
    table: Callable[[Iterable[Row]], list[str]]


FRONTS = {
    "pirl": Front(
        "**pirl, forward pass** of the 16-32-32-32-25 net in float32, NumPy arrays in and out, by batch size; `use` "
        "names all backends that cannot be told apart from the fastest:",
        in_forward_table,
        forward_table,
    ),
    "snake": Front(
        "**snake, the whole loop** in torch: what each optimisation of a DQN is worth alone, and all together, per "
        "environment step, against `naive` and against `plain`:",
        in_knob_table,
        knob_table,
    ),
    "treasurehunt": Front(
        "**treasurehunt**, five agents that each learn alone, a call of each op in torch and in JAX. What NumPy does "
        "of the torch program is marked; the last column is the best of torch over the best of JAX:",
        in_agents_table,
        agents_table,
    ),
}
