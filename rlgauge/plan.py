"""How ``rlgauge compare`` and ``rlgauge rank`` measure: precision, time, outputs, cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .case import Case
from .fields import FieldError
from .sampling import Cores, cores

OUTPUTS, CORES = ("close", "same", "ignore"), ("", "one", "all")
TIMED, MEMORY = ("seconds", "difference", "spread"), ("peak_rss", "allocated")


@dataclass(frozen=True)
class Plan:
    """How to compare benchmarks.

    Attributes:
        precision: half width of the interval at which measuring stops, as a fraction of the ratio; for a difference, as
            a fraction of the longer time.
        minutes: time after which no new pair is started; at least six pairs are measured. With 0, noisy benchmarks and
            those with long calls get fewer samples per pair.
        outputs: whether outputs must be ``close``, the ``same``, or are ``ignore``d.
        tolerance: largest difference of close outputs, as a fraction of an array's largest absolute value; by
            default that of the tests' marks and settings.
        items: compare the time per item, as counted in ``benchmark.extra_info["items"]``, instead of per call.
        measure: what to compare: the ratio of ``seconds``; their ``difference``; their ``spread``, which is the
            interquartile range over the median; bytes of ``peak_rss`` or ``allocated``, see
            :meth:`.worker.Requests.peak_memory`; or a number that both tests store in ``extra_info["figures"]``.
        threads_a: threads and cores of the first benchmark's process; determined by `cores` by default.
        threads_b: the same for the second benchmark.
        cores: ``one`` or ``all``; by default as the tests' marks and settings say.
        blocks: blocks in each pair.
        seed: seed of the order of sides.
        limit: timeout of one worker request, in seconds.

    Raises:
        FieldError: a value is invalid or contradicts another.
    """

    precision: float = 0.03
    minutes: float = 5.0
    outputs: str = "close"
    tolerance: float | None = None
    items: bool = False
    measure: str = "seconds"
    threads_a: int | None = None
    threads_b: int | None = None
    cores: str = ""
    blocks: int = 8
    seed: int = 0
    limit: float = 300.0

    def __post_init__(self) -> None:
        """Validate the values."""
        for name, least in (("precision", 0.001), ("minutes", 0.0)):
            if not getattr(self, name) >= least:
                raise FieldError([name], f"{getattr(self, name):g} is too small; choose {least:g} or more")
        for name, choices in (("outputs", OUTPUTS), ("cores", CORES)):
            if getattr(self, name) not in choices:
                allowed = ", ".join(filter(None, choices))
                raise FieldError([name], f"unknown value {getattr(self, name)!r} (choose from {allowed})")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise FieldError(["tolerance"], f"{self.tolerance:g} is out of range; choose 0 or more, but below 1")
        if self.items and self.measure in ("spread", *MEMORY):
            raise FieldError(["items"], f"{self.measure} has no value per item; leave out items or change the measure")
        most = 1 if self.cores == "one" else cores(True).threads
        for name in ("threads_a", "threads_b"):
            threads = getattr(self, name)
            if threads is not None and not 1 <= threads <= most:
                raise FieldError([name], f"{threads} is out of range; choose 1 to {most}, the test's cores")

    @property
    def quick(self) -> bool:
        """Whether long calls may get a single block in a pair; a spread needs several."""
        return self.minutes == 0 and self.measure != "spread"

    def place(self, tests: Sequence[Case]) -> Cores:
        """Return the cores on which the tests run."""
        several = any(case.all_cores for case in tests) or max(self.threads_a or 1, self.threads_b or 1) > 1
        return cores(self.cores == "all" or (several and self.cores != "one"))
