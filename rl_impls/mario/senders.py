"""Processes that send ready-made experiences as fast as they can, to time a transport by itself."""

import numpy as np

DISTINCT = 16  # frames per sender
EPISODE = 100  # steps per episode of made-up experiences


class Sending:
    """Worker that sends experiences made at the start, seeded by ``index``; it needs only NumPy."""

    def __init__(self, sender, shape, index):
        self.sender = sender
        self.frames = np.random.default_rng(index).integers(256, size=(DISTINCT, *shape), dtype=np.uint8)

    def send(self, count, number):
        """Send ``count`` experiences, starting with ``number``; return the sum of the first bytes of their frames."""
        put, frames, total = self.sender.put, list(self.frames), 0
        firsts = self.frames.reshape(DISTINCT, -1)[:, 0].tolist()
        for i in range(number, number + count):
            put(frames[i % DISTINCT], i % 15, 1.0, i % EPISODE == EPISODE - 1, i % EPISODE)
            total += firsts[i % DISTINCT]
        return total
