"""Mario's alone: weights that the learner publishes and collectors read while it goes on.

Total store order, that of x86, is taken for granted: what was written before is seen before.
"""

from __future__ import annotations

import numpy as np

from ..common.shared_arrays import SharedArrays

KEPT = 2  # versions in memory: the newest, and the one that is written


class SharedWeights:
    """The newest weights, in shared memory; a reader never gets half of one version and half of the next.

    The learner writes versions in turn to two places. It says first which version it begins, and last which is whole; a
    reader that was so slow that its place was begun anew meanwhile reads again.

    Args:
        params: weights by name, whose shapes all versions have; they are version 0.
    """

    def __init__(self, params):
        layout = {name: ((KEPT, *np.shape(value)), np.float32) for name, value in params.items()}
        self.shared = SharedArrays(layout | {"begun": ((1,), np.int64), "newest": ((1,), np.int64)})
        self.names = tuple(params)
        self.publish(0, params)

    @property
    def newest(self):
        """The version that is whole."""
        return int(self.shared["newest"][0])

    def publish(self, version, params):
        """Write new weights.

        Args:
            version: of them, one more than of the last ones, or any where nobody reads.
            params: arrays by name.
        """
        self.shared["begun"][0] = version
        for name in self.names:
            self.shared[name][version % KEPT] = params[name]
        self.shared["newest"][0] = version

    def read(self):
        """Return the newest version and a copy of its weights, arrays by name."""
        while True:
            version = self.newest
            params = {name: self.shared[name][version % KEPT].copy() for name in self.names}
            if int(self.shared["begun"][0]) < version + KEPT:
                return version, params
