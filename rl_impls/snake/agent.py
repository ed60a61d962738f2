"""The DQN agent: learns, evaluates, and saves and loads checkpoints."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from .. import backends, params
from ..common import checkpoint
from ..common.checks import check_changes, check_fields, check_integer
from ..common.episodes import finished, mean
from .env import ACTIONS, DRAWS
from .memory import DTYPES, FIELDS
from .spec import Geometry
from .vector_env import VectorisedEnvs

RUNNING = "agent.running"  # return and length so far of each running episode, f64[2, N]
PARTS = ("online", "target", "first", "second")  # both networks and Adam's moments
CHUNK = 256  # environment steps per call of the loop, at least one of each environment
EXPLORED = 20_000  # environment steps over which epsilon decays
EPSILON_START, EPSILON_END = 1.0, 0.05


@dataclass(frozen=True)
class Config:
    """Configuration of a DQN agent; the seed is passed separately.

    Attributes:
        backend: backend that computes; ``auto`` selects the best one available.
        form: named set of optimisations.
        envs: number of parallel environments.
        every: environment steps between updates.
        batch: minibatch size in transitions.
        hidden: width of both hidden layers.
        learning_rate: learning rate of Adam.
        gamma: discount factor.
        gradient_norm: maximum norm of the gradient, which is clipped to it.
        capacity: capacity of the replay buffer in transitions.
        warm_up: random environment steps before learning starts.
        target_every: environment steps between copies of the online weights to the target network; 0 uses the online
            network for the TD target.
        max_steps: environment steps after which an episode is truncated.
    """

    backend: str = "torch"
    form: str = "full"
    envs: int = 1
    every: int = 4
    batch: int = 32
    hidden: int = 256
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gradient_norm: float = 10.0
    capacity: int = 10_000
    warm_up: int = 1_000
    target_every: int = 1_000
    max_steps: int = 500

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        backends.choose("form", self.form, backends.forms("snake"))
        counts = dict.fromkeys(("envs", "every", "batch", "hidden", "max_steps"), (1,))
        check_fields(self, **counts, target_every=(0,), learning_rate=(0,), gamma=(0, 1), gradient_norm=(0,))
        check_fields(self, capacity=(self.batch,))
        check_fields(self, warm_up=(self.batch, self.capacity, ", the batch and the capacity"))
        _ = self.options  # validates every and batch

    @property
    def options(self):
        """The form's options, with ``every`` and ``batch`` of this configuration."""
        return replace(backends.forms("snake")[self.form], every=self.every, batch=self.batch)

    @property
    def geometry(self):
        """Board and start of the snake."""
        return Geometry(max_steps=self.max_steps)

    @property
    def sizes(self):
        """Widths of all layers, from input to output."""
        return (self.geometry.cells, self.hidden, self.hidden, ACTIONS)

    @property
    def weights(self):
        """Number of weights in the network."""
        return params.count_mlp(self.sizes)


def epsilon(step):
    """Exploration rate after ``step`` environment steps, decaying linearly from 1 to 0.05.  int[...] -> f[...]"""
    return np.maximum(EPSILON_END, EPSILON_START - (EPSILON_START - EPSILON_END) * step / EXPLORED)


