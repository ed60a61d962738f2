"""Mario's alone: only its replay draws by priority: sums over priorities, in blocks as arrays, or as a tree of lists.

Both find the leaf in which a mass falls when the priorities stand end to end. Their sums round differently, so only a
mass within rounding of a border between two leaves may be of the one here and of the other there.
"""

from __future__ import annotations

import numpy as np

from ..common.checks import check_integer

BLOCK = 16  # leaves of a block: both the sums over blocks and those within one are then short
GREATEST = 1e200  # of a priority: sums stay finite


class SumTree:
    """Priorities f64[capacity], all 0 at first, in blocks whose sums are kept: many are set or found in a few calls.

    A sum is made anew from what it is the sum of, never added to, so that no rounding errors gather.

    Args:
        capacity: number of leaves.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
    """

    def __init__(self, capacity):
        self.capacity = check_integer("capacity", capacity, 1)
        self.blocks = np.zeros((-(-capacity // BLOCK), BLOCK))
        self.leaves = self.blocks.reshape(-1)
        self.sums = np.zeros(len(self.blocks))
        self.ends, self.stale = np.zeros(len(self.blocks) + 1), False  # 0 and each block's end; whether they are old

    @property
    def total(self):
        """Return the sum of all priorities."""
        return float(self._ends()[-1])

    def get(self, leaves):
        """Return some priorities.  -> f64[B]

        Args:
            leaves: i64[B].
        """
        return self.leaves.take(check_leaves(leaves, self.capacity))

    def set(self, leaves, values):
        """Set some priorities; where a leaf comes more than once, its last value counts.

        Args:
            leaves: i64[B].
            values: f64[B], from 0 to GREATEST.
        """
        leaves = check_leaves(leaves, self.capacity)
        self.put(leaves, check_values(values, len(leaves)))

    def put(self, leaves, values):
        """Set some priorities as :meth:`set` does, unchecked.

        Args:
            leaves: i64[B].
            values: f64[B].
        """
        self.leaves[leaves] = values
        blocks = leaves // BLOCK
        self.sums[blocks] = self.blocks.take(blocks, axis=0).sum(1)
        self.stale = True

    def find(self, masses):
        """Return the leaf in which each mass falls; it is never one of priority 0.  -> i64[B]

        Leaf k is found where ``sum(priorities[:k]) <= mass < sum(priorities[:k + 1])``, and the last that has a
        priority where the mass is the total.

        Args:
            masses: f64[B], from 0 to the total.
        """
        masses = check_masses(masses, self.total)
        masses = np.minimum(masses, below(self.ends[-1]))
        blocks = self.ends.searchsorted(masses, "right") - 1  # the first that ends after the mass, so one that has some
        masses = masses - self.ends.take(blocks)
        within = self.blocks.take(blocks, axis=0).cumsum(1)
        masses = np.minimum(masses, below(within[:, -1]))  # by rounding it may be all of the block, or more
        return blocks * BLOCK + (within > masses[:, None]).argmax(1)

    def _ends(self):
        if self.stale:
            np.cumsum(self.sums, out=self.ends[1:])
            self.stale = False
        return self.ends


class LiteralSumTree:
    """The same in plain Python: a binary tree in a list, node k above the nodes 2 k and 2 k + 1, one leaf at a time.

    Args:
        capacity: number of leaves.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
    """

    def __init__(self, capacity):
        self.capacity = check_integer("capacity", capacity, 1)
        self.first = 1 << (capacity - 1).bit_length()  # the node that is leaf 0
        self.nodes = [0.0] * (2 * self.first)

    @property
    def total(self):
        """Return the sum of all priorities."""
        return self.nodes[1]

    def get(self, leaves):
        """Return some priorities.  -> f64[B]

        Args:
            leaves: i64[B].
        """
        return np.array([self.nodes[self.first + leaf] for leaf in check_leaves(leaves, self.capacity).tolist()], float)

    def set(self, leaves, values):
        """Set some priorities; where a leaf comes more than once, its last value counts.

        Args:
            leaves: i64[B].
            values: f64[B], from 0 to GREATEST.
        """
        leaves = check_leaves(leaves, self.capacity)
        self.put(leaves, check_values(values, len(leaves)))

    def put(self, leaves, values):
        """Set some priorities as :meth:`set` does, unchecked.

        Args:
            leaves: i64[B].
            values: f64[B].
        """
        nodes = self.nodes
        for leaf, value in zip(leaves.tolist(), values.tolist()):
            node = self.first + leaf
            nodes[node] = value
            while node > 1:
                node //= 2
                nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def find(self, masses):
        """Return the leaf in which each mass falls; it is never one of priority 0.  -> i64[B]

        Args:
            masses: f64[B], from 0 to the total.
        """
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
    """Return the largest floats that are less than some positive numbers.  -> f64[...]

    Args:
        numbers: f64[...].
    """
    return np.nextafter(numbers, 0)


def check_leaves(leaves, capacity):
    """Return leaves as an array where they are those of a tree.  -> i64[B]

    Args:
        leaves: i64[B].
        capacity: number of leaves of the tree.

    Raises:
        ValueError: another shape or dtype, or a leaf that the tree does not have.
    """
    leaves = np.asarray(leaves)
    if leaves.dtype != np.int64 or leaves.ndim != 1:
        raise ValueError(f"leaves: got {leaves.dtype}{list(leaves.shape)}, wanted int64[B]")
    if leaves.size and leaves.view(np.uint64).max() >= capacity:  # of which a negative one is a very large one
        wrong = leaves[(leaves < 0) | (leaves >= capacity)][0]
        raise ValueError(f"leaves: got {wrong}, wanted 0 to {capacity - 1}")
    return leaves


def check_values(values, count):
    """Return priorities as an array where they are right.  -> f64[count]

    Args:
        values: numbers from 0 to GREATEST.
        count: how many there have to be.

    Raises:
        ValueError: more of them, or fewer, or one that is negative, too large, or no number.
    """
    values = np.asarray(values)
    if values.shape != (count,) or values.dtype.kind not in "fiu":
        raise ValueError(f"values: got {values.dtype}{list(values.shape)}, wanted float64[{count}]")
    values = values.astype(np.float64, copy=False)
    if count and not (values.min() >= 0 and values.max() <= GREATEST):
        wrong = values[~((values >= 0) & (values <= GREATEST))][0]
        raise ValueError(f"values: got {wrong}, wanted 0 to {GREATEST:g}")
    return values


def check_masses(masses, total):
    """Return masses as an array where they are those of a tree.  -> f64[B]

    Args:
        masses: numbers from 0 to the total.
        total: of the tree.

    Raises:
        ValueError: another shape or dtype, a mass outside of the tree, or a tree without any priority.
    """
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
