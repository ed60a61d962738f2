"""Where the wall time of a loop goes."""

from __future__ import annotations

from time import perf_counter


def untimed(phase):
    """Do nothing: it takes the place of :class:`Phases` where phases are not timed.

    Args:
        phase: its name.
    """


class Phases:
    """Seconds spent in each phase: ``start()`` at the start of a call, ``phases(name)`` at the end of each phase.

    Args:
        names: of the phases.
    """

    def __init__(self, *names):
        self.names = names
        self.reset()

    def reset(self):
        """Set the seconds of every phase to zero, and count from here."""
        self.seconds = dict.fromkeys(self.names, 0.0)
        self.start()

    def start(self):
        """Count from here: time that has passed since the last phase belongs to none."""
        self.before = perf_counter()

    def __call__(self, phase):
        """Add the time since the last call to a phase.

        Args:
            phase: its name.
        """
        now = perf_counter()
        self.seconds[phase] += now - self.before
        self.before = now
