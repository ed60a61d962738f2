"""Pairs of fresh workers, one per side, whose samples are interleaved; only one of them is timed at any moment."""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from . import interleaved, interrupts
from .outputs import OutputError, same
from .parameters import Described, mismatches
from .rule import Record
from .sampling import Cores, SamplePlan
from .statistics import Block, error_of_median, log_ratios
from .workers import Side, Worker, WorkerError, ask_both

NOISY_FACTOR = 4  # factor on a noisy case's blocks
MAX_ERROR = 0.01  # error of a pair's median below which no more blocks are measured
COSTLY_SECONDS, COSTLY_FACTOR = 10.0, 2  # preparation time from which a case is costly; factor on its blocks
MUCH_SLOWER = 8  # factor from which head's time determines the sample plan


class PairError(Exception):
    """A worker failed to start, or failed between cases."""


class Pairs:
    """Measures pairs of the two sides into records.

    Args:
        sides: base and head.
        blocks: blocks of each case in a pair.
        limit: timeout of one worker request, in seconds.
        tolerances: largest relative difference between the outputs of each case.
        folder: directory for output files.
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
        self.compared: set[str] = set()  # cases whose outputs were compared
        self.absent: set[str] = set()  # cases that a side skips, or whose code it does not have
        self.rechecked: set[str] = set()  # cases whose outputs differed once: base may also differ from itself
        self.parameters: dict[str, Described] = {}  # of each test, as described by the first process
        self.mismatches: dict[str, str] = {}  # ids that differ in meaning between processes -> reason
        self.once: dict[str, bool] = {}  # whether a case is called once per run of its test
        self.plans: dict[str, SamplePlan] = {}
        self.calls: dict[str, int] = {}  # calls of each side in a block of each case
        self.prepare_seconds: dict[str, list[float]] = {}  # of each case, per pair
        self.close_replies: dict[str, list[dict[str, Any]]] = {}  # both sides' latest replies to closing a case
        self.start_seconds = 0.0  # to start the last pair's processes

    def measure(
        self, records: dict[str, Record], names: Iterable[str], place: Cores, phase: str, thorough: bool = False
    ) -> None:
        """Add a pair of every case that is still timed; a case that ends a worker becomes an error.

        The records are updated in place. `phase` is ``screen`` or ``confirm``, the field of the record to which the
        pair is added. A thorough pair also gives more blocks to long calls that are noisy.
        """
        pair: dict[str, list[Block]] = {}
        while waiting := [name for name in names if records[name].state == "timed" and name not in pair]:
            try:
                self.measure_pair(pair, records, waiting, place, thorough)
            except CaseError as error:
                records[error.name].state, records[error.name].words = "error", str(error)
        for name, blocks in pair.items():
            getattr(records[name], phase).append(blocks)
            records[name].calls.append(self.calls[name])

    def measure_pair(
        self,
        pair: dict[str, list[Block]],
        records: dict[str, Record],
        names: Sequence[str],
        place: Cores,
        thorough: bool,
    ) -> None:
        """Measure one pair of fresh processes; add the blocks of each case that can be timed to `pair`.

        Raises CaseError if a worker died or hung in a case, and PairError if it failed between cases.
        """
        start = time.monotonic()
        with self.workers(place) as workers:
            self.start_seconds = time.monotonic() - start
            for name in self.shuffled(names):
                if blocks := self.measure_case(workers, name, records[name], place, thorough):
                    pair[name] = blocks

    def measure_case(
        self, workers: Sequence[Worker], name: str, record: Record, place: Cores, thorough: bool
    ) -> list[Block]:
        """Prepare, measure and close a case; return its blocks, empty if it cannot be timed."""
        if not self.prepare(workers, name, record):
            return []
        ask_both(workers, "place", core=place.one)
        plan = self.sample_plan(workers, name, place)
        with place.share_core():
            blocks = self.measure_blocks({name: plan}, lambda _: self.block(workers, name, plan), thorough)[name]
        with as_case_error(name):
            replies = self.close_replies[name] = []
            for worker, identity in zip(workers, self.identities(name), strict=True):  # one by one: it may make a call
                worker.ask("close", identity=identity)
                replies.append(worker.reply())
        for side, reply in zip(self.sides, replies, strict=True):
            if "failed" in reply:
                record.state, record.words = "error", f"{side.name}: {reply['failed']}"
        if any("exact" in reply for reply in replies):
            base, head = (dict(reply.get("exact", {})) for reply in replies)
            record.counters = base, head
        return blocks if record.state == "timed" else []

    def identities(self, name: str) -> tuple[str, str]:
        """Return the id of a case on each side."""
        return name, name

    def measure_blocks(
        self, plans: Mapping[str, SamplePlan], block: Callable[[str], Block], thorough: bool = False
    ) -> dict[str, list[Block]]:
        """Measure the blocks of a pair, interleaving all names of `plans` in a new random order each round.

        Noisy ones get more blocks. The criterion is the scatter of the blocks rather than their location, so that it
        favours neither side. `block` measures one block of a name.
        """
        blocks: dict[str, list[Block]] = {name: [] for name in plans}
        for number in range(COSTLY_FACTOR * NOISY_FACTOR * self.blocks):
            waiting = [
                name for name, plan in plans.items() if number < self.block_count(name, blocks[name], plan, thorough)
            ]
            if not waiting:
                break
            for name in self.rng.sample(waiting, len(waiting)):
                blocks[name].append(block(name))
        return blocks

    def costly(self, name: str) -> bool:
        """Return whether every process takes long to prepare a case, for example because it compiles."""
        seconds = self.prepare_seconds.get(name, [])
        return len(seconds) >= 2 and min(seconds) >= COSTLY_SECONDS

    def block_count(self, name: str, blocks: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return the number of blocks a case should get in a pair, given its blocks so far.

        Costly cases get more, as they have fewer pairs.
        """
        count = self.usual_block_count(blocks, plan, thorough)
        return min(COSTLY_FACTOR * count, plan.max_blocks) if self.costly(name) else count

    def usual_block_count(self, blocks: Sequence[Block], plan: SamplePlan, thorough: bool) -> int:
        """Return the number of blocks a case that is not costly should get in a pair, given its blocks so far."""
        least = min(self.blocks, plan.max_blocks)
        most = min(NOISY_FACTOR * self.blocks, plan.max_blocks if thorough else plan.max_noisy_blocks)
        return least if is_precise(blocks) else max(least, most)

    def quick_blocks(self, blocks: Sequence[Block], plan: SamplePlan) -> Sequence[Block]:
        """Return the part of a thorough pair's blocks that a pair that is not thorough would have measured."""
        number = 0
        while number < min(len(blocks), self.usual_block_count(blocks[:number], plan, False)):
            number += 1
        return blocks[:number]

    def shuffled(self, names: Iterable[str]) -> list[str]:
        """Return the cases in a random order of their files.

        The cases of a file are in pytest's order or its reverse, rotated to a random start, so that most fixtures that
        they share are set up once.
        """
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(name.partition("::")[0], []).append(name)
        found = list[str]()
        for file in self.rng.sample(sorted(files), len(files)):
            start = self.rng.randrange(len(files[file]))
            names = files[file][start:] + files[file][:start]
            found += names if self.rng.random() < 0.5 else reversed(names)
        return found

    @contextmanager
    def workers(self, place: Cores) -> Iterator[list[Worker]]:
        """Start a fresh process of each side; interrupts are deferred until the gate waits for a reply."""
        order = self.rng.sample([0, 1], 2)  # random: which side starts first, and on which core
        seed = {"PYTHONHASHSEED": self.sides[0].hash_seed()}  # same order of sets on both sides
        sides = [replace(side, variables={**seed, **side.variables}) for side in self.sides]
        with ExitStack() as stack:
            stack.enter_context(interrupts.defer_interrupts())
            started = {
                side: stack.enter_context(Worker(sides[side], place.at_start(position), place.threads, self.limit))
                for position, side in enumerate(order)
            }
            workers = [started[0], started[1]]
            try:
                for reply in ask_both(workers, "hello"):
                    self.mismatches |= mismatches(self.parameters, reply.get("parameters", {}))
                yield workers
                for worker in workers:  # both shut down at once
                    worker.close_stdin()
            except WorkerError as error:
                raise PairError(str(error)) from error

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare a case on both sides and return whether it can be timed; the first time, compare the outputs.

        The record is updated in place.
        """
        if name in self.mismatches:
            record.state, record.words = "error", self.mismatches[name]
            return False
        first, recheck, start = name not in self.compared, name in self.rechecked, time.monotonic()
        files = self.folder / "base.output", self.folder / "head.output"
        compares = (first or recheck) and not math.isinf(self.tolerances.get(name, 0.0))
        with as_case_error(name):
            for worker, file in zip(workers, files, strict=True):
                how = {"output": str(file) if compares else None, "exact": first, "once": self.once.get(name)}
                worker.ask("prepare", identity=name, **how)
            base, head = (worker.reply() for worker in workers)
        self.prepare_seconds.setdefault(name, []).append(time.monotonic() - start)
        if state := self.untimed_state(name, base, head):
            record.state, record.words = state
            self.close_prepared(workers, name, (base, head), record)
            return False
        if first:
            self.once[name] = bool(base.get("once") or head.get("once"))
            record.words = str(base.get("note") or head.get("note") or "")
            self.compared.add(name)
            record.output_changed = not self.same(name, *files)
            if record.output_changed:
                self.rechecked.add(name)
                files[0].replace(self.first_output(name))
        elif recheck and not self.same(name, self.first_output(name), files[0]):  # base differs from itself
            self.rechecked.remove(name)
            record.output_changed = False
        return True

    def close_prepared(
        self, workers: Sequence[Worker], name: str, replies: Sequence[Mapping[str, Any]], record: Record
    ) -> None:
        """End a test that cannot be timed on the other side: while it waits, other tests would run inside it.

        `replies` are the workers' replies to ``prepare``.
        """
        with as_case_error(name):
            for worker, identity, reply in zip(workers, self.identities(name), replies, strict=True):
                if reason(reply) is None:
                    worker.ask("close", identity=identity)
                    if "failed" in (ended := worker.reply()):
                        record.state, record.words = "error", f"{worker.side.name}: {ended['failed']}"

    def same(self, name: str, first: Path, second: Path) -> bool:
        """Return whether two output files of a case hold the same output."""
        if math.isinf(self.tolerances[name]):
            return True
        try:
            return same(first, second, self.tolerances[name])
        except OutputError as error:
            raise CaseError(name, str(error)) from error

    def untimed_state(self, name: str, base: dict[str, Any], head: dict[str, Any]) -> tuple[Any, str] | None:
        """Return the state of a case that cannot be timed on both sides and the reason, or None if it can.

        `base` and `head` are the workers' replies to ``prepare``.
        """
        base_reason, head_reason = reason(base), reason(head)
        if not {"absent", "skipped"}.isdisjoint({*base, *head}):
            self.absent.add(name)
        if base_reason is None and head_reason is None:
            equal = base.get("info", {}).get("inputs") == head.get("info", {}).get("inputs")
            message = 'extra_info["inputs"] differs between base and head; make the inputs equal'
            return None if equal else ("error", message)
        if "skipped" in base and "skipped" in head:
            return "skipped", str(head["skipped"])
        if head_reason is not None:
            return "error", f"{self.sides[1].name}: {head_reason}"
        listed = name in self.known and "skipped" not in base
        hint = "; to run base's own version of this benchmark, add --gate-own-benchmarks"
        hint = hint if listed and "absent" in base else ""
        return "error" if listed else "new", f"{self.sides[0].name}: {base_reason}{hint}"

    def first_output(self, name: str) -> Path:
        """Return the file that keeps base's output from the first pair."""
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()}.output"

    def sample_plan(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the sample plan of a case, from the timing in the first pair: base's, or that of a much slower head.

        With base's number of calls per sample, a pair would take such a head minutes or hours.
        """
        if name not in self.plans:
            once = self.once.get(name, False)
            call, calls, wall, iterations = time_calls(workers, name, once)
            plan = self.plans[name] = replace(place.plan(call, calls, wall), once=once, iterations=iterations)
            self.calls[name] = 2 * plan.samples * plan.calls * iterations  # a side has two turns
        return self.plans[name]

    def block(self, workers: Sequence[Worker], name: str, plan: SamplePlan, injected_slowdown: float = 0.0) -> Block:
        """Return the seconds of base and head for turns in the order A B B A or B A A B.

        `injected_slowdown` is the number of seconds by which each turn of head is slowed artificially.
        """

        def sample(side: int, changed: bool) -> float:
            how = {"calls": plan.calls, "samples": plan.samples, "warm": plan.warm and changed, "once": plan.once}
            slower = injected_slowdown if side else 0.0
            workers[side].ask("sample", identity=name, **how, iterations=plan.iterations, injected_slowdown=slower)
            return float(checked_reply(workers[side], name)["seconds"])

        with as_case_error(name):
            return checked_block(name, interleaved.block(int(self.rng.random() < 0.5), sample))


def checked_block(name: str, block: Block) -> Block:
    """Return the block of a case; raise CaseError unless its seconds are positive."""
    if min(block) <= 0:
        raise CaseError(name, "a sample took no time by its timer, which is too coarse; use a finer timer")
    return block


def is_precise(blocks: Sequence[Block]) -> bool:
    """Return whether more blocks would hardly change the log-ratio of a pair."""
    return error_of_median(log_ratios(blocks)) <= MAX_ERROR


class CaseError(Exception):
    """A worker died or hung while it ran this case; the message says how in one line."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def reason(reply: Mapping[str, Any]) -> str | None:
    """Return why a worker could not prepare a case, from its reply, or None if it could."""
    return f"skipped: {reply['skipped']}" if "skipped" in reply else reply.get("absent") or reply.get("failed")


class CallTiming(NamedTuple):
    """First timing of a case, from which its sample plan follows.

    Attributes:
        call: timed seconds of a call.
        calls: calls of a sample that is long enough.
        wall: seconds of a call including its untimed parts.
        iterations: number of times that a call runs the function.
    """

    call: float
    calls: int
    wall: float
    iterations: int


def time_call(worker: Worker, identity: str, name: str, once: bool) -> CallTiming:
    """Have a worker time a prepared test of a case; with `once`, in further runs of the test."""
    with as_case_error(name):
        worker.ask("measure", identity=identity, once=once)
        reply = checked_reply(worker, name)
    call = max(float(reply["call"]), 1e-9)
    return CallTiming(call, int(reply["calls"]), float(reply["wall"]), int(reply.get("iterations", 1)))


def time_calls(workers: Sequence[Worker], name: str, once: bool) -> CallTiming:
    """Return base's first timing of a case, or head's if that is much slower.

    Both sides are timed in any case, since a call may change how long later calls take.
    """
    base, head = (time_call(worker, name, name, once) for worker in workers)
    return head if head.call > MUCH_SLOWER * base.call else base


def checked_reply(worker: Worker, name: str) -> dict[str, Any]:
    """Return a worker's reply to a timing request; raise CaseError if the case failed."""
    reply = worker.reply()
    if error := reply.get("failed") or reply.get("skipped"):
        raise CaseError(name, f"{worker.side.name}: {error}")
    return reply


@contextmanager
def as_case_error(name: str) -> Iterator[None]:
    """Convert the death of a worker into an error of the case it was running."""
    try:
        yield
    except WorkerError as error:
        raise CaseError(name, str(error)) from error
