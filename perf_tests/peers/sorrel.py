"""sorrel's IQN agents in plain torch, each with a net, a target net, an optimizer and a NumPy replay buffer.

Where the source's algorithm differs from that of our agents, this code follows ours: targets use the state after n
steps and have no gradient, stacks of frames stay within an episode, the loss is summed over online quantiles, and noise
is factorised.

Axes: N agents, B transitions, C rows, F frame size, S = 5 F, Q quantiles, A actions, M noise numbers. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

N_FRAMES, N_STEP = 5, 3  # frames per state; rewards per return


class NoisyLinear(nn.Linear):  # type: ignore[misc]
    """Linear layer with factorised Gaussian noise on its weights (Fortunato et al. 2018)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.sigma_weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.sigma_bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Any, noise_in: Any, noise_out: Any) -> Any:
        """f[B, I] -> f[B, O]; the noise, f[I] and f[O], is standard normal."""
        eps_in, eps_out = (noise.sign() * noise.abs().sqrt() for noise in (noise_in, noise_out))
        weight = self.weight + self.sigma_weight * torch.outer(eps_out, eps_in)
        return nn.functional.linear(x, weight, self.bias + self.sigma_bias * eps_out)


class Iqn(nn.Module):  # type: ignore[misc]
    """Implicit quantile network (Dabney et al. 2018) with noisy, dueling heads."""

    def __init__(self, size: int, hidden: int, cosines: int, actions: int) -> None:
        super().__init__()
        self.state, self.cos = nn.Linear(size, hidden), nn.Linear(cosines, hidden)
        self.hidden = NoisyLinear(hidden, hidden)
        self.value, self.advantage = NoisyLinear(hidden, 1), NoisyLinear(hidden, actions)
        self.multiples = torch.pi * torch.arange(1, cosines + 1)
        self.noise_sizes = [hidden, hidden, hidden, 1, actions]

    def forward(self, states: Any, taus: Any, noise: Any) -> Any:
        """States f[B, S], taus f[B, Q] and noise f[M] of the noisy layers -> quantiles f[B, Q, A]."""
        batch, quantiles = taus.shape
        hidden_in, hidden_out, heads_in, value_out, advantage_out = noise.split(self.noise_sizes)
        h = torch.relu(self.state(states))
        cosines = torch.cos(taus[:, :, None] * self.multiples).view(batch * quantiles, -1)
        phi = torch.relu(self.cos(cosines)).view(batch, quantiles, -1)
        h = (h[:, None] * phi).view(batch * quantiles, -1)
        h = torch.relu(self.hidden(h, hidden_in, hidden_out))
        value = self.value(h, heads_in, value_out)
        advantage = self.advantage(h, heads_in, advantage_out)
        return (value + advantage - advantage.mean(dim=1, keepdim=True)).view(batch, quantiles, -1)

    def parts(self) -> Iterator[tuple[str, slice, Any]]:
        """Yield each parameter with the name of ours that contains it, and with its columns there."""
        everything = slice(None)
        for layer, name, columns in (
            (self.state, "state", everything), (self.cos, "cos", everything), (self.hidden, "hidden", everything),
            (self.value, "heads", slice(1)), (self.advantage, "heads", slice(1, None)),
        ):  # fmt: skip
            for prefix, parameter in zip(("w", "b", "sw", "sb"), layer.parameters()):
                yield f"{prefix}_{name}", columns, parameter

    def load(self, params: Mapping[str, Any]) -> None:
        """Copy the weights of one of our agents."""
        with torch.no_grad():
            for name, columns, parameter in self.parts():
                parameter.copy_(torch.from_numpy(params[name][..., columns].T))

    def params(self) -> dict[str, Any]:
        """Return the weights as NumPy, in the format of one of our agents."""
        found: dict[str, list[Any]] = {}
        for name, _, parameter in self.parts():
            found.setdefault(name, []).append(parameter.detach().numpy().T)
        return {name: np.concatenate(arrays, axis=-1) for name, arrays in found.items()}


