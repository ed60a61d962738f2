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
    assert f"disturbed 100.0 % of {ROUNDS} samples" in run.loudness()["text"]
    assert "1 of 1 benchmarks stayed disturbed" in run.loudness()["text"]


def test_the_pace_of_the_cores_is_said(monkeypatch):
    script = lambda name, visit: USUAL | {"pace": 1e-4 if visit == 1 else 2e-4}  # noqa: E731
    run, _, _ = scripted_run(monkeypatch, script, NAMES[:1])
    assert run.loudness()["pace"] == 0.5
    assert run.loudness()["text"].endswith("the cores ran at 50 % of their fastest speed in this run.")


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
    ((side, cores, threads, limit),) = given
    assert (cores, threads, limit) == ([1, 2], 2, 300.0)
    assert (side.name, side.root, side.memory, side.worker) == ("head", passes.ROOT, "kept", passes.WORKER)
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


def answers(monkeypatch, reply):
    """Return a bench of workers that answer so; and the requests that they get."""
    asked = []

    class Answering:
        def __init__(self, *_):
            self.ended = False

        def ask(self, do, **arguments):
            asked.append((do, arguments))
            self.reply = lambda: reply(do, arguments)

        def __exit__(self, *_):
            self.ended = True

    monkeypatch.setattr(passes, "Worker", Answering)
    return Bench(1, 5, 0.25), asked


def test_what_is_prepared_is_not_prepared_again_and_what_failed_is_let_alone(monkeypatch):
    said = {"prepare": {"counters": {"graphs": 1}, "first_answer": 0.5}, "calls": {"calls": 7}}
    bench, asked = answers(monkeypatch, lambda do, arguments: said[do])
    one, broken = Timed(ONE), Timed(ONE, failure={"failed": "no"})
    bench.prepare(broken)
    assert asked == []
    bench.prepare(one, beside=True)
    bench.prepare(one)
    assert asked == [
        ("prepare", {"identity": ONE.id, "seed": 5, "counted": True, "beside": True}),
        ("calls", {"identity": ONE.id, "beside": True}),
    ]
    assert (one.counters, one.first_answer, one.calls, one.failure) == ({"graphs": 1}, 0.5, 7, {})


def test_of_what_cannot_be_prepared_no_calls_are_measured(monkeypatch):
    bench, asked = answers(monkeypatch, lambda do, arguments: {"failed": "no", "trace": "lines"})
    one = Timed(ONE)
    bench.prepare(one)
    assert [do for do, _ in asked] == ["prepare"]
    assert (one.failure, one.counters, one.calls) == ({"failed": "no", "trace": "lines"}, {}, 0)
    bench.visit(one, 0)
    assert len(asked) == 1
    assert one.samples == {}


def test_the_process_of_a_request_that_is_not_answered_is_replaced(monkeypatch):
    def reply(do, arguments):
        raise WorkerError("head: no answer in 300 s")

    bench, _ = answers(monkeypatch, reply)
    first, one = bench.worker, Timed(ONE)
    bench.prepared.add("another")
    assert bench.ask(one, "visit", calls=1) == {"failed": "head: no answer in 300 s"} == one.failure
    assert first.ended
    assert bench.worker is not first
    assert bench.prepared == set()


def test_what_else_a_visit_says_is_that_of_the_last(monkeypatch):
    visits = iter([sample(0.001), sample(0.004)])

    def reply(do, arguments):
        number = {"prepare": {"counters": {}}, "calls": {"calls": 2}}.get(do)
        return number or {"sample": next(visits), "stats": {"calls": arguments["calls"]}, "phases": {}}

    bench, asked = answers(monkeypatch, reply)
    one = Timed(ONE)
    bench.visit(one, 3)
    assert [arguments for do, arguments in asked if do == "visit"] == [
        {"identity": ONE.id, "calls": calls, "dose": 0.25} for calls in (2, 4)
    ]
    assert (one.samples, one.said) == ({3: sample(0.004)}, {"stats": {"calls": 4}, "phases": {}})


@pytest.mark.parametrize(("seconds", "visits"), [(0.008, 1), (0.0079, 2)])
def test_a_sample_is_too_short_below_eight_milliseconds(monkeypatch, seconds, visits):
    said = {"prepare": {"counters": {}}, "calls": {"calls": 1}}
    bench, asked = answers(monkeypatch, lambda do, _: said.get(do) or {"sample": sample(seconds), "stats": {}})
    bench.visit(Timed(ONE), 0)
    assert [do for do, _ in asked].count("visit") == visits


