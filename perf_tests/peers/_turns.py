"""One side of a comparison, as :mod:`._common` times it in turns with the other."""

from __future__ import annotations

import time
from typing import Any


class Turns:
    """One side of a comparison, which goes on from block to block.

    Args:
        seed: of all that is drawn.

    Attributes:
        outcome: of the last block.
    """

    def __init__(self, seed: list[int]) -> None:
        import numpy as np

        self.rng = np.random.default_rng(seed)
        self.outcome: Any = None

    def block(self) -> float:
        """Play one block; return its seconds."""
        self.numbers = self.drawn()
        start = time.perf_counter()
        out = self.play(*self.numbers)
        seconds = time.perf_counter() - start
        self.outcome = out
        return seconds

    def drawn(self) -> tuple[Any, ...]:
        """Draw all that a block needs of randomness."""
        raise NotImplementedError

    def play(self, *numbers: Any) -> Any:
        """Play one block; return its outcome, all of it computed.

        Args:
            numbers: what :meth:`drawn` returned.
        """
        raise NotImplementedError

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return []

    def done(self) -> tuple[int, int]:
        """Return the environment steps and the updates of the last block."""
        raise NotImplementedError

    def due(self) -> tuple[int, int]:
        """Return the environment steps and the updates that a block is to have."""
        raise NotImplementedError

    def check_first(self, other: Any) -> None:
        """Raise a RuntimeError unless both did alike in their first block.

        Args:
            other: the other side, after its first block.
        """
        raise NotImplementedError
