"""Sums over priorities for prioritised replay, vectorised in blocks or as a plain-Python tree.

Both find the leaf whose interval contains a mass when the priorities are laid end to end. Their sums round differently,
so they may disagree on a mass within rounding of the border between two leaves.
"""

from __future__ import annotations

import numpy as np

from ..common.checks import check_integer

BLOCK = 16  # leaves per block, which keeps the sums over blocks and within one short
GREATEST = 1e200  # priority; sums stay finite


class SumTree:
    """Priorities f64[capacity], at first 0, with a sum per block, for setting and finding many leaves at once.

    Sums are recomputed rather than updated by differences, so that rounding errors do not accumulate.

    Raises:
        ValueError: invalid argument, here and in the methods; no priority is changed.
    """

    def __init__(self, capacity):
        self.capacity = check_integer("capacity", capacity, 1)
        self.blocks = np.zeros((-(-capacity // BLOCK), BLOCK))
        self.leaves = self.blocks.reshape(-1)
        self.sums = np.zeros(len(self.blocks))
        self.ends, self.stale = np.zeros(len(self.blocks) + 1), False  # cumulative sums, and whether they are old

    @property
    def total(self):
        """The sum of all priorities."""
        return float(self._ends()[-1])

    def get(self, leaves):
        """Return the priorities f64[B] of leaves i64[B]."""
        return self.leaves.take(check_leaves(leaves, self.capacity))

    def set(self, leaves, values):
        """Set priorities to f64[B] from 0 to GREATEST; if a leaf occurs more than once, its last value counts."""
        leaves = check_leaves(leaves, self.capacity)
        self.put(leaves, check_values(values, len(leaves)))

    def put(self, leaves, values):
        """Set priorities without checking the arguments.

        Args:
            leaves: i64[B].
            values: f64[B].
        """
        self.leaves[leaves] = values
        blocks = leaves // BLOCK
        self.sums[blocks] = self.blocks.take(blocks, axis=0).sum(1)
        self.stale = True

    def find(self, masses):
        """Return the leaf i64[B] that contains each mass f64[B], from 0 to the total; its priority is never 0.

        Leaf k satisfies ``sum(priorities[:k]) <= mass < sum(priorities[:k + 1])``; a mass equal to the total is in the
        last leaf whose priority is not 0.
        """
        masses = check_masses(masses, self.total)
        masses = np.minimum(masses, below(self.ends[-1]))
        blocks = self.ends.searchsorted(masses, "right") - 1  # the first that ends after the mass, so its sum is not 0
        masses = masses - self.ends.take(blocks)
        within = self.blocks.take(blocks, axis=0).cumsum(1)
        masses = np.minimum(masses, below(within[:, -1]))  # rounding may lift it to the block's sum or above
        return blocks * BLOCK + (within > masses[:, None]).argmax(1)

    def _ends(self):
        if self.stale:
            np.cumsum(self.sums, out=self.ends[1:])
            self.stale = False
        return self.ends


class LiteralSumTree:
    """Binary tree of the same interface in a list, one leaf at a time: node k has children 2 k and 2 k + 1."""

    def __init__(self, capacity):
        self.capacity = check_integer("capacity", capacity, 1)
        self.first = 1 << (capacity - 1).bit_length()  # node of leaf 0
        self.nodes = [0.0] * (2 * self.first)

    @property
    def total(self):
        """Sum of all priorities, which is the root."""
        return self.nodes[1]

    def get(self, leaves):
        """Read the leaves i64[B] as f64[B]."""
        return np.array([self.nodes[self.first + leaf] for leaf in check_leaves(leaves, self.capacity).tolist()], float)

    def set(self, leaves, values):
        """Check leaves i64[B] and values f64[B], and :meth:`put` them."""
        leaves = check_leaves(leaves, self.capacity)
        self.put(leaves, check_values(values, len(leaves)))

    def put(self, leaves, values):
        """Set the leaves one after the other, and recompute the sums on each path to the root."""
        nodes = self.nodes
        for leaf, value in zip(leaves.tolist(), values.tolist()):
            node = self.first + leaf
            nodes[node] = value
            while node > 1:
                node //= 2
                nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def find(self, masses):
        """Descend from the root for each mass f64[B], see :meth:`SumTree.find`."""
        return np.array([self._find(mass) for mass in check_masses(masses, self.total).tolist()], np.int64)

    def _find(self, mass):
        nodes, node = self.nodes, 1
        while node < self.first:
            node *= 2
            left = nodes[node]
            if nodes[node + 1] > 0 and mass >= left:
                mass -= left
                node += 1
        return node - self.first


def below(numbers):
    """Return the largest floats below positive numbers."""
    return np.nextafter(numbers, 0)


def check_leaves(leaves, capacity):
    """Return leaves as an array; raise a ValueError unless they are i64[B] from 0 to ``capacity - 1``."""
    leaves = np.asarray(leaves)
    if leaves.dtype != np.int64 or leaves.ndim != 1:
        raise ValueError(f"leaves: got {leaves.dtype}{list(leaves.shape)}, wanted int64[B]")
    if leaves.size and leaves.view(np.uint64).max() >= capacity:  # a negative leaf becomes a very large one
        wrong = leaves[(leaves < 0) | (leaves >= capacity)][0]
        raise ValueError(f"leaves: got {wrong}, wanted 0 to {capacity - 1}")
    return leaves


def check_values(values, count):
    """Return priorities as f64[count]; raise a ValueError unless all are from 0 to GREATEST."""
    values = np.asarray(values)
    if values.shape != (count,) or values.dtype.kind not in "fiu":
        raise ValueError(f"values: got {values.dtype}{list(values.shape)}, wanted float64[{count}]")
    values = values.astype(np.float64, copy=False)
    if count and not (values.min() >= 0 and values.max() <= GREATEST):
        wrong = values[~((values >= 0) & (values <= GREATEST))][0]
        raise ValueError(f"values: got {wrong}, wanted 0 to {GREATEST:g}")
    return values


def check_masses(masses, total):
    """Return masses as f64[B]; raise a ValueError unless the total is positive and they are from 0 to it."""
    masses = np.asarray(masses)
    if masses.ndim != 1 or masses.dtype.kind not in "fiu":
        raise ValueError(f"masses: got {masses.dtype}{list(masses.shape)}, wanted float64[B]")
    if not total > 0:
        raise ValueError(f"masses: got a tree in which the sum of all priorities is {total:g}, wanted more than 0")
    masses = masses.astype(np.float64, copy=False)
    if masses.size and not (masses.min() >= 0 and masses.max() <= total):
        wrong = masses[~((masses >= 0) & (masses <= total))][0]
        raise ValueError(f"masses: got {wrong}, wanted 0 to {total}, the sum of all priorities")
    return masses
