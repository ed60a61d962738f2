"""Put measured gains into the README and docs/results.md: ``python -m perf_tests.report.readme COMPARISONS.json``.

``rlgauge compare --file perf_tests/headlines.toml --json COMPARISONS.json`` measures them. ``--peers PEERS.json`` also
puts the comparisons with other people's code into docs/results.md; ``make peers`` measures these.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perf_tests.recorded import Benchmark, benchmarks
from perf_tests.suite.machine import info
from rlgauge.files import Unwritable, write_all

from .results import PAGES, devices, name_of
from .table import duration

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs/results.md"
WIDEST = 0.05  # largest half width of an interval that counts as a result, relative to the value
START, END = MARKERS = "<!-- results: generated -->", "<!-- end of results -->"
PEERS = "<!-- peers: generated -->", "<!-- end of peers -->"


def insert(text: str, start: str, end: str, body: str) -> str:
    """Return ``text`` with ``body`` between two markers; raise ValueError if a marker is missing."""
    before, found, rest = text.partition(start)
    _, closing, after = rest.partition(end)
    if not found or not closing:
        raise ValueError(f"the marker {start!r} or {end!r} is missing; add it")
    return f"{before}{start}\n{body}\n{end}{after}"


def gain(found: Mapping[str, Any]) -> str:
    """Return the speedup of the second benchmark with its interval, in bold type if that is narrow enough."""
    interval = f"{found['value']:.3g} [{found['low']:.3g}, {found['high']:.3g}]"
    if found["verdict"]:
        return f"{found['verdict']}: {interval}"
    return f"{interval}, wide" if is_wide(found) else f"**{interval}**"


def is_wide(found: Mapping[str, Any]) -> bool:
    """Return whether the interval of a comparison is too wide to count as a result."""
    return bool(round((found["high"] - found["low"]) / (2 * found["value"]), 6) > WIDEST)


def row(found: Mapping[str, Any], known: Mapping[str, Benchmark]) -> str:
    """Return the table row of a comparison."""
    sides = [known[found[side]] for side in ("first", "second")]
    cells = [f"`{sides[0].workload}.{sides[0].op}`", " ".join(f"{a} {b}" for a, b in sides[0].axes.items())]
    for side, seconds in zip(sides, found["sides"], strict=True):
        cells.append(f"{side.params['form']} {side.params['backend']}, {duration(seconds)}")
    return "| " + " | ".join([*cells, gain(found), str(len(found["values"]))]) + " |"


def findings(comparisons: Mapping[str, Mapping[str, Any]], machine: Mapping[str, Any], date: str) -> str:
    """Return the README's table: comparisons with a note, in its words, except gains marked as wide."""
    noted = [found for found in comparisons.values() if "value" in found and "note" in found]
    rows = [f"| {found['note']} | {gain(found)} |" for found in noted if found["verdict"] or not is_wide(found)]
    where = f"{date}, {devices(machine)}, commit {machine['git']}"
    return "\n".join(["| change | times as fast [95% interval] |", "| --- | --- |", *rows, "", f"{where}."])


def gains(comparisons: Mapping[str, Mapping[str, Any]], machine: Mapping[str, Any], date: str) -> str:
    """Return the table of all gains, given the results of ``rlgauge compare --file`` by name."""
    known = {f"perf_tests/test_{one.workload}.py::{one.test.__name__}[{one.name}]": one for one in benchmarks()}
    measured = [found for found in comparisons.values() if "value" in found]
    head = ["op", "parameters", "naive", "optimised", "times as fast [95% interval]", "pairs"]
    page = f"../{PAGES.name}/{name_of(machine)}.md"
    return "\n".join(
        [
            "| " + " | ".join(head) + " |",
            "| --- | --- | --- | --- | --- | ---: |",
            *(row(found, known) for found in measured),
            "",
            f"{date}, {devices(machine)}, commit {machine['git']}. Measured with `rlgauge compare --file "
            "perf_tests/headlines.toml` in pairs of fresh processes. Times are per call, or per item where calls "
            f"differ in size. [All benchmarks of a plain run]({page}).",
        ]
    )


def peers(comparisons: Mapping[str, Mapping[str, Any]], machine: Mapping[str, Any], date: str) -> str:
    """Return the table of comparisons with other people's code, given their results by name."""
    rows = ["| comparison | theirs | ours | ratio [95% interval] | pairs |", "| --- | ---: | ---: | --- | ---: |"]
    for name, found in comparisons.items():
        if "value" in found:
            memory = found["measure"] == "peak_rss"
            sides = [f"{side / 1e6:,.0f} MB" if memory else duration(side) for side in found["sides"]]
            rows.append("| " + " | ".join([f"`{name}`", *sides, gain(found), str(len(found["values"]))]) + " |")
    return "\n".join([*rows, "", f"{date}, {devices(machine)}."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Update the tables; return the exit code."""
    description = "Put measured gains into the README and docs/results.md."
    parser = argparse.ArgumentParser(prog="python -m perf_tests.report.readme", description=description)
    parser.add_argument("comparisons", type=Path, help="file that rlgauge compare --file wrote")
    parser.add_argument(
        "--readme", type=Path, default=README, help="write the main results to this file (default: README.md)"
    )
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="write all gains to this file (default: docs/results.md)"
    )
    text = "file that make peers wrote, for a table on the same page"
    parser.add_argument("--peers", type=Path, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    about = info(ROOT), datetime.date.today().isoformat()
    tables = [
        (options.comparisons, findings, options.readme, MARKERS),
        (options.comparisons, gains, options.page, MARKERS),
    ]
    if options.peers:
        tables.append((options.peers, peers, options.page, PEERS))
    texts: dict[Path, str] = {}
    try:
        for source, table, path, markers in tables:
            try:
                made = table(json.loads(source.read_text())["comparisons"], *about)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                wanted = "give a file that rlgauge compare --file wrote"
                print(f"{source}: not a file of comparisons: {error!r}; {wanted}", file=sys.stderr)
                return 2
            texts[path] = insert(texts.get(path) or path.read_text(), *markers, made)
        write_all({path: text.encode() for path, text in texts.items()})
    except (OSError, ValueError, Unwritable) as error:
        print(f"{path}: {error}" if isinstance(error, ValueError) else error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
