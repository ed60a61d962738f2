"""What is reported of a benchmark, by pytest-benchmark's JSON, the tables and the pages alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_impls.backends import get

from .suite.limits import share
from .timed import Timed

FORMAT = 2  # of what is added to pytest-benchmark's JSON; raised when a reader of the old one would be wrong


def machine_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a pytest-benchmark JSON of this suite says of the machine and of the run.

    What stays the same from run to run stands in ``machine_info``, because ``--benchmark-compare`` warns if that
    differs; the commit, the seed and what is measured of the machine stand beside it.
    """
    return {**result.get("machine_info", {}).get("rlgauge", {}), **result.get("rlgauge", {})}


def row(timed: Timed, limits: Mapping[str, float], threads: int) -> dict[str, Any]:
    """Return one row: what was timed, how long a call takes, how sure that is, and the share of the machine's limit.

    Args:
        timed: what is known of the benchmark.
        limits: of this machine, as :func:`.suite.limits.here` returns them.
        threads: of the process that timed it.
    """
    variant, case = timed.variant, timed.variant.case
    figures, items = timed.figures(), case.items(**variant.axes)
    seconds, device = figures["seconds_per_call"], get(variant.backend).device
    costs = (case.flops(**variant.axes), case.bytes(**variant.axes)) if device == "cpu" else (0.0, 0.0)
    limit_share, bound = share(*costs, variant.precision, seconds, limits)
    return {
        "id": variant.id,
        "workload": case.workload,
        "op": case.op,
        "form": variant.form,
        "backend": variant.backend,
        "axes": dict(variant.axes),
        "version": case.version,
        "device": device,
        "threads": threads,
        "precision": variant.precision,
        **figures,
        "items": items,
        "items_per_second": items / seconds,
        "unit": case.unit,
        "limit_share": limit_share,
        "bound": bound,
        "phases": {name: spent / timed.calls for name, spent in timed.said["phases"].items()},
        "first_answer_seconds": timed.first_answer,
        "counters": timed.counters,
        "taken": list(timed.samples.values()),
        **timed.said["stats"],
    }
