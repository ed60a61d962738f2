"""One process per agent: results equal those of a single process, and no process is left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.treasurehunt.hunts import build, hunt
from correctness_tests.waiting import alive, children, started
from rl_impls.common.procgen_env import chosen_threads
from rl_impls.common.workers import WorkersEnded
from rl_impls.treasurehunt.agent import TreasurehuntAgents

ROOT = Path(__file__).parents[2]


def make(given, backend="torch", form="processes", **changes):
    config, epochs = given
    return build("epoch", backend, config | changes, epochs[0], form)


@pytest.fixture(scope="module")
def given():
    return hunt(1, num_worlds=2)


@pytest.fixture(scope="module")
def loop(given):
    """Yield a loop that tests share until one kills an agent."""
    made = make(given)
    yield made
    made.close()


def assert_plays_as_one_process(loop, given, backend):
    """Assert that a loop plays two epochs like a loop in one process, and repeats the first after a reset."""
    config, epochs = given
    one = make(given, backend, "one_by_one")
    first = [loop(*epoch) for epoch in epochs]
    for (actions, rewards, losses), epoch in zip(first, epochs):
        expected_actions, expected_rewards, expected_losses = one(*epoch)
        np.testing.assert_array_equal(actions, expected_actions)
        np.testing.assert_array_equal(rewards, expected_rewards)
        np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    params, expected = loop.params, one.params
    assert params.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(params[name], expected[name], atol=1e-6, err_msg=name)
        assert np.abs(expected[name] - config["params"][name]).max() > 1e-4
    state = one.state()
    loop.load_state(state)
    np.testing.assert_equal(loop.state(), state)
    loop.reset()
    np.testing.assert_equal(loop.params, config["params"])
    np.testing.assert_equal(loop(*epochs[0]), first[0])


def test_epochs_equal_those_of_one_process(given, loop):
    pids = children()
    assert len(pids) == 2
    assert_plays_as_one_process(loop, given, "torch")
    assert children() == pids


def test_processes_share_the_threads(loop):
    environments = [Path(f"/proc/{pid}/environ").read_text().split("\0") for pid in children()]
    share = max(1, chosen_threads() // 2)
    assert [f"OMP_NUM_THREADS={share}" in each for each in environments] == [True, True]


def test_killed_agent_is_named_and_all_end(given, loop):
    pids = children()
    os.kill(max(pids), signal.SIGKILL)  # the one started last
    with pytest.raises(WorkersEnded, match=r"^agent 1 was killed by signal 9 \(SIGKILL\)"):
        loop(*given[1][0])
    assert not any(map(alive, pids))
    loop.close()
    with pytest.raises(RuntimeError, match=r"^agents were called after close\(\) or a failure$"):
        loop(*given[1][0])


def test_agents_end_their_processes_after_an_evaluation_and_when_closed():
    small = {"height": 6, "width": 6, "turns": 6, "hidden": 8, "batch_size": 8, "capacity": 64}
    agents = TreasurehuntAgents("torch", "processes", seed=0, num_agents=2, **small)
    agents.evaluate(2, seed=0)
    assert children() == []
    agents.prepare()
    assert len(children()) == 2
    agents.close()
    assert children() == []


@pytest.mark.slow
def test_epochs_on_jax_equal_those_of_one_process(given):
    loop = make(given, "jax")
    with closing(loop):
        assert_plays_as_one_process(loop, given, "jax")


@pytest.mark.slow
def test_agents_end_when_the_loop_is_garbage_collected(given):
    loop = make(given)
    pids = children()
    assert len(pids) == 2
    assert all(map(alive, pids))
    del loop
    gc.collect()
    assert not any(map(alive, pids))


@pytest.mark.slow
def test_agent_that_cannot_be_built_ends_all(given):
    config, _ = given
    stored = config["stored"] | {"actions": config["stored"]["actions"].astype(np.int64)}
    with pytest.raises(RuntimeError, match=r"^agent [01] failed: ValueError: actions should be int32\[1, 40\]"):
        make(given, stored=stored)
    assert children() == []


@pytest.mark.slow
def test_error_of_an_agent_reaches_the_caller(given):
    loop, pids = make(given), children()
    *turns, rows, taus, noise = given[1][0]
    with pytest.raises(RuntimeError, match=r"^agent [01] failed: RuntimeError: .*size of tensor"):
        loop(*turns, rows, taus[..., :3, :], noise)
    assert not any(map(alive, pids))


@pytest.mark.slow
def test_stopped_agent_is_named_and_all_end(given):
    loop, pids = make(given, worker_timeout=5.0), children()
    os.kill(max(pids), signal.SIGSTOP)
    with pytest.raises(WorkersEnded, match=r"^agent 1 did not answer for 5 s: the process hangs or is stopped$"):
        loop(*given[1][0])
    assert not any(map(alive, pids))


SUSPENDED = """
import multiprocessing, sys
from correctness_tests.treasurehunt.hunts import build, hunt

if __name__ == "__main__":
    config, epochs = hunt(1, num_worlds=2)
    loop = build("epoch", "torch", config | {"worker_timeout": 5.0}, epochs[0], "processes")
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    for line in sys.stdin:
        loop(*epochs[0])
        print("played", flush=True)
"""


@pytest.mark.slow
def test_time_in_which_all_processes_are_suspended_is_no_silence(tmp_path):
    script = tmp_path / "suspended.py"
    script.write_text(SUSPENDED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    options = {"env": environment, "stdin": subprocess.PIPE, "start_new_session": True}
    with started([sys.executable, str(script)], **options) as first:
        agents = [int(pid) for pid in first.stdout.readline().split()]
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)
        print("play", file=first.stdin, flush=True)
        time.sleep(1)  # now the main process waits for the agents
        os.kill(first.pid, signal.SIGSTOP)
        time.sleep(6)
        os.kill(first.pid, signal.SIGCONT)
        time.sleep(0.2)
        for pid in agents:
            os.kill(pid, signal.SIGCONT)
        assert first.stdout.readline() == "played\n"
