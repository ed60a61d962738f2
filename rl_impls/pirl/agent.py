"""The physics-informed Q-agent: acts, learns, evaluates, and saves and loads checkpoints."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from .. import backends, params
from ..common.batching import BatchGrid
from ..common.checks import check_changes, check_fields, check_integer, check_number
from ..common.episodes import mean
from ..common.replay import Replay
from .env import PirlEnv, sample_points
from .physics import ACTIONS, STATES

TRAINS = ("eager", "compile", "jit")  # lowerings that support gradients
PARTS = ("online", "target", "first", "second")  # both networks and Adam's moments
REPLAY, METADATA = "replay.", ("config", "rng", "updates", "step")
EPISODE = "env.state"  # saved only while an episode is running
CHUNK = 256  # environment steps per call of learn()
GRID = BatchGrid(2**k for k in range(11))  # batch sizes, 1 to 1024 rows, that nets are compiled for


@dataclass(frozen=True)
class Config:
    """Configuration of an agent; the seed is passed separately.

    Attributes:
        backend: backend that computes; ``auto`` selects the best one available.
        form: named set of optimisations.
        hidden: widths of the hidden layers.
        order: 2 includes the diffusion term in the PDE residual, 1 leaves it out.
        learning_rate: learning rate of Adam.
        batch: minibatch size in transitions.
        points: number of points of each kind in an update.
        pde_weight: weight of the squared PDE residual in the loss.
        boundary_weight: weight of the boundary terms in the loss.
        sync_every: updates between copies of the online weights to the target network.
        capacity: capacity of the replay buffer in transitions.
        every: environment steps between updates.
        warm_up: environment steps before the first update.
        epsilon_start: exploration rate at the first environment step.
        epsilon_end: final exploration rate.
        epsilon_steps: environment steps over which the exploration rate decays linearly.
    """

    backend: str = "torch"
    form: str = "full"
    hidden: tuple[int, ...] = (32, 32, 32)
    order: int = 2
    learning_rate: float = 5e-4
    batch: int = 256
    points: int = 32
    pde_weight: float = 1e-4
    boundary_weight: float = 1.0
    sync_every: int = 100
    capacity: int = 50_000
    every: int = 1
    warm_up: int = 1_000
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    epsilon_steps: int = 10_000

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        backends.choose("form", self.form, backends.forms("pirl"))
        counts = dict.fromkeys(("hidden", "points", "sync_every", "capacity", "every", "epsilon_steps"), (1,))
        weights = dict.fromkeys(("learning_rate", "pde_weight", "boundary_weight"), (0,))
        shares = dict.fromkeys(("epsilon_start", "epsilon_end"), (0, 1))
        check_fields(self, **counts, **weights, **shares, order=(1, 2), warm_up=(0,))
        check_fields(self, batch=(1, self.capacity, ", the capacity"))

    @property
    def sizes(self):
        """Widths of all layers, from input to output."""
        return (STATES, *self.hidden, ACTIONS)

    @property
    def weights(self):
        """Number of weights in the network."""
        return params.count_mlp(self.sizes)


def fresh_state(weights):
    """Return the state before the first update: both networks equal, and zero moments that take no memory."""
    zeros = {name: np.broadcast_to(np.float32(0), value.shape) for name, value in weights.items()}
    trees = dict(zip(PARTS, (weights, weights, zeros, zeros)))
    state = {f"{part}.{name}": value for part, tree in trees.items() for name, value in tree.items()}
    return state | {"step": np.array(0, np.int32)}


def outline(sizes):
    """Return zero weights that take no memory, so that a checkpoint is checked before its arrays are allocated."""
    shapes = {}
    for k, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        shapes |= {f"w{k}": (fan_in, fan_out), f"b{k}": (fan_out,)}
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}


def checked(name, states, shape):
    """Return a copy of `states` after checking that it is finite float32 of `shape` (-1: one or more rows)."""
    wanted = f"wanted float32{list(shape)}".replace("-1", "B >= 1")
    if not isinstance(states, np.ndarray):
        raise ValueError(f"{name}: got {type(states).__name__}, {wanted}")
    fits = states.ndim == len(shape) and states.shape[-1] == shape[-1] and states.size
    if states.dtype != np.float32 or not fits:
        raise ValueError(f"{name}: got {states.dtype}{list(states.shape)}, {wanted}")
    bad = np.argwhere(~np.isfinite(states))
    if len(bad):
        where = tuple(bad[0].tolist())
        raise ValueError(f"{name}: got {states[where]} at {list(where)}, wanted finite numbers")
    return np.array(states)


class PirlAgent:
    """Learns ``Q(s, a)``, the probability of staying on the road until the horizon runs out.

    ``PirlAgent("torch", "full", seed=0, hidden=(32, 32, 32))``

    Args:
        backend: backend that computes, or ``auto``.
        form: named set of optimisations, a key of :data:`.options.FORMS`.
        seed: seeds the initial weights, episodes, exploration, minibatches and PDE points.
        config: remaining fields of :class:`Config`.

    Raises:
        ValueError: an invalid argument, here or in a method; the agent is left unchanged.
        BackendUnavailable: the backend cannot run on this machine; raised on its first use.
    """

    UNIT = "environment steps"
    chunk = CHUNK

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self.config = Config(backend, form, **config)
        self.backend = backends.get(self.config.backend)
        self.options = replace(backends.forms("pirl")[form], order=self.config.order)
        self.rng = np.random.default_rng(seed)
        self.env = PirlEnv()
        self.env.np_random = self.rng
        self.step = self.updates = 0
        row = np.zeros(STATES, np.float32)
        self.replay = Replay(
            self.config.capacity,
            state=row, action=np.int32(0), reward=np.float32(0), next_state=row, terminated=np.float32(0),
        )  # fmt: skip
        self._take(fresh_state(params.init_mlp(self.rng, self.config.sizes)))

    def _take(self, state):
        """Adopt a state; networks and the train step are rebuilt when next needed."""
        self._state, self._train_step = state, None
        self._nets, self._behind = {}, set()

    def state(self):
        """Return both networks and Adam's moments and step as a flat dict of NumPy arrays."""
        return self._train_step.state() if self._train_step else self._state

    @property
    def params(self):
        """The online weights as NumPy: ``w{k}`` f32[I, O], ``b{k}`` f32[O]."""
        if self._train_step:
            return self._train_step.params
        prefix = "online."
        return {k.removeprefix(prefix): v.copy() for k, v in self._state.items() if k.startswith(prefix)}

    def get_qs(self, state):
        """Q-values of one state.  f32[16] -> f32[25]"""
        return self._forward(checked("state", state, (STATES,))[None])[0]

    def get_qs_batch(self, states):
        """Q-values of a batch of states.  f32[B, 16] -> f32[B, 25]"""
        return self._forward(checked("states", states, (-1, STATES)))

    def _forward(self, states):
        """Return the Q-values; batches for compiled networks are padded to the sizes of ``GRID``."""
        if self.backend.compile == "eager":  # takes batches of any size
            return self._call_net(None, states)
        outs = []
        for start, stop, size in GRID.chunks(len(states)):
            rows = states[start:stop]
            batch = rows if len(rows) == size else np.resize(rows, (size, STATES))  # padded with repeated rows
            outs.append(self._call_net(size, batch)[: len(rows)])
        return outs[0] if len(outs) == 1 else np.concatenate(outs)

    def _call_net(self, size, states):
        if size not in self._nets:
            spec, example = {"params": self.params}, (self.backend.to_device(states),)
            self._nets[size] = self.backend.build("pirl", "forward", spec, example, self.options)
        elif size in self._behind:
            self._nets[size].load(self.params)
        self._behind.discard(size)
        return np.array(self.backend.to_host(self._nets[size](self.backend.from_host(states))))

    def act(self, state, epsilon):
        """Return an epsilon-greedy action for one state, f32[16]; epsilon is from 0 to 1."""
        state = checked("state", state, (STATES,))
        check_number("epsilon", epsilon, 0, 1)
        if self.rng.random() < epsilon:
            return int(self.rng.integers(ACTIONS))
        return int(self.get_qs(state).argmax())

    def remember(self, state, action, reward, next_state, terminated):
        """Store a transition in the replay buffer.

        Args:
            state: f32[16].
            action: 0 to 24.
            reward: reward of the step.
            next_state: f32[16].
            terminated: whether the episode ended, so that ``next_state`` is not bootstrapped from.
        """
        state, next_state = checked("state", state, (STATES,)), checked("next_state", next_state, (STATES,))
        check_integer("action", action, 0, ACTIONS - 1)
        check_number("reward", reward)
        if not isinstance(terminated, bool | np.bool_):
            raise ValueError(f"terminated: got {terminated!r}, wanted a bool")
        self.replay.push(state=state, action=action, reward=reward, next_state=next_state, terminated=terminated)

    @property
    def epsilon(self):
        """Exploration rate at the current environment step."""
        start, end = self.config.epsilon_start, self.config.epsilon_end
        return start + (end - start) * min(1.0, self.step / self.config.epsilon_steps)

    def learn(self):
        """Drive for one chunk of environment steps, continuing the current episode, and make the updates that are due.

        Returns:
            ``return``: mean over the episodes that ended in this chunk, nan if none did; ``episodes``: their number;
            ``safe``: how many of them stayed on the road; ``updates``: number of updates; ``loss``: its mean over them,
            nan if there were none.

        Raises:
            OpUnavailable: the backend is for inference only.
        """
        self.prepare()
        episodes, safe, losses = 0, 0, []
        for _ in range(self.chunk):
            reward, terminated = self._drive()
            episodes, safe = episodes + terminated, safe + int(reward)
            if self.step >= self.config.warm_up and self.step % self.config.every == 0:
                losses.append(self.train())
        made = [loss for loss in losses if loss is not None]
        return {
            "return": safe / episodes if episodes else math.nan, "episodes": episodes, "safe": safe,
            "updates": len(made), "loss": mean(made),
        }  # fmt: skip

    def _drive(self):
        """Make one environment step, starting a new episode if needed, and store the transition."""
        if not self.env.running:
            self.env.reset()
        state = self.env.observation()
        action = self.act(state, self.epsilon)
        next_state, reward, terminated, _, _ = self.env.step(action)
        self.remember(state, action, reward, next_state, terminated)
        self.step += 1
        return reward, terminated

    def evaluate(self, episodes, seed):
        """Drive `episodes` episodes in parallel with the greedy policy; `seed` sets their starts and noise.

        Returns:
            ``returns`` f64[episodes]: 1 if the car stayed on the road until the horizon ran out, else 0;
            ``lengths`` i64[episodes]: environment steps; ``predicted`` f32[episodes]: ``max_a Q`` of the first state,
            whose mean equals the mean return if the estimates are right.
        """
        seeds = np.random.default_rng(seed).integers(2**31, size=check_integer("episodes", episodes, 1))
        envs = [PirlEnv() for _ in seeds]
        states = np.array([env.reset(seed=int(number))[0] for env, number in zip(envs, seeds)])
        predicted = self.get_qs_batch(states).max(axis=1)
        returns, lengths = np.zeros(episodes), np.zeros(episodes, int)
        while any(env.running for env in envs):
            for k, action in enumerate(self.get_qs_batch(states).argmax(axis=1)):
                if envs[k].running:
                    states[k], reward, *_ = envs[k].step(action)
                    returns[k] += reward
                    lengths[k] += 1
        return {"returns": returns, "lengths": lengths, "predicted": predicted}

    def close(self):
        """Close the environment."""
        self.env.close()

    def train(self):
        """Make one update and return the loss before it, or None until the replay buffer has a full minibatch.

        The target network takes the online weights every ``sync_every`` updates.
        """
        if len(self.replay) < self.config.batch:
            return None
        self.prepare()
        batch = self.replay.sample(self.rng, self.config.batch).values()
        points = sample_points(self.rng, self.config.points)
        loss = self._train_step(*map(self.backend.from_host, (*batch, *points)))
        self.updates += 1
        if self.updates % self.config.sync_every == 0:
            self._train_step.sync_target()
        self._behind.update(self._nets)
        return float(self.backend.to_host(loss))

    def prepare(self):
        """Build the train step; raise OpUnavailable if the backend is for inference only."""
        if self._train_step:
            return
        if self.backend.compile not in TRAINS:
            raise backends.OpUnavailable(f"pirl has no op 'train_step' on {self.backend.name}: it is for inference")
        spec = {
            "params": self.params,
            "target": self.params,
            "dynamics": "vehicle",
            "learning_rate": self.config.learning_rate,
            "pde_weight": self.config.pde_weight,
            "boundary_weight": self.config.boundary_weight,
        }
        batch = [np.zeros((self.config.batch, *field.shape[1:]), field.dtype) for field in self.replay.fields.values()]
        points = [np.zeros((self.config.points, STATES), np.float32)] * 3
        example = tuple(map(self.backend.to_device, (*batch, *points)))
        step = self.backend.build("pirl", "train_step", spec, example, self.options)
        step.load_state(self._state)
        self._train_step = step

    def save(self, path):
        """Write a checkpoint atomically: state, replay buffer, running episode, random state and configuration."""
        arrays = self.state() | {REPLAY + name: value for name, value in self.replay.arrays().items()}
        if self.env.running:
            arrays[EPISODE] = self.env.state
        values = (asdict(self.config), self.rng.bit_generator.state, self.updates, self.step)
        params.save(path, arrays, **{name: json.dumps(value) for name, value in zip(METADATA, values)})

    @classmethod
    def load(cls, path, **changes):
        """Load an agent that continues bit for bit where the saved one stopped.

        `changes` may replace ``backend`` and ``form``. An older checkpoint without an episode and a step count starts
        with a new episode at step 0.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
            ValueError: another field is changed, or the backend or form is unknown.
        """
        check_changes(changes)
        Config(**changes)
        arrays, metadata = params.load_with_metadata(path)
        stored = {name.removeprefix(REPLAY): arrays.pop(name) for name in list(arrays) if name.startswith(REPLAY)}
        episode = arrays.pop(EPISODE, None)
        try:
            config, rng, updates, step = (json.loads(({"step": "0"} | metadata)[name]) for name in METADATA)
            state = params.match(path, arrays, fresh_state(outline(Config(**config).sizes)))
            agent = cls(**config | changes, seed=0)
            agent.replay.restore(stored)
            agent.rng.bit_generator.state = rng
            agent.updates, agent.step = int(updates), int(step)
            if episode is not None:
                agent.env.reset(options={"state": episode})
        except params.CheckpointError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise params.CheckpointError(f"{path}: not a checkpoint of this agent ({error!r})") from error
        agent._take(state)
        return agent
