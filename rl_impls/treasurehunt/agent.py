"""Agents that learn the treasure hunt: train, evaluate, save and resume, in any form and on any backend."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

import numpy as np

from .. import backends
from ..common import checkpoint
from ..common.checks import check_changes, check_fields, check_integer
from ..common.shapes import count, parse
from ._numpy import COSINES
from .memory import LEAST, Memory
from .spec import ACTIONS, ARGUMENTS, DRAWS, FRAMES, MEMORY, NETS, Settings
from .team import QUANTILES
from .vector_env import ArrayWorlds

PARTS = ("online", "target", "first", "second")  # both nets and Adam's moments
NOISE_START = 0.5  # initial sigma of a noisy layer, times 1 / sqrt(fan_in)


@dataclass(frozen=True)
class Config:
    """Configuration of the agents, all but the seed.

    Attributes:
        backend: backend that computes; ``auto`` picks the best one available.
        form: named set of optimisations.
        settings: settings of the worlds.
        worlds: number of worlds that every agent plays at the same time; its replay memory covers all of them.
        hidden: width of all layers.
        batch: transitions per update.
        capacity: frames in the replay memory of each agent.
        gamma: discount per turn.
        learning_rate: learning rate of Adam.
        gradient_norm: maximum norm of each agent's gradient.
        soft_update: fraction by which the target net moves to the online net after an update.
        epsilon: probability of a random action in the first epoch.
        epsilon_step: decrease of epsilon per epoch.
    """

    backend: str = "torch"
    form: str = "full"
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

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        backends.choose("form", self.form, backends.forms("treasurehunt"))
        rates = dict.fromkeys(("learning_rate", "gradient_norm", "soft_update", "epsilon", "epsilon_step"), (0,))
        check_fields(self, **rates, gamma=(0, 1), hidden=(1, 2**16), capacity=(1,))
        check_fields(self, worlds=(1, self.capacity), batch=(1, self.capacity))

    @property
    def weights(self):
        """Number of weights of all agents' nets."""
        return count(NETS.values(), axes(self))


def init_params(rng, config):
    """Return weights of every agent, f32[N, ...], uniform in +-1/sqrt(fan_in)."""
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


