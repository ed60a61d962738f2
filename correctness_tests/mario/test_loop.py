"""The pipeline: what it learns is what one process makes of the same play, however experiences travel."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.mario.collectors import Playing, names_made
from correctness_tests.mario.pipelines import SMALL, make, spec_of
from correctness_tests.mario.seen import collector
from correctness_tests.phase_clock import Clock
from correctness_tests.quick import quick
from correctness_tests.waiting import SECONDS, alive, at_most, children, until
from rl_impls import backends
from rl_impls.common.phases import Phases
from rl_impls.common.workers import WorkersEnded
from rl_impls.mario import collectors
from rl_impls.mario.collectors import Collector, Collectors
from rl_impls.mario.knobs import FORMS
from rl_impls.mario.loop import BLOCKED, PHASES, Pipeline, per_stream
from rl_impls.mario.memory import FrameReplay, PrioritisedReplay
from rl_impls.mario.problem import pipeline
from rl_impls.mario.transport import TransportBroken

pytestmark = pytest.mark.usefixtures("one_thread")

EPOCHS, STREAMS = 4, 4


@pytest.fixture
def running():
    """Make a pipeline that ends with the test."""
    made = []

    def start(*args, **changes):
        made.append(make(*args, **changes))
        return made[-1]

    yield start
    for loop in made:
        loop.close()


@pytest.fixture(scope="module")
def rings():
    """One pipeline for all tests of this file that any would do for, and the names of its shared memory."""
    with names_made() as names:
        loop = make(publish_every=2)
        yield loop, names
        loop.close()


class Stored:
    """A sender that puts into a list."""

    def __init__(self):
        self.produced, self.items = 0, []

    def so_far(self):
        return self.produced

    def put(self, frame, action, reward, end, time):
        self.items.append((frame.copy(), action, reward, end, time))
        self.produced += 1


def test_each_collector_draws_by_numbers_of_its_own_in_each_chunk(monkeypatch):
    def drawn(index, number):
        player, found = collector(monkeypatch, index), []
        player.senders = [Stored() for _ in player.senders]
        monkeypatch.setattr(player, "actions", lambda rows, epsilon: found.append(rows) or np.zeros(len(rows)))
        player.play(number, 30, 0.5)
        return np.stack(found)

    found = {where: drawn(*where) for where in ((0, 1), (1, 1), (0, 2), (1, 2))}
    np.testing.assert_array_equal(drawn(1, 2), found[1, 2])
    every = np.concatenate([rows.ravel() for rows in found.values()])
    assert len(every) == 4 * 30 * 2 * 2 == len(np.unique(every))
    assert 0 <= every.min() < 0.1 < 0.9 < every.max() < 1


def in_one_process(spec, knobs, epochs):
    """Losses and TD errors f[I, U] of the same training, written one after the other in one process."""
    senders = [Stored() for _ in range(STREAMS)]
    newest = 0, spec["params"]
    crew = [
        Collector(spec, index, 0, senders[spec["envs"] * index :][: spec["envs"]], None, newest, knobs)
        for index in range(spec["collectors"])
    ]
    each, sizes = per_stream(spec), (spec["capacity"], STREAMS, spec["side"])
    replay = PrioritisedReplay(*sizes, alpha=0.6, beta=0.4) if spec["prioritised"] else FrameReplay(*sizes)
    step, results, updates = learner(spec, knobs), [], 0

    def played(number):
        first, last = spec["epsilon"]
        epsilon = first + (last - first) * min(1.0, (number + 1) * each * STREAMS / spec["explore"])
        for one in crew:
            one.play(number + 1, (number + 2) * each, epsilon)
        taken = [sender.items for sender in senders]
        for sender in senders:
            sender.items = []
        return taken

    def store(taken):
        for lane, items in enumerate(taken):
            for item in items:
                replay.push(lane, *item)

    store(played(-1))
    for number in range(epochs):
        replay.hold(each)
        arriving, of_epoch = played(number), []
        for update in range(spec["updates"]):
            rng = np.random.default_rng([spec["seed"], 2**32 + number, update])
            if spec["prioritised"]:
                rows, weights = replay.draw(rng.random(spec["batch"]))
            else:
                rows, weights = replay.draw(rng, spec["batch"]), np.ones(spec["batch"], np.float32)
            loss, errors = (out.numpy() for out in step(*step.batch(*replay.gather_one_by_one(rows), weights)))
            if spec["prioritised"]:
                replay.update(rows, errors)
            of_epoch.append((float(loss), float(np.abs(errors).mean())))
            updates += 1
            if updates % spec["target_every"] == 0:
                step.sync_target()
        store(arriving)
        replay.release()
        if (number + 1) % spec["publish_every"] == 0:
            for one in crew:
                one.load(updates, step.params)
        results.append(of_epoch)
    for one in crew:
        one.close()
    return np.array(results, np.float32).transpose(2, 0, 1)


def learner(spec, knobs):
    """An update of its own."""
    states, column = np.zeros((8, 4, 36, 36), np.uint8), np.zeros(8, np.float32)
    example = tuple(map(backends.get("torch").to_device, (states, column.astype("i4"), column, states, column, column)))
    return backends.get("torch").build("mario", "train_step", spec, example, knobs)


def assert_learns_what_one_process_learns(loop, spec, knobs):
    """From its start, and again after a reset."""
    loop.reset()
    got, wanted = loop(np.arange(EPOCHS)), in_one_process(spec, knobs, EPOCHS)
    np.testing.assert_array_equal(got, wanted)
    assert len(set(np.ravel(got[0]).tolist())) == EPOCHS * SMALL["updates"]
    stats, each = loop.stats(), per_stream(spec)
    assert stats["delivered"] == EPOCHS * each * STREAMS
    assert stats["dropped"] == stats["lost"] == stats["waiting"] == stats["replaced_collectors"] == 0
    loop.reset()
    np.testing.assert_array_equal(loop(np.arange(EPOCHS)), wanted)


def test_each_phase_counts_what_is_done_in_it_and_together_they_are_a_call(rings, monkeypatch):
    loop, _ = rings
    loop.reset()
    clock = Clock(monkeypatch)
    clock.charge("waiting", loop.crew, "receive")
    clock.charge("pushing", loop.transport, "take")
    clock.charge("sampling", loop, "gather")
    clock.charge("learning", loop, "train")
    clock.charge("publishing", loop.crew, "publish")
    clock.assert_counted(loop, PHASES, (np.arange(2),))


def test_a_pipeline_over_rings_learns_what_one_process_learns_and_says_how_its_weights_lag(rings):
    assert FORMS["full"].transport == "shared_ring"
    loop, _ = rings
    assert_learns_what_one_process_learns(loop, spec_of(publish_every=2), FORMS["full"])
    # weights of 0 updates act in the first epochs' play; those after two epochs from the third on
    assert loop.lags == [lag for lag in (3, 6, 3, 6) for _ in range(SMALL["collectors"])]


@pytest.mark.parametrize(
    ("transport", "changes"),
    [("locked_queue", {"prioritised": True}), ("local_queues", {"capacity": 64})],
)
def test_a_pipeline_over_queues_learns_what_one_process_learns(running, transport, changes):
    knobs = replace(FORMS["full"], transport=transport, publication="pickled")
    changes |= {"collectors": 1, "envs": 4}
    assert_learns_what_one_process_learns(running(knobs=knobs, **changes), spec_of(**changes), knobs)


def assert_goes_on_where_a_collector_is_killed(loop):
    """It has handed over all that it put: nothing is lost with it."""
    loop(np.arange(2))
    victim = loop.crew.members[0][1].pid
    os.kill(victim, signal.SIGKILL)
    until(lambda: not alive(victim) or loop.crew.members[0][1].exitcode is not None, "the collector's end")
    losses, _ = loop(np.arange(2, 5))
    assert np.isfinite(losses).all()
    stats = loop.stats()
    assert stats["replaced_collectors"] == 1
    assert [stats[name] for name in ("delivered", "dropped", "lost", "waiting")] == [5 * loop.each * STREAMS, 0, 0, 0]
    assert all(process.is_alive() for _, process in loop.crew.members)


def test_a_collector_that_is_killed_is_replaced_and_the_learner_goes_on(rings):
    loop, _ = rings
    loop.reset()
    assert_goes_on_where_a_collector_is_killed(loop)


@pytest.mark.slow
def test_a_collector_that_is_killed_with_its_queue_is_replaced_and_the_learner_goes_on(running):
    loop = running(knobs=replace(FORMS["full"], transport="local_queues"), collectors=1, envs=4)
    assert_goes_on_where_a_collector_is_killed(loop)


@pytest.fixture
def played(monkeypatch, running):
    """Make a pipeline whose collectors play nothing, and start soon; from a chunk on their feeders get nothing."""

    def start(transport, unfed=None):
        monkeypatch.setattr(collectors, "Collector", partial(Playing, unfed=unfed))
        return running(knobs=replace(FORMS["full"], transport=transport, publication="pickled"))

    return start


def kill_after_its_answer(loop):
    """The first collector, once all have answered; what it put last is in its queues still."""
    crew, (_, victim) = loop.crew, loop.crew.members[0]

    def receive(found, seconds):
        heard = Collectors.receive(crew, found, seconds)
        if len(found) == crew.actors and victim.is_alive():
            victim.kill()
            victim.join()
        return heard

    crew.receive = receive


@pytest.mark.parametrize("transport", ["locked_queue", "local_queues"])
def test_a_collector_that_dies_after_its_answer_before_its_queue_is_empty_is_replaced(played, transport):
    with at_most(SECONDS, "what is in the queue of a dead collector"):
        loop = played(transport, unfed=1)
        kill_after_its_answer(loop)
        losses, _ = loop(np.arange(2))
    assert np.isfinite(losses).all()
    assert loop.stats()["replaced_collectors"] == SMALL["collectors"]


@pytest.mark.parametrize("transport", ["locked_queue", "local_queues"])
def test_what_a_broken_transport_counted_is_kept_and_what_waited_is_lost(played, transport):
    with at_most(SECONDS, "what is in the queue of a dead collector"):
        loop = played(transport, unfed=1)
        before = loop.totals()
        kill_after_its_answer(loop)
        loop(np.arange(2))
    chunk = loop.each * STREAMS
    counted = {name: now - before[name] for name, now in loop.totals().items() if name not in ("batches", *BLOCKED)}
    assert counted == {"produced": 3 * chunk, "delivered": 2 * chunk, "dropped": 0, "lost": chunk}
    stats = loop.stats()
    assert [stats[name] for name in ("delivered", "dropped", "lost", "waiting")] == [2 * chunk, 0, chunk, 0]
    loop.reset()
    assert not any(loop.stats()[name] for name in ("delivered", "dropped", "lost", "waiting", "batches"))


@pytest.mark.parametrize("transport", quick(["shared_ring"], ["shared_ring", "locked_queue", "local_queues"]))
def test_collectors_that_die_together_with_their_fork_server_are_replaced(played, transport):
    with at_most(SECONDS, "collectors that are replaced"):
        loop = played(transport)
        for pid in (forkserver._forkserver._forkserver_pid, *(process.pid for _, process in loop.crew.members)):
            os.kill(pid, signal.SIGKILL)
        losses, _ = loop(np.arange(2))
    assert np.isfinite(losses).all()
    assert loop.stats()["replaced_collectors"] == SMALL["collectors"]


@pytest.mark.parametrize("transport", ["shared_ring", "locked_queue", "local_queues"])
def test_a_collector_that_is_stopped_is_named_and_all_end(played, transport):
    with at_most(SECONDS, "a collector that is stopped"):
        loop = played(transport)
        loop.crew.timeout = 1
        pids = [process.pid for _, process in loop.crew.members]
        os.kill(pids[1], signal.SIGSTOP)
        with pytest.raises(WorkersEnded, match=r"^collector 1 did not answer for 1 s: the process hangs or is stopped"):
            loop(np.arange(1))
    until(lambda: not any(map(alive, pids)), "they have ended")


@pytest.mark.parametrize("transport", ["locked_queue", "local_queues"])
def test_collectors_that_answer_and_do_not_hand_over_what_they_have_put_are_named(played, transport):
    with at_most(SECONDS, "what is in the queues"):
        loop = played(transport, unfed=1)
        loop.crew.timeout = 1
        with pytest.raises(WorkersEnded, match=r"^collector 0 and collector 1 did not answer for 1 s"):
            loop(np.arange(2))


@pytest.mark.parametrize(("step", "error"), [("players", KeyboardInterrupt), ("reset", TransportBroken)])
def test_nothing_is_left_where_a_pipeline_cannot_be_built(played, monkeypatch, step, error):
    made = []

    def fail(self):
        made.append(self)
        raise error("it broke")

    monkeypatch.setattr(Pipeline, step, fail)
    with names_made() as names, pytest.raises(error, match=r"^it broke$"):
        played("locked_queue")
    assert names
    assert not made[0].crew.members
    with pytest.raises(RuntimeError, match=r"^the transport is closed$"):
        made[0].transport.check()


@pytest.mark.parametrize("publish", [1, 3, 5])
def test_a_call_that_is_timed_publishes_once(publish, monkeypatch):
    given, published = pipeline(0, 2, 1, 256, 8, publish, 0), []
    monkeypatch.setattr(Pipeline, "ask", lambda self, number: None)
    monkeypatch.setattr(Pipeline, "take", lambda self: None)
    loop = object.__new__(Pipeline)  # without updates, and without processes that play
    loop.spec, loop.updates, loop.clock = dict(given.config) | {"updates": 0}, 0, Phases(*PHASES)
    loop.train, loop.knobs = SimpleNamespace(params={}), replace(FORMS["full"], **given.options)
    loop.crew = SimpleNamespace(publish=lambda version, params: published.append(version))
    loop(*given.args)
    assert len(published) == 1


@pytest.mark.parametrize("utilisation", [63, ModuleNotFoundError("pynvml")])
@pytest.mark.parametrize(("device", "source"), [("cuda", "torch"), ("cuda", "jax"), ("cpu", "torch")])
def test_memory_and_load_of_a_gpu_are_said_where_torch_has_one(device, source, utilisation, rings, monkeypatch):
    def load():
        if isinstance(utilisation, Exception):
            raise utilisation
        return utilisation

    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda: 1_500_000_000)
    monkeypatch.setattr("torch.cuda.utilization", load)
    loop, _ = rings
    monkeypatch.setattr(loop, "backend", SimpleNamespace(device=device, source=source))
    known = utilisation == 63
    if (device, source) == ("cuda", "torch"):
        share = "63 % busy" if known else "its load not known without nvidia-ml-py"
        assert loop.gpu_words() == f", GPU memory 1,500 MB, {share}"
    else:
        assert loop.gpu_words() == ""
    assert loop.stats().get("gpu_utilisation") == (0.63 if known and loop.on_gpu else None)


def test_collectors_that_have_begun_give_way_with_all_their_threads(rings):
    loop, _ = rings
    for _, process in loop.crew.members:
        threads = map(int, os.listdir(f"/proc/{process.pid}/task"))
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}


def test_nothing_is_left_when_it_is_closed(rings):
    loop, names = rings
    pids = [process.pid for _, process in loop.crew.members]
    assert pids
    assert all(map(alive, pids))
    loop.close()
    until(lambda: not any(map(alive, pids)), "they have ended")
    assert not any(path.exists() for path in names)
    loop.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"collectors": 0}, "^collectors: got 0, wanted 1 or more"),
        ({"capacity": 40}, "^buffer: got 40, wanted 56 or more, as an epoch has 6 in each of 4 streams"),
        ({"side": 84}, "^params: "),
        ({"game": "pong"}, "pong"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_started(changes, said):
    before = children()
    with pytest.raises(ValueError, match=said):
        make(**changes)
    assert set(children()) <= set(before)
