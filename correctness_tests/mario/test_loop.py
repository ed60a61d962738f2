"""The pipeline learns the same as a single process, over any transport, and survives the death of processes."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.mario.collectors import names_made
from correctness_tests.mario.pipelines import FULL, SMALL, ListSender, config_of, make
from correctness_tests.quick import quick
from correctness_tests.updates import seconds_of_phases
from correctness_tests.waiting import alive, children, until
from rl_impls.common.phases import PERIOD, Utilisation, gpu_utilisation
from rl_impls.common.workers import WorkersEnded
from rl_impls.mario.collectors import BATCHES, Collector
from rl_impls.mario.loop import PHASES, TRANSPORTS, make_replay, per_stream
from rl_impls.mario.memory import FrameReplay, PrioritisedReplay
from rl_impls.mario.net import init_net
from rl_impls.mario.options import FORMS

EPOCHS, STREAMS = 4, 4


@pytest.fixture
def running():
    made = []

    def start(*args, **changes):
        made.append(make(*args, **changes))
        return made[-1]

    yield start
    for loop in made:
        loop.close()


@pytest.fixture(scope="module")
def rings():
    """Yield a pipeline over rings that tests share, and the files of its shared memory."""
    with names_made() as names:
        loop = make(publish_every=2)
        yield loop, names
        loop.close()


def in_one_process(config, options, epochs, step, to_host):
    """Train in a single process with a learner in its initial state; return losses and mean TD errors f[I, U]."""
    senders = [ListSender() for _ in range(STREAMS)]
    newest = 0, config["params"]
    players = [
        Collector(config, index, 0, senders[config["num_envs"] * index :][: config["num_envs"]], None, newest, options)
        for index in range(config["collectors"])
    ]
    each, sizes = per_stream(config), (config["capacity"], STREAMS, config["side"])
    exponents = {name: config[name] for name in ("alpha", "beta")}
    replay = PrioritisedReplay(*sizes, **exponents) if config["prioritised"] else FrameReplay(*sizes)
    results, updates = [], 0

    def played(number):
        first, last = config["epsilon"]
        epsilon = first + (last - first) * min(1.0, (number + 1) * each * STREAMS / config["explore"])
        for one in players:
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
        for update in range(config["updates"]):
            rng = np.random.default_rng([config["seed"], BATCHES, number, update])
            if config["prioritised"]:
                rows, weights = replay.draw(rng.random(config["batch_size"]))
            else:
                rows, weights = replay.draw(rng, config["batch_size"]), np.ones(config["batch_size"], np.float32)
            loss, errors = to_host(step(*step.batch(*replay.gather_one_by_one(rows), weights)))
            if config["prioritised"]:
                replay.update(rows, errors)
            of_epoch.append((float(loss), float(np.abs(errors).mean())))
            updates += 1
            if updates % config["target_frequency"] == 0:
                step.sync_target()
        store(arriving)
        replay.release()
        if (number + 1) % config["publish_every"] == 0:
            for one in players:
                one.load(updates, step.params)
        results.append(of_epoch)
    for one in players:
        one.close()
    return np.array(results, np.float32).transpose(2, 0, 1)


def assert_learns_what_one_process_learns(loop, config, options):
    """Assert that losses equal those of one process bit for bit, at first and after a reset."""
    loop.reset()
    got = loop(np.arange(EPOCHS))
    stats, each = loop.stats(), per_stream(config)
    loop.learner.reset()  # to share its compiled program
    wanted = in_one_process(config, options, EPOCHS, loop.learner, loop.backend.to_host)
    np.testing.assert_array_equal(got, wanted)
    assert len(set(np.ravel(got[0]).tolist())) == EPOCHS * SMALL["updates"]
    assert stats["delivered"] == EPOCHS * each * STREAMS
    assert stats["lost"] == stats["waiting"] == stats["replaced_collectors"] == 0
    loop.reset()
    np.testing.assert_array_equal(loop(np.arange(EPOCHS)), wanted)


def test_phases_add_up_to_the_time_of_a_call_and_publications_are_counted(rings):
    loop, _ = rings
    spent, found = seconds_of_phases(loop, np.arange(4)), loop.stats()
    assert tuple(spent) == tuple(PHASES)
    assert min(spent.values()) > 0
    assert found["publications"] == 2
    assert 0 < found["putting"] < SMALL["collectors"] * sum(spent.values())
    loop.reset()
    assert (loop.stats()["publications"], loop.stats()["putting"]) == (0, 0)


def test_a_pipeline_over_rings_learns_what_one_process_learns(rings):
    assert FULL.transport == "shared_ring"
    loop, _ = rings
    assert_learns_what_one_process_learns(loop, config_of(publish_every=2), FULL)
    # the initial weights act in the first two epochs, and those learned in these from the third on
    assert loop.lags == {lag: 2 * SMALL["collectors"] for lag in (3, 6)}
    assert (loop.stats()["policy_lag"], loop.stats()["most_policy_lag"]) == (4.5, 6)


def test_collectors_of_the_full_form_give_way_to_the_learner(running):
    loop = running(options=FORMS["full"], collectors=1, updates=1)
    assert os.getpriority(os.PRIO_PROCESS, loop.collectors.members[0][1].pid) == 19


def test_a_pipeline_with_jax_and_batch_norm_learns_what_one_process_learns(running):
    weights = init_net(np.random.default_rng(1), 36, norm=True)
    given = {"params": weights, "target": weights, "collectors": 1, "num_envs": 4}
    assert_learns_what_one_process_learns(running(backend="jax", **given), config_of(**given), FULL)


@pytest.mark.parametrize(
    ("transport", "changes"),
    [("locked_queue", {"prioritised": True, "alpha": 0.7, "beta": 0.5}), ("local_queues", {"capacity": 64})],
)
def test_a_pipeline_over_queues_learns_what_one_process_learns(running, transport, changes):
    options = replace(FULL, transport=transport, publication="pickled")
    changes |= {"collectors": 1, "num_envs": 4}
    loop = running(options=options, **changes)
    assert_learns_what_one_process_learns(loop, config_of(**changes), options)
    assert type(loop.transport) is TRANSPORTS[transport]
    assert loop.collectors.weights is None  # weights are sent as messages
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, loop.collectors.members[0][1].pid) == ours


def test_the_capacity_is_rounded_down_to_equal_shares_of_the_environments():
    replay = make_replay(config_of(capacity=123), FULL)
    assert (replay.capacity, replay.lanes) == (120, 4)


def test_another_pipeline_goes_on_from_a_state_before_the_first_publication(rings, running):
    loop, _ = rings
    loop.reset()
    loop(np.arange(1))
    state = loop.state()
    wanted = loop(np.arange(1, 4))
    other = running(params=config_of()["target"], publish_every=2)
    other.load_state(state)  # after 3 updates: the target net is synced after the 4th, the 8th and the 12th
    np.testing.assert_array_equal(other(np.arange(1, 4)), wanted)
    assert [other.lags[lag] for lag in (6, 3)] == [2 * SMALL["collectors"], SMALL["collectors"]]
    assert other.stats()["policy_lag"] == 5
    np.testing.assert_equal(other.state(), loop.state())


def test_utilisation_that_the_driver_does_not_report_is_unknown(monkeypatch):
    import torch

    class NotSupported(Exception):
        """The error that nvidia-ml-py raises for a MIG partition of a GPU."""

    def refuse():
        raise NotSupported

    monkeypatch.setattr(torch.cuda, "utilization", refuse)
    assert gpu_utilisation() is None


def test_utilisation_is_the_mean_of_samples_in_epochs():
    now, values = [0.0], iter([None, 0.2, 0.6, 1.0])
    of_gpu = Utilisation(lambda: next(values), lambda: now[0])
    assert of_gpu.mean() is None
    for now[0] in np.array([0.5, 1.0, 1.5, 2.7, 3.5]) * PERIOD:  # a sample is due at 1, 2 and 3.7 periods
        of_gpu.sample()
    assert of_gpu.mean() == pytest.approx(0.4)
    now[0] = 5 * PERIOD
    of_gpu.start()  # after a pause
    of_gpu.sample()
    assert of_gpu.mean() == pytest.approx(0.4)
    of_gpu.reset()
    assert of_gpu.mean() == 1.0  # the current value


def test_a_pipeline_samples_the_utilisation_of_its_gpu(running):
    loop, now = running(), iter(range(10_000))
    loop.utilisation = Utilisation(lambda: 0.5, lambda: next(now))  # as on a GPU; every look finds a sample due
    loop.reset()
    assert loop.utilisation.count == 0
    loop(np.arange(1))
    assert (count := loop.utilisation.count) > 1
    loop.utilisation.now = lambda: 1e6  # after a pause, which is not sampled
    loop(np.arange(1, 2))
    assert loop.utilisation.count == count
    assert loop.stats()["gpu_utilisation"] == 0.5


def kill(loop):
    """Kill the first collector, and wait until it has ended."""
    _, victim = loop.collectors.members[0]
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: not victim.is_alive(), "the collector to end")


def test_a_collector_that_is_killed_is_replaced_and_nothing_is_lost(rings):
    loop, _ = rings
    loop.reset()
    loop(np.arange(2))
    kill(loop)
    losses, _ = loop(np.arange(2, 5))
    assert np.isfinite(losses).all()
    stats = loop.stats()
    assert stats["replaced_collectors"] == 1
    assert [stats[name] for name in ("delivered", "lost", "waiting")] == [5 * loop.each * STREAMS, 0, 0]
    assert all(process.is_alive() for _, process in loop.collectors.members)
    kill(loop)
    state = loop.state()
    assert loop.stats()["replaced_collectors"] == 2
    for name in loop.start[0]:  # the new games have other seeds
        assert not (name.startswith("games.") and np.array_equal(state[name], loop.start[0][name]))


@pytest.mark.parametrize("transport", quick(["local_queues"], ["locked_queue", "local_queues"]))
def test_collectors_with_queues_are_restarted_once_one_is_killed(running, transport):
    # updates take long enough for the other collector to send its share of the chunk
    loop = running(options=replace(FULL, transport=transport), updates=24, reuse=8.0)
    loop(np.arange(1))
    kill(loop)
    losses, _ = loop(np.arange(1, 3))
    assert np.isfinite(losses).all()
    assert set(loop.lags) == {24}  # the new collectors act by the weights published last
    stats = loop.stats()
    assert stats["replaced_collectors"] == SMALL["collectors"]
    assert stats["waiting"] == 0
    assert 3 * loop.each * STREAMS <= stats["delivered"] <= 4 * loop.each * STREAMS
    loop.ask(3)
    loop.collectors.answers()  # the next chunk waits in the queues
    kill(loop)
    state = loop.state()
    assert loop.stats()["lost"] == stats["lost"] + loop.each * STREAMS
    assert loop.stats()["replaced_collectors"] == 2 * SMALL["collectors"]
    for start in loop.start:  # the new games have other seeds; otherwise, they would repeat the first episodes
        assert not any(np.array_equal(state[name], start[name]) for name in start if name.startswith("games."))
    # rows that had arrived before the restart can be sampled
    restored = make_replay(loop.config, loop.options)
    restored.restore(state)
    np.testing.assert_array_equal(loop.replay.valid, restored.valid)


def test_a_replaced_collector_acts_by_the_weights_published_last(running):
    loop = running(options=replace(FULL, publication="pickled"))
    loop(np.arange(3))
    kill(loop)
    loop(np.arange(3, 5))
    assert loop.stats()["replaced_collectors"] == 1
    assert max(loop.lags) == SMALL["updates"]  # versions at most one epoch old


def test_nothing_is_left_when_a_pipeline_cannot_be_built():
    before = children()
    with names_made() as names, pytest.raises(WorkersEnded, match=r"^collector \d.*num_levels=-1"):
        make(levels=-1, options=replace(FULL, transport="locked_queue"))
    assert names
    assert set(children()) <= set(before)


def test_close_leaves_no_process_and_no_shared_memory(rings):
    loop, names = rings
    pids = [process.pid for _, process in loop.collectors.members]
    assert pids
    assert all(map(alive, pids))
    loop.close()
    until(lambda: not any(map(alive, pids)), "collectors to end")
    assert not any(path.exists() for path in names)
    loop.close()


def test_a_stopped_collector_is_named_and_all_are_ended(running):
    loop = running()
    loop.collectors.timeout = 3
    pids = [process.pid for _, process in loop.collectors.members]
    os.kill(pids[1], signal.SIGSTOP)
    with pytest.raises(WorkersEnded, match=r"collector 1 did not answer for 3 s: the process hangs or is stopped"):
        loop(np.arange(1))
    until(lambda: not any(map(alive, pids)), "collectors to end")
