"""Actor processes: rollouts, replacement of dead actors, and cleanup."""

import contextlib
import gc
import os
import resource
import signal
import threading
import weakref
from multiprocessing import forkserver
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.procgen.actors import FakeActor
from correctness_tests.quick import quick
from correctness_tests.waiting import alive, children, until
from rl_impls import backends
from rl_impls.common import workers
from rl_impls.common.phases import Phases
from rl_impls.common.procgen_env import chosen_threads, set_game_threads
from rl_impls.common.procgen_state import pack
from rl_impls.procgen.actor_pool import ActorPool, SharedMemoryActor, publish, shared_memory
from rl_impls.procgen.options import FORMS
from rl_impls.procgen.parallel import PoolLoop

START = {"games": [b""] * 4, "returns": np.zeros(4), "lengths": np.arange(4)}
CONFIG = {"params": {"b_return": np.zeros(1, np.float32)}, "num_steps": 2, "env": {"num_envs": 4}, "actors": 2}
POOLS = weakref.WeakSet()


def pool_of(depth=2, faults=None, timeout=60.0):
    """Start two fake actors."""
    config = CONFIG | {"faults": faults or {}, "worker_timeout": timeout}
    pool = ActorPool(config, START, depth, FORMS["full"], backends.get("numpy"), depth + 1, FakeActor)
    POOLS.add(pool)
    return pool


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Close the pools of the test, and assert that no process is left."""
    yield
    for pool in list(POOLS):
        pool.close()
    assert not children()


class Numbers(PoolLoop):
    """A loop that does not learn, but records the rewards of its rollouts."""

    def __init__(self, ahead, faults=None, **config):
        update, self.given = SimpleNamespace(reset=lambda: None, load_state=lambda state: None), []
        pool = pool_of(ahead + 1, faults)
        super().__init__(CONFIG | config, pool, START, update, Phases("waiting"))

    def learn(self, rollout, number):
        assert self.requested < number + self.pool.depth  # the next request would overwrite this rollout
        self.given.append((number, rollout.rewards.copy()))
        return [[0.0] * 4]


def test_each_actor_plays_its_share_of_the_rollout_and_of_the_state():
    pool = pool_of(depth=2)
    np.testing.assert_array_equal(pool.state()["lengths"], START["lengths"])
    pool.request(0)
    pool.request(1)
    first, second = pool.take(0), pool.take(1)
    assert first.rewards.shape == (2, 4)
    assert not first.rewards.any()
    assert (second.rewards == 1).all()
    pool.request(2)
    pool.take(2)
    assert (first.rewards == 2).all()
    np.testing.assert_array_equal(pool.state()["lengths"], START["lengths"] + 3)
    pool.request(3)
    pool.restore(START)
    np.testing.assert_array_equal(pool.state()["lengths"], START["lengths"])
    assert pool.replaced == 0


def test_actors_share_the_threads_that_were_chosen_for_the_games():
    before, each = chosen_threads(), 1 + len(os.sched_getaffinity(0))
    set_game_threads(2 * each)
    try:
        pool = pool_of()
    finally:
        set_game_threads(before)
    pool.tell([("get_threads",)] * 2)
    assert pool.answers() == [each, each]


@pytest.mark.parametrize("ahead", quick([2], [0, 2]))
def test_rollouts_played_ahead_are_discarded_if_another_number_is_asked_for(ahead):
    loop, asked = Numbers(ahead, keep_acting=True), [0, 1, 5, 6, 6, 3, 4]
    found = [loop(np.array([number]))[0] for number in asked]
    np.testing.assert_array_equal(np.ravel([each[0, 0, 0] for each in found]), asked)
    assert [number for number, _ in loop.given] == asked
    for number, rewards in loop.given:
        np.testing.assert_array_equal(rewards, np.full((2, 4), number))
    loop.reset()
    assert (loop(np.array([9]))[0] == 9).all()
    loop.load_state({f"env.{name}": value for name, value in pack(START).items()})
    assert (loop(np.array([9]))[0] == 9).all()


def test_dead_actor_is_replaced_and_its_pending_rollouts_are_played():
    pool = pool_of(depth=3, faults={1: "die"})
    for number in range(3):
        pool.request(number)
    before = pool.members[0][1].pid, pool.members[1][1].pid
    for number in range(3):
        rollout = pool.take(number)
        np.testing.assert_array_equal(rollout.rewards, np.full((2, 4), number))
        np.testing.assert_array_equal(rollout.actions, [[0, 0] + 2 * [int(number > 0)]] * 2)
    assert pool.replaced == 1
    assert pool.members[0][1].pid == before[0]
    assert not alive(before[1])
    assert len(children()) == 2


def kill_fork_server():
    """Kill the process that actors are forked from, as the kernel may when memory runs out."""
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)


def test_actors_killed_together_with_their_fork_server_are_replaced():
    pool = pool_of()
    kill_fork_server()
    for _, process in pool.members:
        os.kill(process.pid, signal.SIGKILL)
    pool.request(0)
    actions = pool.take(0).actions.tolist()
    assert actions in ([[1, 1, 2, 2]] * 2, [[2, 2, 1, 1]] * 2)  # whichever death is noticed first
    assert pool.replaced == 2


def test_actor_is_replaced_although_the_fork_server_dies_meanwhile():
    pool = pool_of()
    victim, server = pool.members[1][1], forkserver._forkserver._forkserver_pid
    victim.kill()
    victim.join()
    os.kill(server, signal.SIGSTOP)
    killer = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    killer.start()
    pool.request(0)
    np.testing.assert_array_equal(pool.take(0).actions, [[0, 0, 1, 1]] * 2)
    killer.join()


@contextlib.contextmanager
def no_more_files():
    """Prevent this process from opening more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_failure_to_start_a_replacement_ends_all_actors_with_the_reason():
    pool = pool_of()
    pids = [process.pid for _, process in pool.members]
    os.kill(pids[1], signal.SIGKILL)
    pool.request(0)
    message = r"^actor 1 was killed by signal 9 \(SIGKILL\); .*; a replacement could not be started: .*Too many "
    with no_more_files(), pytest.raises(workers.WorkersEnded, match=message):
        pool.take(0)
    until(lambda: not any(map(alive, pids)), "actors to end")


