"""Claims as read from ``<workload>.toml``, validated by pydantic and checked for unknown tests."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rl_impls import backends

from ..recorded import Benchmark, benchmarks
from ..report.html.runs import first

HERE = Path(__file__).parent
DEVICES = {"cuda": "a GPU", "neuron": "Neuron"}
NOTHING = "no figure"  # `promised` of a claim that has no published figure
CLOSE = 1e-3  # after two Adam steps, rounding causes up to 1.4e-4, and a wrong gradient 1e-2


class ClaimsError(ValueError):
    """An invalid claim; the message names it and the reason."""


class Figure(BaseModel):
    """A figure published for another machine, shown next to ours without a verdict.

    Attributes:
        what: label of the figure.
        test: benchmark that measures our figure.
        theirs: published value with its unit.
        of: items per second, seconds per call, the peak memory of the process in the claim's own comparison, or one of
            the test's own figures, ``seconds_per_put``.
        items: items per call, where the source counts other items than the benchmark.
        unit: name of these items, in the plural.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    what: str
    test: str
    theirs: str
    of: Literal["rate", "seconds", "peak_rss", "seconds_per_put"] = "rate"
    items: float | None = None
    unit: str = ""


class Comparison(BaseModel):
    """Two tests and the options of ``rlgauge compare`` for them, named as in a file of comparisons."""

    model_config = ConfigDict(frozen=True)
    a: str
    b: str
    measure: str
    items: bool
    outputs: str
    tolerance: float | None
    threads_a: int | None
    cores: str = "all"
    group: str = ""


class Claim(BaseModel):
    """A published statement about speed.

    Attributes:
        id: unique name.
        workload: workload that the claim is about.
        words: the claim, in our own words.
        source: document and section of the claim.
        promised: the published figure, in words.
        least: lower end of the promised range, as the ratio of the first test over the second; None if there is none.
            A value below 1 promises a slowdown, which a higher ratio refutes too.
        measure: quantity that ``rlgauge compare`` compares.
        items: compare per item instead of per call.
        threads_a: threads of the first test, if fewer than all.
        same: what must not change: ``close`` outputs, or the learned ``returns``.
        tolerance: tolerance of close outputs, relative to an array's largest absolute value (default: 1e-3).
        evidence: trial that tests whether returns stay the same, by context, see :mod:`.returns`.
        requires: module that the measure needs in addition to those of the backends.
        most_of: other claims; the ratio is then this claim's gain over the largest of theirs.
        contexts: pairs of tests, by what else is enabled, such as ``alone`` or ``from full``.
        figures: figures of other machines.
        note: explanation that a reader needs to understand the figures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    workload: str
    words: str
    source: str
    promised: str
    least: Annotated[float, Field(gt=0)] | None = None
    measure: str = "seconds"
    items: bool = False
    threads_a: Annotated[int, Field(gt=0)] | None = None
    same: Literal["close", "returns"] | None = None
    tolerance: Annotated[float, Field(gt=0)] | None = None
    evidence: Mapping[str, str] = {}
    requires: str = ""
    most_of: tuple[str, ...] = ()
    contexts: Mapping[str, tuple[str, str]] = {}
    figures: tuple[Figure, ...] = ()
    note: str = ""

    @model_validator(mode="after")
    def is_whole(self) -> Claim:
        """Reject a claim with nothing to measure, or whose ``evidence`` does not match its contexts."""
        if not (self.contexts or self.figures):
            raise ValueError("the claim compares nothing; add contexts or figures")
        if self.evidence.keys() != (self.contexts.keys() if self.same == "returns" else set()):
            raise ValueError("evidence: name a trial for each context if same is 'returns', and none otherwise")
        return self

    @property
    def promises_same(self) -> bool:
        """Whether the claim promises equal outputs or returns rather than a ratio."""
        return self.least is None and self.same is not None and self.promised != NOTHING

    @property
    def tests(self) -> list[str]:
        """All tests that the claim names."""
        return [test for pair in self.contexts.values() for test in pair] + [figure.test for figure in self.figures]

    def comparison(self, context: str) -> Comparison:
        """Return the comparison of a context; claims with equal comparisons share one measurement."""
        a, b = (node_id(self.workload, test) for test in self.contexts[context])
        # thread pools of several libraries in one process disturb each other
        group = " ".join(by_name(self.workload)[test].params["backend"] for test in self.contexts[context])
        outputs = "close" if self.same == "close" else "ignore"
        tolerance = (self.tolerance or CLOSE) if outputs == "close" else None
        return Comparison(
            a=a, b=b, measure=self.measure, items=self.items, outputs=outputs, tolerance=tolerance,
            threads_a=self.threads_a, group=group,
        )  # fmt: skip

    def needs(self, *tests: str) -> str:
        """Return the hardware or package that tests need and this machine lacks; empty if all of them can run."""
        for test in tests:
            backend = backends.get(by_name(self.workload)[test].params["backend"])
            if backend.missing():
                return DEVICES.get(backend.device, backend.library)
        return self.requires if self.requires and find_spec(self.requires) is None else ""


def node_id(workload: str, test: str) -> str:
    """Return the pytest id of a workload's test."""
    return f"perf_tests/test_{workload}.py::{test}"


def by_name(workload: str) -> dict[str, Benchmark]:
    """Return the benchmarks of a workload by name, for example ``test_act[full-torch-1]``; cached."""
    if workload not in FOUND:
        FOUND[workload] = {f"{one.test.__name__}[{one.name}]": one for one in benchmarks((workload,))}
    return FOUND[workload]


FOUND: dict[str, dict[str, Benchmark]] = {}


def workloads() -> list[str]:
    """Return the workloads that have claims."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


def claims_of(workload: str) -> list[Claim]:
    """Read and check the claims about a workload."""
    path = HERE / f"{workload}.toml"
    return checked(path.name, workload, tomllib.loads(path.read_text())["claim"])


def checked(where: str, workload: str, tables: list[dict[str, Any]]) -> list[Claim]:
    """Validate the ``[[claim]]`` tables of the file ``where``; raise ClaimsError if one is invalid."""
    from .returns import TRIALS

    found: dict[str, Claim] = {}
    for table in tables:
        name = f"{where}: {table.get('id')}"
        try:
            claim = Claim(workload=workload, **table)
        except ValidationError as error:
            raise ClaimsError(f"{name}: {first(error)}") from error
        if claim.id in found:
            raise ClaimsError(f"{name}: two claims have this id; rename one")
        found[claim.id] = claim
    known = {"test": [*by_name(workload)], "claim": [*found], "trial": [*TRIALS]}
    for claim in found.values():
        trials = claim.evidence.values()
        for kind, names in (("test", claim.tests), ("claim", claim.most_of), ("trial", trials)):
            for name in names:
                if name not in known[kind]:
                    near = difflib.get_close_matches(name, known[kind], n=1, cutoff=0.0)
                    raise ClaimsError(f"{where}: {claim.id}: unknown {kind} {name!r}; did you mean {near[0]!r}?")
    return [*found.values()]
