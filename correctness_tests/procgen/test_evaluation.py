"""Evaluation: normalised returns, numbers of episodes, held-out levels, and deterministic actions."""

import numpy as np
import pytest

from correctness_tests.workload_agents import FIGURES
from rl_impls.common.checks import LARGEST
from rl_impls.common.procgen_env import GAMES, NONE, Episodes, ProcgenVectorEnv
from rl_impls.procgen._numpy import logits_and_values, sample_actions
from rl_impls.procgen.agent import Config
from rl_impls.procgen.evaluation import HELD_OUT, RANGES, UNSEEN, evaluate, level_sets, play_episodes, score
from rl_impls.procgen.net import init_net


def test_score_is_normalised_by_the_ranges_of_the_paper():
    assert score(np.array([13.0]), "coinrun", "easy") == pytest.approx(1.6)
    assert score(np.array([32.4]), "fruitbot", "easy") == score(np.array([27.2]), "fruitbot", "hard") == 1
    assert score(np.array([1.5]), "leaper", "hard") == score(np.array([3.0]), "leaper", "easy") == 0
    assert all(set(RANGES[mode]) == set(GAMES) for mode in ("easy", "hard"))


class FakeEnvs:
    """Environments with known episode lengths; episode n of environment k has the return 100 k + n lengths[k]."""

    def __init__(self, num_envs):
        self.num_envs, self.lengths, self.played = num_envs, 1 + np.arange(num_envs) % 3, 0

    def observe(self):
        return None

    def advance(self, actions, out):
        self.played += 1
        ended = np.flatnonzero(self.played % self.lengths == 0)
        self.finished = Episodes(ended, 100.0 * ended + self.played, self.lengths[ended], *NONE[3:])
        return out, None, None


@pytest.mark.parametrize("episodes", [1, 33, 70])
def test_each_environment_plays_the_same_number_of_episodes_however_long_they_are(episodes):
    envs = FakeEnvs(min(episodes, 32))
    returns, lengths = play_episodes(envs, lambda obs: None, episodes)
    assert returns.shape == lengths.shape == (episodes,)
    assert returns.dtype == lengths.dtype == float
    wanted = [
        (100 * k + (n + 1) * length, length)
        for k, length in enumerate(envs.lengths)
        for n in range(len(range(k, episodes, envs.num_envs)))
    ]
    assert sorted(zip(returns, lengths)) == sorted(wanted)


@pytest.mark.parametrize(("levels", "start_level"), [(10, 7), (HELD_OUT, 0), (1, HELD_OUT - 1)])
def test_held_out_levels_are_never_those_of_training(levels, start_level):
    found = level_sets(Config(levels=levels, start_level=start_level))
    assert found["training"] == (start_level, levels)
    first, count = found["held_out"]
    assert start_level + levels <= first < first + count <= LARGEST


def test_agent_that_trains_on_all_levels_has_no_held_out_ones():
    assert level_sets(Config(levels=0)) == {"training": (0, 0)}
    assert level_sets(Config(levels=0), trained=False) == {"held_out": (HELD_OUT, UNSEEN)}  # of another game


def act(params, obs, rng):
    """Take the likeliest actions of two environments, or sample them if there is a random generator."""
    logits, _ = logits_and_values(params, obs)
    return logits.argmax(1) if rng is None else sample_actions(logits, rng.random(2, np.float32))[0]


@pytest.mark.parametrize(("deterministic", "mode"), [(True, "easy"), (False, "hard")])
def test_evaluation_takes_the_likeliest_actions_or_samples_them_by_its_seed(deterministic, mode):
    config = Config(backend="numpy", game="starpilot", mode=mode, levels=10)
    params = init_net(np.random.default_rng(0))
    found = evaluate(config, params, 2, seed=4, deterministic=deterministic)
    assert list(found) == FIGURES["procgen"]
    for name, levels in (("training", {}), ("held_out", {"start_level": HELD_OUT, "num_levels": UNSEEN})):
        envs = ProcgenVectorEnv(**config.env(4) | {"num_envs": 2} | levels, threads=1)
        wanted, obs, rng = {}, envs.observe(), None if deterministic else np.random.default_rng(4)
        while len(wanted) < 2:
            obs, *_ = envs.advance(act(params, obs, rng))
            for index, total, length in zip(*envs.finished[:3]):
                wanted.setdefault(index, (total, length))
        envs.close()
        returns = found[f"{name}_return"]
        assert sorted(zip(returns, found[f"{name}_length"])) == sorted(wanted.values())
        np.testing.assert_array_equal(found[f"{name}_score"], score(returns, "starpilot", mode))
