"""PPO and IMPALA on Procgen in plain torch, in the shape of CleanRL's ``ppo_procgen.py``; imports torch.

Everything is eager float32 in torch's default settings: frames are stored as floats, actions are sampled by
``Categorical``, and advantages are computed step by step.

Axes: T steps, N environments, B images of a batch, A = 15 actions. Environments have ``reset() -> frames`` and
``step(actions) -> frames, rewards, ended``, with frames u8[N, 64, 64, 3]. ``config`` is that of our loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical

from rl_impls.common.procgen_env import ACTIONS, FRAME

SIDES = {"w_policy": 4, "w_value": 4, "w_hidden": 8}  # pixels per side of the images that these layers flatten


class Agent(nn.Module):  # type: ignore[misc]
    """Policy and value head on shared features."""

    def __init__(self, features: Any, policy: Any, value: Any) -> None:
        super().__init__()
        self.features, self.policy, self.value = features, policy, value

    def forward(self, obs: Any) -> tuple[Any, Any]:
        """Frames f[B, 64, 64, 3], colours from 0 to 255 -> logits f[B, A], values f[B]."""
        features = self.features(obs.permute(0, 3, 1, 2) / 255)
        return self.policy(features), self.value(features).squeeze(1)


def nature() -> Agent:
    """Return the net of rl-cluster-benchmark: three convolutions, and a hidden layer for each head."""
    features = nn.Sequential(
        nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    policy, value = (nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, size)) for size in (ACTIONS, 1))
    return Agent(features, policy, value)


class Block(nn.Module):  # type: ignore[misc]
    """Residual block of two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """f[B, C, Y, X] -> f[B, C, Y, X]."""
        return x + self.conv1(torch.relu(self.conv0(torch.relu(x))))


def impala_cnn() -> Agent:
    """Return the net of CleanRL: the residual net of Espeholt et al. (2018) with 16, 32 and 32 channels."""
    layers: list[Any] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Block(outputs), Block(outputs)]
    features = nn.Sequential(*layers, nn.Flatten(), nn.ReLU(), nn.Linear(2048, 256), nn.ReLU())
    return Agent(features, nn.Linear(256, ACTIONS), nn.Linear(256, 1))


def in_torch_layout(params: Mapping[str, Any]) -> Iterator[Any]:
    """Yield our weights, NumPy arrays by name, in the order and the layout of an agent's parameters."""
    for name, array in params.items():
        if side := SIDES.get(name):  # ours flattens pixel by pixel, torch channel by channel
            array = array.reshape(side, side, -1, array.shape[1]).transpose(3, 2, 0, 1).reshape(array.shape[1], -1)
        elif array.ndim == 4:
            array = array.transpose(3, 2, 0, 1)
        else:
            array = array.T
        yield torch.from_numpy(array.copy())


def load(agent: Agent, params: Mapping[str, Any]) -> None:
    """Copy our weights into an agent."""
    with torch.no_grad():
        for parameter, value in zip(agent.parameters(), in_torch_layout(params), strict=True):
            parameter.copy_(value)


def ppo_loss(
    agent: Agent, config: Mapping[str, Any], clip_values: bool, obs: Any, actions: Any, log_probs: Any, values: Any,
    advantages: Any, returns: Any,
) -> Any:  # fmt: skip
    """Return PPO's loss of a minibatch; ``clip_values`` also clips how far a value moves from that of the rollout."""
    clip = config["clip"]
    logits, new_values = agent(obs)
    policy = Categorical(logits=logits)
    ratios = (policy.log_prob(actions) - log_probs).exp()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy_loss = torch.max(-advantages * ratios, -advantages * ratios.clamp(1 - clip, 1 + clip)).mean()
    errors = (new_values - returns) ** 2
    if clip_values:
        clipped = values + (new_values - values).clamp(-clip, clip)
        errors = torch.max(errors, (clipped - returns) ** 2)
    entropy = policy.entropy().mean()
    return policy_loss + config["value_weight"] * 0.5 * errors.mean() - config["entropy_weight"] * entropy


def vtrace(config: Mapping[str, Any], log_ratios: Any, rewards: Any, values: Any, ended: Any) -> tuple[Any, Any]:
    """Return V-trace's targets and advantages, f[T, N]; ``values`` f[T + 1, N] include those of the last frames."""
    ratios, discounts = log_ratios.exp(), config["gamma"] * (1 - ended)
    rhos, cs = ratios.clamp(max=config["rho_bar"]), ratios.clamp(max=config["c_bar"])
    deltas = rhos * (rewards + discounts * values[1:] - values[:-1])
    sums: list[Any] = []
    later = torch.zeros_like(values[0])
    for t in reversed(range(len(rewards))):
        later = deltas[t] + discounts[t] * cs[t] * later
        sums.append(later)
    targets = torch.stack(sums[::-1]) + values[:-1]
    next_targets = torch.cat([targets[1:], values[-1:]])
    return targets, rhos * (rewards + discounts * next_targets - values[:-1])