@pytest.mark.parametrize("message", [b"", bytes(10_000_000)], ids=["short", "long"])
def test_stopped_actor_times_out_and_is_killed(message):
    pool = pool_of(timeout=1.0)
    pid = pool.members[1][1].pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(workers.WorkersEnded, match=r"^actor 1 did not answer for 1 s: the process hangs or is stopped"):
        pool.restore(START | {"games": [message] * 4})
    assert not alive(pid)


def test_actor_stopped_in_mid_answer_times_out():
    pool = pool_of(timeout=1.0)
    pool.restore(START | {"games": [bytes(10_000_000)] * 4})
    pool.tell([("get_state",)] * 2)
    pipe, process = pool.members[1]
    pid = process.pid
    assert pipe.poll(60)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(workers.WorkersEnded, match=r"^actor 1 did not answer for 1 s"):
        pool.answers()
    assert not alive(pid)


def test_exception_in_an_actor_ends_all_actors():
    pool = pool_of(faults={1: "fail"})
    pool.request(0)
    pool.take(0)
    pool.request(1)
    with pytest.raises(RuntimeError, match=r"^actor 1 failed: ValueError: the game is over$"):
        pool.take(1)
    assert not children()
    assert pool.replaced == 0


def test_environments_of_a_dead_actor_are_reported_as_restarted_once():
    loop = Numbers(1, faults={1: "die"})
    loop(np.array([0]))
    assert loop.restarted_envs().tolist() == []
    loop(np.array([1]))
    assert loop.restarted_envs().tolist() == [2, 3]
    assert loop.restarted_envs().tolist() == []
    os.kill(loop.pool.members[0][1].pid, signal.SIGKILL)
    loop.load_state({f"env.{name}": value for name, value in pack(START).items()})
    assert loop.pool.replaced == 2
    assert loop.restarted_envs().tolist() == []  # they continue from the state


