"""One gate at a time: two that measure side by side are each other's noise."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(cache: Path) -> Iterator[None]:
    """Wait until no other gate with this cache is at work; the lock ends with its process, however that ends."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "turn.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            print(f"another gate is running (pid {file.read()}): waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
