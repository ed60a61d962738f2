"""One generated ASV class per op, over the variants of the gate tier.

ASV names them ``<workload>.<op>`` with the parameters of the id. A variant that a commit cannot run, because it lacks
the workload, the op or the backend, shows n/a.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import process
from .case import Variant
from .cases import variants
from .prepared import Prepared, flat, prepared, unsupported_reason

SEED = 0
SAMPLES = 15


class CaseBenchmark:
    """Times a variant, in seconds per call: ``number`` is 1, as ASV runs ``setup`` before each of that many calls."""

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

    def timer(self) -> float:
        """Return the time by a clock that is as many times slower as there are calls in a sample."""
        return time.perf_counter() / self.prepared.calls

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
        if lacking := unsupported_reason(error):
            raise NotImplementedError(f"this commit: {lacking}") from error
        raise


def version(variants: Sequence[Variant]) -> str:
    """Return what changes whenever something else is measured: the cases' versions, and all inputs."""
    digest = hashlib.sha256()
    for variant in variants:
        inputs = variant.inputs(SEED)
        digest.update(f"{variant.id} {variant.case.version} {sorted(inputs.spec)}".encode())
        for value in flat([[inputs.spec[name] for name in sorted(inputs.spec)], inputs.args]):
            digest.update(value.tobytes() if hasattr(value, "tobytes") else repr(value).encode())
    return f"{max(variant.case.version for variant in variants)}-{digest.hexdigest()[:12]}"


def benchmark_class(name: str, variants: Sequence[Variant]) -> type[CaseBenchmark]:
    """Make the ASV class of an op, ``workload.op``."""

    def time_sample(self: CaseBenchmark, parameters: str) -> None:
        self.prepared.run()

    time_sample.version = version(variants)  # type: ignore[attr-defined]
    time_sample.benchmark_name = f"{name}.time_sample"  # type: ignore[attr-defined]
    members: dict[str, Any] = {
        "__module__": __name__,
        "params": [[variant.parameters for variant in variants]],
        "identities": {variant.parameters: variant.id for variant in variants},
        "time_sample": time_sample,
    }
    return type("".join(part.capitalize() for part in re.split("[._]", name)), (CaseBenchmark,), members)


def gated() -> dict[str, list[Variant]]:
    """Return the variants of the gate tier by op: of all its cases, as some forms have one of their own."""
    found: dict[str, list[Variant]] = {}
    for variant in variants().values():
        if variant.tier == "gate":
            found.setdefault(variant.case.name, []).append(variant)
    return found


for _name, _variants in gated().items():
    _made = benchmark_class(_name, _variants)
    globals()[_made.__name__] = _made
del CaseBenchmark.time_sample  # ASV takes the base class for a benchmark otherwise
