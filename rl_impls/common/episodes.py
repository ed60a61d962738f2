"""Returns and lengths of episodes that span several chunks of training."""

import math

import numpy as np


def finished(running, rewards, ended):
    """Return the return and the length of each episode that ended, f64[2, E].

    Args:
        running: f64[2, N], return and length so far of the running episodes; updated in place.
        rewards: f[T, N].
        ended: bool[T, N], whether an episode ended with this step.
    """
    totals = running[:, None] + np.cumsum([rewards, np.ones_like(rewards)], axis=1, dtype=np.float64)
    envs, steps = np.nonzero(ended.T)  # by environment, then by step
    at_end = totals[:, steps, envs]
    same_env = np.diff(envs, prepend=-1) == 0
    before = np.where(same_env, np.roll(at_end, 1, axis=1), 0)
    last = np.zeros_like(running)
    last[:, envs] = at_end  # of several episodes of one environment, the last
    running[:] = totals[:, -1] - last
    return at_end - before


def mean(values):
    """Return the mean, NaN for no values."""
    return float(np.mean(values)) if len(values) else math.nan
