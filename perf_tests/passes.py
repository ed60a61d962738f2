"""A plain run: all benchmarks are prepared, then timed in passes, each of which visits every one for a few samples.

So a burst from outside hits few samples of each, and none is decided by one bad minute. Each backend has a process of
its own, as in its users' programs, and another one for what starts threads: only one works at any moment. What was
disturbed is taken again.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from types import TracebackType
from typing import Any

from .gate.workers import Side, Worker, WorkerError
from .progress import Progress
from .report.order import SCATTER
from .suite import process
from .suite.case import LEAST, Variant

ROOT = Path(__file__).parents[1]
PASSES, AGAIN = 5, 2  # visits of each benchmark, and at most so many more of what was disturbed
CLEAN = 0.6  # part of the samples asked for that are to be undisturbed, or the benchmark is visited again
WAITED = 0.02  # part of its time that a sample may wait for a core, or have it stolen, and is undisturbed
OTHERS, RECENT = 0.15, 0.5  # part of a core that others may take, over the last half second of samples
LIMIT = 300.0  # seconds for one request to a worker, which may be to compile
FREE = 0.2  # part of the memory to be left free: what does not fit comes when the rest is done

Sample = Mapping[str, Any]


@dataclass
class Timed:
    """What is known of one benchmark.

    Attributes:
        calls: in a sample.
        visits: the samples of each visit, see :meth:`.gate.timing.Timing.visit`.
        said: what else the last visit returned: ``stats`` and ``phases``.
        counters: exact counts of a call.
        failure: why it could not be prepared or timed; empty where it could.
    """

    variant: Variant
    calls: int = 0
    visits: list[list[Sample]] = field(default_factory=list)
    said: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    failure: Mapping[str, Any] = field(default_factory=dict)

    def part(self, sample: Sample, name: str) -> float:
        """Return the part of a sample's time that a reading of it is."""
        return float(sample[name] / (self.calls * sample["seconds"]))

    def clean(self) -> list[list[Sample]]:
        """Return the undisturbed samples of each visit that has any."""
        return [visit for visit in self.undisturbed() if visit]

    def undisturbed(self) -> list[list[Sample]]:
        """Return the undisturbed samples of each visit.

        Others took little of the cores then, nothing was stolen, and it waited hardly more than is usual for this
        benchmark: some wait for their own threads.
        """
        usual = median([self.part(sample, "waited") for visit in self.visits for sample in visit] or [0.0])
        return [
            [
                sample
                for sample in visit
                if sample["others"] <= OTHERS
                and self.part(sample, "stolen") <= WAITED
                and self.part(sample, "waited") <= WAITED + 2 * usual
            ]
            for visit in self.visits
        ]

    def counted(self) -> list[list[Sample]]:
        """Return the samples that count, by visit: the undisturbed ones, or all where too few visits have any."""
        clean = self.clean()
        return clean if 2 * len(clean) >= len(self.visits) else self.visits

    def dirty(self) -> int:
        """Return how many samples were disturbed."""
        return sum(map(len, self.visits)) - sum(map(len, self.clean()))

    def wanting(self, passes: int) -> bool:
        """Tell whether too few samples are undisturbed, of those that so many visits take."""
        return sum(map(len, self.clean())) < CLEAN * passes * max(map(len, self.visits))

    def short(self) -> bool:
        """Tell whether its samples are too short: when its calls were measured, something slowed them."""
        seconds = median(sample["seconds"] for sample in self.visits[-1])
        return self.calls != self.variant.case.most_calls and self.calls * seconds < 0.8 * LEAST

    def figures(self) -> dict[str, Any]:
        """Return the time of a call and how sure it is, of the samples that count.

        ``low`` and ``high`` bound the medians of the visits, and what another process of the same code would measure;
        ``passes`` are the medians of the first visits, a pass each, None where all of one is disturbed.
        """
        counted, clean = self.counted(), self.clean()
        seconds = [sample["seconds"] for visit in counted for sample in visit]
        medians = [median(sample["seconds"] for sample in visit) for visit in counted]
        first, middle, third = quantiles(seconds, method="inclusive") if len(seconds) > 1 else seconds * 3
        return {
            "calls": self.calls,
            "seconds_per_call": middle,
            "low": min(medians) * (1 - SCATTER),
            "high": max(medians) * (1 + SCATTER),
            "spread": (third - first) / middle,
            "passes": [median(s["seconds"] for s in v) if v else None for v in self.undisturbed()[:PASSES]],
            "samples": len(seconds),
            "disturbed": 1 - sum(map(len, clean)) / len(seconds) if counted is self.visits else 0.0,
        }


