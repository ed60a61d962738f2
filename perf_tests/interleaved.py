"""Fresh processes that each compare things by turns, for claims."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlgauge.command import INTERRUPTED
from rlgauge.interrupts import by_sigterm


@contextmanager
def interruptible() -> Iterator[None]:
    """Let an interrupt end this program with code 130, and without a traceback of each of its processes."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def fresh_processes(module: str, arguments: Sequence[str], count: int, first: int = 0) -> Iterator[Any]:
    """Run ``python -m module ARGUMENTS --one N`` for N = first, first + 1, ...; return what each printed last, as JSON.

    A process that fails ends this one with its exit code; it has said why.

    Args:
        module: its full name.
        arguments: of the command line, without ``--one``.
        count: how many processes.
        first: number of the first.
    """
    for number in range(first, first + count):
        command = [sys.executable, "-m", module, *arguments, "--one", str(number)]
        with by_sigterm():
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        yield json.loads(done.stdout.splitlines()[-1])
