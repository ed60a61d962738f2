"""Batches of any size on a grid of compiled sizes."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterable


class BatchGrid:
    """The batch sizes that a net is compiled for: a batch of any size is cut into chunks, each padded to the next size.

    Args:
        sizes: batch sizes in rows, in any order.

    Raises:
        ValueError: no size, or one below 1.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = tuple(sorted({operator.index(size) for size in sizes}))
        if not self.sizes or self.sizes[0] < 1:
            raise ValueError(f"sizes: got {self.sizes}, wanted one or more batch sizes of 1 or more")

    def fit(self, n: int) -> int:
        """Return the smallest size that holds ``n`` rows.

        Args:
            n: number of rows.

        Raises:
            ValueError: fewer than 1 row, or more than the largest size.
        """
        if not 1 <= n <= self.sizes[-1]:
            raise ValueError(f"n: got {n}, wanted 1 to {self.sizes[-1]} rows")
        return self.sizes[bisect_left(self.sizes, n)]

    def chunks(self, n: int) -> list[tuple[int, int, int]]:
        """Return the chunks of ``n`` rows, ``(start, stop, size)`` each: full ones of the largest size, then the rest.

        Args:
            n: number of rows.

        Raises:
            ValueError: fewer than 1 row.
        """
        if n < 1:
            raise ValueError(f"n: got {n}, wanted 1 or more rows")
        largest = self.sizes[-1]
        stops = [(start, min(start + largest, n)) for start in range(0, n, largest)]
        return [(start, stop, self.fit(stop - start)) for start, stop in stops]
