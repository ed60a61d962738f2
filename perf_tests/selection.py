"""Which variants a run is about: chosen by workload, op, form, backend, axes and tier, never silently none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rl_impls import backends
from rl_impls.backends import BACKENDS, choose

from .suite.case import TIERS, Variant
from .suite.cases import variants


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


def known_axes(among: Iterable[Variant]) -> dict[str, list[str]]:
    """Return the values of each axis.

    Args:
        among: the benchmarks.
    """
    values: dict[str, dict[str, None]] = {}
    for variant in among:
        for name, value in variant.axes.items():
            values.setdefault(name, {})[str(value)] = None
    return {name: list(found) for name, found in values.items()}


def check_names(everything: Iterable[Variant]) -> None:
    """Raise a ValueError for a case whose workload, form or backend there is not; an older commit may lack some.

    Args:
        everything: the benchmarks.
    """
    for case in {id(variant.case): variant.case for variant in everything}.values():
        forms = backends.forms(backends.choose(f"workload of case {case.name}", case.workload, backends.workloads()))
        for kind, names, known in (("form", case.forms, forms), ("backend", case.backends, backends.BACKENDS)):
            for name in names:
                choose(f"{kind} of case {case.name}", name, known)


def select(selection: Selection) -> list[Variant]:
    """Return the selected variants.

    Args:
        selection: what to keep.

    Raises:
        ValueError: an unknown name, with the known ones, or a selection that matches nothing.
    """
    everything = list(variants().values())
    check_names(everything)
    axes = selection.axes or {}
    known = known_axes(everything)
    for kind, wanted, names in (
        ("workload", selection.workloads, {v.case.workload for v in everything}),
        ("op", selection.ops, {v.case.op for v in everything}),
        ("form", selection.forms, {v.form for v in everything}),
        ("backend", selection.backends, BACKENDS),
        ("tier", (selection.tier,), TIERS),
        ("axis", tuple(axes), known),
    ):
        for name in wanted:
            choose(kind, name, names if isinstance(names, dict | tuple) else sorted(names))
    for name, values in axes.items():
        for value in values:
            choose(f"value of axis {name}", value, known[name])
    found = [
        v
        for v in everything
        if selection.has(v.tier) and selection.keeps(v.case.workload, v.case.op, v.form, v.backend, v.axes)
    ]
    if not found:
        raise ValueError(f"{selection} matches none of the {len(everything)} benchmarks; try --tier full")
    return found
