"""Evaluation: normalised returns, shares of episodes, levels that were never trained on, and how actions are chosen."""

from __future__ import annotations

from types import SimpleNamespace

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


@pytest.mark.parametrize("mode", ["easy", "hard"])
def test_a_score_is_0_of_the_least_return_of_a_game_and_1_of_the_most(mode):
    assert set(RANGES) == {"easy", "hard"}
    assert set(RANGES[mode]) == set(GAMES)
    for game, (least, most) in RANGES[mode].items():
        assert least < most
        np.testing.assert_allclose(score(np.array([least, most, (least + most) / 2]), game, mode), [0, 1, 0.5])


def test_ranges_are_those_of_the_publication():
    assert score(np.array([13.0]), "coinrun", "easy") == pytest.approx(1.6)
    assert score(np.array([32.4]), "fruitbot", "easy") == score(np.array([27.2]), "fruitbot", "hard") == 1
    assert score(np.array([1.5]), "leaper", "hard") == score(np.array([3.0]), "leaper", "easy") == 0


class Fake:
    """Games that last as many steps as is said of each; the return of an episode is the number of its environment."""

    made: list = []  # noqa: RUF012  (a test looks at it and empties it)
    lasting = staticmethod(lambda index: 1)

    def __init__(self, num_envs, **env):
        self.num_envs, self.env, self.played, self.closed, self.actions = num_envs, env, 0, False, []
        self.made.append(self)

    def observe(self):
        return np.zeros((self.num_envs, 64, 64, 3), np.uint8)

    def advance(self, actions, out):
        self.played += 1
        self.actions.append(actions)
        index = np.arange(self.num_envs)
        lasting = np.array([self.lasting(k) for k in index])
        ended = np.flatnonzero(self.played % lasting == 0)
        self.finished = Episodes(ended, 100.0 * ended + self.played, lasting[ended], *NONE[3:]) if len(ended) else NONE
        return out, None, None

    def close(self):
        self.closed = True


@pytest.fixture
def fakes(monkeypatch):
    """All environments that are made from now on."""
    monkeypatch.setattr(evaluation, "ProcgenVectorEnv", Fake)
    monkeypatch.setattr(Fake, "made", [])
    return Fake.made


def constant(logits):
    """Stand in for the net by logits that are always the same."""

    def build(workload, op, spec, example, knobs):
        return lambda obs: (np.tile(np.asarray(logits, np.float32), (len(obs), 1)), None)

    return SimpleNamespace(build=build, to_device=lambda x: x, to_host=lambda x: x, from_host=lambda x: x)


@pytest.fixture
def net(monkeypatch):
    """The likeliest action is 3, and the others are hardly less likely."""
    monkeypatch.setattr(evaluation.backends, "get", lambda name: constant([0.01 * (k == 3) for k in range(15)]))


@pytest.mark.usefixtures("net")
@pytest.mark.parametrize("episodes", [1, 31, 32, 33, 70])
def test_each_environment_plays_its_share_of_the_episodes(fakes, monkeypatch, episodes):
    monkeypatch.setattr(Fake, "lasting", staticmethod(lambda index: 1 + 5 * (index % 3)))
    returns, lengths = play_episodes(CONFIG, WEIGHTS, CONFIG.env(0), episodes, 0, False)
    assert returns.shape == lengths.shape == (episodes,)
    assert returns.dtype == lengths.dtype == float
    [env] = fakes
    assert env.num_envs == min(episodes, 32)
    shares = [len(range(k, episodes, env.num_envs)) for k in range(env.num_envs)]
    wanted = [(100 * k + n * lasting, lasting) for k, share in enumerate(shares)
              for n in range(1, share + 1) for lasting in [Fake.lasting(k)]]  # fmt: skip
    assert sorted(zip(returns, lengths)) == sorted(wanted)
    assert env.closed
    assert env.played == max(share * Fake.lasting(k) for k, share in enumerate(shares))


@pytest.mark.usefixtures("net")
def test_the_likeliest_action_is_taken_whatever_is_drawn_where_that_is_asked_for(fakes, monkeypatch):
    monkeypatch.setattr(Fake, "lasting", staticmethod(lambda index: 50))
    for seed in (0, 1):
        play_episodes(CONFIG, WEIGHTS, CONFIG.env(0), 8, seed, True)
    assert all((np.array(env.actions) == 3).all() for env in fakes)
    fakes.clear()
    for seed in (0, 0, 1):
        play_episodes(CONFIG, WEIGHTS, CONFIG.env(0), 8, seed, False)
    first, again, other = (np.array(env.actions) for env in fakes)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert set(np.unique(first)) == set(range(15))
    assert first.dtype == np.int32


@pytest.mark.usefixtures("net")
def test_environments_are_closed_where_playing_fails(fakes, monkeypatch):
    def fail(self, *args):
        raise ValueError("no such action")

    monkeypatch.setattr(Fake, "advance", fail)
    with pytest.raises(ValueError, match="no such action"):
        play_episodes(CONFIG, WEIGHTS, CONFIG.env(0), 3, 0, False)
    assert fakes[0].closed


@pytest.mark.usefixtures("net")
@pytest.mark.parametrize(("levels", "start_level"), [(10, 7), (1, 0), (HELD_OUT, 0), (1, HELD_OUT - 1), (0, 0)])
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


@pytest.mark.parametrize("levels", [HELD_OUT + 1, -1])
def test_a_training_has_no_level_that_is_held_out(levels):
    with pytest.raises(ValueError, match=f"^levels: got {levels}, wanted an integer from 0 to {HELD_OUT}$"):
        Config(levels=levels)


def test_no_level_after_the_last_is_trained_on():
    for levels, start_level, last in ((HELD_OUT, 1, 0), (0, 3, 0), (10, HELD_OUT - 9, HELD_OUT - 10)):
        with pytest.raises(ValueError, match=f"^start_level: got {start_level}, wanted an integer from 0 to {last}$"):
            Config(levels=levels, start_level=start_level)


def test_games_are_played_by_the_likeliest_actions_of_the_net():
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
