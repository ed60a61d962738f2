"""Handle a closed output pipe, such as that of ``head``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """Exit without an error message when the reader of stdout is gone."""
    try:
        try:
            yield
        finally:  # also when argparse exits after printing help
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the remaining output is flushed there
        sys.exit(128 + 13)  # the exit code of a process killed by SIGPIPE
