"""Mario's alone: experiences that processes hand over as fast as they can, to see what transport costs by itself."""

from __future__ import annotations

import numpy as np

DISTINCT = 16  # frames that a sender has
EPISODE = 100  # steps


class Sending:
    """Hands over experiences that it has had from the start; it needs NumPy alone.

    Args:
        sender: of a transport.
        shape: of a frame.
        index: of the process, which its frames show.
    """

    def __init__(self, sender, shape, index):
        self.sender = sender
        self.frames = np.random.default_rng(index).integers(256, size=(DISTINCT, *shape), dtype=np.uint8)

    def send(self, count, number):
        """Hand over experiences; return the sum of the first bytes of their frames.

        Args:
            count: how many.
            number: of the call, which what is sent depends on.
        """
        put, frames, summed = self.sender.put, list(self.frames), 0
        firsts = self.frames.reshape(DISTINCT, -1)[:, 0].tolist()
        for i in range(number, number + count):
            put(frames[i % DISTINCT], i % 15, 1.0, i % EPISODE == EPISODE - 1, i % EPISODE)
            summed += firsts[i % DISTINCT]
        return summed
