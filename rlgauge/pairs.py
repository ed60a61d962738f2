"""Pairs of fresh workers, one per side, whose samples are interleaved; only one of them works at any moment."""

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
LONGEST, FEWEST_BLOCKS = 6.0, 2  # most seconds of a case's blocks in a pair, and least number of blocks
MORE, LONGEST_MORE = 4, 0.5  # factor for noisy cases, and most seconds of their blocks unless thorough
SURE = 0.01  # error of a pair's median below which no more blocks are measured
COSTLY, LONGER = 10.0, 2  # seconds to prepare a costly case in every process, and factor of its blocks
MOST_UNTIMED = 0.1  # most seconds of a turn that is mostly untimed
LEAST_COLD = 0.015  # seconds of a call that refills the caches in a small part of its time


class PairError(Exception):
    """A worker failed to start, or failed between cases."""


@dataclass(frozen=True)
class SamplePlan:
    """How a side takes its turn: a number of equal samples, after an optional warm-up.

    Attributes:
        calls: calls per sample.
        samples: samples per turn.
        warm: whether an uncounted warm-up call comes first.
        most_blocks: largest number of blocks in a pair; lower for long calls.
        more_blocks: the same for a noisy pair that is not thorough.
    """

    calls: int
    samples: int
    warm: bool
    most_blocks: int = 1 << 30
    more_blocks: int = 1 << 30


