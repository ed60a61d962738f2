"""One generated ASV class per case, over the variants of the gate tier.

ASV names them ``<workload>.<op>`` with the parameters of the id. A variant that a commit cannot run, because it lacks
the workload, the op or the backend, shows n/a.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from . import process
from .case import Case, Prepared, Variant, absence, flat, prepared
from .cases import load

SEED = 0
SAMPLES = 15


class CaseBenchmark:
    """Times one sample of a variant, in seconds."""

    number = 1
    rounds = 1
    repeat = SAMPLES
    warmup_time = 0
    processes = 2
    timeout = 300
    param_names = ("variant",)
    identities: dict[str, str]

    def setup(self, parameters: str) -> None:
        """Put everything back; build at the first time in a process."""
        self.prepared = ready(self.identities[parameters])
        self.prepared.reset()

    def time_sample(self, parameters: str) -> None:
        """Run one sample."""
        self.prepared.run()


def ready(identity: str) -> Prepared:
    """Return a settled variant; NotImplementedError, which ASV shows as n/a, where this commit cannot run it."""
    if not {"torch", "jax"} & sys.modules.keys():
        process.set_up(process.cores())
    try:
        return prepared(identity, SEED)
    except (ModuleNotFoundError, ValueError) as error:
        if lacking := absence(error):
            raise NotImplementedError(f"this commit: {lacking}") from error
        raise


def version(case: Case, variants: list[Variant]) -> str:
    """Return what changes whenever something else is measured: the case's version, and all inputs and calls."""
    digest = hashlib.sha256()
    for variant in variants:
        inputs = variant.inputs(SEED)
        digest.update(f"{variant.id} {variant.calls} {sorted(inputs.fixed)}".encode())
        for value in flat([[inputs.fixed[name] for name in sorted(inputs.fixed)], inputs.varying]):
            digest.update(value.tobytes() if hasattr(value, "tobytes") else repr(value).encode())
    return f"{case.version}-{digest.hexdigest()[:12]}"


def benchmark_class(case: Case, variants: list[Variant]) -> type[CaseBenchmark]:
    """Make the ASV class of a case."""
    name = "".join(part.capitalize() for part in (case.workload, *case.op.split("_")))
    found = version(case, variants)

    def time_sample(self: CaseBenchmark, parameters: str) -> None:
        self.prepared.run()

    time_sample.version = found  # type: ignore[attr-defined]
    time_sample.benchmark_name = f"{case.name}.time_sample"  # type: ignore[attr-defined]
    members: dict[str, Any] = {
        "__module__": __name__,
        "params": [[variant.parameters for variant in variants]],
        "identities": {variant.parameters: variant.id for variant in variants},
        "time_sample": time_sample,
    }
    return type(name, (CaseBenchmark,), members)


for _case in load():
    _gate = [variant for variant in _case.variants() if variant.tier == "gate"]
    if _gate:
        _made = benchmark_class(_case, _gate)
        globals()[_made.__name__] = _made
del CaseBenchmark.time_sample  # ASV takes the base class for a benchmark otherwise
