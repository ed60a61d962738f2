"""A team that learns, epoch after epoch, in any form and on any backend; every draw comes from one seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

from .. import backends
from ..common.checks import check_fields, check_integer
from ._numpy import COSINES, noise_size
from .memory import FRAMES, LEAST, Memory
from .settings import ACTIONS, DRAWS, Settings
from .team import QUANTILES
from .world import ArrayWorlds

NOISE_START = 0.5  # of a noisy layer's sigma, over the square root of its inputs


@dataclass(frozen=True)
class Config:
    """Everything an experiment is made of but its seed.

    Attributes:
        settings: of the worlds.
        worlds: in which every agent plays at the same time; its replay holds what it did in all of them.
        hidden: width of all layers.
        batch: transitions in an update.
        capacity: frames that the memory of an agent keeps.
        gamma: discount of a turn.
        learning_rate: of Adam.
        gradient_norm: to which the gradient of each agent is clipped.
        soft_update: by how much the target net moves to the online net after an update.
        epsilon: chance to explore in the first epoch.
        epsilon_step: by how much it falls from epoch to epoch.
        form: named setting of the knobs.
        backend: name of the backend that computes; for ``auto`` it becomes that of the best one here.

    Raises:
        ValueError: a value that makes no sense.
    """

    settings: Settings = field(default_factory=Settings)
    worlds: int = 1
    hidden: int = 250
    batch: int = 64
    capacity: int = 1024
    gamma: float = 0.99
    learning_rate: float = 2.5e-4
    gradient_norm: float = 1.0
    soft_update: float = 0.001
    epsilon: float = 0.6
    epsilon_step: float = 0.0005
    form: str = "full"
    backend: str = "torch"

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        backends.choose("form", self.form, backends.forms("treasurehunt"))
        rates = dict.fromkeys(("learning_rate", "gradient_norm", "soft_update", "epsilon", "epsilon_step"), (0,))
        check_fields(self, **rates, gamma=(0, 1), hidden=(1, 2**16), capacity=(1,))
        check_fields(self, worlds=(1, self.capacity), batch=(1, self.capacity))


def init_params(rng, config):
    """Return weights of every agent, uniform within one over the square root of a layer's inputs.  -> f32[N, ...]"""
    agents, hidden, params = config.settings.agents, config.hidden, {}
    sizes = {
        "state": (FRAMES * config.settings.frame, hidden),
        "cos": (COSINES, hidden),
        "hidden": (hidden, hidden),
        "heads": (hidden, 1 + ACTIONS),
    }
    for layer, (rows, columns) in sizes.items():
        edge = rows**-0.5
        params[f"w_{layer}"] = rng.uniform(-edge, edge, (agents, rows, columns)).astype(np.float32)
        params[f"b_{layer}"] = rng.uniform(-edge, edge, (agents, columns)).astype(np.float32)
        if layer in ("hidden", "heads"):
            params[f"sw_{layer}"] = np.full((agents, rows, columns), NOISE_START * edge, np.float32)
            params[f"sb_{layer}"] = np.full((agents, columns), NOISE_START * edge, np.float32)
    return params


