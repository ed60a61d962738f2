"""Put measured tables into the README: ``python -m perf_tests.report.readme [RESULT.json]``.

The figures are kept in ``results.json`` and ``peers.json`` beside this file; the README's part between the markers is
always what this module makes of them. Without a new result the kept ones are shown again, those of a case whose version
was raised since as ``stale``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from perf_tests.files import Unwritable, reserved
from perf_tests.suite.cases import variants

from .fronts import FRONTS, STALE, line
from .order import Row, per_item, spans
from .table import COLUMNS, LEGEND, SEEN, lines, quantity, stale, warnings
from .table import factor as shown

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = Path(__file__).with_name("results.json")
PEERS = Path(__file__).with_name("peers.json")
START, END = "<!-- results: generated -->", "<!-- end of results -->"
KEPT = (
    "id", "workload", "op", "form", "backend", "axes", "version", "precision", "calls", "seconds_per_call", "low",
    "high", "passes", "samples", "disturbed", "spread", "items_per_second", "unit", "limit_share", "bound", "phases",
    "policy_lag_steps", "latency_p50_s", "latency_p99_s",
)  # fmt: skip
COMPARED = {"id", "version", "ratio", "low", "high", "n"}  # of a benchmark with default malloc
Results = Mapping[str, Any]


def reduce(result: Results) -> dict[str, Any]:
    """Keep of a pytest-benchmark JSON what the README shows."""
    rows = [{name: b["extra_info"][name] for name in KEPT if name in b["extra_info"]} for b in result["benchmarks"]]
    return {"date": result["datetime"][:10], "machine": result["machine_info"]["rlgauge"], "rows": rows}


def present_versions() -> dict[str, int]:
    """Return the version of the case of each benchmark, by its id."""
    return {identity: variant.case.version for identity, variant in variants().items()}


def judged(results: Results, versions: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the rows, each with ``stale`` and with ``default_malloc``, or None where that is stale or missing.

    A row is stale if it was measured under another version than its case now has, or its case is gone.
    """
    memory = {found["id"]: found for found in results.get("default_malloc", [])}
    rows = []
    for row in results["rows"]:
        version, compared = versions.get(row["id"]), memory.get(row["id"])
        rows.append(
            row
            | {
                "stale": version is None or row.get("version") != version,
                "default_malloc": compared if compared and compared["version"] == version else None,
            }
        )
    return rows


def op_table(rows: Iterable[Row]) -> list[str]:
    """Every op: a row per form and backend, fastest first, ranked as far as the samples tell."""
    table = [line(*COLUMNS), line(*("---:" if side == "right" else "---" for side in COLUMNS.values()))]
    for group in lines(rows):
        table += [line(f"`{name}`" if name else "", *others) for name, *others in group]
    return table


def sources(workload: str) -> list[str]:
    """Return a line for each form of which the workload says whose code it stands for."""
    said: Mapping[str, str] = getattr(importlib.import_module(f"rl_impls.{workload}.knobs"), "SOURCES", {})
    return [f"- `{form}`: {sentence}" for form, sentence in said.items()]


def peer_line(found: Mapping[str, Any], versions: Mapping[str, int]) -> str:
    """Return how our loop compares with somebody else's, and what the comparison leaves out."""
    named = f"- `{found['case']}` beside {found['peer']} {found['version']}".rstrip()
    if found["case_version"] != versions.get(found["case"]):
        return f"{named}: {STALE}"
    ratio = spans(found)
    rates = ", ".join(f"{name} {quantity(rate)}" for name, rate in found["steps_per_second"].items())
    return (
        f"{named}: {shown(ratio.middle)}x as fast (95 % interval {shown(ratio.low)} to {shown(ratio.high)}, "
        f"n = {found['n']} processes, {found['threads']} threads; steps per second: {rates}). "
        f"Left out: {found['left_out'].rstrip('.')}."
    )


def memory_line(results: Results, rows: Sequence[Row]) -> list[str]:
    """Say how the times with default malloc were measured, where they were."""
    compared = [row["default_malloc"] for row in rows if row["default_malloc"]]
    if not compared:
        return []
    blocks = " or ".join(map(str, sorted({found["n"] for found in compared})))
    return [
        "A timing process keeps the memory that is freed, a user's gives it back. "
        f"{len(compared)} of the benchmarks were timed both ways, each in two fresh processes of its own that take "
        f"turns (n = {blocks} blocks of four); where that makes more than {100 * SEEN:.0f} % of difference, the time "
        "with default malloc stands in brackets or in the notes. Bold figures, `use`, gains and `torch / JAX` go by "
        "the time with default malloc.",
        "",
    ]


