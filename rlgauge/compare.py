"""Compare two benchmarks of the working tree by time or another measure, or rank several.

Each pair consists of two fresh processes, one per benchmark, whose samples are interleaved. Pairs are added until the
interval is as narrow as requested, or the time is up.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from . import interleaved, process
from .allowed import matches, suggestion
from .case import Case
from .fields import FieldError
from .layout import Layout, laid_out
from .pairs import (
    CaseError,
    Cores,
    PairError,
    Pairs,
    SamplePlan,
    as_case_error,
    checked_reply,
    cores,
    time_call,
)
from .progress import number_of
from .rule import GateError, Record
from .statistics import FEWEST, Block, interval, log_ratio
from .workers import Side, Worker

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

MAX_WIDTH = 1.5  # upper over lower end of an interval beyond which a ratio is useless
MAX_DIFFERENCE_WIDTH = 0.2  # the same for a difference: half width as a fraction of the longer time
OUTPUTS, CORES = ("close", "same", "ignore"), ("", "one", "all")
TIMED, MEMORY = ("seconds", "difference", "spread"), ("peak_rss", "allocated")
DIFFER = "the outputs differ"
WIDE, NOT_SIGNIFICANT = "too wide to use", "no significant difference"
WIDE_HINT = "give more --minutes, use an idle machine, or write a benchmark with less spread"


class ComparisonError(GateError):
    """A comparison cannot be measured; `name` identifies it, the message says why."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SkippedError(ComparisonError):
    """One of the tests skips itself, for example because a backend is not installed."""


@dataclass(frozen=True)
class Plan:
    """How to compare benchmarks.

    Attributes:
        precision: half width of the interval at which measuring stops, as a fraction of the ratio; for a difference, as
            a fraction of the longer time.
        minutes: time after which no new pair is started; at least six pairs are measured. With 0, noisy benchmarks and
            those with long calls get fewer samples per pair.
        outputs: whether outputs must be ``close``, the ``same``, or are ``ignore``d.
        tolerance: largest difference of close outputs, as a fraction of an array's largest value; by default that of
            the tests' marks and settings.
        items: compare the time per item, as counted in ``benchmark.extra_info["items"]``, instead of per call.
        measure: what to compare: the ratio of ``seconds``; their ``difference``; their ``spread``, which is the
            interquartile range over the median; bytes of ``peak_rss`` or ``allocated``, see
            :meth:`.worker.Requests.peak_memory`; or a number that both tests store in ``extra_info["figures"]``.
        threads_a: threads and cores of the first benchmark's process; determined by `cores` by default.
        threads_b: the same for the second benchmark.
        cores: ``one`` or ``all``; by default as the tests' marks and settings say.
        blocks: blocks in each pair.
        seed: seed of the order of sides.
        limit: timeout of one worker request, in seconds.

    Raises:
        FieldError: a value is invalid or contradicts another.
    """

    precision: float = 0.03
    minutes: float = 5.0
    outputs: str = "close"
    tolerance: float | None = None
    items: bool = False
    measure: str = "seconds"
    threads_a: int | None = None
    threads_b: int | None = None
    cores: str = ""
    blocks: int = 8
    seed: int = 0
    limit: float = 300.0

    def __post_init__(self) -> None:
        """Validate the values."""
        for name, least in (("precision", 0.001), ("minutes", 0.0)):
            if not getattr(self, name) >= least:
                raise FieldError([name], f"{getattr(self, name):g} is too small; choose {least:g} or more")
        for name, choices in (("outputs", OUTPUTS), ("cores", CORES)):
            if getattr(self, name) not in choices:
                allowed = ", ".join(filter(None, choices))
                raise FieldError([name], f"unknown value {getattr(self, name)!r} (choose from {allowed})")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise FieldError(["tolerance"], f"{self.tolerance:g} is out of range; choose a fraction from 0 to below 1")
        if self.items and self.measure in ("spread", *MEMORY):
            raise FieldError(["items"], f"{self.measure} has no value per item; leave one of them out")
        most = 1 if self.cores == "one" else process.cores()
        for name in ("threads_a", "threads_b"):
            threads = getattr(self, name)
            if threads is not None and not 1 <= threads <= most:
                raise FieldError([name], f"{threads} is out of range; choose 1 to {most}, the cores it may use")

    def place(self, tests: Sequence[Case]) -> Cores:
        """Return the cores on which the tests run."""
        several = any(case.all_cores for case in tests) or max(self.threads_a or 1, self.threads_b or 1) > 1
        return cores(self.cores == "all" or (several and self.cores != "one"))


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


