"""What comparisons share: a command line that pairs two sides; of snake's loop also numbers to play by and our side.

Both sides of a comparison start from the same seed, so they draw the same numbers, of snake the weights, games, memory,
moves and batches, before the clock starts. Fresh processes, interleaving and interval are those of
:mod:`perf_tests.compare`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from rl_impls import backends
from rlgauge.files import Unwritable, reserved
from rlgauge.interleaved import block
from rlgauge.statistics import interval, log_ratio

from ..interleaved import fresh_processes, in_words, interruptible
from ..suite import process
from ._turns import Turns

STEPS = 1024  # environment steps of a block: what a call costs by itself is a small part of it
EVERY, BATCH, EXPLORE, TARGET_EVERY = 4, 32, 0.1, 1000
EQUAL = 64  # environment steps of the first block that have to be equal: rounding may turn a move round later
ROOM = 1024  # bytes of JSON for each comparison
INSTALL = "pip install 'rlgauge-workloads[peers]'"


class Side(Turns):
    """One side of a comparison of snake's loop, and all it starts from.

    Args:
        seed: of all that is drawn: weights, games, memory, moves and batches.
        envs: environments N that are played at once.

    Attributes:
        spec: weights, games, memory and constants, as the op ``collect_and_learn`` takes them.
        outcome: of the last block: actions i32[T, N], rewards f32[T, N], ended bool[T, N], losses f32[U].
    """

    def __init__(self, seed: list[int], envs: int = 1) -> None:
        from rl_impls.snake.problem import CAPACITY, STORED, config, start_state, transitions

        super().__init__(seed)
        self.envs, self.capacity, self.pushed = envs, CAPACITY, STORED
        self.spec: dict[str, Any] = config(self.rng) | {
            "env_state": start_state(self.rng, envs), "stored": transitions(self.rng, STORED), "capacity": CAPACITY,
            "target_every": TARGET_EVERY, "step": 0,
        }  # fmt: skip

    def drawn(self) -> tuple[Any, ...]:
        """Draw all that a block needs of randomness; rows are of what will be stored when they are taken."""
        import numpy as np

        from rl_impls.snake.problem import draws, moves

        steps = STEPS // self.envs
        played = -(np.arange(EVERY, STEPS + 1, EVERY) // -self.envs) * self.envs  # all step before they learn
        stored = np.minimum(self.pushed + played, self.capacity)
        rows = self.rng.integers(stored[:, None], size=(len(stored), BATCH))
        explore = self.rng.random((steps, self.envs)) < EXPLORE
        return explore, moves(self.rng, steps, self.envs), draws(self.rng, steps, self.envs), rows

    def block(self) -> float:
        """Play and learn for one block; return its seconds."""
        seconds = super().block()
        self.pushed += STEPS
        return seconds

    def play(self, explore: Any, random_actions: Any, draws: Any, rows: Any) -> Any:
        """Play and learn for one block; return its outcome, all of it computed.

        Args:
            explore: whether a step takes a random action, bool[T, N].
            random_actions: those actions, i32[T, N].
            draws: what the environments need of randomness, i32[T, N, 3].
            rows: of the memory, that each update learns from, i64[U, B].
        """
        raise NotImplementedError

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        raise NotImplementedError

    def done(self) -> tuple[int, int]:
        """Return the environment steps and the updates of the last block."""
        return self.outcome[0].size, len(self.outcome[-1])

    def due(self) -> tuple[int, int]:
        """Return the environment steps and the updates that a block is to have."""
        return STEPS, STEPS // EVERY

    def check_first(self, other: Side) -> None:
        """Raise a RuntimeError unless both played and learned alike at the beginning of their first block.

        Args:
            other: the other side, after its first block.
        """
        import numpy as np

        first = EQUAL // self.envs
        for name, mine, theirs in zip(("actions", "rewards", "ended"), self.outcome, other.outcome):
            if not np.array_equal(mine[:first], theirs[:first]):
                raise RuntimeError(f"{name}: the first {EQUAL} differ, wanted the same: both got the same numbers")
        mine, theirs = self.outcome[-1][: EQUAL // EVERY], other.outcome[-1][: EQUAL // EVERY]
        if not np.allclose(mine, theirs, rtol=1e-3):
            raise RuntimeError(f"losses: got {mine} and {theirs}, wanted the same: both got the same numbers")


class Ours(Side):
    """``collect_and_learn`` of a form on a backend.

    Args:
        seed: of all that is drawn: weights, games, memory, moves and batches.
        backend: its name.
        form: name of a setting of the knobs.
        envs: environments N that are played at once.
    """

    def __init__(self, seed: list[int], backend: str, form: str, envs: int = 1) -> None:
        import numpy as np

        super().__init__(seed, envs)
        steps = STEPS // envs
        example = (
            np.zeros((steps, envs), bool), np.zeros((steps, envs), np.int32), np.zeros((steps, envs, 3), np.int32),
            np.zeros((STEPS // EVERY, BATCH), np.int64),
        )  # fmt: skip
        self.backend = backends.get(backend)
        knobs = dataclasses.replace(backends.forms("snake")[form], every=EVERY, batch=BATCH)
        self.op: Any = self.backend.build("snake", "collect_and_learn", self.spec, example, knobs)

    def play(self, *numbers: Any) -> Any:
        """Play and learn for one block; return its outcome.

        Args:
            numbers: what :meth:`Side.drawn` returned.
        """
        return self.backend.to_host(self.backend.wait(self.op(*numbers)))

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(array.size for array in self.op.params.values())


def identity(form: str, backend: str, envs: int = 1) -> str:
    """Return the id of the benchmark whose loop is compared.

    Args:
        form: name of a setting of the knobs.
        backend: its name.
        envs: environments N that are played at once.
    """
    return f"snake.collect_and_learn[{form}-{backend}-envs{envs}-every{EVERY}-batch{BATCH}]"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes:
        case: what is shown to be faster: the id of a benchmark, or a name.
        peer: what it is compared with.
        version: of the library the peer is from, or stands for.
        ours: makes the first from a seed.
        theirs: makes the second from the same seed.
        left_out: what the comparison leaves out.
        least: ratio below which the run fails.
    """

    case: str
    peer: str
    version: str
    ours: Callable[[list[int]], Turns]
    theirs: Callable[[list[int]], Turns]
    left_out: str
    least: float = 0.0


