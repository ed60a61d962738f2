"""Suggested training options for this machine's processor."""

from __future__ import annotations

import os
from pathlib import Path

ENVS = 16  # per actor
THREADS = 4  # threads of the machine per actor; the others are for the learner and the games
MIN_ENVS = 32
BATCH_SIZE = 1024


def cpu_flags():
    """Return the CPU flags in /proc/cpuinfo; none if they are unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def options(cores, flags):
    """Return suggested options by name for a number of cores and the CPU flags."""
    actors = cores // THREADS if cores >= 2 * THREADS else 0
    form = "bfloat16" if flags & {"avx512_bf16", "amx_bf16"} else "full"
    return {
        "threads": cores, "form": form, "actors": actors, "num_envs": max(MIN_ENVS, ENVS * actors),
        "batch_size": BATCH_SIZE,
    }  # fmt: skip


def advice():
    """Return the options for this machine as command-line text."""
    cores = len(os.sched_getaffinity(0))
    words = (f"--{name.replace('_', '-')} {value}" for name, value in options(cores, cpu_flags()).items())
    return f"{cores} cores: {' '.join(words)}"