def test_what_others_took_is_that_of_all_calls_of_a_sample_and_no_less_than_the_clock_tells():
    one, noted = timed(sample(0.25, busy=2.0, calls=4)), passes.Others()
    one.samples[0] = {**one.samples[0], "cpu": 1.5}
    noted.note(one, 0)
    assert one.samples[0]["others"] == 0.5
    short = timed(sample(0.03, busy=0.06))
    passes.Others().note(short, 0)
    assert short.samples[0]["others"] == 0.1


def run_of(*timed_ones, rounds=ROUNDS):
    run = Run([], threads=1, seed=0, rounds=rounds, log=print)
    run.timed = {str(number): one for number, one in enumerate(timed_ones)}
    return run


@pytest.mark.parametrize(("rounds", "long", "clean", "wanting"), [
    (10, False, 6, False), (10, False, 5, True), (10, True, 3, False), (10, True, 2, True), (5, True, 2, False),
    (5, True, 1, True), (7, True, 3, False), (7, True, 2, True),
])  # fmt: skip
def test_long_ones_want_half_as_many_undisturbed_samples(rounds, long, clean, wanting):
    one = timed(*[sample(0.2 if long else 0.01)] * clean, *[sample(0.2, others=1.0)] * 9)
    assert run_of(rounds=rounds).wanting([one]) is wanting
    assert run_of(rounds=rounds).wanting([Timed(ONE), one]) is wanting
    one.failure = {"failed": "no"}
    assert not run_of(rounds=rounds).wanting([one])


def test_how_loud_a_run_was_counts_samples_and_benchmarks():
    loud = [sample(0.01, others=1.0) | {"pace": pace} for pace in (4e-4, 1e-4)]
    run = run_of(timed(*QUIET), timed(*loud), Timed(ONE))
    run.first, run.disturbed, run.again = 40, 10, 3
    assert run.loudness() == {
        "share": 0.25, "retaken": 3, "left": 1, "pace": 1.0,
        "text": "Other programs disturbed 25.0 % of 40 samples. 3 samples were taken again, and 1 of 2 benchmarks "
        "stayed disturbed. In the median sample the cores ran at 100 % of their fastest speed in this run.",
    }  # fmt: skip
    assert (run_of().loudness()["pace"], run_of().loudness()["share"]) == (1.0, 0.0)


def test_forms_and_backends_of_an_op_with_the_same_axes_are_compared():
    names = [NAMES[0], NAMES[1], NAMES[0].replace("full-numpy", "naive-torch"), "pirl.act[full-numpy]"]
    ones = [Timed(variants()[name]) for name in names]
    assert passes.groups(ones) == [[ones[0], ones[2]], [ones[1]], [ones[3]]]


def test_each_backend_has_a_place_and_what_starts_threads_another():
    own = replace(ONE, case=replace(ONE.case, cores="own"))
    assert passes.place(Timed(ONE)) == "numpy"
    assert passes.place(Timed(replace(ONE, case=replace(ONE.case, cores="all")))) == "numpy"
    assert passes.place(Timed(own)) == "numpy with threads"


def test_free_memory_is_a_part_of_all_there_is(monkeypatch):
    text = "MemTotal:       8000 kB\nMemFree:         100 kB\nMemAvailable:   2000 kB\nHugePages_Total:       0\n"
    monkeypatch.setattr(passes.Path, "read_text", lambda self: text)
    assert passes.free_memory() == 0.25

    def missing(self):
        raise FileNotFoundError

    monkeypatch.setattr(passes.Path, "read_text", missing)
    assert passes.free_memory() == 1.0


@pytest.mark.parametrize(("free", "at_once"), [(0.2, 3), (0.19, 1)])
def test_a_fifth_of_the_memory_is_left_free(monkeypatch, free, at_once):
    monkeypatch.setattr(passes, "free_memory", lambda: free)
    _, workers, _ = scripted_run(monkeypatch, lambda *_: USUAL, NAMES, rounds=1)
    assert len({name for _, name in workers[0].asked}) == at_once


