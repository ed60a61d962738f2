"""Updates and loops in one process or under torchrun, for the tests of data parallelism."""

import sys
from time import perf_counter

import numpy as np

from correctness_tests.procgen.loops import numbers
from correctness_tests.procgen.problem import build
from rl_impls.common.ranks import launched
from rl_impls.procgen.problem import a2c, ppo, ppo_update

BATCH_SIZE = 32
UPDATE = ppo_update(0, BATCH_SIZE)
BATCHES = [UPDATE.args, ppo_update(1, BATCH_SIZE).args]
LOOPS = {
    "a2c": a2c(2, num_envs=4, num_steps=3).config,
    "ppo": {
        **ppo(3, num_envs=4, num_steps=4, epochs=2).config,
        "batch_size": 16,  # the whole rollout: which rows a minibatch takes depends on the number of processes
        "eps": 1e-3,  # otherwise Adam turns rounding noise in a gradient into a full step
    },
}


def updates(rank=0, processes=1):
    """Learn from one process's part of each batch; return the losses, and the weights by name."""
    size = BATCH_SIZE // processes
    parts = [[column[rank * size : (rank + 1) * size] for column in batch] for batch in BATCHES]
    update = build("ppo_update", "torch", UPDATE.config | {"processes": processes}, parts[0])
    return [float(update(*update.to_device(*part))) for part in parts], update.params


def loop(algorithm, **member):
    """Learn from three rollouts; return all results and the final state as arrays by name."""
    loop = build(algorithm, "torch", LOOPS[algorithm] | member, (numbers(0),))
    results = dict(zip(("rewards", "ended", "losses"), loop(numbers(0, 1, 2)))) | loop.state()
    loop.envs.close()  # but not the process group, which the next loop needs
    return {f"{algorithm}.{name}": value for name, value in results.items()}


def updates_before_a_deadline(rank, processes):
    """Return the number of updates on a rollout if the deadline of all processes but the first has passed."""
    loop = build("ppo", "torch", LOOPS["ppo"] | {"rank": rank, "processes": processes}, (numbers(0),))
    loop.learner.deadline = perf_counter() + (0 if rank else 1000)
    losses = loop(numbers(0))[2]
    loop.envs.close()
    return losses.shape[1]


if __name__ == "__main__":
    rank, processes = launched()
    from rl_impls.procgen import group

    group.join()
    losses, weights = updates(rank, processes)
    arrays = {f"update.{name}": value for name, value in weights.items()}
    for algorithm in LOOPS:
        arrays |= loop(algorithm, rank=rank, processes=processes)
    agreed = group.agree(rank == 1), group.agree(False)
    count = updates_before_a_deadline(rank, processes)
    if rank == 0:
        np.savez(sys.argv[1], agreed=agreed, count=count, losses=losses, **arrays)
    group.leave()
