"""What processes of torchrun learn from in a test, whole and by halves."""

from __future__ import annotations

import numpy as np

from perf_tests.suite.cases.procgen import A2C, GAE, PPO, loop_inputs, ppo_inputs
from rl_impls import backends

BATCH = 32
GIVEN = ppo_inputs(np.random.default_rng(0), BATCH)
SPEC, FIRST = GIVEN.spec, GIVEN.args
PPO_BATCH = [FIRST, ppo_inputs(np.random.default_rng(1), BATCH).args]
LOOP = loop_inputs(np.random.default_rng(2), A2C | GAE, envs=4, unroll=3).spec
SHARE = 2  # environments of a process
PPO_LOOP = {
    **loop_inputs(np.random.default_rng(3), PPO | GAE | {"epochs": 2}, batch=8, envs=2 * SHARE, unroll=4).spec,
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
