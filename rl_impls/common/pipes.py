"""Output into a pipe whose reader, such as ``head``, has ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """End the process without an error message where nothing reads its output any more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush goes there
        sys.exit(128 + 13)  # as SIGPIPE ends a process
