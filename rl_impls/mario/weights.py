"""Weights in shared memory, which collectors may read while the learner publishes new ones.

This relies on the total store order of x86: stores are seen in the order in which they were made.
"""

import numpy as np

from ..common.shared_arrays import SharedArrays

KEPT = 2  # versions in memory: the newest, and the one being written


class SharedWeights:
    """The newest weights in shared memory; a reader never gets parts of two versions.

    The learner writes version v to slot v % 2. It sets ``begun`` before it writes a version, and ``newest`` afterwards.
    A reader reads again if its slot may have been overwritten meanwhile.

    ``params`` is version 0, arrays by name; all versions have its shapes.
    """

    def __init__(self, params):
        layout = {name: ((KEPT, *np.shape(value)), np.float32) for name, value in params.items()}
        self.shared = SharedArrays(layout | {"begun": ((1,), np.int64), "newest": ((1,), np.int64)})
        self.names = tuple(params)
        self.publish(0, params)

    @property
    def newest(self):
        """The newest complete version."""
        return int(self.shared["newest"][0])

    def publish(self, version, params):
        """Write new weights; ``version`` is one more than the last, or any number while nobody reads."""
        self.shared["begun"][0] = version
        for name in self.names:
            self.shared[name][version % KEPT] = params[name]
        self.shared["newest"][0] = version

    def read(self):
        """Return the newest version and a copy of its weights by name."""
        while True:
            version = self.newest
            params = {name: self.shared[name][version % KEPT].copy() for name in self.names}
            if int(self.shared["begun"][0]) < version + KEPT:
                return version, params
