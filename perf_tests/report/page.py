"""The page of all results: how they were taken, the tables of each workload, and other people's code beside ours."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from perf_tests.suite.cases import variants
from rlgauge.machine import called

from .fronts import STALE, front_table, line
from .order import Row, per_item, spans
from .table import COLUMNS, LEGEND, SEEN, lines, quantity, stale, warnings
from .table import factor as shown

Results = Mapping[str, Any]


def present_versions() -> dict[str, int]:
    """Return the version of the case of each benchmark, by its id."""
    return {identity: variant.case.version for identity, variant in variants().items()}


def judged(results: Results, versions: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the rows, each with ``stale`` and with ``default_malloc``, or None where that is stale or missing.

    A row is stale if it was measured under another version than its case now has, or its case is gone.

    Args:
        results: what is kept of a run: its date, machine and rows.
        versions: of the case of each benchmark as it is now, by id.
    """
    memory = {found["id"]: found for found in results.get("default_malloc", [])}
    rows = []
    for row in results["rows"]:
        version, compared = versions.get(row["id"]), memory.get(row["id"])
        rows.append(
            row
            | {
                "stale": "version" in row and row["version"] != version,
                "default_malloc": compared if compared and compared["version"] == version else None,
            }
        )
    return rows


def op_table(rows: Iterable[Row]) -> list[str]:
    """Every op: a row per form and backend, fastest first, ranked as far as the samples tell.

    Args:
        rows: of a result.
    """
    table = [line(*COLUMNS), line(*("---:" if side == "right" else "---" for side in COLUMNS.values()))]
    for group in lines(rows):
        table += [line(f"`{name}`" if name else "", *others) for name, *others in group]
    return table


def sources(workload: str) -> list[str]:
    """Return a line for each form of which the workload says whose code it stands for.

    Args:
        workload: its name.
    """
    said: Mapping[str, str] = getattr(importlib.import_module(f"rl_impls.{workload}.knobs"), "SOURCES", {})
    return [f"- `{form}`: {sentence}" for form, sentence in said.items()]


def peer_line(found: Mapping[str, Any], versions: Mapping[str, int]) -> str:
    """Return how our loop compares with somebody else's, and what the comparison leaves out.

    Args:
        found: a comparison as it is kept.
        versions: of the case of each benchmark as it is now, by id.
    """
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
    """Say how the times with default malloc were measured, where they were.

    Args:
        results: what is kept of a run: its date, machine and rows.
        rows: of a result.
    """
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
    """Return the limits that shares are of.

    Args:
        machine: what :func:`perf_tests.suite.machine.info` returned, and the machine's limits.
    """
    units = {"flops": "FLOP/s", "bytes": "B/s"}
    split = [(name.rpartition("_"), value) for name, value in machine.get("limits", {}).items()]
    told = [f"{name} {quantity(value)}{units[unit]}" for (name, _, unit), value in split if unit in units]
    return f" Limits: {', '.join(told)}." if told else ""


def head(results: Results, rows: Sequence[Row]) -> list[str]:
    """Say when, where and on what the figures were taken, how wide they stand, and what is to be known first.

    Args:
        results: what is kept of a run: its date, machine and rows.
        rows: of a result.
    """
    machine, fresh = results["machine"], [row for row in rows if not stale(row)]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    told = [
        f"{results['date']}, {called(machine)}, {machine['cores']} cores, {machine['threads']} threads, "
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
    """Return a workload's first table, whose code its forms stand for, and all its ops, folded.

    Args:
        name: of the workload.
        rows: of a result.
    """
    found = sources(name)
    folded = [f"<details><summary><b>{name}, all ops</b></summary>", "", *op_table(rows), "", "</details>", ""]
    return [*front_table(name, rows), *found, *([""] if found else []), *folded]


def name_of(machine: Mapping[str, Any]) -> str:
    """Return the name of a machine's page, as in ``amd-epyc-avx2-2-cores``.

    Args:
        machine: what :func:`perf_tests.suite.machine.info` returned, and the machine's limits.
    """
    words = f"{machine['cpu_model']} {machine.get('vectors', '')} {machine['cores']} cores"
    return "-".join(re.findall("[a-z0-9]+", words.lower()))


def page(results: Results, peers: Sequence[Mapping[str, Any]] = (), versions: Mapping[str, int] | None = None) -> str:
    """Return all results as Markdown; versions are those of the cases as they are now unless given.

    Args:
        results: what is kept of a run: its date, machine and rows.
        peers: comparisons with other people's code, as they are kept.
        versions: of the case of each benchmark as it is now, by id.
    """
    versions = present_versions() if versions is None else versions
    rows = judged(results, versions)
    workloads = dict.fromkeys(row["workload"] for row in rows)
    machine = results["machine"]
    body = [f"# Results: {called(machine)}, {machine['cores']} cores", ""]
    body += ["Written by `make results`. [How to read a result](../docs/results.md)", ""]
    body += head(results, rows) + memory_line(results, rows)
    for name in workloads:
        body += workload_section(name, [row for row in rows if row["workload"] == name])
    if peers:
        body += ["**Beside other people's code**, both paired and interleaved in fresh processes:", ""]
        body += [peer_line(found, versions) for found in peers]
    return "\n".join(body).rstrip() + "\n"
