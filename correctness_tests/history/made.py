"""Entries that nobody measured."""

from __future__ import annotations

import numpy as np

from perf_tests.history.entries import Entry, timed

MACHINE, CASE = "a-machine", "toy.first[full-numpy]"


def commit(number):
    """Return the name of a commit."""
    return f"{number:012x}{0:028x}"


def entry(number, anchor, log_ratios=None, **changed):
    """Return the entry of a commit that was compared with another."""
    fields = {
        "machine": MACHINE,
        "date": "2026-11-23",
        "commit": commit(number),
        "anchor": commit(anchor),
        "case": CASE,
        "version": 1,
        **(timed(log_ratios) if log_ratios is not None else {}),
    }
    return Entry.model_validate({**fields, **changed})


def unchanged(number, anchor, same_as, ratio, n):
    """Return the entry of a commit that is like an earlier one."""
    same = {"ratio": ratio, "low": ratio, "high": ratio, "n": n, "same_as": commit(same_as)}
    return entry(number, anchor, state="unchanged", **same)


def pairs(level, n=12, spread=0.02, seed=0):
    """Return what n pairs say of a commit that is slower by this log-ratio."""
    return (level + np.random.default_rng(seed).normal(0, spread, n)).tolist()


def over(levels, anchor=0, **how):
    """Return the entries of commits 1, 2, ... of which each is slower than the anchor by a log-ratio."""
    return [entry(k, anchor, pairs(level, seed=k, **how)) for k, level in enumerate(levels, start=1)]


def order(count):
    """Return the names of the commits 0, 1, ..., up to this one."""
    return [commit(number) for number in range(1 + count)]
