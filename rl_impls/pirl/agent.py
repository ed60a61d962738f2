"""The physics-informed Q-agent: acts, remembers, learns, and is saved and resumed."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from .. import backends, params
from ..common.replay import Replay
from .env import sample_points
from .physics import ACTIONS, STATES

TRAINS = ("eager", "compile", "jit")  # lowerings through which a gradient can be taken
PARTS = ("online", "target", "first", "second")  # both nets and Adam's moments
REPLAY, METADATA = "replay.", ("config", "rng", "updates")


@dataclass(frozen=True)
class Config:
    """Everything an agent is made of but its seed.

    Attributes:
        backend: name of the backend that computes; for ``auto`` it becomes that of the best one here.
        form: named setting of the knobs.
        hidden: widths of the hidden layers.
        order: 2 computes the diffusion in the PDE residual, 1 leaves it out.
        learning_rate: of Adam.
        batch: transitions in an update.
        points: points of each kind in an update.
        pde_weight: of the squared PDE residual in the loss.
        boundary_weight: of the boundary terms in the loss.
        sync_every: updates from one copy of the target to the next.
        capacity: transitions the replay keeps.
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

    def __post_init__(self):
        """Raise a ValueError for a value that makes no sense."""
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        backends.choose("form", self.form, backends.forms("pirl"))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        counts = [(name, getattr(self, name)) for name in ("order", "batch", "points", "sync_every", "capacity")]
        for name, value in counts + [("hidden", width) for width in self.hidden]:
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: got {value!r}, wanted integers of 1 or more")
        if self.batch > self.capacity:
            raise ValueError(f"batch: got {self.batch}, wanted at most the capacity, {self.capacity}")
        for name in ("learning_rate", "pde_weight", "boundary_weight"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: got {value}, wanted a finite number of 0 or more")

    @property
    def sizes(self):
        """Widths of all layers."""
        return (STATES, *self.hidden, ACTIONS)


def fresh_state(weights):
    """What an update depends on before the first one: both nets alike, no moments (views of one zero)."""
    zeros = {name: np.broadcast_to(np.float32(0), value.shape) for name, value in weights.items()}
    trees = dict(zip(PARTS, (weights, weights, zeros, zeros)))
    state = {f"{part}.{name}": value for part, tree in trees.items() for name, value in tree.items()}
    return state | {"step": np.array(0, np.int32)}


def outline(sizes):
    """Weights without memory of their own: a file that asks for too much is refused before that is allocated."""
    shapes = {}
    for k, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        shapes |= {f"w{k}": (fan_in, fan_out), f"b{k}": (fan_out,)}
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}


def checked(name, states, shape):
    """Return a copy of finite float32 states of this shape (-1: one or more rows), or raise a ValueError."""
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


