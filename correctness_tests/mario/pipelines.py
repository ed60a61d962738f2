"""Small pipelines for the tests: two collectors that play leaper, with frames of 36 x 36 pixels."""

from dataclasses import replace

import numpy as np

from rl_impls import backends
from rl_impls.mario.loop import Pipeline
from rl_impls.mario.net import init_net
from rl_impls.mario.options import FORMS
from rl_impls.mario.transport import LINE

SMALL = {
    "side": 36, "learning_rate": 1e-3, "gamma": 0.9, "max_grad_norm": 10.0, "collectors": 2, "num_envs": 2,
    "game": "leaper", "mode": "easy", "levels": 5, "start_level": 0, "capacity": 120, "seed": 7, "updates": 3,
    "batch_size": 8, "reuse": 1.0, "publish_every": 1, "target_frequency": 4, "epsilon": (0.5, 0.1), "explore": 60,
    "prioritised": False, "alpha": 0.6, "beta": 0.4, "queue": 64, "chunk": 8,
}  # fmt: skip
# On busy cores, collectors that give way to the learner wait for seconds until they get one.
FULL = replace(FORMS["full"], priority="equal")


class ListSender:
    def __init__(self):
        self.produced, self.items, self.seconds = 0, [], [0.0] * LINE

    def so_far(self):
        return self.produced

    def put(self, frame, action, reward, terminated, time):
        self.items.append((frame.copy(), action, reward, terminated, time))
        self.produced += 1


def config_of(**changes):
    weights = [init_net(np.random.default_rng(seed), 36) for seed in (1, 2)]
    return SMALL | {"params": weights[0], "target": weights[1]} | changes


def make(options=FULL, backend="torch", **changes):
    return Pipeline(config_of(**changes), (), options=options, backend=backends.get(backend))
