"""The Gymnasium environment, which has a single world."""

import functools

import numpy as np
import pytest


def make(render_mode=None, **options):
    from rl_impls.treasurehunt.env import TreasurehuntEnv
    from rl_impls.treasurehunt.vector_env import Settings

    small = {"num_agents": 3, "height": 4, "width": 5, "radius": 1, "spawn": 0.3, "turns": 10}
    return TreasurehuntEnv(Settings(**{**small, **options}), render_mode)


def episode(env, seed, rng_seed=0):
    """Play random actions for an episode; return obs f32[T + 1, N, F] and rewards f32[T, N]."""
    rng = np.random.default_rng(rng_seed)
    obs, rewards, truncated = [env.reset(seed=seed)[0]], [], False
    while not truncated:
        frame, reward, _, truncated, _ = env.step(rng.integers(4, size=env.settings.num_agents))
        obs.append(frame)
        rewards.append(reward)
    return np.array(obs), np.array(rewards)


@pytest.mark.parametrize("observation", ["onehot", "rgb"])
def test_observations_and_rewards_fit_the_spaces(observation):
    env = make(observation=observation)
    obs, info = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert info == {}
    env.action_space.seed(0)
    for _ in range(10):
        obs, rewards, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        assert (rewards.dtype, rewards.shape) == (np.float32, (3,))
        assert terminated is False
        assert info == {}
    assert truncated is True


def test_env_plays_the_world_with_the_draws_of_its_seed():
    from rl_impls.treasurehunt.vector_env import DRAWS, CellWorlds

    env = make()
    obs, rewards = episode(env, seed=5, rng_seed=1)
    rng, players = np.random.default_rng(5), np.random.default_rng(1)
    draw = functools.partial(rng.integers, DRAWS, size=(1, 20), dtype=np.int32)
    worlds = CellWorlds(env.settings, 1)
    np.testing.assert_array_equal(worlds.reset(draw())[:, 0], obs[0])
    for t in range(10):
        frame, reward, truncated = worlds.advance(players.integers(4, size=3)[:, None], draw())
        np.testing.assert_array_equal(frame[:, 0], obs[t + 1])
        np.testing.assert_array_equal(reward[:, 0], rewards[t])
        assert truncated == (t == 9)


def test_render_draws_cells_in_colours_inside_walls():
    from rl_impls.treasurehunt.vector_env import COLOURS

    env = make("rgb_array", num_agents=1, height=1, width=5, spawn=0.0)
    env.reset(seed=0)
    grid = np.ones((3, 7), np.int8)
    grid[1, 1:6] = 0, 2, 3, 4, 0
    env.world.set_state({"grid": grid.reshape(1, -1), "where": np.array([[8]]), "turn": np.int32(0)})
    image = env.render()
    assert image.dtype == np.uint8
    assert image.shape == (48, 112, 3)
    cells = image.reshape(3, 16, 7, 16, 3)
    assert (cells == cells[:, :1, :, :1]).all()
    kinds = [[1] * 7, [1, 5, 2, 3, 4, 0, 1], [1] * 7]
    np.testing.assert_array_equal(cells[:, 0, :, 0], COLOURS[np.array(kinds)])
    env.step(np.array([3]))
    np.testing.assert_array_equal(env.render()[24, 24::16], COLOURS[[0, 5, 3, 4, 0, 1]])
