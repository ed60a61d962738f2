"""Pairs of workers that run two different tests, which may differ widely in speed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import interleaved
from .pairs import CaseError, Pairs, as_case_error, checked_block, checked_reply, time_call
from .plan import MEMORY, Plan
from .rule import GateError, Record
from .sampling import Cores, SamplePlan
from .statistics import Block
from .workers import Side, Worker

DIFFER = "the outputs differ"


class ComparisonError(GateError):
    """A comparison cannot be measured; `name` identifies it, the message says why."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SkippedError(ComparisonError):
    """One of the tests, `test`, skips itself, for example because a backend is not installed."""

    def __init__(self, name: str, test: str, reason: str) -> None:
        super().__init__(name, f"{test}: skipped: {reason}")
        self.test = test


class TwoTestPairs(Pairs):
    """Pairs whose sides run different tests, each with its own number of calls per sample.

    `tests` has the ids of the two tests of each comparison, `tolerances` its largest relative difference of outputs,
    and `checked` names those whose outputs are compared. Tests that run `on_all_cores` disturb each other while they
    are prepared, so one is prepared after the other. In two cases, both are prepared at once to save time: in the first
    pair, in which both may compile, and as the first tests of their processes, which import libraries.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        plan: Plan,
        tolerances: dict[str, float],
        folder: Path,
        tests: Mapping[str, tuple[str, str]],
        checked: Collection[str],
        on_all_cores: bool = False,
    ) -> None:
        blocks = 1 if plan.measure in MEMORY else plan.blocks
        super().__init__(sides, blocks, plan.limit, tolerances, folder, random.Random(plan.seed))
        self.tests, self.checked, self.quantity, self.quick = tests, checked, plan.measure, plan.quick
        self.on_all_cores = on_all_cores
        self.prepared_in: Sequence[Worker] = ()  # processes of the last case that was prepared
        self.info: dict[str, list[dict[str, Any]]] = {}  # extra_info of both tests
        self.skipped: dict[str, SkippedError] = {}
        self.once_sides: dict[str, list[bool]] = {}  # whether each test is called once per run
        self.side_plans: dict[str, list[SamplePlan]] = {}
        self.iterations: dict[str, list[int]] = {}  # of the function, in each call of the two tests

    def identities(self, name: str) -> tuple[str, str]:
        """Return the ids of the two tests of a comparison."""
        return self.tests[name]

    def prepare(self, workers: Sequence[Worker], name: str, record: Record) -> bool:
        """Prepare both tests and return whether none is skipped; raise CaseError if one fails or outputs differ."""
        for test in self.tests[name]:
            if test in self.mismatches:
                raise CaseError(name, f"{test}: {self.mismatches[test]}")
        files = self.folder / "first.output", self.folder / "second.output"
        compared = name in self.checked and name not in self.info
        warm = all(plan.turns > 1 for plan in self.side_plans.get(name, ()))  # not known before the first pair
        with as_case_error(name):
            known, replies = self.once_sides.get(name, [None, None]), list[dict[str, Any]]()
            in_turn = self.on_all_cores and name in self.info and self.prepared_in is workers
            self.prepared_in = workers
            for worker, test, file, once in zip(workers, self.tests[name], files, known, strict=True):
                worker.ask("prepare", identity=test, output=str(file) if compared else None, warm=warm, once=once)
                replies += [worker.reply()] if in_turn else []
            replies = replies or [worker.reply() for worker in workers]
        for test, reply in zip(self.tests[name], replies, strict=True):
            if "skipped" in reply:
                self.skipped[name] = SkippedError(name, test, str(reply["skipped"]))
                self.close_prepared(workers, name, replies, record)
                return False
            if "failed" in reply:
                raise CaseError(name, f"{test}: {reply['failed']}")
        if compared and not self.same(name, *files):
            pair = " and ".join(self.tests[name])
            raise CaseError(name, f"{pair}: {DIFFER}; if they should, add --outputs ignore")
        self.info[name] = [reply.get("info", {}) for reply in replies]
        self.once_sides.setdefault(name, [reply.get("once", False) for reply in replies])
        return True

    def sample_plan(self, workers: Sequence[Worker], name: str, place: Cores) -> SamplePlan:
        """Return the plan of the side with fewer blocks; each side keeps its plan from the first pair on.

        Sides of similar speed share one plan.
        """
        if self.quantity in MEMORY:
            return SamplePlan(calls=1, samples=1, warm=False)
        if name not in self.side_plans:
            both = list(zip(workers, self.tests[name], self.once_sides[name], strict=True))
            timings = [time_call(worker, test, name, once) for worker, test, once in both]
            plans = [place.plan(timing.call, timing.calls, timing.wall, self.quick) for timing in timings]
            calls = [plan.calls for plan in plans]
            if max(calls) <= 2 * min(calls):  # the first calls after a reset find cold caches: both make equally many
                plans = [min(plans, key=lambda plan: plan.calls)] * 2
            pairs = zip(plans, self.once_sides[name], strict=True)
            self.side_plans[name] = [replace(plan, once=once) for plan, once in pairs]
            self.iterations[name] = [timing.iterations for timing in timings]
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
            how = {"calls": own.calls, "samples": own.samples, "warm": own.warm and changed, "once": own.once}
            workers[side].ask("sample", identity=self.tests[name][side], **how)
            calls = plan.turns * own.calls * own.samples * self.iterations[name][side]
            return float(checked_reply(workers[side], name)["seconds"]) / calls

        with as_case_error(name):
            return checked_block(name, interleaved.block(int(self.rng.random() < 0.5), sample, plan.turns))