def ceilings(machine: Mapping[str, Any]) -> str:
    """Return the limits that shares are of."""
    units = {"flops": "FLOP/s", "bytes": "B/s"}
    split = [(name.rpartition("_"), value) for name, value in machine.get("limits", {}).items()]
    told = [f"{name} {quantity(value)}{units[unit]}" for (name, _, unit), value in split if unit in units]
    return f" Limits: {', '.join(told)}." if told else ""


def head(results: Results, rows: Sequence[Row]) -> list[str]:
    """Say when, where and on what the figures were taken, how wide they stand, and what is to be known first."""
    machine, fresh = results["machine"], [row for row in rows if not stale(row)]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    told = [
        f"{results['date']}, {machine['cpu_model']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"commit {machine['git']}; {versions}.{ceilings(machine)}"
    ]
    if fresh:
        samples = sorted({row["samples"] for row in fresh})
        told[0] += (
            f" Medians of {'-'.join(map(str, dict.fromkeys((samples[0], samples[-1]))))} samples; the interval of a "
            f"benchmark is {100 * median(per_item(row).half for row in fresh):.1f} % to either side (median over "
            f"{len(fresh)} benchmarks). One run on a shared machine: read ratios, not milliseconds. {LEGEND}"
        )
    gone = len(rows) - len(fresh)
    told += [f"{gone} of {len(rows)} benchmarks changed since what they measure and are `{STALE}`."] if gone else []
    told += [f"**{words}**" for words in warnings(machine, fresh)]
    return [part for words in told for part in (words, "")]


def workload_section(name: str, rows: Sequence[Row]) -> list[str]:
    """Return a workload's first table, whose code its forms stand for, and all its ops, folded."""
    found, table = sources(name), []
    if name in FRONTS:
        table = [FRONTS[name].caption, "", *FRONTS[name].table(rows), ""]
    folded = [f"<details><summary><b>{name}, all ops</b></summary>", "", *op_table(rows), "", "</details>", ""]
    return [*table, *found, *([""] if found else []), *folded]


def section(
    results: Results, peers: Sequence[Mapping[str, Any]] = (), versions: Mapping[str, int] | None = None
) -> str:
    """Return the generated part of the README; versions are those of the cases as they are now unless given."""
    versions = present_versions() if versions is None else versions
    rows = judged(results, versions)
    workloads = dict.fromkeys(row["workload"] for row in rows)
    body = head(results, rows) + memory_line(results, rows)
    for name in workloads:
        body += workload_section(name, [row for row in rows if row["workload"] == name])
    if peers:
        body += ["**Beside other people's code**, both paired and interleaved in fresh processes:", ""]
        body += [peer_line(found, versions) for found in peers]
    return "\n".join(body).rstrip()


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


def renewed(
    peers: Sequence[Mapping[str, Any]], measured: Iterable[Mapping[str, Any]], versions: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the kept comparisons with those measured now in their places, each with its case's version.

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
    """Return what a JSON file holds; end with a line on what was wanted where that fails."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: wanted {wanted}: {error}")


def as_json(content: Any) -> str:
    """Return the text of a kept file."""
    return json.dumps(content, indent=1) + "\n"


def write(texts: Mapping[Path, str]) -> None:
    """Write files, whole, and none of them unless there is room for all; end with a line where that fails."""
    try:
        with ExitStack() as stack:
            writes = [stack.enter_context(reserved(path, len(text.encode()))) for path, text in texts.items()]
            for write_one, text in zip(writes, texts.values()):
                write_one(text.encode())
    except Unwritable as error:
        sys.exit(str(error))


def with_run(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the results of a run in the place of those kept."""
    run = reduce(found)
    if not run["rows"]:
        raise ValueError("it has no benchmarks")
    return run | {"default_malloc": results.get("default_malloc", [])}, peers


def with_memory(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the results with new times by default malloc."""
    if not isinstance(found, list) or not all(one.keys() >= COMPARED for one in found):
        raise ValueError(f"it is no list of results with {', '.join(sorted(COMPARED))}")
    return {**results, "default_malloc": found}, peers


def with_peers(found: Any, results: Results, peers: Any) -> tuple[Results, Any]:
    """Return the comparisons with one or several new ones."""
    return results, renewed(peers, found if isinstance(found, list) else [found], present_versions())


def main(arguments: list[str] | None = None) -> None:
    """Keep the figures of what was measured, renew the README; a file that cannot be shown ends it with a line."""
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
                section(results, peers)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                sys.exit(f"{file}: wanted {wanted}: {error!r}")
    try:
        text = insert(README.read_text(), START, END, section(results, peers))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    write({RESULTS: as_json(results), PEERS: as_json(peers), README: text})


if __name__ == "__main__":
    main()
