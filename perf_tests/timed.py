"""What a plain run knows of one benchmark: its samples, which of them count, and the figures that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from rlgauge.statistics import interval

from .gate.worker import LONG
from .report.order import SCATTER
from .suite.case import Variant

CLEAN = 0.6  # part of the samples that are to be undisturbed, or the benchmark is timed again
WAITED = 0.1  # part of its time that a sample may wait for a core, or have it stolen, and is undisturbed
OTHERS = 0.4  # part of a core that others may take meanwhile

Sample = Mapping[str, Any]


@dataclass
class Timed:
    """What is known of one benchmark.

    Attributes:
        calls: in a sample.
        samples: one of each pass that it was timed in, see :meth:`.gate.worker.Requests.visit`.
        said: what else the last visit returned: ``stats`` and ``phases``.
        counters: exact counts of a call.
        first_answer: seconds from building it to its first answer, the first time; None where it is not known.
        failure: why it could not be prepared or timed; empty where it could.
        variant: the benchmark.
    """

    variant: Variant
    calls: int = 0
    samples: dict[int, Sample] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    first_answer: float | None = None
    failure: Mapping[str, Any] = field(default_factory=dict)

    def clean(self) -> dict[int, Sample]:
        """Return the undisturbed samples by pass.

        Others took little of the cores then, nothing was stolen, and it waited hardly more than is usual for this
        benchmark: some wait for their own threads.
        """
        usual = median([part(sample, "waited") for sample in self.samples.values()] or [0.0])
        return {
            number: sample
            for number, sample in self.samples.items()
            if sample["others"] <= OTHERS
            and part(sample, "stolen") <= WAITED
            and part(sample, "waited") <= WAITED + 2 * usual
        }

    def counted(self) -> dict[int, Sample]:
        """Return the samples that count: the undisturbed ones, or all where these are fewer than half."""
        return self.samples if self.disturbed() else self.clean()

    def disturbed(self) -> float:
        """Return the part of the samples that count that was disturbed."""
        clean = self.clean()
        return 0.0 if 2 * len(clean) >= len(self.samples) else 1 - len(clean) / len(self.samples)

    def wanting(self, wanted: int) -> bool:
        """Return whether too few samples are undisturbed, of so many that were wanted.

        Args:
            wanted: how many samples there should be.
        """
        return len(self.clean()) < CLEAN * wanted

    def long(self) -> bool:
        """Return whether a call takes so long that fewer samples have to do."""
        return bool(min(sample["seconds"] for sample in self.samples.values()) >= LONG)

    def passes(self) -> list[float | None]:
        """Return the seconds of a call in each pass, None where it is missing or disturbed."""
        clean = self.clean()
        return [clean[k]["seconds"] if k in clean else None for k in range(1 + max(self.samples))]

    def figures(self) -> dict[str, Any]:
        """Return the time of a call and how sure it is, of the samples that count.

        ``low`` and ``high`` are the interval of the median, at 95 % where there are six samples or more, and by how
        much processes differ.
        """
        seconds = [sample["seconds"] for sample in self.counted().values()]
        first, middle, third = quantiles(seconds, method="inclusive") if len(seconds) > 1 else seconds * 3
        low, high = interval(seconds)
        return {
            "calls": self.calls,
            "seconds_per_call": middle,
            "low": low * (1 - SCATTER),
            "high": high * (1 + SCATTER),
            "spread": (third - first) / middle,
            "passes": self.passes(),
            "samples": len(seconds),
            "disturbed": self.disturbed(),
        }


def part(sample: Sample, name: str) -> float:
    """Return the part of a sample's time that a reading of it is.

    Args:
        sample: of a benchmark.
        name: of the reading, in seconds.
    """
    return float(sample[name] / (sample["calls"] * sample["seconds"]))
