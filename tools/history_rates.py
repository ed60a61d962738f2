"""Estimate how often ``rlgauge history show`` is wrong, for docs/history.md: ``python tools/history_rates.py``.

Histories are resampled, test by test, from recorded pairs of identical code, with a random sign, as either side could
be the first. Each commit is then slowed by a known factor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlgauge.chain import series
from rlgauge.history import Entry
from rlgauge.rates import Rate
from rlgauge.steps import Judged, judged

RECORDED = Path(__file__).parents[1] / "perf_tests" / "gate" / "selfcheck" / "pairs.json"
HISTORIES, COMMITS, PAIRS = 1000, 12, 16
FEWEST = 20  # tests with fewer recorded pairs are left out
STEP, DRIFT, DRIFTS = 0.05, 0.01, 8
ROWS = {
    "flat": "no change | any step, or a verdict other than `ok` (false alarms)",
    "step": f"one step of {STEP:.0%} | exactly one step, at most one commit away from the true one",
    "drift": f"{DRIFTS} steps of {DRIFT:.0%} | the verdict `slower`",
}
Generator = np.random.Generator


def levels(kind: str, rng: Generator) -> tuple[npt.NDArray[np.float64], int]:
    """Return the true log-ratio of each commit to the root, f64[COMMITS], and the index of the step."""
    found, place = np.zeros(COMMITS), int(rng.integers(COMMITS))
    if kind == "step":
        found[place] = math.log1p(STEP)
    if kind == "drift":
        found[rng.choice(COMMITS, DRIFTS, replace=False)] = math.log1p(DRIFT)
    return np.cumsum(found), place


def read_of(pool: Sequence[float], true: npt.NDArray[np.float64], tests: int, rng: Generator) -> Judged:
    """Return the conclusions about a resampled history, with p-values adjusted for ``tests`` tests."""
    order = [f"{number:040x}" for number in range(1 + COMMITS)]
    entries = []
    for commit, level in zip(order[1:], true):
        log_ratios = level + rng.choice(pool, PAIRS) * rng.choice((-1.0, 1.0), PAIRS)
        entries.append(Entry("made", "", commit, order[0], log_ratios.tolist()))
    return judged(series(entries, order), tests)[0]


def is_counted(kind: str, place: int, found: Judged) -> bool:
    """Return whether a history counts in the row of its kind: a false alarm for ``flat``, a hit for the others."""
    if kind == "flat":
        return bool(found.steps) or found.verdict != "ok"
    if kind == "drift":
        return found.verdict == "slower"
    return [abs(int(s.commit, 16) - 1 - place) <= 1 and s.log_ratio > 0 for s in found.steps] == [True]


def main() -> None:
    """Simulate all kinds of histories, and print the table."""
    pools: dict[str, list[float]] = {}
    for pair in json.loads(RECORDED.read_bytes())["pairs"]:
        for test, value in pair.items():
            pools.setdefault(test, []).append(value)
    kept = [values for _, values in sorted(pools.items()) if len(values) >= FEWEST]
    print("| history | found | share of histories |\n|---|---|---:|")
    for number, (kind, row) in enumerate(ROWS.items()):
        rng, counted = np.random.default_rng(number), 0
        for history in range(HISTORIES):
            true, place = levels(kind, rng)
            found = read_of(kept[history % len(kept)], true, 1 if kind == "flat" else len(kept), rng)
            counted += is_counted(kind, place, found)
        print(f"| {row} | {Rate(counted, HISTORIES)} |", flush=True)


if __name__ == "__main__":
    main()
