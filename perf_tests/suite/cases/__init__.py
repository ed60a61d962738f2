"""One module per workload, found without being registered: each has ``CASES``, and may have a ``FRONT``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import traceback
from pathlib import Path

from ..case import Case, Variant
from ..front import Front


class CasesError(ImportError):
    """A module of cases cannot be used; the message names it and says why."""


def load() -> tuple[Case, ...]:
    """Return the cases of all workloads, by workload's name.

    Raises:
        CasesError: a module that has no ``CASES``, or cannot be imported.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(case for name in names for case in cases_of(name))


def cases_of(name: str) -> tuple[Case, ...]:
    """Return the cases of one workload.

    Args:
        name: of the workload.

    Raises:
        CasesError: its module has none, or cannot be imported.
    """
    file = f"perf_tests/suite/cases/{name}.py"
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(file)]
        where = f", line {lines[-1]}" if lines else ""
        raise CasesError(f"{file}{where}: {type(error).__name__}: {error}") from error
    found = getattr(module, "CASES", ())
    if not isinstance(found, tuple) or not found or not all(isinstance(case, Case) for case in found):
        raise CasesError(f"{file}: CASES: got {found!r}, wanted a tuple of one or more cases")
    if strange := [case.name for case in found if case.workload != name]:
        raise CasesError(f"{file}: got the case {strange[0]}, wanted cases of {name} alone")
    return found


def front_of(name: str) -> Front | None:
    """Return what the results page shows first of a workload, None where its module of cases says nothing of it.

    Args:
        name: of the workload; it may be one that is gone.

    Raises:
        CasesError: its ``FRONT`` is none.
    """
    if name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        return None
    found = getattr(importlib.import_module(f"{__name__}.{name}"), "FRONT", None)
    if not isinstance(found, Front | None):
        raise CasesError(f"perf_tests/suite/cases/{name}.py: FRONT: got {found!r}, wanted a Front")
    return found


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
    """Return where the permanent ids of a workload are kept.

    Args:
        workload: its name.
    """
    return Path(__file__).with_name(f"{workload}.ids")


def ids_text(workload: str) -> str:
    """Return the tier and id of everything that a workload has, a line each, by id.

    Args:
        workload: its name.
    """
    found = sorted(variant.id for variant in variants().values() if variant.case.workload == workload)
    return "".join(f"{variants()[identity].tier:5} {identity}\n" for identity in found)
