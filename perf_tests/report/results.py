"""Write ``results/<machine>.md``: ``python -m perf_tests.report.results RESULT.json...``.

The page has a table per op: median, spread, rate and share of the machine's limit. It ranks nothing, because one run
cannot tell which of two benchmarks is faster; ``rlgauge compare`` and ``rlgauge rank`` can.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perf_tests.rows import machine_of
from perf_tests.suite.limits import share_words
from rlgauge.files import Unwritable, write_all
from rlgauge.machine import called

from .order import Row
from .table import axes, duration, notes, percent, quantity

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "results"
COLUMNS = ("form", "backend", "parameters", "time", "IQR", "rate", "of limit", "")
HOW = (
    'The time is the median per call, and IQR is the interquartile range as a fraction of it. "of limit" is the '
    'shortest possible time, at the peak rates that this run measured, divided by the time. "in cache" means more '
    'bytes per second than main memory delivers, and "-" means that the work of the op is not counted, or that the run '
    'measured no peak rate in its precision. Rows are not ranked: to find the faster of two benchmarks, use "rlgauge '
    'compare".'
)


def read(path: Path) -> dict[str, Any]:
    """Return a pytest-benchmark JSON of this suite; raise ValueError for anything else."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        rows = [benchmark["extra_info"]["id"] for benchmark in found["benchmarks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not the JSON of this suite: {error!r}; give a file that make bench wrote") from error
    if not rows:
        raise ValueError(f"{path}: no benchmark was measured; give another file")
    return found


def devices(machine: Mapping[str, Any]) -> str:
    """Return the GPU, if there is one, and the processor in words."""
    processor = f"{called(machine)}, {machine['cores']} cores"
    return ", ".join(filter(None, [machine.get("gpu"), processor]))


def name_of(machine: Mapping[str, Any]) -> str:
    """Return the file name of a machine's page without suffix, such as ``amd-epyc-avx2-2-cores``."""
    return "-".join(re.findall("[a-z0-9]+", devices(machine).lower()))


def limits_in_words(limits: Mapping[str, float]) -> str:
    """Return a machine's limits in words: ``float32 293 GFLOP/s, copy 18.9 GB/s``."""
    units = {"flops": "FLOP/s", "bytes": "B/s"}
    split = [(name.rpartition("_"), value) for name, value in limits.items()]
    return ", ".join(
        f"{name.replace('_', ' ')} {quantity(value, ' ')}{units[unit]}"
        for (name, _, unit), value in split
        if unit in units
    )


def cells(row: Row) -> list[str]:
    """Return the table cells of a benchmark, in the order of ``COLUMNS``."""
    precision = "" if row["precision"] == "float32" else f"in {row['precision']}"
    return [
        row["form"],
        row["backend"],
        " ".join(filter(None, [axes(row), precision])),
        duration(row["seconds_per_call"]),
        percent(row["spread"]) if row["samples"] > 1 else "",
        f"{quantity(row['items_per_second'])} {row['unit']}/s",
        share_words(row["limit_share"], row["bound"]),
        notes(row),
    ]


def sources(workload: str) -> list[str]:
    """Return a list of the forms that reproduce published code, with the source and, if known, their relative speed."""
    try:
        options = importlib.import_module(f"rl_impls.{workload}.options")
    except ImportError:  # the workload does not exist in this revision
        return []
    found = [f"- `{form}`: {sentence}" for form, sentence in getattr(options, "SOURCES", {}).items()]
    return [*found, ""] if found else []


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines of a Markdown table of benchmarks."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"]
    return [*lines, *("| " + " | ".join(cells(row)) + " |" for row in rows), ""]


def page(results: Sequence[Mapping[str, Any]], failed: Sequence[str] = ()) -> str:
    """Return results from one machine as a Markdown page; ``failed`` names benchmarks that could not be measured."""
    machine = machine_of(results[0])
    rows = [benchmark["extra_info"] for result in results for benchmark in result["benchmarks"]]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    dates = sorted({result["datetime"][:10] for result in results})
    samples = sorted(row["samples"] for row in rows)
    lines = [
        f"# Results: {devices(machine)}",
        "",
        f"{' and '.join(dates)}, {machine['threads']} threads, commit {machine['git']}, seed {machine['seed']}; "
        f"{versions}. Limits: {limits_in_words(machine['limits'])}. {len(rows)} benchmarks of {samples[0]:,} to "
        f"{samples[-1]:,} samples each.",
        "",
        f"{HOW} [How to read a result](../docs/results.md)",
        "",
    ]
    for workload in sorted({row["workload"] for row in rows}):
        lines += [f"## {workload}", "", *sources(workload)]
        mine = [row for row in rows if row["workload"] == workload]
        for op in dict.fromkeys(row["op"] for row in mine):
            lines += [f"### {workload}.{op}", "", *table(row for row in mine if row["op"] == op)]
    if failed:
        lines += ["## Not measured", "", *(f"- {sentence}" for sentence in failed), ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page of a machine; return the exit code."""
    about = "Write results/MACHINE.md, the page of a machine."
    parser = argparse.ArgumentParser(prog="python -m perf_tests.report.results", description=about)
    parser.add_argument("results", type=Path, nargs="+", help="JSON files of pytest-benchmark runs on one machine")
    parser.add_argument(
        "--failed",
        action="append",
        default=[],
        metavar="TEXT",
        help="add a note on something that could not be measured; repeatable",
    )
    parser.add_argument("--folder", type=Path, default=PAGES, help="write the page to this folder (default: results)")
    options = parser.parse_args(arguments)
    try:
        results = [read(path) for path in options.results]
        named = {name_of(machine_of(result)) for result in results}
        if len(named) > 1:
            raise ValueError(f"results of several machines: {', '.join(sorted(named))}; give results of one machine")
        for name in ("git", "threads", "seed"):
            values = sorted({str(machine_of(result)[name]) for result in results})
            if len(values) > 1:
                raise ValueError(
                    f"results of runs with different {name}: {', '.join(values)}; give results with the same {name}"
                )
        path = options.folder / f"{named.pop()}.md"
        write_all({path: page(results, options.failed).encode()})
    except (ValueError, Unwritable) as error:
        print(error, file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
