"""The DQN agent: learns, evaluates, and saves and loads checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from .. import backends
from ..common.agent import Agent, stored_config
from ..common.checks import check_integer
from ..common.config import Field, OneOf, config
from ..common.episodes import finished, mean
from ..common.parts import part_of
from ..params import count_mlp, init_mlp, load_with_metadata
from .env import ACTIONS, DRAWS, Geometry
from .loop import games_in, stored_in
from .memory import DTYPES
from .options import CUDA, FORMS, BatchSize, TrainFrequency
from .shared_ops import collect_and_learn
from .vector_env import VectorisedEnvs

CHUNK = 256  # environment steps per call of the loop, at least one of each environment
EXPLORED = 20_000  # environment steps over which epsilon decays
EPSILON_START, EPSILON_END = 1.0, 0.05


@config
class Config:
    """Configuration of a DQN agent; the seed is passed separately."""

    backend: Annotated[str, OneOf(backends.names_of("snake"))] = Field(
        backends.AUTO,
        description="compute backend; auto is torch or, if there is a GPU, torch-compile-cuda; a new agent "
        "with auto on a GPU has form tf32 and batch size 64 by default",
    )
    form: Annotated[str, OneOf(FORMS)] = Field("full", description="named set of optimisations")
    num_envs: int = Field(1, ge=1, description="number of parallel environments")
    train_frequency: TrainFrequency = Field(4, description="environment steps between updates")
    batch_size: BatchSize = Field(32, description="minibatch size in transitions")
    hidden: int = Field(256, ge=1, description="width of both hidden layers")
    learning_rate: float = Field(1e-3, ge=0, description="learning rate of Adam")
    gamma: float = Field(0.99, ge=0, le=1, description="discount factor")
    max_grad_norm: float = Field(10.0, gt=0, description="norm to which gradients are clipped")
    capacity: int = Field(10_000, ge=1, description="capacity of the replay buffer in transitions")
    warm_up: int = Field(1_000, ge=1, description="random environment steps before learning starts")
    target_frequency: int = Field(
        1_000,
        ge=0,
        description="environment steps between copies of the online weights to the target network; 0 uses the online "
        "network for the TD target",
    )
    dim: int = Field(10, description="rows and columns of the board")
    starting_blocks: int = Field(3, description="initial length of the snake in cells")
    dist_to_border: int = Field(3, description="minimum number of cells between the initial head and the border")
    max_steps: int = Field(500, ge=1, description="environment steps after which an episode is truncated")

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        self.geometry  # noqa: B018  (raises a ValueError for an impossible board)
        if self.num_envs % self.train_frequency and self.train_frequency % self.num_envs:
            raise ValueError(
                f"num_envs={self.num_envs} should be a multiple or a divisor of train_frequency={self.train_frequency}"
            )
        if self.capacity < self.batch_size:
            raise ValueError(f"capacity={self.capacity} should be at least batch_size={self.batch_size}")
        if not self.batch_size <= self.warm_up <= self.capacity:
            raise ValueError(
                f"warm_up={self.warm_up} should be from batch_size={self.batch_size} to capacity={self.capacity}"
            )

    @property
    def options(self):
        """The form's options, with ``train_frequency`` and ``batch_size`` of this configuration."""
        return replace(FORMS[self.form], train_frequency=self.train_frequency, batch_size=self.batch_size)

    @property
    def geometry(self):
        """Board and start of the snake."""
        return Geometry(self.starting_blocks, self.dim, self.dist_to_border, self.max_steps)

    @property
    def sizes(self):
        """Widths of all layers, from input to output."""
        return (self.geometry.cells, self.hidden, self.hidden, ACTIONS)

    @property
    def weights(self):
        """Number of weights in the network."""
        return count_mlp(self.sizes)

    @property
    def num_steps(self):
        """Steps of each environment per call of the loop."""
        return max(1, CHUNK // self.num_envs)


def epsilon(step):
    """Exploration rate after ``step`` environment steps, decaying linearly from 1 to 0.05.  int[...] -> f[...]"""
    return np.maximum(EPSILON_END, EPSILON_START - (EPSILON_START - EPSILON_END) * step / EXPLORED)


class SnakeAgent(Agent):
    """Learns to play Snake with a DQN.

    ``SnakeAgent("jax", "compiled", seed=0, num_envs=64)``
    """

    Config = Config
    ABOUT = "Train and evaluate a DQN that plays Snake."

    def __init__(self, backend=backends.AUTO, form=None, *, seed, **config):
        super().__init__(backend, form, seed=seed, **config)
        self._state = None  # that of a checkpoint, until the loop is built from it
        self.running = np.zeros((2, self.config.num_envs))  # return and length so far of each running episode

    @classmethod
    def configure(cls, *, backend=backends.AUTO, form=None, **fields):
        """Return the configuration; if ``auto`` finds a GPU, form tf32 and a batch size of 64 are the defaults."""
        gpu = backend == backends.AUTO and backends.resolve(backend) == "torch-cuda"
        if gpu:
            backend, fields = "torch-compile-cuda", {"batch_size": 64} | fields
        if form is None:
            form = "tf32" if gpu else "full"
        return Config(backend, form, **fields)

    @classmethod
    def load(cls, path, **changes):
        """Load an agent as :meth:`.Agent.load` does; on a backend without TF32, form full replaces tf32."""
        backend = changes.get("backend")
        if backend and "form" not in changes and backends.resolve(backend) not in CUDA:
            _, metadata = load_with_metadata(path)
            if stored_config(path, metadata, cls.__name__)["form"] == "tf32":
                changes["form"] = "full"
        return super().load(path, **changes)

    def build(self):
        """Build the loop, from the checkpoint if one was loaded, or else from new weights and random play."""
        config, state = self.config, self._state
        if state is None:
            weights = init_mlp(self.rng, config.sizes)
            env_state, stored, self.running = play_at_random(config, self.rng)
        else:
            weights, env_state, stored = self.params, games_in(state), stored_in(state)
        names = ("learning_rate", "gamma", "max_grad_norm", "capacity", "target_frequency", "geometry")
        op_config = {name: getattr(config, name) for name in names} | {"params": weights, "target": weights}
        op_config |= {"env_state": env_state, "stored": stored, "step": 0}
        shape, updates = (config.num_steps, config.num_envs), self.chunk // config.train_frequency
        example = (
            np.zeros(shape, bool), np.zeros(shape, np.int32), np.zeros((*shape, 3), np.int32),
            np.zeros((updates, config.batch_size), np.int64),
        )  # fmt: skip
        backend = backends.get(config.backend)
        self.loop = collect_and_learn(op_config, example, options=config.options, backend=backend)
        if state is not None:
            self.loop.load_state(state)
            self._state = None

    @property
    def chunk(self):
        """Environment steps per call of :meth:`learn`, over all environments."""
        return self.config.num_steps * self.config.num_envs

    @property
    def params(self):
        """The online weights as NumPy: ``w{k}`` f32[I, O], ``b{k}`` f32[O]."""
        if self._state is not None:
            return part_of(self._state, "online")
        self.prepare()
        return self.loop.params

    def learn(self):
        """Play one chunk of environment steps and make the updates that are due.

        Returns:
            the figures of :meth:`.Agent.learn` and ``foods``, the number eaten in this chunk.
        """
        self.prepare()
        _, rewards, ended, losses = self.loop(*draw_chunk(self.config, self.rng, self.step))
        self.step += self.chunk
        returns, lengths = finished(self.running, rewards, ended)
        return {
            "return": mean(returns), "length": mean(lengths), "episodes": len(returns),
            "foods": int((rewards > 0).sum()), "loss": float(losses.mean()), "epsilon": float(epsilon(self.step)),
        }  # fmt: skip

    def evaluate(self, episodes, seed):
        """Play `episodes` games side by side with the greedy policy; `seed` sets the games.

        Returns ``foods`` i64[episodes], ``returns`` f64[episodes] and ``lengths`` i64[episodes] in environment steps.
        """
        return play(self.config, self.params, check_integer("episodes", episodes, 1), seed)

    def state(self):
        if self._state is None:
            self.prepare()
        return (self.loop.state() if self._state is None else self._state) | {"running": self.running.copy()}

    def load_state(self, arrays):
        self.close()
        self.loop, self._state, self.running = None, dict(arrays), np.array(arrays["running"])


def draw(rng, *shape):
    """Draw the random numbers for steps of games: food, start, heading.  -> i32[*shape, 3]"""
    return rng.integers(DRAWS, size=(*shape, 3), dtype=np.int32)


def play_at_random(config, rng):
    """Play the warm-up; return the games' state, the stored columns, and return and length of running episodes."""
    games, running = VectorisedEnvs(config.num_envs, config.geometry), np.zeros((2, config.num_envs))
    games.env.reset_with(draw(rng, config.num_envs))
    obs, steps = games.observe(), []
    for _ in range(-(-config.warm_up // config.num_envs)):
        actions = rng.integers(ACTIONS, size=config.num_envs).astype(np.int32)
        next_obs, rewards, terminated, truncated, final_obs = games.advance(actions, draw(rng, config.num_envs))
        steps.append((obs, actions, rewards, final_obs, terminated))
        finished(running, rewards[None], (terminated | truncated)[None])
        obs = next_obs
    columns = zip(*steps)
    return games.get_state(), [np.concatenate(column).astype(dtype) for column, dtype in zip(columns, DTYPES)], running


def draw_chunk(config, rng, step):
    """Draw the arguments of the loop for a chunk that begins at `step`.

    Each batch is sampled without replacement.

    -> explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B]
    """
    shape, train_frequency = (config.num_steps, config.num_envs), config.train_frequency
    explore = rng.random(shape) < epsilon(step + np.arange(config.num_steps) * config.num_envs)[:, None]
    random_actions = rng.integers(ACTIONS, size=shape).astype(np.int32)
    updates_at = np.arange(train_frequency, explore.size + 1, train_frequency)
    played = -(updates_at // -config.num_envs) * config.num_envs  # before each update
    stored = np.minimum(config.warm_up + step + played, config.capacity)  # the warm-up may have stored up to N - 1 more
    rows = np.array([rng.choice(count, config.batch_size, replace=False) for count in stored])
    return explore, random_actions, draw(rng, *shape), rows


def play(config, weights, episodes, seed):
    """Play `episodes` games side by side with the greedy policy of `weights`, on the configuration's backend."""
    backend = backends.get(config.backend)
    rng = np.random.default_rng(seed)
    games = VectorisedEnvs(episodes, config.geometry)
    games.env.reset_with(draw(rng, episodes))
    obs = games.observe()
    never, none = np.zeros(episodes, bool), np.zeros(episodes, np.int32)
    ops, compiler = backend.ops("snake"), backend.new_compiler()
    act = ops.act({"params": weights}, (obs, never, none), options=config.options, compiler=compiler)
    foods, lengths, returns, playing = np.zeros(episodes, int), np.zeros(episodes, int), np.zeros(episodes), ~never
    while playing.any():
        obs, rewards, terminated, truncated, _ = games.advance(act(obs, never, none), draw(rng, episodes))
        foods += playing & (rewards > 0)
        lengths += playing
        returns += np.where(playing, rewards, 0)
        playing &= ~(terminated | truncated)
    return {"foods": foods, "returns": returns, "lengths": lengths}
