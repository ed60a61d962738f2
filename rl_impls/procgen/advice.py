"""Suggested training options for this machine's processor."""

from __future__ import annotations

import os
from pathlib import Path

ENVS = 16  # per actor
THREADS = 4  # threads of the machine per actor; the others are for the learner and the games
FEWEST = 32  # fewest environments
PICTURES = 1024  # minibatch size


def flags():
    """Return the CPU flags in /proc/cpuinfo; none if they are unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def options(cores, words):
    """Return ``threads``, ``form``, ``actors``, ``envs`` and ``batch`` for a number of cores and the CPU flags."""
    actors = cores // THREADS if cores >= 2 * THREADS else 0
    envs = max(FEWEST, ENVS * actors)
    form = "bfloat16" if words & {"avx512_bf16", "amx_bf16"} else "full"
    return {"threads": cores, "form": form, "actors": actors, "envs": envs, "batch": PICTURES}


def advice():
    """Return the options for this machine as command-line text."""
    cores = len(os.sched_getaffinity(0))
    words = " ".join(f"--{name} {value}" for name, value in options(cores, flags()).items())
    return f"{cores} cores: {words}"
