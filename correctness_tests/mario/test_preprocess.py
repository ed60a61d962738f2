"""Preprocessing of frames: each pixel is the mean grey level of the area that it covers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.strategies import SEEDS
from rl_impls.mario._numpy import RESIZE

FORMS = sorted(RESIZE)
SMALL = st.integers(1, 40)


def noise(height, width, count, seed=0):
    return np.random.default_rng(seed).integers(256, size=(count, height, width, 3), dtype=np.uint8)


def covered(start, end, pixels):
    """Yield each pixel of a line that overlaps the interval from `start` to `end`, and the length of the overlap."""
    for j in range(int(start), min(int(np.ceil(end)), pixels)):
        yield j, min(end, j + 1) - max(start, j)


def literal(frame, side):
    """Return the mean of the area that each pixel covers, in float64, without rounding."""
    height, width, _ = frame.shape
    grey = 0.299 * frame[..., 0].astype(float) + 0.587 * frame[..., 1] + 0.114 * frame[..., 2]
    out = np.zeros((side, side))
    for y in range(side):
        rows = list(covered(y * height / side, (y + 1) * height / side, height))
        for x in range(side):
            columns = covered(x * width / side, (x + 1) * width / side, width)
            out[y, x] = sum(tall * wide * grey[i, j] for j, wide in columns for i, tall in rows)
    return out * side * side / (height * width)


def assert_rounded(got, wanted):
    """Assert that grey levels are rounded to the nearest integer; near a half, either integer is accepted."""
    assert got.dtype == np.uint8
    assert np.abs(got - wanted).max() <= 0.5 + 1e-3


@given(height=SMALL, width=SMALL, side=SMALL, seed=SEEDS)
def test_any_size_is_resized_to_any_other(height, width, side, seed):
    frames = noise(height, width, 2, seed)
    wanted = [literal(frame, side) for frame in frames]
    for form in FORMS:
        got = RESIZE[form](height, width, side)(frames)
        assert got.shape == (2, side, side)
        for one, exact in zip(got, wanted):
            assert_rounded(one, exact)
