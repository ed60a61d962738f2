"""Compare snake's loop with Stable-Baselines3's DQN: ``python -m perf_tests.peers.snake_sb3 [--pairs 7] [--blocks 8]``.

Both learn by the same numbers, in blocks of 1000 steps of one environment: net, optimiser, memory, batch, how often
they learn and explore. Theirs is called as its users call it; ours draws its random numbers before the clock starts,
all of a block at once. Fresh processes, interleaving and interval are those of :mod:`perf_tests.compare`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import math
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from rl_impls import backends

from ..interleaved import block, fresh_processes, in_words, log_ratio
from ..suite import process

FORMS = {"torch": "full", "jax": "compiled"}  # what theirs is compared with: backend and form
STEPS = 1000  # environment steps of a block: learn()'s own set-up takes 0.05 ms of it, our drawing 0.13 ms
EVERY, BATCH, EXPLORE, TARGET_EVERY = 4, 32, 0.1, 1000
INSTALL = "pip install 'rlgauge[peers]'"


class Theirs:
    """Stable-Baselines3's DQN, after as many random steps as ours has stored."""

    def __init__(self, seed: int) -> None:
        import torch
        from gymnasium.wrappers import FlattenObservation

        from ..suite.cases.snake import CAPACITY, SIZES, STORED

        with contextlib.redirect_stderr(io.StringIO()):  # gym, which it imports if it can, says that it is not kept up
            from stable_baselines3 import DQN

        snake: Any = import_module("rl_impls.snake.env")
        self.env = snake.SnakeEnv(**vars(snake.Geometry()))
        self.model = DQN(
            "MlpPolicy",
            FlattenObservation(self.env),
            learning_rate=1e-3,
            buffer_size=CAPACITY,
            learning_starts=STORED,
            batch_size=BATCH,
            gamma=0.99,
            train_freq=EVERY,
            gradient_steps=1,
            target_update_interval=TARGET_EVERY,
            exploration_initial_eps=EXPLORE,
            exploration_final_eps=EXPLORE,
            max_grad_norm=10,
            policy_kwargs={"net_arch": list(SIZES[1:-1]), "activation_fn": torch.nn.ReLU},
            verbose=0,
            seed=seed,
            device="cpu",
        )
        self.model.learn(STORED)

    def block(self) -> float:
        """Play and learn for one block; return its seconds."""
        played, updates = self.model.num_timesteps, self.model._n_updates
        start = time.perf_counter()
        self.model.learn(STEPS, reset_num_timesteps=False)
        seconds = time.perf_counter() - start
        self.played, self.updates = self.model.num_timesteps - played, self.model._n_updates - updates
        return seconds

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(parameter.numel() for parameter in self.model.q_net.parameters())


class Ours:
    """``collect_and_learn`` of one environment, going on from block to block."""

    def __init__(self, name: str, rng: Any) -> None:
        from ..suite.cases.snake import CAPACITY, STORED, fixed, start_state, transitions

        self.rng, self.capacity, self.pushed, self.start = rng, CAPACITY, STORED, start_state(rng, 1)
        everything = fixed(rng) | {
            "env_state": self.start, "stored": transitions(rng, STORED), "capacity": CAPACITY,
            "target_every": TARGET_EVERY, "step": 0,
        }  # fmt: skip
        self.backend = backends.get(name)
        knobs = dataclasses.replace(backends.forms("snake")[FORMS[name]], every=EVERY, batch=BATCH)
        self.op: Any = self.backend.build("snake", "collect_and_learn", everything, self.drawn(), knobs)

    def drawn(self) -> tuple[Any, ...]:
        """Draw all that a block needs of randomness; rows are of what will be stored when they are taken."""
        import numpy as np

        from ..suite.cases.snake import draws, moves

        stored = np.minimum(self.pushed + np.arange(EVERY, STEPS + 1, EVERY), self.capacity)
        rows = self.rng.integers(stored[:, None], size=(len(stored), BATCH))
        return self.rng.random((STEPS, 1)) < EXPLORE, moves(self.rng, STEPS, 1), draws(self.rng, STEPS, 1), rows

    def block(self) -> float:
        """Play and learn for one block; return its seconds."""
        drawn = self.drawn()
        start = time.perf_counter()
        out = self.backend.wait(self.op(*drawn))
        seconds = time.perf_counter() - start
        *self.episodes, losses = self.backend.to_host(out)
        self.draws, self.pushed = drawn[2], self.pushed + STEPS
        self.played, self.updates = len(self.episodes[0]), len(losses)
        return seconds

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(array.size for array in self.op.params.values())


