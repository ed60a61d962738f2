"""Compare benchmarks of the working tree: the ratio of two in seconds or another measure, and the order of several.

Each pair is two fresh processes, one for each benchmark, whose samples are interleaved. Pairs are added until the
interval is as narrow as asked, or the time is up.
"""

from __future__ import annotations

import difflib
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
from .allowed import matches
from .fields import FieldError
from .layout import Layout, laid_out
from .pairs import NONE, CaseError, Cores, PairError, Pairs, SamplePlan, answered, blamed, cores
from .rule import GateError, Record
from .source import Case
from .statistics import Block, interval, log_ratio
from .workers import Side, Worker

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

FEWEST = 6  # pairs whose median has a 95 % interval
WIDEST = 1.5  # upper over lower end of an interval, beyond which a ratio is of no use
WIDEST_DIFFERENCE = 0.2  # half width of the interval of a difference, as a part of the longer time
OUTPUTS, CORES = ("close", "same", "ignore"), ("", "one", "all")
TIMED, MEMORY = ("seconds", "difference", "spread"), ("peak_rss", "allocated")
DIFFER = "the outputs differ"
WIDE, UNDECIDED = "too wide to use", "no significant difference"
HELP = "more --minutes, an idle machine or a benchmark with less spread would help"


class ComparisonError(GateError):
    """A comparison cannot be measured.

    Args:
        name: of the comparison.
        words: why, in a line.
    """

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


class SkippedError(ComparisonError):
    """A test skips itself here, as where a backend is not installed."""


