"""A3C (Mnih et al. 2016, Algorithm S3), with worker processes that share weights without locks.

A worker copies the shared weights, plays T steps of its environments, computes a gradient on its copy, and applies it
to the shared weights by RMSProp with shared mean squares. The staleness of a gradient is the number of gradients that
other workers have applied since the copy.

Axes: T steps, N environments of all workers, A workers, D rollouts in memory, one more than ``ahead``.
"""

from __future__ import annotations

import numpy as np
import torch

from ..common.phases import Phases
from ..common.torch_pictures import OIHW
from ._torch import A2C_EPS, rmsprop
from .crew import Crew, rollout_of
from .learners import A2c
from .parallel import CrewLoop
from .players import Player

AHEAD = 3  # default of the spec's ``ahead``
PHASES = ("publishing", "environment", "inference", "gathering", "advantages", "learning")  # of a worker


def layout(spec):
    """Return shapes and dtypes of what the workers share besides weights and rollouts.

    ``square.*`` f32, mean squares of the gradients; ``applied`` i64[A], number of gradients each worker has applied;
    ``losses`` f32[D, A], one per rollout; ``seconds`` f64[A, phases], totals of each worker.
    """
    squares = {f"square.{name}": (np.shape(value), np.float32) for name, value in spec["params"].items()}
    workers = spec["actors"]
    counted = {"applied": ((workers,), np.int64), "seconds": ((workers, len(PHASES)), np.float64)}
    return squares | counted | {"losses": ((1 + spec.get("ahead", AHEAD), workers), np.float32)}


class SharedWeights:
    """The shared weights and mean squares, with the interface of :class:`~rl_impls.common.torch_learner.Trained`.

    ``shared`` is the result of :func:`.crew.memory` with :func:`layout`.
    """

    def __init__(self, params, shared):
        self.start, self.shared = params, shared

    def reset(self):
        """Restore the initial weights and clear the mean squares and the counts."""
        zeros = {f"second.{name}": np.zeros_like(value) for name, value in self.start.items()}
        self.load_state({f"online.{name}": value for name, value in self.start.items()} | zeros | {"step": 0})

    @property
    def params(self):
        """Copy of the shared weights as NumPy arrays, by name."""
        return {name: self.shared[name][0].copy() for name in self.start}

    def state(self):
        """Return weights, mean squares and the number of gradients applied, arrays by name."""
        squares = {f"second.{name}": self.shared[f"square.{name}"].copy() for name in self.start}
        weights = {f"online.{name}": value for name, value in self.params.items()}
        return weights | squares | {"step": np.array(self.shared["applied"].sum(), np.int32)}

    def load_state(self, state):
        """Restore a state that :meth:`state` returned."""
        for name in self.start:
            self.shared[name][0] = state[f"online.{name}"]
            self.shared[f"square.{name}"][...] = state[f"second.{name}"]
        self.shared["applied"][...] = 0
        self.shared["applied"][0] = state["step"]


class SharedRmsprop:
    """Optimiser that applies the gradients of a worker's own weights to the shared weights.

    Args:
        own: the worker's parameters.
        shared: tensors that view the shared weights in the parameters' layout.
        squares: tensors that view the shared mean squares likewise.
        make: ``make(tensors)``, the torch optimiser.
        count: called after each step.
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


class Worker(Player):
    """Worker process of A3C; ``shared`` is that of :class:`SharedWeights`, ``args`` go to :class:`.players.Player`."""

    def __init__(self, shared, *args):
        self.shared, self.clock = shared, Phases(*PHASES)
        super().__init__(*args)
        own = [self.train.net.weights[name] for name in self.spec["params"]]
        tensors = [[as_parameter(shared[name][0]) for name in self.spec["params"]]]
        tensors += [[as_parameter(shared[f"square.{name}"]) for name in self.spec["params"]]]
        make = rmsprop(self.spec, self.options, A2C_EPS)[0]
        self.train.optimizer = SharedRmsprop(own, *tensors, make, self.count)

    def make_update(self, options, backend):
        """Return the update of the worker's own copy; ``__init__`` replaces its optimiser."""
        self.options, self.learner = options, A2c(self.spec, options, backend, self.clock)
        return self.learner.train

    def count(self):
        """Record a gradient's staleness and count it as applied."""
        applied = self.shared["applied"]
        self.staleness = int(applied.sum()) - self.copied
        applied[self.index] += 1

    def play(self, number):
        """Play rollout ``number`` with a copy of the shared weights, and apply its gradient to them."""
        self.clock.reset()
        shared, slot = self.shared, number % len(self.shared["behind"])
        self.copied = int(shared["applied"].sum())
        self.train.load({name: shared[name][0] for name in self.spec["params"]})
        self.clock("publishing")
        rollout = rollout_of(shared, slot, self.share)
        self.play_into(number, rollout)
        [shared["losses"][slot, self.index]] = self.learner.learn(rollout, number)
        shared["behind"][slot, self.index] = self.staleness
        shared["seconds"][self.index] += list(self.clock.seconds.values())


def as_parameter(array):
    """Return a tensor that shares an f32 array's memory, permuted from the spec's layout to the parameter's."""
    tensor = torch.from_numpy(array)
    return tensor.permute(OIHW) if tensor.dim() == 4 else tensor


class A3c(CrewLoop):
    """Loop of A3C: the workers play and learn, while this process waits for them.

    ``spec`` is the configuration, see :class:`.spec.Spec`; ``options`` and ``backend`` are those of the workers.
    """

    def __init__(self, spec, options, backend):
        def make_crew(*args):
            crew = Crew(*args, options, backend, versions=1, make=Worker, more=layout(spec))
            self.train = SharedWeights(spec["params"], crew.shared)
            return crew

        super().__init__(spec, spec.get("ahead", AHEAD), make_crew, Phases("waiting"))

    def reset(self):
        """Restore the initial environments and weights, and the phases' seconds to 0."""
        super().reset()
        self.crew.shared["seconds"][...] = 0

    def phases(self):
        """Return the seconds per phase since the last reset: means over the workers, and the rest as ``waiting``."""
        spent = dict(zip(PHASES, self.crew.shared["seconds"].mean(0).tolist()))
        return {"waiting": max(0.0, self.clock.seconds["waiting"] - sum(spent.values())), **spent}

    def learn(self, rollout, number):
        """Record the staleness of a rollout's gradients; return the workers' losses, an array f32[A]."""
        self.lags.update(self.crew.behind(number).tolist())
        return self.crew.shared["losses"][number % self.crew.depth].copy()
