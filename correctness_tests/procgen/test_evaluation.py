"""Evaluation: normalised returns, how episodes are counted, held-out levels, and how actions are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.procgen.agent_sizes import FIGURES
from correctness_tests.waiting import limit
from rl_impls.common.checks import LARGEST
from rl_impls.common.procgen_env import GAMES, NONE, Episodes, ProcgenVectorEnv
from rl_impls.procgen import evaluation
from rl_impls.procgen._numpy import logits_and_values
from rl_impls.procgen.agent import Config
from rl_impls.procgen.evaluation import HELD_OUT, RANGES, UNSEEN, evaluate, play_episodes, score
from rl_impls.procgen.spec import init_net

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("the threads of games")
CONFIG = Config(backend="numpy", game="bigfish", levels=10, start_level=7, envs=2, unroll=4, batch=4)
WEIGHTS = init_net(np.random.default_rng(0))


def test_score_is_normalised_by_the_ranges_of_the_paper():
    assert score(np.array([13.0]), "coinrun", "easy") == pytest.approx(1.6)
    assert score(np.array([32.4]), "fruitbot", "easy") == score(np.array([27.2]), "fruitbot", "hard") == 1
    assert score(np.array([1.5]), "leaper", "hard") == score(np.array([3.0]), "leaper", "easy") == 0
    assert all(set(RANGES[mode]) == set(GAMES) for mode in ("easy", "hard"))


def lasting(index):
    """Steps of each episode of an environment of :class:`Fake`."""
    return 1 + index % 3


class Fake:
    """Games whose episodes have known lengths; the return of the n-th one in environment k is 100 k + n lasting(k)."""

    made: list = []  # noqa: RUF012  (a test looks at it and empties it)

    def __init__(self, num_envs, **env):
        self.num_envs, self.env, self.played, self.closed = num_envs, env, 0, False
        self.made.append(self)

    def observe(self):
        return np.zeros((self.num_envs, 64, 64, 3), np.uint8)

    def advance(self, actions, out):
        self.played += 1
        if self.env["game"] == "leaper":
            raise ValueError("no such action")
        steps = lasting(np.arange(self.num_envs))
        ended = np.flatnonzero(self.played % steps == 0)
        self.finished = Episodes(ended, 100.0 * ended + self.played, steps[ended], *NONE[3:]) if len(ended) else NONE
        return out, None, None

    def close(self):
        self.closed = True


@pytest.fixture
def fakes(monkeypatch):
    """All environments that are made from now on."""
    monkeypatch.setattr(evaluation, "ProcgenVectorEnv", Fake)
    Fake.made.clear()
    return Fake.made


@pytest.mark.parametrize("episodes", [1, 33, 70])
def test_each_environment_plays_the_same_number_of_episodes_however_long_they_are(fakes, episodes):
    returns, lengths = play_episodes(CONFIG, WEIGHTS, CONFIG.env(0), episodes, 0, False)
    assert returns.shape == lengths.shape == (episodes,)
    assert returns.dtype == lengths.dtype == float
    [env] = fakes
    assert env.num_envs == min(episodes, 32)
    shares = [len(range(k, episodes, env.num_envs)) for k in range(env.num_envs)]
    wanted = [(100 * k + n * lasting(k), lasting(k)) for k, share in enumerate(shares) for n in range(1, share + 1)]
    assert sorted(zip(returns, lengths)) == sorted(wanted)
    assert env.closed


def test_environments_are_closed_if_playing_fails(fakes):
    with pytest.raises(ValueError, match="no such action"):
        play_episodes(CONFIG, WEIGHTS, CONFIG.env(0) | {"game": "leaper"}, 3, 0, False)
    assert fakes[0].closed


@pytest.mark.parametrize(("levels", "start_level"), [(10, 7), (HELD_OUT, 0), (1, HELD_OUT - 1), (0, 0)])
def test_held_out_levels_are_never_those_of_training(fakes, levels, start_level):
    config = Config(backend="numpy", levels=levels, start_level=start_level, mode="hard", game="maze")
    figures = evaluate(config, WEIGHTS, 3, 9, False)
    assert list(figures) == (FIGURES if levels else FIGURES[:3])
    training, *held_out = [env.env for env in fakes]
    assert (training["start_level"], training["num_levels"]) == (start_level, levels)
    for env in held_out:
        assert env["start_level"] >= start_level + levels
        assert env["num_levels"] == UNSEEN
        assert env["start_level"] + env["num_levels"] <= LARGEST
    for env in (training, *held_out):
        assert (env["game"], env["mode"], env["seed"]) == ("maze", "hard", 9)
    assert len(held_out) == (levels > 0)
    np.testing.assert_allclose(figures["training_score"], score(figures["training_return"], "maze", "hard"))


def test_training_levels_may_not_reach_the_held_out_ones():
    with pytest.raises(ValueError, match=f"^levels: got {HELD_OUT + 1}, wanted an integer from 0 to {HELD_OUT}$"):
        Config(levels=HELD_OUT + 1)
    for levels, start_level, last in ((0, 3, 0), (10, HELD_OUT - 9, HELD_OUT - 10)):
        with pytest.raises(ValueError, match=f"^start_level: got {start_level}, wanted an integer from 0 to {last}$"):
            Config(levels=levels, start_level=start_level)


def test_deterministic_evaluation_takes_the_likeliest_actions():
    config = Config(backend="numpy", game="bossfight", levels=10, envs=2, unroll=4, batch=4)
    env = config.env(4)
    returns, lengths = play_episodes(config, WEIGHTS, env, 2, 0, True)
    envs = ProcgenVectorEnv(**env, threads=1)
    wanted, frames = {}, envs.observe()
    while len(wanted) < 2:
        frames, *_ = envs.advance(logits_and_values(WEIGHTS, frames)[0].argmax(1))
        for index, total, length in zip(*envs.finished[:3]):
            wanted.setdefault(index, (total, length))
    envs.close()
    assert sorted(zip(returns, lengths)) == sorted(wanted.values())