@dataclass(frozen=True)
class Plan:
    """How to compare.

    Attributes:
        precision: half width of the interval at which measuring ends, as a part of the ratio; of a difference, as a
            part of the longer time.
        minutes: after which no pair is begun; at least six pairs are measured.
        outputs: whether outputs must be ``close``, the ``same``, or are to be ``ignore``d.
        tolerance: largest difference of outputs that are close, as a part of an array's largest value; as the tests'
            marks and settings say unless given.
        items: compare the time per item, as ``benchmark.extra_info["items"]`` counts them, in place of a call.
        measure: what is compared: the ratio of ``seconds``; their ``difference`` in place of the ratio; their
            ``spread``, interquartile range over median; bytes of ``peak_rss`` or ``allocated``, see
            :meth:`.worker.Requests.peak_memory`; or a number that both tests put under ``extra_info["figures"]``.
        threads_a: threads of the first benchmark's process, which gets as many cores; by the cores unless given.
        threads_b: the same of the second.
        cores: ``one`` or ``all``; as the tests' marks and settings say unless given.
        blocks: of each pair.
        seed: of the order of sides.
        limit: seconds that a worker may take for one request.

    Raises:
        FieldError: a value is wrong, or contradicts another.
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
        """Reject wrong values."""
        for name, least in (("precision", 0.001), ("minutes", 0.0)):
            if not getattr(self, name) >= least:
                raise FieldError([name], f"got {getattr(self, name):g}; give {least:g} or more")
        for name, choices in (("outputs", OUTPUTS), ("cores", CORES)):
            if getattr(self, name) not in choices:
                raise FieldError([name], f"got {getattr(self, name)!r}; choose from {', '.join(filter(None, choices))}")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise FieldError(["tolerance"], f"got {self.tolerance:g}; give a fraction below 1")
        if self.items and self.measure in ("spread", *MEMORY):
            raise FieldError(["items"], f"{self.measure} is not counted per item; leave one of them out")
        most = 1 if self.cores == "one" else process.cores()
        for name in ("threads_a", "threads_b"):
            threads = getattr(self, name)
            if threads is not None and not 1 <= threads <= most:
                raise FieldError([name], f"got {threads}; give 1 to {most}, the cores that it may use")

    def place(self, tests: Sequence[Case]) -> Cores:
        """Return the cores that tests run on."""
        several = any(case.all_cores for case in tests) or max(self.threads_a or 1, self.threads_b or 1) > 1
        return cores(self.cores == "all" or (several and self.cores != "one"))


@dataclass
class Result:
    """How two benchmarks compare.

    Attributes:
        first: id of a benchmark.
        second: id of the other.
        measure: see :class:`Plan`.
        per: what it is of: ``call``, or the unit of an item.
        values: the first's over the second's, so that 2 of ``seconds`` says that the second is twice as fast; of a
            ``difference`` the first's seconds minus the second's. One for each pair.
        sides: what is measured of each benchmark, the medians over the pairs.
        machine: that it was measured on.
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
        """95 % interval of the median, distribution-free."""
        return interval(self.values)

    @property
    def half_width(self) -> float:
        """Half of the interval, as a part of the ratio; of a difference, as a part of the longer time."""
        low, high = self.interval
        return (high - low) / (2 * (max(self.sides) if self.measure == "difference" else self.value))

    @property
    def verdict(self) -> str:
        """What keeps the value from being used, if anything does."""
        low, high = self.interval
        difference = self.measure == "difference"
        if (self.half_width > WIDEST_DIFFERENCE) if difference else (high > WIDEST * low):
            return WIDE
        return UNDECIDED if low <= (0 if difference else 1) <= high else ""

    @property
    def figures(self) -> str:
        """The value with its interval."""
        low, high = self.interval
        return f"{self.value:.3g}{' s' if self.measure == 'difference' else 'x'} [{low:.3g}, {high:.3g}]"

    def __str__(self) -> str:
        """The result in a line."""
        pairs = f"({len(self.values)} pairs)"
        if self.verdict:
            return f"{self.verdict}: {self.figures} {pairs}{f'; {HELP}' if self.verdict == WIDE else ''}"
        if self.measure == "seconds":
            return f"{self.second} is {self.figures} as fast per {self.per} as {self.first} {pairs}"
        if self.measure == "difference":
            return f"{self.first} minus {self.second}: {self.figures} per {self.per} {pairs}"
        return f"{self.measure} of {self.first} is {self.figures} that of {self.second} {pairs}"

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, as JSON can hold them."""
        low, high = self.interval
        return {**asdict(self), "value": self.value, "low": low, "high": high, "verdict": self.verdict}

    def to_json(self) -> str:
        """Return all figures as JSON."""
        return json.dumps(self.as_dict(), indent=2) + "\n"


class UnlikePairs(Pairs):
    """Pairs whose sides run different tests, each with as many calls as it needs.

    Args:
        sides: on which the tests run.
        plan: how to compare.
        tolerances: of outputs, by comparison.
        folder: where outputs are put.
        tests: ids of the tests of a comparison, by its name.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        plan: Plan,
        tolerances: dict[str, float],
        folder: Path,
        tests: Mapping[str, tuple[str, str]],
    ) -> None:
        blocks = plan.blocks if plan.measure in TIMED else 1
        super().__init__(sides, blocks, plan.limit, tolerances, folder, random.Random(plan.seed))
        self.tests, self.outputs, self.measured = tests, plan.outputs, plan.measure
        self.info: dict[str, list[dict[str, Any]]] = {}  # extra_info of both tests
        self.both: dict[str, list[SamplePlan]] = {}

    def identities(self, name: str) -> tuple[str, str]:
        """Return the ids of the tests of a comparison."""
        return self.tests[name]

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare both tests; raise a CaseError if one fails or the outputs differ."""
        files = self.folder / "first.answer", self.folder / "second.answer"
        wanted = self.outputs != "ignore" and name not in self.info
        with blamed(name):
            for worker, test, file in zip(workers, self.tests[name], files, strict=True):
                worker.ask("prepare", identity=test, answer=str(file) if wanted else None)
            replies = [worker.reply() for worker in workers]
        for test, reply in zip(self.tests[name], replies, strict=True):
            if "skipped" in reply:
                raise SkippedError(name, f"{test}: skipped: {reply['skipped']}")
            if "failed" in reply:
                raise CaseError(name, f"{test}: {reply['failed']}")
        if wanted and not self.same(name, *files):
            raise CaseError(name, f"{DIFFER}; if they should, add --outputs ignore")
        self.info[name] = [reply.get("info", {}) for reply in replies]
        return True

    def plan_of(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the plan of the side that gets fewer blocks; each side keeps one of its own from the first pair."""
        if self.measured in MEMORY:
            return SamplePlan(calls=1, samples=1, warm=False)
        if name not in self.both:
            found = []
            for worker, test in zip(workers, self.tests[name], strict=True):
                with blamed(name):
                    worker.ask("measure", identity=test)
                    told = answered(worker, name)
                found.append(place.plan(max(float(told["call"]), 1e-9), told["calls"], float(told["wall"])))
            self.both[name] = found
        return min(self.both[name], key=lambda plan: plan.most_blocks)

    def block(self, workers: Sequence[Worker], name: str, plan: SamplePlan, dose: Mapping[str, float] = NONE) -> Block:
        """Return seconds per call of both sides, in the order A B B A or B A A B; or the bytes of both."""
        if self.measured in MEMORY:
            with blamed(name):
                for worker, test in zip(workers, self.tests[name], strict=True):
                    worker.ask("peak_memory", identity=test, allocated=self.measured == "allocated")
                first, second = (float(answered(worker, name)["bytes"]) for worker in workers)
                return first, second

        def sample(side: int, warm: bool) -> float:
            own = self.both[name][side]
            asked = {"calls": own.calls, "samples": own.samples, "warm": own.warm and warm}
            workers[side].ask("sample", identity=self.tests[name][side], **asked)
            return float(answered(workers[side], name)["seconds"]) / (2 * own.calls * own.samples)

        with blamed(name):
            return interleaved.block(int(self.rng.random() < 0.5), sample)


