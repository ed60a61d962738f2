"""Compare two benchmarks in one run: ``python -m perf_tests.compare ID ID [--pairs 7] [--blocks 8]``.

Each pair is a fresh process that prepares both, settles them, and interleaves their samples, see :mod:`.interleaved`.
A pair gives the median of its blocks' log-ratios; the result is the median over the pairs with the distribution-free
95 % interval of a median.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import TYPE_CHECKING

from rl_impls import backends
from rlgauge.interleaved import block
from rlgauge.progress import tracked
from rlgauge.statistics import log_ratio

from .interleaved import fresh_processes, in_words, interruptible
from .suite import process

if TYPE_CHECKING:
    from .suite.prepared import Prepared


def sample(prepared: Prepared) -> float:
    """Return the seconds one sample takes per item.

    Args:
        prepared: the benchmark, settled.
    """
    prepared.reset()
    start = time.perf_counter()
    prepared.run()
    seconds = time.perf_counter() - start
    return seconds / prepared.calls / prepared.variant.case.items(**prepared.variant.axes)


def one_pair(first: str, second: str, blocks: int, seed: int) -> float:
    """Return the median log-ratio of the times per item, first over second.

    Args:
        first: id of a benchmark.
        second: id of the one it is compared with.
        blocks: of four samples.
        seed: of all that is drawn.
    """
    import numpy as np

    from .suite.cases import variants
    from .suite.prepared import prepare

    coin = np.random.default_rng(seed)
    with prepare(variants()[first], seed) as a, prepare(variants()[second], seed) as b:
        sides = b, a
        for prepared in sides:
            prepared.settle()
            prepared.measure_calls()

        def turn(side: int, changed: bool) -> float:
            if changed:
                sample(sides[side])
            return sample(sides[side])

        return log_ratio([block(int(coin.integers(2)), turn) for _ in range(blocks)])


@interruptible()
def main(arguments: list[str] | None = None) -> None:
    """Print how many times faster the second benchmark is than the first, per item.

    Args:
        arguments: the command line, that of the process unless given.
    """
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

    asked = [options.first, options.second, "--blocks", str(options.blocks), "--threads", str(options.threads)]
    found = tracked(fresh_processes("perf_tests.compare", asked, options.pairs), options.pairs, "processes")
    ratios = [math.exp(ratio) for ratio in found]
    print(
        f"{options.second} is this many times as fast as {options.first}: {in_words(ratios)} "
        f"of {options.blocks} blocks, {options.threads} threads"
    )


if __name__ == "__main__":
    main()