class Experiment:
    """Agents that play and learn; :meth:`run` goes on from where the last call ended.

    Before the first epoch the memory is filled by random play, as far as a batch needs.
    """

    def __init__(self, config=None, seed=0):
        self.config = config = config or Config()
        self.settings, self.rng, self.epochs = config.settings, np.random.default_rng(seed), 0
        self.backend = backends.get(config.backend)
        forms = backends.forms("treasurehunt")
        self.knobs = forms[backends.choose("form", config.form, forms)]
        params = init_params(self.rng, config)
        self.noise = noise_size(params)
        # the rows of the memory without what is in them: where transitions start is the same for all agents
        self.mirror = Memory(1, config.worlds, config.capacity, 1, config.gamma)
        self.spec = {name: getattr(config, name) for name in Config.__dataclass_fields__} | {
            "settings": asdict(config.settings), "params": params, "target": params, "stored": self.play_randomly(),
        }  # fmt: skip
        self.spec["world_state"] = self.worlds.get_state()
        example = self.draw_epoch(explore=1.0)
        self.loop = self.backend.build("treasurehunt", "epoch", self.spec, example, self.knobs)

    def play_randomly(self):
        """Fill a memory until a batch can be drawn.  -> its arrays"""
        agents, config = self.settings.agents, self.config
        memory = Memory(agents, config.worlds, config.capacity, self.settings.frame, config.gamma)
        self.worlds = ArrayWorlds(self.settings, config.worlds)
        while len(memory.starts()) < config.batch:
            if memory.pushed > 2 * memory.length:
                raise ValueError(f"batch: got {config.batch}, wanted at most {len(memory.starts())}, all that fits")
            obs, truncated = self.worlds.reset(self.draws(config.worlds, self.cells)), False
            while not truncated:
                actions = self.rng.integers(ACTIONS, size=(agents, config.worlds)).astype(np.int32)
                seen = obs
                obs, rewards, truncated = self.worlds.advance(actions, self.draws(config.worlds, self.cells))
                memory.push(seen, actions, rewards)
            memory.finish(obs)
            self.count_episode()
        return memory.arrays()

    @property
    def cells(self):
        """Cells inside the walls of a world."""
        return self.settings.height * self.settings.width

    def draws(self, *shape):
        """Return what the worlds need of randomness.  -> i32[...]"""
        return self.rng.integers(DRAWS, size=shape, dtype=np.int32)

    def count_episode(self):
        """Push the rows of one episode to the mirror."""
        blank = np.zeros((1, self.config.worlds), np.float32)
        for _ in range(self.settings.turns):
            self.mirror.push(blank[..., None], blank.astype(np.int32), blank)
        self.mirror.finish(blank[..., None])

    def draw_turns(self, explore, worlds):
        """Return every draw of an episode's turns, exploring with that chance."""
        shape = self.settings.turns, self.settings.agents, worlds
        return (
            self.draws(self.settings.turns, worlds, self.cells),
            self.rng.random((*shape, QUANTILES), np.float32),
            self.rng.random(shape) < explore,
            self.rng.integers(ACTIONS, size=shape, dtype=np.int32),
        )

    def draw_epoch(self, explore):
        """Return every draw of an epoch, as the op ``epoch`` takes them."""
        agents, batch = self.settings.agents, self.config.batch
        starts = self.mirror.starts()
        rows = np.array([self.rng.choice(starts, batch, replace=False) for _ in range(agents)])
        taus = self.rng.random((agents, 3, batch, QUANTILES), np.float32)
        noise = self.rng.standard_normal((agents, 2, self.noise), np.float32)
        return (
            self.draws(self.config.worlds, self.cells),
            *self.draw_turns(explore, self.config.worlds),
            rows,
            taus,
            noise,
        )

    def run(self, epochs):
        """Play and learn.  -> returns f32[epochs, N], the rewards of each agent in an episode, mean over the worlds"""
        check_integer("epochs", epochs, 1, 2**31 - 1)
        returns = []
        for _ in range(epochs):
            self.count_episode()
            epsilon = max(0.0, self.config.epsilon - self.config.epsilon_step * self.epochs)
            _, rewards, _ = self.loop(*self.draw_epoch(epsilon))
            returns.append(rewards.sum(axis=0).mean(axis=1))
            self.epochs += 1
        return np.array(returns)

    def evaluate(self, episodes, explore=0.0):
        """Play without learning, each episode in a world of its own.  -> returns f32[episodes, N]"""
        check_integer("episodes", episodes, 1, 2**31 - 1)
        worlds = ArrayWorlds(self.settings, episodes)
        worlds.reset(self.draws(episodes, self.cells))
        memory = Memory(self.settings.agents, episodes, LEAST * episodes, self.settings.frame, self.config.gamma)
        spec = self.spec | {
            "params": self.loop.params, "world_state": worlds.get_state(), "stored": memory.arrays(),
            "capacity": LEAST * episodes,
        }  # fmt: skip
        drawn = self.draw_turns(explore, episodes)
        play = self.backend.build("treasurehunt", "turn", spec, drawn, self.knobs)
        try:
            _, rewards = play(*drawn)
        finally:
            getattr(play, "close", int)()
        return rewards.sum(axis=0).T

    def close(self):
        """End the processes of the agents, if they have any."""
        getattr(self.loop, "close", int)()
