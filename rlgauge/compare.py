"""Compare benchmarks of the working tree: how many times as fast one is as another, and the order of several.

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
from statistics import median
from typing import Any

from . import interleaved
from .allowed import matches
from .layout import Layout, laid_out
from .pairs import NONE, CaseError, Cores, PairError, Pairs, SamplePlan, answered, blamed, cores
from .rule import GateError, Record
from .source import Case, Source
from .statistics import Block, interval, log_ratio
from .workers import Side, Worker

FEWEST = 6  # pairs whose median has a 95 % interval
OUTPUTS = ("close", "same", "ignore")


@dataclass(frozen=True)
class Plan:
    """How to compare.

    Attributes:
        precision: half width of the interval at which measuring ends, as a part of the ratio.
        minutes: after which no pair is begun; at least six pairs are measured.
        outputs: whether outputs must be ``close``, the ``same``, or are to be ``ignore``d.
        items: compare the time per item, as ``benchmark.extra_info["items"]`` counts them, in place of a call.
        blocks: of each pair.
        seed: of the order of sides.
        limit: seconds that a worker may take for one request.
    """

    precision: float = 0.03
    minutes: float = 5.0
    outputs: str = "close"
    items: bool = False
    blocks: int = 8
    seed: int = 0
    limit: float = 300.0


@dataclass
class Ratio:
    """How many times as fast the second benchmark is.

    Attributes:
        first: id of a benchmark.
        second: id of the other.
        per: what the times are of: ``call``, or the unit of an item.
        speedups: seconds of the first over seconds of the second, one for each pair.
        seconds: of one call of each benchmark, the medians over the pairs.
        machine: that it was measured on.
    """

    first: str
    second: str
    per: str = "call"
    speedups: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """Median over the pairs."""
        return median(self.speedups)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the median, distribution-free."""
        return interval(self.speedups)

    @property
    def half_width(self) -> float:
        """Half of the interval, as a part of the median."""
        low, high = self.interval
        return (high - low) / (2 * self.middle)

    def __str__(self) -> str:
        """The result in a line."""
        low, high = self.interval
        figures = f"{self.middle:.3g}x [{low:.3g}, {high:.3g}], {len(self.speedups)} pairs"
        if low <= 1 <= high:
            return f"no significant difference: {figures}"
        return f"{self.second} is {figures}, as fast per {self.per} as {self.first}"

    def to_json(self) -> str:
        """Return all figures as JSON."""
        low, high = self.interval
        return json.dumps({**asdict(self), "speedup": self.middle, "low": low, "high": high}, indent=2) + "\n"


class UnlikePairs(Pairs):
    """Pairs whose sides run different tests, each with as many calls as it needs.

    Args:
        sides: on which the tests run.
        plan: how to compare.
        tolerances: of outputs, by comparison.
        folder: where outputs are put.
        tests: ids of the tests of a comparison, by its name.
        outputs: see :class:`Plan`.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        plan: Plan,
        tolerances: dict[str, float],
        folder: Path,
        tests: Mapping[str, tuple[str, str]],
        outputs: str,
    ) -> None:
        super().__init__(sides, plan.blocks, plan.limit, tolerances, folder, random.Random(plan.seed), together=False)
        self.tests, self.outputs = tests, outputs
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
            if why := reply.get("failed") or reply.get("skipped"):
                raise CaseError(name, f"{test}: {why}")
        if wanted and not self.same(name, *files):
            raise CaseError(name, "the outputs differ; if they should, add --outputs ignore")
        self.info[name] = [reply.get("info", {}) for reply in replies]
        return True

    def plan_of(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the plan of the side that gets fewer blocks; each side keeps one of its own from the first pair."""
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
        """Return seconds per call of both sides, in the order A B B A or B A A B."""

        def sample(side: int, warm: bool) -> float:
            own = self.both[name][side]
            asked = {"calls": own.calls, "samples": own.samples, "warm": own.warm and warm}
            workers[side].ask("sample", identity=self.tests[name][side], **asked)
            return float(answered(workers[side], name)["seconds"]) / (own.calls * own.samples)

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
    hint = f"; did you mean {' or '.join(near)}?" if near else f" of {len(names)}; pytest --collect-only lists them"
    raise GateError(f"{what}: {text!r} fits no benchmark{hint}")


