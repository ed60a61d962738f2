"""What one of two processes of torchrun does in a test: an update of PPO on half of a batch, and a loop of A2C."""

from __future__ import annotations

import sys

import numpy as np

from correctness_tests.procgen.group_problem import LOOP, PPO_BATCH, PPO_LOOP, halves, loop_of, update_of
from rl_impls.common.ranks import launched
from rl_impls.procgen import group

if __name__ == "__main__":
    rank, processes = launched()
    group.join()
    train = update_of(processes=processes)
    group.average_gradients(train)
    losses = [float(train(*train.put(*half))) for half in halves(PPO_BATCH, rank)]
    loop = loop_of(LOOP | {"rank": rank, "processes": processes})
    results = loop(np.arange(3))
    state = loop.state()
    ppo = loop_of(PPO_LOOP | {"rank": rank, "processes": processes}, "ppo")
    played = dict(zip(("ppo.rewards", "ppo.ended", "ppo.losses"), ppo(np.arange(3))))
    of_ppo = {f"ppo.{name}": value for name, value in ppo.state().items()}
    agreed = group.agree(rank == 1), group.agree(False)
    if rank == 0:
        arrays = {f"train.{name}": value for name, value in train.params.items()} | {
            f"loop.{k}": v for k, v in state.items()
        }
        played |= dict(zip(("rewards", "ended", "losses"), results))
        np.savez(sys.argv[1], agreed=agreed, losses_of_half=losses, **arrays, **played, **of_ppo)
    ppo.envs.close()
    loop.close()
