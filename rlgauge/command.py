"""Exit codes and one-line error messages of the project's commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from .files import Unwritable
from .interrupts import by_sigterm
from .rule import INVALID, GateError

INTERRUPTED, CLOSED_OUTPUT = 130, 141


def ended(run: Callable[[], int], *errors: type[Exception]) -> int:
    """Run a command and return its exit code; an expected error prints one line and returns 2, an interrupt 130.

    If standard output is closed, the code is 141, as for SIGPIPE.

    Args:
        run: the command; returns its exit code.
        errors: expected exceptions, besides GateError, Unwritable and OSError (such as a full disk).
    """
    expected: tuple[type[Exception], ...] = (GateError, Unwritable, OSError, *errors)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # whose encoding may lack a unit or a letter of a test
            sys.stdout.reconfigure(errors="backslashreplace")
        with by_sigterm():
            code = run()
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_OUTPUT
    except expected as error:
        print(error, file=sys.stderr)
        return INVALID
    except KeyboardInterrupt:
        return INTERRUPTED