class Bench(AbstractContextManager["Bench"]):
    """The process in which the benchmarks of one backend are prepared and timed.

    One that ends the process fails, alone: it is replaced, and the others are prepared again when they are visited.
    """

    def __init__(self, threads: int, seed: int, dose: float) -> None:
        self.threads, self.seed, self.dose = threads, seed, dose
        self.start()

    def start(self) -> None:
        """Start a process."""
        side = Side("head", ROOT, Path(sys.executable), process.CACHE)
        self.worker = Worker(side, sorted(os.sched_getaffinity(0))[: self.threads], self.threads, LIMIT)
        self.prepared: set[str] = set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self.worker.__exit__(kind, error, trace)

    def ask(self, timed: Timed, do: str, **arguments: Any) -> dict[str, Any]:
        """Return what the process answers; where it fails, its words are the benchmark's failure."""
        try:
            self.worker.ask(do, identity=timed.variant.id, **arguments)
            reply = self.worker.reply()
        except WorkerError as error:
            self.worker.__exit__(type(error), error, None)
            self.start()
            reply = {"failed": str(error)}
        if "failed" in reply:
            timed.failure = reply
        return reply

    def prepare(self, timed: Timed) -> None:
        """Build a benchmark, unless it is there."""
        if timed.variant.id in self.prepared or timed.failure:
            return
        reply = self.ask(timed, "prepare", seed=self.seed, counted=True)
        timed.counters = reply.get("counters", {})
        self.prepared.add(timed.variant.id)

    def visit(self, timed: Timed, samples: int) -> None:
        """Take samples of a benchmark; at the first visit, measure how many calls make one."""
        self.prepare(timed)
        self.take(timed, samples)
        if len(timed.visits) == 1 and timed.short():
            timed.calls, timed.visits = 0, []
            self.take(timed, samples)

    def take(self, timed: Timed, samples: int) -> None:
        """Take samples of a benchmark that is prepared."""
        if not timed.calls and not timed.failure:
            timed.calls = self.ask(timed, "calls").get("calls", 0)
        if not timed.failure:
            said = self.ask(timed, "visit", samples=samples, calls=timed.calls, dose=self.dose)
            if not timed.failure:
                timed.visits.append(said.pop("samples"))
                timed.said = said


class Others:
    """How much of the cores other programs took, over the last half second of samples: the machine counts in 10 ms."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, float]] = deque()

    def note(self, timed: Timed) -> None:
        """Write it to the samples of the last visit; what a benchmark's own processes take cannot be told apart."""
        if timed.variant.case.multicore:
            share = 0.0
        else:
            for sample in timed.visits[-1]:
                self.recent.append((timed.calls * sample["seconds"], sample["busy"] - sample["cpu"]))
            while len(self.recent) > 1 and sum(seconds for seconds, _ in self.recent) - self.recent[0][0] >= RECENT:
                self.recent.popleft()
            taken, seconds = sum(other for _, other in self.recent), sum(seconds for seconds, _ in self.recent)
            share = taken / max(seconds, RECENT)
        timed.visits[-1] = [{**sample, "others": round(share, 3)} for sample in timed.visits[-1]]


