"""Training an agent: stored transitions, update schedule, exploration, and reported figures."""

import math

import numpy as np
import pytest

from rl_impls.pirl.env import PirlEnv

from .problem import fill, make

SMALL = {"backend": "torch", "capacity": 600, "warm_up": 20, "train_frequency": 8}


class Recorded(PirlEnv):
    def __init__(self):
        super().__init__()
        self.steps = []

    def step(self, action):
        before = self.observation()
        after, reward, terminated, truncated, info = super().step(action)
        self.steps.append((before, action, reward, after.copy(), terminated))
        return after, reward, terminated, truncated, info


def test_every_step_is_stored_and_counted_over_two_calls():
    driver = make(**SMALL)
    driver.env = env = Recorded()
    env.np_random = driver.rng
    figures = [driver.learn(), driver.learn()]
    assert len(env.steps) == driver.step == 2 * driver.chunk == len(driver.replay)
    for name, column in zip(driver.replay.fields, zip(*env.steps), strict=True):
        stored = driver.replay.arrays()[name]
        np.testing.assert_array_equal(stored, np.array(column, stored.dtype))
    states, _, rewards, following, ended = map(np.array, zip(*env.steps))
    same = (states[1:] == following[:-1]).all(axis=1)
    np.testing.assert_array_equal(same, ~ended[:-1])
    assert not ended[driver.chunk - 1], "the test needs an episode that spans both chunks"
    for k, figure in enumerate(figures):
        chunk = slice(k * driver.chunk, (k + 1) * driver.chunk)
        assert figure["episodes"] == ended[chunk].sum() > 0
        assert figure["safe"] == rewards[chunk].sum()
        assert figure["return"] == figure["safe"] / figure["episodes"]
        lengths = np.diff(np.flatnonzero(ended), prepend=-1)[ended[: chunk.start].sum() : ended[: chunk.stop].sum()]
        assert figure["length"] == lengths.mean()
        assert figure["td_loss"] + figure["physics_loss"] == pytest.approx(figure["loss"])
        assert min(figure["td_loss"], figure["physics_loss"]) > 0
        assert figure["epsilon"] == pytest.approx(1 - 0.95 * chunk.stop / 10_000)
    assert sum(figure["safe"] for figure in figures) > 0


@pytest.mark.parametrize(
    ("train_frequency", "warm_up", "updates"),
    [(4, 20, (60, 124)), (8, 20, (30, 62)), (8, 300, (0, 27)), (7, 0, (35, 72))],
)
def test_an_update_is_due_every_few_steps_after_the_warm_up(train_frequency, warm_up, updates):
    driver, before = make(**SMALL | {"train_frequency": train_frequency, "warm_up": warm_up}), 0
    for total in updates:  # an update needs a batch of 8; a chunk has 256 steps
        figures = driver.learn()
        assert driver.state()["step"] == total
        assert figures["updates"] == total - before
        assert math.isnan(figures["loss"]) == (total == before)
        before = total


def test_every_update_samples_new_points():
    agent = make("torch", learning_rate=0.0)
    fill(agent, 20)
    physics = [loss - td_loss for loss, td_loss in (agent.train() for _ in range(3))]
    assert np.diff(np.sort(physics)).min() > 1e-4


def test_epsilon_falls_in_a_straight_line_and_stays():
    driver = make(**SMALL, epsilon_start=0.8, epsilon_end=0.2, epsilon_steps=400)
    for step, epsilon in ((0, 0.8), (100, 0.65), (400, 0.2), (1000, 0.2)):
        driver.step = step
        assert driver.epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize(("epsilon", "greedy"), [(0, True), (1, False)])
def test_epsilon_is_the_share_of_drawn_actions_while_driving(epsilon, greedy):
    driver = make(**SMALL | {"warm_up": 1000}, epsilon_start=epsilon, epsilon_end=epsilon)
    driver.learn()
    stored = driver.replay.arrays()
    best = driver.get_qs_batch(stored["state"]).argmax(axis=1) == stored["action"]
    assert best.all() if greedy else best.mean() < 0.2


def test_evaluation_equals_driving_each_episode_alone():
    driver = make()
    seen = driver.evaluate(40, seed=5)
    starts = set()
    for k, seed in enumerate(np.random.default_rng(5).integers(2**31, size=40)):
        env = PirlEnv()
        state, _ = env.reset(seed=int(seed))
        starts.add(state.tobytes())
        assert seen["predicted"][k] == pytest.approx(driver.get_qs_batch(state[None]).max(), abs=1e-6)
        rewards = []
        while env.running:
            state, reward, *_ = env.step(driver.get_epsilon_greedy_action(state, 0.0))
            rewards.append(reward)
        assert (seen["returns"][k], seen["lengths"][k]) == (sum(rewards), len(rewards))
    assert 0 < seen["returns"].sum() < 40
    assert len(starts) == 40
