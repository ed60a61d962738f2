"""A pair of workers: whose answers are compared, what is noted of a case, and which case an error belongs to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rlgauge import answer_files
from rlgauge.pairs import CaseError, Cores, Pairs, SamplePlan, cores
from rlgauge.rule import Record
from rlgauge.workers import PYTHON, Side, WorkerError

ONE = Cores((0, 2, 5), 5)
SIDES = Side("base", Path(), PYTHON, ()), Side("head", Path(), PYTHON, ())
READY = {"counters": {}}


class FakeWorker:
    """A worker that gives set replies by the kind of request; it keeps the requests.

    A reply that is an error is raised; one that can be called is, with the request.
    """

    def __init__(self, side, log, **replies):
        self.side, self.log, self.replies = side, log, replies
        self.waiting = []

    def ask(self, do, **what):
        self.log.append((self.side.name, do, what))
        self.waiting.append((do, what))

    def reply(self):
        do, what = self.waiting.pop(0)
        found = self.replies.get(do, {})
        found = found(what) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return found


def couple(base=(), head=()):
    """Return base's and head's workers, and the requests to both."""
    log = []
    return [FakeWorker(side, log, **dict(replies)) for side, replies in zip(SIDES, (base, head))], log


def made(folder=None, *, blocks=1, tolerances=None, known=()):
    return Pairs(SIDES, blocks, 1.0, tolerances or {}, folder, random.Random(0), known)


def answering(*values, counters=None):
    """Return the replies to ``prepare`` of a worker that writes these answers one after the other."""
    left = list(values)

    def prepare(what):
        if what["answer"]:
            answer_files.save(Path(what["answer"]), left.pop(0))
        return {"counters": counters or {}}

    return {"prepare": prepare}


def test_answers_and_counters_come_from_the_first_pair_alone(tmp_path):
    measuring, record = made(tmp_path, tolerances={"a": 0.0}), Record()
    workers, log = couple(answering(1.0, counters={"ops": 3}), answering(1.0, counters={"ops": 4}))
    assert measuring.prepare(workers, "a", record)
    assert (record.answer_changed, record.counters) == (False, ({"ops": 3}, {"ops": 4}))
    log.clear()
    assert measuring.prepare(workers, "a", record)
    assert [(what["answer"], what["counted"]) for _, _, what in log] == [(None, False)] * 2
    assert record.counters == ({"ops": 3}, {"ops": 4})


@pytest.mark.parametrize(("tolerance", "changed"), [(0.2, False), (0.05, True)])
def test_each_case_has_its_own_tolerance(tmp_path, tolerance, changed):
    measuring, record = made(tmp_path, tolerances={"a": tolerance, "b": 0.1}), Record()
    workers, _ = couple(answering(1.0), answering(1.1))
    measuring.prepare(workers, "a", record)
    assert record.answer_changed is changed


@pytest.mark.parametrize(("again", "changed"), [(1.0, True), (3.0, False)])
def test_an_answer_that_base_does_not_repeat_is_not_a_change(tmp_path, again, changed):
    measuring, record = made(tmp_path, tolerances={"a": 0.0}), Record()
    workers, _ = couple(answering(1.0, again), answering(2.0, 1.0))
    measuring.prepare(workers, "a", record)
    assert record.answer_changed
    for _ in range(2):  # in the second pair base is asked again, in the third no more
        measuring.prepare(workers, "a", record)
        assert record.answer_changed is changed


def test_an_answer_that_is_cut_short_is_an_error_of_its_case(tmp_path):
    def cut(what):
        Path(what["answer"]).write_bytes(Path(what["answer"]).read_bytes()[:-1])
        return READY

    whole = answering(1.0)["prepare"]
    workers, _ = couple(answering(1.0), {"prepare": lambda what: whole(what) and cut(what)})
    with pytest.raises(CaseError, match=r"^head\.answer is not a complete answer file: ") as error:
        made(tmp_path, tolerances={"a": 0.0}).prepare(workers, "a", Record())
    assert error.value.name == "a"


FAILED, SKIPPED, ABSENT = {"failed": "why"}, {"skipped": "why"}, {"failed": "long", "absent": "why"}


@pytest.mark.parametrize(
    ("base", "head", "known", "state", "words"),
    [
        (SKIPPED, {"skipped": "other"}, True, "skipped", "other"),
        (READY, FAILED, False, "error", "head: why"),
        (FAILED, SKIPPED, False, "error", "head: skipped: why"),
        (FAILED, READY, True, "error", "base: why"),
        (FAILED, READY, False, "new", "base: why"),
        (SKIPPED, READY, True, "error", "base: skipped: why"),
        (ABSENT, READY, False, "new", "base: why"),
        (ABSENT, READY, True, "error", "base: why, although base lists this benchmark"),
    ],
)
def test_state_of_a_case_that_one_side_cannot_prepare(tmp_path, base, head, known, state, words):
    workers, _ = couple({"prepare": base}, {"prepare": head})
    record = Record()
    assert not made(tmp_path, known={"a"} if known else {"b"}).prepare(workers, "a", record)
    assert (record.state, record.words) == (state, words)


def timing(seconds):
    """Return the replies of a worker whose calls take so many seconds, by case."""
    return {
        "prepare": READY,
        "measure": lambda what: {"calls": 2, "call": seconds[what["identity"]], "wall": seconds[what["identity"]]},
        "sample": lambda what: {"seconds": what["calls"] * what["samples"] * seconds[what["identity"]]},
    }


def test_blocks_hold_seconds_of_base_and_head_and_cases_are_closed(tmp_path):
    measuring = made(tmp_path, blocks=2)
    measuring.seen |= {"a", "b"}
    workers, log = couple(timing({"a": 0.004, "b": 0.004}), timing({"a": 0.008, "b": 0.002}))
    records = {name: Record() for name in "ab"}
    found = measuring.measure_group(workers, records, ["a", "b"], cores(False), thorough=False)
    assert {name: [head / base for base, head in blocks] for name, blocks in found.items()} == {
        "a": pytest.approx([2.0] * 2),
        "b": pytest.approx([0.5] * 2),
    }
    closed = {(side, what["identity"]) for side, do, what in log if do == "close"}
    assert closed == {(side, name) for name in "ab" for side in ("base", "head")}


def test_a_case_that_fails_when_it_is_closed_is_an_error_and_the_others_are_kept(tmp_path):
    measuring = made(tmp_path)
    measuring.seen |= {"a", "b"}
    times, records = timing(dict.fromkeys("ab", 0.004)), {name: Record() for name in "ab"}
    closing = {"close": lambda what: {"failed": "AssertionError"} if what["identity"] == "a" else {}}
    workers, _ = couple(times, times | closing)
    assert measuring.measure_group(workers, records, ["a", "b"], cores(False), thorough=False).keys() == {"b"}
    assert (records["a"].state, records["a"].words) == ("error", "head: AssertionError")
    assert (records["b"].state, records["b"].words) == ("timed", "")


def test_all_pairs_are_timed_by_what_base_took_in_the_first():
    measuring = made()
    (base, _), _ = couple(timing({"a": 0.001}))
    first = measuring.plan(base, "a", ONE)
    assert first == ONE.plan(0.001, 2, 0.001)
    base.replies = timing({"a": 0.1})
    assert measuring.plan(base, "a", ONE) == first
    base.replies = {"measure": {"calls": 1, "call": 0.001, "wall": 0.025}}  # most of it is not timed
    assert measuring.plan(base, "b", ONE) == ONE.plan(0.001, 1, 0.025) != ONE.plan(0.001, 1, 0.001)


def test_a_dose_slows_head_alone():
    def sample(seconds):
        return {"sample": lambda what: {"seconds": seconds + what.get("spin", 0.0)}}

    measuring, (workers, _) = made(), couple(sample(1.0), sample(3.0))
    for _ in range(4):  # whichever side comes first
        assert measuring.block(workers, "a", SamplePlan(7, 3, True), {"spin": 0.5}) == (2.0, 7.0)


@pytest.mark.parametrize("reply", [FAILED, WorkerError("head: why")])
def test_a_failure_while_a_case_is_timed_belongs_to_that_case(reply):
    workers, _ = couple({"sample": {"seconds": 1.0}}, {"sample": reply})
    with pytest.raises(CaseError, match=r"^head: why$") as caught:
        made().block(workers, "a", SamplePlan(1, 1, True))
    assert caught.value.name == "a"


def test_tests_of_a_file_stay_together_in_random_order():
    names = [f"{file}::{test}" for file in "xyz" for test in "abc"]
    measuring, orders = made(), set()
    for _ in range(20):
        drawn = [name for (name,) in measuring.drawn(names)]
        assert sorted(drawn) == names
        files = [name.partition("::")[0] for name in drawn]
        assert [files[k : k + 3] for k in (0, 3, 6)] == [[file] * 3 for file in dict.fromkeys(files)]
        orders.add(tuple(drawn))
    assert len(orders) > 10
