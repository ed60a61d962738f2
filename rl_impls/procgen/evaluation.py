"""Procgen's alone: only its levels can be told apart, so a policy is tried on those it trained on and on others."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from .. import backends
from ..common.procgen_env import ProcgenVectorEnv
from ._numpy import sample_actions

HELD_OUT = 2**30  # no training has a level from here on
UNSEEN = 2**20  # how many of those are played
SIDE_BY_SIDE = 32  # episodes

RANGES = MappingProxyType(  # returns of a policy that sees nothing, and the best there are; Cobbe et al. 2020, App. C
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
    """Return normalised returns, ``(R - R_min) / (R_max - R_min)``, 0 of a policy that sees nothing, 1 of the best.

    Args:
        returns: of episodes, f64[...].
        game: one of Procgen's.
        mode: easy or hard.
    """
    least, most = RANGES[mode][game]
    return (returns - least) / (most - least)


def evaluate(config, weights, episodes, seed, deterministic):
    """Return what episodes bring on the levels of the training and, unless those are all, on as many held-out ones.

    Each environment plays its share of the episodes, so that short ones are not counted more often than long ones.

    Args:
        config: of the agent.
        weights: of the net.
        episodes: how many on either.
        seed: of the levels and actions.
        deterministic: take the likeliest action, rather than drawing one.

    Returns:
        ``training_return``, ``training_score``, see :func:`score`, and ``training_length``, f64[episodes]; the same of
        ``held_out``.
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
    """Return the returns and lengths of episodes, f64[episodes] each.

    Args:
        config: of the agent.
        weights: of the net.
        env: what the environments are made of.
        episodes: how many.
        seed: of the actions.
        deterministic: take the likeliest action, rather than drawing one.
    """
    count, rng, backend = min(episodes, SIDE_BY_SIDE), np.random.default_rng(seed), backends.get(config.backend)
    shares = episodes // count + (np.arange(count) < episodes % count)
    played, results = np.zeros(count, int), []
    envs = ProcgenVectorEnv(**env | {"num_envs": count})
    try:
        frames = envs.observe()
        call = backend.build("procgen", "forward", {"params": weights}, (backend.to_device(frames),), config.knobs)
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
