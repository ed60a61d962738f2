"""What this suite adds to pytest-benchmark's JSON: a row for each benchmark, which the tables and pages show."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import quantiles
from typing import Any

from rl_impls.backends import get
from rlgauge.statistics import interval

from .report.order import SCATTER
from .suite.limits import share

FORMAT = 3  # of what is added to pytest-benchmark's JSON; raised when a reader of the old one would be wrong
PARTS = ("form", "backend")  # parameters of a test that are no axes


def machine_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a pytest-benchmark JSON of this suite says of the machine and of the run.

    What stays the same from run to run is in ``machine_info``, since ``--benchmark-compare`` warns if that differs; the
    commit, the seed and the limits of the machine are beside it.
    """
    return {**result.get("machine_info", {}).get("rlgauge", {}), **result.get("rlgauge", {})}


def parts_of(item: Any) -> dict[str, Any]:
    """Return workload, op, form, backend and axes of a benchmark, by the name of its file and its parameters."""
    params = item.callspec.params
    return {
        "workload": item.path.stem.removeprefix("test_"),
        "op": item.originalname.removeprefix("test_"),
        **{name: params[name] for name in PARTS},
        "axes": {name: value for name, value in params.items() if name not in PARTS},
    }


def row(item: Any, benchmark: Any, limits: Mapping[str, float], threads: int) -> dict[str, Any]:
    """Return the row of a benchmark: its parts, seconds per call, rate, and share of the machine's limit.

    ``low`` and ``high`` are the interval of the median, at 95 % for six samples or more, widened by how much processes
    differ.

    Args:
        item: the test.
        benchmark: pytest-benchmark's fixture, after the test.
        limits: of this machine, as :func:`.suite.limits.here` returns them.
        threads: of this process.
    """
    told, seconds = benchmark.extra_info, benchmark.stats.stats.data
    first, middle, third = quantiles(seconds, method="inclusive") if len(seconds) > 1 else seconds * 3
    low, high = interval(seconds)
    parts, calls = {**parts_of(item), "op": told["op"]}, benchmark.stats.iterations
    device = get(parts["backend"]).device
    limit_share, bound = share(told["flops"], told["bytes"], told["precision"], middle, limits, device)
    figures = dict(told.pop("figures", {}))
    return {
        "id": f"{parts['workload']}.{item.name.removeprefix('test_')}",
        **parts,
        "device": device,
        "threads": threads,
        "precision": told["precision"],
        "calls": calls,
        "seconds_per_call": middle,
        "low": low * (1 - SCATTER),
        "high": high * (1 + SCATTER),
        "spread": (third - first) / middle,
        "samples": len(seconds),
        "items_per_second": told["items"] / middle,
        "limit_share": limit_share,
        "bound": bound,
        "phases": {name: spent / calls for name, spent in figures.pop("phases", {}).items()},
        **figures,
    }
