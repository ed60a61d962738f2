"""Frames made grey and small: each pixel is the mean, in grey, of the area that it covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.strategies import SEEDS
from rl_impls import backends
from rl_impls.mario._numpy import GREY, RESIZE, area_weights

NES, PROCGEN = (240, 256), (64, 64)
SIZES = [(*NES, 84), (*PROCGEN, 84), (*PROCGEN, 128), (*NES, 128)]
FORMS = sorted(RESIZE)
SMALL = st.integers(1, 40)


def noise(height, width, count=1, seed=0):
    """Frames of drawn pixels, u8[count, H, W, 3]."""
    return np.random.default_rng(seed).integers(256, size=(count, height, width, 3), dtype=np.uint8)


def covered(start, end, pixels):
    """The pixels of a line that a stretch touches, and how much of each it covers."""
    for j in range(int(start), min(int(np.ceil(end)), pixels)):
        yield j, min(end, j + 1) - max(start, j)


def literal(frame, side):
    """The mean of the area that each pixel of the result covers, pixel by pixel in float64, not rounded."""
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
    """Grey levels are the nearest whole numbers; those that lie within rounding of a half may be either."""
    assert got.dtype == np.uint8
    assert np.abs(got - wanted).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("height", "width", "side"), SIZES)
def test_a_pixel_is_the_mean_of_the_area_it_covers(form, height, width, side):
    frames = noise(height, width)
    got = RESIZE[form](height, width, side)(frames)
    assert got.shape == (1, side, side)
    assert_rounded(got[0], literal(frames[0], side))


@given(height=SMALL, width=SMALL, side=SMALL, seed=SEEDS)
def test_any_size_is_made_any_other(height, width, side, seed):
    frames = noise(height, width, 2, seed)
    wanted = [literal(frame, side) for frame in frames]
    for form in FORMS:
        for one, exact in zip(RESIZE[form](height, width, side)(frames), wanted):
            assert_rounded(one, exact)


@pytest.mark.parametrize(("height", "width", "side"), SIZES)
def test_both_ways_agree_within_a_grey_level(height, width, side):
    frames = noise(height, width, 6)
    dense, sparse = (RESIZE[form](height, width, side)(frames).astype(int) for form in ("dense", "sparse"))
    assert np.abs(dense - sparse).max() <= 1
    assert (dense != sparse).mean() < 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("height", "width", "side"), SIZES)
def test_what_is_all_of_one_colour_stays_so(form, height, width, side):
    for colour in ((0, 0, 0), (255, 255, 255), (7, 7, 7), (200, 30, 90)):
        frames = np.broadcast_to(np.array(colour, np.uint8), (1, height, width, 3)).copy()
        [got] = RESIZE[form](height, width, side)(frames)
        assert set(got.ravel().tolist()) == {round(0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2])}


def test_grey_has_the_shares_of_each_colour():
    assert pytest.approx(1) == GREY.sum()
    for form in FORMS:
        for colour, wanted in enumerate((76, 150, 29)):  # of 255
            frames = np.zeros((1, *NES, 3), np.uint8)
            frames[..., colour] = 255
            assert (RESIZE[form](*NES, 84)(frames) == wanted).all()


@pytest.mark.parametrize(("pixels", "side"), [(240, 84), (256, 84), (64, 84), (64, 128), (5, 3), (7, 7), (1, 9)])
def test_each_pixel_counts_as_much_as_any_other(pixels, side):
    weights = area_weights(pixels, side)
    assert weights.dtype == np.float32
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=0), side / pixels, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_as_large_already_is_only_made_grey(form):
    frames = noise(20, 20)
    assert_rounded(RESIZE[form](20, 20, 20)(frames)[0], frames[0] @ np.array([0.299, 0.587, 0.114]))


@pytest.mark.parametrize("form", ["naive", "full"])
def test_the_op_makes_each_frame_as_if_it_were_alone(form):
    frames, made = noise(*NES, count=3), backends.get("numpy")
    call = made.build("mario", "preprocess", {"side": 84}, (frames,), backends.forms("mario")[form])
    together, kept = call(frames), frames.copy()
    assert (together.shape, together.dtype) == ((3, 84, 84), np.uint8)
    for k in range(3):
        np.testing.assert_array_equal(call(frames[k : k + 1])[0], together[k])
    np.testing.assert_array_equal(frames, kept)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_returned_is_not_overwritten_by_the_next_call(form):
    resize = RESIZE[form](*PROCGEN, 84)
    first = resize(noise(*PROCGEN))
    kept = first.copy()
    resize(noise(*PROCGEN, seed=1))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (np.zeros((1, 64, 64, 3), np.uint8), r"frames: got uint8\[1, 64, 64, 3\], wanted u8\[B, 240, 256, 3\]"),
        (np.zeros((1, 240, 256), np.uint8), r"frames: got uint8\[1, 240, 256\], wanted u8\[B, 240, 256, 3\]"),
        (np.zeros((1, 240, 256, 3), np.float32), r"frames: got float32\[1, 240, 256, 3\], wanted u8\[B, 240, 256, 3\]"),
    ],
)
def test_frames_of_another_shape_or_kind_are_refused(frames, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        backends.get("numpy").build("mario", "preprocess", {"side": 84}, (frames,), backends.forms("mario")["full"])


def test_a_side_of_which_the_net_leaves_nothing_is_refused():
    frames = noise(*NES)
    with pytest.raises(ValueError, match=r"^side: got 35, wanted 36 or more$"):
        backends.get("numpy").build("mario", "preprocess", {"side": 35}, (frames,), backends.forms("mario")["full"])
