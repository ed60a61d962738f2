"""Put measured tables into the README: ``python -m perf_tests.report.readme RESULT.json``.

The figures are kept in ``perf_tests/report/results.json``; the README's part between the markers is always what this
module makes of that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rl_impls.params import write_whole

from .table import Row, duration, extras, grouped, quantity, share

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = Path(__file__).with_name("results.json")
START, END = "<!-- results: generated -->", "<!-- end of results -->"
KEPT = ("workload", "op", "form", "backend", "axes", "calls", "seconds_per_call", "items_per_second", "unit",
        "limit_share", "latency_p50_s", "latency_p99_s")  # fmt: skip


def reduce(result: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a pytest-benchmark JSON what the README shows."""
    machine = result["machine_info"]["rlgauge"]
    rows = [
        {name: b["extra_info"][name] for name in KEPT if name in b["extra_info"]}
        | {"rounds": b["stats"]["rounds"], "spread": b["stats"]["iqr"] / b["stats"]["median"]}
        for b in result["benchmarks"]
    ]
    return {"date": result["datetime"][:10], "machine": machine, "rows": rows}


def line(*cells: str) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def forward_table(rows: Iterable[Row]) -> list[str]:
    """Time of one forward pass from host memory to host memory: a row per batch, the fastest in bold."""
    cells: dict[int, dict[str, float]] = {}
    for row in rows:
        shape = row["axes"]
        if row["op"] == "forward" and row["form"] == "full" and (shape["io"], shape["hidden"]) == ("host", 32):
            cells.setdefault(shape["batch"], {})[row["backend"]] = row["seconds_per_call"]
    backends = list(dict.fromkeys(name for times in cells.values() for name in times))
    table = [line("batch", *backends, "use"), line("---:", *["---:"] * len(backends), "---")]
    for batch, times in sorted(cells.items()):
        best = min(times, key=lambda name: times[name])
        shown = [
            (f"**{duration(times[name])}**" if name == best else duration(times[name])) if name in times else ""
            for name in backends
        ]
        table.append(line(str(batch), *shown, best))
    return table


def knob_table(rows: Iterable[Row]) -> list[str]:
    """The naive loop, with each optimisation alone, and with all: a row per form on torch, and its speed-up."""
    wanted = {"envs": 1, "every": 1, "batch": 32}
    times = {
        row["form"]: row["seconds_per_call"]
        for row in rows
        if (row["op"], row["backend"], row["axes"]) == ("collect_and_learn", "torch", wanted)
    }
    table = [line("an update every step", "64 environment steps", "naive / this"), line("---", "---:", "---:")]
    for form, seconds in sorted(times.items(), key=lambda item: -item[1]):
        name = f"naive but for `{form.removeprefix('only_')}`" if form.startswith("only_") else f"**{form}**"
        table.append(line(name, duration(seconds), f"{times['naive'] / seconds:.2f}"))
    return table


FORMS = {  # of the multi-agent workload, as columns: library, form, what is said of it
    ("torch", "naive"): "agent by agent", ("torch", "full"): "at once", ("torch", "bfloat16"): "bfloat16",
    ("jax", "one_by_one"): "agent by agent", ("jax", "full"): "vmap", ("jax", "compiled"): "one program",
}  # fmt: skip


def agents_table(rows: Iterable[Row]) -> list[str]:
    """Five agents in torch, or NumPy where torch has no such op, and in JAX; and what JAX gains at its best."""
    cells: dict[str, dict[tuple[str, str], float]] = {}
    for row in sorted(rows, key=lambda row: row["backend"] != "numpy"):
        column = ("torch" if row["backend"] == "numpy" else row["backend"], row["form"])
        if column in FORMS and row["axes"].get("agents") == 5:
            worlds = f", {row['axes']['worlds']} worlds" if row["axes"].get("worlds", 1) > 1 else ""
            cells.setdefault(f"`{row['op']}`{worlds}", {})[column] = row["seconds_per_call"]
    table = [line("five agents", *(f"{library}: {name}" for (library, _), name in FORMS.items()), "torch / JAX")]
    table.append(line("---", *["---:"] * (len(FORMS) + 1)))
    for op, times in sorted(cells.items()):
        torch, jax = (
            [seconds for column, seconds in times.items() if column[0] == library] for library in ("torch", "jax")
        )
        if torch and jax:
            gain = min(torch) / min(jax)
            shown = f"{gain:.2f}" if gain >= 1 else f"{gain:.2f}: JAX is not faster"
            table.append(line(op, *(duration(times[c]) if c in times else "" for c in FORMS), shown))
    return table


