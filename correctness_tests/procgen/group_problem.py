"""What processes of torchrun learn from in a test, whole and by halves."""

from __future__ import annotations

import numpy as np

from rl_impls import backends
from rl_impls.procgen.problem import a2c, ppo, ppo_update

BATCH = 32
GIVEN = ppo_update(0, BATCH)
SPEC, FIRST = GIVEN.config, GIVEN.args
PPO_BATCH = [FIRST, ppo_update(1, BATCH).args]
LOOP = a2c(2, num_envs=4, num_steps=3).config
PPO_LOOP = {
    **ppo(3, num_envs=4, num_steps=4, epochs=2).config,
    "batch": 16,  # the whole rollout: which rows a minibatch takes depends on the number of processes
    "epsilon": 1e-3,  # Adam makes whole steps of gradients that are rounding alone else
}


def update_of(**changed):
    """The update of PPO in torch."""
    made = backends.get("torch")
    count = BATCH // changed.get("processes", 1)
    args = tuple(made.to_device(column[:count]) for column in FIRST)
    return made.build("procgen", "ppo_update", SPEC | changed, args, backends.forms("procgen")["full"])


def halves(batches, rank):
    """The first or second half of each batch."""
    return [[column[rank * BATCH // 2 : (rank + 1) * BATCH // 2] for column in batch] for batch in batches]


def loop_of(spec, algorithm="a2c"):
    """A loop in torch."""
    return backends.get("torch").build("procgen", algorithm, spec, (np.arange(3),), backends.forms("procgen")["full"])
