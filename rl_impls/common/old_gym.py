"""The import of gym, which Procgen and nes-py build on, without what it prints."""

from __future__ import annotations

from contextlib import contextmanager


@contextmanager
def silent_gym():
    """While this lasts, an import of gym does not print that it is no longer maintained; all else is seen.

    What it prints is in a table of the package ``gym_notices``, which is empty meanwhile.
    """
    try:
        from gym_notices.notices import notices
    except ModuleNotFoundError:  # gym does without, and prints nothing
        notices = {}
    kept = dict(notices)
    notices.clear()
    try:
        yield
    finally:
        notices.update(kept)
