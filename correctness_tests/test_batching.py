"""The grid of batch sizes: its chunks cover every row, and padding changes none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_impls.common.batching import BatchGrid

SIZES = (1, 4, 8)
GRIDS = st.lists(st.integers(1, 64), min_size=1, max_size=6)


@given(sizes=GRIDS, n=st.integers(1, 300))
def test_chunks_cover_every_row_once_in_the_smallest_sizes_that_fit(sizes, n):
    chunks = BatchGrid(sizes).chunks(n)
    assert [row for start, stop, _ in chunks for row in range(start, stop)] == list(range(n))
    assert all(stop - start == size == max(sizes) for start, stop, size in chunks[:-1])
    start, stop, size = chunks[-1]
    assert size == min(s for s in sizes if s >= stop - start)


@given(sizes=GRIDS, n=st.integers(1, 300))
def test_padding_and_cutting_changes_no_row(sizes, n):
    rows, out = np.arange(n), []
    for start, stop, size in BatchGrid(sizes).chunks(n):
        padded = np.resize(rows[start:stop], size)
        out.append((padded**2)[: stop - start])
    np.testing.assert_array_equal(np.concatenate(out), rows**2)


@pytest.mark.parametrize("sizes", [(), (0, 4), (-1,)])
def test_grid_without_sizes_or_with_one_below_1_is_refused(sizes):
    with pytest.raises(ValueError, match=r"sizes: got .*, wanted one or more batch sizes of 1 or more"):
        BatchGrid(sizes)


@pytest.mark.parametrize("n", [0, -1, 9])
def test_rows_that_fit_no_size_are_refused(n):
    with pytest.raises(ValueError, match=rf"n: got {n}, wanted 1 to 8 rows"):
        BatchGrid(SIZES).fit(n)


def test_no_rows_have_no_chunks():
    with pytest.raises(ValueError, match=r"n: got 0, wanted 1 or more rows"):
        BatchGrid(SIZES).chunks(0)
