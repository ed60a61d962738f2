"""A plain run: passes over all benchmarks, what counts of their samples, what is taken again, what fails alone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from dataclasses import replace

import pytest

from perf_tests import passes
from perf_tests.gate.worker import one_thread
from perf_tests.passes import AGAIN, Bench, Run
from perf_tests.report.order import SCATTER
from perf_tests.rows import row
from perf_tests.suite.cases import variants
from perf_tests.timed import Timed
from rlgauge import workers
from rlgauge.workers import Worker, WorkerError

NUMPY = "pirl.forward[full-numpy-batch{}-iohost-hidden32]"
ONE = variants()[NUMPY.format(32)]
ROUNDS = 8
LIMITS = {"threads": 1.0, "float32_flops": 1e11, "bfloat16_flops": 1e11, "copy_bytes": 1e10}


def sample(seconds, waited=0.0, stolen=0.0, others=0.0, busy=None, calls=1):
    busy = seconds if busy is None else busy
    return {
        "seconds": seconds, "calls": calls, "waited": waited, "stolen": stolen, "others": others, "cpu": seconds,
        "switches": 0, "busy": busy, "pace": 1e-4,
    }  # fmt: skip


def timed(*samples, calls=1, variant=ONE):
    return Timed(variant, calls=calls, samples=dict(enumerate(samples)))


QUIET = [sample(0.010), sample(0.011), sample(0.012)]


def test_undisturbed_samples_count():
    found = timed(*QUIET).figures()
    assert found["seconds_per_call"] == 0.011
    assert (found["low"], found["high"]) == (0.010 * (1 - SCATTER), 0.012 * (1 + SCATTER))
    assert (found["samples"], found["disturbed"]) == (3, 0.0)
    assert found["spread"] == pytest.approx(0.001 / 0.011)


def test_of_many_samples_the_interval_is_that_of_the_median():
    found = timed(*(sample(0.010 + 0.001 * k) for k in range(10))).figures()
    assert 0.010 < found["low"] / (1 - SCATTER) < found["seconds_per_call"] < found["high"] / (1 + SCATTER) < 0.019


def test_disturbed_samples_do_not_count_where_enough_are_not():
    found = timed(*QUIET, sample(0.020, waited=0.01), sample(0.030, others=0.5)).figures()
    assert (found["samples"], found["disturbed"]) == (3, 0.0)
    assert found["seconds_per_call"] == 0.011
    assert found["high"] == 0.012 * (1 + SCATTER)


def test_where_most_samples_are_disturbed_all_count_and_the_row_says_so():
    found = timed(*QUIET, *[sample(0.03, others=0.5)] * 6).figures()
    assert found["samples"] == 9
    assert found["disturbed"] == pytest.approx(6 / 9)
    assert found["seconds_per_call"] == 0.03


def test_passes_are_the_seconds_in_each_and_none_where_it_is_disturbed_or_missing():
    one = timed(sample(0.010), sample(0.030, others=0.5), sample(0.012))
    one.samples[4] = sample(0.013)
    assert one.figures()["passes"] == [0.010, None, 0.012, None, 0.013]


def dirty(one):
    return len(one.samples) - len(one.clean())


def test_stolen_time_disturbs_as_waiting_does():
    assert dirty(timed(sample(0.01, stolen=0.01), sample(0.01))) == 1


def test_what_is_read_of_a_sample_is_a_part_of_all_its_calls():
    for calls, wanted in ((1000, 0), (10, 1)):
        samples = [sample(0.0001, waited=waited, calls=calls) for waited in (0.001, 0.0, 0.0)]
        assert dirty(timed(*samples)) == wanted


def test_an_op_may_wait_for_threads_of_its_own_as_long_as_it_usually_does():
    usual = [sample(0.01, waited=0.005), sample(0.01, waited=0.0051), sample(0.01, waited=0.006)]
    assert dirty(timed(*usual)) == 0
    assert dirty(timed(*usual, sample(0.02, waited=0.03))) == 1


def test_a_run_that_was_disturbed_all_the_time_is_not_taken_for_a_quiet_one():
    assert timed(*[sample(0.03, others=0.5)] * 6).figures()["disturbed"] == 1.0


def visits_of(*others, variant=ONE):
    """Return what is noted of visits of 0.1 s in which others took such parts of a core."""
    noted, seen = passes.Others(), []
    for part in others:
        one = timed(sample(0.1, busy=0.1 * (1 + part)), variant=variant)
        noted.note(one, 0)
        seen.append(one.samples[0]["others"])
    return seen


def test_what_others_took_is_that_of_the_last_three_tenths_of_a_second():
    assert visits_of(*[0.0] * 5, *[1.0] * 6, *[0.0] * 6) == pytest.approx(
        [0, 0, 0, 0, 0, 1 / 3, 2 / 3, 1, 1, 1, 1, 2 / 3, 1 / 3, 0, 0, 0, 0], abs=0.001
    )


def test_a_single_tick_of_the_machines_clock_disturbs_nothing():
    noted = passes.Others()
    one = timed(sample(0.01, busy=0.02))
    noted.note(one, 0)
    assert dirty(one) == 0


def test_what_a_benchmarks_own_processes_take_disturbs_nothing():
    assert visits_of(1.0, 1.0, variant=replace(ONE, case=replace(ONE.case, cores="own"))) == [0.0, 0.0]


PREPARED = []  # and whether beside others


class Scripted:
    """Stands for the process of a backend: answers at once, disturbed as often as it is told."""

    def __init__(self, script):
        self.script, self.asked, self.ended = script, [], False

    def ask(self, do, identity, **arguments):
        self.asked.append((do, identity))
        if do == "prepare":
            PREPARED.append((identity, arguments["beside"]))
        self.reply = lambda: self.answer(do, identity, **arguments)

    def answer(self, do, identity, calls=0, **_):
        if do == "prepare":
            return {"counters": {}, "first_answer": float(len(self.asked))}
        if do == "calls":
            return {"calls": 1}
        taken = self.script(identity, sum(asked == ("visit", identity) for asked in self.asked))
        if isinstance(taken, Exception):
            raise taken
        return {"sample": {**taken, "calls": calls}, "stats": {}, "phases": {}}

    def __exit__(self, *_):
        self.ended = True


def scripted_run(monkeypatch, script, names, rounds=ROUNDS):
    """Measure with scripted workers; return the run, the workers, and the lines shown."""
    workers, shown = [], []

    def worker(*_):
        workers.append(Scripted(script))
        return workers[-1]

    monkeypatch.setattr(passes, "Worker", worker)
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=rounds, log=shown.append)
    run.measure(lambda one: f"{one.variant.id}: first")
    return run, workers, shown


NAMES = [NUMPY.format(batch) for batch in (1, 32, 2048)]
USUAL, STOLEN = sample(0.011), sample(0.03, stolen=0.02)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 10])
def test_every_benchmark_is_timed_once_in_every_pass(monkeypatch, rounds):
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: USUAL, NAMES, rounds)
    visits = [name for do, name in worker.asked if do == "visit"]
    assert len(visits) == rounds * len(NAMES)
    for number in range(rounds):
        assert sorted(visits[number * len(NAMES) : (number + 1) * len(NAMES)]) == sorted(NAMES)
    assert worker.ended
    assert all(list(one.samples) == list(range(rounds)) and not one.failure for one in run.timed.values())


def test_long_calls_are_timed_in_every_other_pass(monkeypatch):
    script = lambda name, visit: sample(0.2) if name == NAMES[1] else USUAL  # noqa: E731
    run, _, _ = scripted_run(monkeypatch, script, NAMES)
    assert [list(run.timed[name].samples) for name in NAMES] == [
        list(range(ROUNDS)), list(range(0, ROUNDS, 2)), list(range(ROUNDS)),
    ]  # fmt: skip
    assert run.again == 0


def test_what_was_disturbed_is_timed_again_with_what_it_is_compared_with_and_nothing_else(monkeypatch):
    full, naive = "snake.sample[full-numpy-batch32]", "snake.sample[naive-numpy-batch32]"
    names = [NAMES[0], full, naive]

    def script(name, visit):
        return STOLEN if name == full and visit <= 5 else sample(0.022) if name == naive else USUAL

    run, (worker,), _ = scripted_run(monkeypatch, script, names)
    visits = [name for do, name in worker.asked if do == "visit"]
    assert [visits.count(name) for name in names] == [ROUNDS, ROUNDS + 2, ROUNDS + 2]
    found = run.timed[full].figures()
    assert found["disturbed"] == 0.0
    assert found["high"] == 0.011 * (1 + SCATTER)
    assert found["passes"] == [None] * 5 + [0.011] * (ROUNDS - 3)
    loud = run.loudness()
    assert (loud["share"], loud["retaken"], loud["left"]) == (5 / 24, 4, 0)


def test_a_machine_that_stays_loud_is_given_up_and_said_so(monkeypatch):
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: STOLEN, NAMES[:1])
    assert len([do for do, _ in worker.asked if do == "visit"]) == ROUNDS + AGAIN
    assert run.loudness()["left"] == 1
    assert f"100.0 % of {ROUNDS} samples disturbed by others" in run.loudness()["text"]
    assert "1 of 1 benchmarks stayed disturbed" in run.loudness()["text"]


def test_the_pace_of_the_cores_is_said(monkeypatch):
    script = lambda name, visit: USUAL | {"pace": 1e-4 if visit == 1 else 2e-4}  # noqa: E731
    run, _, _ = scripted_run(monkeypatch, script, NAMES[:1])
    assert run.loudness()["pace"] == 0.5
    assert run.loudness()["text"].endswith("the median sample found a core at 50 % of its best pace")


def test_a_benchmark_that_ends_its_process_fails_alone(monkeypatch):
    def script(name, visit):
        return WorkerError("head: killed by SIGKILL") if (name, visit) == (NAMES[1], 1) else USUAL

    run, workers, _ = scripted_run(monkeypatch, script, NAMES)
    assert run.timed[NAMES[1]].failure == {"failed": "head: killed by SIGKILL"}
    for name in (NAMES[0], NAMES[2]):
        assert len(run.timed[name].samples) == ROUNDS
        assert not run.timed[name].failure
    assert len(workers) == 2
    assert all(worker.ended for worker in workers)


def test_the_first_answer_is_that_of_the_first_process(monkeypatch):
    def script(name, visit):
        return WorkerError("head: killed by SIGKILL") if (name, visit) == (NAMES[1], 1) else USUAL

    run, workers, _ = scripted_run(monkeypatch, script, NAMES)
    asked = workers[0].asked
    assert len(workers) == 2
    for name in NAMES:
        timed = run.timed[name]
        assert timed.first_answer == 1.0 + asked.index(("prepare", name))
    assert row(run.timed[NAMES[0]], LIMITS, 1)["first_answer_seconds"] == 1.0


def test_a_process_in_place_of_one_that_ended_prepares_what_is_visited_in_it(monkeypatch):
    def script(name, visit):
        return WorkerError("head: killed by SIGKILL") if (name, visit) == (NAMES[1], 1) else USUAL

    _, (_, second), _ = scripted_run(monkeypatch, script, NAMES)
    for name in (NAMES[0], NAMES[2]):
        asked = [do for do, identity in second.asked if identity == name]
        assert asked[0] == "prepare"
        assert set(asked[1:]) == {"visit"}


def test_where_nothing_can_run_nothing_is_visited(monkeypatch):
    monkeypatch.setattr(Scripted, "answer", lambda self, do, identity, **_: {"failed": "no device"})
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: USUAL, NAMES)
    assert {do for do, _ in worker.asked} == {"prepare"}
    assert [one.failure for one in run.timed.values()] == [{"failed": "no device"}] * len(NAMES)
    assert run.loudness()["share"] == 0


@pytest.mark.parametrize(("most", "calls"), [(None, 64), (16, 16), (1, 1)])
def test_calls_are_doubled_where_a_sample_is_too_short(monkeypatch, most, calls):
    monkeypatch.setitem(variants(), NAMES[0], replace(ONE, case=replace(ONE.case, most_calls=most)))
    run, (worker,), _ = scripted_run(monkeypatch, lambda *_: sample(0.00013), NAMES[:1], rounds=4)
    (one,) = run.timed.values()
    assert one.calls == calls
    assert [taken["calls"] for taken in one.samples.values()] == [calls] * 4
    assert [do for do, _ in worker.asked if do == "calls"] == ["calls"]


def test_what_starts_threads_is_timed_in_a_process_apart(monkeypatch):
    threaded = "snake.collect_and_learn[threaded-torch-envs64-every4-batch32]"
    torch = NUMPY.format(1).replace("numpy", "torch")
    _, workers, _ = scripted_run(monkeypatch, lambda *_: USUAL, [torch, threaded, "pirl.serve[naive-torch-clients32]"])
    assert [{name for _, name in worker.asked} for worker in workers] == [
        {threaded, "pirl.serve[naive-torch-clients32]"},
        {torch},
    ]


def test_what_torch_compiles_is_prepared_first_and_alone(monkeypatch):
    PREPARED.clear()
    names = [NUMPY.format(1).replace("numpy", backend) for backend in ("numpy", "torch", "torch-compile")]
    scripted_run(monkeypatch, lambda *_: USUAL, names)
    assert PREPARED[0] == (names[2], False)
    assert sorted(PREPARED[1:]) == sorted([(names[0], True), (names[1], True)])


def test_beside_others_torch_settles_on_one_thread_and_gets_its_threads_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread(beside=True):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with one_thread(beside=False):
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_rows_appear_as_they_are_measured_with_done_of_total(monkeypatch):
    _, _, shown = scripted_run(monkeypatch, lambda *_: USUAL, NAMES)
    first = [line for line in shown if line.endswith(": first")]
    assert len(first) == len(NAMES)
    assert first[0].startswith(f"[1/{ROUNDS * len(NAMES)}, about ")


def test_what_does_not_fit_into_memory_is_measured_afterwards(monkeypatch):
    monkeypatch.setattr(passes, "free_memory", lambda: 0.0)
    run, workers, _ = scripted_run(monkeypatch, lambda *_: USUAL, NAMES)
    assert len(workers) == len(NAMES)
    assert all(len(one.samples) == ROUNDS for one in run.timed.values())


def test_rows_that_are_compared_are_visited_together():
    names = [
        f"pirl.forward[full-{b}-batch{n}-iohost-hidden32]" for n in (1, 32, 2048) for b in ("numpy", "torch", "jax")
    ]
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=1, log=print)
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
    run = Run([variants()[name] for name in names], threads=1, seed=0, rounds=2, log=lambda line: None)
    run.measure(lambda one: one.variant.id)
    small, loop = (run.timed[name] for name in names)
    assert small.calls > 50
    assert loop.calls == 1
    assert small.counters["allocated_bytes"] > 0
    assert {"environment", "learning"} <= loop.said["phases"].keys()
    for one in (small, loop):
        read = {"seconds", "calls", "cpu", "waited", "switches", "stolen", "pace", "others"}
        assert all(taken.keys() >= read for taken in one.samples.values())
        assert 0 in one.samples
    assert len(started) == 2
    assert all(worker.process.poll() is not None for worker in started)


@pytest.fixture
def group(monkeypatch):
    """Start a shell as a worker, which says that it is ready; return the worker."""
    processes = []

    def start(script):
        worker = object.__new__(Worker)
        worker.process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
        processes.append(worker.process)
        assert worker.process.stdout.readline() == b"ready\n"
        return worker

    yield start
    for process in processes:
        process.kill()
        process.stdout.close()


WAIT = "echo ready; while true; do sleep 0.01; done"


def test_what_a_worker_started_is_told_to_end_and_may_tidy_up(group, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 60)
    worker = group(f"(trap 'sleep 0.1; touch {tmp_path}/tidied; exit' TERM; {WAIT}) & wait")
    worker.end_group()
    assert os.listdir(tmp_path) == ["tidied"]
    assert worker.process.returncode == -signal.SIGTERM


def test_what_does_not_end_when_it_is_told_to_is_ended_by_force(group, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.05)
    worker = group(f"trap '' TERM; {WAIT}")
    worker.end_group()
    assert worker.process.returncode == -signal.SIGKILL


def test_what_a_worker_started_is_ended_by_force_where_the_worker_alone_ends_when_told_to(group, monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.05)
    worker = group("(trap '' TERM; echo ready; exec sleep 60) & wait")
    worker.end_group()
    assert worker.process.returncode == -signal.SIGTERM
    assert select.select([worker.process.stdout], [], [], 10)[0]  # nothing that it started has it open
    assert worker.process.stdout.read() == b""


def test_an_interrupt_leaves_no_process(monkeypatch, started):
    def interrupted(self, *_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "take", interrupted)
    run = Run([ONE], threads=1, seed=0, rounds=1, log=lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        run.measure(lambda one: "")
    assert len(started) == 1
    assert all(worker.process.poll() is not None for worker in started)


def test_a_process_has_as_many_cores_as_threads_and_works_with_the_runs_seed_and_dose(monkeypatch):
    given, asked = [], {}

    class Noted(Scripted):
        def answer(self, do, identity, **arguments):
            asked[do] = arguments
            return super().answer(do, identity, **arguments)

    monkeypatch.setattr(passes.os, "sched_getaffinity", lambda pid: {3, 1, 2})
    monkeypatch.setattr(passes, "Worker", lambda *of: given.append(of) or Noted(lambda *_: USUAL))
    Run([ONE], threads=2, seed=5, rounds=1, log=lambda line: None, dose=0.1).measure(lambda one: "")
    ((_, cores, threads, _),) = given
    assert (cores, threads) == ([1, 2], 2)
    assert (asked["prepare"]["seed"], asked["prepare"]["counted"], asked["visit"]["dose"]) == (5, True, 0.1)


def test_what_takes_longest_to_prepare_begins_first(monkeypatch):
    threaded = "snake.collect_and_learn[threaded-torch-envs64-every4-batch32]"
    _, (first, _), _ = scripted_run(monkeypatch, lambda *_: USUAL, [*NAMES, threaded])
    assert {name for _, name in first.asked} == {threaded}


def test_a_row_names_its_threads_and_version_and_only_a_cpu_is_held_against_this_machines_limits():
    one = Timed(replace(ONE, case=replace(ONE.case, version=7)), 1, {0: sample(0.01)}, {"stats": {}, "phases": {}})
    found = row(one, LIMITS, 3)
    assert (found["threads"], found["version"], found["bound"]) == (3, 7, "flops")
    elsewhere = replace(one, variant=replace(ONE, backend="neuron"))
    assert row(elsewhere, LIMITS, 3)["limit_share"] is None
