"""Compare Procgen's loops: ``python -m perf_tests.procgen_loops [--only NAME] [--processes 5]``.

Each loop beside the bound of its parts, ``1 / (epochs / f_train + 1 / f_act + 1 / f_env)``: the same updates, with
gathering, clipping and the optimiser, the same acting and the same steps of the games, each by itself; loops whose
actors are processes beside the loop of one process, and where Ray is installed its actors beside those; and bfloat16
beside float32. Coinrun, 32 environments x 128 steps, the net of three convolutions; ``residual`` is PPO on the net, the
game and the sizes of CleanRL's ``ppo_procgen``. Both sides have turns, A B B A, in fresh processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rl_impls import backends
from rlgauge.interleaved import block
from rlgauge.statistics import log_ratio

from .interleaved import fresh_processes, in_words, interruptible
from .suite import process

ENVS, UNROLL = 32, 128
TOGETHER = 4  # rollouts of a turn where actors play ahead
CLEANRL: dict[str, Any] = {
    "net": "residual",
    "game": "starpilot",
    "envs": 64,
    "unroll": 256,
    "epochs": 3,
    "batch": 2048,
}


def build(op: str, form: str, net: str = "nature", game: str = "coinrun", **sizes: int) -> Any:
    """Return a loop.

    Args:
        op: its name.
        form: named setting of the knobs.
        net: its name.
        game: of Procgen.
        sizes: epochs, actors, lag; batch, envs and unroll where they are others than usual.
    """
    import numpy as np

    from .suite.cases.procgen import LOOPS, PARALLEL

    rng, batch = np.random.default_rng(0), sizes.pop("batch", None)
    inputs = (LOOPS | PARALLEL)[op][0](rng, **{"envs": ENVS, "unroll": UNROLL, **sizes})
    spec = {**inputs.spec, "env": {**inputs.spec["env"], "game": game}}
    spec |= {} if net == "nature" else {"params": import_module("rl_impls.procgen.spec").init_net(rng, net)}
    spec |= {} if batch is None else {"batch": batch}
    return backends.get("torch").build("procgen", op, spec, inputs.args, backends.forms("procgen")[form])


class Whole:
    """A loop.

    Args:
        op: its name.
        form: named setting of the knobs.
        rollouts: of a turn; actors play ahead of each but the last.
        sizes: those of :func:`build`.
    """

    def __init__(self, op: str, form: str = "full", rollouts: int = 1, **sizes: Any) -> None:
        self.loop, self.number, self.rollouts = build(op, form, **sizes), 0, rollouts
        self.frames = rollouts * sizes.get("envs", ENVS) * sizes.get("unroll", UNROLL)

    def turn(self) -> float:
        """Play and learn from the next rollout; return the seconds."""
        import numpy as np

        numbers = np.arange(self.number, self.number + self.rollouts)
        start = time.perf_counter()
        self.loop(numbers)
        self.number += self.rollouts
        return time.perf_counter() - start

    def said(self) -> dict[str, float]:
        """Return the phases' seconds, and what the loop counts."""
        return {**self.loop.phases(), **self.loop.stats()}


class Parts(Whole):
    """The parts of a loop of one process: updates, acting, steps, one after the other, over one rollout that is kept.

    Args:
        op: its name.
        form: named setting of the knobs.
        sizes: those of :func:`build`.
    """

    def __init__(self, op: str, form: str = "full", **sizes: Any) -> None:
        super().__init__(op, form, **sizes)
        super().turn()
        loop = self.loop
        self.rollout, self.more = loop.kept.read(), ()
        if hasattr(loop.learner, "estimates"):
            self.more = tuple(loop.learner.estimates(self.rollout))
        self.drawn = loop.uniforms(0)
        self.spent = dict.fromkeys(("f_train", "f_act", "f_env"), 0.0)

    def turn(self) -> float:
        """Do all parts once; return the seconds."""
        import numpy as np

        loop, frames = self.loop, self.rollout.frames
        begun = time.perf_counter()
        loop.learner.updates(self.rollout, 0, *self.more)
        trained = time.perf_counter()
        loop.actor.begin()
        for row, uniforms in zip(frames, self.drawn):
            loop.actor(row, uniforms)
        acted = time.perf_counter()
        row = np.empty_like(frames[0])
        for actions in self.rollout.actions:
            loop.envs.advance(actions, row)
        stepped = time.perf_counter()
        for name, seconds in zip(self.spent, (trained - begun, acted - trained, stepped - acted)):
            self.spent[name] += seconds
        return stepped - begun

    def said(self) -> dict[str, float]:
        """Return the seconds of each part."""
        return self.spent


