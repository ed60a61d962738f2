"""Pairs of fresh workers, one of each side, whose samples are interleaved; only one of them works at any moment."""

from __future__ import annotations

import hashlib
import math
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from . import interleaved, interrupts
from .answers import AnswerError, same
from .parameters import Described, differing
from .rule import Record
from .statistics import Block, error_of_median, log_ratios
from .workers import Side, Worker, WorkerError, both

NONE: Mapping[str, float] = MappingProxyType({})
LONGEST, FEWEST_BLOCKS = 6.0, 2  # seconds of a case's blocks in a pair, at most, and how many there are even so
MORE, LONGEST_MORE = 4, 0.5  # times as many blocks where they scatter, and seconds of all of them unless thorough
SURE = 0.01  # error of a pair's median below which no more blocks are made
COSTLY, LONGER = 10.0, 2  # seconds of preparing a case in every process; times as many blocks in fewer pairs
MOST_UNTIMED = 0.1  # seconds of a turn, at most, of which most is not timed
LEAST_COLD = 0.015  # seconds of a call that fills the caches again in a small part of its time


class PairError(Exception):
    """A worker did not start, or failed between the cases."""


@dataclass(frozen=True)
class SamplePlan:
    """What a side does at its turn: samples of so many calls, after one that does not count where it has to warm up.

    Attributes:
        calls: of each sample.
        samples: at each turn.
        warm: whether one more comes before, which does not count.
        most_blocks: of a pair: those of a long call are fewer.
        more_blocks: of a pair in which they scatter, at most, unless it is thorough.
    """

    calls: int
    samples: int
    warm: bool
    most_blocks: int = 1 << 30
    more_blocks: int = 1 << 30


@dataclass(frozen=True)
class Cores:
    """What a worker runs on: one core, to which all its threads are moved, or all of them.

    Attributes:
        all: numbers of the cores of this process.
        one: the core to which workers are moved; None where they have all.
    """

    all: tuple[int, ...]
    one: int | None

    @property
    def least(self) -> float:
        """Seconds of a side at its turn, at least: threads that wait for each other scatter more."""
        return 0.005 if self.one is not None else 0.04

    def plan(self, call: float, calls: int, wall: float | None = None) -> SamplePlan:
        """Return how to time a case, given the seconds of a call and the calls of its sample: the same for both sides.

        On a slow machine a sample has fewer calls, so that it takes no longer than twice the least. Where most of a
        call is not timed, as its set-up, a turn may be shorter than it should be.

        Args:
            call: seconds of a call.
            calls: of a sample that is long enough.
            wall: seconds of a call with what is not timed; those of the call unless given.
        """
        wall = max(call, wall or 0.0)
        calls = min(calls, max(1, math.floor(2 * self.least / call)))
        most = max(1, math.floor(MOST_UNTIMED / (calls * wall))) if wall > 2 * call else math.inf
        samples = int(min(most, math.ceil(self.least / (calls * call))))
        warm = self.one is None or call < LEAST_COLD
        block = 4 * wall * (samples * calls + warm)
        most = max(FEWEST_BLOCKS, math.floor(LONGEST / block))
        return SamplePlan(calls, samples, warm, most, math.floor(LONGEST_MORE / block))

    @property
    def threads(self) -> int:
        """Threads of a worker."""
        return len(self.all) if self.one is None else 1

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Move this thread to the workers' core too: a switch there takes less time than waking another, idle core."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before if self.one is None else {self.one})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def at_start(self, side: int) -> tuple[int, ...]:
        """Cores for preparing, which both sides do at once: one each where they are to be pinned.

        Args:
            side: 0 for the first worker of a pair to start, 1 for the second.
        """
        return self.all if self.one is None else (self.all[side % len(self.all)],)


def cores(all_cores: bool) -> Cores:
    """Return the cores of this process, and the last of them for cases that run on one.

    Args:
        all_cores: whether the cases run on all of them.
    """
    here = tuple(sorted(os.sched_getaffinity(0)))
    return Cores(here, None if all_cores else here[-1])


