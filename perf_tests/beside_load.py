"""Measure how much speed each training command keeps beside a busy loop on one core.

Runs alternate between idle and loaded; the ratio of the two rates is taken within each pair.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from rlgauge.command import ended

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "pirl": ["pirl"],
    "snake": ["snake"],
    "snake compiled": ["snake", "--backend", "jax", "--form", "compiled", "--num-envs", "64"],
    "treasurehunt": ["treasurehunt"],
    "treasurehunt compiled": ["treasurehunt", "--backend", "jax", "--form", "compiled"],
    "mario": ["mario"],
    "procgen ppo": ["procgen", "--num-steps", "32"],
    "procgen ppo, 2 actors": ["procgen", "--num-steps", "32", "--actors", "2"],
    "procgen impala": ["procgen", "--algorithm", "impala"],
    "procgen impala, 2 actors": ["procgen", "--algorithm", "impala", "--actors", "2", "--lag", "1"],
    "procgen a3c": ["procgen", "--algorithm", "a3c"],
}


@contextlib.contextmanager
def busy_loop() -> Iterator[None]:
    """Keep one core busy with a Python process."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def rate(command: Sequence[str], seconds: float) -> float:
    """Return the environment steps per second of one training run, without start-up and compilation.

    ``command`` is the workload followed by options of its ``train`` command, ``seconds`` the duration of the training.
    """
    workload, *options = command
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["train", "--output-dir", str(run), "--duration", f"{seconds}s", *options]
        subprocess.run(
            [sys.executable, "-m", f"rl_impls.{workload}", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        return float(json.loads((run / "run.json").read_text())["rate"])


def pairs(command: Sequence[str], count: int, seconds: float) -> list[tuple[float, float]]:
    """Return ``(rate alone, rate beside the busy loop)`` for each of ``count`` pairs; the order alternates."""
    found = []
    for number in range(count):
        rates = {}
        for beside in (False, True) if number % 2 == 0 else (True, False):
            with busy_loop() if beside else contextlib.nullcontext():
                rates[beside] = rate(command, seconds)
        found.append((rates[False], rates[True]))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and measure; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.beside_load", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--pairs", type=int, default=5, metavar="N", help="run N pairs of trainings per command (default: 5)"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="train for S seconds each time (default: 10)"
    )
    only = f"measure only these commands (default: all): {'; '.join(COMMANDS)}"
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS), metavar="COMMAND", help=only)
    options = parser.parse_args(arguments)
    return ended(lambda: run(options), subprocess.CalledProcessError)


def run(options: argparse.Namespace) -> int:
    """Measure the selected commands, and print a row for each; return 0."""
    print(f"{'training command':26s} {'alone, per s':>14s} {'speed beside a busy loop':>24s} {'lowest':>7s}  n")
    for name in options.only:
        rates = pairs(COMMANDS[name], options.pairs, options.seconds)
        kept = [beside / alone for alone, beside in rates]
        alone = median(rate for rate, _ in rates)
        print(f"{name:26s} {alone:14,.1f} {median(kept):24.0%} {min(kept):7.0%}  {len(kept)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
