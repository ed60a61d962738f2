"""Sums over priorities for prioritised replay: a plain-Python tree, and a vectorised one in blocks.

Both find the leaf whose interval contains a mass when the priorities are laid end to end. Their sums round differently,
so they may disagree on a mass within rounding of the border between two leaves. Arguments are not checked: leaves are
i64[B] from 0 to ``capacity - 1``, priorities f64[B] from 0 to ``GREATEST``.
"""

import numpy as np

BLOCK = 16  # leaves per block: few enough to sum quickly, and enough that there are few blocks
GREATEST = 1e200  # largest priority; sums stay finite


class LiteralSumTree:
    """Binary tree in a list, one leaf at a time: node k has children 2 k and 2 k + 1."""

    def __init__(self, capacity):
        self.first = 1 << (capacity - 1).bit_length()  # node of leaf 0
        self.nodes = [0.0] * (2 * self.first)

    @property
    def total(self):
        """The sum of all priorities."""
        return self.nodes[1]

    def get(self, leaves):
        """Return the priorities f64[B] of leaves i64[B]."""
        return np.array([self.nodes[self.first + leaf] for leaf in leaves.tolist()], float)

    def set(self, leaves, values):
        """Set the priorities of leaves i64[B] to f64[B]; if a leaf occurs more than once, its last value counts."""
        nodes = self.nodes
        for leaf, value in zip(leaves.tolist(), values.tolist()):
            node = self.first + leaf
            nodes[node] = value
            while node > 1:
                node //= 2
                nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def find(self, masses):
        """Return the leaf i64[B] that contains each mass f64[B], from 0 to the total; its priority is never 0.

        Leaf k satisfies ``sum(priorities[:k]) <= mass < sum(priorities[:k + 1])``; a mass equal to the total is in the
        last leaf whose priority is not 0.
        """
        return np.array([self._find(mass) for mass in masses.tolist()], np.int64)

    def _find(self, mass):
        nodes, node = self.nodes, 1
        while node < self.first:
            node *= 2
            left = nodes[node]
            if nodes[node + 1] > 0 and mass >= left:
                mass -= left
                node += 1
        return node - self.first


class SumTree:
    """The same interface with a sum per block of leaves, for setting and finding many leaves at once.

    Sums are recomputed rather than updated by differences, so that rounding errors do not accumulate.
    """

    def __init__(self, capacity):
        self.blocks = np.zeros((-(-capacity // BLOCK), BLOCK))
        self.leaves = self.blocks.reshape(-1)
        self.sums = np.zeros(len(self.blocks))
        self.ends, self.stale = np.zeros(len(self.blocks) + 1), False  # cumulative sums, and whether they are old

    @property
    def total(self):
        """The sum of all priorities."""
        if self.stale:
            np.cumsum(self.sums, out=self.ends[1:])
            self.stale = False
        return float(self.ends[-1])

    def get(self, leaves):
        """Return the priorities f64[B] of leaves i64[B]."""
        return self.leaves.take(leaves)

    def set(self, leaves, values):
        """Set priorities, see :meth:`LiteralSumTree.set`."""
        self.leaves[leaves] = values
        blocks = leaves // BLOCK
        self.sums[blocks] = self.blocks.take(blocks, axis=0).sum(1)
        self.stale = True

    def find(self, masses):
        """Return the leaf that contains each mass, see :meth:`LiteralSumTree.find`."""
        masses = np.minimum(masses, below(self.total))
        blocks = self.ends.searchsorted(masses, "right") - 1  # the first that ends after the mass, so its sum is not 0
        masses = masses - self.ends.take(blocks)
        within = self.blocks.take(blocks, axis=0).cumsum(1)
        masses = np.minimum(masses, below(within[:, -1]))  # rounding may lift it to the block's sum or above
        return blocks * BLOCK + (within > masses[:, None]).argmax(1)


def below(numbers):
    """Return the largest floats below positive numbers."""
    return np.nextafter(numbers, 0)
