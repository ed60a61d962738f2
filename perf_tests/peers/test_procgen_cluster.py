"""procgen's sequential PPO and IMPALA as rl-cluster-benchmark describes them, in plain torch.

Both do the work of our loops: the same net and constants, as many frames, minibatches and epochs, from the same games
and weights. They sample their own actions and therefore play other episodes. The source's policy loss of IMPALA uses V
in place of V-trace's v; here it is that of the paper, as in ours.

Left out are further parts of the source: TensorBoard, checkpoints, memory monitoring, and the layers of old Gym and
shimmy around each game.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from rl_impls.common.procgen_env import ACTIONS, FRAME, ProcgenVectorEnv, import_procgen
from rl_impls.procgen import problem as procgen

from ..bench import Bench

pytestmark = pytest.mark.peer
NUM_ENVS, NUM_STEPS, EPOCHS = 32, 128, 4


class Game(gymnasium.Env):
    """One game, which begins its next episode itself; ``reset`` only returns the frame."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.games: Any = import_procgen()(
            num=1, env_name=config["game"], rand_seed=config["seed"], distribution_mode=config["mode"],
            num_levels=config["num_levels"], num_threads=0,
        )  # fmt: skip
        self.observation_space = gymnasium.spaces.Box(0, 255, FRAME, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the frame u8[64, 64, 3] and no infos."""
        return self.games.observe()[1]["rgb"][0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; return the frame, the reward, whether the episode ended, and no infos."""
        self.games.act(np.array([action]))
        rewards, obs, ended = self.games.observe()
        return obs["rgb"][0], float(rewards[0]), bool(ended[0]), False, {}

    def close(self) -> None:
        """Stop the game."""
        self.games.close()


class SyncEnvs:
    """N games behind Gymnasium's ``SyncVectorEnv`` with episode statistics, from the states in which ours start."""

    def __init__(self, config: dict[str, Any]) -> None:
        ours = ProcgenVectorEnv(**config)
        self.start = ours.get_state()["games"]
        ours.close()
        make = [lambda: RecordEpisodeStatistics(Game(config))] * config["num_envs"]
        self.envs = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
        self.close = self.envs.close

    def reset(self) -> Any:
        """Restore the games' start states; return their frames u8[N, 64, 64, 3]."""
        for env, state in zip(self.envs.envs, self.start):
            env.unwrapped.games.set_state([state])
        return self.envs.reset()[0]

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Take the actions i64[N]; return frames u8[N, 64, 64, 3], rewards f64[N] and ends bool[N]."""
        return self.envs.step(actions)[:3]


def require_packages() -> None:
    """Skip the test if a package is not installed."""
    for package in ("torch", "procgen", "gym3"):
        pytest.importorskip(package)


def test_ppo(bench: Bench, seed: int) -> None:
    """A rollout of 32 environments x 128 steps, and four epochs of minibatches of 1,024 frames.

    Their games are stepped one by one, in one thread. Frames are kept as float32. Both keep episode statistics.
    """
    require_packages()
    from .procgen_loops import Ppo, nature

    problem = procgen.ppo(seed, NUM_ENVS, NUM_STEPS, EPOCHS)
    loop = Ppo(problem.config, nature(), SyncEnvs(problem.config["env"]), clip_values=False)
    bench(loop, reset=loop.reset, close=loop.envs.close, output=list, max_calls=1, **problem.cost)


def test_impala(bench: Bench, seed: int) -> None:
    """A rollout of 32 environments x 128 steps, and one update on all of it; games and frames are those of PPO."""
    require_packages()
    from .procgen_loops import Impala, nature

    problem = procgen.impala(seed, NUM_ENVS, NUM_STEPS)
    loop = Impala(problem.config, nature(), SyncEnvs(problem.config["env"]))
    bench(loop, reset=loop.reset, close=loop.envs.close, output=list, max_calls=1, **problem.cost)