class Run:
    """The benchmarks of a run.

    Args:
        variants: what is timed.
        threads: of each process.
        seed: of all inputs, and of the order of visits.
        rounds: samples of each benchmark.
        tell: prints a line.
        dose: part of its own time by which each sample is slowed, to measure who would notice.
    """

    def __init__(
        self,
        variants: Iterable[Variant],
        threads: int,
        seed: int,
        rounds: int,
        tell: Callable[[str], None],
        dose: float = 0.0,
    ) -> None:
        self.timed = {variant.id: Timed(variant) for variant in variants}
        self.threads, self.seed, self.rounds, self.tell, self.dose = threads, seed, rounds, tell, dose
        self.chance = random.Random(seed)
        self.disturbed = self.again = self.first = 0

    def measure(self, show: Callable[[Timed], str]) -> None:
        """Time all benchmarks; ``show`` says in a line what is known of one after its first visit."""
        left = list(self.timed.values())
        while left:
            with ExitStack() as stack:
                needed = Counter(place(timed) for timed in left).most_common()
                benches = {name: stack.enter_context(Bench(self.threads, self.seed, self.dose)) for name, _ in needed}
                ready = self.prepare(benches, left)
                if able := [timed for timed in ready if not timed.failure]:
                    self.take(benches, able, show)
            left = [timed for timed in left if timed not in ready]

    def prepare(self, benches: Mapping[str, Bench], left: Sequence[Timed]) -> list[Timed]:
        """Prepare as many benchmarks as there is memory for, a backend on each core; return them."""
        full = threading.Event()

        def build(name: str) -> list[Timed]:
            done: list[Timed] = []
            for timed in left:
                if place(timed) == name and not (full.is_set() and done):
                    benches[name].prepare(timed)
                    done.append(timed)
                    progress.step()
                    if free_memory() < FREE:
                        full.set()
            return done

        with Progress(len(left), "prepared", tell=self.tell) as progress, ThreadPoolExecutor(self.threads) as pool:
            try:
                return list(itertools.chain.from_iterable(pool.map(build, benches)))
            except BaseException as error:  # or the threads would go on to the end
                full.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for bench in benches.values():
                    bench.__exit__(type(error), error, None)
                raise

    def take(self, benches: Mapping[str, Bench], ready: Sequence[Timed], show: Callable[[Timed], str]) -> None:
        """Visit the benchmarks in passes, then once more those that were disturbed, while that helps."""
        samples = -(-self.rounds // PASSES)
        passes = -(-self.rounds // samples)

        others = Others()

        def visit(chosen: Iterable[Timed]) -> Iterator[Timed]:
            for timed in self.shuffled(chosen):
                if not timed.failure:
                    benches[place(timed)].visit(timed, samples)
                    if not timed.failure:
                        others.note(timed)
                    yield timed

        with Progress(passes * len(ready), "visits", tell=self.tell) as progress:
            for timed in visit(ready):
                progress.step(show(timed) if timed.visits else "")
            for _ in range(1, passes):
                for _ in visit(ready):
                    progress.step()
        self.first += sum(len(visit) for timed in ready for visit in timed.visits)
        self.disturbed += sum(timed.dirty() for timed in ready)
        for _ in range(AGAIN):
            again = [timed for timed in ready if timed.visits and timed.wanting(passes)]
            if not again:
                break
            self.again += len(again) * samples
            with Progress(len(again), "visited again, as they were disturbed", tell=self.tell) as progress:
                for _ in visit(again):
                    progress.step()

    def shuffled(self, chosen: Iterable[Timed]) -> list[Timed]:
        """Return benchmarks in a drawn order in which those that are compared with each other stay together."""
        groups: dict[tuple[Any, ...], list[Timed]] = {}
        for timed in chosen:
            groups.setdefault((timed.variant.case.name, *timed.variant.axes.items()), []).append(timed)
        drawn = self.chance.sample(list(groups.values()), len(groups))
        return [timed for group in drawn for timed in self.chance.sample(group, len(group))]

    def loudness(self) -> dict[str, Any]:
        """Return how much of the run was disturbed by others: at first, and after that was taken again."""
        left = [timed.variant.id for timed in self.timed.values() if timed.visits and timed.figures()["disturbed"]]
        share = self.disturbed / self.first if self.first else 0.0
        text = (
            f"{100 * share:.1f} % of {self.first} samples disturbed by other programs, {self.again} more taken, "
            f"{len(left)} of {len(self.timed)} benchmarks stayed disturbed"
        )
        return {"share": share, "retaken": self.again, "left": len(left), "text": text}


def place(timed: Timed) -> str:
    """Return the name of the process that a benchmark is timed in.

    Once a second thread has called torch, OpenMP's idle threads sleep instead of waiting: a process that had run a loop
    with a thread took four times as long for an update, and nine times for a small forward pass.
    """
    return f"{timed.variant.backend}{' with threads' * timed.variant.case.multicore}"


def free_memory() -> float:
    """Return the part of the machine's memory that is free; 1.0 where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1.0
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return sizes["MemAvailable"] / sizes["MemTotal"]
