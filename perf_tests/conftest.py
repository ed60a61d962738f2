"""Hooks of the benchmark suite: selection, the ``bench`` fixture, metadata in the JSON, and the results table.

Inside an rlgauge worker (``IN_WORKER``) these hooks measure no limits and print nothing: rlgauge does the timing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlgauge.machine import cpu_model, git_state
from rlgauge.progress import number_of
from rlgauge.workers import SIDE

from .grid import TIERS
from .suite import limits as machine_limits
from .suite import machine, process

if TYPE_CHECKING:  # not at run time: NumPy reads its number of threads on import, before it is set here
    from .bench import Bench

ROOT = Path(__file__).parents[1]
IN_WORKER = SIDE in os.environ  # this process times benchmarks for rlgauge
LIMITS = pytest.StashKey[Mapping[str, float]]()
TABLE_OPTIONS = tuple(f"--benchmark-{name}" for name in ("columns", "sort", "group-by", "name", "verbose", "cprofile"))


def tier_of(item: pytest.Item) -> str | None:
    """Return the tier of a benchmark, or None for a test that is not one."""
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), None)


def is_selected(item: Any, selection: Any) -> bool:
    """Return whether the options select a test; the tier ``bench`` includes ``gate``, and ``full`` all."""
    from .rows import parts_of

    if item.get_closest_marker("peer"):  # a peer has neither form nor backend
        return bool(selection.has("full") and selection.keeps("", "", "", "", {}))
    tier = tier_of(item)
    if tier is None:
        return True
    return bool(selection.has(tier) and selection.keeps(**parts_of(item)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect benchmarks by ``--tier``, ``--workload``, ``--op``, ``--form``, ``--backend`` and ``--axis``."""
    from .selection import selection_of

    selection = selection_of(config)
    chosen = [item for item in items if is_selected(item, selection)]
    if config.getoption("benchmark_only"):
        chosen = [item for item in chosen if "benchmark" in getattr(item, "fixturenames", ())]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


@pytest.fixture(scope="session")
def limits(pytestconfig: pytest.Config, threads: int) -> Mapping[str, float]:
    """Peak FLOP/s and memory bandwidth of this machine.

    Empty inside an rlgauge worker and with ``--benchmark-disable``.
    """
    if IN_WORKER or pytestconfig.getoption("benchmark_disable"):
        return {}
    found = pytestconfig.stash[LIMITS] = machine_limits.here(threads)
    return found


@pytest.fixture
def bench(request: pytest.FixtureRequest, benchmark: Any, threads: int, limits: Mapping[str, float]) -> Iterator[Bench]:
    """Time a function: ``bench(function, *args, reset=..., items=..., unit=...)``. See :mod:`perf_tests.bench`.

    The test must have the parameters ``form`` and ``backend`` and pass ``op`` and ``precision``, which ``op.keywords``
    of :func:`perf_tests.ops.build` contain. Its row (rate, share of the limit, ...) is added to ``extra_info``.
    """
    from .bench import Bench
    from .rows import parts_of, row

    parts = parts_of(request.node)
    benchmark.group = f"{parts['workload']}.{parts['op']}"
    yield Bench(request, benchmark)
    if limits and benchmark.stats:
        benchmark.extra_info |= row(request.node, benchmark, limits, threads)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Hide pytest-benchmark's own table, unless an option for that table is given."""
    config = session.config
    if IN_WORKER:
        return
    benchmarks = getattr(config, "_benchmarksession", None)
    arguments = [*map(str, config.invocation_params.args), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    given = any(argument.startswith(TABLE_OPTIONS) for argument in arguments)
    if benchmarks and not (benchmarks.compare or benchmarks.histogram or given):
        benchmarks.quiet = True


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Show the machine, the threads and the seed."""
    if IN_WORKER:
        return []
    return [
        f"machine: {cpu_model()}, {os.cpu_count()} cores",
        f"threads: {config.getoption('threads')}, OpenMP wait policy: {process.waiting_policy()}",
        f"seed: {config.getoption('seed')}",
    ]


def about_run(config: pytest.Config) -> dict[str, Any]:
    """Return the metadata that differs from run to run: commit, seed and measured limits."""
    return {
        "git": git_state(ROOT),
        "seed": config.getoption("seed"),
        **({"limits": config.stash[LIMITS]} if LIMITS in config.stash else {}),
    }


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add hardware, versions and threads to ``machine_info``; drop the current CPU frequency.

    ``--benchmark-compare`` warns if ``machine_info`` differs, so it may contain only values that are equal in all runs.
    """
    from .rows import FORMAT

    machine_info["rlgauge"] = {"format": FORMAT, **machine.environment(), "threads": config.getoption("threads")}
    for name in ("hz_actual", "hz_actual_friendly"):
        machine_info["cpu"].pop(name, None)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the metadata of this run next to ``machine_info``."""
    output_json["rlgauge"] = about_run(config)


def measured(config: pytest.Config) -> list[dict[str, Any]]:
    """Return the rows of the benchmarks measured so far."""
    session = getattr(config, "_benchmarksession", None)
    return [dict(b.extra_info) for b in session.benchmarks if "id" in b.extra_info] if session else []


def shortage(session: pytest.Session) -> str:
    """Return an error message if some selected benchmarks were neither measured nor skipped nor failed, else ``""``."""
    config = session.config
    if IN_WORKER or config.option.collectonly or config.getoption("gate_against"):
        return ""
    if config.getoption("benchmark_disable") or config.getoption("benchmark_skip"):
        return ""
    asked = {item.nodeid for item in session.items if tier_of(item)}
    reporter = config.pluginmanager.getplugin("terminalreporter")
    ended = {report.nodeid for kind in ("skipped", "failed", "error") for report in reporter.stats.get(kind, ())}
    found = len(measured(config))
    if asked and (found == 0 or found + len(asked & ended) < len(asked)):
        why = "the others were skipped (-rs shows why), did not run, or do not call bench"
        return f"{found} of {number_of(len(asked), 'selected benchmark')} measured; {why}"
    return ""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that measured fewer benchmarks than it selected."""
    if session.exitstatus == 0 and shortage(session):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the results table, the warnings, and an error for benchmarks that were not measured."""
    if IN_WORKER or config.getoption("quiet", 0) or config.option.verbose < 0:
        return
    if rows := measured(config):
        from .report.table import text_tables, warnings, wrapped

        terminalreporter.write_line(f"\n{text_tables(rows)}")
        for words in map(wrapped, warnings(about_run(config), rows)):
            terminalreporter.write_line(f"\n{words}", yellow=True)
    if words := shortage(terminalreporter._session):
        terminalreporter.write_line(f"ERROR: {words}", red=True)