@dataclass(frozen=True)
class Cores:
    """The cores of a worker: either one, to which all its threads are pinned, or all of them.

    Attributes:
        all: ids of the cores that this process may use.
        one: id of the core to which workers are pinned; None if they use all.
    """

    all: tuple[int, ...]
    one: int | None

    @property
    def least(self) -> float:
        """Least duration of a side's turn, in seconds; longer on all cores, where waiting threads add noise."""
        return 0.005 if self.one is not None else 0.04

    def plan(self, call: float, calls: int, wall: float | None = None) -> SamplePlan:
        """Return the sample plan of a case, which both sides use.

        On a slow machine a sample has fewer calls, so that it takes at most twice the least duration of a turn. If most
        of a call is untimed, for example its set-up, a turn may be shorter than that least duration.

        Args:
            call: timed seconds of a call.
            calls: calls of a sample that is long enough.
            wall: seconds of a call including its untimed parts; `call` by default.
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
        """Number of threads of a worker."""
        return len(self.all) if self.one is None else 1

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Pin this thread to the workers' core too: a switch there is faster than waking another, idle core."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before if self.one is None else {self.one})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def at_start(self, side: int) -> tuple[int, ...]:
        """Return the cores on which a worker starts: since both sides start at once, one each if they will be pinned.

        `side` is 0 for the first worker of a pair to start, 1 for the second.
        """
        return self.all if self.one is None else (self.all[side % len(self.all)],)


def cores(all_cores: bool) -> Cores:
    """Return the cores of this process, with the last of them for cases that run on one core."""
    here = tuple(sorted(os.sched_getaffinity(0)))
    return Cores(here, None if all_cores else here[-1])


class Pairs:
    """Measures pairs of the two sides into records.

    Args:
        sides: base and head.
        blocks: blocks of each case in a pair.
        limit: timeout of one worker request, in seconds.
        tolerances: largest relative difference between the answers of each case.
        folder: directory for answer files.
        rng: random generator for the order of cases and sides.
        known: cases that base lists; if base cannot prepare one of these, it is an error rather than new.
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
        self.parameters: dict[str, Described] = {}  # of each test, as described by the first process
        self.differing: dict[str, str] = {}  # ids that differ in meaning between processes -> reason
        self.doubted: set[str] = set()  # cases whose answers differed once: base may also differ from itself
        self.plans: dict[str, SamplePlan] = {}
        self.calls: dict[str, int] = {}  # calls of each side in a block of each case
        self.preparing: dict[str, list[float]] = {}  # seconds to prepare each case, per pair
        self.closed: dict[str, list[dict[str, Any]]] = {}  # both sides' latest replies to closing a case
        self.starting = 0.0  # seconds to start the last pair's processes

    def measure(
        self, records: dict[str, Record], names: Iterable[str], place: Cores, phase: str, thorough: bool = False
    ) -> None:
        """Add a pair of every case that is still timed; a case that ends a worker becomes an error.

        Args:
            records: records of the cases, updated in place.
            names: the cases to measure.
            place: the cores that workers run on.
            phase: ``screen`` or ``confirm``, the field of the record to which the pair is added.
            thorough: give long calls more blocks too when they are noisy, as in a confirmation of few cases.
        """
        while remaining := [name for name in names if records[name].state == "timed"]:
            try:
                found = self.measure_pair(records, remaining, place, thorough)
            except CaseError as error:
                records[error.name].state, records[error.name].words = "error", str(error)
                continue
            for name, blocks in found.items():
                getattr(records[name], phase).append(blocks)
                records[name].calls.append(self.calls[name])
            return

    def measure_pair(
        self, records: dict[str, Record], names: Sequence[str], place: Cores, thorough: bool
    ) -> dict[str, list[Block]]:
        """Measure one pair of fresh processes.

        Raises CaseError if a worker died or hung in a case, and PairError if it failed between cases.
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
        """Prepare, measure and close some cases together; return their blocks."""
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
        """Return the id of a case on each side."""
        return name, name

    def plan_of(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the sample plan of a case, which is based on base's timing."""
        return self.plan(workers[0], name, place)

    def mixed(
        self, plans: Mapping[Any, SamplePlan], block: Callable[[Any], Block], thorough: bool = False
    ) -> dict[Any, list[Block]]:
        """Measure the blocks of a pair, interleaving all cases in a new random order each round.

        Noisy cases get more blocks. The criterion is the scatter of the blocks rather than their location, so that it
        favours neither side. `block` measures one block of a case.
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
        """Return whether every process takes long to prepare a case, for example because it compiles."""
        spent = self.preparing.get(name, [])
        return len(spent) >= 2 and min(spent) >= COSTLY

    def wanted_of(self, name: str, found: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return the number of blocks a case should get in a pair; costly cases get more, as they have fewer pairs."""
        wanted = self.wanted(found, plan, thorough)
        return min(LONGER * wanted, plan.most_blocks) if self.costly(name) else wanted

    def wanted(self, found: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return the number of blocks a case should get in a pair, given its blocks so far."""
        least = min(self.blocks, plan.most_blocks)
        most = min(MORE * self.blocks, plan.most_blocks if thorough else plan.more_blocks)
        return least if sure(found) else max(least, most)

    def quick(self, blocks: Sequence[Block], plan: SamplePlan) -> Sequence[Block]:
        """Return the part of a thorough pair's blocks that a pair that is not thorough would have measured."""
        number = 0
        while number < min(len(blocks), self.wanted(blocks[:number], plan, False)):
            number += 1
        return blocks[:number]

    def drawn(self, names: Sequence[str]) -> list[list[str]]:
        """Return a random order of the cases, each as a group of its own: by file, then by test within the file.

        Fixtures that the tests of a file share are then set up once.
        """
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(name.partition("::")[0], []).append(name)
        order = self.rng.sample(sorted(files), len(files))
        return [[name] for file in order for name in self.rng.sample(files[file], len(files[file]))]

    @contextmanager
    def workers(self, place: Cores) -> Iterator[list[Worker]]:
        """Start a fresh process of each side; interrupts are deferred until the gate waits for a reply."""
        order = self.rng.sample([0, 1], 2)  # random: which side starts first, and on which core
        seed = {"PYTHONHASHSEED": str(random.SystemRandom().randrange(1 << 32))}  # same order of sets on both sides
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
                for worker in workers:  # both shut down at once
                    worker.finish()
            except WorkerError as error:
                raise PairError(str(error)) from error

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare a case on both sides and return whether it can be timed; the first time, compare answers and counts.

        The record is updated in place.
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
        elif doubted:  # if base differs from itself, its answer cannot be compared with head's
            self.doubted.remove(name)
            record.answer_changed = self.same(name, self.kept_answer(name), files[0])
        return True

    def same(self, name: str, first: Path, second: Path) -> bool:
        """Return whether two answer files of a case hold the same answer."""
        if math.isinf(self.tolerances[name]):
            return True
        try:
            return same(first, second, self.tolerances[name])
        except AnswerError as error:
            raise CaseError(name, str(error)) from error

    def unlike(self, name: str, base: dict[str, Any], head: dict[str, Any]) -> tuple[Any, str] | None:
        """Return the state of a case that cannot be timed on both sides and the reason, or None if it can.

        `base` and `head` are the workers' replies to ``prepare``.
        """
        why = [reply.get("absent") or reply.get("failed") or reply.get("skipped") for reply in (base, head)]
        told = [f"{'skipped: ' if 'skipped' in reply else ''}{words}" for reply, words in zip((base, head), why)]
        if why[1] is None and why[0] is None:
            alike = base.get("info", {}).get("inputs") == head.get("info", {}).get("inputs")
            return None if alike else ("error", "its inputs differ between base and head: make them equal")
        if "skipped" in base and "skipped" in head:
            return "skipped", why[1] or ""
        if why[1] is not None:
            return "error", f"{self.sides[1].name}: {told[1]}"
        lost = name in self.known
        if "absent" in base:
            return (
                "error" if lost else "new"
            ), f"base: {told[0]}{', although base lists this benchmark' if lost else ''}"
        return ("error" if lost else "new"), f"{self.sides[0].name}: {told[0]}"

    def kept_answer(self, name: str) -> Path:
        """Return the file that keeps base's answer from the first pair."""
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()}.answer"

    def plan(self, base: Worker, name: str, place: Cores) -> SamplePlan:
        """Return the sample plan of a case, from base's timing in the first pair."""
        if name not in self.plans:
            with blamed(name):
                base.ask("measure", identity=name)
                found = answered(base, name)
            plan = place.plan(max(float(found["call"]), 1e-9), found["calls"], float(found["wall"]))
            self.plans[name] = plan
            self.calls[name] = 2 * plan.samples * plan.calls * int(found.get("iterations", 1))  # a side has two turns
        return self.plans[name]

    def block(self, workers: Sequence[Worker], name: str, plan: SamplePlan, dose: Mapping[str, float] = NONE) -> Block:
        """Return the seconds of base and head for turns in the order A B B A or B A A B.

        `dose` slows head artificially: ``{"spin": seconds}``.
        """

        def sample(side: int, changed: bool) -> float:
            asked = {"calls": plan.calls, "samples": plan.samples, "warm": plan.warm and changed}
            workers[side].ask("sample", identity=name, **asked, **(dose if side else NONE))
            return float(answered(workers[side], name)["seconds"])

        with blamed(name):
            return interleaved.block(int(self.rng.random() < 0.5), sample)


def sure(blocks: Sequence[Block]) -> bool:
    """Return whether more blocks would hardly change the log-ratio of a pair."""
    return error_of_median(log_ratios(blocks)) <= SURE


class CaseError(Exception):
    """A worker died or hung while it ran this case; the message says how in one line."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name


def answered(worker: Worker, name: str) -> dict[str, Any]:
    """Return a worker's reply to a timing request; raise CaseError if the case failed."""
    reply = worker.reply()
    if why := reply.get("failed") or reply.get("skipped"):
        raise CaseError(name, f"{worker.side.name}: {why}")
    return reply


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Convert the death of a worker into an error of the case it was running."""
    try:
        yield
    except WorkerError as error:
        raise CaseError(name, str(error)) from error
