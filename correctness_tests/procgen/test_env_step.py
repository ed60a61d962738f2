"""The op that steps the games of Procgen."""

import numpy as np
import pytest

from rl_impls.backends import get
from rl_impls.common.procgen_env import ACTIONS, ProcgenVectorEnv
from rl_impls.procgen.options import Options
from rl_impls.procgen.shared_ops import env_step

ENV = {"game": "chaser", "num_envs": 3, "seed": 5, "mode": "easy", "num_levels": 20, "start_level": 4}
STEPS = 60

pytestmark = pytest.mark.usefixtures("installed")


def actions(seed=0):
    return np.random.default_rng(seed).integers(ACTIONS, size=(STEPS, 3)).astype(np.int32)


@pytest.mark.parametrize("frames", ["copied", "in_place"])
def test_op_takes_the_steps_of_the_environment(frames):
    op = env_step({"env": ENV}, (actions(),), options=Options(frames=frames), backend=get("numpy"))
    env, ends = ProcgenVectorEnv(**ENV, threads=1), 0
    for given in (actions(0), actions(1)):
        obs, rewards, ended = op(given)
        wanted = [env.advance(action) for action in given]
        np.testing.assert_array_equal(obs, wanted[-1][0])
        np.testing.assert_array_equal(rewards, [step[1] for step in wanted])
        np.testing.assert_array_equal(ended, [step[2] for step in wanted])
        np.testing.assert_array_equal(op.rows, [step[0] for step in wanted])
        assert (obs.dtype, rewards.dtype, ended.dtype) == (np.uint8, np.float32, bool)
        ends += ended.sum()
    assert ends > 0
    op.close()
    env.close()
