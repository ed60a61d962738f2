"""A plain run: all benchmarks are prepared, then timed in passes, each of which takes a sample of every one.

So a burst from outside hits few samples of each, and none is decided by one bad minute. Each backend has a process of
its own, as in its users' programs, and another one for what starts threads: only one works at any moment. What was
disturbed is taken again.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from rl_impls.backends import get
from rlgauge.progress import Progress
from rlgauge.workers import PYTHON, Side, Worker, WorkerError

from .gate.starts import COMPILERS, WORKER
from .suite.case import Variant
from .suite.prepared import LEAST
from .timed import Timed

ROOT = Path(__file__).parents[1]
AGAIN = 3  # further passes, at most, of what was disturbed
RECENT = 0.3  # seconds of samples over which it is counted what others took
SHORT = 0.8 * LEAST  # seconds of a sample that is too short: its calls were measured in a loud moment
LIMIT = 300.0  # seconds for one request to a worker, which may be to compile
HEAVY = 8  # benchmarks that take as long to prepare as one that starts processes
FREE = 0.2  # part of the memory to be left free: what does not fit comes when the rest is done


class Bench(AbstractContextManager["Bench"]):
    """The process in which the benchmarks of one backend are prepared and timed.

    One that ends the process fails, alone: it is replaced, and the others are prepared again when they are visited.

    Args:
        threads: of the process.
        seed: of all inputs.
        dose: part of its own time by which each sample is slowed.
    """

    def __init__(self, threads: int, seed: int, dose: float) -> None:
        self.threads, self.seed, self.dose = threads, seed, dose
        self.start()

    def start(self) -> None:
        """Start a process."""
        side = Side("head", ROOT, PYTHON, WORKER, COMPILERS)
        self.worker = Worker(side, sorted(os.sched_getaffinity(0))[: self.threads], self.threads, LIMIT)
        self.prepared: set[str] = set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self.worker.__exit__(kind, error, trace)

    def ask(self, timed: Timed, do: str, **arguments: Any) -> dict[str, Any]:
        """Return what the process answers; where it fails, its words are the benchmark's failure.

        Args:
            timed: what is known of the benchmark; changed in place.
            do: name of the request, see :class:`.gate.worker.Requests`.
            arguments: of the request, by name.
        """
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

    def prepare(self, timed: Timed, beside: bool = False) -> None:
        """Build a benchmark, unless it is there, and measure its calls; others may do so ``beside`` this one.

        Args:
            timed: what is known of the benchmark; changed in place.
            beside: whether others prepare meanwhile.
        """
        if timed.variant.id in self.prepared or timed.failure:
            return
        said = self.ask(timed, "prepare", seed=self.seed, counted=True, beside=beside)
        timed.counters = said.get("counters", {})
        timed.first_answer = timed.first_answer or said.get("first_answer")
        if not timed.calls and not timed.failure:
            timed.calls = self.ask(timed, "calls", beside=beside).get("calls", 0)
        self.prepared.add(timed.variant.id)

    def visit(self, timed: Timed, number: int) -> None:
        """Take a sample of a benchmark for a pass; where it is too short, double its calls.

        Args:
            timed: what is known of the benchmark; changed in place.
            number: of the pass.
        """
        self.prepare(timed)
        most = timed.variant.case.most_calls or sys.maxsize
        while not timed.failure:
            said = self.ask(timed, "visit", calls=timed.calls, dose=self.dose)
            if timed.failure:
                break
            timed.samples[number], timed.said = said.pop("sample"), said
            if timed.calls >= most or timed.calls * timed.samples[number]["seconds"] >= SHORT:
                break
            timed.calls = min(2 * timed.calls, most)


class Others:
    """How much of the cores other programs took, over the last samples: the machine counts in 10 ms."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, float]] = deque()

    def note(self, timed: Timed, number: int) -> None:
        """Write it to the sample of a pass; what a benchmark's own processes take cannot be told apart.

        Args:
            timed: what is known of the benchmark; changed in place.
            number: of the pass.
        """
        sample = timed.samples[number]
        if timed.variant.case.cores == "own":
            share = 0.0
        else:
            self.recent.append((sample["calls"] * sample["seconds"], sample["busy"] - sample["cpu"]))
            while len(self.recent) > 1 and sum(seconds for seconds, _ in self.recent) - self.recent[0][0] >= RECENT:
                self.recent.popleft()
            taken, seconds = sum(other for _, other in self.recent), sum(seconds for seconds, _ in self.recent)
            share = taken / max(seconds, RECENT)
        timed.samples[number] = {**sample, "others": round(share, 3)}


