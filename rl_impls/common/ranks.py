"""Which of the processes that torchrun started this one is."""

from __future__ import annotations

import os


def launched() -> tuple[int, int]:
    """Return the rank of this process and the number of all, (0, 1) where torchrun did not start it."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
