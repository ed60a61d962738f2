"""Compare our Procgen environment with gym3's: ``python -m perf_tests.peers.procgen_gym3 [--pairs 7] [--only NAME]``.

Both sides play the same game from the same seed with the same actions and as many threads that compute. Ours writes its
frames into a rollout and keeps statistics of episodes; gym3's frames are dropped: ``copied``, by ``observe()`` as its
users call it, of which ours is to reach 0.95, or ``reused``, where gym3 is told to copy nothing at all.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from rl_impls import backends

from ..suite import process
from ._common import STEPS, Comparison, main
from ._turns import Turns

GAME, ENVS, ROLLOUT = "coinrun", 32, 8  # of which the last are the steps of a call of the op
LEFT_OUT = "actions are drawn before the clock starts; gym3's frames, rewards and ends are dropped after each step"


class Frames(Turns):
    """Steps of N environments of one game.

    Args:
        seed: of the actions and the levels.

    Attributes:
        spec: what the op ``env_step`` is built from.
        outcome: of the last block: frames u8[N, 64, 64, 3], rewards f32[N] and ends bool[N] of its last step, and its
            number of steps.
    """

    def __init__(self, seed: list[int]) -> None:
        super().__init__(seed)
        levels = int(self.rng.integers(2**31))
        self.spec = {"env": {"game": GAME, "num_envs": ENVS, "seed": levels, "mode": "easy"}}

    def drawn(self) -> tuple[Any, ...]:
        """Draw the actions of a block, i32[T, N]."""
        import numpy as np

        return (self.rng.integers(15, size=(STEPS // ENVS, ENVS)).astype(np.int32),)

    def done(self) -> tuple[int, int]:
        """Return the environment steps of the last block, and no updates."""
        return self.outcome[-1] * ENVS, 0

    def due(self) -> tuple[int, int]:
        """Return the environment steps that a block is to have, and no updates."""
        return STEPS, 0

    def check_first(self, other: Any) -> None:
        """Raise a RuntimeError unless both came to the same frames, rewards and ends in their first block.

        Args:
            other: the other side, after its first block.
        """
        import numpy as np

        for name, mine, theirs in zip(("frames", "rewards", "ends"), self.outcome, other.outcome):
            if not np.array_equal(mine, theirs):
                raise RuntimeError(f"{name}: those of the last step differ, wanted the same: both got the same actions")


class Ours(Frames):
    """The op ``env_step`` in its form ``full``.

    Args:
        seed: of the actions and the levels.
    """

    def __init__(self, seed: list[int]) -> None:
        import numpy as np

        super().__init__(seed)
        example, knobs = np.zeros((ROLLOUT, ENVS), np.int32), backends.forms("procgen")["full"]
        self.op: Any = backends.get("numpy").build("procgen", "env_step", self.spec, (example,), knobs)

    def play(self, actions: Any) -> Any:
        """Make the steps of one block.

        Args:
            actions: i32[T, N].
        """
        for start in range(0, len(actions), ROLLOUT):
            frames, rewards, ended = self.op(actions[start : start + ROLLOUT])
        return frames, rewards[-1], ended[-1], len(actions)


class Bare(Frames):
    """``ProcgenGym3Env``, with ``act`` and ``observe`` for each step.

    Args:
        seed: of the actions and the levels.
        reuse: whether gym3 returns its own arrays, and copies nothing.
    """

    def __init__(self, seed: list[int], reuse: bool) -> None:
        super().__init__(seed)
        threads = process.cores()
        env = self.spec["env"]
        procgen: Any = import_module("rl_impls.common.procgen_env")
        self.env: Any = procgen.import_procgen()(
            num=ENVS, env_name=GAME, rand_seed=env["seed"], distribution_mode="easy",
            num_threads=0 if threads == 1 else threads,
        )  # fmt: skip
        self.env._reuse_arrays = reuse
        self.env.observe()

    def play(self, actions: Any) -> Any:
        """Make the steps of one block.

        Args:
            actions: i32[T, N].
        """
        env = self.env
        for action in actions:
            env.act(action)
            rewards, obs, ended = env.observe()
        return obs["rgb"], rewards, ended, len(actions)


CASE = f"procgen.env_step[full-numpy-envs{ENVS}-game{GAME}]"
COMPARISONS = {
    name: Comparison(CASE, peer, "0.3.3", Ours, functools.partial(Bare, reuse=reuse), LEFT_OUT, least=least)
    for name, peer, reuse, least in (
        ("copied", "bare gym3", False, 0.95),
        ("reused", "bare gym3 that copies nothing", True, 0.0),
    )
}

if __name__ == "__main__":
    main("perf_tests.peers.procgen_gym3", __doc__, COMPARISONS, needed=("procgen", "gym3", "gym"))