class Run:
    """The benchmarks of a run.

    Args:
        variants: what is timed.
        threads: of each process.
        seed: of all inputs, and of the order of visits.
        rounds: samples of each benchmark, a pass each; of long ones half as many.
        log: prints a line.
        dose: part of its own time by which each sample is slowed, to measure who would notice.
    """

    def __init__(
        self,
        variants: Iterable[Variant],
        threads: int,
        seed: int,
        rounds: int,
        log: Callable[[str], None],
        dose: float = 0.0,
    ) -> None:
        self.timed = {variant.id: Timed(variant) for variant in variants}
        self.threads, self.seed, self.rounds, self.log, self.dose = threads, seed, rounds, log, dose
        self.rng = random.Random(seed)
        self.disturbed = self.again = self.first = 0  # samples

    def measure(self, show: Callable[[Timed], str]) -> None:
        """Time all benchmarks; ``show`` says in a line what is known of one after its first visit.

        Args:
            show: ``show(timed)`` returns a line.
        """
        left = list(self.timed.values())
        while left:
            with ExitStack() as stack:
                work: Counter[str] = Counter()  # what takes longest to prepare starts first
                for timed in left:
                    work[place(timed)] += HEAVY if timed.variant.case.cores == "own" else 1
                names = [name for name, _ in work.most_common()]
                benches = {name: stack.enter_context(Bench(self.threads, self.seed, self.dose)) for name in names}
                ready = self.prepare(benches, left)
                if able := [timed for timed in ready if not timed.failure]:
                    self.take(benches, able, show)
            left = [timed for timed in left if timed not in ready]

    def prepare(self, benches: Mapping[str, Bench], left: Sequence[Timed]) -> list[Timed]:
        """Prepare as many benchmarks as there is memory for, a backend on each core; return them.

        Those that torch.compile compiles come first, alone: their threads are compiled in, and wait by spinning.

        Args:
            benches: processes by their names.
            left: benchmarks that are still to be timed.
        """
        full = threading.Event()
        compiled = {place(timed) for timed in left if get(timed.variant.backend).lowering == "compile"}

        def build(name: str) -> list[Timed]:
            done: list[Timed] = []
            for timed in left:
                if place(timed) == name and not (full.is_set() and done):
                    benches[name].prepare(timed, beside=name not in compiled)
                    done.append(timed)
                    progress.step()
                    if free_memory() < FREE:
                        full.set()
            return done

        with Progress(len(left), "prepared", log=self.log) as progress, ThreadPoolExecutor(self.threads) as pool:
            try:
                alone = [timed for name in benches if name in compiled for timed in build(name)]
                others = pool.map(build, [name for name in benches if name not in compiled])
                return [*alone, *chain.from_iterable(others)]
            except BaseException as error:  # or the threads would go on to the end
                full.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for bench in benches.values():
                    bench.__exit__(type(error), error, None)
                raise

    def take(self, benches: Mapping[str, Bench], ready: Sequence[Timed], show: Callable[[Timed], str]) -> None:
        """Time the benchmarks in passes, the long ones in every other; then those again that were disturbed.

        Args:
            benches: processes by their names.
            ready: benchmarks that are prepared.
            show: ``show(timed)`` returns a line.
        """
        others = Others()

        def due(turn: int, chosen: Iterable[Timed]) -> list[Timed]:
            return [timed for timed in chosen if not timed.failure and (turn % 2 == 0 or not timed.long())]

        def visit(number: int, chosen: Iterable[Timed]) -> Iterator[Timed]:
            for timed in self.shuffled(chosen):
                benches[place(timed)].visit(timed, number)
                if not timed.failure:
                    others.note(timed, number)
                yield timed

        with Progress(self.rounds * len(ready), "samples", log=self.log) as progress:
            for number in range(self.rounds):
                chosen = due(number, ready)
                progress.skip(len(ready) - len(chosen))
                for timed in visit(number, chosen):
                    progress.step(show(timed) if timed.samples and number == 0 else "")
        self.first += sum(len(timed.samples) for timed in ready)
        self.disturbed += sum(len(timed.samples) - len(timed.clean()) for timed in ready)
        for turn in range(AGAIN):
            again = [timed for group in groups(ready) if self.wanting(group) for timed in due(turn, group)]
            if not again:
                break
            self.again += len(again)
            with Progress(len(again), "samples again, as some were disturbed", log=self.log) as progress:
                for _ in visit(self.rounds + turn, again):
                    progress.step()

    def wanting(self, group: Iterable[Timed]) -> bool:
        """Return whether one of those that are compared has too few undisturbed samples.

        Args:
            group: benchmarks that are compared with each other.
        """
        timed = [one for one in group if one.samples and not one.failure]
        return any(one.wanting(-(-self.rounds // 2) if one.long() else self.rounds) for one in timed)

    def shuffled(self, chosen: Iterable[Timed]) -> list[Timed]:
        """Return benchmarks in a drawn order in which those that are compared with each other stay together.

        Args:
            chosen: benchmarks.
        """
        found = groups(chosen)
        return [timed for group in self.rng.sample(found, len(found)) for timed in self.rng.sample(group, len(group))]

    def loudness(self) -> dict[str, Any]:
        """Return how much other programs disturbed the run.

        ``pace`` is the speed of the cores in the median sample, as a part of their fastest in this run. Below about
        0.9, something outside this machine, such as another virtual machine, used the same cores.
        """
        timed = [one for one in self.timed.values() if one.samples]
        left = sum(one.disturbed() > 0 for one in timed)
        share = self.disturbed / self.first if self.first else 0.0
        paces = [sample["pace"] for one in timed for sample in one.samples.values()]
        pace = min(paces) / median(paces) if paces else 1.0
        text = (
            f"Other programs disturbed {100 * share:.1f} % of {self.first} samples. {self.again} samples were taken "
            f"again, and {left} of {len(timed)} benchmarks stayed disturbed. In the median sample the cores ran at "
            f"{100 * pace:.0f} % of their fastest speed in this run."
        )
        return {"share": share, "retaken": self.again, "left": left, "pace": pace, "text": text}


def groups(chosen: Iterable[Timed]) -> list[list[Timed]]:
    """Return benchmarks with those that they are compared with: forms and backends of an op with the same axes.

    Args:
        chosen: benchmarks.
    """
    found: dict[tuple[Any, ...], list[Timed]] = {}
    for timed in chosen:
        found.setdefault((timed.variant.case.name, *timed.variant.axes.items()), []).append(timed)
    return list(found.values())


def place(timed: Timed) -> str:
    """Return the name of the process that a benchmark is timed in.

    Once a second thread has called torch, OpenMP's idle threads sleep instead of waiting: a process that had run a loop
    with a thread took four times as long for an update, and nine times for a small forward pass.

    Args:
        timed: the benchmark.
    """
    return f"{timed.variant.backend}{' with threads' * (timed.variant.case.cores == 'own')}"


def free_memory() -> float:
    """Return the part of the machine's memory that is free; 1.0 where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1.0
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return sizes["MemAvailable"] / sizes["MemTotal"]
