"""An agent that drives: what it stores, when it learns and explores, and what it says of that."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rl_impls.pirl import _numpy, agent
from rl_impls.pirl.env import PirlEnv

from .agents import make

SMALL = {"backend": "torch", "capacity": 600, "warm_up": 20, "every": 8}

pytestmark = pytest.mark.usefixtures("one_thread")


class Noted(PirlEnv):
    """An environment that notes its steps."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def step(self, action):
        before = self.observation()
        after, reward, terminated, truncated, info = super().step(action)
        self.steps.append((before, action, reward, after.copy(), terminated))
        return after, reward, terminated, truncated, info


@pytest.fixture
def envs(monkeypatch):
    """All environments that are made from now on."""
    made = []
    monkeypatch.setattr(agent, "PirlEnv", lambda: made.append(Noted()) or made[-1])
    return made


def test_every_step_is_stored_and_an_episode_ends_before_the_next_begins(envs):
    driver = make(**SMALL)
    figures = [driver.learn(), driver.learn()]
    [env] = envs
    assert len(env.steps) == driver.step == 2 * driver.chunk == len(driver.replay)
    for name, column in zip(driver.replay.fields, zip(*env.steps), strict=True):
        stored = driver.replay.arrays()[name]
        np.testing.assert_array_equal(stored, np.array(column, stored.dtype))
    states, _, rewards, following, ended = map(np.array, zip(*env.steps))
    same = (states[1:] == following[:-1]).all(axis=1)
    np.testing.assert_array_equal(same, ~ended[:-1])
    assert not ended[driver.chunk - 1], "an episode goes on from chunk to chunk"
    for k, figure in enumerate(figures):
        chunk = slice(k * driver.chunk, (k + 1) * driver.chunk)
        assert figure["episodes"] == ended[chunk].sum() > 0
        assert figure["safe"] == rewards[chunk].sum()
    assert sum(figure["safe"] for figure in figures) > 0


@pytest.mark.parametrize(("every", "warm_up"), [(1, 20), (8, 20), (8, 300), (7, 0)])
def test_an_update_is_due_every_few_steps_once_the_warm_up_is_over(every, warm_up):
    driver, due = make(**SMALL | {"every": every, "warm_up": warm_up}), 0
    for chunk in range(2):
        steps = np.arange(1, 257) + 256 * chunk
        due += int(((steps % every == 0) & (steps >= max(warm_up, driver.config.batch))).sum())
        loss = driver.learn()["loss"]
        assert driver.updates == driver.state()["step"] == due
        assert math.isnan(loss) == (due == 0)


def test_the_loss_is_the_mean_over_the_updates_of_a_chunk(monkeypatch):
    driver, losses = make(**SMALL | {"every": 64}), [None, 1.0, 2.0, 6.0]
    monkeypatch.setattr(driver, "train", lambda: losses.pop(0))
    assert driver.learn()["loss"] == 3.0
    assert not losses


def test_epsilon_falls_in_a_straight_line_and_stays(monkeypatch):
    driver, seen = make(**SMALL, epsilon_start=0.8, epsilon_end=0.2, epsilon_steps=400), []
    monkeypatch.setattr(driver, "act", lambda state, epsilon: seen.append(epsilon) or 12)
    for _ in range(2):
        driver.learn()
    np.testing.assert_allclose(seen, np.maximum(0.2, 0.8 - 0.6 * np.arange(512) / 400))


def test_an_evaluation_drives_greedily_and_counts_what_the_environments_show(envs):
    driver = make(**SMALL)
    seen = driver.evaluate(80, seed=5)
    driven = [env for env in envs if env.steps]
    assert len(driven) == 80
    for k, env in enumerate(driven):
        states, actions, rewards, _, ended = map(np.array, zip(*env.steps))
        values = _numpy.q_values(driver.params, states)
        assert (values[np.arange(len(actions)), actions] > values.max(axis=1) - 1e-5).all()
        assert ended.tolist() == [False] * (len(ended) - 1) + [True]
        assert (seen["returns"][k], seen["lengths"][k]) == (rewards.sum(), len(rewards))
        assert seen["predicted"][k] == pytest.approx(values[0].max(), abs=1e-6)
    assert 0 < seen["returns"].sum() < 80
    assert len({env.steps[0][0].tobytes() for env in driven}) == 80
