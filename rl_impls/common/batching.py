"""Map batches of any size onto a grid of compiled batch sizes."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterable


class BatchGrid:
    """The batch sizes that a net is compiled for; any batch is split into chunks that are padded to the next size."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = tuple(sorted({operator.index(size) for size in sizes}))
        if not self.sizes or self.sizes[0] < 1:
            raise ValueError(f"sizes={self.sizes} should be one or more batch sizes of 1 or more")

    def fit(self, n: int) -> int:
        """Return the smallest size that fits `n` rows; raise ValueError if none does."""
        if not 1 <= n <= self.sizes[-1]:
            raise ValueError(f"n={n} should be from 1 to {self.sizes[-1]} rows")
        return self.sizes[bisect_left(self.sizes, n)]

    def chunks(self, n: int) -> list[tuple[int, int, int]]:
        """Split `n` rows into ``(start, stop, size)`` chunks: full ones of the largest size, then the remainder."""
        if n < 1:
            raise ValueError(f"n={n} should be 1 or more rows")
        largest = self.sizes[-1]
        stops = [(start, min(start + largest, n)) for start in range(0, n, largest)]
        return [(start, stop, self.fit(stop - start)) for start, stop in stops]
