"""How a command of this project ends: its code, and one line of what was wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .files import Unwritable
from .interrupts import by_sigterm
from .rule import VOID, GateError

INTERRUPTED = 130


def ended(run: Callable[[], int], *mistakes: type[Exception]) -> int:
    """Run a command and return its exit code; a mistake is one line and code 2, an interrupt is code 130.

    Args:
        run: the command; it returns its code.
        mistakes: what it raises for bad input, besides GateError, Unwritable and OSError (a disk that is full).
    """
    known: tuple[type[Exception], ...] = (GateError, Unwritable, OSError, *mistakes)
    try:
        with by_sigterm():
            return run()
    except known as error:
        print(error, file=sys.stderr)
        return VOID
    except KeyboardInterrupt:
        return INTERRUPTED
