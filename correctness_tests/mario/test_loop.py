"""The pipeline learns what one process would learn, however experiences travel, and survives the death of processes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver
from time import perf_counter

import numpy as np
import pytest

from correctness_tests.mario.collectors import Playing, names_made
from correctness_tests.mario.pipelines import SMALL, make, spec_of
from correctness_tests.quick import quick
from correctness_tests.waiting import SECONDS, alive, at_most, children, until
from rl_impls import backends
from rl_impls.common.workers import WorkersEnded
from rl_impls.mario import collectors
from rl_impls.mario.collectors import Collector, Collectors
from rl_impls.mario.options import FORMS
from rl_impls.mario.loop import PHASES, per_stream
from rl_impls.mario.memory import FrameReplay, PrioritisedReplay
from rl_impls.mario.transport import KINDS

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
    """One pipeline over rings for several tests, and the names of its shared memory."""
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


def in_one_process(spec, options, epochs):
    """Losses and TD errors f[I, U] of the same training in one process."""
    senders = [Stored() for _ in range(STREAMS)]
    newest = 0, spec["params"]
    crew = [
        Collector(spec, index, 0, senders[spec["envs"] * index :][: spec["envs"]], None, newest, options)
        for index in range(spec["collectors"])
    ]
    each, sizes = per_stream(spec), (spec["capacity"], STREAMS, spec["side"])
    replay = PrioritisedReplay(*sizes, alpha=0.6, beta=0.4) if spec["prioritised"] else FrameReplay(*sizes)
    step, results, updates = learner(spec, options), [], 0

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


def learner(spec, options):
    """An update like the pipeline's."""
    states, column = np.zeros((8, 4, 36, 36), np.uint8), np.zeros(8, np.float32)
    example = tuple(map(backends.get("torch").to_device, (states, column.astype("i4"), column, states, column, column)))
    return backends.get("torch").build("mario", "train_step", spec, example, options)


def assert_learns_what_one_process_learns(loop, spec, options):
    """Losses are bit for bit those of one process, from the start and after a reset."""
    loop.reset()
    got, wanted = loop(np.arange(EPOCHS)), in_one_process(spec, options, EPOCHS)
    np.testing.assert_array_equal(got, wanted)
    assert len(set(np.ravel(got[0]).tolist())) == EPOCHS * SMALL["updates"]
    stats, each = loop.stats(), per_stream(spec)
    assert stats["delivered"] == EPOCHS * each * STREAMS
    assert stats["dropped"] == stats["lost"] == stats["waiting"] == stats["replaced_collectors"] == 0
    loop.reset()
    np.testing.assert_array_equal(loop(np.arange(EPOCHS)), wanted)


def test_phases_add_up_to_the_time_of_a_call(rings):
    loop, _ = rings
    loop.reset()
    assert loop.phases() == dict.fromkeys(PHASES, 0)
    before = perf_counter()
    loop(np.arange(2))
    elapsed = perf_counter() - before
    spent = loop.phases()
    assert all(seconds > 0 for seconds in spent.values())
    assert 0.8 * elapsed < sum(spent.values()) < elapsed


def test_a_pipeline_over_rings_learns_what_one_process_learns(rings):
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
    options = replace(FORMS["full"], transport=transport, publication="pickled", priority="equal")
    changes |= {"collectors": 1, "envs": 4}
    loop = running(options=options, **changes)
    assert_learns_what_one_process_learns(loop, spec_of(**changes), options)
    assert type(loop.transport).__name__ == KINDS[transport][1]
    assert loop.crew.weights is None  # they are sent as messages
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, loop.crew.members[0][1].pid) == ours


def test_a_collector_that_is_killed_is_replaced_and_nothing_is_lost(rings):
    loop, _ = rings
    loop.reset()
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


@pytest.fixture
def played(monkeypatch, running):
    """Make a pipeline of collectors that play no game and so start fast; from chunk ``unfed`` on their queues stall."""

    def start(transport, unfed=None):
        monkeypatch.setattr(collectors, "Collector", partial(Playing, unfed=unfed))
        return running(options=replace(FORMS["full"], transport=transport, publication="pickled"))

    return start


def kill_after_its_answer(loop):
    """Kill the first collector once all have answered, while what it put last is still in its queues."""
    crew, (_, victim) = loop.crew, loop.crew.members[0]

    def receive(found, seconds):
        heard = Collectors.receive(crew, found, seconds)
        if len(found) == crew.actors and victim.is_alive():
            victim.kill()
            victim.join()
        return heard

    crew.receive = receive


@pytest.mark.parametrize("transport", ["locked_queue", "local_queues"])
def test_a_collector_that_dies_with_a_full_queue_is_replaced_and_its_loss_is_counted(played, transport):
    with at_most(SECONDS, "what is in the queue of a dead collector"):
        loop = played(transport, unfed=1)
        kill_after_its_answer(loop)
        losses, _ = loop(np.arange(2))
    assert np.isfinite(losses).all()
    stats, chunk = loop.stats(), loop.each * STREAMS
    assert stats["replaced_collectors"] == SMALL["collectors"]
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


def test_a_stopped_collector_is_named_and_all_are_ended(played):
    with at_most(SECONDS, "a collector that is stopped"):
        loop = played("shared_ring")
        loop.crew.timeout = 1
        pids = [process.pid for _, process in loop.crew.members]
        os.kill(pids[1], signal.SIGSTOP)
        with pytest.raises(WorkersEnded, match=r"^collector 1 did not answer for 1 s: the process hangs or is stopped"):
            loop(np.arange(1))
    until(lambda: not any(map(alive, pids)), "they have ended")


def test_collectors_that_answer_but_do_not_hand_over_are_named(played):
    with at_most(SECONDS, "what is in the queues"):
        loop = played("local_queues", unfed=1)
        loop.crew.timeout = 1
        with pytest.raises(WorkersEnded, match=r"^collector 0 and collector 1 did not answer for 1 s"):
            loop(np.arange(2))


def test_nothing_is_left_when_a_pipeline_cannot_be_built():
    before = children()
    with names_made() as names, pytest.raises(WorkersEnded, match=r"^collector \d.*num_levels: got -1"):
        make(levels=-1, options=replace(FORMS["full"], transport="locked_queue"))
    assert names
    assert set(children()) <= set(before)


def test_all_threads_of_collectors_have_a_lower_priority(rings):
    loop, _ = rings
    for _, process in loop.crew.members:
        threads = map(int, os.listdir(f"/proc/{process.pid}/task"))
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}


def test_close_leaves_no_process_and_no_shared_memory(rings):
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
        ({"capacity": 40}, "^buffer: got 40, wanted 56 or more, as an epoch has 6 in each of 4 streams"),
        ({"game": "pong"}, "pong"),
    ],
)
def test_invalid_values_are_refused_before_anything_is_started(changes, said):
    before = children()
    with pytest.raises(ValueError, match=said):
        make(**changes)
    assert set(children()) <= set(before)
