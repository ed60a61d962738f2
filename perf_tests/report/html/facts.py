"""The head of the page: machine, commit, date, and warnings about the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perf_tests.report.order import Row
from perf_tests.report.results import limits_in_words
from perf_tests.report.table import warnings
from rlgauge.machine import called

from .claims import Claims
from .runs import Run


def machine(run: Run) -> str:
    """Return the processor, its cores and the operating system."""
    info, own = run.result.machine_info, run.machine
    cpu = part(info, "cpu")
    model = own.get("cpu_model") or cpu.get("brand_raw") or info.get("processor") or info.get("machine")
    cores = own.get("cores") or cpu.get("count")
    system = " ".join(str(info[name]) for name in ("system", "release") if info.get(name))
    return ", ".join(filter(None, [str(model or "unknown"), f"{cores} cores" if cores else "", system]))


def part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return ``found[name]`` if it is a dict, else an empty one."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def facts(run: Run) -> dict[str, str]:
    """Return the metadata of a run, by label."""
    info, own = run.result.machine_info, run.machine
    versions = part(own, "versions")
    python = " ".join(str(info[name]) for name in ("python_implementation", "python_version") if info.get(name))
    found = {
        "Machine": machine(run),
        "Threads": str(run.threads or ""),
        "Limits": limits_in_words(part(own, "limits")),
        "Commit": run.commit,
        "Date": run.result.datetime[:16].replace("T", " "),
        "Versions": ", ".join(filter(None, [python, *(f"{name} {one}" for name, one in versions.items())])),
        "Measured by": f"pytest-benchmark {run.result.version}, seed {own['seed']}"
        if "seed" in own
        else f"pytest-benchmark {run.result.version}",
        "File": run.path.name,
    }
    return {name: words for name, words in found.items() if words}


def cautions(run: Run, others: Sequence[Run], claims: Claims | None) -> list[str]:
    """Return warnings: single samples, and other runs or claims that do not match this run."""
    found = warnings({**run.machine, "git": run.commit}, run.rows)
    if not run.machine:
        found.append(
            "This run is not from this suite. Its benchmarks were timed one after the other in one process. Other "
            "programs may have slowed only some of them. Compare with care."
        )
    single = sum(row["samples"] < 2 for row in run.rows)
    if single:
        found.append(f"{single} of {len(run.rows)} benchmarks have one sample, so their interval is unknown.")
    commits = sorted({other.commit for other in others if other.commit != run.commit})
    if commits:
        found.append(f"The runs with other numbers of threads are from other commits: {', '.join(commits)}.")
    here = place(run.machine)
    machines = sorted({place(other.machine) for other in others} - {here, ""})
    if here and machines:
        found.append(f"The runs with other numbers of threads are from other machines: {', '.join(machines)}.")
    if claims and not run.commit.startswith(claims.commit[:7]):
        found.append(f"The claims were measured at another commit: {claims.commit[:12]}.")
    if claims and claims.dirty:
        found.append("The claims were measured with uncommitted changes.")
    if claims and here and place(claims.machine) not in (here, ""):
        found.append(f"The claims were measured on another machine: {place(claims.machine)}.")
    return found


def place(machine: Mapping[str, Any]) -> str:
    """Return a machine's name and cores; empty if its processor is unknown."""
    return f"{called(machine)}, {machine.get('cores', '?')} cores" if machine.get("cpu_model") else ""


def tiles(rows: Sequence[Row], others: dict[str, str]) -> dict[str, str]:
    """Return the headline counts by label, followed by those in ``others``."""
    count = {
        "benchmarks": len(rows),
        "workloads": len({row["workload"] for row in rows}),
        "backends": len({row["backend"] for row in rows}),
    }
    return {name: str(one) for name, one in count.items()} | others
