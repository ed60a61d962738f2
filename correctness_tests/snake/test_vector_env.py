"""The vectorised form of the game: its seeds, arrays and states, and the input that it refuses."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.snake.games import BOARDS, DRAWS, N, make_vector


def test_one_seed_gives_one_course_of_all_games():
    def course(seed):
        env, rng = make_vector(n=16), np.random.default_rng(0)
        return np.array([env.reset(seed=seed)[0], *(env.step(rng.integers(4, size=16))[0] for _ in range(50))])

    np.testing.assert_array_equal(course(3), course(3))
    assert not np.array_equal(course(3)[0], course(4)[0])
    assert len(np.unique(course(3)[0], axis=0)) > 8


def test_arrays_of_a_step_are_new():
    env = make_vector(n=4)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for _ in range(30):
        obs, *others = env.step(np.zeros(4, int))[:4]
        kept += [obs, *others]
        copies += [array.copy() for array in (obs, *others)]
    for array, copy in zip(kept, copies):
        np.testing.assert_array_equal(array, copy)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_a_state_put_back_goes_on_identically(seed, steps):
    env = make_vector(BOARDS[1], n=8)
    rng = np.random.default_rng(seed)
    actions, draws = rng.integers(4, size=(60, 8)), rng.integers(DRAWS, size=(60, 8, 3), dtype=np.int32)
    env.reset_with(draws[0])
    for inputs in zip(actions[:steps], draws[:steps]):
        env.step_with(*inputs)
    state = env.get_state()

    def rest(env):
        return [env.step_with(*inputs)[:4] for inputs in zip(actions[steps:], draws[steps:])]

    wanted = rest(env)
    other = make_vector(BOARDS[1], n=8)
    for again in (env, other):
        again.set_state(state)
        for outcome, outcome_again in zip(wanted, rest(again)):
            for array, array_again in zip(outcome, outcome_again):
                np.testing.assert_array_equal(array_again, array)


@pytest.mark.parametrize("n", [0, -1, 2.0])
def test_a_bad_number_of_games_is_refused(n):
    with pytest.raises(ValueError, match=f"^num_envs: got {n}, wanted an integer from 1"):
        make_vector(n=n)


BAD_ACTIONS = [[0, 1], [0, 1, 4], [-1, 0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]], [True, False, True], 1]


@pytest.mark.parametrize("actions", BAD_ACTIONS, ids=str)
def test_bad_actions_are_refused_and_change_nothing(actions):
    env = make_vector()
    env.reset(seed=0)
    before, draws = env.get_state(), env.np_random.bit_generator.state
    with pytest.raises(ValueError, match=r"^actions: got .*wanted 3 integers from 0 to 3"):
        env.step(actions)
    assert env.np_random.bit_generator.state == draws
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("draws", [np.zeros((N, 2), int), np.zeros((N, 3)), np.zeros((N + 1, 3), int)])
def test_bad_draws_are_refused_and_change_nothing(draws):
    env = make_vector()
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ValueError, match=r"^draws: got .*wanted integers \[3, 3\]"):
        env.reset_with(draws)
    with pytest.raises(ValueError, match=r"^draws: got .*wanted integers \[3, 3\]"):
        env.step_with(np.zeros(N, int), draws)
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_state_of_other_boards_is_refused():
    env = make_vector()
    other = make_vector(BOARDS[1])
    other.reset(seed=0)
    with pytest.raises(ValueError, match=r"^state: got shapes .*25.* wanted .*100"):
        env.set_state(other.get_state())


def test_games_are_reset_before_their_first_step():
    from gymnasium.error import ResetNeeded

    env = make_vector()
    draws = np.zeros((N, 3), np.int32)
    actions = np.zeros(N, int)
    uses = env.get_state, functools.partial(env.step, actions), functools.partial(env.step_with, actions, draws)
    for use in uses:
        with pytest.raises(ResetNeeded, match="wanted reset"):
            use()
