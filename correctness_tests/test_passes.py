"""A plain run: passes over all benchmarks, what counts of their samples, what is taken again, what fails alone."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from statistics import median

import pytest

from perf_tests import passes
from perf_tests.gate.workers import WorkerError
from perf_tests.passes import AGAIN, PASSES, SCATTER, Bench, Run, Timed
from perf_tests.suite.cases import variants

NUMPY = "pirl.forward[full-numpy-batch{}-iohost-hidden32]"
ONE = variants()[NUMPY.format(32)]


def sample(seconds, waited=0.0, stolen=0.0, others=0.0, busy=None):
    busy = seconds if busy is None else busy
    return {
        "seconds": seconds, "waited": waited, "stolen": stolen, "others": others, "cpu": seconds, "switches": 0,
        "busy": busy,
    }  # fmt: skip


def timed(*visits, calls=1, variant=ONE):
    return Timed(variant, calls=calls, visits=[list(visit) for visit in visits])


QUIET = [sample(0.010), sample(0.011), sample(0.012)]
LOUD = [sample(0.030, waited=0.02), sample(0.020, waited=0.01), sample(0.010)]


def test_undisturbed_visits_count_whole():
    found = timed(QUIET, QUIET).figures()
    assert found["seconds_per_call"] == 0.011
    assert (found["low"], found["high"]) == (0.011 * (1 - SCATTER), 0.011 * (1 + SCATTER))
    assert (found["samples"], found["disturbed"]) == (6, 0.0)


def test_disturbed_samples_do_not_count_where_enough_are_not():
    found = timed(QUIET, LOUD, QUIET).figures()
    assert found["samples"] == 7
    assert found["disturbed"] == 0.0
    assert found["high"] == 0.011 * (1 + SCATTER)
    assert found["low"] == 0.010 * (1 - SCATTER)


def test_where_most_visits_are_disturbed_all_samples_count_and_the_row_says_so():
    worse = [sample(0.03, others=0.5)] * 3
    found = timed(QUIET, worse, worse).figures()
    assert found["samples"] == 9
    assert found["disturbed"] == pytest.approx(6 / 9)
    assert found["high"] == 0.03 * (1 + SCATTER)


def test_passes_are_the_medians_of_the_visits_and_none_where_all_is_disturbed():
    loud = [sample(0.03, others=0.5)] * 3
    assert timed(QUIET, loud, QUIET, QUIET, QUIET, QUIET).figures()["passes"] == [0.011, None, 0.011, 0.011, 0.011]


def test_stolen_time_disturbs_as_waiting_does():
    assert timed([sample(0.01, stolen=0.01), sample(0.01)]).dirty() == 1


def test_what_is_read_of_a_sample_is_a_part_of_all_its_calls():
    samples = [sample(0.0001, waited=0.001), sample(0.0001), sample(0.0001)]
    assert timed(samples, calls=1000).dirty() == 0
    assert timed(samples, calls=10).dirty() == 1


def test_an_op_may_wait_for_threads_of_its_own_as_long_as_it_usually_does():
    usual = [sample(0.01, waited=0.005), sample(0.01, waited=0.0051), sample(0.01, waited=0.006)]
    assert timed(usual).dirty() == 0
    assert timed([*usual, sample(0.02, waited=0.03)]).dirty() == 1


def test_a_run_that_was_disturbed_all_the_time_is_not_taken_for_a_quiet_one():
    assert timed([sample(0.03, others=0.5)] * 3, [sample(0.03, others=0.5)] * 3).figures()["disturbed"] == 1.0


def visits_of(*others, variant=ONE):
    """Return what is noted of visits of 0.1 s in which others took such parts of a core."""
    noted, seen = passes.Others(), []
    for part in others:
        one = timed([sample(0.1, busy=0.1 * (1 + part))], variant=variant)
        noted.note(one)
        seen.append(one.visits[0][0]["others"])
    return seen


def test_what_others_took_is_that_of_the_last_half_second():
    assert visits_of(*[0.0] * 5, *[1.0] * 6, *[0.0] * 6) == pytest.approx(
        [0, 0, 0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 0.8, 0.6, 0.4, 0.2, 0, 0], abs=0.001
    )


def test_a_single_tick_of_the_machines_clock_disturbs_nothing():
    noted = passes.Others()
    one = timed([sample(0.01, busy=0.02)])
    noted.note(one)
    assert one.dirty() == 0


def test_what_a_benchmarks_own_processes_take_disturbs_nothing():
    assert visits_of(1.0, 1.0, variant=replace(ONE, case=replace(ONE.case, multicore=True))) == [0.0, 0.0]


@pytest.mark.parametrize(("calls", "most", "short"), [(1, None, True), (16, None, False), (1, 1, False), (2, 4, True)])
def test_samples_are_short_where_the_calls_were_measured_in_a_loud_moment(calls, most, short):
    variant = replace(ONE, case=replace(ONE.case, most_calls=most))
    assert timed([sample(0.001)] * 3, calls=calls, variant=variant).short() is short


class Scripted:
    """Stands for the process of a backend: answers at once, disturbed as often as it is told."""

    def __init__(self, script):
        self.script, self.asked, self.ended = script, [], False

    def ask(self, do, identity, **arguments):
        self.asked.append((do, identity))
        self.reply = lambda: self.answer(do, identity, **arguments)

    def answer(self, do, identity, samples=0, **_):
        if do == "prepare":
            return {"counters": {}}
        if do == "calls":
            return {"calls": 1}
        visit = self.script(identity, sum(asked == ("visit", identity) for asked in self.asked))
        if isinstance(visit, Exception):
            raise visit
        return {"samples": visit[:samples], "stats": {}, "phases": {}}

    def __exit__(self, *_):
        self.ended = True


def scripted_run(monkeypatch, script, names, rounds=15):
    """Measure with scripted workers; return the run, the workers, and the lines shown."""
    workers = []

    def start(self):
        self.worker, self.prepared = Scripted(script), set()
        workers.append(self.worker)

    monkeypatch.setattr(Bench, "start", start)
    shown = []
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=rounds, tell=shown.append)
    run.measure(lambda one: f"{one.variant.id}: first")
    return run, workers, shown


NAMES = [NUMPY.format(batch) for batch in (1, 32, 2048)]


def test_every_benchmark_is_visited_once_in_every_pass(monkeypatch):
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: QUIET, NAMES)
    visits = [name for do, name in worker.asked if do == "visit"]
    assert len(visits) == PASSES * len(NAMES)
    for number in range(PASSES):
        assert sorted(visits[number * len(NAMES) : (number + 1) * len(NAMES)]) == sorted(NAMES)
    assert worker.ended
    assert all(len(one.visits) == PASSES and not one.failure for one in run.timed.values())


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 7, 15, 30])
def test_a_run_takes_as_many_samples_as_it_is_asked_for_or_a_few_more(monkeypatch, rounds):
    run, _, _ = scripted_run(monkeypatch, lambda *_: QUIET * 2, NAMES[:1], rounds)
    (one,) = run.timed.values()
    taken = sum(map(len, one.visits))
    assert rounds <= taken < rounds + PASSES
    assert len(one.visits) <= PASSES


def test_what_was_disturbed_is_visited_again_and_nothing_else(monkeypatch):
    worse = [sample(0.03, stolen=0.02)] * 3

    def script(name, visit):
        return worse if name == NAMES[1] and visit <= 3 else QUIET

    run, (worker,), _ = scripted_run(monkeypatch, script, NAMES)
    visits = [name for do, name in worker.asked if do == "visit"]
    assert [visits.count(name) for name in NAMES] == [PASSES, PASSES + 1, PASSES]
    assert run.timed[NAMES[1]].figures()["disturbed"] == 0.0
    assert run.timed[NAMES[1]].figures()["high"] == 0.011 * (1 + SCATTER)
    found = run.loudness()
    assert (found["share"], found["retaken"], found["left"]) == (9 / 45, 3, 0)


def test_a_machine_that_stays_loud_is_given_up_and_said_so(monkeypatch):
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: [sample(0.03, stolen=0.02)] * 3, NAMES[:1])
    assert len([do for do, _ in worker.asked if do == "visit"]) == PASSES + AGAIN
    assert run.loudness()["left"] == 1
    assert "100.0 % of 15 samples disturbed by other programs" in run.loudness()["text"]
    assert "1 of 1 benchmarks stayed disturbed" in run.loudness()["text"]


def test_a_benchmark_that_ends_its_process_fails_alone(monkeypatch):
    def script(name, visit):
        return WorkerError("head: killed by SIGKILL") if (name, visit) == (NAMES[1], 1) else QUIET

    run, workers, _ = scripted_run(monkeypatch, script, NAMES)
    assert run.timed[NAMES[1]].failure == {"failed": "head: killed by SIGKILL"}
    for name in (NAMES[0], NAMES[2]):
        assert len(run.timed[name].visits) == PASSES
        assert not run.timed[name].failure
    assert len(workers) == 2
    assert all(worker.ended for worker in workers)


def test_where_nothing_can_run_nothing_is_visited(monkeypatch):
    monkeypatch.setattr(Scripted, "answer", lambda self, do, identity, **_: {"failed": "no device"})
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: QUIET, NAMES)
    assert {do for do, _ in worker.asked} == {"prepare"}
    assert [one.failure for one in run.timed.values()] == [{"failed": "no device"}] * len(NAMES)
    assert run.loudness()["share"] == 0


def test_calls_are_measured_again_where_the_first_samples_are_too_short(monkeypatch):
    short = [sample(0.0001)] * 3
    run, (worker,), _ = scripted_run(monkeypatch, lambda name, visit: short if visit == 1 else QUIET, NAMES[:1])
    assert [do for do, _ in worker.asked if do == "calls"] == ["calls"] * 2
    (one,) = run.timed.values()
    assert len(one.visits) == PASSES
    assert median(s["seconds"] for visit in one.visits for s in visit) == 0.011


def test_what_starts_threads_is_timed_in_a_process_apart(monkeypatch):
    threaded = "snake.collect_and_learn[threaded-torch-envs64-every4-batch32]"
    torch = NUMPY.format(1).replace("numpy", "torch")
    _, workers, _ = scripted_run(monkeypatch, lambda *_: QUIET, [torch, threaded, "pirl.serve[naive-torch-clients32]"])
    assert [{name for _, name in worker.asked} for worker in workers] == [
        {threaded, "pirl.serve[naive-torch-clients32]"},
        {torch},
    ]


def test_rows_appear_as_they_are_measured_with_done_of_total(monkeypatch):
    _, _, shown = scripted_run(monkeypatch, lambda *_: QUIET, NAMES)
    first = [line for line in shown if line.endswith(": first")]
    assert len(first) == len(NAMES)
    assert first[0].startswith(f"[1/{PASSES * len(NAMES)}, about ")


def test_what_does_not_fit_into_memory_is_measured_afterwards(monkeypatch):
    monkeypatch.setattr(passes, "free_memory", lambda: 0.0)
    run, workers, _ = scripted_run(monkeypatch, lambda *_: QUIET, NAMES)
    assert len(workers) == len(NAMES)
    assert all(len(one.visits) == PASSES for one in run.timed.values())


def test_rows_that_are_compared_are_visited_together():
    names = [
        f"pirl.forward[full-{b}-batch{n}-iohost-hidden32]" for n in (1, 32, 2048) for b in ("numpy", "torch", "jax")
    ]
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=1, tell=print)
    orders = set()
    for _ in range(20):
        batches = [one.variant.axes["batch"] for one in run.shuffled(run.timed.values())]
        assert all(len(set(batches[k : k + 3])) == 1 for k in (0, 3, 6))
        orders.add(tuple(batches))
    assert len(orders) > 1


@pytest.fixture
def started(monkeypatch):
    """Note the workers that are started."""
    workers, start = [], Bench.start

    def noted(self):
        start(self)
        workers.append(self.worker)

    monkeypatch.setattr(Bench, "start", noted)
    return workers


def test_a_real_run_times_reports_and_leaves_no_process(started):
    names = [NUMPY.format(1), "snake.collect_and_learn[full-torch-envs1-every4-batch32]"]
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=2, tell=lambda line: None)
    run.measure(lambda one: one.variant.id)
    small, loop = (run.timed[name] for name in names)
    assert small.calls > 50
    assert loop.calls == 1
    assert small.counters["allocated_bytes"] > 0
    assert {"environment", "learning"} <= loop.said["phases"].keys()
    for one in (small, loop):
        assert all(taken.keys() >= {"seconds", "cpu", "waited", "switches", "stolen"} for taken in one.visits[0])
    assert len(started) == 2
    assert all(worker.process.poll() is not None for worker in started)


def test_an_interrupt_leaves_no_process(monkeypatch, started):
    def interrupted(self, *_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "take", interrupted)
    run = Run([ONE], threads=1, seed=0, rounds=1, tell=lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        run.measure(lambda one: "")
    assert len(started) == 1
    assert all(worker.process.poll() is not None for worker in started)
