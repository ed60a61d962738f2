"""Compare two benchmarks of the working tree: how many times as fast the second is, with a 95 % interval.

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
from .layout import laid_out
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
    tests = named(first, cases, "A"), named(second, cases, "B")
    pair = [cases[test] for test in tests]
    place = cores(any(case.all_cores for case in pair))
    with laid_out(source, root) as layout:
        sides = [changed(layout.side(None, name), memory="default") for name in ("base", "head")]
        return measured(source, sides, pair, place, layout.folder, plan, log)


def measured(
    source: Source,
    sides: Sequence[Side],
    pair: Sequence[Case],
    place: Cores,
    folder: Path,
    plan: Plan,
    log: Callable[[str], None],
) -> Ratio:
    """Measure pairs until they are enough.

    Args:
        source: of the benchmarks.
        sides: on which the two benchmarks run.
        pair: the two benchmarks.
        place: the cores that workers run on.
        folder: where outputs are put.
        plan: how to compare.
        log: prints a line.

    Raises:
        GateError: a benchmark cannot run, or the outputs differ.
    """
    first, second = (case.id for case in pair)
    tolerance = 0.0 if plan.outputs == "same" else max(case.tolerance for case in pair)
    pairs = UnlikePairs(sides, plan, {"it": tolerance}, folder, {"it": (first, second)}, plan.outputs)
    found = Ratio(first, second, machine=source.machine(folder))
    seconds: list[tuple[float, float]] = []
    end = time.monotonic() + 60 * plan.minutes
    while True:
        try:
            blocks = pairs.measure_pair({"it": Record()}, ["it"], place, thorough=True)["it"]
        except CaseError as error:
            raise GateError(str(error)) from error
        except PairError as error:
            raise GateError(str(error)) from error
        scale = per_item(pairs.info["it"], pair, found) if plan.items else 1.0
        found.speedups.append(math.exp(-log_ratio(blocks)) * scale)
        seconds.append((median(a for a, _ in blocks) / 2, median(b for _, b in blocks) / 2))
        found.seconds = [median(side) for side in zip(*seconds, strict=True)]
        log(f"compare: pair {len(found.speedups)}: {found.speedups[-1]:.4g}x")
        if len(found.speedups) >= FEWEST and (found.half_width <= plan.precision or time.monotonic() > end):
            return found


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
