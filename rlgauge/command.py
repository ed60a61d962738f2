"""How a command of this project ends: its code, and one line of what was wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .files import Unwritable
from .interrupts import by_sigterm
from .rule import VOID, GateError

INTERRUPTED, ENOUGH = 130, 141


def ended(run: Callable[[], int], *mistakes: type[Exception]) -> int:
    """Run a command and return its exit code; a mistake is one line and code 2, an interrupt is code 130.

    Where nobody reads on what it prints, it ends with code 141, as what SIGPIPE ends.

    Args:
        run: the command; it returns its code.
        mistakes: what it raises for bad input, besides GateError, Unwritable and OSError (a disk that is full).
    """
    known: tuple[type[Exception], ...] = (GateError, Unwritable, OSError, *mistakes)
    try:
        with by_sigterm():
            code = run()
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # whoever reads, as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ENOUGH
    except known as error:
        print(error, file=sys.stderr)
        return VOID
    except KeyboardInterrupt:
        return INTERRUPTED