def op_table(rows: Iterable[Row]) -> list[str]:
    """Every op: a row per form and backend, fastest first."""
    table = [line("op", "form", "backend", "a call", "rate", "of limit", ""), line(*["---"] * 3, *["---:"] * 3, "---")]
    for name, group in grouped(rows):
        for k, row in enumerate(group):
            rate = f"{quantity(row['items_per_second'])} {row['unit']}/s"
            named = f"`{name}`" if k == 0 else ""
            call = duration(row["seconds_per_call"])
            table.append(line(named, row["form"], row["backend"], call, rate, share(row["limit_share"]), extras(row)))
    return table


def section(results: Mapping[str, Any]) -> str:
    """Return the generated part of the README."""
    machine, rows = results["machine"], results["rows"]
    spread = sorted(row["spread"] for row in rows)[len(rows) // 2]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    workloads = "pirl", "snake", "treasurehunt"
    pirl, snake, treasurehunt = ([row for row in rows if row["workload"] == name] for name in workloads)
    return "\n".join(
        [
            f"{results['date']}, {machine['cpu_model']}, {machine['cores']} cores, {machine['threads']} threads, "
            f"commit {machine['git']}; {versions}. Medians of {rows[0]['rounds']} samples, each of a fixed number of "
            f"calls; the middle half of a benchmark's samples lies within {100 * spread:.1f} % (median over the "
            f"{len(rows)} benchmarks). One run on a shared machine: read ratios, not milliseconds.",
            "",
            "**pirl, forward pass** of the 16-32-32-32-25 net, NumPy arrays in and out, by batch size:",
            "",
            *forward_table(pirl),
            "",
            "**snake, the whole loop** in torch: what each optimisation of a DQN is worth alone, and all together:",
            "",
            *knob_table(snake),
            "",
            "**treasurehunt**, five agents that each learn alone, a call of each op in torch and in JAX:",
            "",
            *agents_table(treasurehunt),
            "",
            "<details><summary><b>pirl, all other ops</b></summary>",
            "",
            *op_table(row for row in pirl if row["op"] != "forward"),
            "",
            "</details>",
            "",
            "<details><summary><b>snake, all ops</b></summary>",
            "",
            *op_table(snake),
            "",
            "</details>",
            "",
            "<details><summary><b>treasurehunt, all ops</b></summary>",
            "",
            *op_table(treasurehunt),
            "",
            "</details>",
        ]
    )


def insert(text: str, start: str, end: str, body: str) -> str:
    """Return the README's text with what is between two markers renewed.

    Raises:
        ValueError: a marker is missing.
    """
    before, found, rest = text.partition(start)
    _, closing, after = rest.partition(end)
    if not found or not closing:
        raise ValueError(f"README.md: wanted the markers {start!r} and {end!r}")
    return f"{before}{start}\n{body}\n{end}{after}"


def main(arguments: list[str]) -> None:
    """Read a result, keep its figures, renew the README."""
    if len(arguments) != 1:
        sys.exit("usage: python -m perf_tests.report.readme RESULT.json")
    try:
        results = reduce(json.loads(Path(arguments[0]).read_text()))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{arguments[0]}: wanted the JSON of a pytest-benchmark run of this suite: {error!r}")
    write_whole(RESULTS, (json.dumps(results, indent=1) + "\n").encode())
    write_whole(README, insert(README.read_text(), START, END, section(results)).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