class SnakeAgent:
    """Learns to play Snake with a DQN.

    ``SnakeAgent("jax", "compiled", seed=0, envs=64)``

    Args:
        backend: backend that computes, or ``auto``.
        form: named set of optimisations, a key of :data:`.options.FORMS`.
        seed: seeds the initial weights, games, exploration and minibatches.
        config: remaining fields of :class:`Config`.

    Raises:
        ValueError: an invalid argument, here or in a method; the agent is left unchanged.
        BackendUnavailable: the backend cannot run on this machine.
    """

    UNIT = "environment steps"

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self.config = Config(backend, form, **config)
        self.rng = np.random.default_rng(seed)
        weights = params.init_mlp(self.rng, self.config.sizes)
        self.loop = self._build(weights, *self._play_at_random())
        self.step, self.running = 0, np.zeros((2, self.config.envs))

    def _play_at_random(self):
        """Play the warm-up; return the games' state and the columns of the stored transitions."""
        config = self.config
        games = VectorisedEnvs(config.envs, config.geometry)
        games.env.reset_with(self._draws(1)[0])
        obs, steps = games.observe(), []
        for _ in range(-(-config.warm_up // config.envs)):
            actions = self.rng.integers(ACTIONS, size=config.envs).astype(np.int32)
            after, rewards, terminated, _, final_obs = games.advance(actions, self._draws(1)[0])
            steps.append((obs, actions, rewards, final_obs, terminated))
            obs = after
        columns = zip(*steps)
        return games.get_state(), [np.concatenate(column).astype(dtype) for column, dtype in zip(columns, DTYPES)]

    def _draws(self, steps):
        return self.rng.integers(DRAWS, size=(steps, self.config.envs, 3), dtype=np.int32)

    def _build(self, weights, env_state, stored):
        config = self.config
        names = ("learning_rate", "gamma", "gradient_norm", "capacity", "target_every")
        spec = {name: getattr(config, name) for name in names} | {"geometry": vars(config.geometry)}
        spec |= {"params": weights, "target": weights, "env_state": env_state, "stored": stored, "step": 0}
        steps = self._steps
        example = (
            np.zeros((steps, config.envs), bool), np.zeros((steps, config.envs), np.int32),
            np.zeros((steps, config.envs, 3), np.int32),
            np.zeros((steps * config.envs // config.every, config.batch), np.int64),
        )  # fmt: skip
        return backends.get(config.backend).build("snake", "collect_and_learn", spec, example, config.options)

    @property
    def _steps(self):
        """Steps of each environment per call of the loop."""
        return max(1, CHUNK // self.config.envs)

    @property
    def chunk(self):
        """Environment steps per call of :meth:`learn`, over all environments."""
        return self._steps * self.config.envs

    @property
    def params(self):
        """The online weights as NumPy: ``w{k}`` f32[I, O], ``b{k}`` f32[O]."""
        return self.loop.params

    def learn(self):
        """Play one chunk of environment steps and make the updates that are due.

        Returns:
            ``return`` and ``length``: means over the episodes that ended in this chunk, nan if none did; ``foods`` and
            ``episodes``: counts in this chunk; ``loss``: mean over its updates.
        """
        config, steps = self.config, self._steps
        at = self.step + np.arange(steps) * config.envs
        explore = self.rng.random((steps, config.envs)) < epsilon(at)[:, None]
        moves = self.rng.integers(ACTIONS, size=(steps, config.envs)).astype(np.int32)
        known = config.warm_up + self.step  # a lower bound: the warm-up ends with a step of all environments
        played = -(np.arange(config.every, self.chunk + 1, config.every) // -config.envs) * config.envs
        stored = np.minimum(known + played, config.capacity)
        rows = np.array([self.rng.choice(count, config.batch, replace=False) for count in stored])
        _, rewards, ended, losses = self.loop(explore, moves, self._draws(steps), rows)
        self.step += self.chunk
        returns, lengths = finished(self.running, rewards, ended)
        return {
            "return": mean(returns), "length": mean(lengths), "foods": int((rewards > 0).sum()),
            "episodes": len(returns), "loss": float(losses.mean()),
        }  # fmt: skip

    def evaluate(self, episodes, seed):
        """Play `episodes` games side by side with the greedy policy; `seed` sets the games.

        Returns ``foods`` i64[episodes], ``returns`` f64[episodes] and ``lengths`` i64[episodes] in environment steps.
        """
        return play(self.config, self.params, check_integer("episodes", episodes, 1), seed)

    def close(self):
        """Stop the threads and processes of the loop."""
        self.loop.close()

    def save(self, path):
        """Write a checkpoint atomically: weights, moments, replay buffer, games, random state and configuration."""
        checkpoint.save(path, self, self.loop.state() | {RUNNING: self.running})

    @classmethod
    def load(cls, path, **changes):
        """Load an agent that continues bit for bit where the saved one stopped.

        `changes` may replace ``backend`` and ``form``.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
            ValueError: another field is changed, or the backend or form is unknown.
        """
        check_changes(changes)
        config, state, rng, step = checkpoint.read(path, Config, outline)
        agent = cls.__new__(cls)
        agent.config, agent.rng, agent.step = replace(config, **changes), rng, step
        agent.running = state.pop(RUNNING, np.zeros((2, config.envs)))
        weights = {k.removeprefix("train.online."): v for k, v in state.items() if k.startswith("train.online.")}
        env_state = {k.removeprefix("env."): v for k, v in state.items() if k.startswith("env.")}
        agent.loop = agent._build(weights, env_state, [state[f"memory.{name}"] for name in FIELDS])
        agent.loop.load_state(state)
        return agent


def outline(config, arrays):
    """Return memory-free arrays of the names, shapes and dtypes that a checkpoint with these `arrays` must have."""
    stored = min(len(arrays["memory.obs"]), config.capacity)
    shapes = {}
    for k, (fan_in, fan_out) in enumerate(itertools.pairwise(config.sizes)):
        shapes |= {f"w{k}": (fan_in, fan_out), f"b{k}": (fan_out,)}
    zeros = {f"train.{part}.{n}": np.broadcast_to(np.float32(0), s) for part in PARTS for n, s in shapes.items()}
    board, envs = (config.geometry.cells,), (config.envs,)
    trailing = (board, (), (), board, ())
    zeros |= {
        f"memory.{name}": np.broadcast_to(dtype(0), (stored, *shape))
        for name, dtype, shape in zip(FIELDS, DTYPES, trailing)
    }
    zeros |= {f"env.{n}": np.broadcast_to(np.int64(0), envs) for n in ("head", "heading", "length", "food", "steps")}
    zeros["env.lifetimes"] = np.broadcast_to(np.float32(0), (*envs, *board))
    if RUNNING in arrays:  # older checkpoints lack it
        zeros[RUNNING] = np.broadcast_to(0.0, (2, *envs))
    return zeros | {"train.step": np.array(0, np.int32), "loop.step": np.array(0)}


def play(config, weights, episodes, seed):
    """Play `episodes` games side by side with the greedy policy of `weights`, on the configuration's backend."""
    backend = backends.get(config.backend)
    rng = np.random.default_rng(seed)
    games = VectorisedEnvs(episodes, config.geometry)

    def draws():
        return rng.integers(DRAWS, size=(episodes, 3), dtype=np.int32)

    games.env.reset_with(draws())
    obs = games.observe()
    never, none = np.zeros(episodes, bool), np.zeros(episodes, np.int32)
    example = tuple(map(backend.to_device, (obs, never, none)))
    act = backend.build("snake", "act", {"params": weights}, example, config.options)
    foods, lengths, returns, playing = np.zeros(episodes, int), np.zeros(episodes, int), np.zeros(episodes), ~never
    while playing.any():
        obs, rewards, terminated, truncated, _ = games.advance(act(obs, never, none), draws())
        foods += playing & (rewards > 0)
        lengths += playing
        returns += np.where(playing, rewards, 0)
        playing &= ~(terminated | truncated)
    return {"foods": foods, "returns": returns, "lengths": lengths}
