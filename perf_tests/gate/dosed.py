"""A pytest plugin that slows every sample by a calibrated spin: ``-p perf_tests.gate.dosed`` with RLGAUGE_DOSE=0.05."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import pytest

DOSE = "RLGAUGE_DOSE"
CALIBRATION = 5  # samples


@pytest.fixture(autouse=True)
def slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each prepared case spin for a part of its own time after every sample."""
    from perf_tests.suite.case import Prepared

    dose, run, settle = float(os.environ[DOSE]), Prepared.run, Prepared.settle
    spins: dict[Prepared, float] = {}

    def settled(self: Prepared) -> Any:
        answer, times = settle(self), []
        for _ in range(CALIBRATION):
            self.reset()
            start = time.perf_counter()
            run(self)
            times.append(time.perf_counter() - start)
        self.reset()
        spins[self] = dose * median(times)
        return answer

    def slowed(self: Prepared) -> Any:
        out, start = run(self), time.perf_counter()
        while time.perf_counter() - start < spins.get(self, 0.0):
            pass
        return out

    monkeypatch.setattr(Prepared, "settle", settled)
    monkeypatch.setattr(Prepared, "run", slowed)
