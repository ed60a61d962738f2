"""A claim is a published statement about speed: sides to compare, the figure promised, what must stay the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_impls import backends

from .case import Inputs, Variant
from .cases import variants

MEASURES = ("seconds", "allocated", "resident", "spread", "difference")
NOTED = "noted:"
SAME = ("bits", "close", "returns")


class ClaimsError(ValueError):
    """A claim that cannot be measured as it is written; the message names it and says why."""


@dataclass(frozen=True, eq=False)
class Changed(Variant):
    """A benchmark with some knobs unlike its form's, or with other inputs than its case's.

    Attributes:
        changes: values of knobs by name.
        given: ``given(rng)``, the inputs; those of the case where it is None.
        label: what it is called.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[..., Inputs] | None = None
    label: str = ""

    @property
    def id(self) -> str:
        """The id of the benchmark, and what is changed."""
        return self.label

    def knobs(self) -> Any:
        """Return the form's knobs with the changes."""
        return dataclasses.replace(super().knobs(), **self.changes)

    def inputs(self, seed: int) -> Inputs:
        """Return the seeded inputs.

        Args:
            seed: of all that is drawn.
        """
        if self.given is None:
            return super().inputs(seed)
        import numpy as np

        return self.given(np.random.default_rng(seed))


@dataclass(frozen=True)
class Side:
    """One of two things that are compared: a benchmark, as it is or changed, or a function written for a claim.

    Attributes:
        name: id of the benchmark; of a function what it does, behind ``workload.op``, as in ``mario.frames[kept]``.
        knobs: values of knobs that are not the form's.
        work: what a call counts for; the items of its case unless given, 1 of a function.
        threads: of torch; all that the process has unless given.
        given: ``given(rng)``, other inputs than the case's.
        words: what is given, in words.
        make: ``make(rng)`` returns the function, which takes nothing; its result is waited for where it is JAX's.
        backend: of a function, where one has to be installed.
    """

    name: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    work: float | None = None
    threads: int | None = None
    given: Callable[..., Inputs] | None = None
    words: str = ""
    make: Callable[..., Callable[[], Any]] | None = None
    backend: str = "numpy"

    @property
    def label(self) -> str:
        """The name with what is changed, as in ``snake.act[naive-torch-envs1], inference=no_grad``."""
        changed = [f"{knob}={value}" for knob, value in self.knobs.items()]
        if self.threads is not None:
            changed.append(f"{self.threads} thread{'s' * (self.threads > 1)}")
        return ", ".join([self.name, *changed, *filter(None, [self.words])])

    @property
    def op(self) -> str:
        """``workload.op``: sides of one op are measured together."""
        return self.name.partition("[")[0]

    @property
    def variant(self) -> Variant:
        """The benchmark.

        Raises:
            ClaimsError: there is no such benchmark.
        """
        found = variants().get(self.name)
        if found is None:
            raise ClaimsError(f"no benchmark is called {self.name!r}; python -m perf_tests list names them all")
        if not self.knobs and self.given is None:
            return found
        parts = {part.name: getattr(found, part.name) for part in dataclasses.fields(found)}
        return Changed(**parts, changes=self.knobs, given=self.given, label=self.label)

    @property
    def items(self) -> float:
        """What a call counts for."""
        if self.work is not None or self.make is not None:
            return 1.0 if self.work is None else self.work
        variant = self.variant
        return float(variant.case.items(**variant.axes))

    @property
    def unit(self) -> str:
        """What it counts, in the plural."""
        return "calls" if self.make or self.work else self.variant.case.unit

    @property
    def starts_processes(self) -> bool:
        """Whether it has threads or processes of its own."""
        return self.make is None and self.variant.case.cores == "own"

    def missing(self) -> str | None:
        """Return why it cannot run here, None where it can."""
        return backends.get(self.backend if self.make else self.variant.backend).missing()

    def device(self) -> str:
        """Return what it needs: cpu, cuda or neuron."""
        return backends.get(self.backend if self.make else self.variant.backend).device


@dataclass(frozen=True)
class Comparison:
    """Two sides, and of what the ratio base over change is taken.

    Attributes:
        base: the slower, if the claim is right.
        change: the faster.
        measure: ``seconds`` of an item; bytes ``allocated`` by a call; ``resident``, by how much a call raises the most
            memory that its process ever had; ``spread`` of the seconds, their interquartile range over their median;
            ``difference`` of the answers, largest, base's promised one over change's; or ``noted:NAME+NAME``,
            what the op itself counts or notes of its phases, of an item.
    """

    base: Side
    change: Side
    measure: str = "seconds"

    @property
    def key(self) -> tuple[str, str, str]:
        """What is compared, in words: claims of the same have the same ratio."""
        return self.base.label, self.change.label, self.measure


