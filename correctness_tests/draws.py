"""What the tests of random draws ask of them, with room for what has a chance of one in a million."""

from __future__ import annotations

import numpy as np


def assert_as_often(drawn, count):
    """Each number below ``count`` was drawn as often as the others, and no other."""
    times, mean = np.bincount(np.ravel(drawn)), np.size(drawn) / count
    assert len(times) == count
    assert np.abs(times - mean).max() < 5 * np.sqrt(mean * (1 - 1 / count))


def assert_distributed(drawn, distribution):
    """Drawn numbers are of that distribution, and none of them was used twice."""
    from scipy.stats import kstest  # takes a second to import

    assert kstest(drawn.ravel(), distribution).statistic < 3 / np.sqrt(drawn.size)
    assert len(np.unique(drawn)) > 0.99 * drawn.size


def assert_each_for_itself(drawn, alike):
    """Two neighbours along any axis are the same as often as chance has it."""
    for axis, size in enumerate(drawn.shape):
        same = (drawn == np.roll(drawn, 1, axis)).mean()
        assert size == 1 or abs(same - alike) < 4 / np.sqrt(drawn.size), axis
