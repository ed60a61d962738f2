"""The vector environment: seeds, arrays, states, autoreset, masked resets, and bad input."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence

from correctness_tests.snake.games import BOARDS, DRAWS, N, Prescribed, make, make_vector, start


@pytest.fixture
def sync():
    """Yield Gymnasium's own vector environment over plain games, with autoreset in the same step."""
    env = gymnasium.vector.SyncVectorEnv([lambda: make(BOARDS[1])] * N, autoreset_mode="SameStep")
    yield env
    env.close()


def prescribe(sync, draws):
    for env, row in zip(sync.envs, draws):
        env.np_random = Prescribed(row)


def assert_equivalent(got, expected):
    """Assert equal arrays, dtypes and infos, except that our rewards are float32 and Gymnasium's are float64."""
    if len(got) == 5:
        got = got[0], got[1].astype(np.float64), *got[2:]
    assert data_equivalence(got, expected)


def test_steps_and_resets_equal_those_of_a_sync_vector_env(sync):
    env, rng = make_vector(BOARDS[1]), np.random.default_rng(0)
    assert env.observation_space == sync.observation_space

    def draws():
        """Return the numbers that the next reset or step of ``env`` draws."""
        return copy.deepcopy(env).draw()

    env.reset(seed=0)
    prescribe(sync, draws())
    assert_equivalent(env.reset(), sync.reset())
    ends = 0
    for t in range(120):
        prescribe(sync, draws())
        actions = rng.integers(4, size=N)
        outcome = env.step(actions)
        assert_equivalent(outcome, sync.step(actions))
        ends += int((outcome[2] | outcome[3]).sum())
        if t % 4 == 0:
            mask = np.array([True, t % 8 == 0, False])
            prescribe(sync, draws())
            assert_equivalent(env.reset(options={"reset_mask": mask}), sync.reset(options={"reset_mask": mask}))
    assert ends > 10


BAD = [
    (lambda env: env.step([0, 1]), r"^actions=.* should be 3 integers from 0 to 3"),
    (lambda env: env.step([-1, 0, 4]), r"^actions=.* should be 3 integers from 0 to 3"),
    (lambda env: env.reset(seed=1, options={"reset_mask": np.array([1, 0, 1])}), r"^reset_mask=.* array bool\[3\]$"),
    (lambda env: env.reset(seed=1, options={"mask": np.ones(3, bool)}), r"^options: mask is unknown; the only reset "),
]


@pytest.mark.parametrize(("use", "message"), BAD, ids=["two actions", "action -1", "integers", "another name"])
def test_bad_actions_and_reset_options_are_refused_and_change_nothing(use, message):
    env = make_vector()
    env.reset(seed=0)
    before, draws = env.get_state(), env.np_random.bit_generator.state
    with pytest.raises(ValueError, match=message):
        use(env)
    assert env.np_random.bit_generator.state == draws
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


def test_games_are_all_reset_before_their_first_step():
    env = make_vector()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(N, int))
    with pytest.raises(ResetNeeded, match=r"^reset of some games: call reset\(\) first"):
        env.reset(options={"reset_mask": np.array([True, False, True])})
    env.reset(options={"reset_mask": np.ones(N, bool)})
    env.step(np.zeros(N, int))


def test_each_game_is_drawn_as_a_plain_one():
    env, plain = make_vector(render_mode="rgb_array"), make(render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match=r"^render: call reset\(\) first"):
        env.render()
    draws = np.random.default_rng(0).integers(DRAWS, size=(N, 3))
    env.reset_with(draws)
    frames = env.render()
    assert len(frames) == N
    for frame, row in zip(frames, draws):
        start(plain, *row)
        np.testing.assert_array_equal(frame, plain.render())


def test_make_vec_passes_on_its_arguments_and_its_spec_makes_the_same_games():
    made = gymnasium.make_vec("rlgauge/Snake-v0", N, dim=8, render_mode="rgb_array")
    again = gymnasium.make_vec(made.spec)
    for env in (made, again):
        assert type(env.unwrapped).__name__ == "SnakeVectorEnv"
        assert env.unwrapped.single_observation_space == gymnasium.spaces.Box(-1, 1, (8, 8), np.float32)
        env.reset(seed=0)
        obs, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        assert [frame.shape for frame in env.render()] == [(8 * 16, 8 * 16, 3)] * N
        env.close()
        env.close()
