"""Returns and lengths of episodes that begin and end in different chunks of training."""

import math

import numpy as np

from rl_impls.common.episodes import finished, mean


def test_episodes_of_one_environment_that_end_in_the_same_chunk_are_apart():
    running = np.array([[10.0, 20.0], [3.0, 4.0]])  # return and length so far in two environments
    rewards = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    ended = np.array([[True, False], [False, False], [True, True], [False, False]])
    returns, lengths = finished(running, rewards, ended)
    assert returns.tolist() == [10 + 1, 3 + 5, 20 + 2 + 4 + 6]
    assert lengths.tolist() == [4, 2, 7]
    assert running.tolist() == [[7, 8], [1, 1]]


def test_chunk_in_which_no_episode_ends_has_no_mean():
    running = np.array([[10.0], [3.0]])
    returns, lengths = finished(running, np.array([[1], [2]], np.float32), np.zeros((2, 1), bool))
    assert math.isnan(mean(returns))
    assert math.isnan(mean(lengths))
    assert running.tolist() == [[13], [5]]
