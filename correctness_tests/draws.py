"""Statistical checks of random draws, which fail by chance about once in a million."""

import numpy as np


def assert_as_often(drawn, count):
    """Check that the numbers below ``count`` are drawn equally often, and no others."""
    times, mean = np.bincount(np.ravel(drawn)), np.size(drawn) / count
    assert len(times) == count
    assert np.abs(times - mean).max() < 5 * np.sqrt(mean * (1 - 1 / count))


def assert_distributed(drawn, distribution):
    """Check that numbers have this distribution and that 99% of them are distinct."""
    from scipy.stats import kstest  # takes a second to import

    assert kstest(drawn.ravel(), distribution).statistic < 3 / np.sqrt(drawn.size)
    assert len(np.unique(drawn)) > 0.99 * drawn.size


def assert_each_for_itself(drawn, alike):
    """Check that neighbours along each axis are equal with probability ``alike``."""
    for axis, size in enumerate(drawn.shape):
        same = (drawn == np.roll(drawn, 1, axis)).mean()
        assert size == 1 or abs(same - alike) < 4 / np.sqrt(drawn.size), axis