def test_what_was_disturbed_is_taken_again_three_times_at_most_and_not_what_failed(monkeypatch):
    def script(name, visit):
        return STOLEN if name == NAMES[0] else WorkerError("head: gone") if visit == 2 else USUAL

    run, _, _ = scripted_run(monkeypatch, script, NAMES[:2])
    assert sorted(run.timed[NAMES[0]].samples) == list(range(ROUNDS + 3))
    assert (run.again, run.first, run.disturbed) == (3, ROUNDS + 1, ROUNDS)
    assert sorted(run.timed[NAMES[1]].samples) == [0]


def test_a_long_one_that_was_disturbed_is_taken_again_in_every_other_pass(monkeypatch):
    run, _, _ = scripted_run(monkeypatch, lambda *_: sample(0.2, stolen=0.1), NAMES[:1])
    assert list(run.timed[NAMES[0]].samples) == [0, 2, 4, 6, ROUNDS]


def test_a_run_is_drawn_from_its_seed():
    orders = [
        [
            one.variant.id
            for one in Run(map(variants().get, NAMES), 1, seed, 1, print).shuffled(
                map(Timed, map(variants().get, NAMES))
            )
        ]
        for seed in (0, 0, 1, 2, 3)
    ]
    assert orders[0] == orders[1]
    assert len(set(map(tuple, orders))) > 1


def test_a_row_says_each_figure_by_its_name():
    variant = variants()[NAMES[1]]
    taken = [sample(0.001, calls=4), sample(0.002, calls=4)]
    said = {"stats": {"lag": 3.0}, "phases": {"learn": 2.0}}
    one = Timed(variant, 4, dict(enumerate(taken)), said, {"graphs": 2}, first_answer=9.0)
    found = row(one, LIMITS, 3)
    figures = one.figures()
    share = variant.case.flops(**variant.axes) / figures["seconds_per_call"] / 1e11
    assert found == {
        "id": NAMES[1], "workload": "pirl", "op": "forward", "form": "full", "backend": "numpy",
        "axes": {"batch": 32, "io": "host", "hidden": 32}, "version": variant.case.version, "device": "cpu",
        "threads": 3, "precision": "float32", **figures, "items": 32,
        "items_per_second": pytest.approx(32 / 0.0015), "unit": "samples", "limit_share": pytest.approx(share),
        "bound": "flops", "phases": {"learn": 0.5}, "first_answer_seconds": 9.0, "counters": {"graphs": 2},
        "taken": taken, "lag": 3.0,
    }  # fmt: skip


def test_where_preparing_is_interrupted_no_more_is_prepared_and_all_processes_end(monkeypatch):
    prepared, benches = [], {name: Scripted(None) for name in ("numpy", "torch")}

    def interrupted(timed, beside):
        prepared.append(timed)
        raise KeyboardInterrupt

    for bench in benches.values():
        bench.prepare = interrupted
    run = run_of()
    with pytest.raises(KeyboardInterrupt):
        run.prepare(benches, [Timed(variants()[name]) for name in NAMES])
    assert len(prepared) == 1
    assert all(bench.ended for bench in benches.values())


def test_samples_to_come_are_fewer_where_long_ones_are_left_out(monkeypatch):
    slow = NAMES[1]
    script = lambda name, visit: sample(0.2) if name == slow else USUAL  # noqa: E731
    totals, skip = [], passes.Progress.skip

    def skipping(self, count):
        skip(self, count)
        totals.append((count, self.total))

    monkeypatch.setattr(passes.Progress, "skip", skipping)
    scripted_run(monkeypatch, script, NAMES[:2], rounds=4)
    assert totals == [(0, 8), (1, 7), (0, 7), (1, 6)]


@pytest.mark.parametrize(("count", "first"), [(7, "numpy with threads"), (9, "numpy")])
def test_what_starts_processes_counts_for_eight_that_do_not(monkeypatch, count, first):
    own = Timed(replace(ONE, case=replace(ONE.case, cores="own")))
    run, benches = run_of(own, *(Timed(ONE) for _ in range(count))), []
    monkeypatch.setattr(run, "prepare", lambda given, left: benches.extend(given) or list(left))
    monkeypatch.setattr(run, "take", lambda *of: None)
    monkeypatch.setattr(passes, "Worker", lambda *of: Scripted(None))
    run.measure(str)
    assert benches[0] == first