def test_call_after_close_is_an_error():
    loop = Numbers(1)
    loop(np.array([0]))
    loop.pool.request(1)
    loop.close()
    for call in (lambda: loop(np.array([1])), loop.state, loop.reset):
        with pytest.raises(workers.WorkersEnded, match=r"^actors"):
            call()


def test_actor_that_dies_repeatedly_is_given_up():
    pool = pool_of(faults={0: "die always"})
    pool.request(0)
    died = rf"^actor 1 died {workers.LIVES + 1} times before it had answered; the last time it was killed by signal 9 "
    with pytest.raises(workers.WorkersEnded, match=died):
        pool.take(0)
    assert not children()


def test_actor_that_answers_in_between_may_die_any_number_of_times():
    pool = pool_of(depth=1)
    for number in range(workers.LIVES + 1):
        os.kill(pool.members[1][1].pid, signal.SIGKILL)
        pool.request(number)
        np.testing.assert_array_equal(pool.take(number).rewards, np.full((2, 4), number))
    assert pool.replaced == workers.LIVES + 1


def test_pool_that_nothing_refers_to_leaves_no_process():
    pool = pool_of()
    pids = [process.pid for _, process in pool.members]
    pool.request(0)
    assert all(map(alive, pids))
    del pool
    gc.collect()
    until(lambda: not any(map(alive, pids)), "actors to end")
    assert not children()


def test_actors_are_idle_after_a_timed_call():
    loop = Numbers(2)
    loop(np.array([0, 1, 2, 3]))
    assert not any(loop.pool.owed)
    assert (loop(np.array([4]))[0] == 4).all()
    assert [number for number, _ in loop.given] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_weights_an_actor_may_still_read_are_not_overwritten(lag):
    shared = shared_memory(CONFIG, lag + 1, lag + 2, {})
    for version in range(9):
        publish(shared, version, {"b_return": np.array([version])})
        assert shared["newest"][0] == version
        for kept in range(max(0, version - lag - 1), version + 1):
            assert shared["b_return"][kept % (lag + 2)] == [kept]


def test_actor_plays_with_the_newest_weights_and_reports_their_version():
    shared, loaded = shared_memory(CONFIG, 2, 3, {}), []
    policy = SimpleNamespace(load=lambda params: loaded.extend(params["b_return"]))
    actor = SimpleNamespace(
        shared=shared, config=CONFIG, index=1, slice=slice(2, 4), policy=policy,
        play_into=lambda number, rollout: publish(shared, 5, {"b_return": np.array([50])}),  # meanwhile
    )  # fmt: skip
    for number, value in ((3, 40), (4, 41)):  # after a reset, other weights may have the same version
        publish(shared, 4, {"b_return": np.array([value])})
        SharedMemoryActor.play(actor, number)
        assert loaded[-1] == value
    assert shared["behind"].tolist() == [[0, 4], [0, 4]]


def test_version_counts_as_newest_once_all_its_weights_are_written():
    class Weights:
        def __array__(self, dtype=None, copy=None):
            newest.append(int(shared["newest"][0]))
            return np.ones(1, np.float32)

    shared, newest = shared_memory(CONFIG, 1, 2, {}), []
    publish(shared, 7, {"b_return": Weights()})
    assert (newest[-1], shared["newest"][0], shared["b_return"][1]) == (0, 7, [1])


def test_actors_outlive_their_fork_server_and_are_ended_by_close():  # last: another server takes seconds to start
    pool = pool_of()
    pids = [process.pid for _, process in pool.members]
    kill_fork_server()
    until(lambda: not any(process.is_alive() for _, process in pool.members), "multiprocessing to lose the fork server")
    pool.request(0)
    pool.take(0)
    assert pool.replaced == 0
    assert all(map(alive, pids))
    pool.close()
    until(lambda: not any(map(alive, pids)), "actors to end", seconds=5)
    pool.close()
