"""Pairs of workers: which outputs are compared, the state of each case, and the case to which an error belongs."""

import math
import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from rlgauge import output_files
from rlgauge.pairs import CaseError, Pairs
from rlgauge.plan import Plan
from rlgauge.power import slowed_blocks
from rlgauge.rule import GateError, Record
from rlgauge.sampling import Cores, SamplePlan, cores
from rlgauge.two_tests import TwoTestPairs
from rlgauge.workers import PYTHON, Side, WorkerError

ONE = Cores((0, 2, 5), 5)
SIDES = Side("base", Path(), PYTHON, ()), Side("head", Path(), PYTHON, ())
READY = {}


class FakeWorker:
    """A worker that logs its requests and has a fixed reply to each kind of request.

    A reply that is an exception is raised, and a callable one is called with the request.
    """

    def __init__(self, side, log, **replies):
        self.side, self.log, self.replies = side, log, replies
        self.waiting = []

    def ask(self, do, **request):
        self.log.append((self.side.name, do, request))
        self.waiting.append((do, request))

    def reply(self):
        do, request = self.waiting.pop(0)
        reply = self.replies.get(do, {})
        reply = reply(request) if callable(reply) else reply
        if isinstance(reply, Exception):
            raise reply
        return reply


def workers_of(base=(), head=()):
    """Return fake workers of base and head, and the log of their requests."""
    log = []
    return [FakeWorker(side, log, **dict(replies)) for side, replies in zip(SIDES, (base, head))], log


def pairs_of(folder=None, *, blocks=1, tolerances=None, known=()):
    return Pairs(SIDES, blocks, 1.0, tolerances or {}, folder, random.Random(0), known)


def returning(*values):
    """Return the replies of a worker whose successive ``prepare`` requests save these outputs."""
    remaining = list(values)

    def prepare(request):
        if request["output"]:
            output_files.save(Path(request["output"]), remaining.pop(0))
        return READY

    return {"prepare": prepare}


def test_outputs_and_exact_counts_are_requested_in_the_first_pair_alone(tmp_path):
    pairs, record = pairs_of(tmp_path, tolerances={"a": 0.0}), Record()
    workers, log = workers_of(returning(1.0), returning(1.0))
    for _ in range(2):
        assert pairs.prepare(workers, "a", record)
    asked = [(request["output"] is not None, request["exact"]) for _, _, request in log]
    assert asked == [(True, True)] * 2 + [(False, False)] * 2
    assert not record.output_changed


def test_an_output_that_is_ignored_is_not_requested(tmp_path):  # saving a lazy array may be costly
    pairs, record = pairs_of(tmp_path, tolerances={"a": math.inf}), Record()
    workers, log = workers_of(returning(), returning())
    assert pairs.prepare(workers, "a", record)
    assert [request["output"] for _, _, request in log] == [None, None]
    assert not record.output_changed


@pytest.mark.parametrize(("again", "changed"), [(1.0, True), (3.0, False)])
def test_an_output_that_base_does_not_repeat_is_not_a_change(tmp_path, again, changed):
    pairs, record = pairs_of(tmp_path, tolerances={"a": 0.0}), Record()
    workers, _ = workers_of(returning(1.0, again, again), returning(2.0, 1.0, 1.0))
    pairs.prepare(workers, "a", record)
    assert record.output_changed
    for _ in range(2):
        pairs.prepare(workers, "a", record)
        assert record.output_changed is changed


FAILED, SKIPPED, ABSENT = {"failed": "why"}, {"skipped": "why"}, {"failed": "long", "absent": "why"}
OWN = "; to run base's own version of this benchmark, add --gate-own-benchmarks"


@pytest.mark.parametrize(
    ("base", "head", "known", "state", "words"),
    [
        (SKIPPED, {"skipped": "other"}, True, "skipped", "other"),
        (READY, FAILED, False, "error", "head: why"),
        (FAILED, SKIPPED, False, "error", "head: skipped: why"),
        (FAILED, READY, True, "error", "base: why"),
        (FAILED, READY, False, "new", "base: why"),
        (SKIPPED, READY, True, "new", "base: skipped: why"),
        (ABSENT, READY, False, "new", "base: why"),
        (ABSENT, READY, True, "error", f"base: why{OWN}"),
    ],
)
def test_state_of_a_case_that_one_side_cannot_prepare(tmp_path, base, head, known, state, words):
    workers, _ = workers_of({"prepare": base}, {"prepare": head})
    record = Record()
    assert not pairs_of(tmp_path, known={"a"} if known else {"b"}).prepare(workers, "a", record)
    assert (record.state, record.words) == (state, words)