Comparisons = Mapping[str, Comparison]


def check_alike(theirs: Turns, ours: Turns) -> None:
    """Raise a RuntimeError unless both did the same work in the block before.

    Args:
        theirs: the one side.
        ours: the other.
    """
    alike = {
        "sizes of the net's arrays": (theirs.sizes(), ours.sizes()),
        "environment steps and updates of a block": (theirs.done(), ours.done()),
        "environment steps and updates of a block, and those wanted": (theirs.done(), ours.due()),
    }
    for name, (a, b) in alike.items():
        if a != b:
            raise RuntimeError(f"{name}: got {a} and {b}, wanted the same, or the comparison says nothing")


def one_pair(comparison: Comparison, blocks: int, seed: int, pair: int) -> dict[str, float]:
    """Return the median log-ratio of the times of a block, theirs over ours, and the median steps per second of each.

    Args:
        comparison: what is compared with what.
        blocks: of four turns.
        seed: of all that is drawn: weights, games, memory, moves and batches.
        pair: its number, from 0.

    Raises:
        RuntimeError: the two do not do the same work.
    """
    import numpy as np

    coin = np.random.default_rng([seed, pair, 1])
    ours, theirs = sides = comparison.ours([seed, pair]), comparison.theirs([seed, pair])
    rates: tuple[list[float], list[float]] = [], []
    for side in sides:
        side.block()
    theirs.check_first(ours)
    for side in sides:
        side.block()
    check_alike(theirs, ours)

    def turn(which: int, changed: bool) -> float:
        if changed:
            sides[which].block()
        seconds = sides[which].block()
        rates[which].append(STEPS / seconds)
        return seconds

    ratio = log_ratio([block(int(coin.integers(2)), turn) for _ in range(blocks)])
    check_alike(theirs, ours)
    return {"ratio": ratio, "ours": median(rates[0]), "theirs": median(rates[1])}


def summary(comparison: Comparison, results: Sequence[Mapping[str, float]], threads: int) -> dict[str, Any]:
    """Return what is kept of a comparison: the median ratio with its 95 % interval, and n.

    Args:
        comparison: what is compared with what.
        results: what :func:`one_pair` returned in each process.
        threads: that each side has.
    """
    ratios = [math.exp(result["ratio"]) for result in results]
    low, high = interval(ratios)
    return {
        "peer": comparison.peer, "version": comparison.version, "case": comparison.case,
        "ratio": median(ratios), "low": low, "high": high, "n": len(ratios), "threads": threads,
        "steps_per_second": {side: median(result[side] for result in results) for side in ("ours", "theirs")},
        "left_out": comparison.left_out,
    }  # fmt: skip


