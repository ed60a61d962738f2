"""Chunks of a batch in a grid of compiled batch sizes."""

from hypothesis import given
from hypothesis import strategies as st

from rl_impls.common.batching import BatchGrid

GRIDS = st.lists(st.integers(1, 64), min_size=1, max_size=6)


@given(sizes=GRIDS, n=st.integers(1, 300))
def test_chunks_cover_every_row_once_in_the_smallest_size_that_fits(sizes, n):
    chunks = BatchGrid(sizes).chunks(n)
    assert [row for start, stop, _ in chunks for row in range(start, stop)] == list(range(n))
    assert all(stop - start == size == max(sizes) for start, stop, size in chunks[:-1])
    start, stop, size = chunks[-1]
    assert size == min(s for s in sizes if s >= stop - start)