class TwoTestPairs(Pairs):
    """Pairs whose sides run different tests, each with its own number of calls per sample.

    `tests` has the ids of the two tests of each comparison, `tolerances` its largest relative difference of outputs,
    and `checked` names those whose outputs are compared.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        plan: Plan,
        tolerances: dict[str, float],
        folder: Path,
        tests: Mapping[str, tuple[str, str]],
        checked: Collection[str],
    ) -> None:
        blocks = 1 if plan.measure in MEMORY else plan.blocks
        super().__init__(sides, blocks, plan.limit, tolerances, folder, random.Random(plan.seed))
        self.tests, self.checked, self.quantity, self.quick = tests, checked, plan.measure, plan.minutes == 0
        self.info: dict[str, list[dict[str, Any]]] = {}  # extra_info of both tests
        self.side_plans: dict[str, list[SamplePlan]] = {}

    def identities(self, name: str) -> tuple[str, str]:
        """Return the ids of the two tests of a comparison."""
        return self.tests[name]

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare both tests; raise CaseError if one fails or the outputs differ."""
        files = self.folder / "first.output", self.folder / "second.output"
        compared = name in self.checked and name not in self.info
        warm = all(plan.turns > 1 for plan in self.side_plans.get(name, ()))  # not known before the first pair
        with as_case_error(name):
            for worker, test, file in zip(workers, self.tests[name], files, strict=True):
                worker.ask("prepare", identity=test, output=str(file) if compared else None, warm=warm)
            replies = [worker.reply() for worker in workers]
        for test, reply in zip(self.tests[name], replies, strict=True):
            if "skipped" in reply:
                raise SkippedError(name, f"{test}: skipped: {reply['skipped']}")
            if "failed" in reply:
                raise CaseError(name, f"{test}: {reply['failed']}")
        if compared and not self.same(name, *files):
            pair = " and ".join(self.tests[name])
            raise CaseError(name, f"{pair}: {DIFFER}; if they should, add --outputs ignore")
        self.info[name] = [reply.get("info", {}) for reply in replies]
        return True

    def sample_plan(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the plan of the side with fewer blocks; each side keeps its plan from the first pair on.

        Sides of similar speed share one plan.
        """
        if self.quantity in MEMORY:
            return SamplePlan(calls=1, samples=1, warm=False)
        if name not in self.side_plans:
            timings = [time_call(worker, test, name) for worker, test in zip(workers, self.tests[name], strict=True)]
            plans = [place.plan(timing.call, timing.calls, timing.wall, self.quick) for timing in timings]
            calls = [plan.calls for plan in plans]
            if max(calls) <= 2 * min(calls):  # the first calls after a reset find cold caches, on both sides alike
                plans = [min(plans, key=lambda plan: plan.calls)] * 2
            self.side_plans[name] = plans
        return min(self.side_plans[name], key=lambda plan: plan.max_blocks)

    def block(self, workers: Sequence[Worker], name: str, plan: SamplePlan, injected_slowdown: float = 0.0) -> Block:
        """Return both sides' seconds per call, measured in turns, or both sides' bytes."""
        if self.quantity in MEMORY:
            with as_case_error(name):
                for worker, test in zip(workers, self.tests[name], strict=True):
                    worker.ask("peak_memory", identity=test, allocated=self.quantity == "allocated")
                first, second = (float(checked_reply(worker, name)["bytes"]) for worker in workers)
                return first, second

        def sample(side: int, changed: bool) -> float:
            own = self.side_plans[name][side]
            how = {"calls": own.calls, "samples": own.samples, "warm": own.warm and changed}
            workers[side].ask("sample", identity=self.tests[name][side], **how)
            return float(checked_reply(workers[side], name)["seconds"]) / (plan.turns * own.calls * own.samples)

        with as_case_error(name):
            return interleaved.block(int(self.rng.random() < 0.5), sample, plan.turns)


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
    hint = suggestion(text, names) or f" of {len(names)}; pytest --collect-only lists them"
    lacking = "".join(f"; {file} cannot be collected: {reason}" for file, reason in [*broken.items()][:3])
    return GateError(f"{argument}: {text!r} matches no benchmark{hint}{lacking}")


def all_cases(source: Benchmarks) -> dict[str, Case]:
    """Select all benchmarks of a repository, including those that a plain run deselects; return them by id."""
    source.select(deselected=True)
    return {case.id: case for case in source.cases()}


class Comparisons:
    """Comparisons whose tests run one after the other in the same pairs of processes.

    Two comparisons of the same two benchmarks, by different measures, share their samples.

    Args:
        tests: two benchmarks per comparison, by its name.
        plans: how to compare, by the same names; they may differ in ``items``, ``outputs``, ``tolerance`` and, if none
            is one of memory, in ``measure``.
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
        self.plan = plan = next(iter(plans.values()))
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
        self.pairs = TwoTestPairs(sides, plan, tolerances, layout.folder, ids, checked)
        self.pairs.quick &= all(each.measure != "spread" for each in plans.values())  # which needs several blocks
        machine = source.machine()
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
            else:
                if measured := [name for name in names if name not in self.failed]:
                    log(measured)

    def measure_all(self, log: Callable[[], None]) -> None:
        """Add pairs of all comparisons together until all intervals are narrow enough, or the time is up."""
        end = time.monotonic() + 60 * self.plan.minutes
        while self.unfinished(end):
            self.measure_pair(list(self.tests))
            for error in self.failed.values():
                raise error
            log()

    def measure_pair(self, names: Sequence[str]) -> None:
        """Measure one pair and add it to the results of the named comparisons.

        A comparison whose own measure is missing or unusable goes into `failed`. Raises ComparisonError if a test
        cannot be measured, and GateError if a process fails for another reason.
        """
        if self.plan.measure == "peak_rss" and not self.pairs.info:
            self.measure_blocks(names)  # not counted: it compiles and writes outputs, which takes memory
        for name, blocks in self.measure_blocks(names).items():
            try:
                self.add(name, blocks)
            except GateError as error:
                self.failed[name] = ComparisonError(name, str(error))  # others with the same samples are not affected

    def measure_blocks(self, names: Sequence[str]) -> dict[str, list[Block]]:
        """Return the blocks of one pair of the named comparisons."""
        sampled = list(dict.fromkeys(self.sampled[name] for name in names))
        records = {name: Record() for name in sampled}
        try:
            pair = self.pairs.measure_pair(records, sampled, self.place, thorough=self.plan.minutes > 0)
        except CaseError as error:
            raise ComparisonError(error.name, self.naming_test(error.name, str(error))) from error
        except PairError as error:
            raise GateError(str(error)) from error
        for name in sampled:
            if name not in pair:
                raise ComparisonError(name, self.naming_test(name, records[name].words))
        return {name: pair[self.sampled[name]] for name in names}

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
                    raise GateError(f"--measure: {case.id} has no figure {measure!r} (choose from {known})")
            values = [float(of_case[measure]) for of_case in figures]
        for case, value in zip(tests, values, strict=True):
            if not 0 < value < math.inf:
                raise GateError(f"--measure: {measure} of {case.id} is {value:g}; a ratio needs a positive number")
        return values


def spread(seconds: Sequence[float]) -> float:
    """Return the interquartile range over the median."""
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return (high - low) / middle


def compare(source: Benchmarks, first: str, second: str, plan: Plan, log: Callable[[str], None]) -> Result:
    """Compare two benchmarks, given by ids or patterns.

    Raises GateError if one is unknown or fails, or if their outputs differ.
    """
    cases = all_cases(source)
    tests = cases[resolve_id(first, cases, "A", source.broken)], cases[resolve_id(second, cases, "B", source.broken)]
    with laid_out(source, source.root) as layout:
        comparisons = Comparisons(source, layout, {"": tests}, {"": plan})
        result = comparisons.results[""]
        comparisons.measure_all(lambda: log(f"compare: pair {len(result.values)}: {result.values[-1]:.4g}"))
    return result


@dataclass
class Ranking:
    """Several benchmarks ordered by time, with ties.

    Attributes:
        baseline: id of the benchmark that the others are compared with.
        speedups: each benchmark's speedup over the baseline in each pair, by id.
        per: what the times refer to: ``call``, or ``item (UNIT)``.
    """

    baseline: str
    speedups: dict[str, list[float]]
    per: str = "call"
    machine: dict[str, Any] = field(default_factory=dict)

    def faster(self, first: str, second: str) -> bool:
        """Return whether the first benchmark is significantly faster: the interval of their ratio is above 1."""
        ratios = [a / b for a, b in zip(self.speedups[first], self.speedups[second], strict=True)]
        return interval(ratios)[0] > 1

    def ranks(self) -> dict[str, tuple[int, int]]:
        """Return the best and worst possible rank of each benchmark, fastest first."""
        names = sorted(self.speedups, key=lambda name: -median(self.speedups[name]))
        return {
            name: (
                1 + sum(self.faster(other, name) for other in names),
                len(names) - sum(self.faster(name, other) for other in names),
            )
            for name in names
        }

    def __str__(self) -> str:
        lines = []
        for name, (best, worst) in self.ranks().items():
            low, high = interval(self.speedups[name])
            speedup = f"{median(self.speedups[name]):.3g}x [{low:.3g}, {high:.3g}]"
            lines.append(f"{best if best == worst else f'{best}-{worst}':>5}  {speedup:<24}  {name}")
        count = len(self.speedups[self.baseline])
        return "\n".join(
            [*lines, f"Speedup per {self.per} over {self.baseline}, {number_of(count, 'pair')}; 2-3 means a tie."]
        )

    def to_json(self) -> str:
        """Return all fields and the ranks as JSON text."""
        return json.dumps({**asdict(self), "ranks": self.ranks()}, indent=2) + "\n"


def rank(source: Benchmarks, patterns: Sequence[str], plan: Plan, log: Callable[[str], None]) -> Ranking:
    """Rank by time the benchmarks that match any of the patterns.

    Raises GateError if a pattern matches none, fewer than two match, one fails, or outputs differ.
    """
    cases = all_cases(source)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in cases):
            raise no_match(pattern, cases, "rlgauge rank", source.broken)
    chosen = [case for name, case in cases.items() if any(matches(name, pattern) for pattern in patterns)]
    if len(chosen) < 2:
        raise GateError(f"{' '.join(patterns)}: only {chosen[0].id}; give patterns that match two or more benchmarks")
    baseline, *others = chosen
    with laid_out(source, source.root) as layout:
        tests = {case.id: (baseline, case) for case in others}
        comparisons = Comparisons(source, layout, tests, dict.fromkeys(tests, plan))
        first = comparisons.results[others[0].id]
        comparisons.measure_all(lambda: log(f"rank: pair {len(first.values)} of {len(chosen)} benchmarks"))
    speedups = {name: result.values for name, result in comparisons.results.items()}
    speedups = {baseline.id: [1.0] * len(first.values)} | speedups
    return Ranking(baseline.id, speedups, first.per, first.machine)


def tolerance_of(plan: Plan, tests: Sequence[Case]) -> float:
    """Return the largest relative difference between the outputs of two benchmarks that counts as none."""
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
                f"--items: set benchmark.extra_info['items'] in {case.id} to a positive number, or leave out --items"
            )
    units = [str(of_case.get("unit", "items")) for of_case in info]
    if units[0] != units[1]:
        raise GateError(f"--items: {pair[0].id} counts {units[0]}, and {pair[1].id} {units[1]}; leave out --items")
    result.per = f"item ({units[0]})"
    return float(info[0]["items"]), float(info[1]["items"])