class Pairs:
    """Measures pairs of the two sides into records.

    Args:
        sides: base and head.
        blocks: blocks of each case in a pair.
        limit: seconds that a worker may take for one request.
        tolerances: largest relative difference between the answers of each case.
        folder: where answers are put.
        rng: draws the order of cases and of sides.
        known: the cases that base has by its own listing: one of these that it cannot prepare is not new.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        blocks: int,
        limit: float,
        tolerances: dict[str, float],
        folder: Path,
        rng: random.Random,
        known: Collection[str] = (),
    ) -> None:
        self.sides, self.blocks, self.limit, self.known = sides, blocks, limit, known
        self.tolerances, self.folder, self.rng = tolerances, folder, rng
        self.seen: set[str] = set()
        self.parameters: dict[str, Described] = {}  # of each test, as the first process had them
        self.differing: dict[str, str] = {}  # ids that do not mean the same in every process, and why
        self.doubted: set[str] = set()  # cases whose answers differed once: does base's differ from base's, too?
        self.plans: dict[str, SamplePlan] = {}
        self.preparing: dict[str, list[float]] = {}  # seconds in each pair
        self.closed: dict[str, list[dict[str, Any]]] = {}  # what both sides said last when a case was closed
        self.starting = 0.0  # seconds in which the last pair's processes started

    def measure(
        self, records: dict[str, Record], names: Iterable[str], place: Cores, phase: str, thorough: bool = False
    ) -> None:
        """Add a pair of every case that is still timed; one that ends a worker becomes an error, the others go on.

        Args:
            records: what is known of each case; changed in place.
            names: of the cases.
            place: the cores that workers run on.
            phase: ``screen`` or ``confirm``: where the pair is noted.
            thorough: long calls get more blocks too where they scatter, as those few do that are confirmed.
        """
        while remaining := [name for name in names if records[name].state == "timed"]:
            try:
                found = self.measure_pair(records, remaining, place, thorough)
            except CaseError as error:
                records[error.name].state, records[error.name].words = "error", str(error)
                continue
            for name, blocks in found.items():
                getattr(records[name], phase).append(blocks)
            return

    def measure_pair(
        self, records: dict[str, Record], names: Sequence[str], place: Cores, thorough: bool
    ) -> dict[str, list[Block]]:
        """Measure one pair of fresh processes.

        Args:
            records: what is known of each case; changed in place.
            names: of the cases.
            place: the cores that workers run on.
            thorough: long calls get more blocks too where they scatter.

        Raises:
            CaseError: a worker died or hung over a case.
            PairError: a worker failed, and not over a case.
        """
        found: dict[str, list[Block]] = {}
        start = time.monotonic()
        with self.workers(place) as workers:
            self.starting = time.monotonic() - start
            for group in self.drawn(names):
                found |= self.measure_group(workers, records, group, place, thorough)
        return found

    def measure_group(
        self, workers: Sequence[Worker], records: dict[str, Record], names: Sequence[str], place: Cores, thorough: bool
    ) -> dict[str, list[Block]]:
        """Return the blocks of cases that are prepared, measured and closed together.

        Args:
            workers: base's and head's.
            records: what is known of each case; changed in place.
            names: of the cases.
            place: the cores that workers run on.
            thorough: long calls get more blocks too where they scatter.

        Raises:
            CaseError: a worker died or hung over a case.
        """
        ready = [name for name in names if self.prepare(workers, name, records[name])]
        both(workers, "place", core=place.one)
        plans = {name: self.plan_of(workers, name, place) for name in ready}
        with place.shared():
            blocks = self.mixed(plans, lambda name: self.block(workers, name, plans[name]), thorough)
        for name in plans:
            with blamed(name):
                for worker, identity in zip(workers, self.identities(name), strict=True):
                    worker.ask("close", identity=identity)
                replies = self.closed[name] = [worker.reply() for worker in workers]
            for side, reply in zip(self.sides, replies, strict=True):
                if "failed" in reply:
                    records[name].state, records[name].words = "error", f"{side.name}: {reply['failed']}"
            if any("exact" in reply for reply in replies):
                base, head = (dict(reply.get("exact", {})) for reply in replies)
                records[name].counters = base, head
        return {name: found for name, found in blocks.items() if records[name].state == "timed"}

    def identities(self, name: str) -> tuple[str, str]:
        """Return by what name each side has a case."""
        return name, name

    def plan_of(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return how to time a case, on both sides by what base takes."""
        return self.plan(workers[0], name, place)

    def mixed(
        self, plans: Mapping[Any, SamplePlan], block: Callable[[Any], Block], thorough: bool = False
    ) -> dict[Any, list[Block]]:
        """Return the blocks of a pair, those of all cases in turns, in an order that is drawn each time.

        A case gets some more where its blocks scatter so much that their median is not sure: by how far they are from
        each other, not by where they are, so that neither side is favoured.

        Args:
            plans: how each case is timed.
            block: measures a block of a case.
            thorough: long calls get more blocks too where they scatter.
        """
        found: dict[Any, list[Block]] = {name: [] for name in plans}
        for number in range(LONGER * MORE * self.blocks):
            waiting = [
                name for name, plan in plans.items() if number < self.wanted_of(name, found[name], plan, thorough)
            ]
            if not waiting:
                break
            for name in self.rng.sample(waiting, len(waiting)):
                found[name].append(block(name))
        return found

    def costly(self, name: str) -> bool:
        """Return whether a case takes long to prepare in every process, as one that compiles anew each time."""
        spent = self.preparing.get(name, [])
        return len(spent) >= 2 and min(spent) >= COSTLY

    def wanted_of(self, name: str, found: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return how many blocks of a pair a case gets, given those that there are; more if its pairs are fewer.

        Args:
            name: of the case.
            found: its blocks so far.
            plan: how it is timed.
            thorough: long calls get more blocks too where they scatter.
        """
        wanted = self.wanted(found, plan, thorough)
        return min(LONGER * wanted, plan.most_blocks) if self.costly(name) else wanted

    def wanted(self, found: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return how many blocks of a pair a case gets, given those that there are.

        Args:
            found: its blocks so far.
            plan: how it is timed.
            thorough: long calls get more blocks too where they scatter.
        """
        least = min(self.blocks, plan.most_blocks)
        most = min(MORE * self.blocks, plan.most_blocks if thorough else plan.more_blocks)
        return least if sure(found) else max(least, most)

    def quick(self, blocks: Sequence[Block], plan: SamplePlan) -> Sequence[Block]:
        """Return those of a case's blocks that a pair makes that is not thorough.

        Args:
            blocks: of a thorough pair.
            plan: how it is timed.
        """
        number = 0
        while number < min(len(blocks), self.wanted(blocks[:number], plan, False)):
            number += 1
        return blocks[:number]

    def drawn(self, names: Sequence[str]) -> list[list[str]]:
        """Return each name as a group of its own, in an order that is drawn: of files, and in each of its tests.

        What the tests of a file share is then set up once.

        Args:
            names: of the cases.
        """
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(name.partition("::")[0], []).append(name)
        order = self.rng.sample(sorted(files), len(files))
        return [[name] for file in order for name in self.rng.sample(files[file], len(files[file]))]

    @contextmanager
    def workers(self, place: Cores) -> Iterator[list[Worker]]:
        """Return a fresh process of each side; while they are there, interrupts come where they are waited for.

        Args:
            place: the cores that workers run on.

        Raises:
            PairError: one failed, and not over a case.
        """
        order = self.rng.sample([0, 1], 2)  # which side starts first, and on which core, is left to chance
        seed = {"PYTHONHASHSEED": str(random.SystemRandom().randrange(1 << 32))}  # sets have one order on both sides
        sides = [replace(side, variables={**seed, **side.variables}) for side in self.sides]
        with ExitStack() as stack:
            stack.enter_context(interrupts.held())
            started = {
                side: stack.enter_context(Worker(sides[side], place.at_start(number), place.threads, self.limit))
                for number, side in enumerate(order)
            }
            workers = [started[0], started[1]]
            try:
                for found in both(workers, "hello"):
                    self.differing |= differing(self.parameters, found.get("parameters", {}))
                yield workers
                for worker in workers:  # both end at once
                    worker.finish()
            except WorkerError as error:
                raise PairError(str(error)) from error

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare a case on both sides, the first time compare answers and counts; tell whether it can be timed.

        Args:
            workers: base's and head's.
            name: of the case.
            record: what is known of the case; changed in place.
        """
        if name in self.differing:
            record.state, record.words = "error", self.differing[name]
            return False
        first, doubted, start = name not in self.seen, name in self.doubted, time.monotonic()
        files = self.folder / "base.answer", self.folder / "head.answer"
        with blamed(name):
            for worker, file in zip(workers, files, strict=True):
                worker.ask("prepare", identity=name, answer=str(file) if first or doubted else None, counted=first)
            base, head = (worker.reply() for worker in workers)
        self.preparing.setdefault(name, []).append(time.monotonic() - start)
        if state := self.unlike(name, base, head):
            record.state, record.words = state
            return False
        if first:
            self.seen.add(name)
            record.answer_changed = not self.same(name, *files)
            record.counters = base["counters"], head["counters"]
            if record.answer_changed:
                self.doubted.add(name)
                files[0].replace(self.kept_answer(name))
        elif doubted:  # an answer that base itself does not give twice says nothing of head
            self.doubted.remove(name)
            record.answer_changed = self.same(name, self.kept_answer(name), files[0])
        return True

    def same(self, name: str, first: Path, second: Path) -> bool:
        """Return whether two answers of a case are the same.

        Args:
            name: of the case.
            first: file of one answer.
            second: file of the other.

        Raises:
            CaseError: a file holds no whole answer.
        """
        if math.isinf(self.tolerances[name]):
            return True
        try:
            return same(first, second, self.tolerances[name])
        except AnswerError as error:
            raise CaseError(name, str(error)) from error

    def unlike(self, name: str, base: dict[str, Any], head: dict[str, Any]) -> tuple[Any, str] | None:
        """Return the state of a case that cannot be timed on both sides, and why; None where it can.

        Args:
            name: of the case.
            base: what base's worker says of it.
            head: what head's does.
        """
        why = [reply.get("absent") or reply.get("failed") or reply.get("skipped") for reply in (base, head)]
        told = [f"{'skipped: ' if 'skipped' in reply else ''}{words}" for reply, words in zip((base, head), why)]
        if why[1] is None and why[0] is None:
            alike = base.get("info", {}).get("inputs") == head.get("info", {}).get("inputs")
            return None if alike else ("error", "its inputs differ between base and head: nothing alike is timed")
        if "skipped" in base and "skipped" in head:
            return "skipped", why[1] or ""
        if why[1] is not None:
            return "error", f"{self.sides[1].name}: {told[1]}"
        lost = name in self.known
        if "absent" in base:
            return ("error" if lost else "new"), f"base: {told[0]}{', though base lists this case' if lost else ''}"
        return ("error" if lost else "new"), f"{self.sides[0].name}: {told[0]}"

    def kept_answer(self, name: str) -> Path:
        """Return the file of base's answer in the first pair.

        Args:
            name: of the case.
        """
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()}.answer"

    def plan(self, base: Worker, name: str, place: Cores) -> SamplePlan:
        """Return how to time a case, on both sides by what base takes: measured in the first pair, the same in all.

        Args:
            base: its worker.
            name: of the case.
            place: the cores that workers run on.
        """
        if name not in self.plans:
            with blamed(name):
                base.ask("measure", identity=name)
                found = answered(base, name)
            self.plans[name] = place.plan(max(float(found["call"]), 1e-9), found["calls"], float(found["wall"]))
        return self.plans[name]

    def block(self, workers: Sequence[Worker], name: str, plan: SamplePlan, dose: Mapping[str, float] = NONE) -> Block:
        """Return the seconds of base and of head, in the order A B B A or B A A B; head is slowed by the dose.

        Args:
            workers: base's and head's.
            name: of the case.
            plan: how to time the case.
            dose: seconds to ``spin`` by which head is slowed on purpose.
        """

        def sample(side: int, changed: bool) -> float:
            asked = {"calls": plan.calls, "samples": plan.samples, "warm": plan.warm and changed}
            workers[side].ask("sample", identity=name, **asked, **(dose if side else NONE))
            return float(answered(workers[side], name)["seconds"])

        with blamed(name):
            return interleaved.block(int(self.rng.random() < 0.5), sample)


def sure(blocks: Sequence[Block]) -> bool:
    """Return whether more blocks would hardly change what a pair says.

    Args:
        blocks: seconds of base and of head in each.
    """
    return error_of_median(log_ratios(blocks)) <= SURE


class CaseError(Exception):
    """A worker died or hung over this case.

    Args:
        name: of the case.
        words: what happened, in a line.
    """

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


def answered(worker: Worker, name: str) -> dict[str, Any]:
    """Return the answer of a worker that times a case.

    Args:
        worker: of one side.
        name: of the case.

    Raises:
        CaseError: the case failed meanwhile.
    """
    reply = worker.reply()
    if why := reply.get("failed") or reply.get("skipped"):
        raise CaseError(name, f"{worker.side.name}: {why}")
    return reply


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Turn a worker's death into an error of the case it worked on.

    Args:
        name: of the case.
    """
    try:
        yield
    except WorkerError as error:
        raise CaseError(name, str(error)) from error
