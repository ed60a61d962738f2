"""Put what was measured on its pages: ``python -m perf_tests.report.readme [RESULT.json]``.

The figures are kept in ``results.json`` and ``peers.json`` beside this file. ``results/<machine>.md``, the picture
beside it and the README's part between the markers are always what is made of them. Without a new result the kept ones
are shown again, those of a case whose version was raised since as ``stale``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perf_tests.rows import machine_of
from perf_tests.selection import OLDER
from rlgauge.files import Unwritable, write_all

from .headlines import headlines, picture
from .page import Results, judged, name_of, page, present_versions

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = ROOT / "results"
RESULTS = Path(__file__).with_name("results.json")
PEERS = Path(__file__).with_name("peers.json")
START, END = "<!-- results: generated -->", "<!-- end of results -->"
KEPT = (
    "id", "workload", "op", "form", "backend", "axes", "version", "precision", "calls", "seconds_per_call", "low",
    "high", "passes", "samples", "disturbed", "spread", "items_per_second", "unit", "limit_share", "bound", "phases",
    "policy_lag_steps", "latency_p50_s", "latency_p99_s",
)  # fmt: skip
COMPARED = {"id", "version", "ratio", "low", "high", "n"}  # of a benchmark with default malloc


def reduce(result: Results) -> dict[str, Any]:
    """Keep of a pytest-benchmark JSON what the pages show.

    Args:
        result: JSON of a pytest-benchmark run, parsed.
    """
    rows = [{name: b["extra_info"][name] for name in KEPT if name in b["extra_info"]} for b in result["benchmarks"]]
    for row in rows:  # the pages have the older names of axes
        row["axes"] = {OLDER.get(name, name): value for name, value in row["axes"].items()}
    return {"date": result["datetime"][:10], "machine": machine_of(result), "rows": rows}


def insert(text: str, start: str, end: str, body: str) -> str:
    """Return a page's text with what is between two markers renewed.

    Args:
        text: of the page.
        start: the marker before.
        end: the marker after.
        body: what is to stand between them.

    Raises:
        ValueError: a marker is missing.
    """
    before, found, rest = text.partition(start)
    _, closing, after = rest.partition(end)
    if not found or not closing:
        raise ValueError(f"wanted the markers {start!r} and {end!r}")
    return f"{before}{start}\n{body}\n{end}{after}"


def renewed(
    peers: Sequence[Mapping[str, Any]], measured: Iterable[Mapping[str, Any]], versions: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the kept comparisons with those measured now in their places, each with its case's version.

    Args:
        peers: comparisons that are kept.
        measured: comparisons that were made now.
        versions: of the case of each benchmark as it is now, by id.

    Raises:
        ValueError: one is of no case.
    """
    kept = {(found["peer"], found["case"]): dict(found) for found in peers}
    for found in measured:
        version = versions.get(found["case"])
        if version is None:
            raise ValueError(f"case: got {found['case']!r}, wanted an id as in 'snake.act[full-jax-envs1]'")
        kept[found["peer"], found["case"]] = {**found, "case_version": version}
    return list(kept.values())


def read(path: Path, wanted: str) -> Any:
    """Return what a JSON file holds; end with a line on what was wanted where that fails.

    Args:
        path: of the file.
        wanted: what the file should be, for the message.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: wanted {wanted}: {error}")


def as_json(content: Any) -> str:
    """Return the text of a kept file.

    Args:
        content: what JSON can hold.
    """
    return json.dumps(content, indent=1) + "\n"


def write(texts: Mapping[Path, str]) -> None:
    """Write files, whole, and none of them unless there is room for all; end with a line where that fails.

    Args:
        texts: what each file is to hold, by its path.
    """
    try:
        write_all({path: text.encode() for path, text in texts.items()})
    except Unwritable as error:
        sys.exit(str(error))


def with_run(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the results of a run in the place of those kept.

    Args:
        found: JSON of a pytest-benchmark run, parsed.
        results: what is kept of a run: its date, machine and rows.
        peers: comparisons that are kept.
    """
    run = reduce(found)
    if not run["rows"]:
        raise ValueError("it has no benchmarks")
    return run | {"default_malloc": results.get("default_malloc", [])}, peers


def with_memory(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the results with new times by default malloc.

    Args:
        found: JSON that ``perf_tests.default_malloc`` wrote, parsed.
        results: what is kept of a run: its date, machine and rows.
        peers: comparisons that are kept.
    """
    if not isinstance(found, list) or not all(one.keys() >= COMPARED for one in found):
        raise ValueError(f"it is no list of results with {', '.join(sorted(COMPARED))}")
    return {**results, "default_malloc": found}, peers


def with_peers(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the comparisons with one or several new ones.

    Args:
        found: JSON that a peer wrote, parsed.
        results: what is kept of a run: its date, machine and rows.
        peers: comparisons that are kept.
    """
    return results, renewed(peers, found if isinstance(found, list) else [found], present_versions())


def main(arguments: list[str] | None = None) -> None:
    """Keep the figures of what was measured, renew the pages; a file that cannot be shown ends it with a line.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.report.readme", description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, nargs="?", help="the JSON of a pytest-benchmark run of this suite")
    parser.add_argument("--default-malloc", type=Path, metavar="FILE", help="what perf_tests.default_malloc wrote")
    parser.add_argument("--peers", type=Path, nargs="*", default=[], metavar="FILE", help="what the peers wrote")
    options = parser.parse_args(arguments)
    results, peers = read(RESULTS, "the kept results"), read(PEERS, "the kept comparisons")
    taken = [
        (options.result, "the JSON of a pytest-benchmark run of this suite", with_run),
        (options.default_malloc, "what perf_tests.default_malloc writes", with_memory),
        *((file, "what a peer's --json writes", with_peers) for file in options.peers),
    ]
    for file, wanted, take in taken:
        if file:
            found = read(file, wanted)
            try:
                results, peers = take(found, results, peers)
                page(results, peers)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                sys.exit(f"{file}: wanted {wanted}: {error!r}")
    name, rows = name_of(results["machine"]), judged(results, present_versions())
    try:
        front = insert(README.read_text(), START, END, headlines(results, rows, f"{PAGES.name}/{name}"))
    except (OSError, ValueError) as error:
        sys.exit(f"{README}: {error}")
    shown = {PAGES / f"{name}.md": page(results, peers), PAGES / f"{name}.svg": picture(results, rows), README: front}
    write({RESULTS: as_json(results), PEERS: as_json(peers), **shown})


if __name__ == "__main__":
    main()