class TreasurehuntAgents:
    """N agents that play and learn; weights, worlds, exploration and batches are all derived from the seed.

    ``TreasurehuntAgents("jax", "compiled", seed=0, worlds=16)``; the keywords are those of :class:`Config`. The
    constructor fills the replay memory with random play until a batch can be sampled.

    Args:
        backend: name of the backend.
        form: named set of optimisations, see :data:`.options.FORMS`.
        seed: seed of all random numbers.
        config: other fields of :class:`Config`.

    Raises:
        ValueError: invalid arguments, also in the methods; the agents are left unchanged.
        BackendUnavailable: the backend cannot run on this machine.
    """

    UNIT = "epochs"  # unit of ``step``: one episode in all worlds and one update of every agent
    chunk = 1

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self._take(Config(backend, form, **config), np.random.default_rng(seed), 0)
        weights, stored = init_params(self.rng, self.config), self._play_randomly()
        self.loop = self._build(weights, stored, self.worlds.get_state())

    @staticmethod
    def configure(settings=MappingProxyType({}), **fields):
        """Return a :class:`Config`; `settings` may be a mapping, as in a checkpoint."""
        return Config(settings=settings if isinstance(settings, Settings) else Settings(**settings), **fields)

    def _take(self, config, rng, step):
        """Set everything except the loop."""
        self.config, self.settings, self.rng, self.step = config, config.settings, rng, step
        self.backend, self.options = backends.get(config.backend), backends.forms("treasurehunt")[config.form]
        # tracks the valid starts, which are the same for all agents; its rows stay empty
        self.mirror = Memory(1, config.worlds, config.capacity, 1, config.gamma)
        self.worlds = ArrayWorlds(self.settings, config.worlds)

    def _build(self, weights, stored, world_state):
        """Build the epoch op from this start."""
        names = ("learning_rate", "gamma", "gradient_norm", "soft_update", "capacity")
        self.spec = {name: getattr(self.config, name) for name in names} | {
            "settings": asdict(self.settings), "params": weights, "target": weights, "stored": stored,
            "world_state": world_state,
        }  # fmt: skip
        example = tuple(blank(shape, axes(self.config)) for shape in ARGUMENTS["epoch"].values())
        return self.backend.build("treasurehunt", "epoch", self.spec, example, self.options)

    def _play_randomly(self):
        """Play random episodes until the memory holds enough starts for a batch; return its arrays."""
        agents, config, memory = self.settings.agents, self.config, self._empty_memory()
        while len(memory.starts()) < config.batch:
            if memory.pushed > 2 * memory.length:
                raise ValueError(f"batch: got {config.batch}, wanted at most {len(memory.starts())}, all that fits")
            obs, truncated = self.worlds.reset(self._draws(self.rng, config.worlds, self.cells)), False
            while not truncated:
                actions = self.rng.integers(ACTIONS, size=(agents, config.worlds)).astype(np.int32)
                seen = obs
                obs, rewards, truncated = self.worlds.advance(actions, self._draws(self.rng, config.worlds, self.cells))
                memory.push(seen, actions, rewards)
            memory.finish(obs)
            self._count_episode()
        return memory.arrays()

    def _empty_memory(self):
        config = self.config
        return Memory(self.settings.agents, config.worlds, config.capacity, self.settings.frame, config.gamma)

    @property
    def cells(self):
        """Number of cells inside the walls of a world."""
        return self.settings.height * self.settings.width

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...], see :data:`.spec.NETS`."""
        return self.loop.params

    def _draws(self, rng, *shape):
        return rng.integers(DRAWS, size=shape, dtype=np.int32)

    def _count_episode(self):
        """Advance the mirror by one episode of empty rows."""
        blank = np.zeros((1, self.config.worlds), np.float32)
        for _ in range(self.settings.turns):
            self.mirror.push(blank[..., None], blank.astype(np.int32), blank)
        self.mirror.finish(blank[..., None])

    def draw_turns(self, rng, explore, worlds):
        """Sample the random arguments of the ``turn`` op for one episode in `worlds` worlds."""
        shape = self.settings.turns, self.settings.agents, worlds
        return (
            self._draws(rng, self.settings.turns, worlds, self.cells),
            rng.random((*shape, QUANTILES), np.float32),
            rng.random(shape) < explore,
            rng.integers(ACTIONS, size=shape, dtype=np.int32),
        )

    def draw_epoch(self, explore):
        """Sample the random arguments of the ``epoch`` op."""
        agents, worlds, batch, rng = self.settings.agents, self.config.worlds, self.config.batch, self.rng
        starts = self.mirror.starts()
        rows = np.array([rng.choice(starts, batch, replace=False) for _ in range(agents)])
        taus = rng.random((agents, 3, batch, QUANTILES), np.float32)
        noise = rng.standard_normal((agents, 2, axes(self.config)["M"]), np.float32)
        return self._draws(rng, worlds, self.cells), *self.draw_turns(rng, explore, worlds), rows, taus, noise

    def _epoch(self):
        """Play an episode and learn; return each agent's return, averaged over worlds, and loss, f32[N] each."""
        self._count_episode()
        epsilon = max(0.0, self.config.epsilon - self.config.epsilon_step * self.step)
        _, rewards, losses = self.loop(*self.draw_epoch(epsilon))
        self.step += 1
        return rewards.sum(axis=0).mean(axis=1), losses

    def learn(self):
        """Play an episode in every world and update every agent once.

        Returns:
            ``return``, averaged over agents and worlds, and ``loss``, averaged over agents.
        """
        returns, losses = self._epoch()
        return {"return": float(returns.mean()), "loss": float(np.mean(losses))}

    def run(self, epochs):
        """Learn for `epochs` epochs; return each agent's return, averaged over worlds, f32[epochs, N]."""
        check_integer("epochs", epochs, 1, 2**31 - 1)
        return np.array([self._epoch()[0] for _ in range(epochs)])

    def play(self, episodes, seed, explore=0.0):
        """Play episodes without learning, each in its own world; return each agent's return, f32[episodes, N].

        `seed` determines worlds and exploration, `explore` is the probability of a random action.
        """
        check_integer("episodes", episodes, 1, 2**31 - 1)
        rng = np.random.default_rng(seed)
        worlds = ArrayWorlds(self.settings, episodes)
        worlds.reset(self._draws(rng, episodes, self.cells))
        memory = Memory(self.settings.agents, episodes, LEAST * episodes, self.settings.frame, self.config.gamma)
        spec = self.spec | {
            "params": self.params, "world_state": worlds.get_state(), "stored": memory.arrays(),
            "capacity": LEAST * episodes,
        }  # fmt: skip
        drawn = self.draw_turns(rng, explore, episodes)
        play = self.backend.build("treasurehunt", "turn", spec, drawn, self.options)
        try:
            _, rewards = play(*drawn)
        finally:
            play.close()
        return rewards.sum(axis=0).T

    def evaluate(self, episodes, seed):
        """Play greedily; return ``returns``, averaged over agents, and those of each agent, all f32[episodes]."""
        returns = self.play(episodes, seed)
        return {"returns": returns.mean(axis=1)} | {f"agent_{n}": column for n, column in enumerate(returns.T)}

    def close(self):
        """Stop the agents' worker processes, if any."""
        self.loop.close()

    def save(self, path):
        """Write a checkpoint atomically: weights, moments, replay memory, random state and configuration."""
        checkpoint.save(path, self, self.loop.state())

    @classmethod
    def load(cls, path, **changes):
        """Restore agents from a checkpoint; training continues bit for bit.

        Args:
            path: checkpoint file.
            changes: overrides of ``backend`` and ``form``.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
        """
        check_changes(changes)
        config, state, rng, step = checkpoint.read(path, cls.configure, outline)
        agents = cls.__new__(cls)
        agents._take(replace(config, **changes), rng, step)
        weights = {name: state[f"train.online.{name}"] for name in NETS}
        agents.loop = agents._build(weights, agents._empty_memory().arrays(), agents.worlds.get_state())
        agents.loop.load_state(state)
        shared = {name: state[f"memory.{name}"] for name in ("time", "last", "pushed")}
        agents.mirror.restore(agents.mirror.arrays() | shared)
        return agents


