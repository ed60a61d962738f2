"""Compare two benchmarks in one run: ``python -m perf_tests.compare ID ID [--pairs 7] [--blocks 8]``.

Each pair is a fresh process that prepares both, settles them, and interleaves their samples A B B A or B A A B by coin
flip. A sample that follows one of the other side does not count: the other's data fill the caches and its idle threads
still turn, as they do not where a benchmark runs alone. A pair gives the median of its blocks' log-ratios; the result
is the median over the pairs with the distribution-free 95 % interval of a median.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

from rl_impls import backends

from .suite import process

if TYPE_CHECKING:
    from .suite.case import Prepared


def sample(prepared: Prepared) -> float:
    """Return the seconds one sample takes per item."""
    prepared.reset()
    start = time.perf_counter()
    prepared.run()
    seconds = time.perf_counter() - start
    return seconds / prepared.calls / prepared.variant.case.items(**prepared.variant.axes)


def one_pair(first: str, second: str, blocks: int, seed: int) -> float:
    """Return the median log-ratio of the times per item, first over second."""
    import numpy as np

    from .suite.cases import variants

    named = variants()
    coin = np.random.default_rng(seed)
    with named[first].prepare(seed) as a, named[second].prepare(seed) as b:
        for prepared in (a, b):
            prepared.settle()
        ratios = []
        for _ in range(blocks):
            x, y = (a, b) if coin.random() < 0.5 else (b, a)
            spent = {a: 0.0, b: 0.0}
            for prepared, changed in ((x, True), (y, True), (y, False), (x, True)):
                if changed:
                    sample(prepared)
                spent[prepared] += sample(prepared)
            ratios.append(math.log(spent[a] / spent[b]))
    return median(ratios)


def interval_of_median(values: list[float]) -> str:
    """Return the distribution-free 95 % interval of the median, in words."""
    from .gate.rule import interval

    low, high = interval(values)
    return f"95 % interval {low:.3g} to {high:.3g}"


def main(arguments: list[str] | None = None) -> None:
    """Print how many times faster the second benchmark is than the first, per item."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.compare", description=__doc__.splitlines()[0])
    parser.add_argument("first", help="id, as in 'pirl.train_step[naive-torch-batch256-order1]'")
    parser.add_argument("second", help="id of the benchmark to compare it with")
    parser.add_argument("--pairs", type=int, default=7, help="fresh processes (6 or more)")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of four samples in each")
    parser.add_argument("--threads", type=int, default=process.cores())
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= process.cores():
        parser.error(f"got --threads {options.threads}, wanted 1 to {process.cores()}")
    process.set_up(options.threads)
    if options.one is not None:
        print(json.dumps(one_pair(options.first, options.second, options.blocks, options.one)))
        return

    from .suite.cases import variants  # brings NumPy, which takes its threads from what is set by now

    for identity in (options.first, options.second):
        if identity not in variants():
            parser.error(f"unknown id {identity!r}; pytest --collect-only --benchmark-only --tier full lists them")
    chosen = [variants()[identity] for identity in (options.first, options.second)]
    if len({variant.case.unit for variant in chosen}) > 1:
        parser.error(f"the benchmarks count different things: {' and '.join(v.case.unit for v in chosen)}")
    for variant in chosen:
        reason = backends.get(variant.backend).missing()
        if reason:
            parser.error(f"{variant.id}: {reason}")
    if options.pairs < 6 or options.blocks < 1:
        parser.error(f"got --pairs {options.pairs} --blocks {options.blocks}, wanted 6 or more pairs, 1 or more blocks")

    ratios = []
    for pair in range(options.pairs):
        command = [sys.executable, "-m", "perf_tests.compare", options.first, options.second]
        command += ["--one", str(pair), "--blocks", str(options.blocks), "--threads", str(options.threads)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        ratios.append(math.exp(json.loads(done.stdout.splitlines()[-1])))
    print(
        f"{options.second} is {median(ratios):.3g} times as fast as {options.first}: "
        f"{interval_of_median(ratios)}, n = {len(ratios)} processes "
        f"of {options.blocks} blocks, {options.threads} threads"
    )


if __name__ == "__main__":
    main()