def alone(name: str, measure: str = "seconds", both: Mapping[str, Any] | None = None, **knobs: Any) -> Comparison:
    """Return the comparison of a benchmark, of form naive as a rule, with itself where some knobs are set.

    Args:
        name: its id.
        measure: see :class:`Comparison`.
        both: values of knobs of both sides.
        knobs: values of knobs of the change.
    """
    both = both or {}
    return Comparison(Side(name, both), Side(name, {**both, **knobs}), measure)


def removed(name: str, measure: str = "seconds", both: Mapping[str, Any] | None = None, **knobs: Any) -> Comparison:
    """Return the comparison of a benchmark, of form full as a rule, with itself where some knobs are put back.

    Args:
        name: its id.
        measure: see :class:`Comparison`.
        both: values of knobs of both sides.
        knobs: values of knobs of the base.
    """
    both = both or {}
    return Comparison(Side(name, {**both, **knobs}), Side(name, both), measure)


def between(base: str, change: str, measure: str = "seconds") -> Comparison:
    """Return the comparison of two benchmarks.

    Args:
        base: id of the one that is slower if the claim is right.
        change: id of the other.
        measure: see :class:`Comparison`.
    """
    return Comparison(Side(base), Side(change), measure)


@dataclass(frozen=True)
class Figure:
    """A figure of another machine, which stands beside ours and is not judged.

    Attributes:
        what: it is.
        side: that gives ours.
        theirs: what was published, with its unit.
        of: ``rate``, items a second; ``seconds`` of a call; or ``peak``, the most bytes that its process ever had.
        unit: what the side's work counts, in the plural; its own unit unless given.
    """

    what: str
    side: Side
    theirs: str
    of: str = "rate"
    unit: str = ""


@dataclass(frozen=True)
class Claim:
    """A published statement about speed.

    Attributes:
        name: its id.
        words: what is claimed, in our own words.
        source: document and section that say so.
        promised: the figure, in words.
        least: the lower end of what was promised, as the ratio base over change; None where nothing is judged.
        contexts: the comparisons by what they are made on: ``alone``, ``from full``, ``from plain``.
        same: what must not change: ``bits`` or values ``close`` to each other, by the answers of the run; or what is
            learned, ``returns``, by the evidence that is kept.
        evidence: name of the trial that is the evidence.
        figures: of other machines.
        most_of: names of claims that it must gain more than; the ratio is that of its gain and the best of theirs.
        note: what a reader has to know to understand the figures.
    """

    name: str
    words: str
    source: str
    promised: str
    least: float | None = None
    contexts: Mapping[str, Comparison] = field(default_factory=dict)
    same: str | None = None
    evidence: str = ""
    figures: Sequence[Figure] = ()
    most_of: Sequence[str] = ()
    note: str = ""

    @property
    def compared(self) -> list[Side]:
        """The sides that a verdict is of."""
        return [side for pair in self.contexts.values() for side in (pair.base, pair.change)]

    @property
    def sides(self) -> list[Side]:
        """All sides that it needs."""
        return self.compared + [figure.side for figure in self.figures]

    def check(self, names: Sequence[str] = ()) -> None:
        """Raise a ClaimsError for a benchmark that there is not, and for what makes no sense.

        Args:
            names: of all claims of its workload.
        """
        for side in self.sides:
            try:
                side.items  # noqa: B018
                if side.make is None:
                    side.variant.knobs()
            except (TypeError, ValueError) as error:
                raise ClaimsError(f"{self.name}: {error}") from error
        for pair in self.contexts.values():
            if pair.measure not in MEASURES and not pair.measure.startswith(NOTED):
                wanted = ", ".join(MEASURES)
                raise ClaimsError(f"{self.name}: measure: got {pair.measure!r}, wanted {NOTED}NAME or one of {wanted}")
        if self.same is not None and self.same not in SAME:
            raise ClaimsError(f"{self.name}: same: got {self.same!r}, wanted one of {', '.join(SAME)}")
        if (self.same == "returns") != bool(self.evidence):
            raise ClaimsError(f"{self.name}: evidence: got {self.evidence!r} with same={self.same!r}")
        if not (self.contexts or self.figures or self.most_of):
            raise ClaimsError(f"{self.name}: it has neither contexts nor figures")
        for other in self.most_of:
            if names and other not in names:
                raise ClaimsError(f"{self.name}: most_of: no claim is called {other!r}")


def stated_in(document: str) -> Callable[..., Claim]:
    """Return ``on(name, words, section, **fields)``, which makes a claim of a document, without a promise unless said.

    Args:
        document: its name.
    """

    def on(name: str, words: str, section: str, **fields: Any) -> Claim:
        return Claim(name, words, f"{document}, {section}", fields.pop("promised", "nothing: measured"), **fields)

    return on