Side = Callable[[], Whole]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two sides, of which the first is to be so many times as fast as the second.

    Attributes:
        first: makes the one.
        second: makes the other.
        words: what the ratio is.
    """

    first: Side
    second: Side
    words: str


EPOCHS = {"ppo": {"epochs": 4}, "parallel_ppo": {"epochs": 4}}
OVER_RAY = ("ppo", "impala")
CREWS = {
    "parallel_ppo": ("ppo", {"actors": 2, "lag": 0}),
    "parallel_ppo-lag1": ("ppo", {"actors": 2, "lag": 1}),
    "parallel_impala": ("impala", {"actors": 2, "lag": 0}),
    "parallel_impala-lag1": ("impala", {"actors": 2, "lag": 1}),
    "a3c": ("a2c", {"actors": 2}),
}


def pairs() -> dict[str, Pair]:
    """Return all comparisons by name."""
    from functools import partial

    found = {}
    for op in ("ppo", "a2c", "impala"):
        for form in ("full", "bfloat16"):
            sizes: dict[str, Any] = EPOCHS.get(op, {})
            whole, parts = partial(Whole, op, form, **sizes), partial(Parts, op, form, **sizes)
            found[f"bound-{op}-{form}"] = Pair(whole, parts, f"of its bound: {op} {form}")
        fast, slow = partial(Whole, op, "bfloat16", **sizes), partial(Whole, op, "full", **sizes)
        found[f"bfloat16-{op}"] = Pair(fast, slow, f"bfloat16 over float32: {op}")
    fast, slow = partial(Whole, "ppo", "bfloat16", **CLEANRL), partial(Whole, "ppo", "full", **CLEANRL)
    found["residual"] = Pair(fast, slow, "bfloat16 over float32: PPO as CleanRL's ppo_procgen")
    for name, (op, crew) in CREWS.items():
        sizes = EPOCHS.get(op, {})
        other = partial(Whole, name.partition("-")[0], "full", TOGETHER, **sizes, **crew)
        found[f"crew-{name}"] = Pair(other, partial(Whole, op, "full", TOGETHER, **sizes), f"{name} over {op}")
    if find_spec("ray"):
        for name, (op, crew) in CREWS.items():
            if op in OVER_RAY:
                sizes = {**EPOCHS.get(op, {}), **crew}
                here = partial(Whole, name.partition("-")[0], "full", TOGETHER, **sizes)
                found[f"ray-{name}"] = Pair(partial(here, cluster="local"), here, f"over Ray over without it: {name}")
    return found


def one(pair: Pair, blocks: int, seed: int) -> dict[str, Any]:
    """Return the log-ratio of the times, second over first, the frames a second of each, and what each said.

    Args:
        pair: what is compared.
        blocks: of four turns.
        seed: of who begins.
    """
    import numpy as np

    coin, sides = np.random.default_rng(seed), (pair.first(), pair.second())
    for side in sides:
        side.turn()
    seconds: tuple[list[float], list[float]] = [], []

    def turn(which: int, changed: bool) -> float:
        seconds[which].append(sides[which].turn())
        return seconds[which][-1]

    ratio = log_ratio([block(int(coin.integers(2)), turn) for _ in range(blocks)])
    said = [side.said() for side in sides]
    for side in sides:
        side.loop.close()
    runs = import_module("rl_impls.common.runs")
    rates = [side.frames / float(np.median(each)) for side, each in zip(sides, seconds)]
    return {"ratio": ratio, "rates": rates, "said": said, "peak_memory": runs.peak_memory()}


@interruptible()
def main() -> None:
    """Print each ratio with its interval, the frames a second of both sides, and where the time of the first goes."""
    known = pairs()
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.procgen_loops", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", choices=list(known), action="append", help="make some comparisons alone")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes for each (default: 5)")
    parser.add_argument("--blocks", type=int, default=1, help="of four turns in each (default: 1)")
    parser.add_argument("--threads", type=int, default=process.cores())
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processes < 1 or options.blocks < 1:
        parser.error("--processes and --blocks: wanted 1 or more")
    if not 1 <= options.threads <= process.cores():
        parser.error(f"got --threads {options.threads}, wanted 1 to {process.cores()}")
    names = options.only or list(known)
    if options.one is not None:
        process.set_up(options.threads)
        print(json.dumps(one(known[names[0]], options.blocks, options.one)))
        return
    for name in names:
        words = ["--only", name, "--blocks", str(options.blocks), "--threads", str(options.threads)]
        results = list(fresh_processes("perf_tests.procgen_loops", words, options.processes))
        first, second = (sorted(result["rates"][k] for result in results)[len(results) // 2] for k in (0, 1))
        ratios = [math.exp(result["ratio"]) for result in results]
        print(f"{known[name].words}: {in_words(ratios)} ({first:,.0f} and {second:,.0f} frames a second)")
        memory = max(result["peak_memory"] for result in results) / 1e6
        said = ", ".join(f"{key} {value:.3g}" for key, value in results[-1]["said"][0].items())
        print(f"    {said}; {memory:,.0f} MB for both sides", flush=True)


if __name__ == "__main__":
    main()
