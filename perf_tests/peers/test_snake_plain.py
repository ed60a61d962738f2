"""snake's DQN loop as CleanRL users write it: in the shape of CleanRL 1.0's ``dqn.py``, on the same environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_impls.snake import problem as snake

from ..bench import Bench

pytestmark = pytest.mark.peer
TRAIN_FREQUENCY, BATCH_SIZE = 4, 32  # environment steps per update; transitions per minibatch


class PlainLoop:
    """A DQN with a NumPy replay buffer, and a forward pass of one board per environment step.

    ``config`` is that of our loop. With ``fused``, Adam updates all arrays in one kernel; else torch chooses.
    """

    def __init__(self, config: dict[str, Any], fused: bool) -> None:
        import torch
        from torch import nn

        from rl_impls.snake.env import Geometry
        from rl_impls.snake.vector_env import PlainEnvs

        self.config, self.envs = config, PlainEnvs(1, Geometry())
        self.net, self.target = (
            nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
            for _ in range(2)
        )
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=config["learning_rate"], fused=fused or None)
        boards = np.zeros((2, config["capacity"], 100), np.float32)
        self.memory_obs, self.memory_next_obs = boards
        self.memory_actions = np.zeros(config["capacity"], np.int64)
        self.memory_rewards, self.memory_terminated = np.zeros((2, config["capacity"]), np.float32)
        self.reset()

    def reset(self) -> None:
        """Restore the environment, the replay memory, the weights and Adam's moments."""
        import torch

        config = self.config
        self.envs.set_state(config["env_state"])
        self.env, self.obs = self.envs.envs[0], self.envs.observe()[0]
        for net, params in ((self.net, config["params"]), (self.target, config["target"])):
            values = (torch.tensor(array.T) for array in params.values())
            net.load_state_dict(dict(zip(net.state_dict(), values, strict=True)))
        for state in self.optimizer.state.values():
            for moment in state.values():
                moment.zero_()
        obs, actions, rewards, next_obs, terminated = config["stored"]
        self.pushed, self.step = len(obs), config["step"]
        self.memory_obs[: self.pushed], self.memory_next_obs[: self.pushed] = obs, next_obs
        self.memory_actions[: self.pushed], self.memory_rewards[: self.pushed] = actions, rewards
        self.memory_terminated[: self.pushed] = terminated

    def __call__(self, explore: Any, random_actions: Any, draws: Any, rows: Any) -> tuple[Any, ...]:
        """Play and learn.  -> actions i32[T, 1], rewards f32[T, 1], ended bool[T, 1], losses f32[U]

        Args:
            explore: bool[T, 1], whether a step takes the random action.
            random_actions: i32[T, 1].
            draws: i32[T, 1, 3], random numbers of the environment.
            rows: i64[U, B], the transitions of each minibatch, as rows of the replay memory.
        """
        import torch
        from torch import nn

        config, env, net, obs = self.config, self.env, self.net, self.obs
        played, losses, batches = [], [], iter(rows)
        for explores, random_action, given in zip(explore[:, 0], random_actions[:, 0], draws[:, 0]):
            if explores:
                action = int(random_action)
            else:
                with torch.no_grad():
                    action = int(net(torch.as_tensor(obs)[None]).argmax(dim=1))
            env.np_random.given = given
            board, reward, terminated, truncated, _ = env.step(action)
            next_obs = board.reshape(-1)
            slot = self.pushed % config["capacity"]
            self.memory_obs[slot], self.memory_next_obs[slot] = obs, next_obs
            self.memory_actions[slot], self.memory_rewards[slot] = action, reward
            self.memory_terminated[slot] = terminated
            self.pushed += 1
            ended = terminated or truncated
            obs = env.reset()[0].reshape(-1) if ended else next_obs
            played.append((action, reward, ended))

            self.step += 1
            if self.step % TRAIN_FREQUENCY == 0:
                slots = next(batches)  # rows are slots, as the buffer is not full
                b_obs = torch.as_tensor(self.memory_obs[slots])
                b_next_obs = torch.as_tensor(self.memory_next_obs[slots])
                b_actions = torch.as_tensor(self.memory_actions[slots])
                b_rewards = torch.as_tensor(self.memory_rewards[slots])
                b_terminated = torch.as_tensor(self.memory_terminated[slots])
                with torch.no_grad():
                    best = self.target(b_next_obs).max(dim=1).values
                    td_target = b_rewards + config["gamma"] * best * (1 - b_terminated)
                value = net(b_obs).gather(1, b_actions[:, None]).squeeze(1)
                loss = nn.functional.smooth_l1_loss(value, td_target)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), config["max_grad_norm"])
                self.optimizer.step()
                losses.append(loss.item())
                if self.step % config["target_frequency"] == 0:
                    self.target.load_state_dict(net.state_dict())
        self.obs = obs
        actions, rewards, ends = (np.array(column)[:, None] for column in zip(*played))
        return actions.astype(np.int32), rewards.astype(np.float32), ends, np.array(losses, np.float32)

    def output(self, result: Any) -> list[Any]:
        """Return the result and the weights, in the format of our loop."""
        weights = (array.detach().numpy().T.copy() for array in self.net.parameters())
        return [result, dict(zip(self.config["params"], weights, strict=True))]


@pytest.mark.parametrize("adam", ["default", "fused"])
def test_plain_loop(bench: Bench, seed: int, adam: str) -> None:
    """64 steps and 16 updates, from the start state and with the random numbers of our loop.

    Left out: generating random numbers, and episode statistics.
    """
    pytest.importorskip("torch")
    problem = snake.collect_and_learn(seed, 1, TRAIN_FREQUENCY, BATCH_SIZE)
    loop = PlainLoop(dict(problem.config), fused=adam == "fused")
    bench(loop, *problem.args, reset=loop.reset, output=loop.output, max_calls=1, **problem.cost)