def parse(module: str, about: str, comparisons: Comparisons, checks: Comparisons, threads: int) -> Any:
    """Return the command line as a namespace; a mistake in it ends the process with one line.

    Args:
        module: name of the script.
        about: what it does, in a line.
        comparisons: by the name that ``--only`` takes.
        checks: further comparisons, made with ``--check``.
        threads: that each side has unless the command line says so.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--pairs", type=int, default=7, help="fresh processes for each comparison (6 or more)")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of four samples in each")
    parser.add_argument("--threads", type=int, default=min(threads, process.cores()))
    parser.add_argument("--seed", type=int, default=0, help="seed of all inputs (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too, whole or not at all")
    parser.add_argument("--only", choices=[*comparisons, *checks], help="make one comparison alone")
    if checks:
        parser.add_argument("--check", action="store_true", help="measure whether the peer is as fast as it has to be")
    parser.add_argument("--one", type=int, metavar="PAIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 1 <= options.threads <= process.cores():
        parser.error(f"got --threads {options.threads}, wanted 1 to {process.cores()}")
    if options.seed < 0:
        parser.error(f"got --seed {options.seed}, wanted 0 or more")
    if options.pairs < 6 or options.blocks < 1:
        parser.error(f"got --pairs {options.pairs} --blocks {options.blocks}, wanted 6 or more pairs, 1 or more blocks")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"got --json {options.json}, wanted a file in a folder that exists")
    return options


def check_installed(needed: Sequence[str]) -> None:
    """End the process with one line unless these packages and backends are there.

    Args:
        needed: names of packages and backends.
    """
    for name in needed:
        if name in backends.BACKENDS:
            if reason := backends.get(name).missing():
                sys.exit(f"{name}: {reason} ({INSTALL})")
        elif find_spec(name) is None:
            sys.exit(f"{name} is not installed ({backends.PACKAGES.get(name, INSTALL)})")


def measured(module: str, name: str, comparison: Comparison, options: Any) -> dict[str, Any]:
    """Make one comparison in fresh processes; print its result and return what is kept of it.

    Args:
        module: name of the script.
        name: of the comparison.
        comparison: what is compared with what.
        options: the command line as parsed.
    """
    asked = ["--only", name, "--blocks", str(options.blocks), "--threads", str(options.threads)]
    asked += ["--seed", str(options.seed)]
    results = list(fresh_processes(module, asked, options.pairs))
    found = summary(comparison, results, options.threads)
    ours, theirs = found["steps_per_second"].values()
    print(
        f"{comparison.case} is this many times as fast as {comparison.peer} {comparison.version}: "
        f"{in_words([math.exp(result['ratio']) for result in results])} of {options.blocks} blocks, "
        f"{options.threads} threads ({ours:,.0f} and {theirs:,.0f} environment steps per second)",
        flush=True,
    )
    return found


@interruptible()
def main(
    module: str,
    about: str,
    comparisons: Comparisons,
    *,
    needed: Sequence[str],
    threads: int = 1,
    checks: Comparisons = MappingProxyType({}),
) -> None:
    """Print how many times faster the first loop of each comparison is than the second.

    Args:
        module: name of the script, which is run anew for each pair.
        about: what it does, its first line the shortest.
        comparisons: by the name that ``--only`` takes.
        needed: packages and backends without which there is nothing to compare.
        threads: that each side has, unless the command line says so.
        checks: comparisons made instead where the command line has ``--check``.
    """
    options = parse(module, about.partition("\n")[0], comparisons, checks, threads)
    known = {**comparisons, **checks}
    if options.one is not None:
        process.set_up(options.threads)
        print(json.dumps(one_pair(known[options.only], options.blocks, options.seed, options.one)))
        return
    check_installed(needed)
    names = [options.only] if options.only else [*(checks if checks and options.check else comparisons)]
    try:
        with reserved(options.json, ROOM * len(names)) as write:
            found = [measured(module, name, known[name], options) for name in names]
            write(json.dumps(found, indent=1).encode())
    except Unwritable as error:
        sys.exit(str(error))
    failed = [
        f"{name}: got {one['ratio']:.3g}, wanted {known[name].least} or more, or the peer is wrong"
        for name, one in zip(names, found)
        if one["ratio"] < known[name].least
    ]
    if failed:
        sys.exit("\n".join(failed))
