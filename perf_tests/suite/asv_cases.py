"""One generated ASV class per op, over the variants of the gate tier.

ASV names them ``<workload>.<op>``; form, backend and each axis are its parameters. A variant that a commit cannot run,
because it lacks the workload, the op or the backend, shows n/a; so does a combination that is no variant of the tier.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import process
from .case import Variant
from .cases import variants
from .prepared import Prepared, flat, prepared, unsupported_reason

SEED = 0
SAMPLES = 15
LACKING = "-"  # the value of an axis that another case of the op has
Values = tuple[int | str, ...]


class CaseBenchmark:
    """Times a variant, in seconds per call: ``number`` is 1, as ASV runs ``setup`` before each of that many calls."""

    number = 1
    rounds = 1
    repeat = SAMPLES
    warmup_time = 0
    timeout = 300
    ids: Mapping[Values, str]

    def setup(self, *values: int | str) -> None:
        """Put everything back; build at the first time in a process.

        Args:
            values: of the parameters.
        """
        self.prepared = ready(self.ids[values])
        self.prepared.reset()

    def timer(self) -> float:
        """Return the time by a clock that is as many times slower as there are calls in a sample."""
        return time.perf_counter() / self.prepared.calls


class Parameters(NamedTuple):
    """The parameters of an op.

    Attributes:
        names: of the parameters.
        ids: the id of each combination of their values that is a variant.
    """

    names: list[str]
    ids: dict[Values, str]

    @property
    def values(self) -> list[list[int | str]]:
        """The values that each parameter takes."""
        return [list(dict.fromkeys(column)) for column in zip(*self.ids, strict=True)]

    @property
    def skipped(self) -> list[Values]:
        """The combinations that are no variant."""
        return [combination for combination in itertools.product(*self.values) if combination not in self.ids]


def parameters(variants: Sequence[Variant]) -> Parameters:
    """Return the parameters of an op: form, backend, and the axes of all its cases.

    Args:
        variants: of the op.
    """
    names = ["form", "backend", *dict.fromkeys(name for variant in variants for name in variant.axes)]
    ids: dict[Values, str] = {}
    for variant in variants:
        chosen = {"form": variant.form, "backend": variant.backend, **variant.axes}
        ids[tuple(chosen.get(name, LACKING) for name in names)] = variant.id
    return Parameters(names, ids)


def ready(identity: str) -> Prepared:
    """Return a settled variant.

    Args:
        identity: its id.

    Raises:
        NotImplementedError: this commit cannot run it; ASV shows n/a.
    """
    if not {"torch", "jax"} & sys.modules.keys():
        process.set_up(process.cores())
    try:
        return prepared(identity, SEED)
    except (ModuleNotFoundError, ValueError) as error:
        if lacking := unsupported_reason(error):
            raise NotImplementedError(f"this commit: {lacking}") from error
        raise


def version(variants: Sequence[Variant]) -> str:
    """Return what changes whenever something else is measured: the parameters, the cases' versions, and all inputs.

    Args:
        variants: of an op.
    """
    digest = hashlib.sha256(repr(parameters(variants)).encode())
    for variant in variants:
        inputs = variant.inputs(SEED)
        digest.update(f"{variant.id} {variant.case.version} {sorted(inputs.spec)}".encode())
        for value in flat([[inputs.spec[name] for name in sorted(inputs.spec)], inputs.args]):
            digest.update(value.tobytes() if hasattr(value, "tobytes") else repr(value).encode())
    return f"{max(variant.case.version for variant in variants)}-{digest.hexdigest()[:12]}"


def benchmark_class(name: str, variants: Sequence[Variant]) -> type[CaseBenchmark]:
    """Return the ASV class of an op.

    Args:
        name: ``workload.op``.
        variants: of the op, in the gate tier.
    """

    def time_sample(self: CaseBenchmark, *values: int | str) -> None:
        self.prepared.run()

    time_sample.version = version(variants)  # type: ignore[attr-defined]
    time_sample.benchmark_name = f"{name}.time_sample"  # type: ignore[attr-defined]
    found = parameters(variants)
    members: dict[str, Any] = {
        "__module__": __name__,
        "param_names": found.names,
        "params": found.values,
        "skip_params": found.skipped,
        "ids": found.ids,
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


globals().update({made.__name__: made for made in itertools.starmap(benchmark_class, gated().items())})
