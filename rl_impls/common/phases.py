"""Wall time of each phase of a loop."""

from time import perf_counter

from .op import Op


def untimed(phase):
    """Do nothing; used in place of :class:`Phases` where phases are not timed."""


class Phases:
    """Seconds per phase: call ``start()`` at the start of a call, and ``phases(name)`` at the end of each phase."""

    def __init__(self, *names):
        self.names = names
        self.reset()

    def reset(self):
        """Set all phases to zero and restart the clock."""
        self.seconds = dict.fromkeys(self.names, 0.0)
        self.start()

    def start(self):
        """Restart the clock; the time since the last phase is not counted."""
        self.before = perf_counter()

    def __call__(self, phase):
        """Add the time since the last call to `phase`."""
        now = perf_counter()
        self.seconds[phase] += now - self.before
        self.before = now


class TimedLoop(Op):
    """A loop that trains weights and times its phases.

    Subclasses set ``clock``, a :class:`Phases`, and ``trained``, whose ``params`` are the weights.
    """

    @property
    def params(self):
        return self.trained.params

    def phases(self):
        return dict(self.clock.seconds)