def named(text: str, names: Collection[str], what: str) -> str:
    """Return the id that a user means: the id itself, or a pattern or an ending that fits one benchmark alone.

    Args:
        text: as the user has it.
        names: of all benchmarks.
        what: it is for, in an error.

    Raises:
        GateError: it fits none, or several.
    """
    if text in names:
        return text
    found = [name for name in names if matches(name, text)] or [name for name in names if name.endswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise GateError(
            f"{what}: {text!r} fits {len(found)} benchmarks: {', '.join(found[:3])}{more}; name one of them"
        )
    near = difflib.get_close_matches(text, names, n=3, cutoff=0.4)
    if not near:  # by what is behind the file
        ends = {name.rpartition("::")[2]: name for name in names}
        end = text.rpartition("::")[2].strip("*")
        near = [ends[found] for found in difflib.get_close_matches(end, ends, n=3, cutoff=0.4)]
    hint = f"; did you mean {' or '.join(near)}?" if near else f" of {len(names)}; pytest --collect-only lists them"
    raise GateError(f"{what}: {text!r} fits no benchmark{hint}")


def listed(source: Benchmarks, root: Path) -> dict[str, Case]:
    """Return all benchmarks of a repository by their ids, those that a plain run deselects too."""
    source.everything(root, deselected=True)
    return {case.id: case for case in source.cases()}


class Comparisons:
    """Comparisons of benchmarks whose tests run in the same pairs of processes, one after the other.

    Args:
        source: of the benchmarks.
        layout: of the working tree.
        tests: two benchmarks for each comparison, by its name.
        plan: how to compare.
        folder: name of the sides' folders: what is compiled there is kept from pair to pair.

    Attributes:
        found: the result of each comparison, by its name.
        failed: why a comparison cannot be measured, by its name.
    """

    def __init__(
        self,
        source: Benchmarks,
        layout: Layout,
        tests: Mapping[str, tuple[Case, Case]],
        plan: Plan,
        folder: str = "compared",
    ) -> None:
        self.tests, self.plan = tests, plan
        cases = [case for pair in tests.values() for case in pair]
        source.names = list(dict.fromkeys(case.id for case in cases))  # workers collect the files of these alone
        self.place = plan.place(cases)
        sides = [
            changed(layout.side(None, f"{folder}-{name}"), name=name, memory="default", threads=threads)
            for name, threads in (("base", plan.threads_a), ("head", plan.threads_b))
        ]
        asked = 0.0 if plan.outputs == "same" else plan.tolerance
        tolerances = {
            name: max(case.tolerance for case in pair) if asked is None else asked for name, pair in tests.items()
        }
        ids = {name: (first.id, second.id) for name, (first, second) in tests.items()}
        self.pairs = UnlikePairs(sides, plan, tolerances, layout.folder, ids)
        machine = source.machine(layout.folder)
        self.found = {name: Result(*pair, measure=plan.measure, machine=machine) for name, pair in ids.items()}
        self.of_sides: dict[str, list[list[float]]] = {name: [] for name in tests}
        self.failed: dict[str, ComparisonError] = {}

    def unfinished(self, end: float) -> list[str]:
        """Return the comparisons that need another pair: too few pairs, or a wide interval and time left.

        Args:
            end: of the time, as the monotonic clock counts it.
        """
        in_time = time.monotonic() <= end
        return [
            name
            for name, result in self.found.items()
            if name not in self.failed
            and (len(result.values) < FEWEST or (in_time and result.half_width > self.plan.precision))
        ]

    def measure_each(self, log: Callable[[Sequence[str]], None]) -> None:
        """Add pairs to each comparison until its interval is narrow enough, or the time of all is up.

        One that cannot be measured is put into ``failed``, and the others go on.

        Args:
            log: is called with the names of the comparisons after each pair.

        Raises:
            GateError: a process fails outside of the comparisons.
        """
        end = time.monotonic() + 60 * self.plan.minutes * len(self.tests)
        while names := self.unfinished(end):
            try:
                self.measure_pair(names)
            except ComparisonError as error:
                self.failed[error.name] = error
            else:
                log(names)

    def measure_all(self, log: Callable[[], None]) -> None:
        """Add pairs of all comparisons alike, until the intervals of all are narrow enough, or the time is up.

        Args:
            log: is called after each pair.

        Raises:
            GateError: a benchmark cannot run, outputs differ, or a figure is missing.
        """
        end = time.monotonic() + 60 * self.plan.minutes
        while self.unfinished(end):
            self.measure_pair(list(self.tests))
            log()

    def measure_pair(self, names: Sequence[str]) -> None:
        """Measure a pair and add it to the results of some comparisons.

        Raises:
            ComparisonError: one of them cannot be measured.
            GateError: a process fails outside of the comparisons.
        """
        if self.plan.measure == "peak_rss" and not self.pairs.info:
            self.blocks(names)  # does not count: it fills compilers' caches and writes outputs, which takes memory
        for name, blocks in self.blocks(names).items():
            try:
                self.add(name, blocks)
            except GateError as error:
                raise ComparisonError(name, str(error)) from error

    def blocks(self, names: Sequence[str]) -> dict[str, list[Block]]:
        """Return the blocks of a pair of some comparisons."""
        records = {name: Record() for name in names}
        try:
            measured = self.pairs.measure_pair(records, names, self.place, thorough=True)
        except CaseError as error:
            raise ComparisonError(error.name, str(error)) from error
        except PairError as error:
            raise GateError(str(error)) from error
        for name in names:
            if name not in measured:
                raise ComparisonError(name, records[name].words)
        return measured

    def add(self, name: str, blocks: Sequence[Block]) -> None:
        """Add what a pair says to the result of a comparison.

        Args:
            name: of the comparison.
            blocks: of the pair.
        """
        result = self.found[name]
        items = items_of(self.pairs.info[name], self.tests[name], result) if self.plan.items else (1.0, 1.0)
        sides = [side / count for side, count in zip(self.sides_of(name, blocks), items, strict=True)]
        if self.plan.measure == "difference":
            result.values.append(median(a / items[0] - b / items[1] for a, b in blocks))
        elif self.plan.measure == "seconds":
            result.values.append(math.exp(-log_ratio(blocks)) * items[1] / items[0])
        else:
            result.values.append(sides[0] / sides[1])
        self.of_sides[name].append(sides)
        result.sides = [median(side) for side in zip(*self.of_sides[name], strict=True)]

    def sides_of(self, name: str, blocks: Sequence[Block]) -> list[float]:
        """Return what a pair says of both sides, per call.

        Args:
            name: of the comparison.
            blocks: of the pair.

        Raises:
            GateError: a figure is missing, or of no ratio.
        """
        measure, tests = self.plan.measure, self.tests[name]
        if measure in TIMED or measure in MEMORY:
            found = [spread(side) if measure == "spread" else median(side) for side in zip(*blocks, strict=True)]
        else:
            figures = [reply.get("figures", {}) for reply in self.pairs.closed[name]]
            for case, numbers in zip(tests, figures, strict=True):
                if measure not in numbers:
                    known = ", ".join([*TIMED, *MEMORY, *numbers])
                    raise GateError(f"--measure: {case.id} has no figure {measure!r}; choose from {known}")
            found = [float(numbers[measure]) for numbers in figures]
        for case, number in zip(tests, found, strict=True):
            if not 0 < number < math.inf:
                raise GateError(f"--measure: {measure} of {case.id} is {number:g}, which has no ratio")
        return found


def spread(seconds: Sequence[float]) -> float:
    """Return the interquartile range over the median."""
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return (high - low) / middle


def compare(source: Benchmarks, root: Path, first: str, second: str, plan: Plan, log: Callable[[str], None]) -> Result:
    """Measure how two benchmarks compare.

    Args:
        source: of the benchmarks.
        root: of the repository.
        first: id or pattern of a benchmark.
        second: id or pattern of the other.
        plan: how to compare.
        log: prints a line.

    Raises:
        GateError: a benchmark is unknown, cannot run, or returns other outputs than the other one.
    """
    cases = listed(source, root)
    tests = cases[named(first, cases, "A")], cases[named(second, cases, "B")]
    with laid_out(source, root) as layout:
        comparisons = Comparisons(source, layout, {"it": tests}, plan)
        found = comparisons.found["it"]
        comparisons.measure_all(lambda: log(f"compare: pair {len(found.values)}: {found.values[-1]:.4g}"))
    return found


@dataclass
class Ranking:
    """The order of several benchmarks by time, with ties.

    Attributes:
        baseline: id of the benchmark that the others are compared with.
        speedups: of each benchmark over the baseline, one for each pair, by its id.
        per: what the times are of: ``call``, or the unit of an item.
        machine: that it was measured on.
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
        """Return the best and the worst rank that each benchmark may have, fastest first."""
        names = sorted(self.speedups, key=lambda name: -median(self.speedups[name]))
        return {
            name: (
                1 + sum(self.faster(other, name) for other in names),
                len(names) - sum(self.faster(name, other) for other in names),
            )
            for name in names
        }

    def __str__(self) -> str:
        """A line for each benchmark: rank, speedup over the baseline with its interval, and id."""
        lines = []
        for name, (best, worst) in self.ranks().items():
            low, high = interval(self.speedups[name])
            speedup = f"{median(self.speedups[name]):.3g}x [{low:.3g}, {high:.3g}]"
            lines.append(f"{best if best == worst else f'{best}-{worst}':>5}  {speedup:<24}  {name}")
        count = len(self.speedups[self.baseline])
        return "\n".join([*lines, f"Speedup per {self.per} over {self.baseline}, {count} pairs; 2-3 is a tie."])

    def to_json(self) -> str:
        """Return all figures as JSON."""
        return json.dumps({**asdict(self), "ranks": self.ranks()}, indent=2) + "\n"


def rank(source: Benchmarks, root: Path, patterns: Sequence[str], plan: Plan, log: Callable[[str], None]) -> Ranking:
    """Measure the order of benchmarks.

    Args:
        source: of the benchmarks.
        root: of the repository.
        patterns: of ids.
        plan: how to compare.
        log: prints a line.

    Raises:
        GateError: the patterns fit fewer than two benchmarks; a benchmark cannot run, or outputs differ.
    """
    cases = listed(source, root)
    chosen = [case for name, case in cases.items() if any(matches(name, pattern) for pattern in patterns)]
    if len(chosen) < 2:
        fits = f"only {chosen[0].id}" if chosen else f"none of {len(cases)} benchmarks"
        raise GateError(f"{' '.join(patterns)} fits {fits}; give a pattern that fits two or more")
    baseline, *others = chosen
    with laid_out(source, root) as layout:
        comparisons = Comparisons(source, layout, {case.id: (baseline, case) for case in others}, plan)
        first = comparisons.found[others[0].id]
        comparisons.measure_all(lambda: log(f"rank: pair {len(first.values)} of {len(chosen)} benchmarks"))
    speedups = {name: result.values for name, result in comparisons.found.items()}
    speedups = {baseline.id: [1.0] * len(first.values)} | speedups
    return Ranking(baseline.id, speedups, first.per, first.machine)


def items_of(info: Sequence[Mapping[str, Any]], pair: Sequence[Case], found: Result) -> tuple[float, float]:
    """Return how many items a call of each of two benchmarks handles.

    Args:
        info: ``benchmark.extra_info`` of both benchmarks.
        pair: the two benchmarks.
        found: gets the name of an item.

    Raises:
        GateError: a benchmark does not count items, or the two count different things.
    """
    for case, told in zip(pair, info, strict=True):
        if not isinstance(told.get("items"), int | float) or not told["items"] > 0:
            raise GateError(f"--items: {case.id} sets no number benchmark.extra_info['items']; compare calls instead")
    units = [str(told.get("unit", "items")) for told in info]
    if units[0] != units[1]:
        raise GateError(f"--items: {pair[0].id} counts {units[0]}, and {pair[1].id} {units[1]}; compare calls instead")
    found.per = f"item ({units[0]})"
    return float(info[0]["items"]), float(info[1]["items"])
