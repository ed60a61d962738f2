"""Evaluation of weights on the same frames as collectors make."""

from __future__ import annotations

import numpy as np

from .collectors import Collector

SIDE_BY_SIDE = 8  # episodes
EPSILON = 0.05  # fraction of random actions, so that no episode loops for ever (Mnih et al. 2015)


class Kept:
    """Sender that discards experiences, as evaluation does not learn."""

    def put(self, frame, action, reward, end, time):
        """Discard an experience."""


def evaluate(spec, weights, episodes, seed, options):
    """Play episodes; return ``return``, ``length`` and ``distance`` of each, f64[episodes].

    Environments side by side play equal shares of the episodes, so that short episodes are not over-represented.

    Args:
        spec: configuration of the pipeline, see :class:`.spec.Spec`.
        weights: arrays by name.
        episodes: number of episodes.
        seed: seed of levels and actions.
        options: those of acting are read.
    """
    envs, rng = min(episodes, SIDE_BY_SIDE), np.random.default_rng(seed)
    spec = {**spec, "envs": envs, "collectors": 1, "seed": int(rng.integers(2**31))}
    player = Collector(spec, 0, 0, [Kept()] * envs, None, (0, weights), options)
    shares = episodes // envs + (np.arange(envs) < episodes % envs)
    left, results = shares.copy(), []
    try:
        while left.any():
            chosen = player.actions(rng.random((envs, 2)), EPSILON)
            for k in np.flatnonzero(left):
                ended = []
                player.step(k, int(chosen[k]), ended)
                left[k] -= len(ended)
                results.extend(ended)
    finally:
        player.close()
    columns = zip(*results)
    return {name: np.array(next(columns), float) for name in ("return", "length", "distance")}
