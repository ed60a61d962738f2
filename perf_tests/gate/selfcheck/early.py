"""Simulate the effect of the early end of a confirmation: ``python -m perf_tests.gate.selfcheck.early``.

Pairs of identical code are sampled from model distributions and from recorded pairs of each benchmark of the gate tier,
then slowed by a known factor. After a stop for futility, later looks do not count, but the confirmation goes on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlgauge.rates import Rate
from rlgauge.rule import Rule, confirmed

RECORDED = Path(__file__).with_name("pairs.json")  # log-ratios of identical code, for every benchmark of the gate tier
NOW, BEFORE = Rule(), Rule(version=1)
ROWS = 20_000
SLOWDOWNS = (0.01, 1), (0.02, 4), (0.05, 4), (0.10, 4), (6.0, 4)  # (slowdown, number of suspects in the run)
Draws = Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[np.float64]]
PROCESSES: dict[str, Draws] = {  # log times of processes of identical code
    "normal, standard deviation 1.6%": lambda rng, shape: rng.normal(0, 0.0113, shape),  # 1.6% for a pair
    "heavy tails (t, 2 degrees)": lambda rng, shape: 0.007 * rng.standard_t(2, shape),
    "two modes, 30% apart": lambda rng, shape: 0.3 * rng.integers(2, size=shape) + rng.normal(0, 0.003, shape),
    "three modes, 30% apart": lambda rng, shape: 0.3 * rng.integers(3, size=shape) + rng.normal(0, 0.003, shape),
    "skewed (log-normal)": lambda rng, shape: 0.02 * np.exp(rng.normal(0, 1, shape)),
}
AWKWARD = list(PROCESSES)[2:]  # only simulated at the first slowdown


def recorded(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return confirmations resampled from each benchmark's recorded pairs, centred on their median, f64[rows, most]."""
    pools: dict[str, list[float]] = {}
    for pair in json.loads(RECORDED.read_text())["pairs"]:
        for case, value in pair.items():
            pools.setdefault(case, []).append(value)
    count = math.ceil(ROWS / len(pools))
    drawn = [rng.choice(values, (count, NOW.most)) - np.median(values) for values in pools.values()]
    return np.concatenate(drawn)


def main() -> None:
    """Print one row per distribution and slowdown."""
    rng = np.random.default_rng(0)
    noises = {name: np.subtract(*draw(rng, (2, ROWS, NOW.most))) for name, draw in PROCESSES.items()}
    noises["recorded pairs of the gate tier"] = recorded(rng)
    head = (
        "distribution of pairs", "slowdown", "suspects", "called slower", "slower without the early end", "mean pairs",
        "mean pairs without it",
    )  # fmt: skip
    print(f"| {' | '.join(head)} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, noise in noises.items():
        for slowdown, family in SLOWDOWNS[: 1 if name in AWKWARD else None]:
            rows = noise + math.log1p(slowdown)
            found = []
            for rule in (NOW, BEFORE):
                open_still, pairs = np.ones(len(rows), dtype=bool), np.zeros(len(rows))
                for n in (*range(5, 13), rule.confirm, rule.most):
                    pairs[open_still] = n
                    p = np.asarray(confirmed(rows[open_still, :n], rule))
                    open_still[open_still] = family * p > rule.level
                found.append((Rate(int(np.sum(~open_still)), len(rows)), f"{pairs.mean():.1f}"))
            (slower, end), (slower_before, end_before) = found
            cells = name, f"{slowdown:.0%}", family, slower, slower_before, end, end_before
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
