"""Rank of this process among those started by torchrun."""

from __future__ import annotations

import os


def launched() -> tuple[int, int]:
    """Return this process's rank and the number of processes, (0, 1) without torchrun."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
