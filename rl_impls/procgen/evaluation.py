"""Evaluation on training levels and on held-out levels, to measure generalisation."""

import numpy as np

from .. import backends
from ..common.procgen_env import FRAME, ProcgenVectorEnv
from ._numpy import sample_actions

HELD_OUT = 2**30  # first held-out level; a limited training set lies below
UNSEEN = 2**20  # number of held-out levels
MAX_ENVS = 32  # maximum number of parallel episodes

RANGES = {  # returns of a blind policy, and the best possible ones; Cobbe et al. 2020, App. C
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
}  # fmt: skip


def score(returns, game, mode):
    """Normalise returns to ``(R - R_min) / (R_max - R_min)``: 0 for a blind policy, 1 for the best possible one."""
    least, most = RANGES[mode][game]
    return (returns - least) / (most - least)


def level_sets(config, trained=True):
    """Return first level and number of levels of ``training`` and ``held_out``, each only if there are any.

    ``trained`` tells whether game and mode are those of training.
    """
    training = {"training": (config.start_level, config.levels)} if trained else {}
    held_out = {} if trained and not config.levels else {"held_out": (HELD_OUT, UNSEEN)}
    return training | held_out


def evaluate(config, params, episodes, seed, deterministic, trained=True):
    """Play episodes on each of :func:`level_sets`.

    Returns:
        ``training_return``, ``training_score`` (see :func:`score`) and ``training_length``, f64[episodes]; and the same
        with ``held_out_``.
    """
    count, backend, found = min(episodes, MAX_ENVS), backends.get(config.backend), {}
    ops, compiler = backend.ops("procgen"), backend.new_compiler()
    example = backend.to_device(np.zeros((count, *FRAME), np.uint8))
    forward = ops.forward({"params": params}, (example,), options=config.options, compiler=compiler)
    for name, (start_level, num_levels) in level_sets(config, trained).items():
        rng = np.random.default_rng(seed)

        def act(obs, rng=rng):
            logits = backend.to_host(forward(backend.from_host(obs))[0])
            if deterministic:
                return logits.argmax(1).astype(np.int32)
            return sample_actions(logits, rng.random(count, np.float32))[0]

        changes = {"num_envs": count, "start_level": start_level, "num_levels": num_levels}
        envs = ProcgenVectorEnv(**config.env(seed) | changes)
        try:
            returns, lengths = play_episodes(envs, act, episodes)
        finally:
            envs.close()
        figures = {"return": returns, "score": score(returns, config.game, config.mode), "length": lengths}
        found |= {f"{name}_{figure}": values for figure, values in figures.items()}
    return found


def play_episodes(envs, act, episodes):
    """Return the returns and lengths of episodes, f64[episodes] each; ``act(obs)`` returns the actions.

    Each environment plays a fixed number of episodes, so that short ones are not over-represented.
    """
    count = envs.num_envs
    shares = episodes // count + (np.arange(count) < episodes % count)
    played, results, obs = np.zeros(count, int), [], envs.observe()
    while (played < shares).any():
        obs, _, _ = envs.advance(act(obs), obs)
        for index, total, length in zip(*envs.finished[:3]):
            if played[index] < shares[index]:
                results.append((total, length))
            played[index] += 1
    return tuple(np.array(column, float) for column in zip(*results))