class Comparisons:
    """Comparisons of benchmarks whose tests run in the same pairs of processes, one after the other.

    Args:
        source: of the benchmarks.
        layout: of the working tree.
        tests: two benchmarks for each comparison, by its name.
        plan: how to compare.

    Attributes:
        found: the ratio of each comparison, by its name.
    """

    def __init__(self, source: Source, layout: Layout, tests: Mapping[str, tuple[Case, Case]], plan: Plan) -> None:
        self.tests, self.plan = tests, plan
        self.place = cores(any(case.all_cores for pair in tests.values() for case in pair))
        sides = [changed(layout.side(None, name), memory="default") for name in ("base", "head")]
        tolerances = {
            name: 0.0 if plan.outputs == "same" else max(case.tolerance for case in pair)
            for name, pair in tests.items()
        }
        ids = {name: (first.id, second.id) for name, (first, second) in tests.items()}
        self.pairs = UnlikePairs(sides, plan, tolerances, layout.folder, ids, plan.outputs)
        machine = source.machine(layout.folder)
        self.found = {name: Ratio(first, second, machine=machine) for name, (first, second) in ids.items()}
        self.seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in tests}
        self.end = time.monotonic() + 60 * plan.minutes

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.end

    def measure(self) -> None:
        """Add a pair of every comparison.

        Raises:
            GateError: a benchmark cannot run, or outputs differ.
        """
        records = {name: Record() for name in self.tests}
        try:
            measured = self.pairs.measure_pair(records, list(self.tests), self.place, thorough=True)
        except (CaseError, PairError) as error:
            raise GateError(str(error)) from error
        for name, ratio in self.found.items():
            if name not in measured:
                raise GateError(records[name].words)
            blocks = measured[name]
            scale = per_item(self.pairs.info[name], self.tests[name], ratio) if self.plan.items else 1.0
            ratio.speedups.append(math.exp(-log_ratio(blocks)) * scale)
            self.seconds[name].append((median(a for a, _ in blocks) / 2, median(b for _, b in blocks) / 2))
            ratio.seconds = [median(side) for side in zip(*self.seconds[name], strict=True)]


def compare(source: Source, root: Path, first: str, second: str, plan: Plan, log: Callable[[str], None]) -> Ratio:
    """Measure how many times as fast the second of two benchmarks is.

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
    source.everything(root)
    cases = {case.id: case for case in source.cases()}
    tests = cases[named(first, cases, "A")], cases[named(second, cases, "B")]
    with laid_out(source, root) as layout:
        comparisons = Comparisons(source, layout, {"it": tests}, plan)
        found = comparisons.found["it"]
        while len(found.speedups) < FEWEST or not (found.half_width <= plan.precision or comparisons.over):
            comparisons.measure()
            log(f"compare: pair {len(found.speedups)}: {found.speedups[-1]:.4g}x")
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


def rank(source: Source, root: Path, patterns: Sequence[str], plan: Plan, log: Callable[[str], None]) -> Ranking:
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
    source.everything(root)
    cases = {case.id: case for case in source.cases()}
    chosen = [case for name, case in cases.items() if any(matches(name, pattern) for pattern in patterns)]
    if len(chosen) < 2:
        fits = f"only {chosen[0].id}" if chosen else f"none of {len(cases)} benchmarks"
        raise GateError(f"{' '.join(patterns)} fits {fits}; give a pattern that fits two or more")
    baseline, *others = chosen
    with laid_out(source, root) as layout:
        comparisons = Comparisons(source, layout, {case.id: (baseline, case) for case in others}, plan)
        found = comparisons.found
        while (pairs := len(found[others[0].id].speedups)) < FEWEST or not (
            comparisons.over or max(ratio.half_width for ratio in found.values()) <= plan.precision
        ):
            comparisons.measure()
            log(f"rank: pair {pairs + 1} of {len(chosen)} benchmarks")
    first = found[others[0].id]
    speedups = {baseline.id: [1.0] * len(first.speedups)} | {name: ratio.speedups for name, ratio in found.items()}
    return Ranking(baseline.id, speedups, first.per, first.machine)


def per_item(info: Sequence[Mapping[str, Any]], pair: Sequence[Case], found: Ratio) -> float:
    """Return by what a ratio of calls is multiplied to be one of items.

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
    return float(info[1]["items"]) / float(info[0]["items"])