def is_integer(value, stop):
    """Say whether ``value`` is an integer in [0, stop)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < stop


class PirlAgent:
    """Learns ``Q(s, a)``, the probability of staying on the road until the horizon runs out.

    ``PirlAgent("torch", "full", seed=0, hidden=(32, 32, 32))``; the keywords are those of :class:`Config`. All that is
    random (weights, exploration, batches, points) comes from the seed.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
        BackendUnavailable: when the backend, which cannot run on this machine, is first used.
    """

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self.config = Config(backend, form, **config)
        self.backend = backends.get(self.config.backend)
        self.knobs = replace(backends.forms("pirl")[form], order=self.config.order)
        self.rng = np.random.default_rng(seed)
        self.updates = 0
        row = np.zeros(STATES, np.float32)
        self.replay = Replay(
            self.config.capacity,
            state=row, action=np.int32(0), reward=np.float32(0), next_state=row, terminated=np.float32(0),
        )  # fmt: skip
        self._take(fresh_state(params.init_mlp(self.rng, self.config.sizes)))

    def _take(self, state):
        """Go on from a state; nets and the train step are built when they are needed."""
        self._state, self._train_step = state, None
        self._nets, self._behind = {}, set()

    def state(self):
        """Return both nets, Adam's moments and step as a flat dict of NumPy arrays."""
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
        size = len(states)
        if size not in self._nets:
            spec, example = {"params": self.params}, (self.backend.to_device(states),)
            self._nets[size] = self.backend.build("pirl", "forward", spec, example, self.knobs)
        elif size in self._behind:
            self._nets[size].load(self.params)
        self._behind.discard(size)
        return np.array(self.backend.to_host(self._nets[size](self.backend.from_host(states))))

    def act(self, state, epsilon):
        """Epsilon-greedy: with probability ``epsilon`` any action, else ``argmax_a Q(s, a)``.  f32[16] -> int"""
        state = checked("state", state, (STATES,))
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon: got {epsilon}, wanted 0 to 1")
        if self.rng.random() < epsilon:
            return int(self.rng.integers(ACTIONS))
        return int(self.get_qs(state).argmax())

    def remember(self, state, action, reward, next_state, terminated):
        """Store a transition: f32[16], int, float, f32[16], bool."""
        state, next_state = checked("state", state, (STATES,)), checked("next_state", next_state, (STATES,))
        if not is_integer(action, ACTIONS):
            raise ValueError(f"action: got {action!r}, wanted an integer from 0 to {ACTIONS - 1}")
        if not math.isfinite(reward):
            raise ValueError(f"reward: got {reward}, wanted a finite number")
        if not isinstance(terminated, bool | np.bool_):
            raise ValueError(f"terminated: got {terminated!r}, wanted a bool")
        self.replay.push(state=state, action=action, reward=reward, next_state=next_state, terminated=terminated)

    def train(self):
        """Make one update; every ``sync_every`` updates the target takes the online weights.

        Returns:
            The loss before the update, or None until a batch is stored.

        Raises:
            OpUnavailable: the backend is for inference only.
        """
        if len(self.replay) < self.config.batch:
            return None
        self._build_train_step()
        batch = self.replay.sample(self.rng, self.config.batch).values()
        points = sample_points(self.rng, self.config.points)
        loss = self._train_step(*map(self.backend.from_host, (*batch, *points)))
        self.updates += 1
        if self.updates % self.config.sync_every == 0:
            self._train_step.sync_target()
        self._behind.update(self._nets)
        return float(self.backend.to_host(loss))

    def _build_train_step(self):
        if self._train_step:
            return
        if self.backend.lowering not in TRAINS:
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
        step = self.backend.build("pirl", "train_step", spec, example, self.knobs)
        step.load_state(self._state)
        self._train_step = step

    def save(self, path):
        """Write a checkpoint, whole or not at all: weights, moments, replay, random state and configuration."""
        arrays = self.state() | {REPLAY + name: value for name, value in self.replay.arrays().items()}
        values = (asdict(self.config), self.rng.bit_generator.state, self.updates)
        params.save(path, arrays, **{name: json.dumps(value) for name, value in zip(METADATA, values)})

    @classmethod
    def load(cls, path, backend=None):
        """Return the agent of a checkpoint, which goes on bit for bit; on ``backend`` where one is named.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
        """
        backend = backend and backends.resolve(backend)
        arrays, metadata = params.load_with_metadata(path)
        stored = {name.removeprefix(REPLAY): arrays.pop(name) for name in list(arrays) if name.startswith(REPLAY)}
        try:
            config, rng, updates = (json.loads(metadata[name]) for name in METADATA)
            wanted = Config(**config)
            state = params.match(path, arrays, fresh_state(outline(wanted.sizes)))
            agent = cls(**config | {"backend": backend or wanted.backend}, seed=0)
            agent.replay.restore(stored)
            agent.rng.bit_generator.state = rng
            agent.updates = int(updates)
        except params.CheckpointError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise params.CheckpointError(f"{path}: not a checkpoint of this agent ({error!r})") from error
        agent._take(state)
        return agent
