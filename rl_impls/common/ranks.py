"""Rank of this process among those started by torchrun."""

from __future__ import annotations

import os


def launched() -> tuple[int, int]:
    """Return this process's rank and the number of processes, (0, 1) without torchrun."""
    found = {name: os.environ.get(name, default) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"))}
    for name, text in found.items():
        if not text.isdecimal():
            raise ValueError(f"{name}={text} should be a number, as torchrun sets it; unset the variable")
    rank, processes = map(int, found.values())
    return (rank, processes) if processes > 1 else (0, 1)
