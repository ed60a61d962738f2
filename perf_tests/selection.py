"""Which variants a run is about: chosen by workload, op, form, backend, axes and tier, never silently none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rl_impls import backends
from rl_impls.backends import BACKENDS, choose
from rlgauge.workers import SIDE

from .recorded import Benchmark, benchmarks
from .suite.case import TIERS, Case, Variant
from .suite.cases import load, variants

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Selection:
    """What to keep; an empty tuple keeps everything.

    Attributes:
        workloads: names.
        ops: names.
        forms: names.
        backends: names.
        axes: wanted values of each axis, as text.
        tier: ``gate``, ``bench``, which includes it, or ``full``, which includes both.
    """

    workloads: Sequence[str] = ()
    ops: Sequence[str] = ()
    forms: Sequence[str] = ()
    backends: Sequence[str] = ()
    axes: Mapping[str, Sequence[str]] | None = None
    tier: str = "bench"

    def has(self, tier: str) -> bool:
        """Return whether it includes a tier: ``bench`` includes ``gate``, ``full`` both.

        Args:
            tier: its name.
        """
        return TIERS.index(tier) <= TIERS.index(self.tier)

    def __str__(self) -> str:
        """What is asked for, in words, as in ``op forward, form naive, axis batch 1 or 32``; not the tier."""
        axes = {f"axis {name}": values for name, values in (self.axes or {}).items()}
        parts = {"workload": self.workloads, "op": self.ops, "form": self.forms, "backend": self.backends, **axes}
        return ", ".join(f"{kind} {' or '.join(names)}" for kind, names in parts.items() if names) or "everything"

    def chosen(self, among: Iterable[Variant]) -> list[Variant]:
        """Return those benchmarks that are selected.

        Args:
            among: the benchmarks to choose from.
        """
        return [
            v for v in among if self.has(v.tier) and self.keeps(v.case.workload, v.case.op, v.form, v.backend, v.axes)
        ]

    def keeps(self, workload: str, op: str, form: str, backend: str, axes: Mapping[str, int | str]) -> bool:
        """Return whether a benchmark with these parts is selected, whatever its tier.

        Args:
            workload: its name.
            op: its name.
            form: name of a setting of the knobs.
            backend: its name.
            axes: a value for each axis.
        """
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
    """Parse ``name=value,value``.

    Args:
        text: as given on the command line.

    Raises:
        ValueError: it is something else.
    """
    name, equals, values = text.partition("=")
    found = tuple(word.strip() for word in values.split(",") if word.strip())
    if not equals or not found:
        raise ValueError(f"--axis: got {text!r}, wanted name=value[,value]")
    return name, found


def selection_of(config: pytest.Config) -> Selection:
    """Return what the options of a run of pytest ask for.

    Args:
        config: of the run.

    Raises:
        ValueError: an axis that cannot be read.
    """
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


def known_axes(among: Iterable[Variant]) -> dict[str, list[str]]:
    """Return the values of each axis, as text, sorted: numbers first.

    Args:
        among: the benchmarks.
    """
    values: dict[str, set[int | str]] = {}
    for variant in among:
        for name, value in variant.axes.items():
            values.setdefault(name, set()).add(value)
    numbers_first = {name: sorted(found, key=lambda v: (isinstance(v, str), v)) for name, found in values.items()}
    return {name: list(map(str, found)) for name, found in sorted(numbers_first.items())}


def check_names(cases: Iterable[Case]) -> None:
    """Raise a ValueError for a case whose workload, form or backend there is not; an older commit may lack some.

    Args:
        cases: the cases, whose patterns may not have been checked.
    """
    for case in cases:
        folder = Path(backends.__file__).parent / case.workload
        if folder.is_dir() and not (folder / "knobs.py").exists():
            raise ValueError(f"case {case.name}: rl_impls/{case.workload}/knobs.py is missing")
        forms = backends.forms(backends.choose(f"workload of case {case.name}", case.workload, backends.workloads()))
        for kind, names, known in (("form", case.forms, forms), ("backend", case.backends, backends.BACKENDS)):
            for name in names:
                choose(f"{kind} of case {case.name}", name, known)


OLDER = {"batch_size": "batch", "num_envs": "envs", "num_steps": "unroll"}  # other names of axes, in --axis


def axes_of(benchmark: Benchmark) -> dict[str, int | str]:
    """Return the axes of a benchmark, by each name that the option ``--axis`` takes."""
    axes = {name: value for name, value in benchmark.params.items() if name not in ("form", "backend")}
    return axes | {OLDER[name]: value for name, value in axes.items() if name in OLDER}


def check(selection: Selection) -> None:
    """Reject unknown names, and a selection that matches no benchmark.

    Args:
        selection: what to keep.

    Raises:
        ValueError: there is one.
    """
    everything = list(benchmarks())
    for name in selection.workloads:
        choose("workload", name, sorted({one.workload for one in everything}))
    among = [one for one in everything if one.workload in selection.workloads or not selection.workloads]
    known: dict[str, set[str]] = {}
    for one in among:
        for name, value in axes_of(one).items():
            known.setdefault(name, set()).add(str(value))
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
            choose(f"value of axis {name}", value, sorted(known[name]))
    kept = [one for one in everything if selection.keeps(one.workload, one.op, *parts_of(one), axes_of(one))]
    if not any(selection.has(one.tier) for one in kept):
        where = f"of tier {selection.tier}; try --tier full" if kept else "of any tier"
        raise ValueError(f"{selection}: matches none of the benchmarks {where}")


def parts_of(benchmark: Benchmark) -> tuple[str, str]:
    """Return form and backend of a benchmark."""
    return benchmark.params["form"], benchmark.params["backend"]


def select(selection: Selection) -> list[Variant]:
    """Return the selected variants.

    Args:
        selection: what to keep.

    Raises:
        ValueError: an unknown name, with those known of the selected workloads, or a selection that matches nothing.
    """
    cases = load()
    check_names(cases)  # a pattern that names the right backend is not what is wrong
    for name in selection.workloads:
        choose("workload", name, sorted({case.workload for case in cases}))
    everything = list(variants().values())
    among = [v for v in everything if v.case.workload in selection.workloads or not selection.workloads]
    axes = selection.axes or {}
    known = known_axes(among)
    for kind, wanted, names in (
        ("op", selection.ops, {v.case.op for v in among}),
        ("form", selection.forms, {v.form for v in among}),
        ("backend", selection.backends, BACKENDS),
        ("tier", (selection.tier,), TIERS),
        ("axis", tuple(axes), known),
    ):
        for name in wanted:
            choose(kind, name, names if isinstance(names, dict | tuple) else sorted(names))
    for name, values in axes.items():
        for value in values:
            choose(f"value of axis {name}", value, known[name])
    found = selection.chosen(everything)
    if not found:
        more = replace(selection, tier="full").chosen(everything)
        where = f"of tier {selection.tier}; try --tier full" if more else "of any tier"
        raise ValueError(f"{selection}: matches none of the benchmarks {where}")
    return found