def test_an_injected_slowdown_slows_head_alone():
    def sample(seconds):
        return {"sample": lambda request: {"seconds": seconds + request["injected_slowdown"]}}

    pairs, (workers, log) = pairs_of(), workers_of(sample(1.0), sample(3.0))
    for _ in range(20):
        assert pairs.block(workers, "a", SamplePlan(7, 3, True), 0.5) == (2.0, 7.0)
    assert 4 < [side for side, _, _ in log[::4]].count("base") < 16, "the first side is drawn for each block"


def test_a_timer_that_does_not_advance_is_an_error_of_the_case():
    pairs, (workers, _) = pairs_of(), workers_of({"sample": {"seconds": 0.0}}, {"sample": {"seconds": 1.0}})
    with pytest.raises(CaseError, match="a sample took no time by its timer, which is too coarse"):
        pairs.block(workers, "a", SamplePlan(7, 3, True))


@pytest.mark.parametrize("calls", [1, 10])  # five samples of a call, or one of ten
def test_power_slows_each_call_of_a_turn_by_the_fraction(calls):
    def sample(request):
        return {"seconds": 0.001 * request["calls"] * request["samples"] + request["injected_slowdown"]}

    replies = {"measure": {"calls": calls, "call": 0.001, "wall": 0.001}, "sample": sample}
    workers, _ = workers_of(replies, replies)
    _, blocks = slowed_blocks(pairs_of(), workers, "a", cores(False), {"none": 0.0, "half": 0.5})
    ratios = {name: head / base for name, ((base, head),) in blocks.items()}
    assert ratios == pytest.approx({"none": 1.0, "half": 1.5})


@pytest.mark.parametrize(
    ("end", "words"), [({"failed": "head: why"}, "a: head: why; fix the test"), ({"skipped": "x"}, "")]
)
def test_power_refuses_a_test_that_fails_at_its_end(end, words):
    replies = {"measure": {"calls": 1, "call": 0.001, "wall": 0.001}, "sample": {"seconds": 1.0}}
    workers, _ = workers_of(replies, replies | {"close": end})
    with pytest.raises(GateError, match=f"^{words}") if words else nullcontext():
        slowed_blocks(pairs_of(), workers, "a", cores(False), {"none": 0.0})


@pytest.mark.parametrize(("slower", "calls"), [(1, 5000), (4, 5000), (1000, 5), (10**6, 1)])
def test_a_head_that_is_much_slower_gets_fewer_calls_per_sample(slower, calls):
    def timed(call):
        return {"measure": {"call": call, "calls": max(1, round(0.005 / call)), "wall": call}}

    workers, _ = workers_of(timed(1e-6), timed(1e-6 * slower))
    plan = pairs_of().sample_plan(workers, "a", ONE)
    assert (plan.calls, plan.samples) == (calls, 1)


@pytest.mark.parametrize("reply", [FAILED, WorkerError("head: why")])
def test_a_failure_while_a_case_is_timed_belongs_to_that_case(reply):
    workers, _ = workers_of({"sample": {"seconds": 1.0}}, {"sample": reply})
    with pytest.raises(CaseError, match=r"^head: why$") as caught:
        pairs_of().block(workers, "a", SamplePlan(1, 1, True))
    assert caught.value.name == "a"


@pytest.mark.parametrize(("minutes", "turns"), [(0.0, 1), (1.0, 4)])
def test_calls_of_seconds_get_one_turn_and_no_warm_up_in_a_quick_comparison(minutes, turns):
    pairs = TwoTestPairs(SIDES, Plan(minutes=minutes), {"a": 0.0}, Path(), {"a": ("x", "y")}, [])
    workers, log = workers_of(
        *({"measure": {"call": call, "calls": 1, "wall": call}, "sample": {"seconds": call}} for call in (2.0, 3.0))
    )
    for first in (True, False):
        log.clear()
        blocks = pairs.measure_case(workers, "a", Record(), cores(False), thorough=False)
        assert blocks == [(2.0, 3.0)] * len(blocks)
        assert [do for _, do, _ in log].count("sample") == 2 * turns
        assert [request["warm"] for _, do, request in log if do == "prepare"] == [first or turns > 1] * 2


@pytest.mark.parametrize(("wall", "blocks"), [(0.001, 8), (0.1, 2)])
def test_a_comparison_of_calls_with_a_long_set_up_takes_fewer_blocks(wall, blocks):
    pairs = TwoTestPairs(SIDES, Plan(blocks=8), {"a": 0.0}, Path(), {"a": ("x", "y")}, [])
    replies = {"measure": {"call": 0.001, "calls": 5, "wall": wall}, "sample": {"seconds": 0.005}}
    workers, _ = workers_of(replies, replies)
    assert len(pairs.measure_case(workers, "a", Record(), cores(False), thorough=True)) == blocks
