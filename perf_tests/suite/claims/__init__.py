"""One module per workload, found without being registered: each has ``CLAIMS``."""

from __future__ import annotations

import importlib
import pkgutil

from ..claim import Claim, ClaimsError


def workloads() -> list[str]:
    """Return the names of the workloads that have claims."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def claims_of(workload: str) -> tuple[Claim, ...]:
    """Return the claims about a workload, checked.

    Args:
        workload: its name.

    Raises:
        ClaimsError: two claims of one name, one of a benchmark that there is not, or one that makes no sense.
    """
    found: tuple[Claim, ...] = importlib.import_module(f"{__name__}.{workload}").CLAIMS
    names = [claim.name for claim in found]
    for name in names:
        if names.count(name) > 1:
            raise ClaimsError(f"{name}: two claims have this name")
    for claim in found:
        claim.check(names)
    return found