class Buffer:
    """One agent's frames f32[C, F], actions i32[C], rewards f32[C], and where in an episode each row is.

    ``time`` i32[C] is the number of turns since the episode began; ``last`` bool[C] marks the row of its final frame.
    """

    def __init__(self, frames: Any, actions: Any, rewards: Any, time: Any, last: Any) -> None:
        self.frames, self.actions, self.rewards, self.time, self.last = frames, actions, rewards, time, last

    def stack(self, rows: Any) -> Any:
        """Return the states at some rows, f32[B, S], zeros before the episode's start."""
        back = np.arange(N_FRAMES)[::-1]
        states = self.frames[rows[:, np.newaxis] - back]
        states[back > self.time[rows][:, np.newaxis]] = 0
        return states.reshape(len(rows), -1)

    def sample(self, rows: Any, gamma: float) -> tuple[Any, ...]:
        """Return the transitions that start at rows i64[B].

        -> states f32[B, S], actions i32[B], returns f32[B], next states f32[B, S], discounts f32[B]
        """
        returns, discounts, after = np.zeros(len(rows), np.float32), np.ones(len(rows), np.float32), rows.copy()
        for _ in range(N_STEP):
            going_on = ~self.last[after]
            returns += going_on * discounts * self.rewards[after]
            discounts[going_on] *= gamma
            after = (after + going_on) % len(self.last)
        return self.stack(rows), self.actions[rows], returns, self.stack(after), discounts


class Agent:
    """One agent, which learns from transitions by a double-DQN target and the quantile Huber loss.

    ``config`` is that of our ``train_step``, with the weights of this agent alone.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config, weights = config, config["params"]
        (size, hidden), cosines = weights["w_state"].shape, len(weights["w_cos"])
        self.net, self.target = (Iqn(size, hidden, cosines, weights["b_heads"].size - 1) for _ in range(2))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=config["learning_rate"])
        self.reset()

    def reset(self) -> None:
        """Restore the weights and Adam's moments."""
        self.net.load(self.config["params"])
        self.target.load(self.config["target"])
        for state in self.optimizer.state.values():
            for moment in state.values():
                moment.zero_()

    def train_step(self, *batch: Any) -> float:
        """Update on NumPy arrays, a batch of our ``train_step`` without the axis of agents; return the loss."""
        states, actions, returns, next_states, discounts, taus, noise = map(torch.from_numpy, batch)
        rows = torch.arange(len(actions))
        with torch.no_grad():
            best = self.net(next_states, taus[1], noise[0]).mean(dim=1).argmax(dim=1)
            next_quantiles = self.target(next_states, taus[2], noise[1])[rows, :, best]
            targets = returns[:, None] + discounts[:, None] * next_quantiles
        quantiles = self.net(states, taus[0], noise[0])[rows, :, actions.long()]
        errors = targets[:, None, :] - quantiles[:, :, None]
        size = errors.abs()
        huber = torch.where(size <= 1, 0.5 * errors**2, size - 0.5)
        weight = (taus[0][:, :, None] - (errors.detach() < 0).float()).abs()
        loss = (weight * huber).mean(dim=2).sum(dim=1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.config["max_grad_norm"])
        self.optimizer.step()
        tau = self.config["soft_update"]
        for follower, parameter in zip(self.target.parameters(), self.net.parameters()):
            follower.data.copy_(tau * parameter.data + (1 - tau) * follower.data)
        return float(loss.item())


class Agents:
    """N agents that update one after the other; ``config`` is that of our ``train_step``, optionally with a memory."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.gamma, stored = config["gamma"], config.get("stored")
        self.agents: list[Agent] = []
        self.buffers: list[Buffer] = []
        for n in range(len(config["params"]["w_state"])):
            weights = {net: {name: array[n] for name, array in config[net].items()} for net in ("params", "target")}
            self.agents.append(Agent({**config, **weights}))
            if stored:
                frames, actions, rewards = (stored[name][n] for name in ("frames", "actions", "rewards"))
                self.buffers.append(Buffer(frames, actions, rewards, stored["time"], stored["last"]))

    def reset(self) -> None:
        """Restore all agents."""
        for agent in self.agents:
            agent.reset()

    def update(self, *columns: Any) -> Any:
        """Update each agent on its slice of a batch [N, ...].  -> losses f32[N]"""
        return np.array([agent.train_step(*batch) for agent, batch in zip(self.agents, zip(*columns))], np.float32)

    def sample_and_update(self, rows: Any, taus: Any, noise: Any) -> Any:
        """Update each agent on the transitions of its buffer at rows i64[N, B].  -> losses f32[N]"""
        losses = []
        for agent, buffer, rows_of_one, *draws in zip(self.agents, self.buffers, rows, taus, noise):
            losses.append(agent.train_step(*buffer.sample(rows_of_one, self.gamma), *draws))
        return np.array(losses, np.float32)

    def output(self, losses: Any) -> list[Any]:
        """Return the losses and the weights, as ``Built.output`` does."""
        weights = [agent.net.params() for agent in self.agents]
        return [losses, {name: np.stack([of_one[name] for of_one in weights]) for name in weights[0]}]
