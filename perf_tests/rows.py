"""The rows of result tables, one per benchmark, stored in ``extra_info`` of pytest-benchmark's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import quantiles
from typing import Any

from rl_impls.backends import get
from rlgauge.statistics import interval

from .report.order import SCATTER
from .suite.limits import share

FORMAT = 3  # version of our part of the JSON; raised by changes that readers of older files would misread
PARTS = ("form", "backend")  # test parameters that are not axes


def machine_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that this suite stores in a pytest-benchmark JSON: the machine and the run, merged."""
    return {**result.get("machine_info", {}).get("rlgauge", {}), **result.get("rlgauge", {})}


def parts_of(item: Any) -> dict[str, Any]:
    """Return a benchmark's workload, op, form, backend and axes, from its file name, function name and parameters."""
    params = item.callspec.params
    return {
        "workload": item.path.stem.removeprefix("test_"),
        "op": item.originalname.removeprefix("test_"),
        **{name: params[name] for name in PARTS},
        "axes": {name: value for name, value in params.items() if name not in PARTS},
    }


def row(item: Any, benchmark: Any, limits: Mapping[str, float], threads: int) -> dict[str, Any]:
    """Return the row of a benchmark: its parts, seconds per call, spread, rate, and share of the machine's limit.

    ``low`` and ``high`` are the distribution-free 95% interval of the median (the extremes below six samples), widened
    by ``SCATTER`` to cover the difference between processes. ``spread`` is the interquartile range over the median.

    Args:
        item: the test.
        benchmark: pytest-benchmark's fixture after the test.
        limits: this machine's limits, as :func:`.suite.limits.here` returns them.
        threads: number of threads of this process.
    """
    info, seconds = benchmark.extra_info, benchmark.stats.stats.data
    first, middle, third = quantiles(seconds, method="inclusive") if len(seconds) > 1 else seconds * 3
    low, high = interval(seconds)
    parts, calls = {**parts_of(item), "op": info["op"]}, benchmark.stats.iterations
    device = get(parts["backend"]).device
    limit_share, bound = share(info["flops"], info["bytes"], info["precision"], middle, limits, device)
    figures = dict(info.pop("figures", {}))
    return {
        "id": f"{parts['workload']}.{item.name.removeprefix('test_')}",
        **parts,
        "device": device,
        "threads": threads,
        "precision": info["precision"],
        "calls": calls,
        "seconds_per_call": middle,
        "low": low * (1 - SCATTER),
        "high": high * (1 + SCATTER),
        "spread": (third - first) / middle,
        "samples": len(seconds),
        "items_per_second": info["items"] / middle,
        "limit_share": limit_share,
        "bound": bound,
        "phases": {name: spent / calls for name, spent in figures.pop("phases", {}).items()},
        **figures,
    }
