"""Compare two benchmarks of the working tree by time or another measure.

Each pair consists of two fresh processes, one per benchmark, whose samples are interleaved. Pairs are added until the
interval is as narrow as requested, or the time is up.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from .allowed import matches, suggestion
from .case import Case
from .kept_pairs import KeptPairs
from .layout import Layout, laid_out
from .machine import machine_and_versions
from .pairs import CaseError, PairError
from .plan import MEMORY, TIMED, Plan
from .progress import number_of
from .rule import GateError, Record
from .statistics import FEWEST, Block, interval, log_ratio
from .two_tests import ComparisonError, SkippedError, TwoTestPairs

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

MAX_WIDTH = 1.5  # largest usable ratio of an interval's upper to its lower end
MAX_DIFFERENCE_WIDTH = 0.2  # the same for a difference: half width as a fraction of the longer time
WIDE, NOT_SIGNIFICANT = "too wide to use", "no significant difference"
WIDE_HINT = "give more --minutes, use an idle machine, or make the benchmark less noisy"


@dataclass
class Result:
    """Outcome of comparing two benchmarks.

    Attributes:
        first: id of the first benchmark.
        second: id of the second benchmark.
        measure: see :class:`Plan`.
        per: what the value refers to: ``call``, or ``item (UNIT)``.
        values: one per pair: the first over the second, so that 2 for ``seconds`` means the second is twice as fast;
            for a ``difference``, the first's seconds minus the second's.
        sides: medians over the pairs of each benchmark's own measure.
        machine: machine on which it was measured.
    """

    first: str
    second: str
    measure: str = "seconds"
    per: str = "call"
    values: list[float] = field(default_factory=list)
    sides: list[float] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """Median over the pairs."""
        return median(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """Distribution-free 95% interval of the median."""
        return interval(self.values)

    @property
    def half_width(self) -> float:
        """Half width of the interval, as a fraction of the ratio; for a difference, of the longer time."""
        low, high = self.interval
        return (high - low) / (2 * (max(self.sides) if self.measure == "difference" else self.value))

    @property
    def verdict(self) -> str:
        """Why the value cannot be used: the interval is too wide or includes equality; empty if neither."""
        low, high = self.interval
        difference = self.measure == "difference"
        if (self.half_width > MAX_DIFFERENCE_WIDTH) if difference else (high > MAX_WIDTH * low):
            return WIDE
        return NOT_SIGNIFICANT if low <= (0 if difference else 1) <= high else ""

    @property
    def value_text(self) -> str:
        """The value and its interval as text."""
        low, high = self.interval
        return f"{self.value:.3g}{' s' if self.measure == 'difference' else 'x'} [{low:.3g}, {high:.3g}]"

    def __str__(self) -> str:
        pairs = f"({number_of(len(self.values), 'pair')})"
        if self.verdict:
            return f"{self.verdict}: {self.value_text} {pairs}{f'; {WIDE_HINT}' if self.verdict == WIDE else ''}"
        if self.measure == "seconds":
            return f"{self.second} is {self.value_text} as fast per {self.per} as {self.first} {pairs}"
        if self.measure == "difference":
            return f"{self.first} minus {self.second}: {self.value_text} per {self.per} {pairs}"
        return f"{self.measure} of {self.first} is {self.value_text} that of {self.second} {pairs}"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, the value, its interval and the verdict."""
        low, high = self.interval
        return {**asdict(self), "value": self.value, "low": low, "high": high, "verdict": self.verdict}

    def to_json(self) -> str:
        """Return :meth:`as_dict` as JSON text."""
        return json.dumps(self.as_dict(), indent=2) + "\n"


