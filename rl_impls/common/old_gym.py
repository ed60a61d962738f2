"""Import gym, which Procgen and nes-py depend on, without its deprecation notice."""

from contextlib import contextmanager


@contextmanager
def silent_gym():
    """Suppress the notice that gym prints on import that it is unmaintained; other output is kept.

    The notice comes from a table in the package ``gym_notices``, which is emptied inside the context.
    """
    try:
        from gym_notices.notices import notices
    except ModuleNotFoundError:  # then gym prints nothing
        notices = {}
    kept = dict(notices)
    notices.clear()
    try:
        yield
    finally:
        notices.update(kept)
