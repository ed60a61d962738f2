"""A3C (Mnih et al. 2016, Algorithm S3), with worker processes that share weights without locks.

A worker copies the shared weights, plays T steps of its environments, computes a gradient on its copy, and applies it
to the shared weights by RMSProp with shared mean squares. The staleness of a gradient is the number of gradients that
other workers have applied since the copy.

Axes: A workers, N environments of all of them, D rollouts in memory, one more than ``ahead``.
"""

import numpy as np
import torch

from ..common.phases import Phases
from ..common.torch_pictures import OIHW
from ._torch import rmsprop
from .actor_pool import ActorPool, rollout_of
from .actors import Actor
from .learners import PARTS, A2c
from .parallel import PoolLoop, first_state

PHASES = ("publishing", "environment", "inference", "gathering", "advantages", "learning")  # of a worker


class Worker(Actor):
    """Worker process of A3C; ``shared`` as in :class:`SharedWeights`, ``args`` go to :class:`.actors.Actor`."""

    def __init__(self, shared, *args):
        self.shared, self.clock = shared, Phases(*PHASES)
        super().__init__(*args)

    def make_policy(self, obs, options, backend):
        """Build the learner on the worker's copy of the weights, and return its policy."""
        names, shared = self.config["params"], self.shared
        self.learner = A2c(self.config, options, backend, self.clock)
        self.update = self.learner.update
        self.update.optimizer = SharedRmsprop(
            own=[self.update.net.weights[name] for name in names],
            shared=[as_parameter(shared[name][0]) for name in names],
            squares=[as_parameter(shared[f"square.{name}"]) for name in names],
            make=rmsprop(self.config, options)[0],
            count=self.count,
        )
        return self.update.policy(obs)

    def play(self, number):
        """Play rollout ``number`` with a copy of the shared weights, and apply its gradient to them."""
        self.clock.reset()
        shared, slot = self.shared, number % len(self.shared["behind"])
        self.copied = int(shared["applied"].sum())
        self.update.load({name: shared[name][0] for name in self.config["params"]})
        self.clock("publishing")
        rollout = rollout_of(shared, slot, self.slice)
        self.play_into(number, rollout)
        [shared["losses"][slot, self.index]] = self.learner.learn(rollout, number)
        shared["behind"][slot, self.index] = self.staleness
        shared["seconds"][self.index] += list(self.clock.seconds.values())

    def count(self):
        """Record a gradient's staleness and count it as applied."""
        applied = self.shared["applied"]
        self.staleness = int(applied.sum()) - self.copied
        applied[self.index] += 1


class SharedRmsprop:
    """Optimiser that applies the gradients of a worker's own weights to the shared weights.

    ``shared`` and ``squares`` are tensors that view the shared weights and mean squares, in the layout of the worker's
    ``own`` parameters. ``make(tensors)`` returns a torch optimiser; ``count()`` is called after each step.
    """

    def __init__(self, own, shared, squares, make, count):
        self.own, self.shared, self.count = own, shared, count
        self.optimizer = make(shared)
        for tensor, square in zip(shared, squares):
            self.optimizer.state[tensor] = {"step": torch.tensor(0.0), "square_avg": square}

    def zero_grad(self, set_to_none):
        """Clear the worker's gradients, to None or to zeros."""
        for tensor in self.own:
            if set_to_none:
                tensor.grad = None
            elif tensor.grad is not None:
                tensor.grad.zero_()

    def step(self):
        """Step the shared weights by the worker's gradients."""
        for own, shared in zip(self.own, self.shared):
            shared.grad = own.grad
        self.optimizer.step()
        self.count()


def as_parameter(array):
    """Return a tensor that shares an f32 array's memory, permuted to the layout of a parameter."""
    tensor = torch.from_numpy(array)
    return tensor.permute(OIHW) if tensor.dim() == 4 else tensor


class SharedWeights:
    """The shared weights and mean squares, with the interface of :class:`~rl_impls.common.torch_learner.Trained`.

    ``shared`` is the memory of an :class:`.actor_pool.ActorPool` with :func:`a3c_layout`.
    """

    def __init__(self, params, shared):
        self.start, self.shared = params, shared

    def reset(self):
        zeros = {f"second.{name}": np.zeros_like(value) for name, value in self.start.items()}
        self.load_state({f"online.{name}": value for name, value in self.start.items()} | zeros | {"step": 0})

    @property
    def params(self):
        return {name: self.shared[name][0].copy() for name in self.start}

    def state(self):
        """Return weights, mean squares and the number of gradients applied, arrays by name."""
        squares = {f"second.{name}": self.shared[f"square.{name}"].copy() for name in self.start}
        weights = {f"online.{name}": value for name, value in self.params.items()}
        return weights | squares | {"step": np.array(self.shared["applied"].sum(), np.int32)}

    def load_state(self, state):
        for name in self.start:
            self.shared[name][0] = state[f"online.{name}"]
            self.shared[f"square.{name}"][...] = state[f"second.{name}"]
        self.shared["applied"][...] = 0
        self.shared["applied"][0] = state["step"]


def a3c_layout(config):
    """Return shapes and dtypes of the arrays that workers share besides weights and rollouts.

    ``square.*`` f32, mean squares of the gradients; ``applied`` i64[A], number of gradients each worker has applied;
    ``losses`` f32[D, A, 4], loss and parts of each rollout; ``seconds`` f64[A, phases], totals of each worker.
    """
    squares = {f"square.{name}": (np.shape(value), np.float32) for name, value in config["params"].items()}
    workers = config["actors"]
    counts = {"applied": ((workers,), np.int64), "seconds": ((workers, len(PHASES)), np.float64)}
    return squares | counts | {"losses": ((1 + config["ahead"], workers, 1 + len(PARTS)), np.float32)}


class A3c(PoolLoop):
    """Loop of A3C: the workers play and learn, while this process waits for them.

    ``config`` has the entries of :class:`.loop.Loop`, the number of ``actors``, and how many rollouts a worker may be
    ``ahead`` of the slowest one; ``options`` and ``backend`` are those of the workers.
    """

    def __init__(self, config, options, backend):
        start = first_state(config)
        pool = ActorPool(
            config, start, config["ahead"] + 1, options, backend, versions=1, actor_class=Worker,
            extra=a3c_layout(config),
        )  # fmt: skip
        super().__init__(config, pool, start, SharedWeights(config["params"], pool.shared), Phases("waiting"))

    def learn(self, rollout, number):
        """Record the staleness of a rollout's gradients; return loss and parts of each worker, an array f32[A, 4]."""
        self.lags.update(self.pool.behind(number).tolist())
        return self.pool.shared["losses"][number % self.pool.depth].copy()

    def reset(self):
        super().reset()
        self.pool.shared["seconds"][...] = 0

    def phases(self):
        """Return the seconds per phase since the last reset: means over the workers, and the rest as ``waiting``."""
        spent = dict(zip(PHASES, self.pool.shared["seconds"].mean(0).tolist()))
        return {"waiting": max(0.0, self.clock.seconds["waiting"] - sum(spent.values())), **spent}
