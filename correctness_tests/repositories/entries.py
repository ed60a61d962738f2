"""History entries for tests."""

import numpy as np

from rlgauge.history import Entry

CASE = "benchmarks/test_toy.py::test_first"


def commit(number):
    return f"{number:012x}{0:028x}"


def entry(number, anchor, log_ratios=(), **changed):
    """Return the entry of a commit that was compared with an anchor."""
    return Entry(**{
        "case": CASE, "version": "1", "commit": commit(number), "anchor": commit(anchor),
        "log_ratios": list(log_ratios), "machine": "a-machine", "date": "2026-11-23", **changed,
    })  # fmt: skip


def unchanged(number, anchor, same_as, log_ratios=()):
    """Return the entry of a commit with the same files as an earlier one."""
    return entry(number, anchor, log_ratios, same_as=commit(same_as))


def pairs(level, n=12, spread=0.02, seed=0):
    """Return the noisy log-ratios of n pairs around this level."""
    return (level + np.random.default_rng(seed).normal(0, spread, n)).tolist()


def over(levels, anchor=0, **how):
    """Return the entries of commits 1, 2, ... with these log-ratios to the anchor."""
    return [entry(k, anchor, pairs(level, seed=k, **how)) for k, level in enumerate(levels, start=1)]


def order(count):
    return [commit(number) for number in range(1 + count)]
