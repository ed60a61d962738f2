"""Two things timed in turns, A B B A or B A A B, and fresh processes that each do so: for the gate, ``compare``, peers.

A sample that follows one of the other side does not count: the other's data fill the caches and its idle threads still
turn, as they do not where a program runs alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from .gate.interrupts import by_sigterm
from .gate.statistics import FEWEST, Block, interval


def block(first: int, sample: Callable[[int, bool], float]) -> Block:
    """Return what four turns measured, summed over each side's two.

    Args:
        first: the side, 0 or 1, that has the first turn and the last.
        sample: ``sample(side, changed)`` has a turn and returns its seconds; where ``changed``, the other side was at
            work before, so that it begins with something that does not count.
    """
    spent = [0.0, 0.0]
    for side, changed in ((first, True), (1 - first, True), (1 - first, False), (first, True)):
        spent[side] += sample(side, changed)
    return spent[0], spent[1]


def fresh_processes(module: str, arguments: Sequence[str], count: int, first: int = 0) -> Iterator[Any]:
    """Run ``python -m module ARGUMENTS --one N`` for N = first, first + 1, ...; return what each printed last, as JSON.

    A process that fails ends this one with its exit code; it has said why.

    Args:
        module: its full name.
        arguments: of the command line, without ``--one``.
        count: how many processes.
        first: number of the first.
    """
    for number in range(first, first + count):
        command = [sys.executable, "-m", module, *arguments, "--one", str(number)]
        with by_sigterm():
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        yield json.loads(done.stdout.splitlines()[-1])


def in_words(ratios: Sequence[float]) -> str:
    """Return the median of ratios from fresh processes with its 95 % interval, or the extremes of fewer than six.

    Args:
        ratios: one of each process.
    """
    low, high = interval(ratios)
    name = "95 % interval" if len(ratios) >= FEWEST else "extremes"
    return f"{median(ratios):.3g}x, {name} {low:.3g} to {high:.3g}, n = {len(ratios)} processes"
