"""PPO on starpilot as CleanRL users run it: in the shape of CleanRL 1.0's ``ppo_procgen.py``, with its defaults.

CleanRL plays 64 environments x 256 steps and learns from 8 minibatches, which takes minutes per call. Here a rollout
has 32 steps, an eighth of those, and one minibatch of the same 2,048 frames. Either way a frame is acted on once and
learned from in three epochs, so the time per frame is the same.
"""

from __future__ import annotations

import pytest

from rl_impls.common.problem import Problem
from rl_impls.procgen import problem as procgen

from ..bench import Bench
from ..ops import build
from .test_procgen_gym3 import Gym3

pytestmark = pytest.mark.peer
NUM_ENVS, NUM_STEPS, EPOCHS, BATCH_SIZE = 64, 32, 3, 64 * 256 // 8


def starpilot(seed: int) -> Problem:
    """Return the problem of both loops."""
    return procgen.ppo(seed, NUM_ENVS, NUM_STEPS, EPOCHS, "starpilot", "residual", batch_size=BATCH_SIZE)


def test_ppo(bench: Bench, seed: int) -> None:
    """One rollout and three epochs with CleanRL's net, from the games and weights of ours.

    Left out: normalising rewards, annealing the learning rate, episode statistics, and logging losses and the KL
    divergence. It clips the value loss, which ours does not, and samples actions of its own.
    """
    for package in ("torch", "procgen", "gym3"):
        pytest.importorskip(package)
    from .procgen_loops import Ppo, impala_cnn

    problem = starpilot(seed)
    loop = Ppo(problem.config, impala_cnn(), Gym3(problem.config["env"], reuse=False), clip_values=True)
    bench(loop, reset=loop.reset, close=loop.envs.close, output=list, max_calls=1, **problem.cost)


def test_our_ppo(bench: Bench, seed: int) -> None:
    """Our loop with the same settings."""
    op = build(starpilot(seed), "full", "torch")
    bench(op.call, *op.args, **op.keywords)


def test_our_ppo_in_bfloat16(bench: Bench, seed: int) -> None:
    """Our loop with the same settings, except that its nets compute in bfloat16."""
    op = build(starpilot(seed), "bfloat16", "torch")
    bench(op.call, *op.args, **op.keywords)
