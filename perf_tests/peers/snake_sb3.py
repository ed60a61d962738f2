"""Compare snake's loop with Stable-Baselines3's DQN: ``python -m perf_tests.peers.snake_sb3 [--pairs 7] [--blocks 8]``.

Both learn by the same numbers: net, optimiser, memory, batch, how often they learn and explore. Theirs is called as its
users call it and draws for itself; ours draws its random numbers before the clock starts, all of a block at once.
"""

from __future__ import annotations

import contextlib
import functools
import io
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ._common import BATCH, EVERY, EXPLORE, STEPS, TARGET_EVERY, Comparison, Ours, Side, identity, main

LEFT_OUT = (
    "our random numbers are drawn before the clock starts, theirs while it runs; we keep no statistics of episodes"
)


class Theirs(Side):
    """Stable-Baselines3's DQN, after as many random steps as ours has stored.

    Args:
        seed: of all that is drawn.
    """

    def __init__(self, seed: list[int]) -> None:
        import torch
        from gymnasium.wrappers import FlattenObservation

        from rl_impls.snake.problem import SIZES

        super().__init__(seed)
        with contextlib.redirect_stderr(io.StringIO()):  # gym, which it imports if it can, says that it is not kept up
            from stable_baselines3 import DQN

        snake: Any = import_module("rl_impls.snake.env")
        self.env = snake.SnakeEnv(**vars(snake.Geometry()))
        self.model = DQN(
            "MlpPolicy",
            FlattenObservation(self.env),
            learning_rate=self.spec["learning_rate"],
            buffer_size=self.capacity,
            learning_starts=self.pushed,
            batch_size=BATCH,
            gamma=self.spec["gamma"],
            train_freq=EVERY,
            gradient_steps=1,
            target_update_interval=TARGET_EVERY,
            exploration_initial_eps=EXPLORE,
            exploration_final_eps=EXPLORE,
            max_grad_norm=self.spec["gradient_norm"],
            policy_kwargs={"net_arch": list(SIZES[1:-1]), "activation_fn": torch.nn.ReLU},
            verbose=0,
            seed=int(self.rng.integers(2**31)),
            device="cpu",
        )
        self.model.learn(self.pushed)

    def play(self, *numbers: Any) -> Any:
        """Play and learn for one block by its own numbers; return how many steps and updates that were.

        Args:
            numbers: what our side plays by; not used.
        """
        played, updates = self.model.num_timesteps, self.model._n_updates
        self.model.learn(STEPS, reset_num_timesteps=False)
        return self.model.num_timesteps - played, self.model._n_updates - updates

    def done(self) -> tuple[int, int]:
        """Return the environment steps and the updates of the last block."""
        steps, updates = self.outcome
        return steps, updates

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(parameter.numel() for parameter in self.model.q_net.parameters())

    def check_first(self, other: Side) -> None:
        """Raise a RuntimeError unless their game, played as ours was in its first block, gives and ends the same.

        Args:
            other: our side, after its first block.
        """
        games: Any = import_module("rl_impls.snake.vector_env")
        game = games.PlainEnvs(1, self.env.geometry)
        game.set_state(other.spec["env_state"])
        for step, (actions, rewards, ended, draws) in enumerate(zip(*other.outcome[:3], other.numbers[2])):
            _, wanted, terminated, truncated, _ = game.advance(actions, draws)
            if (rewards, ended) != (wanted, terminated | truncated):
                raise RuntimeError(f"step {step}: ours got reward {rewards}, ended {ended}, where their game does not")


def against(backend: str, form: str) -> Comparison:
    """Return the comparison of a form.

    Args:
        backend: name of ours.
        form: name of our setting of the knobs.
    """
    try:
        found = version("stable-baselines3")
    except PackageNotFoundError:
        found = "(not installed)"
    ours = functools.partial(Ours, backend=backend, form=form)
    return Comparison(identity(form, backend), "Stable-Baselines3's DQN", found, ours, Theirs, LEFT_OUT)


COMPARISONS = {"torch": against("torch", "full"), "jax": against("jax", "compiled")}

if __name__ == "__main__":
    main("perf_tests.peers.snake_sb3", __doc__, COMPARISONS, needed=("stable_baselines3", "torch", "jax"), threads=2)
