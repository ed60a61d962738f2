"""Wall time of each phase of a loop, and utilisation of the GPU meanwhile."""

from time import monotonic, perf_counter

from .op import Op

PERIOD = 0.2  # seconds between samples of the utilisation, which the driver averages over a sixth of a second or more


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


def gpu_utilisation():
    """Return the recent utilisation of the GPU from 0 to 1, or None if it is unknown."""
    import torch

    try:
        return torch.cuda.utilization() / 100
    except Exception:  # nvidia-ml-py is missing, or raises its own error, for example for a MIG partition
        return None


class Utilisation:
    """Mean utilisation of the GPU, from samples ``PERIOD`` seconds apart.

    ``read()`` returns the current utilisation or None, and ``now()`` the time in seconds.
    """

    def __init__(self, read=gpu_utilisation, now=monotonic):
        self.read, self.now = read, now
        self.reset()

    def reset(self):
        """Discard all samples."""
        self.total, self.count = 0.0, 0
        self.start()

    def start(self):
        """Delay the next sample by a whole period, because the GPU may have been idle."""
        self.due = self.now() + PERIOD

    def sample(self):
        """Take a sample if one is due."""
        if self.now() >= self.due:
            self.start()
            if (busy := self.read()) is not None:
                self.total, self.count = self.total + busy, self.count + 1

    def mean(self):
        """Return the mean of the samples, or the current value if there are none; None if it is unknown."""
        return self.total / self.count if self.count else self.read()
