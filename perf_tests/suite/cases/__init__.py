"""One module per workload, each with its ``CASES``; a new module here is found without being registered."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path

from ..case import Case, Variant


def load() -> tuple[Case, ...]:
    """Return the cases of all workloads, by workload's name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(case for name in names for case in importlib.import_module(f"{__name__}.{name}").CASES)


@functools.cache
def variants() -> dict[str, Variant]:
    """Return every combination that exists, by id.

    Raises:
        ValueError: a pattern that matches nothing or names what its case does not have, an id of two cases.
    """
    found: dict[str, Variant] = {}
    for case in load():
        case.check()
        for variant in case.variants():
            if variant.id in found:
                raise ValueError(f"{case.name}: id {variant.id!r} stands for two variants")
            found[variant.id] = variant
    return found


def ids_file(workload: str) -> Path:
    """Return where the permanent ids of a workload are kept."""
    return Path(__file__).with_name(f"{workload}.ids")


def ids_text(workload: str) -> str:
    """Return the tier and id of everything that a workload has, a line each, by id."""
    found = sorted(variant.id for variant in variants().values() if variant.case.workload == workload)
    return "".join(f"{variants()[identity].tier:5} {identity}\n" for identity in found)
