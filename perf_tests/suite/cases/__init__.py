"""One module per workload, each with its ``CASES``; a new module here is found without being registered."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from ..case import Case, Variant


def load() -> tuple[Case, ...]:
    """Return the cases of all workloads, by workload's name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(case for name in names for case in importlib.import_module(f"{__name__}.{name}").CASES)


@functools.cache
def variants() -> dict[str, Variant]:
    """Return every combination that exists, by id."""
    found: dict[str, Variant] = {}
    for case in load():
        for variant in case.variants():
            if variant.id in found:
                raise ValueError(f"id {variant.id!r} stands for two variants")
            found[variant.id] = variant
    return found
