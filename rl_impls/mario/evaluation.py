"""Evaluation of weights on frames that are preprocessed as in the collectors."""

import numpy as np

from .collectors import Collector
from .transport import LINE

SIDE_BY_SIDE = 8  # environments
EPSILON = 0.05  # fraction of random actions, so that no episode loops forever (Mnih et al. 2015)


class Discard:
    """Sender that discards experiences, as evaluation does not learn."""

    def __init__(self):
        self.seconds = [0.0] * LINE

    def put(self, frame, action, reward, terminated, time):
        """Discard an experience."""


def evaluate(config, weights, episodes, seed, options):
    """Play episodes; return ``return``, ``length`` and ``distance`` of each, f64[episodes].

    Environments side by side play equal shares of the episodes, so that short episodes are not over-represented.
    ``config`` is that of :class:`.loop.Pipeline`, and ``seed`` that of levels and actions.
    """
    num_envs, rng = min(episodes, SIDE_BY_SIDE), np.random.default_rng(seed)
    config = {**config, "num_envs": num_envs, "seed": int(rng.integers(2**31))}
    player = Collector(config, 0, 0, [Discard()] * num_envs, None, (0, weights), options)
    left, results = episodes // num_envs + (np.arange(num_envs) < episodes % num_envs), []
    try:
        while left.any():
            chosen = player.actions(rng.random((num_envs, 2)), EPSILON)
            for k in np.flatnonzero(left):
                ended = []
                player.step(k, int(chosen[k]), ended)
                left[k] -= len(ended)
                results.extend(ended)
    finally:
        player.close()
    columns = zip(*results)
    return {name: np.array(next(columns), float) for name in ("return", "length", "distance")}