def impala_loss(
    agent: Agent, config: Mapping[str, Any], obs: Any, actions: Any, log_probs: Any, rewards: Any, ended: Any
) -> Any:
    """Return IMPALA's loss of a rollout, summed over its steps; ``obs`` f[T + 1, N, 64, 64, 3]."""
    logits, values = agent(obs.flatten(0, 1))
    logits, values = logits.view(*obs.shape[:2], ACTIONS)[:-1], values.view(obs.shape[:2])
    policy = Categorical(logits=logits)
    new_log_probs = policy.log_prob(actions)
    with torch.no_grad():
        targets, advantages = vtrace(config, new_log_probs - log_probs, rewards, values, ended)
    policy_loss = -(new_log_probs * advantages).sum()
    value_loss = 0.5 * ((values[:-1] - targets) ** 2).sum()
    return policy_loss + config["value_weight"] * value_loss - config["entropy_weight"] * policy.entropy().sum()


class Loop(ABC):
    """Alternates between a rollout and learning from it; a call does both once. Subclasses set ``optimizer``."""

    optimizer: Any

    def __init__(self, config: Mapping[str, Any], agent: Agent, envs: Any) -> None:
        self.config, self.agent, self.envs = config, agent, envs
        num_steps, shape = config["num_steps"], (config["num_steps"], config["env"]["num_envs"])
        self.obs = torch.zeros(num_steps + 1, shape[1], *FRAME)  # the last ones are those after the rollout
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.log_probs, self.values, self.rewards, self.ended = (torch.zeros(shape) for _ in range(4))

    def reset(self) -> None:
        """Restore the games, the weights, the optimizer's moments and the random numbers."""
        load(self.agent, self.config["params"])
        for state in self.optimizer.state.values():
            for moment in state.values():
                moment.zero_()
        self.obs[-1] = torch.as_tensor(self.envs.reset())
        torch.manual_seed(self.config["seed"])

    def play(self) -> None:
        """Play T steps of N environments."""
        self.obs[0] = self.obs[-1]
        for t in range(len(self.rewards)):
            with torch.no_grad():
                logits, self.values[t] = self.agent(self.obs[t])
                policy = Categorical(logits=logits)
                self.actions[t] = actions = policy.sample()
                self.log_probs[t] = policy.log_prob(actions)
            frames, rewards, ended = map(torch.as_tensor, self.envs.step(actions.numpy()))
            self.obs[t + 1], self.rewards[t], self.ended[t] = frames, rewards, ended

    def step(self, loss: Any) -> float:
        """Take a step down the clipped gradient of a loss; return the loss."""
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.agent.parameters(), self.config["max_grad_norm"])
        self.optimizer.step()
        return float(loss.item())

    @abstractmethod
    def learn(self) -> list[float]:
        """Learn from the rollout; return the loss of each update."""

    def __call__(self) -> list[Any]:
        """Play and learn once.  -> rewards f32[T, N], ended f32[T, N], losses f32[U]"""
        self.play()
        losses = torch.tensor(self.learn())
        return [self.rewards.numpy().copy(), self.ended.numpy().copy(), losses.numpy()]


class Ppo(Loop):
    """PPO: several epochs of shuffled minibatches per rollout, by Adam."""

    def __init__(self, config: Mapping[str, Any], agent: Agent, envs: Any, clip_values: bool) -> None:
        super().__init__(config, agent, envs)
        self.clip_values = clip_values
        self.optimizer = torch.optim.Adam(agent.parameters(), lr=config["learning_rate"], eps=config["eps"])

    def advantages_and_returns(self) -> tuple[Any, Any]:
        """Return generalised advantages and returns, f[T, N]."""
        gamma, decay = self.config["gamma"], self.config["gamma"] * self.config["gae_lambda"]
        with torch.no_grad():
            next_values = self.agent(self.obs[-1])[1]
        advantages, later = torch.zeros_like(self.rewards), torch.zeros_like(next_values)
        for t in reversed(range(len(self.rewards))):
            going_on = 1 - self.ended[t]
            delta = self.rewards[t] + gamma * going_on * next_values - self.values[t]
            advantages[t] = later = delta + decay * going_on * later
            next_values = self.values[t]
        return advantages, advantages + self.values

    def learn(self) -> list[float]:
        """Make one update per minibatch and epoch."""
        rollout = self.obs[:-1], self.actions, self.log_probs, self.values, *self.advantages_and_returns()
        columns = [column.flatten(0, 1) for column in rollout]
        losses: list[float] = []
        for _ in range(self.config["epochs"]):
            for rows in torch.randperm(len(columns[0])).split(self.config["batch_size"]):
                batch: Any = [column[rows] for column in columns]
                losses.append(self.step(ppo_loss(self.agent, self.config, self.clip_values, *batch)))
        return losses


class Impala(Loop):
    """IMPALA in one process: one update per rollout, by RMSProp."""

    def __init__(self, config: Mapping[str, Any], agent: Agent, envs: Any) -> None:
        super().__init__(config, agent, envs)
        self.optimizer = torch.optim.RMSprop(
            agent.parameters(), lr=config["learning_rate"], alpha=config["decay"], eps=config["eps"]
        )

    def learn(self) -> list[float]:
        """Make one update on the whole rollout."""
        rollout = self.obs, self.actions, self.log_probs, self.rewards, self.ended
        return [self.step(impala_loss(self.agent, self.config, *rollout))]
