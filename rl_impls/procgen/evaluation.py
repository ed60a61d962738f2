"""Evaluation on training levels and on held-out levels, to measure generalisation."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from .. import backends
from ..common.procgen_env import ProcgenVectorEnv
from ._numpy import sample_actions

HELD_OUT = 2**30  # first held-out level; a limited training set lies below
UNSEEN = 2**20  # number of held-out levels
SIDE_BY_SIDE = 32  # most parallel episodes

RANGES = MappingProxyType(  # returns of a blind policy, and the best possible ones; Cobbe et al. 2020, App. C
    {
        "easy": {
            "coinrun": (5, 10), "starpilot": (2.5, 64), "caveflyer": (3.5, 12), "dodgeball": (1.5, 19),
            "fruitbot": (-1.5, 32.4), "chaser": (0.5, 13), "miner": (1.5, 13), "jumper": (3, 10), "leaper": (3, 10),
            "maze": (5, 10), "bigfish": (1, 40), "heist": (3.5, 10), "climber": (2, 12.6), "plunder": (4.5, 30),
            "ninja": (3.5, 10), "bossfight": (0.5, 13),
        },
        "hard": {
            "coinrun": (5, 10), "starpilot": (1.5, 35), "caveflyer": (2, 13.4), "dodgeball": (1.5, 19),
            "fruitbot": (-0.5, 27.2), "chaser": (0.5, 14.2), "miner": (1.5, 20), "jumper": (1, 10), "leaper": (1.5, 10),
            "maze": (4, 10), "bigfish": (0, 40), "heist": (2, 10), "climber": (1, 12.6), "plunder": (3, 30),
            "ninja": (2, 10), "bossfight": (0.5, 13),
        },
    }
)  # fmt: skip


def score(returns, game, mode):
    """Normalise returns to ``(R - R_min) / (R_max - R_min)``: 0 for a blind policy, 1 for the best possible one."""
    least, most = RANGES[mode][game]
    return (returns - least) / (most - least)


def evaluate(config, weights, episodes, seed, deterministic):
    """Play episodes on the training levels and, unless the agent trains on all levels, as many on held-out ones.

    Each environment plays a fixed number of episodes, so that short ones are not over-represented.

    Returns:
        ``training_return``, ``training_score`` (see :func:`score`) and ``training_length``, f64[episodes]; and the same
        with ``held_out_``.
    """
    levels = {"training": (config.start_level, config.levels)}
    if config.levels:
        levels["held_out"] = HELD_OUT, UNSEEN
    found = {}
    for name, (start_level, count) in levels.items():
        env = config.env(seed) | {"start_level": start_level, "num_levels": count}
        returns, lengths = play_episodes(config, weights, env, episodes, seed, deterministic)
        figures = {"return": returns, "score": score(returns, config.game, config.mode), "length": lengths}
        found |= {f"{name}_{figure}": values for figure, values in figures.items()}
    return found


def play_episodes(config, weights, env, episodes, seed, deterministic):
    """Return the returns and lengths of episodes, f64[episodes] each; ``env`` has the environments' arguments."""
    count, rng, backend = min(episodes, SIDE_BY_SIDE), np.random.default_rng(seed), backends.get(config.backend)
    shares = episodes // count + (np.arange(count) < episodes % count)
    played, results = np.zeros(count, int), []
    envs = ProcgenVectorEnv(**env | {"num_envs": count})
    try:
        frames = envs.observe()
        call = backend.build("procgen", "forward", {"params": weights}, (backend.to_device(frames),), config.options)
        while (played < shares).any():
            logits = backend.to_host(call(backend.from_host(frames))[0])
            uniforms = rng.random(count, np.float32)
            actions = logits.argmax(1).astype(np.int32) if deterministic else sample_actions(logits, uniforms)[0]
            frames, _, _ = envs.advance(actions, frames)
            for index, total, length in zip(*envs.finished[:3]):
                if played[index] < shares[index]:
                    results.append((total, length))
                played[index] += 1
    finally:
        envs.close()
    return tuple(np.array(column, float) for column in zip(*results))
