"""Procgen environments through gym3, the interface of the procgen package."""

from __future__ import annotations

from typing import Any

import pytest

from rl_impls.common.procgen_env import chosen_threads, import_procgen
from rl_impls.procgen import problem as procgen

from ..bench import Bench

pytestmark = pytest.mark.peer
GAME, NUM_ENVS = "coinrun", 32


class Gym3:
    """N games in one ``ProcgenGym3Env``; with ``reuse``, it returns its internal arrays."""

    def __init__(self, config: dict[str, Any], reuse: bool) -> None:
        threads = chosen_threads()
        self.env: Any = import_procgen()(
            num=config["num_envs"], env_name=config["game"], rand_seed=config["seed"], distribution_mode=config["mode"],
            num_levels=config["num_levels"], num_threads=0 if threads == 1 else threads,
        )  # fmt: skip
        self.env._reuse_arrays = reuse
        self.env.observe()
        self.start = self.env.get_state()

    def reset(self) -> Any:
        """Restore the environments' start states; return their frames u8[N, 64, 64, 3]."""
        self.env.set_state(self.start)
        return self.env.observe()[1]["rgb"]

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Take the actions i32[N]; return frames u8[N, 64, 64, 3], rewards f32[N] and ends bool[N]."""
        self.env.act(actions)
        rewards, obs, ended = self.env.observe()
        return obs["rgb"], rewards, ended

    def close(self) -> None:
        """Stop the games and their threads."""
        self.env.close()

    def __call__(self, actions: Any) -> tuple[Any, ...]:
        """Take the actions i32[T, N]; return what the last step does."""
        for actions_of_step in actions:
            last = self.step(actions_of_step)
        return last


@pytest.mark.parametrize("arrays", ["copied", "reused"])
def test_gym3(bench: Bench, seed: int, arrays: str) -> None:
    """Eight steps of 32 environments, from the same states and with the same actions as ours.

    Left out: storing frames, rewards and ends in a rollout, and keeping episode statistics. Users get ``copied``
    arrays; with ``reused``, gym3 copies nothing.
    """
    for package in ("procgen", "gym3"):
        pytest.importorskip(package)
    problem = procgen.env_step(seed, NUM_ENVS, GAME)
    games = Gym3(problem.config["env"], reuse=arrays == "reused")
    bench(games, *problem.args, reset=games.reset, close=games.close, **problem.cost)