def check_alike(theirs: Theirs, ours: Ours) -> None:
    """Raise a RuntimeError unless both did the same work in the block before."""
    alike = {
        "sizes of the net's arrays": (theirs.sizes(), ours.sizes()),
        "environment steps of a block": (theirs.played, ours.played),
        "updates of a block": (theirs.updates, ours.updates),
        "updates of a block and those wanted": (theirs.updates, STEPS // EVERY),
    }
    for name, (a, b) in alike.items():
        if a != b:
            raise RuntimeError(f"{name}: got {a} and {b}, wanted the same, or the comparison says nothing")


def check_game(theirs: Theirs, ours: Ours) -> None:
    """Raise a RuntimeError unless their game, played as ours was in its first block, gives and ends the same."""
    environments: Any = import_module("rl_impls.snake.environments")
    game = environments.PlainEnvs(1, theirs.env.geometry)
    game.set_state(ours.start)
    for step, (actions, rewards, ended, draws) in enumerate(zip(*ours.episodes, ours.draws)):
        _, wanted, terminated, truncated, _ = game.advance(actions, draws)
        if (rewards, ended) != (wanted, terminated | truncated):
            raise RuntimeError(f"step {step}: ours got reward {rewards}, ended {ended}, where their game does not")


def one_pair(name: str, blocks: int, seed: int, pair: int) -> dict[str, float]:
    """Return the median log-ratio of the times of a block, theirs over ours, and the median steps per second of each.

    Raises:
        RuntimeError: the two do not do the same work.
    """
    import numpy as np

    rng = np.random.default_rng([seed, pair])
    theirs, ours = Theirs(int(rng.integers(2**31))), Ours(name, rng)
    theirs.block(), ours.block()
    check_game(theirs, ours)
    theirs.block(), ours.block()
    check_alike(theirs, ours)
    sides = ours, theirs
    rates: dict[Theirs | Ours, list[float]] = {theirs: [], ours: []}

    def turn(side: int, changed: bool) -> float:
        if changed:
            sides[side].block()
        seconds = sides[side].block()
        rates[sides[side]].append(STEPS / seconds)
        return seconds

    ratio = log_ratio([block(int(rng.integers(2)), turn) for _ in range(blocks)])
    check_alike(theirs, ours)
    return {"ratio": ratio, "theirs": median(rates[theirs]), "ours": median(rates[ours])}


def main(arguments: list[str] | None = None) -> None:
    """Print how many times faster our loop is than theirs, on torch and on JAX."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.peers.snake_sb3", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7, help="fresh processes for each backend (6 or more)")
    parser.add_argument("--blocks", type=int, default=8, help="blocks of four samples in each")
    parser.add_argument("--threads", type=int, default=min(2, process.cores()))
    parser.add_argument("--seed", type=int, default=0, help="seed of all inputs (default: 0)")
    parser.add_argument("backend", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--one", type=int, metavar="PAIR", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= process.cores():
        parser.error(f"got --threads {options.threads}, wanted 1 to {process.cores()}")
    if options.seed < 0:
        parser.error(f"got --seed {options.seed}, wanted 0 or more")
    if options.pairs < 6 or options.blocks < 1:
        parser.error(f"got --pairs {options.pairs} --blocks {options.blocks}, wanted 6 or more pairs, 1 or more blocks")
    if options.one is not None:
        process.set_up(options.threads)
        print(json.dumps(one_pair(options.backend, options.blocks, options.seed, options.one)))
        return
    if find_spec("stable_baselines3") is None:
        sys.exit(f"stable_baselines3 is not installed ({INSTALL})")
    for name in FORMS:
        reason = backends.get(name).missing()
        if reason:
            sys.exit(f"{name}: {reason} ({INSTALL})")

    from importlib.metadata import version

    for name, form in FORMS.items():
        asked = [name, "--blocks", str(options.blocks), "--threads", str(options.threads), "--seed", str(options.seed)]
        results = list(fresh_processes("perf_tests.peers.snake_sb3", asked, options.pairs))
        ours, theirs = (median(result[side] for result in results) for side in ("ours", "theirs"))
        print(
            f"snake.collect_and_learn[{form}-{name}-envs1-every{EVERY}-batch{BATCH}] is this many times as fast as "
            f"Stable-Baselines3 {version('stable-baselines3')}'s DQN: "
            f"{in_words([math.exp(result['ratio']) for result in results])} of {options.blocks} blocks, "
            f"{options.threads} threads ({ours:,.0f} and {theirs:,.0f} environment steps per second)",
            flush=True,
        )


if __name__ == "__main__":
    main()
