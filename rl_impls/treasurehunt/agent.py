"""Agents that learn the treasure hunt: train, evaluate, save and resume, in any form and on any backend."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Literal

import numpy as np

from .. import backends
from ..common.agent import Agent
from ..common.checks import check_integer
from ..common.config import Field, OneOf, config
from ..common.parts import join_parts, part_of
from ..params import signature
from ._numpy import NOISY, QUANTILES, init_params, layer_sizes, noise_size
from .memory import FRAMES, MIN_ROWS, Memory
from .options import FORMS
from .shared_ops import epoch, turn
from .vector_env import ACTIONS, DRAWS, ArrayWorlds, Settings


@config
class Config(Settings):
    """Configuration of the agents and their worlds, all but the seed."""

    backend: Annotated[str, OneOf(backends.names_of("treasurehunt"))] = Field(
        "torch", description="compute backend; auto selects the best one available"
    )
    form: Annotated[str, OneOf(FORMS)] = Field("full", description="named set of optimisations")
    num_worlds: int = Field(
        1, ge=1, description="number of worlds that every agent plays at once; its replay memory covers all of them"
    )
    hidden: int = Field(250, ge=1, le=2**16, description="width of all layers")
    batch_size: int = Field(64, ge=1, description="transitions per update")
    capacity: int = Field(1024, ge=1, description="frames in the replay memory of each agent")
    gamma: float = Field(0.99, ge=0, le=1, description="discount per turn")
    learning_rate: float = Field(2.5e-4, ge=0, description="learning rate of Adam")
    max_grad_norm: float = Field(1.0, gt=0, description="norm to which each agent's gradient is clipped")
    loss_reduction: Literal["sum", "mean"] = Field(
        "sum",
        description="reduction of the loss over online quantiles: sum (Dabney et al. 2018), or mean (sorrel), which"
        f" divides gradients by {QUANTILES}, so max_grad_norm clips fewer",
    )
    soft_update: float = Field(
        0.001, ge=0, le=1, description="fraction by which an update moves the target net towards the online net"
    )
    epsilon: float = Field(0.6, ge=0, le=1, description="probability of a random action in the first epoch")
    epsilon_step: float = Field(0.0005, ge=0, le=1, description="decrease of epsilon per epoch")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        if self.batch_size > self.capacity:
            raise ValueError(f"batch_size={self.batch_size} should be at most capacity={self.capacity}")

    @property
    def settings(self):
        """Settings of the worlds."""
        return Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})

    @property
    def weights(self):
        """Number of weights of all agents' nets."""
        layers = layer_sizes(FRAMES * self.frame, self.hidden).items()
        per_agent = sum((2 if name in NOISY else 1) * (rows + 1) * columns for name, (rows, columns) in layers)
        return self.num_agents * per_agent


