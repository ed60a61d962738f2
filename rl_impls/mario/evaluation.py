"""Mario's alone: how well weights play, seen through the frames that its collectors make.

Axes: E environments side by side, each of which plays its share of the episodes.
"""

from __future__ import annotations

import numpy as np

from .collectors import Collector

SIDE_BY_SIDE = 8  # episodes
EPSILON = 0.05  # share of drawn actions, so that no episode goes round in a circle for ever (Mnih et al. 2015)


class Kept:
    """A sender that keeps nothing: what is played to see how well is not learned from."""

    def put(self, frame, action, reward, end, time):
        """Do nothing.

        Args:
            frame: u8[S, S].
            action: from 0 to 14.
            reward: of the step.
            end: whether the episode ended with it.
            time: of the step in its episode.
        """


def evaluate(spec, weights, episodes, seed, knobs):
    """Return what episodes bring: ``return``, ``distance`` and ``length``, f64[episodes] each.

    Each environment plays its share of the episodes, so that short ones are not counted more often than long ones.

    Args:
        spec: of the pipeline, see :class:`.spec.Spec`.
        weights: arrays by name.
        episodes: how many.
        seed: of the levels and actions.
        knobs: those of acting are read.
    """
    envs, rng = min(episodes, SIDE_BY_SIDE), np.random.default_rng(seed)
    spec = {**spec, "envs": envs, "collectors": 1, "seed": int(rng.integers(2**31))}
    player = Collector(spec, 0, 0, [Kept()] * envs, None, (0, weights), knobs)
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