def resolve_id(text: str, names: Collection[str], argument: str, broken: Mapping[str, str] | None = None) -> str:
    """Resolve an id, or a pattern or ending that matches exactly one benchmark; errors name the `argument`.

    `broken` says why files cannot be collected: the benchmark may be in one of them.
    """
    if text in names:
        return text
    found = [name for name in names if matches(name, text)] or [name for name in names if name.endswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise GateError(
            f"{argument}: {text!r} matches {len(found)} benchmarks: {', '.join(found[:3])}{more}; name one of them"
        )
    raise no_match(text, names, argument, broken or {})


def no_match(text: str, names: Collection[str], argument: str, broken: Mapping[str, str]) -> GateError:
    """Return the error for a pattern that matches no benchmark, see :func:`resolve_id`."""
    hint = suggestion(text, names) or "; to list the benchmarks, run pytest --collect-only"
    lacking = "".join(f"; {file} cannot be collected: {reason}" for file, reason in [*broken.items()][:3])
    return GateError(f"{argument}: {text!r} matches no benchmark{hint}{lacking}")


def all_cases(source: Benchmarks, ids: Collection[str]) -> dict[str, Case]:
    """Select all benchmarks of a repository, including those that a plain run deselects; return them by id.

    If each of `ids` names an existing file, only these files are collected; pytest may not collect them by default.
    """
    files = [text.partition("::")[0] for text in ids]
    named = all("::" in text for text in ids) and all((source.root / file).is_file() for file in files)
    source.select(list(dict.fromkeys(files)) if named else (), deselected=True)
    return {case.id: case for case in source.cases()}


class Comparisons:
    """Comparisons whose tests run one after the other in the same pairs of processes.

    Two comparisons of the same two benchmarks, by different measures, share their samples.

    Args:
        tests: two benchmarks per comparison, by its name.
        plans: how to compare, by the same names; they may differ in ``items``, ``outputs``, ``tolerance`` and, if none
            measures memory, in ``measure``.
        folder: name of the sides' directories; compiled files in them are kept from pair to pair.

    Attributes:
        results: result of each comparison, by name.
        side_values: each benchmark's own measure in each pair, by name of the comparison.
        failed: why a comparison cannot be measured, by name.
    """

    def __init__(
        self,
        source: Benchmarks,
        layout: Layout,
        tests: Mapping[str, tuple[Case, Case]],
        plans: Mapping[str, Plan],
        folder: str = "compared",
    ) -> None:
        self.tests, self.plans = tests, plans
        self.plan = plan = min(plans.values(), key=lambda each: each.quick)  # if one is not quick, none is
        cases = [case for pair in tests.values() for case in pair]
        source.names = list(dict.fromkeys(case.id for case in cases))  # workers collect only the files of these
        self.place = plan.place(cases)
        sides = [
            changed(layout.side(None, f"{folder}-{name}"), name=name, memory="default", threads=threads)
            for name, threads in (("base", plan.threads_a), ("head", plan.threads_b))
        ]
        tolerances = {name: tolerance_of(plans[name], pair) for name, pair in tests.items()}
        checked = [name for name in tests if plans[name].outputs != "ignore"]
        ids = {name: (first.id, second.id) for name, (first, second) in tests.items()}
        alike = {name: (pair, name in checked, tolerances[name]) for name, pair in ids.items()}
        first_of = {key: name for name, key in reversed(alike.items())}
        self.sampled = {name: first_of[key] for name, key in alike.items()}  # the comparison whose samples it shares
        on_all = self.place.one is None
        self.pairs = TwoTestPairs(sides, plan, tolerances, layout.folder, ids, checked, on_all)
        machine = machine_and_versions()
        self.results = {name: Result(*pair, measure=plans[name].measure, machine=machine) for name, pair in ids.items()}
        self.side_values: dict[str, list[list[float]]] = {name: [] for name in tests}
        self.failed: dict[str, ComparisonError] = {}

    def unfinished(self, end: float) -> list[str]:
        """Return the comparisons that need another pair: too few pairs, or a wide interval and time left.

        `end` is a time of the monotonic clock.
        """
        in_time = time.monotonic() <= end
        return [
            name
            for name, result in self.results.items()
            if name not in self.failed
            and (len(result.values) < FEWEST or (in_time and result.half_width > self.plan.precision))
        ]

    def measure_each(self, log: Callable[[Sequence[str]], None]) -> None:
        """Add pairs to each comparison until its interval is narrow enough, or the time for all is up.

        A comparison that cannot be measured goes into `failed`, and the others continue. `log` is called after each
        pair with the names of the comparisons in it.
        """
        end = time.monotonic() + 60 * self.plan.minutes * len(self.tests)
        while names := self.unfinished(end):
            try:
                self.measure_pair(names)
            except ComparisonError as error:
                self.failed |= {name: error for name in names if error.name in (name, self.sampled[name])}
            except GateError as error:  # a process failed between tests: only finished comparisons have a result
                self.failed |= {name: ComparisonError(name, str(error)) for name in names}
            else:
                if measured := [name for name in names if name not in self.failed]:
                    log(measured)

    def measure_all(self, log: Callable[[], None]) -> None:
        """Add pairs of all comparisons together until all intervals are narrow enough, or the time is up.

        Comparisons of memory share no processes. Raises the first failure, unless it is a skipped test and other
        comparisons can be measured.
        """
        end = time.monotonic() + 60 * self.plan.minutes
        while self.unfinished(end):
            names = [name for name in self.tests if name not in self.failed]
            for together in [[name] for name in names] if self.plan.measure in MEMORY else [names]:
                self.measure_pair(together)
            for error in self.failed.values():
                if not isinstance(error, SkippedError) or len(self.failed) == len(self.tests):
                    raise error
            log()

    def measure_pair(self, names: Sequence[str]) -> None:
        """Measure one pair and add it to the results of the named comparisons.

        A comparison whose own measure is missing or unusable goes into `failed`. Raises ComparisonError if a test
        cannot be measured, and GateError if a process fails for another reason.
        """
        if self.plan.measure == "peak_rss" and any(self.sampled[name] not in self.pairs.info for name in names):
            self.measure_blocks(names)  # not counted: it compiles and writes outputs, which takes memory
        for name, blocks in self.measure_blocks(names).items():
            try:
                self.add(name, blocks)
            except GateError as error:
                self.failed[name] = ComparisonError(name, str(error))  # others with the same samples are not affected

    def measure_blocks(self, names: Sequence[str]) -> dict[str, list[Block]]:
        """Return the blocks of one pair of the named comparisons; those with a skipped test go into `failed`."""
        sampled = list(dict.fromkeys(self.sampled[name] for name in names))
        records, pair = {name: Record() for name in sampled}, dict[str, list[Block]]()
        try:
            self.pairs.measure_pair(pair, records, sampled, self.place, thorough=self.plan.minutes > 0)
        except CaseError as error:
            raise ComparisonError(error.name, self.naming_test(error.name, str(error))) from error
        except PairError as error:
            raise GateError(str(error)) from error
        self.failed |= {name: skip for name in names if (skip := self.pairs.skipped.get(self.sampled[name]))}
        for name in sampled:
            if name not in pair and name not in self.failed:
                raise ComparisonError(name, self.naming_test(name, records[name].words))
        return {name: pair[self.sampled[name]] for name in names if name not in self.failed}

    def naming_test(self, name: str, message: str) -> str:
        """Return a message that names a side with its test in place of the side."""
        side, _, rest = message.partition(": ")
        tests = dict(zip(("base", "head"), self.pairs.identities(name), strict=True))
        return f"{tests[side]}: {rest}" if side in tests else message

    def add(self, name: str, blocks: Sequence[Block]) -> None:
        """Add one pair's blocks to the result of a comparison."""
        result, plan = self.results[name], self.plans[name]
        info = self.pairs.info[self.sampled[name]]
        items = item_counts(info, self.tests[name], result) if plan.items else (1.0, 1.0)
        sides = [side / count for side, count in zip(self.measures(name, blocks), items, strict=True)]
        if plan.measure == "difference":
            result.values.append(median(a / items[0] - b / items[1] for a, b in blocks))
        elif plan.measure == "seconds":
            result.values.append(math.exp(-log_ratio(blocks)) * items[1] / items[0])
        else:
            result.values.append(sides[0] / sides[1])
        self.side_values[name].append(sides)
        result.sides = [median(side) for side in zip(*self.side_values[name], strict=True)]

    def measures(self, name: str, blocks: Sequence[Block]) -> list[float]:
        """Return each side's measure in one pair, per call; raise GateError unless it is positive and finite."""
        measure, tests = self.plans[name].measure, self.tests[name]
        if measure in TIMED or measure in MEMORY:
            values = [spread(side) if measure == "spread" else median(side) for side in zip(*blocks, strict=True)]
        else:
            figures = [reply.get("figures", {}) for reply in self.pairs.close_replies[self.sampled[name]]]
            for case, of_case in zip(tests, figures, strict=True):
                if measure not in of_case:
                    known = ", ".join([*TIMED, *MEMORY, *of_case])
                    how = f"choose from {known}, or put it into benchmark.extra_info['figures']"
                    raise GateError(f"--measure: {case.id} has no figure {measure!r} ({how})")
            values = [float(of_case[measure]) for of_case in figures]
        for case, value in zip(tests, values, strict=True):
            if not 0 < value < math.inf:
                problem = f"{measure} of {case.id} is {value:g}, but a ratio needs a positive number"
                raise GateError(f"--measure: {problem}; choose another measure")
        return values


def spread(seconds: Sequence[float]) -> float:
    """Return the interquartile range over the median."""
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return (high - low) / middle


def compare(
    source: Benchmarks, first: str, second: str, plan: Plan, log: Callable[[str], None], resume: bool = False
) -> Result:
    """Compare two benchmarks, given by ids or patterns; with `resume`, reuse the pairs of an interrupted run.

    Raises GateError if one is unknown or fails, or if their outputs differ.
    """
    cases = all_cases(source, [first, second])
    tests = cases[resolve_id(first, cases, "A", source.broken)], cases[resolve_id(second, cases, "B", source.broken)]

    def log_pair() -> None:
        log(f"compare: pair {len(result.values)}: {result.values[-1]:.4g}")

    with laid_out(source, source.root) as layout:
        comparisons = Comparisons(source, layout, {"": tests}, {"": plan})
        result = comparisons.results[""]
        kept = KeptPairs("compare", source, layout, plan, [case.id for case in tests])
        kept.measure(comparisons, resume, log, log_pair)
    return result


def tolerance_of(plan: Plan, tests: Sequence[Case]) -> float:
    """Return the largest relative difference at which the outputs of two benchmarks count as equal."""
    if plan.outputs == "same":
        return 0.0
    return max(case.tolerance for case in tests) if plan.tolerance is None else plan.tolerance


def item_counts(info: Sequence[Mapping[str, Any]], pair: Sequence[Case], result: Result) -> tuple[float, float]:
    """Return the number of items per call of two benchmarks, and store their unit in `result.per`.

    Raises GateError if a benchmark does not count items, or if the two count different units.
    """
    for case, of_case in zip(pair, info, strict=True):
        if not isinstance(of_case.get("items"), int | float) or not of_case["items"] > 0:
            raise GateError(
                f"--items: {case.id} does not count its items; set benchmark.extra_info['items'] to a positive number, "
                "or leave out --items"
            )
    units = [str(of_case.get("unit", "items")) for of_case in info]
    if units[0] != units[1]:
        raise GateError(f"--items: {pair[0].id} counts {units[0]}, and {pair[1].id} {units[1]}; leave out --items")
    result.per = f"item ({units[0]})"
    return float(info[0]["items"]), float(info[1]["items"])
