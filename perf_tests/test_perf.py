"""The pytest-benchmark entry: every selected case x form x backend x axes."""

from __future__ import annotations

from typing import Any

from rl_impls.backends import BackendUnavailable

from .suite.case import Variant
from .suite.counters import count


def test_perf(
    benchmark: Any, variant: Variant, limits: Any, threads: int, seed: int, rounds: int, unavailable: Any
) -> None:
    """Time one variant: building and settling are outside, ``reset`` before every sample too."""
    try:
        prepared = variant.prepare(seed)
    except BackendUnavailable as error:
        unavailable(error)
    with prepared:
        prepared.settle()
        benchmark.group = variant.case.name
        benchmark.pedantic(prepared.run, setup=prepared.reset, rounds=rounds, iterations=1)
        measured = prepared.stats()  # of the last timed sample, before the counters call again
        if benchmark.disabled:
            return
        seconds = benchmark.stats.stats.median / prepared.calls
        benchmark.extra_info |= {
            "id": variant.id,
            "workload": variant.case.workload,
            "op": variant.case.op,
            "form": variant.form,
            "backend": variant.backend,
            "axes": dict(variant.axes),
            "device": prepared.backend.device,
            "threads": threads,
            "calls": prepared.calls,
            "seconds_per_call": seconds,
            "items_per_second": variant.case.items(**variant.axes) / seconds,
            "unit": variant.case.unit,
            "limit_share": variant.limit_seconds(limits) / seconds,
            "counters": count(prepared),
            **measured,
        }
