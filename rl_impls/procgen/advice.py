"""Procgen's alone: what to train with on the processor that is found, as only its loops have so many sizes."""

from __future__ import annotations

import os
from pathlib import Path

ENVS = 16  # of an actor
THREADS = 4  # of the machine for each actor: the learner and the games have the rest
FEWEST = 32  # environments
PICTURES = 1024  # of an update


def flags():
    """Return what the processor can do, words as Linux has them; none where that is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def options(cores, words):
    """Return options of ``train`` for a machine.

    Args:
        cores: that this process may use.
        words: what the processor can do, as :func:`flags` returned it.

    Returns:
        ``threads``, ``form``, ``actors``, ``envs`` and ``batch``.
    """
    actors = cores // THREADS if cores >= 2 * THREADS else 0
    envs = max(FEWEST, ENVS * actors)
    form = "bfloat16" if words & {"avx512_bf16", "amx_bf16"} else "full"
    return {"threads": cores, "form": form, "actors": actors, "envs": envs, "batch": PICTURES}


def advice():
    """Return the options for this machine, as they are written on a command line."""
    cores = len(os.sched_getaffinity(0))
    words = " ".join(f"--{name} {value}" for name, value in options(cores, flags()).items())
    return f"{cores} cores: {words}"