class TreasurehuntAgents(Agent):
    """Learns the treasure hunt with several agents, each with its own network.

    ``TreasurehuntAgents("jax", "compiled", seed=0, num_worlds=16)``; the keywords are those of :class:`Config`. The
    seed determines weights, worlds, exploration and batches. The constructor fills the replay memory with random play
    until a batch can be sampled.
    """

    Config = Config
    ABOUT = "Train and evaluate agents that hunt for items, each with its own network."
    UNIT = "epochs"  # one episode in all worlds and one update of every agent
    chunk = 1

    def __init__(self, backend="torch", form="full", *, seed, **config):
        super().__init__(backend, form, seed=seed, **config)
        config, self.settings = self.config, self.config.settings
        self.backend, self.options = backends.get(config.backend), FORMS[config.form]
        self.worlds = ArrayWorlds(self.settings, config.num_worlds)
        # tracks the valid starts, which are the same for all agents; its rows stay empty
        self.mirror = Memory(1, config.num_worlds, config.capacity, 1)
        params = init_params(self.rng, config.num_agents, FRAMES * config.frame, config.hidden)
        self.noise_size = noise_size(params)
        zeros = {name: np.zeros_like(value) for name, value in params.items()}
        learner = join_parts(online=params, target=params, first=zeros, second=zeros) | {"step": np.array(0, np.int32)}
        self._state = join_parts(learner=learner, memory=self._play_randomly())  # until the loop is built from it

    def _play_randomly(self):
        """Play random episodes until the memory holds enough starts for a batch; return its arrays."""
        config, rng, shape = self.config, self.rng, (self.settings.num_agents, self.config.num_worlds)
        memory = Memory(*shape, config.capacity, self.settings.frame)
        while (count := len(memory.starts())) < config.batch_size:
            if memory.pushed > 2 * memory.length:
                raise ValueError(
                    f"batch_size={config.batch_size} should be at most {count}, the transitions that fit in"
                    f" capacity={config.capacity}"
                )
            obs, truncated = self.worlds.reset(self._draw_cells(rng, config.num_worlds)), False
            while not truncated:
                actions = rng.integers(ACTIONS, size=shape).astype(np.int32)
                last_obs = obs
                obs, rewards, truncated = self.worlds.advance(actions, self._draw_cells(rng, config.num_worlds))
                memory.push(last_obs, actions, rewards)
            memory.finish(obs)
            self._count_episode()
        return memory.arrays()

    def _count_episode(self):
        """Advance the mirror by one episode of empty rows."""
        blank = np.zeros((1, self.config.num_worlds), np.float32)
        for _ in range(self.settings.turns):
            self.mirror.push(blank[..., None], blank.astype(np.int32), blank)
        self.mirror.finish(blank[..., None])

    def _loop_config(self, **initial):
        """Return the configuration of the ``turn`` and ``epoch`` ops; `initial` are its initial values."""
        names = (
            "learning_rate", "gamma", "max_grad_norm", "loss_reduction", "soft_update", "capacity", "batch_size",
        )  # fmt: skip
        return {name: getattr(self.config, name) for name in names} | {"settings": asdict(self.settings)} | initial

    def build(self):
        """Build the loop, which may start processes."""
        config = self._loop_config(
            params=self.params, target=self.params, stored=part_of(self._state, "memory"),
            world_state=self.worlds.get_state(),
        )  # fmt: skip
        self.loop = epoch(config, (), options=self.options, backend=self.backend)
        self.loop.load_state(self._state)
        self._state = None

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...], see :func:`._numpy.init_params`."""
        return self.loop.params if self.loop else part_of(self._state, "learner.online")

    def _draw_cells(self, rng, *shape):
        """Sample random numbers for every cell of a world, i32[*shape, C]."""
        return rng.integers(DRAWS, size=(*shape, self.settings.cells), dtype=np.int32)

    def draw_turns(self, rng, epsilon, num_worlds):
        """Sample the random arguments of the ``turn`` op for one episode in `num_worlds` worlds."""
        shape = self.settings.turns, self.settings.num_agents, num_worlds
        return (
            self._draw_cells(rng, self.settings.turns, num_worlds),
            rng.random((*shape, QUANTILES), np.float32),
            rng.random(shape) < epsilon,
            rng.integers(ACTIONS, size=shape, dtype=np.int32),
        )

    def draw_epoch(self, epsilon):
        """Sample the random arguments of the ``epoch`` op; those of the form ``keyed`` are a key and `epsilon`."""
        if self.options.draws == "key":
            return self.rng.integers(2**32, size=2, dtype=np.uint32), np.float32(epsilon)
        num_agents, num_worlds, batch_size = self.settings.num_agents, self.config.num_worlds, self.config.batch_size
        rng, starts = self.rng, self.mirror.starts()
        rows = np.array([rng.choice(starts, batch_size, replace=False) for _ in range(num_agents)])
        train_taus = rng.random((num_agents, 3, batch_size, QUANTILES), np.float32)
        noise = rng.standard_normal((num_agents, 2, self.noise_size), np.float32)
        reset_draws = self._draw_cells(rng, num_worlds)
        return reset_draws, *self.draw_turns(rng, epsilon, num_worlds), rows, train_taus, noise

    @property
    def epsilon(self):
        """Probability of a random action in the next epoch."""
        return max(0.0, self.config.epsilon - self.config.epsilon_step * self.step)

    def _play_epoch(self):
        """Play an episode and learn; return each agent's return, averaged over worlds, and loss, f32[N] each."""
        self.prepare()
        self._count_episode()
        _, rewards, losses = self.loop(*self.draw_epoch(self.epsilon))
        self.step += 1
        return rewards.sum(axis=0).mean(axis=1), losses

    def learn(self):
        """Play an episode in every world and update every agent once; return and loss are means over the agents."""
        epsilon = self.epsilon
        returns, losses = self._play_epoch()
        return {
            "return": float(returns.mean()), "length": self.config.turns, "episodes": self.config.num_worlds,
            "loss": float(np.mean(losses)), "epsilon": epsilon,
        }  # fmt: skip

    def run(self, epochs):
        """Learn for `epochs` epochs; return each agent's return, averaged over worlds, f32[epochs, N]."""
        check_integer("epochs", epochs, 1)
        return np.array([self._play_epoch()[0] for _ in range(epochs)])

    def play(self, episodes, seed, epsilon=0.0):
        """Play episodes without learning, each in its own world; return each agent's return, f32[episodes, N].

        `seed` determines worlds and exploration, `epsilon` is the probability of a random action.
        """
        check_integer("episodes", episodes, 1)
        if not self.backend.learns:
            raise backends.OpUnavailable(f"cannot play on {self.backend.name}; choose another backend")
        rng, capacity = np.random.default_rng(seed), MIN_ROWS * episodes
        worlds = ArrayWorlds(self.settings, episodes)
        worlds.reset(self._draw_cells(rng, episodes))
        memory = Memory(self.settings.num_agents, episodes, capacity, self.settings.frame)
        params = self.params
        config = self._loop_config(
            params=params, target=params, stored=memory.arrays(), capacity=capacity, world_state=worlds.get_state()
        )
        draws = self.draw_turns(rng, epsilon, episodes)
        turns = turn(config, (), options=self.options, backend=self.backend)
        try:
            _, rewards = turns(*draws)
        finally:
            turns.close()
        return rewards.sum(axis=0).T

    def evaluate(self, episodes, seed):
        """Play greedily; return ``returns``, averaged over agents, and those of each agent, all f32[episodes]."""
        returns = self.play(episodes, seed)
        return {"returns": returns.mean(axis=1)} | {f"agent_{n}": column for n, column in enumerate(returns.T)}

    def state(self):
        return self.loop.state() if self.loop else self._state

    def load_state(self, arrays):
        """Restore what :meth:`state` returned, also in another form or on another backend."""
        if signature(arrays) != signature(self.state()):
            raise ValueError("names, shapes or dtypes are not those of this configuration")
        self.mirror.restore(
            self.mirror.arrays() | {name: arrays[f"memory.{name}"] for name in ("time", "last", "pushed")}
        )
        if self.loop:
            self.loop.load_state(arrays)
        else:
            self._state = arrays
