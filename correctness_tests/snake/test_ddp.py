"""An update in two processes equals an update in one, and leaves no process or file behind."""

import os
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.snake.problem import assert_trained_alike, problem, trainer
from correctness_tests.updates import assert_goes_on, assert_same
from correctness_tests.waiting import SECONDS, alive, at_most, children, started, until
from rl_impls.common.workers import WorkersEnded
from rl_impls.snake.dqn import DQNAgent

ROOT = Path(__file__).parents[2]
UPDATES = 5


def leftover_files(folder):
    return [*folder.iterdir(), *Path("/dev/shm").glob(f"torch_{os.getpid()}_*")]


@pytest.fixture(scope="module")
def given():
    """Return a configuration, and batches whose halves differ greatly."""
    config, batches = problem(0, batches=UPDATES)
    for _, _, rewards, _, _ in batches:
        rewards[16:] *= 10
    return config | {"max_grad_norm": 1.0}, batches


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("ddp")))
        yield Path(tempfile.tempdir)


@pytest.fixture(scope="module")
def made(given, temporary):
    config, batches = given
    with at_most(SECONDS, "the second process to start"):
        step, update = trainer("torch", config, batches[0], "ddp")
    yield step, update
    with at_most(SECONDS, "the second process to end"):
        step.close()


@pytest.fixture
def two(made):
    step, update = made
    step.reset()
    return step, update


@pytest.fixture
def one(given):
    return trainer("torch", given[0], given[1][0], "full")


def test_weights_and_losses_equal_those_of_one_process(given, one, two):
    config, batches = given
    for k, batch in enumerate(batches):
        assert two[1](batch) == pytest.approx(one[1](batch), rel=1e-5)
        if k == 0:  # Adam's steps hardly depend on the scale of a gradient, but its first moment does
            wanted, got = one[0].state(), two[0].state()
            for name in ("first.w0", "first.w1", "first.b2"):
                assert np.abs(got[name] - wanted[name]).max() < 1e-5 * np.abs(wanted[name]).max()
    assert_trained_alike(two[0].params, one[0].params, config["learning_rate"], UPDATES)


def test_the_target_net_is_synced_in_both_processes(given, one, two):
    for step, update in (one, two):
        update(given[1][0])
        step.sync_target()
    for batch in given[1][1:]:
        assert two[1](batch) == pytest.approx(one[1](batch), rel=1e-4)


def test_reset_restores_both_processes(given, two):
    step, update = two
    first = [update(batch) for batch in given[1]], step.state()
    step.reset()
    again = [update(batch) for batch in given[1]], step.state()
    assert first[0] == again[0]
    assert_same(again[1], first[1])


def test_a_loaded_state_goes_on_like_one_process(given, one, two):
    one[0].sync_target()  # so that the target net of the state is not the one that both began with
    assert_goes_on(one, two, given[1], 1e-5)
    assert_trained_alike(two[0].params, one[0].params, given[0]["learning_rate"], UPDATES)


def test_batches_of_odd_or_other_size_are_refused(given, two):
    with pytest.raises(ValueError, match=r"^batch_size=31 should be 32"):
        two[1]([field[:31] for field in given[1][0]])
    with pytest.raises(ValueError, match=r"^batch_size=5 should be even"):
        trainer("torch", given[0], [field[:5] for field in given[1][0]], "ddp")
    assert len(children()) == 1


def test_a_second_ddp_learner_in_one_process_is_refused(given, two):
    with pytest.raises(RuntimeError, match="in a process group: close"):
        trainer("torch", given[0], given[1][0], "ddp")
    two[1](given[1][0])


def test_close_ends_the_second_process_and_can_be_called_twice(given, made, temporary):
    step, update = made
    assert leftover_files(temporary) == []
    pids = children()
    step.close()
    step.close()
    assert not any(map(alive, pids))
    assert children() == []
    assert leftover_files(temporary) == []
    with pytest.raises(RuntimeError, match="the second process was ended by close"):
        update(given[1][0])


def test_another_batch_size_replaces_the_second_process(made):
    made[0].close()
    agent, state = DQNAgent(2, 1, backend="torch", form="ddp", hidden=16), np.float32([1, 0])
    try:
        for _ in range(40):
            agent.remember(state, 0, 1.0, state, True)
        assert agent.replay() > agent.replay(20)
        assert len(children()) == 1
    finally:
        agent.learner.close()


def test_both_processes_bootstrap_from_the_online_net_without_a_target_net(given, made):
    made[0].close()
    config, batches = given[0] | {"target_frequency": 0}, given[1]
    _, update = trainer("torch", config, batches[0], "full")
    step, update_both = trainer("torch", config, batches[0], "ddp")
    with closing(step):
        for batch in batches:
            assert update_both(batch) == pytest.approx(update(batch), rel=1e-5)


KILLED = """
import multiprocessing, time
from correctness_tests.snake.problem import problem, trainer

config, [batch] = problem(0)
step, update = trainer("torch", config, batch, "ddp")
update(batch)
print(multiprocessing.active_children()[0].pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_second_process_ends_when_the_first_is_killed(tmp_path):
    command, environment = [sys.executable, "-c", KILLED], os.environ | {"TMPDIR": str(tmp_path)}
    with started(command, cwd=ROOT, env=environment) as first:
        pid = int(first.stdout.readline())
        assert alive(pid)
        first.kill()
    until(lambda: not alive(pid), "the second process to end")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda step, pid: os.kill(pid, signal.SIGKILL), r"the second process was killed by signal 9 \(SIGKILL\)"),
        (lambda step, pid: os.kill(pid, signal.SIGSTOP), "the second process did not answer for 20 s: it hangs"),
        (lambda step, pid: step.tell("nonsense"), "two processes failed: TypeError: 'NoneType' object is not callable"),
    ],
    ids=["killed", "hangs", "fails"],
)
def test_a_second_process_that_dies_hangs_or_fails_is_reported_and_ended(given, made, temporary, spoil, message):
    made[0].close()
    step, update = trainer("torch", given[0] | {"worker_timeout": 20.0}, given[1][0], "ddp")
    update(given[1][0])
    [pid] = children()
    spoil(step, pid)
    with pytest.raises(WorkersEnded, match=message):
        update(given[1][0])
    assert not alive(pid)
    assert leftover_files(temporary) == []
