"""A pair of workers: what each is asked and when, what is noted of a case, and who is blamed for what goes wrong."""

from __future__ import annotations

import math
import os
import random
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlgauge import answer_files, pairs
from rlgauge.pairs import CaseError, Cores, PairError, Pairs, SamplePlan, answered, blamed
from rlgauge.rule import Record
from rlgauge.workers import PYTHON, Side, WorkerError

ONE, ALL = Cores((0, 2, 5), 5), Cores((0, 2, 5), None)
SIDES = Side("base", Path(), PYTHON, ()), Side("head", Path(), PYTHON, ())
READY = {"counters": {}}


class Asked:
    """A worker that gives the answers that it is told by what it is asked and for which case; it keeps the questions.

    An answer that is an error is raised; one that can be called is, with what it is asked.
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


def couple(base=(), head=(), log=None):
    """Return base's and head's workers, and what they are asked."""
    log = [] if log is None else log
    return [Asked(side, log, **dict(replies)) for side, replies in zip(SIDES, (base, head))], log


def made(folder=None, *, blocks=1, **how):
    return Pairs(SIDES, blocks, 1.0, how.pop("tolerances", {}), folder, random.Random(0), **how)


def answering(*values, counters=None):
    """Return what a worker replies to ``prepare``, which writes these answers one after the other."""
    left = list(values)

    def prepare(what):
        if what["answer"]:
            answer_files.save(Path(what["answer"]), left.pop(0))
        return {"counters": counters or {}}

    return {"prepare": prepare}


def test_answers_are_compared_and_operations_counted_in_the_first_pair_alone(tmp_path):
    measuring, record = made(tmp_path, tolerances={"a": 0.0}), Record()
    workers, log = couple(answering(1.0, counters={"ops": 3}), answering(1.0, counters={"ops": 4}))
    assert measuring.prepare(workers, "a", record)
    assert (record.answer_changed, record.counters) == (False, ({"ops": 3}, {"ops": 4}))
    assert [(side, what["identity"], what["answer"], what["counted"]) for side, _, what in log] == [
        ("base", "a", str(tmp_path / "base.answer"), True),
        ("head", "a", str(tmp_path / "head.answer"), True),
    ]
    log.clear()
    assert measuring.prepare(workers, "a", record)
    assert [(what["answer"], what["counted"]) for _, _, what in log] == [(None, False)] * 2
    assert record.counters == ({"ops": 3}, {"ops": 4})


@pytest.mark.parametrize(("tolerance", "changed"), [(0.2, False), (0.05, True)])
def test_the_tolerance_is_that_of_the_case(tmp_path, tolerance, changed):
    measuring, record = made(tmp_path, tolerances={"a": tolerance, "b": 0.1}), Record()
    workers, _ = couple(answering(1.0), answering(1.1))
    measuring.prepare(workers, "a", record)
    assert record.answer_changed is changed


@pytest.mark.parametrize(("again", "changed"), [(1.0, True), (3.0, False)])
def test_an_answer_that_base_does_not_give_twice_says_nothing_of_head(tmp_path, again, changed):
    measuring, record = made(tmp_path, tolerances={"a": 0.0}), Record()
    workers, log = couple(answering(1.0, again), answering(2.0, 1.0))
    measuring.prepare(workers, "a", record)
    assert record.answer_changed
    log.clear()
    measuring.prepare(workers, "a", record)
    assert record.answer_changed is changed
    assert [(what["answer"] is None, what["counted"]) for _, _, what in log] == [(False, False)] * 2
    log.clear()
    measuring.prepare(workers, "a", record)  # it is not asked a third time
    assert record.answer_changed is changed
    assert [what["answer"] for _, _, what in log] == [None] * 2


def test_an_answer_that_is_cut_short_is_an_error_of_its_case(tmp_path):
    def cut(what):
        Path(what["answer"]).write_bytes(Path(what["answer"]).read_bytes()[:-1])
        return READY

    whole = answering(1.0)["prepare"]
    workers, _ = couple(answering(1.0), {"prepare": lambda what: whole(what) and cut(what)})
    with pytest.raises(CaseError, match=r"^head\.answer holds no whole answer: ") as error:
        made(tmp_path, tolerances={"a": 0.0}).prepare(workers, "a", Record())
    assert error.value.name == "a"


def test_the_first_answers_of_two_cases_are_kept_apart(tmp_path):
    measuring = made(tmp_path)
    assert measuring.kept_answer("a") != measuring.kept_answer("b")
    assert {measuring.kept_answer(name).parent for name in ("a", "b/c::d[1]")} == {tmp_path}
    assert made(tmp_path).kept_answer("a") == measuring.kept_answer("a")


FAILED, SKIPPED, ABSENT = {"failed": "why"}, {"skipped": "why"}, {"failed": "long", "absent": "why"}


@pytest.mark.parametrize(
    ("base", "head", "known", "found"),
    [
        (READY, READY, True, None),
        (SKIPPED, {"skipped": "other"}, True, ("skipped", "other")),
        (READY, FAILED, False, ("error", "head: why")),
        (READY, SKIPPED, False, ("error", "head: skipped: why")),
        (FAILED, FAILED, False, ("error", "head: why")),
        (FAILED, SKIPPED, False, ("error", "head: skipped: why")),
        (SKIPPED, FAILED, False, ("error", "head: why")),
        (FAILED, READY, True, ("error", "base: why")),
        (FAILED, READY, False, ("new", "base: why")),
        (SKIPPED, READY, False, ("new", "base: skipped: why")),
        (SKIPPED, READY, True, ("error", "base: skipped: why")),
        (ABSENT, READY, False, ("new", "base: why")),
        (ABSENT, READY, True, ("error", "base: why, though base lists this case")),
    ],
)
def test_what_a_case_is_that_one_side_cannot_prepare(base, head, known, found):
    measuring = made(known={"a"} if known else {"b"})
    assert measuring.unlike("a", base, head) == found


def test_a_case_that_cannot_be_prepared_is_noted_and_compared_when_it_can(tmp_path):
    measuring, record = made(tmp_path, tolerances={"a": 0.0}), Record()
    workers, _ = couple({"prepare": FAILED}, {"prepare": READY})
    assert not measuring.prepare(workers, "a", record)
    assert (record.state, record.words) == ("new", "base: why")
    workers, _ = couple(answering(1.0), answering(2.0))
    assert measuring.prepare(workers, "a", record)
    assert record.answer_changed


def timing(seconds):
    """Return what a worker replies to what it is asked of cases of which a call takes so long."""
    return {
        "prepare": READY,
        "measure": lambda what: {"calls": 2, "call": seconds[what["identity"]], "wall": seconds[what["identity"]]},
        "sample": lambda what: {"seconds": what["calls"] * what["samples"] * seconds[what["identity"]]},
    }


@pytest.fixture
def unmoved(monkeypatch):
    """This process stays on its cores. -> where it was moved"""
    moved = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda which, cores: moved.append(set(cores)))
    return moved


def test_a_group_is_prepared_placed_timed_and_closed_on_both_sides(tmp_path, unmoved):
    measuring, log = made(tmp_path, blocks=2), []
    measuring.seen |= {"a", "b"}
    workers, _ = couple(timing({"a": 0.004, "b": 0.004}), timing({"a": 0.008, "b": 0.002}), log)
    records = {name: Record() for name in "ab"}
    found = measuring.measure_group(workers, records, ["a", "b"], ONE, thorough=False)
    assert {name: [head / base for base, head in blocks] for name, blocks in found.items()} == {
        "a": pytest.approx([2.0] * 2),
        "b": pytest.approx([0.5] * 2),
    }
    order = [(side, do) for side, do, _ in log]
    assert (
        order[:8]
        == [(side, do) for do in ("prepare", "prepare", "place") for side in ("base", "head")]
        + [("base", "measure")] * 2
    )
    assert [what for _, do, what in log if do == "place"] == [{"core": 5}] * 2
    assert [(side, what["identity"]) for side, do, what in log if do == "close"] == [
        (side, name) for name in "ab" for side in ("base", "head")
    ]
    assert sum(do == "sample" for _, do in order) == 2 * 2 * 4
    assert order[-4:] == [("base", "close"), ("head", "close")] * 2
    assert unmoved == [{5}, os.sched_getaffinity(0)]


@pytest.mark.usefixtures("unmoved")
def test_a_case_that_fails_when_it_is_closed_is_an_error_and_the_others_are_kept(tmp_path):
    measuring = made(tmp_path)
    measuring.seen |= {"a", "b"}
    times, records = timing(dict.fromkeys("ab", 0.004)), {name: Record() for name in "ab"}
    closing = {"close": lambda what: {"failed": "AssertionError"} if what["identity"] == "a" else {}}
    workers, _ = couple(times, times | closing)
    assert measuring.measure_group(workers, records, ["a", "b"], ONE, thorough=False).keys() == {"b"}
    assert (records["a"].state, records["a"].words) == ("error", "head: AssertionError")
    assert (records["b"].state, records["b"].words) == ("timed", "")


@pytest.mark.usefixtures("unmoved")
def test_only_cases_that_are_prepared_are_timed_and_closed(tmp_path):
    measuring, records = made(tmp_path), {name: Record() for name in "ab"}
    measuring.seen |= {"a", "b"}
    times = timing(dict.fromkeys("ab", 0.004))
    workers, log = couple(times, times | {"prepare": lambda what: FAILED if what["identity"] == "a" else READY})
    assert measuring.measure_group(workers, records, ["a", "b"], ONE, thorough=False).keys() == {"b"}
    assert {what.get("identity") for _, do, what in log if do != "prepare"} == {"b", None}
    assert records["a"].words == "head: why"


def test_a_case_is_timed_the_same_way_in_all_pairs_by_what_base_took_in_the_first():
    measuring = made()
    (base, _), log = couple(timing({"a": 0.001, "b": 0.004}))
    first = measuring.plan(base, "a", ONE)
    assert first == ONE.plan(0.001, 2, 0.001)
    assert measuring.plan(base, "b", ONE) == ONE.plan(0.004, 2, 0.004)
    base.replies = timing({"a": 0.1})
    assert measuring.plan(base, "a", ONE) == first
    assert log == [("base", "measure", {"identity": name}) for name in "ab"]


def test_what_is_not_timed_of_a_call_counts_in_its_plan():
    measuring = made()
    (base, _), _ = couple({"measure": {"calls": 1, "call": 0.001, "wall": 0.025}})
    assert measuring.plan(base, "a", ONE) == ONE.plan(0.001, 1, 0.025) != ONE.plan(0.001, 1, 0.001)
    (base, _), _ = couple({"measure": {"calls": 1, "call": 0.0, "wall": 0.0}})
    assert measuring.plan(base, "nothing", ONE) == ONE.plan(1e-9, 1, 0.0)


@pytest.mark.parametrize(("drawn", "first"), [(0.49, 1), (0.5, 0)])
@pytest.mark.parametrize("warm", [True, False])
def test_a_block_is_of_four_samples_as_the_plan_says_and_head_alone_is_slowed(drawn, first, warm):
    measuring = made()
    measuring.rng = SimpleNamespace(random=lambda: drawn)
    workers, log = couple({"sample": {"seconds": 1.0}}, {"sample": {"seconds": 3.0}})
    assert measuring.block(workers, "a", SamplePlan(7, 3, warm), {"spin": 0.5}) == (2.0, 6.0)
    names, other = SIDES[first].name, SIDES[1 - first].name
    assert [side for side, _, _ in log] == [names, other, other, names]
    for place, (side, do, what) in enumerate(log):
        dose = {"spin": 0.5} if side == "head" else {}
        changed = warm and place != 2
        assert (do, what) == ("sample", {"identity": "a", "calls": 7, "samples": 3, "warm": changed, **dose})


@pytest.mark.parametrize("reply", [FAILED, SKIPPED, WorkerError("why")])
def test_what_happens_over_a_case_is_blamed_on_it(reply):
    workers, _ = couple({"sample": {"seconds": 1.0}}, {"sample": reply})
    with pytest.raises(CaseError, match="^why$" if isinstance(reply, Exception) else "^head: why$") as caught:
        made().block(workers, "a", SamplePlan(1, 1, True))
    assert caught.value.name == "a"


def test_an_answer_without_a_complaint_is_given_on_and_other_errors_are_nobody_s_fault():
    (base, _), _ = couple({"measure": {"calls": 1}})
    base.ask("measure")
    assert answered(base, "a") == {"calls": 1}
    with pytest.raises(ZeroDivisionError), blamed("a"):
        raise ZeroDivisionError


@pytest.mark.parametrize("phase", ["screen", "confirm"])
def test_a_case_that_ends_a_worker_is_an_error_and_the_others_are_measured_again(monkeypatch, phase):
    tried = []

    def measure_pair(self, records, names, place, thorough):
        tried.append((list(names), place, thorough))
        for name in ("b", "c"):
            if name in names:
                raise CaseError(name, f"head: {name} died")
        return {name: [(1.0, 2.0)] for name in names}

    monkeypatch.setattr(Pairs, "measure_pair", measure_pair)
    records = {name: Record() for name in "abcd"} | {"e": Record(state="error", words="before")}
    made().measure(records, list("abcde"), ONE, phase, thorough=True)
    assert tried == [(list(names), ONE, True) for names in ("abcd", "acd", "ad")]
    other = {"screen": "confirm", "confirm": "screen"}[phase]
    assert [getattr(records[name], phase) for name in "abcde"] == [[[(1.0, 2.0)]], [], [], [[(1.0, 2.0)]], []]
    assert all(getattr(record, other) == [] for record in records.values())
    told = [(record.state, record.words) for record in records.values()]
    assert told == [("timed", ""), ("error", "head: b died"), ("error", "head: c died"), ("timed", ""),
                    ("error", "before")]  # fmt: skip


def test_where_no_case_is_left_no_worker_is_started(monkeypatch):
    monkeypatch.setattr(Pairs, "measure_pair", lambda *how: pytest.fail("it was measured"))
    made().measure({"a": Record(state="error")}, ["a"], ONE, "screen")


def test_cases_are_held_one_after_the_other(monkeypatch):
    groups = []

    @contextmanager
    def workers(self, place):
        assert place is ALL
        yield "both"

    def measure_group(self, workers, records, names, place, thorough):
        assert (workers, place, thorough) == ("both", ALL, True)
        groups.append(list(names))
        return {name: [(1.0, float(len(groups)))] for name in names}

    monkeypatch.setattr(Pairs, "workers", workers)
    monkeypatch.setattr(Pairs, "measure_group", measure_group)
    found = made().measure_pair({}, ["x::a", "x::b", "y::c"], ALL, True)
    assert found.keys() == {"x::a", "x::b", "y::c"}
    assert [len(group) for group in groups] == [1, 1, 1]


def test_tests_of_a_file_come_one_after_the_other_in_an_order_that_is_drawn():
    names = [f"{file}::{test}" for file in "xyz" for test in "abc"]
    mixed = random.Random(1).sample(names, len(names))
    measuring, orders, tests = made(), set(), set()
    for _ in range(20):
        drawn = measuring.drawn(mixed)
        assert sorted(name for (name,) in drawn) == names
        files = [name.partition("::")[0] for (name,) in drawn]
        assert [files[k : k + 3] for k in (0, 3, 6)] == [[file] * 3 for file in dict.fromkeys(files)]
        orders.add(tuple(dict.fromkeys(files)))
        tests.add(tuple(name for (name,) in drawn if name.startswith("x")))
    assert len(orders) > 2 < len(tests)


@pytest.fixture
def starting(monkeypatch):
    """Start workers of which nothing is run. -> what was done, what they do at which request, and their hash seeds"""
    log, does, seeds = [], {}, []

    class Started:
        def __init__(self, side, cores, threads, limit):
            self.side = side
            log.append(("start", side.name, cores, threads, limit))
            seeds.append(side.environment()["PYTHONHASHSEED"])

        def __enter__(self):
            return self

        def __exit__(self, *error):
            log.append(("end", self.side.name))

        def ask(self, do):
            log.append((do, self.side.name))

        def reply(self):
            if "hello" in does:
                raise does["hello"]
            return {}

        def finish(self):
            log.append(("finish", self.side.name))

    monkeypatch.setattr(pairs, "Worker", Started)
    return log, does, seeds


def test_the_side_that_starts_first_and_its_core_are_drawn_and_base_stays_first(starting):
    log, *_ = starting
    measuring, seen = made(), set()
    for _ in range(20):
        log.clear()
        with measuring.workers(ONE) as (base, head):
            assert (base.side.name, head.side.name) == ("base", "head")
            log.append("measured")
        (_, first, *one), (_, second, *other) = log[:2]
        assert (one, other) == ([(0,), 1, 1.0], [(2,), 1, 1.0])
        assert log[2:5] == [("hello", "base"), ("hello", "head"), "measured"]
        assert log[5:] == [("finish", "base"), ("finish", "head"), ("end", second), ("end", first)]
        seen.add((first, second))
    assert seen == {("base", "head"), ("head", "base")}


def test_workers_of_all_cores_have_as_many_threads(starting):
    log, *_ = starting
    with made().workers(ALL):
        assert [start[2:] for start in log[:2]] == [((0, 2, 5), 3, 1.0)] * 2


def test_both_sides_of_a_pair_have_one_hash_seed_and_each_pair_another(starting):
    *_, seeds = starting
    measuring = made()
    for _ in range(2):
        with measuring.workers(ONE):
            pass
    first, second, third, fourth = seeds
    assert first == second != third == fourth


def test_a_worker_that_does_not_start_is_an_error_of_the_pair_and_none_is_left(starting):
    log, does, _ = starting
    does["hello"] = WorkerError("base: ended with code 1")
    with pytest.raises(PairError, match=r"^base: ended with code 1$"), made().workers(ONE):
        pytest.fail("it started")
    assert {name for what, name, *_ in log if what == "end"} == {"base", "head"}


def test_the_cores_of_a_pass(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda which: {3, 1, 2})
    assert (pairs.cores(False), pairs.cores(True)) == (Cores((1, 2, 3), 3), Cores((1, 2, 3), None))
    assert (ONE.threads, ALL.threads, ONE.least, ALL.least) == (1, 3, 0.005, 0.04)
    assert [ONE.at_start(side) for side in range(2)] == [(0,), (2,)]
    assert [Cores((4,), 4).at_start(side) for side in range(2)] == [(4,)] * 2
    assert [ALL.at_start(side) for side in range(2)] == [(0, 2, 5)] * 2


@pytest.mark.parametrize(("call", "warm"), [(0.0149, True), (0.015, False)])
def test_a_long_call_on_one_core_needs_no_warm_up(call, warm):
    assert ONE.plan(call, 1).warm is warm
    assert ALL.plan(call, 1).warm


@pytest.mark.parametrize(("wall", "samples"), [(0.0019, 5), (0.002, 5), (0.04, 2), (0.2, 1)])
def test_a_turn_is_shorter_where_more_than_half_of_a_call_is_not_timed(wall, samples):
    assert ONE.plan(0.001, 1, wall).samples == samples
    assert ONE.plan(0.001, 1, 0.0005) == ONE.plan(0.001, 1)


def test_the_blocks_of_a_pair_that_is_not_thorough_take_half_a_second():
    plan = ONE.plan(0.004, 1)  # a turn of 3 calls with the one that warms up; a block of 48 ms
    assert (plan.samples, plan.more_blocks, plan.most_blocks) == (2, 10, 125)
    assert ONE.plan(1.0, 1).more_blocks == 0


def test_blocks_are_sure_up_to_an_error_of_a_hundredth():
    def apart(by):
        return [(1.0, math.exp(value)) for value in (-by, by)]

    edge = 0.01 * math.sqrt(2) / (1.2533 * 1.4826)
    assert pairs.sure(apart(0.999 * edge))
    assert not pairs.sure(apart(1.001 * edge))
    assert pairs.sure(apart(0.0))


@pytest.mark.parametrize(("wall", "samples"), [(0.05, 2), (0.06, 2), (0.0601, 1), (0.09, 1)])
def test_a_turn_on_all_cores_is_shorter_from_half_of_a_call_on(wall, samples):
    assert ALL.plan(0.03, 1, wall).samples == samples
