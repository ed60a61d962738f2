"""Compare snake's loop with a plain one: ``python -m perf_tests.peers.snake_plain [--pairs 7] [--only NAME]``.

The plain loop is a DQN as CleanRL's users write it, in one place, on the same game: a ring of arrays, one net call a
step under ``no_grad``, torch's defaults. Both sides get the same random numbers, so they make the same moves.

``--check`` checks the peer itself: our form ``plain`` and the peer have to be as much faster than our ``naive`` as the
public loop was.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from ._common import EVERY, TARGET_EVERY, Comparison, Ours, Side, identity, main

LEFT_OUT = "both sides' random numbers are drawn before the clock starts; no statistics of episodes are kept"
CLEANRL = "in the shape of CleanRL 1.0's dqn.py"


class PlainLoop(Side):
    """A DQN from step to step. ``fused``: Adam in one kernel, otherwise as torch chooses.

    Args:
        seed: of all that is drawn.
        fused: whether Adam updates all arrays in one kernel.
    """

    def __init__(self, seed: list[int], fused: bool) -> None:
        import numpy as np
        import torch
        from torch import nn

        super().__init__(seed)
        snake: Any = import_module("rl_impls.snake.vector_env")
        self.env = snake.PlainEnvs(1, import_module("rl_impls.snake.spec").Geometry())
        self.env.set_state(self.spec["env_state"])
        self.env, self.obs = self.env.envs[0], self.env.observe()[0]

        def make(params: Any) -> Any:
            net = nn.Sequential(
                nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)
            )  # fmt: skip
            names = ("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias")
            values = (torch.tensor(array.T) for array in params.values())
            net.load_state_dict(dict(zip(names, values, strict=True)))
            return net

        self.net, self.target = make(self.spec["params"]), make(self.spec["target"])
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=self.spec["learning_rate"], fused=fused or None)
        self.step = 0
        boards = np.zeros((2, self.capacity, 100), np.float32)
        self.memory_obs, self.memory_next_obs = boards
        self.memory_actions = np.zeros(self.capacity, np.int64)
        self.memory_rewards, self.memory_terminated = np.zeros((2, self.capacity), np.float32)
        obs, actions, rewards, next_obs, terminated = self.spec["stored"]
        self.memory_obs[: self.pushed], self.memory_next_obs[: self.pushed] = obs, next_obs
        self.memory_actions[: self.pushed], self.memory_rewards[: self.pushed] = actions, rewards
        self.memory_terminated[: self.pushed] = terminated

    def play(self, explore: Any, random_actions: Any, draws: Any, rows: Any) -> Any:
        """Play and learn for one block, one environment step after the other.

        Args:
            explore: whether a step takes a random action, bool[T, 1].
            random_actions: those actions, i32[T, 1].
            draws: what the environment needs of randomness, i32[T, 1, 3].
            rows: of the memory, that each update learns from, i64[U, B].
        """
        import numpy as np
        import torch
        from torch import nn

        env, net, obs, at = self.env, self.net, self.obs, self.pushed
        played, losses, rows = [], [], iter(rows)
        for explores, random_action, given in zip(explore[:, 0], random_actions[:, 0], draws[:, 0]):
            if explores:
                action = int(random_action)
            else:
                with torch.no_grad():
                    action = int(net(torch.as_tensor(obs)[None]).argmax(dim=1))
            env.np_random.given = given
            board, reward, terminated, truncated, _ = env.step(action)
            next_obs = board.reshape(-1)
            slot = at % self.capacity
            self.memory_obs[slot], self.memory_next_obs[slot] = obs, next_obs
            self.memory_actions[slot], self.memory_rewards[slot] = action, reward
            self.memory_terminated[slot] = terminated
            at += 1
            ended = terminated or truncated
            obs = env.reset()[0].reshape(-1) if ended else next_obs
            played.append((action, reward, ended))

            self.step += 1
            if self.step % EVERY == 0:
                wanted = next(rows)
                slots = wanted if at <= self.capacity else (at + wanted) % self.capacity
                b_obs = torch.as_tensor(self.memory_obs[slots])
                b_next_obs = torch.as_tensor(self.memory_next_obs[slots])
                b_actions = torch.as_tensor(self.memory_actions[slots])
                b_rewards = torch.as_tensor(self.memory_rewards[slots])
                b_terminated = torch.as_tensor(self.memory_terminated[slots])
                with torch.no_grad():
                    best = self.target(b_next_obs).max(dim=1).values
                    td_target = b_rewards + self.spec["gamma"] * best * (1 - b_terminated)
                value = net(b_obs).gather(1, b_actions[:, None]).squeeze(1)
                loss = nn.functional.smooth_l1_loss(value, td_target)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), self.spec["gradient_norm"])
                self.optimizer.step()
                losses.append(loss.item())
                if self.step % TARGET_EVERY == 0:
                    self.target.load_state_dict(net.state_dict())
        self.obs = obs
        actions, rewards, ended = (np.array(column)[:, None] for column in zip(*played))
        return actions, rewards.astype(np.float32), ended, np.array(losses)

    def sizes(self) -> list[int]:
        """Return how many numbers each array of the net has."""
        return sorted(parameter.numel() for parameter in self.net.parameters())


DEFAULT, FUSED = (functools.partial(PlainLoop, fused=fused) for fused in (False, True))
FULL, PLAIN, NAIVE = (functools.partial(Ours, backend="torch", form=form) for form in ("full", "plain", "naive"))
A_LOOP = "a plain loop with arrays and no_grad"
OUR_NAIVE = "our naive loop", "of the same revision"
COMPARISONS = {
    "default": Comparison(identity("full", "torch"), A_LOOP, CLEANRL, FULL, DEFAULT, LEFT_OUT),
    "fused": Comparison(identity("full", "torch"), f"{A_LOOP} and fused Adam", CLEANRL, FULL, FUSED, LEFT_OUT),
}
CHECKS = {
    "plain_naive": Comparison(identity("plain", "torch"), *OUR_NAIVE, PLAIN, NAIVE, LEFT_OUT, least=1.45),
    "default_naive": Comparison(A_LOOP, *OUR_NAIVE, DEFAULT, NAIVE, LEFT_OUT, least=1.45),
    "fused_naive": Comparison(f"{A_LOOP} and fused Adam", *OUR_NAIVE, FUSED, NAIVE, LEFT_OUT, least=1.6),
}

if __name__ == "__main__":
    main("perf_tests.peers.snake_plain", __doc__, COMPARISONS, needed=("torch",), checks=CHECKS)
