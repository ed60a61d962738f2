"""Selection of benchmarks by workload, op, form, backend, axes and tier; an unknown name is an error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rl_impls import backends
from rl_impls.backends import BACKENDS
from rl_impls.common.checks import choose
from rlgauge.workers import SIDE

from .grid import TIERS
from .recorded import Benchmark, benchmarks

if TYPE_CHECKING:
    import pytest


class NothingMatchesError(ValueError):
    """All names exist, but no benchmark has all of them."""


@dataclass(frozen=True)
class Selection:
    """A filter for benchmarks by names and by axis values, as text; an empty field matches everything."""

    workloads: Sequence[str] = ()
    ops: Sequence[str] = ()
    forms: Sequence[str] = ()
    backends: Sequence[str] = ()
    axes: Mapping[str, Sequence[str]] | None = None
    tier: str = "bench"

    def has(self, tier: str) -> bool:
        """Return whether the selected tier includes ``tier``."""
        return TIERS.index(tier) <= TIERS.index(self.tier)

    def __str__(self) -> str:
        """Return the filter in words, without the tier: ``op forward, form naive, axis batch_size 1 or 32``."""
        axes = {f"axis {name}": values for name, values in (self.axes or {}).items()}
        parts = {"workload": self.workloads, "op": self.ops, "form": self.forms, "backend": self.backends, **axes}
        return ", ".join(f"{kind} {' or '.join(names)}" for kind, names in parts.items() if names) or "everything"

    def keeps(self, workload: str, op: str, form: str, backend: str, axes: Mapping[str, int | str]) -> bool:
        """Return whether a benchmark with these parts matches, whatever its tier."""
        return all(
            not wanted or str(value) in wanted
            for wanted, value in (
                (self.workloads, workload),
                (self.ops, op),
                (self.forms, form),
                (self.backends, backend),
                *((values, axes.get(name)) for name, values in (self.axes or {}).items()),
            )
        )


def axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse the argument of ``--axis``, ``name=value[,value]``, into the name and the values."""
    name, equals, values = text.partition("=")
    found = tuple(word.strip() for word in values.split(",") if word.strip())
    if not equals or not found:
        raise ValueError(f"--axis: invalid value {text!r}; write NAME=VALUE[,VALUE], for example batch_size=32")
    return name, found


def selection_of(config: pytest.Config) -> Selection:
    """Return the selection on pytest's command line; the tier defaults to ``gate`` in a gate run, else to ``bench``."""
    axes: dict[str, tuple[str, ...]] = {}
    for name, values in map(axis, config.getoption("axis")):
        axes[name] = axes.get(name, ()) + values
    in_gate = config.getoption("gate_against") or SIDE in os.environ
    return Selection(
        workloads=config.getoption("workload"),
        ops=config.getoption("op"),
        forms=config.getoption("form"),
        backends=tuple(dict.fromkeys(map(backends.resolve, config.getoption("backend")))),
        axes=axes,
        tier=config.getoption("tier") or ("gate" if in_gate else "bench"),
    )


def in_order(values: Iterable[int | str]) -> list[str]:
    """Return an axis's values as text: numbers first, in ascending order."""
    return list(map(str, sorted(values, key=lambda value: (isinstance(value, str), value))))


def selected(selection: Selection) -> list[Benchmark]:
    """Return the selected benchmarks.

    Raises ValueError for an unknown name or value, and NothingMatchesError if no benchmark matches.
    """
    everything = list(benchmarks())
    for name in selection.workloads:
        choose("workload", name, sorted({one.workload for one in everything}))
    among = [one for one in everything if one.workload in selection.workloads or not selection.workloads]
    known: dict[str, set[int | str]] = {}
    for one in among:
        for name, value in one.axes.items():
            known.setdefault(name, set()).add(value)
    for kind, wanted, names in (
        ("op", selection.ops, sorted({one.op for one in among})),
        ("form", selection.forms, sorted({one.params["form"] for one in among})),
        ("backend", selection.backends, BACKENDS),
        ("tier", (selection.tier,), TIERS),
        ("axis", tuple(selection.axes or {}), sorted(known)),
    ):
        for name in wanted:
            choose(kind, name, names)
    for name, values in (selection.axes or {}).items():
        for value in values:
            choose(f"value of axis {name}", value, in_order(known[name]))
    kept = [one for one in everything if selection.keeps(one.workload, one.op, *parts_of(one), one.axes)]
    found = [one for one in kept if selection.has(one.tier)]
    if not found:
        where, hint = (f"tier {selection.tier}", "try --tier full") if kept else ("any tier", "change the selection")
        raise NothingMatchesError(f"{selection}: no benchmark of {where} matches; {hint}")
    return found


def parts_of(benchmark: Benchmark) -> tuple[str, str]:
    """Return the form and the backend of a benchmark."""
    return benchmark.params["form"], benchmark.params["backend"]