def outline(config, arrays):
    """Return placeholders with the names, shapes and dtypes that a checkpoint must have."""
    known = axes(config)
    state = {f"train.{part}.{name}": blank(shape, known) for part in PARTS for name, shape in NETS.items()}
    state |= {f"memory.{name}": blank(shape, known) for name, shape in MEMORY.items()}
    return state | {"train.step": np.array(0, np.int32)}


def axes(config):
    """Return the size of each named axis of :mod:`.spec`."""
    settings, hidden, heads = config.settings, config.hidden, 1 + ACTIONS
    return {
        "N": settings.agents, "K": config.worlds, "C": settings.height * settings.width, "B": config.batch,
        "R": config.capacity, "L": config.capacity // config.worlds, "F": settings.frame, "S": FRAMES * settings.frame,
        "Q": QUANTILES, "M": 3 * hidden + heads, "H": hidden, "D": heads, "T": settings.turns,
    }  # fmt: skip


def blank(shape, sizes):
    """Return zeros of a shape like ``f32[N, B]``, as a broadcast view of a single element."""
    dtypes = {"f32": np.float32, "i32": np.int32, "i8": np.int8, "i64": np.int64, "bool": np.bool_}
    zero = dtypes[shape.partition("[")[0]](0)
    return np.broadcast_to(zero, [int(sizes.get(name, name)) for name in parse(shape)[1]])
